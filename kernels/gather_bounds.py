"""Which values of one type are missing, and which fit into another, for the comparisons of `gather`."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

__all__ = ["checks", "excludes", "missing"]


@lru_cache(maxsize=64)
def _range(dtype: np.dtype[Any]) -> tuple[int, int]:
    """Return the smallest and largest value of an integer type; looking them up costs as much as a small block."""
    info = np.iinfo(dtype)
    return int(info.min), int(info.max)


def excludes(dtype: np.dtype[Any], low: Any, high: Any) -> bool:
    """Return whether bounds make anything missing; those of reals always do, since NaN is outside of them."""
    if dtype.kind == "f":
        return low is not None or high is not None
    lowest, highest = _range(dtype)
    return (low is not None and low > lowest) or (high is not None and high < highest)


def missing(dtype: np.dtype[Any], fills: tuple[Any, ...], low: Any, high: Any) -> tuple[Any, ...]:
    """Return bounds and two missing values, so that the test for missing values always has the same form."""
    if dtype.kind == "f":
        least, most = dtype.type(-np.inf if low is None else low), dtype.type(np.inf if high is None else high)
        none = dtype.type(np.nan)
    else:
        lowest, highest = _range(dtype)
        least, most = dtype.type(lowest if low is None else low), dtype.type(highest if high is None else high)
        # Any value that is missing anyway: where there is no fill, a bound excludes something.
        beyond = int(least) - 1 if least > lowest else min(int(most) + 1, highest)
        none = fills[0] if fills else dtype.type(beyond)
    first = fills[0] if fills else none
    second = fills[1] if len(fills) > 1 else none
    return least, most, first, second


@lru_cache(maxsize=256)
def checks(source: np.dtype[Any], target: np.dtype[Any], pure: bool) -> tuple[tuple[Any, Any] | None, float, float]:
    """Return the source values that fit into the target, and the largest and smallest result that do."""
    if target.kind == "f":
        return (source.type(0), source.type(0)), float(_range(source)[1] + 1) if source.kind != "f" else 0.0, 0.0
    lowest, highest = _range(target)
    exact = 2**53
    top, bottom = float(min(highest, exact)), float(max(lowest, -exact))
    if source.kind == "f":
        if not pure:
            return (source.type(-np.inf), source.type(np.inf)), top, bottom
        last = np.nextafter(source.type(2.0 ** highest.bit_length()), source.type(0))
        return (source.type(lowest), last), top, bottom
    least, most = (lowest, highest) if pure else (-exact, exact)
    held = _range(source)
    return (source.type(max(least, held[0])), source.type(min(most, held[1]))), top, bottom
