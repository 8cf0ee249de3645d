"""The range of the values present: CF section 2.5.1."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from cfagg.cf.attribute_types import holds, said, said_type, same_type
from cfagg.checking.context import Context, once
from cfagg.checking.missing import given_limits, missing_mask, packing, unpacked, unsigned
from cfagg.findings.rule import rule
from cfagg.model.dataset import Variable


def _packing_types(v: Variable) -> set[np.dtype[Any]]:
    """Return the types of ``scale_factor`` and ``add_offset``."""
    found = (v.numbers(name) for name in ("scale_factor", "add_offset"))
    return {given.dtype.newbyteorder("=") for given in found if given is not None}


@rule("DAT004", each="actual_range")
def actual_range_has_the_type_of_the_data(c: Context, v: Variable) -> Iterator[str]:
    """``actual_range`` has the type of the variable, of ``scale_factor`` and ``add_offset`` if it is packed."""
    value = v.attributes["actual_range"]
    types = _packing_types(v)
    message = f"it holds {said(value, typed=c.dataset.typed)}"
    if v.is_text:
        yield (f"{message}, but the variable holds text, and actual_range applies only to numbers: remove it")
    elif holds(value) in ("bytes", "other"):
        return
    elif not types:
        if not same_type(v, value, typed=c.dataset.typed):
            yield (f"{message}, the variable {said_type(v)}: give it the type of the variable")
    elif not isinstance(value, np.ndarray):
        yield (f"{message}; expected numbers of the type of scale_factor and add_offset")
    elif len(types) == 1 and c.dataset.typed and value.dtype.newbyteorder("=") not in types:
        expected = next(iter(types)).name
        yield (f"{message}; expected {expected}, the type of scale_factor and add_offset")


class _Extremes(NamedTuple):
    """The smallest and largest stored value that is not missing; `None` if all are missing."""

    low: Any
    high: Any


@once
def _extremes(c: Context) -> dict[int, _Extremes | None]:
    """Return the extremes of each variable that has ``actual_range``, by its identity.

    Variables without values, and those whose values are stored elsewhere, have no entry.
    """
    found: dict[int, _Extremes | None] = {}
    for v in c.with_attribute("actual_range"):
        if not v.is_numeric or v.dialect is not None or not v.size or v.read is None:
            continue
        low = high = None
        for block in v.blocks():
            values = unsigned(v, block)
            there: npt.NDArray[Any] = values[~missing_mask(v, block)]
            if there.size:
                least, most = there.min(), there.max()
                low = least if low is None or least < low else low
                high = most if high is None or most > high else high
        found[id(v)] = None if low is None else _Extremes(low, high)
    return found


def _comparable(v: Variable) -> npt.NDArray[Any] | None:
    """Return ``actual_range`` if it is clear which values to compare it with."""
    given = v.numbers("actual_range")
    types = _packing_types(v)
    if given is None or given.dtype.kind not in "iuf" or not v.is_numeric or len(types) > 1:
        return None
    # Integers with real packing attributes may be meant as packed values, which the rule about the type reports.
    return None if given.dtype.kind in "iu" and any(t.kind == "f" for t in types) else unsigned(v, given)


def _equal(v: Variable, given: Any, value: Any) -> bool:
    """Whether an end of ``actual_range`` is a value of the data.

    CF does not specify the arithmetic of unpacking, so values are equal within the precision of their type.
    """
    if packing(v) is None:
        if v.kind == "float":
            return bool(v.dtype.type(given) == value)
        return bool(given == value)
    digits = np.finfo(np.float32 if np.asarray(value).dtype.itemsize <= 4 else np.float64).eps
    size = max(abs(float(value)), *(abs(float(part)) for part in packing(v) or (0.0, 0.0)))
    return bool(abs(float(given) - float(value)) <= 8 * float(digits) * size)


@rule("DAT005", each="actual_range")
def actual_range_is_that_of_the_data(c: Context, v: Variable) -> Iterator[str]:
    """``actual_range`` gives the smallest and the largest value of the unpacked data."""
    given = _comparable(v)
    if given is None:
        return
    if given.size != 2:
        message = f"it holds {given.size} value{'' if given.size == 1 else 's'}"
        yield (f"{message}; expected two, the smallest and the largest")
        return
    if given[0] > given[1]:
        yield (f"{given[0]} is larger than {given[1]}; expected the smallest value first")
        return
    ends = _extremes(c).get(id(v)) if c.options.data else None
    if ends is None or _invalid(v, given):
        return  # values beyond the valid range count as missing, which DAT007 reports
    least, most = sorted(unpacked(v, np.array([ends.low, ends.high])).tolist())
    shown = unpacked(v, np.array([ends.low, ends.high]))
    real = shown.dtype.type
    if not (_equal(v, given[0], real(least)) and _equal(v, given[1], real(most))):
        message = f"it is {given[0]} to {given[1]}, but the values are {real(least)} to {real(most)}"
        yield (f"{message}: write these values")


@rule("DAT006", each="actual_range", needs="data")
def actual_range_is_of_something(c: Context, v: Variable) -> Iterator[str]:
    """There is no ``actual_range`` if all values are missing."""
    given = _comparable(v)
    beyond = given is not None and given.size == 2 and _invalid(v, given)
    if _extremes(c).get(id(v), ...) is None and not beyond:
        yield ("all values of the variable are missing: remove it")


@rule("DAT007", each="actual_range")
def actual_range_is_valid(_: Context, v: Variable) -> Iterator[str]:
    """``actual_range`` is within the valid range."""
    given = _comparable(v)
    message = _invalid(v, given) if given is not None and given.size == 2 else ""
    if message:
        yield (message)


def _invalid(v: Variable, given: npt.NDArray[Any]) -> str:
    """Return which end of an actual range is not valid, or an empty string if both are."""
    low, high = given_limits(v)
    room = 0.0 if packing(v) is None else 1e-6 * max(abs(float(given[0])), abs(float(given[1])))
    if low is not None and float(given[0]) < float(low) - room:
        return f"{given[0]} is less than {low}, the smallest valid value"
    if high is not None and float(given[1]) > float(high) + room:
        return f"{given[1]} is more than {high}, the largest valid value"
    return ""
