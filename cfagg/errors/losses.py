"""Lists of losses for people: each reason once, with how much it concerns and the first few names."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

__all__ = ["loss_lines"]

#: Number of partitions, variables and values that a line names.
_FEW = 3


def loss_lines(losses: Iterable[Any]) -> list[str]:
    """Return a line for each reason, in the order of its first loss.

    >>> from cfagg.findings.losses import Loss
    >>> loss_lines(Loss("tas", (i, 0), "units", f"{i % 2} K", "they differ") for i in range(4000))
    ["variable 'tas', 4,000 partitions ([0, 0], [1, 0], [2, 0], …): units (0 K; 1 K) is lost: they differ"]
    """
    alike: dict[tuple[object, ...], list[Any]] = {}
    for loss in losses:
        whole = loss.partition is None
        alike.setdefault((whole or loss.variable, loss.what, loss.why), []).append(loss)
    return [_line(group) for group in alike.values()]


def _line(alike: list[Any]) -> str:
    """Return a line on losses with one reason, of one variable's partitions or of whole variables."""
    first = alike[0]
    if len(alike) == 1:
        return str(first)
    if first.partition is None:
        where = f"{len(alike):,} variables ({_few((repr(loss.variable) for loss in alike), ', ')})"
    else:
        partitions = _few((str(list(loss.partition)) for loss in alike), ", ")
        where = f"variable {first.variable!r}, {len(alike):,} partitions ({partitions})"
    return f"{where}: {first.what} ({_few((loss.found for loss in alike), '; ')}) is lost: {first.why}"


def _few(values: Iterable[str], between: str) -> str:
    """Return the first few different texts."""
    seen: dict[str, None] = {}
    for value in values:
        if len(seen) == _FEW and value not in seen:
            return between.join([*seen, "…"])
        seen[value] = None
    return between.join(seen)
