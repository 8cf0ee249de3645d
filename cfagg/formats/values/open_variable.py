"""A variable of an open file, read from the location of its values."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

# The functions that read values are loaded on first use.
if TYPE_CHECKING:
    import numpy.typing as npt

    from cfagg.formats.values.by_table import Part
    from cfagg.formats.values.storage import StoredVariable
    from cfagg.storage.files import Context, Handle
    from cfagg.storage.gate import Checked

    _Slab = Callable[[tuple[slice, ...]], npt.NDArray[Any]]

__all__ = ["OpenVariable"]


class OpenVariable:
    """Reads a variable of an open file from the location of its values, which is found on the first read.

    If only a library knows it, `find` returns a function that reads hyperslabs instead.
    """

    __slots__ = ("_context", "_find", "_found", "_handle", "_lock")

    def __init__(self, handle: Handle, find: Callable[[], StoredVariable | _Slab], context: Context) -> None:
        self._handle, self._find, self._context = handle, find, context
        self._lock = threading.Lock()
        self._found: StoredVariable | _Slab | None = None

    @property
    def found(self) -> StoredVariable | _Slab:
        """The location of the values, or a function that reads them."""
        with self._lock:
            if self._found is None:
                self._found = self._find()
            return self._found

    def __call__(self, slices: tuple[slice, ...]) -> npt.NDArray[Any]:
        """Return a hyperslab, like `read`."""
        found = self.found
        if callable(found):
            return found(slices)
        from cfagg.formats.values.reading import read

        return read(self._admitted(found), found, slices, self._context)

    def scan(self, slices: Sequence[slice]) -> Iterable[Part]:
        """Return a hyperslab in parts, like `scan`."""
        found = self.found
        if callable(found):
            block = found(tuple(slices))
            return ((tuple(slice(0, n) for n in block.shape), block),)
        from cfagg.formats.values.reading import scan

        return scan(self._admitted(found), found, slices, self._context)

    def _admitted(self, found: StoredVariable) -> Checked:
        from cfagg.storage.gate import admit

        return admit(self._handle, found.path, found.references, self._context)
