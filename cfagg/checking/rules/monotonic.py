"""The values of coordinate variables: CF chapter 5."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from cfagg.checking.context import Context
from cfagg.checking.findings import Hit
from cfagg.checking.model import Variable
from cfagg.checking.rule import rule


@rule("COO007", needs="data")
def coordinate_variables_are_monotonic(c: Context) -> Iterator[Hit]:
    """The values of a coordinate variable all increase or all decrease."""
    for v in c.dataset.variables:
        if not v.is_coordinate or not v.is_numeric or v.dialect is not None or v.read is None:
            continue
        if len(v.stored) != 1 or v.stored[0].size < 2:
            continue
        at = _turn(v)
        if at is None or (c.dataset.format == "cdl" and _unwritten(v)):
            continue
        before, value = (x.item() for x in _raw(v, at - 1, at + 1))
        if value != value or before != before:  # noqa: PLR0124 - not a number
            yield Hit(
                v,
                None,
                f"value {at if value != value else at - 1} is not a number; a coordinate variable has no missing values",
            )
        else:
            how = "repeats" if value == before else "turns back from"
            yield Hit(
                v,
                None,
                f"value {at}, {value!r}, {how} the one before{'' if value == before else f', {before!r}'}; expected "
                "values that strictly increase or strictly decrease",
            )


def _turn(v: Variable) -> int | None:
    """Return the index of the first value that does not go on in the direction of the first two, `None` for none."""
    start, last, rises = 0, None, None
    for block in v.blocks():
        values = _unsigned(v, np.asarray(block).ravel())
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
    return _unsigned(v, np.asarray(v.read((slice(start, stop, 1),))).ravel())


def _unsigned(v: Variable, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return values with the sign that the attribute ``_Unsigned`` of the netCDF User Guide gives them."""
    if values.dtype.kind == "i" and (v.text("_Unsigned") or "").lower() == "true":
        return values.view(values.dtype.str.replace("i", "u"))
    return values


def _unwritten(v: Variable) -> bool:
    """Whether all values are the same: CDL of a header has none, and the reader fills them in."""
    return all((block == block.flat[0]).all() for block in v.blocks() if block.size)
