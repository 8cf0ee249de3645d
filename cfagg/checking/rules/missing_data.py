"""Missing data, valid ranges and packed data: CF sections 2.5.1 and 8.1, and the wider rules before CF-1.11."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from cfagg.cf.attribute_types import holds, said, said_type, same_type
from cfagg.checking.context import Context, once
from cfagg.checking.missing import given_limits, limits_are_unpacked, unpacked, unsigned, valid_limits
from cfagg.findings.finding import Hit
from cfagg.findings.rule import rule
from cfagg.findings.versions import Version
from cfagg.model.dataset import Variable


@rule("DAT001", each="valid_range")
def one_way_to_give_the_valid_range(_: Context, v: Variable) -> Iterator[str]:
    """``valid_range`` is not combined with ``valid_min`` or ``valid_max``."""
    others = [n for n in ("valid_min", "valid_max") if n in v.attributes]
    if others:
        yield (f"it is given together with {' and '.join(others)}: keep one way to give the valid range")


def _wrong_type(c: Context, v: Variable, name: str) -> str:
    """Return the error in the type of an attribute that must have the type of its variable."""
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
    """``_FillValue`` is outside the valid range."""
    fill = v.numbers("_FillValue")
    if fill is None or fill.size != 1 or not v.is_numeric or holds(fill) == "other":
        return
    value = unsigned(v, fill.reshape(1))[0]
    low, high = valid_limits(v)
    if low is None and high is None:
        return
    if (low is None or value >= low) and (high is None or value <= high):
        shown = str(value)
        if limits_are_unpacked(v):
            low, high = given_limits(v)
            shown = f"{value} (unpacked: {unpacked(v, np.array([value]))[0]})"
        ends = f"from {'any' if low is None else low} to {'any' if high is None else high}"
        # A range that is open on one side may be meant to end at the fill value.
        half = "info" if low is None or high is None else None
        message = f"{shown} lies within the valid range {ends}; choose a value outside"
        yield Hit(v, "_FillValue", message, half)  # type: ignore[arg-type]


@rule("DAT009", each="missing_value")
def missing_value_equals_fill_value(_: Context, v: Variable) -> Iterator[str]:
    """``missing_value`` equals ``_FillValue`` if both are given."""
    if "_FillValue" not in v.attributes:
        return
    one, other = v.attributes["missing_value"], v.attributes["_FillValue"]
    if isinstance(one, str) and isinstance(other, str):
        differs = one != other
    elif isinstance(one, np.ndarray) and isinstance(other, np.ndarray):
        # Most are equal in type and bytes.
        differs = (one.dtype != other.dtype or one.tobytes() != other.tobytes()) and not _among(v, other, one)
    else:
        return  # the rule about types reports different types
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


_ATTRIBUTES = ("scale_factor", "add_offset")

#: Since this version only real numbers pack data, whatever the type of the variable.
_STRICT = Version(1, 11)


def _types(c: Context, v: Variable) -> tuple[np.dtype[Any], ...]:
    """Return the types of ``scale_factor`` and ``add_offset`` if all that exist are numbers."""
    found = []
    for name in _ATTRIBUTES:
        given = v.attributes.get(name)
        if isinstance(given, np.ndarray) and given.dtype.kind in "iuf" and given.size == 1:
            # JSON does not distinguish 1 from 1.0.
            found.append(given.dtype.newbyteorder("=") if c.dataset.typed else np.dtype("f8"))
        elif name in v.attributes:
            return ()
    return tuple(found)


@rule("PCK001", each=lambda c: c.with_attribute(*_ATTRIBUTES))
def packing_attributes_are_real_numbers_of_one_type(c: Context, v: Variable) -> Iterator[Hit]:
    """``scale_factor`` and ``add_offset`` are each one real number, both of the same type."""
    fine = []
    for name in _ATTRIBUTES:
        value = v.attributes.get(name)
        if name not in v.attributes or holds(value) in ("bytes", "other"):
            continue
        if not isinstance(value, np.ndarray):
            yield Hit(v, name, f"it holds {said(value)}; expected a number of type float32 or float64")
        elif value.size != 1:
            yield Hit(v, name, f"it holds {value.size} values; expected one number")
        elif c.dataset.typed and not _may_pack(c, v, value.dtype):
            yield Hit(v, name, f"it is of type {value.dtype.name}; expected float32 or float64: change its type")
        else:
            fine.append((name, value.dtype.newbyteorder("=")))
    if len(fine) == 2 and c.dataset.typed and fine[0][1] != fine[1][1]:
        (one, first), (other, second) = fine
        yield Hit(v, one, f"it is of type {first.name}, {other} of {second.name}: give both the same type")


def _may_pack(c: Context, v: Variable, dtype: np.dtype[Any]) -> bool:
    if dtype.kind == "f":
        return dtype.itemsize in (4, 8)
    return c.version < _STRICT and dtype.newbyteorder("=") == v.dtype.newbyteorder("=")


@once
def _packed(c: Context) -> list[tuple[Variable, np.dtype[Any]]]:
    """Return packed variables and the type of their attributes, if that type is valid."""
    found = []
    for v in c.with_attribute(*_ATTRIBUTES):
        types = _types(c, v)
        if not types or len(set(types)) > 1 or not all(_may_pack(c, v, t) for t in types) or v.kind == "other":
            continue
        # JSON does not say whether the attributes of reals are of their type.
        alike = types[0] == v.dtype.newbyteorder("=") or (v.kind == "float" and not c.dataset.typed)
        if c.version < _STRICT and alike:
            continue  # the values are only scaled, not packed
        found.append((v, types[0]))
    return found


@rule("PCK002", each=_packed)
def float_packs_small_integers(c: Context, v: Variable, dtype: np.dtype[Any]) -> Iterator[Hit]:
    """With ``float`` attributes the variable is of a signed or unsigned byte or short type."""
    if dtype.itemsize != 4 or (v.kind == "integer" and v.dtype.itemsize <= 2):
        return
    message = f"the variable is of type {said_type(v)}, scale_factor and add_offset are float32"
    if c.version < _STRICT and v.kind == "integer" and v.dtype.itemsize == 4:
        yield Hit(v, None, f"{message}; not all digits may be kept: make them float64", "warning")
    else:
        yield Hit(v, None, f"{message}; expected a variable of 8- or 16-bit integers{_remedy(c, v)}")


@rule("PCK003", each=_packed)
def double_packs_integers_up_to_int(c: Context, v: Variable, dtype: np.dtype[Any]) -> Iterator[Hit]:
    """With ``double`` attributes the variable is of a signed or unsigned byte, short or int type."""
    if dtype.itemsize != 8 or (v.kind == "integer" and v.dtype.itemsize <= 4):
        return
    which = " and ".join(n for n in _ATTRIBUTES if n in v.attributes)
    message = f"the variable is of type {said_type(v)} and has {which}"
    yield Hit(v, None, f"{message}; expected a variable of 8-, 16- or 32-bit integers{_remedy(c, v)}")


def _remedy(c: Context, v: Variable) -> str:  # noqa: ARG001 - asked alike
    return ": unpack the values and remove the attributes, or pack them into integers" if v.kind == "float" else ""
