"""What a file format has to offer to be one of cfagg's: see "Formats of other packages" in docs/architecture.md."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from cfagg.model.dataset import Dataset
from cfagg.storage.files import Handle

__all__ = ["Format"]


@runtime_checkable
class Format(Protocol):
    """A format of files that another package brings, as an entry point of the group ``cfagg.formats``.

    It is asked about files that cfagg does not know itself.  It never gets a path to open, only what is open already:
    a regular file, whose bytes it reads by positions.

    Attributes
    ----------
    name : str
        What messages call the format.
    """

    name: str

    def recognise(self, head: bytes, path: str) -> bool:
        """Tell whether a file is of this format.

        Parameters
        ----------
        head : bytes
            Its first `cfagg.formats.opening.HEAD` bytes, fewer where it is shorter.
        path : str
            What it is called, which says less than what is in it.
        """

    def open(self, handle: Handle) -> Dataset:
        """Return the description of a file; values are read by the function that each variable has, on demand.

        Parameters
        ----------
        handle : Handle
            The file, of which ``some(size, offset)`` and ``exactly(size, offset)`` return bytes.  It stays open as long
            as the dataset is, and is not closed here.

        Raises
        ------
        SourceError
            If the file is damaged.
        """
