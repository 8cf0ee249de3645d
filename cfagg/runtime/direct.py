"""Writing large local files with direct I/O, bypassing the page cache, if the system supports it.

Data that are written once and exceed the memory gain nothing from the page cache, which costs more than encoding some
fields: pages are allocated, filled and written out later, and the data that other processes read are evicted. Network
file systems have better methods.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import mmap
import os
import threading
from io import FileIO
from typing import Any

from cfagg.runtime.publishing import write_all

__all__ = ["ALIGNMENT", "aligned", "copy_large", "write_large"]

#: Files of at least this size are written with direct I/O; the system handles smaller ones better in batches.
_LARGE = 1 << 20

#: Addresses and lengths are multiples of this; no device needs a larger alignment.
ALIGNMENT = 4096

#: The ioctl that makes a file share the blocks of another (linux/fs.h, FICLONE).
_SHARE = 0x40049409

#: Number of bytes that are copied at a time if they are not aligned.
_BLOCK = 4 << 20

#: The flag of files opened for direct I/O; 0 if the system has none.
_FLAG: int = getattr(os, "O_DIRECT", 0)


def aligned(count: int) -> memoryview:
    """Return memory from which files can be written with direct I/O without another copy.

    >>> aligned(5).nbytes, _is_aligned(aligned(5)), _is_aligned(aligned(5)[1:])
    (5, True, False)
    """
    # Private to each process; by default the memory would be shared with forked processes.
    return memoryview(mmap.mmap(-1, max(count, 1), flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS))[:count]


class _Block(threading.local):
    """Aligned memory of one thread."""

    held: memoryview | None = None


_kept = _Block()


def write_large(file: FileIO, data: Any) -> None:
    """Write all bytes to an empty unbuffered file, most with direct I/O; a sync is still necessary."""
    left = memoryview(data).cast("B")
    if len(left) >= _LARGE and _turned(file, True):
        try:
            left = _rest(file, left)
        finally:
            _turned(file, False)
    write_all(file, left)


def _rest(file: FileIO, data: memoryview) -> memoryview:
    """Write as much as possible with direct I/O, and return the rest: less than a block unless a write failed."""
    at, end = 0, len(data) // ALIGNMENT * ALIGNMENT
    # If the file system refuses a direct write, the page cache is used, which succeeds or reports a reason.
    with contextlib.suppress(OSError):
        while at < end:
            part = _lying(data[at:end])
            done = file.write(part) or 0
            at += done
            if not done or done % ALIGNMENT:
                break
    return data[at:]


def copy_large(source: int, file: FileIO, size: int) -> int:
    """Copy the first bytes of an open file to an empty one, and return their number: all, nearly all, or none.

    If the file system lets both share their blocks, nothing is copied.
    """
    if size < _LARGE or not _FLAG:
        return 0
    with contextlib.suppress(OSError):
        fcntl.ioctl(file, _SHARE, source)
        return size
    at, end = 0, size // ALIGNMENT * ALIGNMENT
    if _turned(file, True):
        block = _own()
        try:
            # On failure, the caller copies the rest and reports any error.
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
    """Return aligned bytes: the same ones, or a copy of the first of them in aligned memory."""
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
    """Whether bytes are known to be aligned; for read-only bytes this is unknown."""
    return not data.readonly and ctypes.addressof(ctypes.c_char.from_buffer(data)) % ALIGNMENT == 0


def _turned(file: FileIO, on: bool) -> bool:
    """Switch direct I/O on or off; return whether the file system supports it."""
    # Network file systems, and others that prefer larger blocks, have a larger preferred block size.
    if not _FLAG or os.fstat(file.fileno()).st_blksize > ALIGNMENT:
        return False
    try:
        flags = fcntl.fcntl(file, fcntl.F_GETFL)
        fcntl.fcntl(file, fcntl.F_SETFL, flags | _FLAG if on else flags & ~_FLAG)
    except OSError:
        return False
    return True
