"""Locks that a forked child can acquire, even if they were held in its parent."""

from __future__ import annotations

import os
import threading

__all__ = ["forkable"]


def forkable() -> threading.Lock:
    """Return a lock that lasts for the life of the process and is not held in a forked child."""
    # The thread that held the lock does not exist in the child, and would never release it.
    lock = threading.Lock()
    os.register_at_fork(after_in_child=lock._at_fork_reinit)  # type: ignore[attr-defined]
    return lock
