"""Locks that a forked child can take, whoever held them in its parent."""

from __future__ import annotations

import os
import threading

__all__ = ["forkable"]


def forkable() -> threading.Lock:
    """Return a lock for as long as the process lives, which nobody holds in a child that was forked."""
    # Whoever held it was a thread that the child does not have, and would never let go of it.
    lock = threading.Lock()
    os.register_at_fork(after_in_child=lock._at_fork_reinit)  # type: ignore[attr-defined]
    return lock
