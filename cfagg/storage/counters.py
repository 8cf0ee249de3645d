"""Counters of the work of the readers: files opened and bytes read.

They let a user, or a test, check that a selection read no more than it needed.

Examples
--------
>>> from cfagg.storage import counters
>>> before = counters.snapshot()
>>> counters.snapshot() - before
Counts(files=0, bytes=0)
"""

from __future__ import annotations

from typing import NamedTuple

from cfagg.storage.locks import forkable

__all__ = ["Counts", "add", "snapshot"]


class Counts(NamedTuple):
    """Counts for this process: files opened, and bytes of values (decoded bytes if a library reads them)."""

    files: int = 0
    bytes: int = 0

    def __sub__(self, other: Counts) -> Counts:
        return Counts(self.files - other.files, self.bytes - other.bytes)


_lock = forkable()
_now = Counts()


def add(files: int = 0, bytes: int = 0) -> None:  # noqa: A002
    """Add to the counts of files opened and bytes read."""
    global _now  # noqa: PLW0603
    with _lock:
        _now = Counts(_now.files + files, _now.bytes + bytes)


def snapshot() -> Counts:
    """Return the counts since the process started."""
    return _now
