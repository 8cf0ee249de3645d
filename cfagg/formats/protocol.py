"""What a file format offers: see "Formats of other packages" in docs/architecture.md."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, runtime_checkable

if TYPE_CHECKING:
    from cfagg.formats.values.storage import StoredVariable
    from cfagg.model.dataset import Dataset
    from cfagg.storage.files import Context, Handle

__all__ = ["Format", "Locating"]


@runtime_checkable
class Format(Protocol):
    """A format of files: one of cfagg's own, or of another package under the entry point group ``cfagg.formats``.

    It never gets a path to open, only what is open already: a regular file, whose bytes it reads by positions.

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


@runtime_checkable
class Locating(Format, Protocol):
    """A format that knows where values stand, so that cfagg reads and decodes them itself, on several threads."""

    def locate(self, handle: Handle, head: bytes, address: str, group: str, context: Context) -> StoredVariable | None:
        """Return where the values of a variable stand: one block of bytes, or the chunks of HDF5.

        Parameters
        ----------
        handle, head
            The file, and its first bytes.
        address, group : str
            Name or path of the variable, and the group from which a plain name is searched, upwards.
        context : Context
            For whom, for messages.

        Returns
        -------
        StoredVariable or None
            `None` where its values are only read by the function that the variable has.

        Raises
        ------
        CfaggError
            If there is no such variable, or the file is damaged.
        """
