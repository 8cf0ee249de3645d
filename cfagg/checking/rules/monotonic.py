"""The values of coordinate variables: CF chapter 5."""

from __future__ import annotations

from collections.abc import Iterator
from math import isnan
from typing import Any

import numpy as np
import numpy.typing as npt

from cfagg.checking.context import Context, once, variables
from cfagg.checking.missing import unsigned, unwritten
from cfagg.findings.finding import Hit
from cfagg.findings.rule import rule
from cfagg.model.dataset import Variable


@rule("COO007", each=variables, needs="data")
def coordinate_variables_are_monotonic(c: Context, v: Variable) -> Iterator[Hit]:
    """The values of a coordinate variable all increase or all decrease."""
    if not v.is_coordinate or not v.is_numeric or v.dialect is not None or v.read is None:
        return
    if len(v.stored) != 1 or v.stored[0].size < 2:
        return
    at = _turn(v)
    if at is None:
        return
    if unwritten(v):
        if c.dataset.format != "cdl":  # a header in CDL has no values
            message = f"all {v.size} values are the fill value: the coordinate was never written"
            # A file without any values is a template to be filled later.
            yield Hit(v, None, message, None if _any_written(c) else "warning")
        return
    before, value = (x.item() for x in _raw(v, at - 1, at + 1))
    lost = [n for n, x in ((at - 1, before), (at, value)) if isinstance(x, float) and isnan(x)]
    if lost:
        yield Hit(v, None, f"value {lost[0]} is not a number; expected a number for each point of the dimension")
    else:
        how = "repeats" if value == before else "turns back from"
        message = (
            f"value {at}, {value!r}, {how} the one before{'' if value == before else f', {before!r}'}; expected "
            "values that strictly increase or strictly decrease"
        )
        yield Hit(v, None, message)


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
