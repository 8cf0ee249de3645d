"""Directories that the system watches, so that asking again whether anything was written costs microseconds.

Linux tells of every change in a watched directory (inotify), before the call that made it returns.  While nothing was
told, what was compared file by file need not be compared again.  Only file systems of this machine tell; on others, and
where anything is unusual, there is no watch, and files are compared each time.
"""

from __future__ import annotations

import ctypes
import os
import sys
import threading
import time
import weakref
from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

__all__ = ["Watch"]

#: File systems all of whose changes pass through the kernel of this machine.
_LOCAL = frozenset({"ext2", "ext3", "ext4", "xfs", "tmpfs", "f2fs"})

#: Written, its attributes changed, closed after writing, moved away, moved in, made, removed, itself removed, itself
#: moved; directories only (linux/inotify.h).  Lost events and unmounting are always told.
_EVENTS = 0x2 | 0x4 | 0x8 | 0x40 | 0x80 | 0x100 | 0x200 | 0x400 | 0x800 | 0x0100_0000

#: More directories than this are not watched: the system allows each user a limited number.
_MOST = 20_000

#: Seconds for which quiet counts.  Memory maps tell when they are closed, further names of a file not at all.
_TRUSTED = 10.0


class Watch:
    """Whether anything changed in some directories.

    Parameters
    ----------
    trees : sequence of path
        Directories that are watched with all below them.
    singles : sequence of path
        Directories that are watched without those below them.

    Notes
    -----
    To be used as ``if not watch.quiet(): armed = watch.arm(); compare(); watch.trust()`` where the comparison found no
    change: what is written after `arm` is told by the next `quiet`.
    """

    def __init__(self, trees: Sequence[str], singles: Sequence[str] = ()) -> None:
        self._trees, self._singles = tuple(trees), tuple(singles)
        self._lock = threading.Lock()
        self._process = os.getpid()
        self._usable = _system() is not None
        self._places: tuple[tuple[str, tuple[int, int]], ...] = ()
        self._until = 0.0
        self._queue = -1
        self._close: Any = None

    def quiet(self) -> bool:
        """Return whether nothing changed since `trust` was called."""
        if not self._until or self._process != os.getpid():
            return False
        with self._lock:
            if self._silent() and time.monotonic() < self._until:
                return True
            self._until = 0.0
            return False

    def arm(self) -> bool:
        """Watch from now on, and return whether that is possible."""
        # A child would take away what its parent is told.
        if not self._usable or self._process != os.getpid():
            return False
        with self._lock:
            self._stop()
            self._usable = self._start()
            if not self._usable:
                self._stop()
            return self._usable

    def trust(self) -> None:
        """Take what was compared since `arm` for unchanged, until the system tells otherwise."""
        with self._lock:
            if self._queue >= 0:
                self._until = time.monotonic() + _TRUSTED

    def _silent(self) -> bool:
        """Whether the system told nothing, and the directories still are those of their names."""
        try:
            os.read(self._queue, 4096)
        except BlockingIOError:
            with suppress(OSError):
                return all(_place(path) == place for path, place in self._places)
        except OSError:
            pass
        return False

    def _start(self) -> bool:
        """Ask the system to tell; return whether it does for everything."""
        system = _system()
        if system is None:
            return False
        self._queue = system.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        if self._queue < 0:
            return False
        self._close = weakref.finalize(self, os.close, self._queue)
        try:
            self._places = tuple((p, _place(p)) for p in (*self._trees, *self._singles))
            devices = {device for _, (device, _) in self._places}
            if any(_file_system(device) not in _LOCAL for device in devices):
                return False
            left, seen = [(p, True) for p in self._trees] + [(p, False) for p in self._singles], 0
            while left:
                folder, deep = left.pop()
                seen += 1
                # First, so that what is made while it is listed is told.
                if seen > _MOST or system.inotify_add_watch(self._queue, os.fsencode(folder), _EVENTS) < 0:
                    return False
                below = _plain(folder, devices)
                if below is None:
                    return False
                if deep:
                    left += [(path, True) for path in below]
        except OSError:
            return False
        return True

    def _stop(self) -> None:
        """Give back what the system holds."""
        self._until = 0.0
        if self._close is not None:
            self._close()
        self._queue, self._close = -1, None


def _plain(folder: str, devices: set[int]) -> list[str] | None:
    """Return the directories in a directory; `None` where a file has several names or is elsewhere in truth."""
    below = []
    with os.scandir(folder) as entries:
        for entry in entries:
            status = entry.stat(follow_symlinks=False)
            if entry.is_symlink() or status.st_dev not in devices:
                return None
            if entry.is_dir():
                below.append(entry.path)
            elif status.st_nlink != 1:
                return None
    return below


def _place(path: str) -> tuple[int, int]:
    """Return what tells a directory from others."""
    status = os.stat(path)  # noqa: PTH116  # asked for every query
    return status.st_dev, status.st_ino


@cache
def _system() -> Any:
    """Return the system's functions, `None` where there are none."""
    if sys.platform != "linux":
        return None
    library = ctypes.CDLL(None)
    return library if hasattr(library, "inotify_init1") else None


def _file_system(device: int) -> str | None:
    """Return the kind of a mounted file system."""
    wanted = f"{os.major(device)}:{os.minor(device)}"
    for line in Path("/proc/self/mountinfo").read_text(encoding="utf-8", errors="replace").splitlines():
        words = line.split()
        if words[2] == wanted:
            return words[words.index("-") + 1]
    return None
