"""Properties that joined arrays have to share: names of dimensions, types, and the meaning of stored values."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from cfagg.arrays.lazy import LazyArray
from cfagg.errors import ConformError

__all__ = ["common_attributes", "common_dims", "common_dtype"]

#: Attributes by which stored numbers represent other values.
_PACKING = ("scale_factor", "add_offset", "_Unsigned")

#: Attributes by which they are missing.
_MISSING = ("_FillValue", "missing_value", "valid_min", "valid_max", "valid_range")

#: Attributes that define the meaning of values.
_MEANING = ("units", "calendar", "flag_values", "flag_masks", "flag_meanings", "positive")

#: Names given to unnamed dimensions by cfagg, and by the netCDF library and xarray.
_UNNAMED = re.compile(r"(phony_)?dim_[0-9]+")

#: Bits of the significand of a floating-point number.
_DIGITS = {2: 11, 4: 24, 8: 53}


def common_dims(parts: Sequence[LazyArray], where: str) -> tuple[str, ...]:
    """Return the names of the dimensions."""
    found: list[str] = []
    for d in range(parts[0].ndim):
        named = [(part.dims[d], k) for k, part in enumerate(parts) if not _UNNAMED.fullmatch(part.dims[d])]
        other = next(((name, k) for name, k in named if name != named[0][0]), None)
        if other is not None:
            raise ConformError(
                f"dimension {d} is called {named[0][0]!r} in arrays{where}[{named[0][1]}] and {other[0]!r} in "
                f"arrays{where}[{other[1]}]; transpose one of them"
            )
        found.append(named[0][0] if named else f"dim_{d}")
    return tuple(found)


def common_dtype(parts: Sequence[LazyArray], where: str) -> np.dtype[Any]:
    """Return a type that can represent the values of all parts."""
    types: dict[np.dtype[Any], int] = {}
    for k, part in enumerate(parts):
        types.setdefault(part.dtype, k)
    if len(types) == 1:
        return parts[0].dtype
    if all(t.kind in "biuf" for t in types):
        result = np.result_type(*types)
        if all(_holds(result, t) for t in types):
            return result
    one, *_, other = types
    raise ConformError(
        f"arrays{where}[{types[one]}] is of type {one} and arrays{where}[{types[other]}] of type {other}: no type "
        "holds the values of all of them; convert one of them first"
    )


def _holds(result: np.dtype[Any], dtype: np.dtype[Any]) -> bool:
    """Return whether a type can represent all values of another."""
    if result.kind == "f" and dtype.kind in "iu":
        return 8 * dtype.itemsize - (dtype.kind == "i") <= _DIGITS.get(result.itemsize, 64)
    return bool(np.can_cast(dtype, result, "safe"))


def common_attributes(parts: Sequence[LazyArray], where: str) -> dict[str, Any]:
    """Return the attributes that parts share; parts without any get those of the others.

    Stored arrays without attributes are not packed and have no missing values.  For arrays in memory this is unknown,
    but if others are packed, they can only be packed, too, if they have the same type.
    """
    described = [(k, part) for k, part in enumerate(parts) if part.attributes]
    if not described:
        return {}
    k, first = described[0]
    for other, part in enumerate(parts):
        if part.attributes:
            _check(_PACKING + _MISSING + _MEANING, (first, k), (part, other), where)
        elif not part.reader.is_bare:
            _check(_PACKING + _MISSING, (first, k), (part, other), where)
    packed = next((n for n in _PACKING if first.attributes.get(n) is not None), None)
    if packed is not None:
        _check_types(parts, k, packed, where)
    attributes = first.attributes
    return {
        n: v for n, v in attributes.items() if all(_is_same(v, part.attributes.get(n)) for _, part in described[1:])
    }


def _check(names: Sequence[str], one: tuple[LazyArray, int], other: tuple[LazyArray, int], where: str) -> None:
    """Raise an error if attributes that define the meaning of stored values differ between two arrays."""
    for name in names:
        a, b = (_typed(name, part) for part, _ in (one, other))
        if _is_same(a, b):
            continue
        remedy = (
            "convert one of them first, or make the attributes the same if they mean the same"
            if name in _MEANING
            else "cfagg.read decodes them, and xarray.concat joins what it returns"
        )
        raise ConformError(
            f"{name} is {_shown(a)} in arrays{where}[{one[1]}] and {_shown(b)} in arrays{where}[{other[1]}], so stored "
            f"values mean different things; {remedy}"
        )


def _check_types(parts: Sequence[LazyArray], k: int, packed: str, where: str) -> None:
    """Raise an error if an array has another type than packed ones, and so may not be packed in the same way."""
    first = parts[k]
    for other, part in enumerate(parts):
        # Signed integers that represent unsigned ones of the same size would not do so in a larger type.
        if part.dtype != first.dtype and (packed == "_Unsigned" or not part.attributes):
            raise ConformError(
                f"arrays{where}[{k}] is packed in {first.dtype} ({packed} is {_shown(first.attributes[packed])}) and "
                f"arrays{where}[{other}] is of type {part.dtype}, so stored values mean different things; cfagg.read "
                "decodes them, and xarray.concat joins what it returns"
            )


def _typed(name: str, part: LazyArray) -> Any:
    """Return an attribute of an array, in the array's type if it is compared with the values."""
    value = part.attributes.get(name)
    if value is None or name not in _MISSING or part.dtype.kind != "f":
        return value
    found = np.asarray(value)
    return found.astype(part.dtype) if found.dtype.kind in "iuf" else value


def _is_same(one: Any, other: Any) -> bool:
    """Return whether two values of an attribute are equal; NaN equals itself, and absence equals only absence."""
    if one is None or other is None:
        return one is other
    if type(one) is str and type(other) is str:
        return one == other
    try:
        a, b = np.asarray(one), np.asarray(other)
    except ValueError:  # nested lists of unequal lengths
        return bool(one == other)
    if a.size != b.size or (a.dtype.kind in "biuf") != (b.dtype.kind in "biuf"):
        return False
    a, b = a.reshape(-1), b.reshape(-1)
    if a.dtype.kind == b.dtype.kind == "f":
        return bool(np.array_equal(a, b, equal_nan=True))
    return bool(a.tolist() == b.tolist())


def _shown(value: Any) -> str:
    if value is None:
        return "not given"
    found = np.asarray(value) if isinstance(value, np.generic | np.ndarray) else None
    return repr(value if found is None else found.tolist())
