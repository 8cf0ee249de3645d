"""Numbers of objects that many variables share."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from cfagg.cf.joining.described import Companion, Coordinate, Described
from cfagg.cf.joining.members import Int64

__all__ = ["distinct_of", "numbers_of", "pairs_of"]


def distinct_of(objects: Iterable[Any]) -> tuple[Int64, list[Any]]:
    """Return the numbers of objects, and the distinct objects, by identity."""
    number: dict[int, int] = {}
    distinct: list[Any] = []
    out = []
    for one in objects:
        known = number.get(id(one))
        if known is None:
            known = number[id(one)] = len(distinct)
            distinct.append(one)
        out.append(known)
    return np.array(out, np.int64), distinct


def numbers_of(values: Iterable[Hashable]) -> tuple[Int64, list[Any]]:
    """Return the numbers of values, and the values by number."""
    known: dict[Any, int] = {}
    return np.array([known.setdefault(v, len(known)) for v in values], np.int64), list(known)


def pairs_of(
    described: Sequence[Described],
) -> tuple[Int64, list[tuple[Mapping[str, Coordinate], Mapping[str, Companion]]]]:
    """Return the distinct pairs of axes and companions, and the number of the pair of each variable."""
    number: dict[tuple[int, int], int] = {}
    pairs: list[tuple[Mapping[str, Coordinate], Mapping[str, Companion]]] = []
    out = []
    for one in described:
        key = id(one.axes), id(one.parts)
        known = number.get(key)
        if known is None:
            known = number[key] = len(pairs)
            pairs.append((one.axes, one.parts))
        out.append(known)
    return np.array(out, np.int64), pairs
