"""Missing data and valid ranges: CF section 2.5.1."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from cfagg.cf.attribute_types import holds, said, said_type, same_type
from cfagg.checking.context import Context
from cfagg.checking.missing import unsigned, valid_limits
from cfagg.findings.finding import Hit
from cfagg.findings.rule import rule
from cfagg.model.dataset import Variable


@rule("DAT001", each="valid_range")
def one_way_to_give_the_valid_range(_: Context, v: Variable) -> Iterator[str]:
    """``valid_range`` is not there together with ``valid_min`` or ``valid_max``."""
    others = [n for n in ("valid_min", "valid_max") if n in v.attributes]
    if others:
        yield (f"it is given together with {' and '.join(others)}: keep one way to give the valid range")


def _wrong_type(c: Context, v: Variable, name: str) -> str:
    """Return what is wrong with the type of an attribute that is to be of the type of its variable."""
    value = v.attributes[name]
    if same_type(v, value, typed=c.dataset.typed):
        return ""
    return (
        f"it holds {said(value, typed=c.dataset.typed)}, the variable {said_type(v)}: give the attribute the type of "
        "the variable"
    )


@rule("DAT002", each="_FillValue")
def fill_value_has_the_type_of_its_variable(c: Context, v: Variable) -> Iterator[str]:
    """``_FillValue`` is one value of the type of its variable."""
    value = v.attributes["_FillValue"]
    wrong = _wrong_type(c, v, "_FillValue")
    if wrong:
        yield (wrong)
    elif isinstance(value, np.ndarray) and value.size != 1:
        yield (f"it holds {value.size} values; expected one")


@rule("DAT003", each="missing_value")
def missing_value_has_the_type_of_its_variable(c: Context, v: Variable) -> Iterator[str]:
    """``missing_value`` is of the type of its variable."""
    wrong = _wrong_type(c, v, "missing_value")
    if wrong:
        yield (wrong)


@rule("DAT008", each=lambda c: c.with_attribute("valid_range", "valid_min", "valid_max"))
def fill_value_is_not_valid(_: Context, v: Variable) -> Iterator[Hit]:
    """``_FillValue`` lies outside the valid range."""
    fill = v.numbers("_FillValue")
    if fill is None or fill.size != 1 or not v.is_numeric or holds(fill) == "other":
        return
    value = unsigned(v, fill.reshape(1))[0]
    low, high = valid_limits(v)
    if low is None and high is None:
        return
    if (low is None or value >= low) and (high is None or value <= high):
        ends = f"from {'any' if low is None else low} to {'any' if high is None else high}"
        # A range that is open at one side may be meant to end where the fill value is.
        half = "info" if low is None or high is None else None
        told = f"{value} lies within the valid range {ends}; choose a value outside"
        yield Hit(v, "_FillValue", told, half)  # type: ignore[arg-type]


@rule("DAT009", each="missing_value")
def missing_value_equals_fill_value(_: Context, v: Variable) -> Iterator[str]:
    """``missing_value`` equals ``_FillValue`` where both are given."""
    if "_FillValue" not in v.attributes:
        return
    one, other = v.attributes["missing_value"], v.attributes["_FillValue"]
    if isinstance(one, str) and isinstance(other, str):
        differs = one != other
    elif isinstance(one, np.ndarray) and isinstance(other, np.ndarray):
        # Most are equal in every respect.
        differs = (one.dtype != other.dtype or one.tobytes() != other.tobytes()) and not _among(v, other, one)
    else:
        return  # of different types: reported by the rule about these
    if differs:
        yield (f"it is {_shown(one)}, _FillValue {_shown(other)}: use one value for both")


def _among(v: Variable, fill: npt.NDArray[Any], values: npt.NDArray[Any]) -> bool:
    """Whether the fill value is among the missing values, in the type of the variable."""
    if not fill.size or not values.size or fill.dtype.kind not in "iuf" or values.dtype.kind not in "iuf":
        return True
    if v.kind == "float":
        with np.errstate(over="ignore"):
            fill, values = fill.astype(v.dtype), values.astype(v.dtype)
    if fill.dtype.kind == "f" and values.dtype.kind == "f" and np.isnan(fill[0]):
        return bool(np.isnan(values).any())
    return bool((values == fill[0]).any())


def _shown(value: object) -> str:
    if not isinstance(value, np.ndarray):
        return repr(value)[:40]
    return str(value[0]) if value.size == 1 else f"{value.size} values"
