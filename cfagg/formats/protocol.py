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
    """

    #: What messages call it.
    name: str

    def recognise(self, head: bytes, path: str) -> bool:
        """Tell whether a file is of this format: by its first bytes (as many as `HEAD`), rather than by its name."""

    def open(self, handle: Handle) -> Dataset:
        """Return what is in a file; a `SourceError` says that it is damaged.

        Values are read on demand, from the file that stays open as long.  Each variable has either ``chunks``, a
        function that returns its table of chunks, by which cfagg reads and decodes them on several threads; or
        ``read``, a function that reads hyperslabs, perhaps through another library, by one thread at a time.
        """


@runtime_checkable
class Locating(Format, Protocol):
    """A format of cfagg's own that finds one variable without describing the whole file, for aggregations."""

    def locate(self, handle: Handle, head: bytes, address: str, group: str, context: Context) -> StoredVariable | None:
        """Return a variable with its header, and its table of chunks or how else its values are stored.

        The address is a name or path, and a plain name is searched from the group upwards; `context` says for whom, for
        messages.  `None` means that only a library knows; a `CfaggError`, that there is no such variable, or damage.
        """
