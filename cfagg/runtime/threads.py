"""Running tasks on a few threads of this process."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Generator, Iterator
from typing import Any

__all__ = ["run_threads"]


def run_threads[T, R](
    work: Callable[[T], R], tasks: Iterator[T], workers: int, name: str, stop: threading.Event | None = None
) -> Generator[R]:
    """Yield the results of tasks as they complete; the first error stops all threads and is raised.

    Tasks are drawn one by one as threads become free.  `stop` is set as soon as no more results are needed, so that
    `work` can check it; the threads have ended when the iterator is closed.
    """
    results: queue.SimpleQueue[tuple[bool, Any]] = queue.SimpleQueue()
    drawing, halt, end = threading.Lock(), stop or threading.Event(), object()

    def loop() -> None:
        try:
            while not halt.is_set():
                with drawing:
                    task: Any = next(tasks, end)
                if task is end:
                    break
                results.put((True, work(task)))
            results.put((True, end))
        except BaseException as error:  # noqa: BLE001  it is raised again by the thread that waits
            results.put((False, error))

    threads = [threading.Thread(target=loop, name=f"cfagg-{name}-{i}", daemon=True) for i in range(workers)]
    for t in threads:
        t.start()
    try:
        running = workers
        while running:
            good, outcome = results.get()
            if not good:
                raise outcome
            if outcome is end:
                running -= 1
            else:
                yield outcome
    finally:
        halt.set()
        for t in threads:
            t.join()
