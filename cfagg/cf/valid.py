"""The valid range of a variable: ``valid_range``, ``valid_min`` and ``valid_max``, in terms of the stored values.

An attribute of the stored (packed) type is compared with stored values, one of another type with unpacked ones.  An
unpacked value within 4 units in the last place of the bound, in the attribute's type, is inside, because unpacking
rounds, and a bound is usually one of the values.  Integer bounds of 8-bit data may have any width.  If an attribute has
no type, as in JSON, integers for integer data are of the stored type.  Text is no bound, because nothing says whether
it means stored or unpacked values, and no other reader takes it for one.

Sources: CF sections 2.5.1 and 8.1; NetCDF User's Guide, "Attribute Conventions".
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from cfagg.cf.values import integer_range, numbers, reinterpret
from cfagg.errors import ConformError

__all__ = ["is_packed_type", "stored_bounds", "text_bounds", "typed_bounds"]

type Bound = int | float | None

#: Units in the last place by which an unpacked value may miss a bound.
_ULPS = 4


def stored_bounds(
    attributes: Mapping[str, Any],
    stored: np.dtype[Any],
    values: np.dtype[Any],
    scale: float,
    offset: float,
    where: str,
) -> tuple[Bound, Bound]:
    """Return the smallest and largest valid stored value in the type `values`; if both forms exist, the narrower.

    >>> i2 = np.dtype("i2")
    >>> stored_bounds({"valid_range": np.float32([0, 5])}, i2, i2, -0.5, 1.0, "a.nc")
    (-8, 2)
    >>> stored_bounds({"valid_range": np.int16([0, 5])}, i2, i2, -0.5, 1.0, "a.nc")
    (0, 5)
    """
    attributes = {k: v for k, v in attributes.items() if k not in text_bounds(attributes)}
    pair = numbers(attributes, "valid_range", where)
    if len(pair) not in (0, 2):
        raise ConformError(f"{where}: attribute valid_range has {len(pair)} values, expected 2; correct it in the file")
    lows: list[int | float] = []
    highs: list[int | float] = []
    for name, given, upper in (
        ("valid_range", pair[:1], False),
        ("valid_range", pair[1:], True),
        ("valid_min", numbers(attributes, "valid_min", where)[:1], False),
        ("valid_max", numbers(attributes, "valid_max", where)[:1], True),
    ):
        for bound in given:
            if math.isnan(bound) or bound == (math.inf if upper else -math.inf):
                continue
            if (scale, offset) == (1.0, 0.0) or is_packed_type(attributes[name], stored):
                (highs if upper else lows).append(reinterpret(bound, stored, values))
                continue
            slack = _slack(bound, attributes, name, scale, offset)
            turned = upper != (scale < 0)
            (highs if turned else lows).append(_stored(bound, slack, values, scale, offset, upper=upper))
    return max(lows, default=None), min(highs, default=None)


def text_bounds(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """Return those attributes of the valid range that are text, and exclude nothing."""
    found = {n: attributes[n] for n in ("valid_range", "valid_min", "valid_max") if attributes.get(n) is not None}
    return {n: v for n, v in found.items() if np.asarray(v).dtype.kind in "SU"}


def is_packed_type(attribute: Any, stored: np.dtype[Any]) -> bool:
    """Return whether an attribute has the type of the stored values, so that it applies to them.

    >>> is_packed_type(np.int16(3), np.dtype("i2")), is_packed_type(np.float32(3), np.dtype("i2")), is_packed_type(
    ...     3, np.dtype("i2")
    ... )
    (True, False, True)
    """
    dtype = np.asarray(attribute).dtype
    if stored.kind == "f":
        return not _has_type(attribute) or dtype.newbyteorder("=") == stored.newbyteorder("=")
    return dtype.kind in "iu" and (not _has_type(attribute) or stored.itemsize in (1, dtype.itemsize))


def _has_type(attribute: Any) -> bool:
    """Return whether an attribute has its own type, unlike numbers of JSON."""
    return isinstance(attribute, np.generic | np.ndarray)


def _digits(value: Any) -> np.dtype[Any]:
    """Return the real type with as many digits as an attribute; for one without a type, the smallest possible type."""
    dtype = np.asarray(value).dtype
    if _has_type(value):
        return np.dtype("f4") if dtype.kind == "f" and dtype.itemsize <= 4 else np.dtype("f8")
    with np.errstate(over="ignore"):
        short = bool(np.all(np.asarray(value, "f8").astype("f4") == value))
    return np.dtype("f4") if short else np.dtype("f8")


def _slack(bound: float, attributes: Mapping[str, Any], name: str, scale: float, offset: float) -> float:
    """Return by how much an unpacked value may miss a bound, considering the digits of product and offset."""
    if math.isinf(bound):
        return 0.0
    given = attributes[name]
    packing = [attributes[n] for n in ("scale_factor", "add_offset") if attributes.get(n) is not None]
    least = min([_digits(v) for v in packing] or [np.dtype("f8")], key=lambda t: t.itemsize)
    own = least if np.asarray(given).dtype.kind in "iu" else _digits(given)
    ulp = float(np.spacing(own.type(abs(bound))))
    slack = max(_ULPS * ulp, float(np.finfo(least).eps) * (abs(bound - offset) + abs(offset)))
    # If the number of digits is only guessed, the next stored value is never admitted.
    return slack if _has_type(given) else min(slack, abs(scale) / 2)


def _stored(
    bound: float, slack: float, values: np.dtype[Any], scale: float, offset: float, *, upper: bool
) -> int | float:
    """Return the last stored value on the inner side of an unpacked bound."""
    edge = bound + slack if upper else bound - slack
    if values.kind == "f":
        return (edge - offset) / scale
    least, most = integer_range(values)

    def inside(value: int) -> bool:
        unpacked = float(value) * scale + offset
        return unpacked <= edge if upper else unpacked >= edge

    if upper == (scale > 0):
        return _last(inside, least, most)
    return -_last(lambda v: inside(-v), -most, -least)


def _last(inside: Callable[[int], bool], least: int, most: int) -> int:
    """Return the last integer inside, given that the first ones are; if none is, the one before all."""
    low, high = least - 1, most
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if inside(middle) else (low, middle - 1)
    return low


def typed_bounds(dtype: np.dtype[Any], low: Any, high: Any) -> tuple[Any, Any, bool]:
    """Return bounds in `dtype`, and whether they exclude any value except NaN; NaN and `None` are no bounds.

    >>> typed_bounds(np.dtype("i2"), None, 9.5)
    (np.int16(-32768), np.int16(9), True)
    """
    if dtype.kind == "f":
        with np.errstate(over="ignore"):
            least = dtype.type(-np.inf if low is None or math.isnan(low) else low)
            most = dtype.type(np.inf if high is None or math.isnan(high) else high)
        return least, most, bool(least > -np.inf or most < np.inf)
    lowest, highest = integer_range(dtype)
    if low is None and high is None:
        return dtype.type(lowest), dtype.type(highest), False
    first = _round(low, math.ceil, lowest)
    last = _round(high, math.floor, highest)
    if first > highest or last < lowest or first > last:
        return dtype.type(highest), dtype.type(lowest), True
    first, last = max(first, lowest), min(last, highest)
    return dtype.type(first), dtype.type(last), (first, last) != (lowest, highest)


def _round(value: Any, towards: Any, default: int) -> int:
    """Return a bound as an integer; an infinite one is outside every type."""
    if value is None:
        return default
    if isinstance(value, int | np.integer):
        return int(value)
    real = float(value)
    if math.isnan(real):
        return default
    return int(math.copysign(2**70, real)) if math.isinf(real) else int(towards(real))
