"""Which stored values of a variable mean "missing", as its attributes declare it.

Sources: CF section 2.5.1 and the NetCDF User's Guide, "Attribute Conventions".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from cfagg.errors import ConformError

__all__ = ["DEFAULT_FILLS", "Missing", "declared_fill", "number", "numbers", "reinterpret"]

#: NetCDF's fill value of each type that is written where nothing was; 8-bit integers have none that means missing.
DEFAULT_FILLS: Mapping[str, int | float] = {
    "i2": -32767,
    "u2": 65535,
    "i4": -2147483647,
    "u4": 4294967295,
    "i8": -9223372036854775806,
    "u8": 18446744073709551614,
    "f4": 9.969209968386869e36,
    "f8": 9.969209968386869e36,
}


@dataclass(frozen=True, slots=True)
class Missing:
    """Values that mean missing, in the type of the stored values (with ``_Unsigned`` already applied).

    Parameters
    ----------
    fills : tuple of int or float
        Values that mean missing.
    low, high : int or float, optional
        Smallest and largest value that does not.
    declared : bool
        Whether the variable declares a missing value itself, so that `fills` is not netCDF's default.
    """

    fills: tuple[int | float, ...] = ()
    low: int | float | None = None
    high: int | float | None = None
    declared: bool = False

    @classmethod
    def of(
        cls,
        attributes: Mapping[str, Any],
        stored: np.dtype[Any],
        values: np.dtype[Any],
        *,
        scale: float = 1.0,
        offset: float = 0.0,
        fill: float | None = None,
        where: str,
    ) -> Missing:
        """Return what a variable's attributes declare as missing.

        Parameters
        ----------
        attributes : mapping
            ``_FillValue``, ``missing_value`` (one or several), ``valid_min``, ``valid_max``, ``valid_range``.
        stored, values : numpy.dtype
            Integer or real type as stored, and with ``_Unsigned`` applied.
        scale, offset : float
            The variable's packing.  A bound of real type on packed integers is in unpacked units, as the NetCDF User's
            Guide has it; all others are in packed units.
        fill : number, optional
            A missing value known from elsewhere.
        where : str
            File, variable and partition, for messages.

        Raises
        ------
        ConformError
            An attribute that is not a number, or a range that is not two.

        Examples
        --------
        >>> i2 = np.dtype("i2")
        >>> Missing.of({"_FillValue": np.int16(-1), "valid_max": np.int16(9)}, i2, i2, where="a.nc")
        Missing(fills=(-1,), low=None, high=9, declared=True)
        >>> Missing.of({}, i2, i2, where="a.nc").fills
        (-32767,)
        """
        found = [*numbers(attributes, "_FillValue", where), *numbers(attributes, "missing_value", where)]
        found += [] if fill is None else [fill]
        fills = tuple(dict.fromkeys(reinterpret(v, stored, values) for v in found))
        declared = bool(found)
        if not declared:
            # Declared unsigned or not, netCDF wrote the fill value of the type as stored.
            default = DEFAULT_FILLS.get(stored.str[1:])
            fills = () if default is None else (reinterpret(default, stored, values),)
        low, high = _bounds(attributes, where)
        packed = values.kind in "iu" and (scale, offset) != (1.0, 0.0)
        if packed and any(isinstance(v, float) for v in (low, high)):
            low, high = _packed(low, scale, offset), _packed(high, scale, offset)
            low, high = (high, low) if scale < 0 else (low, high)
        else:
            low, high = (None if v is None else reinterpret(v, stored, values) for v in (low, high))
        return cls(fills, low, high, declared)


def declared_fill(attributes: Mapping[str, Any], where: str) -> int | float | None:
    """Return the value that a variable declares for missing elements: ``_FillValue``, else ``missing_value``.

    >>> declared_fill({"missing_value": [-9.0, -8.0]}, "a.nc")
    -9.0
    """
    for name in ("_FillValue", "missing_value"):
        for value in numbers(attributes, name, where):
            return value
    return None


def numbers(attributes: Mapping[str, Any], name: str, where: str) -> list[int | float]:
    """Return an attribute's numbers as Python's own, none where it is absent.

    Raises
    ------
    ConformError
        The attribute holds something else.

    Examples
    --------
    >>> numbers({"valid_range": np.array([0, 9], "i2")}, "valid_range", "a.nc")
    [0, 9]
    """
    if attributes.get(name) is None:
        return []
    values = np.asarray(attributes[name]).ravel()
    if values.dtype.kind not in "iuf":
        raise ConformError(f"{where}: attribute {name} = {attributes[name]!r} is not a number; correct it in the file")
    return list(values.tolist())


def number(attributes: Mapping[str, Any], name: str, where: str) -> int | float | None:
    """Return an attribute's one number, `None` where it is absent.

    Raises
    ------
    ConformError
        The attribute holds something else or several numbers.
    """
    values = numbers(attributes, name, where)
    if len(values) > 1:
        raise ConformError(f"{where}: attribute {name} = {attributes[name]!r} has {len(values)} values, expected 1")
    return values[0] if values else None


def _bounds(attributes: Mapping[str, Any], where: str) -> tuple[int | float | None, int | float | None]:
    """Return the smallest and largest valid value as declared; the tighter one where both forms are there."""
    pair = numbers(attributes, "valid_range", where)
    if len(pair) not in (0, 2):
        raise ConformError(f"{where}: attribute valid_range has {len(pair)} values, expected 2; correct it in the file")
    lows = [*pair[:1], *numbers(attributes, "valid_min", where)[:1]]
    highs = [*pair[1:], *numbers(attributes, "valid_max", where)[:1]]
    return max(lows, default=None), min(highs, default=None)


def _packed(value: float | None, scale: float, offset: float) -> float | None:
    """Return an unpacked value in packed units."""
    return None if value is None else (value - offset) / scale


def reinterpret(value: float, stored: np.dtype[Any], values: np.dtype[Any]) -> int | float:
    """Return a value of the stored integer type as the same bits are read with the other sign."""
    if stored == values or stored.kind == "f" or value != int(value):
        return value
    info = np.iinfo(stored)
    if not info.min <= value <= info.max:
        return value
    bits = 8 * stored.itemsize
    value = int(value) % 2**bits
    return value - 2**bits if values.kind == "i" and value >= 2 ** (bits - 1) else value
