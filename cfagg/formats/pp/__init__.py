"""PP files and fields files of the Met Office's Unified Model: records, headers, packed values, and CF metadata."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cfagg.formats.values.storage import StoredVariable
    from cfagg.model.dataset import Dataset
    from cfagg.storage.files import Context, Handle

__all__ = ["FORMAT", "Pp"]


class Pp:
    """Consecutive fields, which are combined into as few variables as possible."""

    name = "PP"

    def recognise(self, head: bytes, path: str) -> bool:  # noqa: ARG002
        """Return whether a file begins with the header of a field in a record, or with that of a fields file."""
        from cfagg.formats.pp.fields_files import lookup_form
        from cfagg.formats.pp.records import form_of

        return form_of(head) is not None or lookup_form(head) is not None

    def open(self, handle: Handle) -> Dataset:
        """Return the description of a file by the headers of its fields."""
        from cfagg.formats.pp.addresses import scan_fields
        from cfagg.formats.pp.dataset import dataset_of

        return dataset_of(handle, scan_fields(handle))

    def locate(self, handle: Handle, head: bytes, address: str, group: str, context: Context) -> StoredVariable:  # noqa: ARG002
        """Return a variable by name, with the table of its fields."""
        from cfagg.formats.pp.locating import stored_variable

        return stored_variable(handle, address, group, context)


FORMAT = Pp()
