"""Where the bytes of HDF5 files come from: any object with a length and slices, as `bytes` and `mmap` have."""

from __future__ import annotations

import mmap
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol
from weakref import ref

from cfagg.storage.files import Handle

__all__ = ["Bytes", "HandleBytes", "Shifted", "bytes_of"]


class Bytes(Protocol):
    """Bytes that can be had in slices: in memory, by positioned reads, or from another machine."""

    def __len__(self) -> int:
        """Return how many there are."""

    def __getitem__(self, where: slice) -> bytes:
        """Return some, fewer where they end: the slice has a start, a stop and no step."""


@contextmanager
def bytes_of(handle: Handle) -> Iterator[Bytes]:
    """Hold the bytes of a file, here or on another machine."""
    if handle.data is not None:
        yield handle.data
        return
    with mmap.mmap(handle.fd, 0, access=mmap.ACCESS_READ) as data:
        yield data


class Shifted:
    """The bytes behind a user block of `begin` bytes."""

    def __init__(self, data: Bytes, begin: int) -> None:
        self._data, self._begin = data, begin

    def __len__(self) -> int:
        return max(len(self._data) - self._begin, 0)

    def __getitem__(self, where: slice) -> bytes:
        return self._data[where.start + self._begin : where.stop + self._begin]


class HandleBytes:
    """The bytes of an open file behind a user block of `begin` bytes; they do not keep the file open."""

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
