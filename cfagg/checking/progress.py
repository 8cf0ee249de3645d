"""How far a check has come: long loops tell it, and whoever listens shows it.

A loop over many files says ``with task("fragments", total) as step: ... step()``.  It costs nothing where nobody
listens; the command line listens on terminals.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Lock
from typing import Protocol, Self

__all__ = ["Listener", "bars", "forget", "listening", "task"]


class Listener(Protocol):
    """What shows how far tasks have come; it is called from several threads."""

    def start(self, what: str, total: int | None) -> int:
        """Begin a task of `total` steps, `None` where that is not known, and return its number."""

    def advance(self, number: int, steps: int) -> None:
        """Tell that so many more steps of a task are done."""

    def finish(self, number: int) -> None:
        """End a task."""


# One for the process, not for the context: the steps of a task come from threads of a pool.
_listener: Listener | None = None
_lock = Lock()


@contextmanager
def task(what: str, total: int | None = None) -> Iterator[Callable[..., None]]:
    """Give a function that is called after each step of a long task, from any thread.

    Parameters
    ----------
    what : str
        What the steps are, in the plural.
    total : int, optional
        How many there are.

    Yields
    ------
    callable
        Takes the number of steps done, 1 by default.

    Examples
    --------
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
    """Let `listener`, or nobody for `None`, hear of the tasks that begin inside the block."""
    global _listener  # noqa: PLW0603 - see there
    with _lock:
        before, _listener = _listener, listener
    try:
        yield
    finally:
        with _lock:
            _listener = before


def forget() -> None:
    """Let nobody listen from now on, in a process that is a copy of one where somebody did."""
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
    """Draws tasks with rich, which is loaded when the first one begins."""

    def __init__(self) -> None:
        from rich.progress import Progress

        self._drawn: Progress | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._drawn is not None:
            self._drawn.stop()

    def start(self, what: str, total: int | None) -> int:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        if self._drawn is None:
            columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
            self._drawn = Progress(*columns, console=Console(stderr=True), transient=True)
            self._drawn.start()
        return int(self._drawn.add_task(what, total=total))

    def advance(self, number: int, steps: int) -> None:
        if self._drawn is not None:
            self._drawn.advance(number, steps)  # type: ignore[arg-type]

    def finish(self, number: int) -> None:
        if self._drawn is not None:
            self._drawn.remove_task(number)  # type: ignore[arg-type]
