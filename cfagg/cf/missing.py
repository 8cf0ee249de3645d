"""The stored values of a variable that are missing according to its attributes, in one place for every purpose.

Sources: CF section 2.5.1 and the NetCDF User's Guide, "Attribute Conventions".
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from cfagg.cf.valid import stored_bounds, text_bounds, typed_bounds
from cfagg.cf.values import integer_range, numbers, reinterpret, text_missing, whole
from cfagg.errors import CfaggWarning

__all__ = [
    "WRITTEN_FILLS",
    "Missing",
    "declared_fill",
    "default_fill",
    "is_default_fill",
    "missing_texts",
    "typed_fills",
    "warn_of_text",
]

#: Default fill values of the netCDF library, by type.
WRITTEN_FILLS: Mapping[str, int | float] = {
    "i1": -127,
    "u1": 255,
    "i2": -32767,
    "u2": 65535,
    "i4": -2147483647,
    "u4": 4294967295,
    "i8": -9223372036854775806,
    "u8": 18446744073709551614,
    "f4": 9.969209968386869e36,
    "f8": 9.969209968386869e36,
}

#: Those that mean missing; 8-bit types have none, because they need all of their values.
DEFAULT_FILLS: Mapping[str, int | float] = {k: v for k, v in WRITTEN_FILLS.items() if k not in {"i1", "u1"}}


def default_fill(dtype: np.dtype[Any]) -> int | float | None:
    """Return the missing value of netCDF variables without ``_FillValue``, or `None` if their type has none."""
    return DEFAULT_FILLS.get(dtype.str[1:])


class Missing(NamedTuple):
    """Missing values, and the smallest and largest valid ones, in the stored type with ``_Unsigned`` applied.

    `declared` is true if the variable declares a missing value itself, so that `fills` is not only the default of
    netCDF.
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
        netcdf: bool = True,
        warn: bool = True,
        where: str,
    ) -> Missing:
        """Return the missing values that attributes declare; raise `ConformError` unless they are numbers.

        These are every ``_FillValue`` and ``missing_value``, `fill` if it is known from elsewhere, without a
        ``_FillValue`` the default of the netCDF library (if `netcdf`; Zarr arrays have their own), and values outside
        the valid range (see `cfagg.cf.valid`).  `values` is the `stored` type with ``_Unsigned`` applied; `warn` if
        there are both ``valid_range`` and ``valid_min`` or ``valid_max``, or if one of these or ``missing_value`` is
        text.
        """
        own = numbers(attributes, "_FillValue", where)
        found = [*own, *numbers(attributes, "missing_value", where), *([] if fill is None else [fill])]
        declared = bool(found)
        default = default_fill(stored) if netcdf and not own else None
        found += [] if default is None else [default]
        # Whether declared unsigned or not, netCDF wrote the fill value of the stored type.
        fills = tuple(dict.fromkeys(reinterpret(v, stored, values) for v in found))
        low, high = stored_bounds(attributes, stored, values, scale, offset, where)
        if warn:
            _warn(attributes, where)
        return cls(fills, low, high, declared)

    def mask(self, values: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
        """Return which stored values, with ``_Unsigned`` applied, are missing; NaN always is."""
        low, high, bounded = typed_bounds(values.dtype, self.low, self.high)
        missing: npt.NDArray[np.bool_] = np.zeros(values.shape, bool)
        if bounded or values.dtype.kind == "f":
            missing = ~((values >= low) & (values <= high))
        for fill in typed_fills(self.fills, values.dtype):
            missing |= values == fill
        return missing


def warn_of_text(texts: Mapping[str, Any], where: str) -> None:
    """Warn of attributes that are text where numbers of missing or of valid values are expected."""
    for name, text in texts.items():
        warnings.warn(
            f"{where}: attribute {name} = {text!r} is text, so it makes no value missing; write numbers",
            CfaggWarning,
            stacklevel=4,
        )


def _warn(attributes: Mapping[str, Any], where: str) -> None:
    """Warn if the valid range is declared in both forms, which CF forbids, or if it or a missing value is text."""
    warn_of_text(text_missing(attributes) | text_bounds(attributes), where)
    ends = [n for n in ("valid_min", "valid_max") if attributes.get(n) is not None]
    if ends and attributes.get("valid_range") is not None:
        said = ", ".join(f"{n} = {np.ravel(attributes[n]).tolist()}" for n in ("valid_range", *ends))
        warnings.warn(
            f"{where}: {said}: a variable should have only one form; the narrower bounds are used",
            CfaggWarning,
            stacklevel=3,
        )


def declared_fill(attributes: Mapping[str, Any], where: str) -> int | float | None:
    """Return the value that a variable declares for missing elements: ``_FillValue``, or else ``missing_value``."""
    for name in ("_FillValue", "missing_value"):
        for value in numbers(attributes, name, where):
            return value
    return None


def missing_texts(attributes: Mapping[str, Any], dtype: np.dtype[Any]) -> tuple[Any, ...]:
    """Return the texts that attributes declare missing, as values of a type of texts; none for any other type.

    >>> missing_texts({"missing_value": "-", "_FillValue": "none"}, np.dtype(object))
    ('none', '-')
    >>> missing_texts({"missing_value": "-", "_FillValue": "none"}, np.dtype("S1"))
    (b'-',)
    """
    found: list[Any] = []
    for name in ("_FillValue", "missing_value"):
        for value in np.ravel(np.asarray(attributes.get(name), object)).tolist():
            if dtype.kind in "OU" and isinstance(value, str):
                found.append(str(value))
            elif dtype.kind == "S" and isinstance(value, str | bytes):
                raw = value.encode() if isinstance(value, str) else bytes(value)
                found += [np.bytes_(raw).rstrip(b"\0")] if len(raw) <= dtype.itemsize else []
    return tuple(dict.fromkeys(found))


def typed_fills(values: Iterable[Any], dtype: np.dtype[Any]) -> tuple[Any, ...]:
    """Return values in `dtype`, each once, without those that no element can equal.

    >>> typed_fills([-999.0, 0.5, -999], np.dtype("i2"))
    (np.int16(-999),)
    """
    return tuple(dict.fromkeys(typed for v in values for typed in _typed(v, dtype)))


def _typed(value: Any, dtype: np.dtype[Any]) -> tuple[Any, ...]:
    """Return `value` in `dtype`, or nothing if no element can equal it."""
    if dtype.kind == "f":
        with np.errstate(over="ignore"):
            typed = dtype.type(value)
        lost = np.isnan(typed) or (np.isinf(typed) and math.isfinite(value))
        return () if lost else (typed,)
    exact = whole(value)
    if exact is None:
        return ()
    least, most = integer_range(dtype)
    return (dtype.type(exact),) if least <= exact <= most else ()


def is_default_fill(dtype: np.dtype[Any], value: npt.NDArray[Any]) -> bool:
    """Whether a value is the default fill value of netCDF for a type."""
    default = default_fill(dtype)
    return default is not None and value.size == 1 and bool(np.isclose(float(value[0]), default, rtol=1e-6))
