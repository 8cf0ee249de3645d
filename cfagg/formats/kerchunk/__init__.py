"""References to chunks in other files, as written by kerchunk and VirtualiZarr: a Zarr store without its chunks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cfagg.formats.kerchunk.references import is_head

if TYPE_CHECKING:
    from collections.abc import Iterable

    from cfagg.model.dataset import Dataset
    from cfagg.storage.files import Handle

__all__ = ["FORMAT"]


class _Kerchunk:
    """See `cfagg.formats.protocol.Format`."""

    name = "kerchunk"

    def recognise(self, head: bytes, path: str) -> bool:  # noqa: ARG002
        """Return whether a file is a table of references, perhaps compressed."""
        return is_head(head)

    def open(self, handle: Handle, allow: Iterable[str] = (), *, times: bool = False) -> Dataset:
        """Return the dataset whose chunks a file refers to, next to it, below or in allowed places; it is closed."""
        from cfagg.formats.kerchunk.store import ReferenceStore, references_of
        from cfagg.formats.metadata.zarr import open_store

        dataset = open_store(ReferenceStore(references_of(handle, allow)), times=times)
        handle.close()
        dataset.format = self.name
        return dataset


FORMAT = _Kerchunk()
