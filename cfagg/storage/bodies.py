"""What a request sends: bytes in memory, or a file of this machine that is read as it goes out.

A file is not mapped into memory: one that is cut short meanwhile would end the process.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

from cfagg.errors import TargetError

__all__ = ["Body", "bytes_of", "pieces", "sha256"]

#: Bytes that are in memory at once of what is read from a file.
_AT_ONCE = 1 << 22


class Body(Protocol):
    """Bytes that are sent, by pieces."""

    @property
    def nbytes(self) -> int:
        """Return how many there are."""

    def __getitem__(self, piece: slice, /) -> memoryview:
        """Return some of them."""


class _File:
    """The bytes of a file; `TargetError` once it is not as it was."""

    def __init__(self, path: Path, descriptor: int) -> None:
        self._path, self._descriptor = path, descriptor
        state = os.fstat(descriptor)
        self.nbytes, self._written = state.st_size, state.st_mtime_ns

    def __getitem__(self, piece: slice) -> memoryview:
        begin, end, _ = piece.indices(self.nbytes)
        found = bytearray()
        while len(found) < end - begin and (more := os.pread(self._descriptor, end - begin - len(found), begin)):
            found += more
            begin += len(more)
        self.check()
        return memoryview(found)

    def check(self) -> None:
        """Refuse a file that was written meanwhile, of which parts of before and after would be mixed."""
        state = os.fstat(self._descriptor)
        if (state.st_size, state.st_mtime_ns) != (self.nbytes, self._written):
            raise TargetError(
                f"{self._path} was written while it was sent: it had {self.nbytes:,} bytes and has "
                f"{state.st_size:,}; send it again when it is complete"
            )


@contextmanager
def bytes_of(data: Any) -> Iterator[Body]:
    """Give what is sent: a file by its path, or bytes."""
    if not isinstance(data, Path):
        found = memoryview(data)
        yield found.cast("B") if found.nbytes else memoryview(b"")
        return
    with data.open("rb") as file:
        yield _File(data, file.fileno())


def pieces(body: Body) -> Iterator[tuple[int, memoryview]]:
    """Yield a body by pieces, and where each begins."""
    for begin in range(0, body.nbytes, _AT_ONCE):
        yield begin, body[begin : begin + _AT_ONCE]


def sha256(body: Body) -> str:
    """Return the digest of a body in hexadecimal."""
    if isinstance(body, memoryview):
        return hashlib.sha256(body).hexdigest()
    made = hashlib.sha256()
    for _, piece in pieces(body):
        made.update(piece)
    return made.hexdigest()
