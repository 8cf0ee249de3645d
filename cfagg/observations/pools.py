"""Threads that read and decode; a forked process starts its own."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

__all__ = ["ahead", "workers"]

_MOST = 8
#: So many pieces of work that nobody waits for stand in the queue at most.
_QUEUE = 512

_pools: dict[str, ThreadPoolExecutor] = {}
_lock = threading.Lock()
_room = threading.Semaphore(_QUEUE)


def workers() -> ThreadPoolExecutor:
    """Return the threads that decode what a caller waits for."""
    return _pool("rows")


def ahead(task: Callable[[], None]) -> bool:
    """Do something later that nobody waits for; return whether there is room for it in the queue."""
    room = _room
    if not room.acquire(blocking=False):
        return False

    def run() -> None:
        try:
            task()
        finally:
            room.release()

    _pool("ahead").submit(run)
    return True


def _pool(name: str) -> ThreadPoolExecutor:
    with _lock:
        pool = _pools.get(name)
        if pool is None:
            usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
            pool = _pools[name] = ThreadPoolExecutor(min(_MOST, max(2, usable)), f"cfagg-{name}")
        return pool


def _after_fork() -> None:
    """Forget the threads of the parent, which are not in this process."""
    global _lock, _room  # noqa: PLW0603
    _lock = threading.Lock()
    _room = threading.Semaphore(_QUEUE)
    _pools.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
