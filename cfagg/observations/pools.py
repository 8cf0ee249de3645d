"""Threads that read and decode; a forked process starts its own."""

from __future__ import annotations

import os
import threading
from concurrent.futures import ThreadPoolExecutor

__all__ = ["background", "workers"]

_MOST = 8

_pools: dict[str, ThreadPoolExecutor] = {}
_lock = threading.Lock()


def workers() -> ThreadPoolExecutor:
    """Return the threads that decode what a caller waits for."""
    return _pool("rows")


def background() -> ThreadPoolExecutor:
    """Return the threads that decode ahead of use."""
    return _pool("ahead")


def _pool(name: str) -> ThreadPoolExecutor:
    with _lock:
        pool = _pools.get(name)
        if pool is None:
            usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
            pool = _pools[name] = ThreadPoolExecutor(min(_MOST, max(2, usable)), f"cfagg-{name}")
        return pool


def _after_fork() -> None:
    """Forget the threads of the parent, which are not in this process."""
    global _lock  # noqa: PLW0603
    _lock = threading.Lock()
    _pools.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
