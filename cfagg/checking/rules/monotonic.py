"""The values of coordinate variables: CF chapter 5."""

from __future__ import annotations

from collections.abc import Iterator
from math import isnan
from typing import Any

import numpy as np
import numpy.typing as npt

from cfagg.checking.context import Context, once, variables
from cfagg.checking.missing import missing_mask, unsigned, unwritten, valid_limits
from cfagg.findings.finding import Hit, Severity
from cfagg.findings.rule import rule
from cfagg.model.dataset import Variable


@rule("COO007", each=variables, needs="data")
def coordinate_variables_are_monotonic(c: Context, v: Variable) -> Iterator[Hit]:
    """The values of a coordinate variable all increase or all decrease, and none is missing."""
    if not v.is_coordinate or not v.is_numeric or v.dialect is not None or v.read is None:
        return
    if len(v.stored) != 1 or not v.size:
        return
    at = _turn(v)
    lost = _missing_end(v) if at is None else None
    if at is None and lost is None:
        return
    if unwritten(v):
        if c.dataset.format != "cdl":  # a header in CDL has no values
            whole = f"all {v.size} values are the fill value" if v.size > 1 else "its only value is the fill value"
            # A file without any values is a template to be filled later.
            yield Hit(v, None, f"{whole}: the coordinate was never written", None if _any_written(c) else "warning")
        return
    if at is None:
        if lost is not None:
            yield Hit(v, None, *lost)
        return
    ends = _raw(v, at - 1, at + 1)
    missing = missing_mask(v, ends)
    before, value = (x.item() for x in ends)
    if missing.any():
        n = int(np.argmax(missing))
        yield Hit(v, None, _why_missing(v, at - 1 + n, (before, value)[n])[0])
    else:
        how = "repeats" if value == before else "turns back from"
        message = (
            f"value {at}, {value!r}, {how} the one before{'' if value == before else f', {before!r}'}; expected "
            "values that strictly increase or strictly decrease"
        )
        yield Hit(v, None, message)


def _missing_end(v: Variable) -> tuple[str, Severity | None] | None:
    """Return what is wrong if the last or the first value is missing; fill values between others turn back."""
    for n in (v.size - 1, 0):
        values = _raw(v, n, n + 1)
        if missing_mask(v, values).any():
            return _why_missing(v, n, values[0].item())
    return None


def _why_missing(v: Variable, n: int, value: float) -> tuple[str, Severity | None]:
    """Return why a value is missing, and how severe that is where the values are monotonic."""
    low, high = valid_limits(v)
    if isnan(value):
        return f"value {n} is not a number; expected a number for each point of the dimension", None
    if (low is not None and value < low) or (high is not None and value > high):
        return f"value {n}, {value!r}, is outside the valid range, which makes it a missing value", "warning"
    return f"value {n}, {value!r}, stands for a missing value; expected a value for each point of the dimension", None


@once
def _any_written(c: Context) -> bool:
    """Whether any variable has values other than the fill value."""
    readable = (v for v in c.dataset.variables if v.read is not None and v.is_numeric and v.dialect is None)
    return any(v.stored and v.size > 0 and not unwritten(v) for v in readable)


def _turn(v: Variable) -> int | None:
    """Return the index of the first value that breaks the direction of the first two, or `None` if none does."""
    start, last, rises = 0, None, None
    for block in v.blocks():
        values = unsigned(v, np.asarray(block).ravel())
        if values.dtype.kind not in "iuf":  # whatever the header declares
            return None
        if last is not None:
            values = np.concatenate([last, values])
        if values.size > 1:
            if rises is None:
                rises = bool(values[1] > values[0])
            good = values[1:] > values[:-1] if rises else values[1:] < values[:-1]
            if not good.all():
                return start + int(np.argmin(good)) + 1
        start += values.size - 1
        last = values[-1:]
    return None


def _raw(v: Variable, start: int, stop: int) -> npt.NDArray[Any]:
    assert v.read is not None  # noqa: S101 - the caller has looked
    return unsigned(v, np.asarray(v.read((slice(start, stop, 1),))).ravel())
