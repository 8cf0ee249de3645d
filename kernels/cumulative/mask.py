"""Determining which elements count, in the type of the block, so that every kernel compares the same values."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

__all__ = ["Mask", "native_block", "native_type"]


class Mask(NamedTuple):
    """The condition for values to count: ``low <= value <= high``, not equal to a fill, and neither NaN nor infinite.

    All fields are scalars of the block's type, and the bounds are finite.
    """

    low: Any
    high: Any
    fills: tuple[Any, ...]

    @classmethod
    def of(cls, dtype: np.dtype[Any], fills: Iterable[Any] = (), valid_min: Any = None, valid_max: Any = None) -> Mask:
        """Return the mask for blocks of a native type.

        `fills` that no element can equal are dropped, and NaN is not a bound.  For real types, all are rounded.

        >>> Mask.of(np.dtype("i2"), [-1, 0.5, 99999], valid_max=9.5)
        Mask(low=np.int16(-32768), high=np.int16(9), fills=(np.int16(-1),))
        """
        typed = tuple(dict.fromkeys(v for f in fills for v in _fill(f, dtype)))
        if dtype.kind == "f":
            most = np.finfo(dtype).max
            with np.errstate(over="ignore"):
                low = -most if _absent(valid_min) else max(dtype.type(valid_min), -most)
                high = most if _absent(valid_max) else min(dtype.type(valid_max), most)
            return cls(low, high, typed)
        info = np.iinfo(dtype)
        least = int(info.min) if _absent(valid_min) else _integer(valid_min, math.ceil)
        most = int(info.max) if _absent(valid_max) else _integer(valid_max, math.floor)
        if least > most or least > info.max or most < info.min:
            return cls(dtype.type(info.max), dtype.type(info.min), typed)
        return cls(dtype.type(max(least, int(info.min))), dtype.type(min(most, int(info.max))), typed)

    def valid(self, block: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
        """Return a boolean array that is True for elements that count.

        >>> Mask.of(np.dtype("f4"), [9.0]).valid(np.array([1, 9, np.nan, np.inf], "f4"))
        array([ True, False, False, False])
        """
        valid: npt.NDArray[np.bool_] = (block >= self.low) & (block <= self.high)
        for fill in self.fills:
            valid &= block != fill
        return valid


def native_block(block: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return a block in native byte order, float16 as float32, bool as uint8; `TypeError` for other types.

    >>> native_block(np.array([1, 2], ">i2")).dtype
    dtype('int16')
    """
    return block.astype(native_type(block.dtype), copy=False)


def native_type(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return the type in which elements are summed: native, with float16 and bool widened; `TypeError` for other types.

    >>> native_type(np.dtype(">f2")), native_type(np.dtype(bool))
    (dtype('float32'), dtype('uint8'))
    """
    if dtype.kind not in "biuf" or dtype.itemsize > 8:
        raise TypeError(f"sums are taken of integers, of truth values and of reals of at most 8 bytes; found {dtype}")
    if dtype.kind == "b":
        return np.dtype("u1")
    return np.dtype("f4") if dtype.kind == "f" and dtype.itemsize == 2 else dtype.newbyteorder("=")


def _absent(bound: Any) -> bool:
    """Return whether a bound is absent."""
    return bound is None or (not isinstance(bound, (int, np.integer)) and math.isnan(bound))


def _integer(bound: Any, towards: Any) -> int:
    """Return a bound as an integer, outside the range of every type if it is infinite."""
    if isinstance(bound, (int, np.integer)):
        return int(bound)
    number = float(bound)
    return int(math.copysign(2**70, number)) if math.isinf(number) else int(towards(number))


def _fill(value: Any, dtype: np.dtype[Any]) -> tuple[Any, ...]:
    """Return a tuple with a fill in a type, empty if no valid element can equal it."""
    if dtype.kind == "f":
        with np.errstate(over="ignore"):
            typed = dtype.type(value)
        return (typed,) if np.isfinite(typed) else ()
    if not isinstance(value, (int, np.integer)):
        number = float(value)
        if not number.is_integer():
            return ()
        value = int(number)
    info = np.iinfo(dtype)
    return (dtype.type(int(value)),) if info.min <= value <= info.max else ()
