"""Gathering with NumPy alone: for small jobs, and to count and find the elements that the kernel reports as bad."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from cfagg.cf.gather_rule import EXACT, GatherRule, mantissa

__all__ = ["fill_missing", "gather_numpy"]

_BLOCK, _LIGHT_BLOCK = 2**16, 2**18
"""Number of elements processed at a time, so that the temporaries of a block stay in the processor's cache.

The larger one is for rules that copy and only look for missing values, mostly without temporaries.
"""


def gather_numpy(source: npt.NDArray[Any], target: npt.NDArray[Any], rule: GatherRule) -> tuple[int, int]:
    """Copy `source` to `target` by `rule`; return the number of bad elements, and the flat index of the first or -1."""
    most = _LIGHT_BLOCK if rule.light else _BLOCK
    if source.size > most and source.ndim:
        step = max(1, most * len(source) // source.size)
        inner = source.size // len(source)
        bad, first = 0, -1
        for start in range(0, len(source), step):
            part = slice(start, start + step)
            if step == 1:
                more, where = gather_numpy(source[start], target[start], rule)
            else:
                more, where = _block(source[part], target[part], rule)
            if more and not bad:
                first = start * inner + where
            bad += more
        return bad, first
    return _block(source, target, rule)


def _block(source: npt.NDArray[Any], target: npt.NDArray[Any], rule: GatherRule) -> tuple[int, int]:
    """Gather one block with whole-array operations."""
    if rule.copies:
        np.copyto(target, source)
        return 0, -1
    values = source.astype(rule.source, copy=False)
    if rule.light and _all_present(values, rule):
        np.copyto(target, values)
        return 0, -1
    with np.errstate(over="ignore", invalid="ignore"):
        bad = _cast(values, target, rule) if rule.pure else _compute(values, target, rule)
    missing = _missing(values, rule) if rule.masked else None
    if missing is not None:
        if rule.lost:
            bad = missing if bad is None else bad | missing
        elif missing.any():
            np.copyto(target, rule.fill, where=missing)
            if bad is not None:
                bad &= ~missing
    if bad is None or not bad.any():
        return 0, -1
    flat = np.flatnonzero(bad)
    return len(flat), int(flat[0])


def fill_missing(values: npt.NDArray[Any], rule: GatherRule) -> bool:
    """Write the fill over missing values that were copied, by a `light` rule; return whether there is a fill."""
    if rule.copies:
        return True
    for begin in range(0, values.size, _BLOCK):
        block = values[begin : begin + _BLOCK]
        missing = _missing(block, rule) if rule.masked and not _all_present(block, rule) else None
        if missing is not None and missing.any():
            if rule.lost:
                return False
            np.copyto(block, rule.fill, where=missing)
    return True


def _all_present(values: npt.NDArray[Any], rule: GatherRule) -> bool:
    """Return whether the largest or smallest value shows that none is missing: half the work of comparing all."""
    fills = [fill for fill in rule.fills if not rule.keeps(fill)]
    if rule.bounded or not values.size:
        return False
    # The largest value is NaN if any value is.
    if not fills:
        return values.dtype.kind == "f" and not np.isnan(values.max())
    if min(fills) > 0:
        return bool(values.max() < min(fills))
    return bool(max(fills) < 0 and values.min() > max(fills))


def _missing(values: npt.NDArray[Any], rule: GatherRule) -> npt.NDArray[np.bool_] | None:
    """Return which values are missing and need the fill written, or `None` if there can be none; NaN stays NaN."""
    missing: npt.NDArray[np.bool_] | None = None
    if rule.bounded:
        missing = ~((values >= rule.low) & (values <= rule.high))
    elif rule.source.kind == "f" and not (rule.target.kind == "f" and np.isnan(rule.fill)):
        missing = np.isnan(values)
    for fill in rule.fills:
        if rule.keeps(fill):
            continue
        found = values == fill
        missing = found if missing is None else missing | found
    return missing


def _cast(values: npt.NDArray[Any], target: npt.NDArray[Any], rule: GatherRule) -> npt.NDArray[np.bool_] | None:
    """Cast values; return which of them change, or `None` if none can."""
    np.copyto(target, values, casting="unsafe")
    if not rule.checked:
        return None
    bad: npt.NDArray[np.bool_]
    if rule.source.kind == "f" and rule.target.kind == "f":
        bad = np.isinf(target) & np.isfinite(values)
    elif rule.source.kind == "f":
        bad = ~_inside(values, rule.target) | (values != np.rint(values))
    elif rule.target.kind == "f":
        cast = values.astype(rule.target)
        top = cast >= 2.0 ** mantissa(rule.source)  # only rounding gives this
        bad = top | (np.where(top, 0, cast).astype(rule.source) != values)
    else:
        info = np.iinfo(rule.target)
        bad = (values < int(info.min)) | (values > int(info.max))
    return bad


def _compute(values: npt.NDArray[Any], target: npt.NDArray[Any], rule: GatherRule) -> npt.NDArray[np.bool_] | None:
    """Write ``values * scale + offset``; return which values the target cannot represent, or `None` if none can be."""
    result = values.astype(np.float64)
    result *= rule.scale
    result += rule.offset
    if rule.target.kind == "f":
        np.copyto(target, result, casting="unsafe")
        return ~np.isfinite(target) & np.isfinite(values) if rule.checked else None
    np.rint(result, out=result)
    np.copyto(target, result, casting="unsafe")
    if not rule.checked:
        return None
    bad = ~_inside(result, rule.target) | (np.abs(result) > EXACT)
    if mantissa(rule.source) > mantissa(np.dtype(np.float64)) and rule.source.kind != "f":
        bad |= (values > EXACT) | ((values < -EXACT) if rule.source.kind == "i" else False)
    return bad


def _inside(values: npt.NDArray[Any], dtype: np.dtype[Any]) -> npt.NDArray[np.bool_]:
    """Return which of these real values are in the range of an integer type, whose limits are powers of two."""
    inside: npt.NDArray[np.bool_] = (values >= float(np.iinfo(dtype).min)) & (values < 2.0 ** mantissa(dtype))
    return inside
