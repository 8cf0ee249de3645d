"""Progress reports: long loops report their progress to a listener.

A loop over many files runs ``with task("fragments", total) as step: ... step()``.  It costs nothing without a listener;
the command line has one on terminals.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Lock
from typing import TYPE_CHECKING, Protocol, Self

from cfagg.storage.locks import forkable

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

__all__ = ["Listener", "bars", "forget", "listening", "task"]


class Listener(Protocol):
    """Displays the progress of tasks; it is called from several threads."""

    def start(self, what: str, total: int | None) -> int:
        """Begin a task of `total` steps, or `None` if unknown, and return its number."""

    def advance(self, number: int, steps: int) -> None:
        """Report that more steps of a task are done."""

    def finish(self, number: int) -> None:
        """End a task."""


# One for the process, not for the context, because the steps of a task come from threads of a pool.
_listener: Listener | None = None
_lock = forkable()


@contextmanager
def task(what: str, total: int | None = None) -> Iterator[Callable[..., None]]:
    """Give a function to be called after each step of a long task, with the number of steps, from any thread.

    >>> with task("fragments", 3) as step:
    ...     step()
    ...     step(2)
    """
    listener = _listener
    if listener is None:
        yield lambda _steps=1: None
        return
    number = listener.start(what, total)
    try:
        yield lambda steps=1: listener.advance(number, steps)
    finally:
        listener.finish(number)


@contextmanager
def listening(listener: Listener | None) -> Iterator[None]:
    """Report the tasks that begin inside the block to `listener`, or to nobody for `None`."""
    global _listener  # noqa: PLW0603 - see there
    with _lock:
        before, _listener = _listener, listener
    try:
        yield
    finally:
        with _lock:
            _listener = before


def forget() -> None:
    """Remove the listener in a process that was forked from one that had it."""
    global _listener  # noqa: PLW0603 - see there
    _listener = None


@contextmanager
def bars(*, shown: bool) -> Iterator[None]:
    """Show tasks as bars on stderr inside the block, if `shown`."""
    if not shown:
        yield
        return
    with _Bars() as drawn, listening(drawn):
        yield


class _Bars:
    """Draws progress bars with rich.

    It is imported, and its thread started, at the first step of a task, because processes are forked before that. When
    the last task ends, the bars are erased, so that results can be printed.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._drawn: Progress | None = None
        self._waiting: dict[int, tuple[str, int | None]] = {}
        self._tasks: dict[int, TaskID] = {}
        self._number = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._drawn is not None:
            self._drawn.stop()

    def start(self, what: str, total: int | None) -> int:
        with self._lock:
            self._number += 1
            self._waiting[self._number] = (what, total)
            return self._number

    def advance(self, number: int, steps: int) -> None:
        with self._lock:
            if self._drawn is None:
                self._drawn = _drawn()
            if number in self._waiting:
                what, total = self._waiting.pop(number)
                self._tasks[number] = self._drawn.add_task(what, total=total)
            self._drawn.advance(self._tasks[number], steps)

    def finish(self, number: int) -> None:
        with self._lock:
            self._waiting.pop(number, None)
            task = self._tasks.pop(number, None)
            if self._drawn is None or task is None:
                return
            self._drawn.remove_task(task)
            if not self._tasks:
                self._drawn.stop()
                self._drawn = None


def _drawn() -> Progress:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    drawn = Progress(*columns, console=Console(stderr=True), transient=True)
    drawn.start()
    return drawn
