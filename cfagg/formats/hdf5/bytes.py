"""Sources of the bytes of HDF5 files: any object with a length and slices, like `bytes` and `mmap`."""

from __future__ import annotations

import mmap
import os
from collections.abc import Iterator
from contextlib import contextmanager
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


@contextmanager
def bytes_of(handle: Handle) -> Iterator[Bytes]:
    """Hold the bytes of a local or remote file."""
    if handle.data is not None:
        yield handle.data
        return
    data = Window(handle.fd, handle.key.size)
    try:
        yield data
    finally:
        data.close()


class Window:
    """The bytes of an open file of `size` bytes: the first are read at once, the others mapped into memory."""

    __slots__ = ("_fd", "_mapped", "_size", "near")

    def __init__(self, fd: int, size: int) -> None:
        self._fd, self._size = fd, size
        #: The first bytes.
        self.near = os.pread(fd, min(_HEAD, size), 0)
        self._mapped: mmap.mmap | None = None

    def __len__(self) -> int:
        return self._size

    def __getitem__(self, where: slice) -> bytes:
        if where.stop <= len(self.near):
            return self.near[where]
        if self._mapped is None:
            self._mapped = mmap.mmap(self._fd, self._size, access=mmap.ACCESS_READ)
        return self._mapped[where]

    def close(self) -> None:
        """Release the memory."""
        if self._mapped is not None:
            self._mapped.close()


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
