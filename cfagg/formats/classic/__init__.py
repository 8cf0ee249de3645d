"""Classic netCDF (CDF-1, CDF-2 and CDF-5) as one of cfagg's formats, with one header parser for values and metadata."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cfagg.formats.classic.header import MAGIC

if TYPE_CHECKING:
    from cfagg.formats.values.storage import StoredVariable
    from cfagg.model.dataset import Dataset
    from cfagg.storage.files import Context, Handle

__all__ = ["FORMAT", "Classic"]


class Classic:
    """Values in blocks of bytes, which are read by position."""

    name = "classic netCDF"

    def recognise(self, head: bytes, path: str) -> bool:  # noqa: ARG002
        """Return whether a file begins like one of its versions."""
        return head.startswith(MAGIC)

    def open(self, handle: Handle) -> Dataset:
        """Return the description of a file."""
        from cfagg.formats.classic.dataset import open_classic

        return open_classic(handle)

    def locate(self, handle: Handle, head: bytes, address: str, group: str, context: Context) -> StoredVariable:  # noqa: ARG002
        """Return the location of the values of a variable."""
        from cfagg.formats.classic import variables
        from cfagg.formats.values.storage import no_variable

        found = variables.find(handle, address, context)
        if found is None:
            raise no_variable(handle, address, variables.names(handle, context), context)
        return found


FORMAT = Classic()
