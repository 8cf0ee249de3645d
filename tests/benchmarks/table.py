"""Rows of the benchmark table, and how they are measured."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Row:
    """One job: our figure, the peer's or floor's figure of the same run, their ratio and the bar.

    Parameters
    ----------
    job : str
        What is done, with its size.
    ours, other : float
        Figures in `unit`, measured in the same run.
    against : str
        What `other` is: a peer or a floor.
    ratio : float
        How many times better than `other` (peers), or share of the floor reached (floors).
    bar : float or None
        The ratio wanted, None where the row is only for information.
    unit : str
        Unit of both figures.
    note : str
        Anything a reader should know.
    """

    job: str
    ours: float
    other: float
    against: str
    ratio: float
    bar: float | None
    unit: str = "s"
    note: str = ""

    @property
    def met(self) -> bool | None:
        """Whether the bar is met."""
        return None if self.bar is None else self.ratio >= self.bar


def clock(*functions: Callable[[], Any], runs: int = 5, warm: int = 1, cpu: bool = True) -> list[float]:
    """Return the median seconds of each function, run in turn so that drift of the machine meets all alike."""
    timer = time.process_time if cpu else time.perf_counter
    for _ in range(warm):
        for f in functions:
            f()
    times: list[list[float]] = [[] for _ in functions]
    for _ in range(runs):
        for f, seen in zip(functions, times, strict=True):
            start = timer()
            f()
            seen.append(timer() - start)
    return [statistics.median(seen) for seen in times]


def show(rows: list[Row]) -> str:
    """Return the table as text."""
    lines = [f"{'job':58} {'cfagg':>12} {'other':>12} {'unit':8} {'ratio':>8} {'bar':>7}  against"]
    for r in rows:
        bar = "-" if r.bar is None else f"{r.bar:g}"
        verdict = {True: "met", False: "NOT MET", None: ""}[r.met]
        lines.append(
            f"{r.job:58} {r.ours:12.4g} {r.other:12.4g} {r.unit:8} {r.ratio:8.3g} {bar:>7}  {r.against} {verdict}"
            + (f" ({r.note})" if r.note else "")
        )
    return "\n".join(lines)
