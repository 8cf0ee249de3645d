"""Progress bars of jobs, on a terminal only."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from cfagg.display.sizes import size_text

__all__ = ["byte_bar", "step_bar"]

type Progress = Callable[[int, int], None] | None


@contextmanager
def step_bar(name: str, shown: bool) -> Iterator[Progress]:
    """Yield a function to call with the steps done and their total: it updates a bar, on a terminal only."""
    if not shown:
        yield None
        return
    from rich.progress import BarColumn, TaskProgressColumn, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
    with _bar(name, columns) as progress:
        yield progress


@contextmanager
def byte_bar(name: str, shown: bool) -> Iterator[Progress]:
    """Yield a function to call with the bytes done and their total, likewise."""
    if not shown:
        yield None
        return
    from rich.progress import BarColumn, ProgressColumn, TimeRemainingColumn
    from rich.text import Text

    class Bytes(ProgressColumn):
        """The amount done and the speed, in the same unit as in reports."""

        def render(self, task: Any) -> Text:
            of = "" if task.total is None else f" of {size_text(int(task.total))}"
            speed = f", {size_text(int(task.speed))}/s" if task.speed else ""
            return Text(f"{size_text(int(task.completed))}{of}{speed}")

    with _bar(name, (BarColumn(), Bytes(), TimeRemainingColumn())) as progress:
        yield progress


@contextmanager
def _bar(name: str, columns: Any) -> Iterator[Progress]:
    from rich.console import Console
    from rich.progress import Progress as Bars

    with Bars(*columns, console=Console(stderr=True), transient=True) as drawn:
        task = drawn.add_task(name, total=None)
        yield lambda done, total: drawn.update(task, completed=done, total=total)
