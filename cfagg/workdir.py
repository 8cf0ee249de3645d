"""What work directories beside a target need of the system: locks, forced writes, exchanges, and words for failures."""

from __future__ import annotations

import ctypes
import os
import sys
from pathlib import Path
from typing import IO

from cfagg.errors import TargetError

__all__ = ["exchange", "locked", "reason", "sync_directory"]


def locked(path: Path, doing: str) -> IO[bytes]:
    """Return an open file that is locked for as long as it stays open.

    Parameters
    ----------
    path : Path
        The file; it is made if it is not there.
    doing : str
        What a process does that holds the lock, for the error.

    Raises
    ------
    TargetError
        Another process holds it.
    """
    file = path.open("ab")
    try:
        import fcntl
    except ImportError:  # no such locks on this system
        return file
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # The process that held it may just have finished and removed it.
        ours = path.exists() and os.path.samestat(os.fstat(file.fileno()), path.stat())
    except BlockingIOError:
        ours = False
    if not ours:
        file.close()
        raise TargetError(f"another process is {doing} (it works in {path.parent})")
    return file


def sync_directory(path: Path) -> None:
    """Force a directory's entries to disk, where the system can."""
    if os.name != "posix":
        return
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def exchange(one: Path, other: Path) -> bool:
    """Exchange two directories at once; return False where the system cannot."""
    a, b = os.fsencode(one), os.fsencode(other)
    try:
        library = ctypes.CDLL(None, use_errno=True)
        if sys.platform == "darwin":
            return bool(library.renamex_np(a, b, 2) == 0)
        here = -100
        return bool(library.renameat2(here, a, here, b, 2) == 0)
    except (AttributeError, OSError, TypeError):
        return False


def reason(error: OSError) -> str:
    """Return what the system says, in its words."""
    return f"{error.strerror or error}" + (f" ({error.filename})" if error.filename else "")
