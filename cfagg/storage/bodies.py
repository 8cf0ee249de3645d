"""Bodies of requests: bytes in memory, or a local file that is read as it is sent.

A file is not memory-mapped, because truncating it meanwhile would then kill the process.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

from cfagg.errors import TargetError
from cfagg.storage.positioned import read_at

__all__ = ["Body", "bytes_of", "pieces", "sha256"]

#: Number of bytes of a file that are in memory at once.
_AT_ONCE = 1 << 22


class Body(Protocol):
    """Bytes to be sent, piece by piece."""

    @property
    def nbytes(self) -> int:
        """Return the number of bytes."""

    def __getitem__(self, piece: slice, /) -> memoryview:
        """Return a slice of the bytes."""


class _File:
    """The bytes of a file; `TargetError` is raised once the file has changed."""

    def __init__(self, path: Path, descriptor: int) -> None:
        self._path, self._descriptor = path, descriptor
        state = os.fstat(descriptor)
        self.nbytes, self._written = state.st_size, state.st_mtime_ns

    def __getitem__(self, piece: slice) -> memoryview:
        begin, end, _ = piece.indices(self.nbytes)
        found = read_at(self._descriptor, max(end - begin, 0), begin)
        self.check()
        return memoryview(found)

    def check(self) -> None:
        """Refuse a file that was written meanwhile, which would mix old and new parts."""
        state = os.fstat(self._descriptor)
        if (state.st_size, state.st_mtime_ns) != (self.nbytes, self._written):
            raise TargetError(
                f"{self._path} was written while it was sent: it had {self.nbytes:,} bytes and has "
                f"{state.st_size:,}; send it again when it is complete"
            )


@contextmanager
def bytes_of(data: Any) -> Iterator[Body]:
    """Give the body to send: a file given by its path, or bytes."""
    if not isinstance(data, Path):
        found = memoryview(data)
        yield found.cast("B") if found.nbytes else memoryview(b"")
        return
    with data.open("rb") as file:
        yield _File(data, file.fileno())


def pieces(body: Body) -> Iterator[tuple[int, memoryview]]:
    """Yield the pieces of a body, each with its offset."""
    for begin in range(0, body.nbytes, _AT_ONCE):
        yield begin, body[begin : begin + _AT_ONCE]


def sha256(body: Body) -> str:
    """Return the SHA-256 digest of a body in hexadecimal."""
    if isinstance(body, memoryview):
        return hashlib.sha256(body).hexdigest()
    made = hashlib.sha256()
    for _, piece in pieces(body):
        made.update(piece)
    return made.hexdigest()
