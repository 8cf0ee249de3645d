"""Writing large files past the page cache, on the disks of this machine and where the system can.

What is written once and is larger than memory gains nothing from a copy in the page cache, which costs more than the
encoding of some fields: pages are found, filled, and written out later, while what others read is thrown away for them.
File systems of other machines have better ways of their own.
"""

from __future__ import annotations

import contextlib
import ctypes
import mmap
import os
import threading
from io import FileIO
from typing import Any

from cfagg.runtime.publishing import write_all

__all__ = ["ALIGNMENT", "aligned", "copy_large", "write_large"]

#: Bytes from which a file is written past the page cache; smaller ones the system takes better many at a time.
_LARGE = 1 << 20

#: What devices want addresses and lengths to be multiples of; none wants more.
ALIGNMENT = 4096

#: The request by which a file comes to share the blocks of another (linux/fs.h, FICLONE).
_SHARE = 0x40049409

#: Bytes that are moved at a time where they do not lie as devices want.
_BLOCK = 4 << 20

#: The flag that files are given; 0 where the system has none.
_FLAG: int = getattr(os, "O_DIRECT", 0)


def aligned(count: int) -> memoryview:
    """Return memory from which files can be written past the page cache without another copy.

    >>> aligned(5).nbytes, _is_aligned(aligned(5)), _is_aligned(aligned(5)[1:])
    (5, True, False)
    """
    # Of its own in each process: by default, the memory would be shared with those that are forked from this one.
    private = {"flags": mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS} if os.name == "posix" else {}
    return memoryview(mmap.mmap(-1, max(count, 1), **private))[:count]


class _Block(threading.local):
    """Aligned memory of one thread."""

    held: memoryview | None = None


_kept = _Block()


def write_large(file: FileIO, data: Any) -> None:
    """Write all bytes to an unbuffered file that is empty, many past the page cache; a sync is needed all the same."""
    left = memoryview(data).cast("B")
    if len(left) >= _LARGE and _turned(file, True):
        try:
            left = _rest(file, left)
        finally:
            _turned(file, False)
    write_all(file, left)


def _rest(file: FileIO, data: memoryview) -> memoryview:
    """Write as much as can be past the page cache, and return what is left: less than a block, but where it failed."""
    at, end = 0, len(data) // ALIGNMENT * ALIGNMENT
    # What a file system refuses here it takes, or refuses with a reason, through the page cache.
    with contextlib.suppress(OSError):
        while at < end:
            part = _lying(data[at:end])
            done = file.write(part) or 0
            at += done
            if not done or done % ALIGNMENT:
                break
    return data[at:]


def copy_large(source: int, file: FileIO, size: int) -> int:
    """Copy the first bytes of an open file to an empty one, and return how many were: all, or few less, or none.

    Where the file system lets both share their blocks, nothing is copied.
    """
    if size < _LARGE or not _FLAG:
        return 0
    import fcntl

    with contextlib.suppress(OSError):
        fcntl.ioctl(file, _SHARE, source)
        return size
    at, end = 0, size // ALIGNMENT * ALIGNMENT
    if _turned(file, True):
        block = _own()
        try:
            # What fails here is tried again, and told, by who copies the rest.
            with contextlib.suppress(OSError):
                while at < end:
                    part = block[: min(end - at, _BLOCK)]
                    if os.preadv(source, [part], at) != len(part):
                        break
                    done = file.write(part) or 0
                    at += done
                    if done != len(part):
                        break
        finally:
            _turned(file, False)
    return at


def _lying(data: memoryview) -> memoryview:
    """Return bytes as devices want them to lie: themselves, or the first of them in other memory."""
    if _is_aligned(data):
        return data
    part = _own()[: len(data)]
    part[:] = data[: len(part)]
    return part


def _own() -> memoryview:
    """Return aligned memory of this thread."""
    if _kept.held is None:
        _kept.held = aligned(_BLOCK)
    return _kept.held


def _is_aligned(data: memoryview) -> bool:
    """Whether bytes lie as devices want them to, as far as can be known: of those that are read-only it is not told."""
    return not data.readonly and ctypes.addressof(ctypes.c_char.from_buffer(data)) % ALIGNMENT == 0


def _turned(file: FileIO, on: bool) -> bool:
    """Let writes go past the page cache, or no more; return whether the file system does so."""
    # File systems of other machines, and others that would rather have more at a time, say so by their blocks.
    if not _FLAG or os.fstat(file.fileno()).st_blksize > ALIGNMENT:
        return False
    import fcntl

    try:
        flags = fcntl.fcntl(file, fcntl.F_GETFL)
        fcntl.fcntl(file, fcntl.F_SETFL, flags | _FLAG if on else flags & ~_FLAG)
    except OSError:
        return False
    return True
