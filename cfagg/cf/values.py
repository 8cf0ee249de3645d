"""Numbers in attributes, and reinterpreting their bits as another type."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from cfagg.errors import ConformError

__all__ = ["integer_range", "number", "numbers", "reinterpret", "text_missing", "whole"]

#: Attributes that declare missing values.
_MISSING = ("_FillValue", "missing_value")


def numbers(attributes: Mapping[str, Any], name: str, where: str) -> list[int | float]:
    """Return the numbers in an attribute, or none if it is absent; raise `ConformError` for anything else.

    A missing value that is the text "NaN", as some programs write it, is that number; any other text as
    ``missing_value``, as some write it too, is none (see `text_missing`).
    """
    if attributes.get(name) is None or (name == "missing_value" and text_missing(attributes)):
        return []
    given = attributes[name]
    values = np.asarray(given).ravel()
    if values.dtype.kind == "f" and isinstance(given, list) and all(isinstance(v, int) for v in given):
        return list(given)  # NumPy has no type for some that need the sign or all 64 bits, and would round them
    if name in _MISSING and _says_nan(values):
        values = np.full(values.shape, np.nan)
    if values.dtype.kind not in "iuf":
        raise ConformError(f"{where}: attribute {name} = {attributes[name]!r} is not a number; correct it in the file")
    return list(values.tolist())


def text_missing(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """Return a ``missing_value`` that is text, and so makes nothing missing: libraries of netCDF ignore it."""
    values = np.asarray(attributes.get("missing_value", 0)).ravel()
    is_none = values.dtype.kind in "SU" and not _says_nan(values)
    return {"missing_value": attributes["missing_value"]} if is_none else {}


def _says_nan(values: npt.NDArray[Any]) -> bool:
    return values.dtype.kind in "SU" and bool((np.char.lower(values.astype("U")) == "nan").all())


def number(attributes: Mapping[str, Any], name: str, where: str) -> int | float | None:
    """Return the single number in an attribute, or `None` if it is absent; raise `ConformError` for anything else."""
    values = numbers(attributes, name, where)
    if len(values) > 1:
        raise ConformError(f"{where}: attribute {name} = {attributes[name]!r} has {len(values)} values, expected 1")
    return values[0] if values else None


@lru_cache(maxsize=64)
def integer_range(dtype: np.dtype[Any]) -> tuple[int, int]:
    """Return the smallest and largest value of an integer type; cached, as looking them up takes a while."""
    info = np.iinfo(dtype)
    return int(info.min), int(info.max)


def whole(value: Any) -> int | None:
    """Return the integer that `value` equals, or `None` if it is not one."""
    if isinstance(value, int | np.integer):
        return int(value)
    real = float(value)
    return int(real) if real.is_integer() else None


def reinterpret(value: float, stored: np.dtype[Any], values: np.dtype[Any]) -> int | float:
    """Return a value of the stored integer type with the same bits interpreted with the other signedness."""
    exact = whole(value)
    if stored == values or stored.kind == "f" or exact is None:
        return value
    least, most = integer_range(stored)
    if not least <= exact <= most:
        return value
    count = 1 << 8 * stored.itemsize
    unsigned = exact % count
    return unsigned - count if values.kind == "i" and unsigned >= count // 2 else unsigned
