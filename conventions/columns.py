"""Columns from the records of a JSON list: checked at the speed of C if all are valid, else record by record.

Each function checks one value of every record of a batch.  The quick check is exact: values that pass need no other,
and those that fail are checked one by one, so that every problem is reported with its key path.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from itertools import chain
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from cfagg.conventions.findings import Findings, shorten

__all__ = ["MISSING", "Missing", "integer_rows", "integers_problem", "pairs_problem", "typed"]


class Missing:
    """The type of `MISSING`."""

    def __repr__(self) -> str:
        return "MISSING"


#: Placeholder for a key that a record does not have; ``null`` is a value.
MISSING: Final = Missing()

Int64 = npt.NDArray[np.int64]

_LOW, _HIGH = -(2**63), 2**63 - 1


def typed(
    values: list[Any], types: frozenset[type], path: Callable[[int], str], expected: str, findings: Findings
) -> list[Any]:
    """Return the values of an optional key by record; those of any other type are problems and become `MISSING`."""
    if types.issuperset(map(type, values)):
        return values
    good = list(values)
    for i, value in enumerate(values):
        if type(value) not in types:
            hint = "; leave the key out where it has no value" if value is None else ""
            findings.problem(path(i), f"{expected} expected, found {shorten(value)}{hint}")
            good[i] = MISSING
    return good


def integer_rows(
    values: list[Any], width: int, depth: int, problem: Callable[[Any], str | None]
) -> tuple[Int64, dict[int, str]]:
    """Return lists of integers, or of pairs at `depth` 2, as rows of an array (-1 if invalid), and the problems."""
    shape = (len(values), width) if depth == 1 else (len(values), width, 2)
    quick = _quick(values, width)
    if quick is not None and depth == 2:
        quick = _quick(quick, 2)
    if quick is not None and {int}.issuperset(map(type, quick)):
        try:
            return np.frombuffer(array("q", quick), np.int64).reshape(shape), {}
        except OverflowError:  # reported below, with its place
            pass
    out = np.full(shape, -1, np.int64)
    bad: dict[int, str] = {}
    for i, value in enumerate(values):
        message = problem(value)
        if message is None:
            out[i] = np.array(value, np.int64).reshape(shape[1:])
        else:
            bad[i] = message
    return out, bad


def _quick(values: list[Any], width: int) -> list[Any] | None:
    """Return lists of one width concatenated, or `None` if they are not."""
    if not {list}.issuperset(map(type, values)) or not {width}.issuperset(map(len, values)):
        return None
    return list(chain.from_iterable(values))


def integers_problem(value: Any, width: int, of: str) -> str | None:
    """Return the problem with a list of `width` integers, or `None` if it is valid."""
    if type(value) is not list:
        return f"list of integers expected, found {shorten(value)}"
    if len(value) != width:
        return f"{len(value)} {'entry' if len(value) == 1 else 'entries'} found, {width} expected (one per {of})"
    for i, entry in enumerate(value):
        if type(entry) is not int:
            return f"entry {i} is not an integer: {shorten(entry)}"
        if not _LOW <= entry <= _HIGH:
            return f"entry {i} is too large: {shorten(entry)}"
    return None


def pairs_problem(value: Any, dims: Sequence[str]) -> str | None:
    """Return the problem with a list of (start, stop) pairs, one per dimension, or `None` if it is valid."""
    if type(value) is not list:
        return f"list of [start, stop] pairs expected, found {shorten(value)}"
    if len(value) != len(dims):
        pairs = "pair" if len(value) == 1 else "pairs"
        return f"{len(value)} {pairs} found, {len(dims)} expected (one per dimension: {', '.join(dims)})"
    for dim, pair in zip(dims, value, strict=True):
        if (message := integers_problem(pair, 2, "start and stop")) is not None:
            return f"range of {dim!r}: {message}"
    return None
