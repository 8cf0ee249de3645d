"""Sources of the bytes of HDF5 files: any object with a length and slices, like `bytes` and `mmap`."""

from __future__ import annotations

from typing import Protocol
from weakref import ref

from cfagg.storage.files import Handle

__all__ = ["Bytes", "HandleBytes", "Shifted", "Window", "bytes_of"]

#: First bytes that are read at once, which include most headers.
_HEAD = 1 << 16


class Bytes(Protocol):
    """Bytes that can be sliced: in memory, by positioned reads, or from another machine."""

    def __len__(self) -> int:
        """Return the number of bytes."""

    def __getitem__(self, where: slice) -> bytes:
        """Return some bytes, fewer at the end; the slice has a start, a stop and no step."""


def bytes_of(handle: Handle) -> Bytes:
    """Return the bytes of a local or remote file."""
    return Window(handle) if handle.data is None else handle.data


class Window:
    """The bytes of an open local file, of which the first are read at once.

    It is not mapped into memory, because truncating the file meanwhile would then kill the process.
    """

    __slots__ = ("_handle", "_size", "near")

    def __init__(self, handle: Handle) -> None:
        self._handle, self._size = handle, handle.key.size
        #: The first bytes.
        self.near = handle.some(min(_HEAD, self._size), 0)

    def __len__(self) -> int:
        return self._size

    def __getitem__(self, where: slice) -> bytes:
        if where.stop <= len(self.near):
            return self.near[where]
        size = min(where.stop, self._size) - where.start
        return self._handle.some(size, where.start) if size > 0 else b""


class Shifted:
    """The bytes after a user block of `begin` bytes."""

    def __init__(self, data: Bytes, begin: int) -> None:
        self._data, self._begin = data, begin

    def __len__(self) -> int:
        return max(len(self._data) - self._begin, 0)

    def __getitem__(self, where: slice) -> bytes:
        return self._data[where.start + self._begin : where.stop + self._begin]


class HandleBytes:
    """The bytes of an open file after a user block of `begin` bytes, which do not keep the file open."""

    def __init__(self, handle: Handle, begin: int = 0) -> None:
        self._handle, self._size, self._begin = ref(handle), handle.key.size, begin

    def __len__(self) -> int:
        return max(self._size - self._begin, 0)

    def __getitem__(self, where: slice) -> bytes:
        start = where.start or 0
        stop = min(where.stop, len(self))
        handle = self._handle()
        assert handle is not None  # noqa: S101 - whoever asks holds it
        return handle.some(stop - start, start + self._begin) if stop > start else b""
