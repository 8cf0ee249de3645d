"""HDF5 as one of cfagg's formats: object headers, heaps, trees and checksums, read from untrusted bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cfagg.formats.values.storage import StoredVariable
    from cfagg.model.dataset import Dataset
    from cfagg.storage.files import Context, Handle

__all__ = ["FORMAT", "MAGIC", "Hdf5"]

MAGIC = b"\x89HDF\r\n\x1a\n"


class Hdf5:
    """Read without the library if the result is proven to be the same, else through h5py."""

    name = "HDF5"

    def recognise(self, head: bytes, path: str) -> bool:  # noqa: ARG002
        """Return whether a file begins like HDF5; after a user block `cfagg.formats.opening` finds it."""
        return head.startswith(MAGIC)

    def open(self, handle: Handle) -> Dataset:
        """Return the description of a file."""
        if handle.some(len(MAGIC), 0) == MAGIC:
            from cfagg.formats.hdf5.dataset import open_fast

            dataset = open_fast(handle)
            if dataset is not None:
                return dataset
        from cfagg.formats.hdf5.library_dataset import open_hdf5

        return open_hdf5(handle)

    def locate(self, handle: Handle, head: bytes, address: str, group: str, context: Context) -> StoredVariable | None:
        """Return the location of the values of a variable, or `None` if only the netCDF library knows it."""
        from cfagg.formats.hdf5 import variables

        found = variables.find(handle, head, address, group) if head.startswith(MAGIC) else None
        if found is not None:
            return found
        from cfagg.formats.hdf5 import library_variables

        return library_variables.find(handle, address, context, group)

    def locate_all(self, handle: Handle, head: bytes, addresses: Sequence[str]) -> dict[str, StoredVariable]:
        """Return several variables, each as by `locate`; unusual ones are left to it."""
        from cfagg.formats.hdf5 import variables

        return variables.find_all(handle, head, addresses) if head.startswith(MAGIC) else {}

    def locate_every(self, handle: Handle, head: bytes, aside: Handle) -> dict[str, StoredVariable] | None:
        """Return all variables of a file in its order, or `None` if they have to be listed by others."""
        # Data on which no variable depends are read `aside`, from the same file.
        from cfagg.formats.hdf5 import variables

        return variables.find_every(handle, head, aside) if head.startswith(MAGIC) else None


FORMAT = Hdf5()
