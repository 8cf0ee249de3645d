"""The interface of a file format: see "Formats of other packages" in docs/architecture.md."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, runtime_checkable

if TYPE_CHECKING:
    from cfagg.formats.values.storage import StoredVariable
    from cfagg.model.dataset import Dataset
    from cfagg.storage.files import Context, Handle

__all__ = ["Format", "Locating"]


@runtime_checkable
class Format(Protocol):
    """A file format: a built-in one, or that of another package under the entry point group ``cfagg.formats``.

    It never gets a path to open, only an open regular file, whose bytes it reads by position.
    """

    #: Its name in messages.
    name: str

    def recognise(self, head: bytes, path: str) -> bool:
        """Return whether a file has this format, by its first bytes (as many as `HEAD`) rather than its name."""

    def open(self, handle: Handle) -> Dataset:
        """Return the contents of a file; raise `SourceError` if it is damaged.

        Values are read on demand from the file, which stays open.  Each variable has either ``chunks``, a function that
        returns its table of chunks, by which cfagg reads and decodes them in several threads; or ``read``, a function
        that reads hyperslabs, perhaps through another library, in one thread at a time.
        """


@runtime_checkable
class Locating(Format, Protocol):
    """A built-in format that finds one variable without describing the whole file, for aggregations."""

    def locate(self, handle: Handle, head: bytes, address: str, group: str, context: Context) -> StoredVariable | None:
        """Return a variable with its header, and its table of chunks or other form of storage.

        The address is a name or path, and a plain name is searched from the group upwards; `context` describes the
        purpose in messages.  `None` means that only a library can find it; a `CfaggError`, no such variable, or damage.
        """
