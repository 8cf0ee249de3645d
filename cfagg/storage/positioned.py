"""Reading open files by position: all bytes that are asked for, however many."""

from __future__ import annotations

import os
from typing import Any

__all__ = ["MOST", "fill_at", "read_at"]

#: Most bytes to ask the system for at once: macOS refuses 2 GiB and more, and Linux reads fewer then.
MOST = 1 << 30


def read_at(fd: int, size: int, offset: int) -> bytes:
    """Return `size` bytes of an open file from `offset` on, or fewer if it ends before that."""
    found = os.pread(fd, min(size, MOST), offset)
    while len(found) < size:
        more = os.pread(fd, min(size - len(found), MOST), offset + len(found))
        if not more:
            break
        found += more
    return found


def fill_at(fd: int, memory: Any, offset: int) -> int:
    """Fill memory, an array of bytes, from `offset` of an open file on; return their number, fewer at its end."""
    left = memoryview(memory)
    size = left.nbytes
    while left.nbytes:
        count = os.preadv(fd, [left[:MOST]], offset + size - left.nbytes)
        if not count:
            break
        left = left[count:]
    return size - left.nbytes
