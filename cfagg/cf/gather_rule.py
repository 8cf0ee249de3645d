"""The operation of a gather on each element, in the types of its source and target.

Callers pass fills, bounds and the fill of the target as found in attributes: Python numbers or NumPy scalars of any
type.  `GatherRule.make` converts them once to the types of source and target, so that both implementations (NumPy and
compiled) compare and write the same values, and determines whether an element can be bad at all.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from cfagg.cf.missing import typed_fills
from cfagg.cf.valid import typed_bounds
from cfagg.cf.values import integer_range, whole
from cfagg.errors import ConformError, UnsupportedError

__all__ = ["EXACT", "GatherRule", "mantissa"]

EXACT = 2**53
"""Largest magnitude up to which float64 represents every integer."""

_CHARACTERS = frozenset("bhilqBHILQfd")


def mantissa(dtype: np.dtype[Any]) -> int:
    """Return the number of bits of an integer that a type represents without rounding."""
    if dtype.kind == "f":
        return int(np.finfo(dtype).nmant) + 1
    return 8 * dtype.itemsize - (dtype.kind == "i")


@dataclass(frozen=True, slots=True)
class GatherRule:
    """The operation on one element: ``source * scale + offset`` in float64; 1 and 0 are a pure cast.

    `fills`, and values not between `low` and `high`, in the type of the source, are missing. `masked` means that
    elements may be missing and then need `fill` written (unless NaN stays NaN), `lost` that missing elements are bad
    because the target has no value for them, and `checked` that other elements may be bad.
    """

    source: np.dtype[Any]
    target: np.dtype[Any]
    scale: float
    offset: float
    fills: tuple[Any, ...]
    low: Any
    high: Any
    fill: Any
    masked: bool
    lost: bool
    checked: bool

    @property
    def pure(self) -> bool:
        """Whether the values are only cast."""
        return self.scale == 1.0 and self.offset == 0.0

    @property
    def copies(self) -> bool:
        """Whether target elements have the same bits as the source."""
        return self.pure and not self.masked and self.source == self.target

    def keeps(self, fill: Any) -> bool:
        """Return whether a missing source value is copied as the target's fill; never for 0, since reals have -0."""
        return self.pure and self.source == self.target and bool(fill) and bool(fill == self.fill)

    @property
    def bounded(self) -> bool:
        """Whether `low` and `high` exclude any number of the source's type."""
        if self.source.kind == "f":
            return not (self.low == -math.inf and self.high == math.inf)
        least, most = integer_range(self.source)
        return not (self.low == least and self.high == most)

    @property
    def light(self) -> bool:
        """Whether target elements have the same bits as the source, except missing ones that few comparisons find."""
        return self.pure and self.source == self.target and not (self.masked and self.bounded) and len(self.fills) <= 2

    @classmethod
    def make(
        cls,
        source: np.dtype[Any],
        target: np.dtype[Any],
        scale: float = 1.0,
        offset: float = 0.0,
        fills: Iterable[Any] = (),
        valid_min: Any = None,
        valid_max: Any = None,
        fill: Any = None,
    ) -> GatherRule:
        """Return the rule for these types and values; `UnsupportedError` for other types, `ConformError` for values."""
        source = source if source.isnative else source.newbyteorder("=")
        target = target if target.isnative else target.newbyteorder("=")
        for side, dtype in (("source", source), ("target", target)):
            if dtype.char not in _CHARACTERS:
                raise UnsupportedError(
                    f"values are gathered between integers and float32 or float64; {side} is {dtype}"
                )
        scale, offset = float(scale), float(offset)
        if not (math.isfinite(scale) and math.isfinite(offset)):
            raise ConformError(f"scale and offset must be finite; found {scale} and {offset}")
        typed = typed_fills(fills, source)
        low, high, bounded = typed_bounds(source, valid_min, valid_max)
        value, lost = _target_fill(fill, target)
        plain_nan = target.kind == "f" and math.isnan(value)
        masked = bool(typed) or bounded or (source.kind == "f" and not plain_nan)
        return cls(
            source=source,
            target=target,
            scale=scale,
            offset=offset,
            fills=typed,
            low=low,
            high=high,
            fill=value,
            masked=masked,
            lost=lost and masked,
            checked=_can_fail(source, target, scale, offset),
        )


def _target_fill(fill: Any, dtype: np.dtype[Any]) -> tuple[Any, bool]:
    """Return the target's fill, and whether there is none."""
    if fill is None:
        return (dtype.type(np.nan), False) if dtype.kind == "f" else (dtype.type(0), True)
    if dtype.kind == "f":
        with np.errstate(over="ignore"):
            value = dtype.type(fill)
        if np.isinf(value) and math.isfinite(fill):
            raise ConformError(f"the missing value {fill!r} is beyond the range of {dtype}; declare one that fits")
        return value, False
    number = whole(fill)
    least, most = integer_range(dtype)
    if number is None or not least <= number <= most:
        raise ConformError(f"the missing value {fill!r} is not a value of {dtype}; declare one that fits")
    return dtype.type(number), False


@lru_cache(maxsize=256)
def _can_fail(source: np.dtype[Any], target: np.dtype[Any], scale: float, offset: float) -> bool:
    """Return whether any value of `source` is bad in `target`."""
    if scale == 1.0 and offset == 0.0:
        if source.kind == "f":
            return target.kind != "f" or target.itemsize < source.itemsize
        signed_to_unsigned = source.kind == "i" and target.kind == "u"
        return signed_to_unsigned or mantissa(source) > mantissa(target)
    if source.kind == "f":
        return True
    ends = integer_range(source)
    most = float(max(-ends[0], ends[1]))
    if target.kind == "f":
        return not most * abs(scale) + abs(offset) < float(np.finfo(target).max)
    results = [float(v) * scale + offset for v in ends]
    least, greatest = integer_range(target)
    inside = least <= min(results) - 1 and max(results) + 1 <= greatest
    return not (inside and most <= EXACT and max(map(abs, results)) < EXACT)
