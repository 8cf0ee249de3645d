"""What the stored values of an array mean: their packing, and which of them count as missing.

The same attributes count as in xarray: of Zarr v2 the fill value of the metadata, of v3 the attribute ``_FillValue``;
``missing_value`` in both.  A valid range counts too, as CF says.  NaN and infinities never count as values.

Sources: CF sections 2.5.1 and 8.1; NetCDF User's Guide, "Attribute Conventions".
"""

from __future__ import annotations

import base64
import binascii
import math
import struct
from dataclasses import dataclass
from typing import Any

import numpy as np

from cfagg.cf.missing import Missing
from cfagg.cf.packing import Packing, read_as
from cfagg.conventions import accumulation_record as record
from cfagg.errors import ConformError, UnsupportedError
from cfagg.formats.zarr import ZarrArray

__all__ = ["Meaning", "read_meaning", "within_limit"]

_TYPES = ("i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8", "b1")
_SPELT = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}


@dataclass(frozen=True)
class Meaning:
    """What stored values mean: as which type they are read, which are missing, and how they become real values."""

    dtype: np.dtype[Any]
    mask: record.MaskRecord
    packing: record.Packing | None


def read_meaning(array: ZarrArray) -> Meaning:
    """Return what the stored values of an array mean, from its metadata and attributes."""
    where = f"{array.store}: array {array.path!r}"
    if array.dtype.str[1:] not in _TYPES:
        raise UnsupportedError(
            f"{where} has type {array.dtype.name}; sums are made of integers of 8 to 64 bits, of booleans and of "
            "real numbers of 16, 32 or 64 bits: store it as one of these"
        )
    attributes = dict(array.attributes)
    # Truth values are 0 and 1.
    stored = np.dtype("u1") if array.dtype.kind == "b" else array.dtype
    values = read_as(stored, attributes)
    if values.kind == "i" and array.dtype.kind == "u":
        raise UnsupportedError(
            f"{where} stores signed numbers as {array.dtype.name} (_Unsigned = {attributes['_Unsigned']!r}); "
            "store them in a signed type"
        )
    given = attributes.pop("_FillValue", None)
    if array.zarr_format == 2 and array.fill_declared:
        given = array.fill_value
    if given is not None:
        attributes["_FillValue"] = _number(given, array.dtype, f"{where}: attribute _FillValue")
    if "missing_value" in attributes:
        attributes["missing_value"] = [
            _number(v, array.dtype, f"{where}: attribute missing_value") for v in _listed(attributes["missing_value"])
        ]
    for name in ("valid_min", "valid_max", "valid_range"):
        if isinstance(attributes.get(name), str | list):
            attributes[name] = [_SPELT.get(str(v), v) for v in _listed(attributes[name])]
    packing = Packing.of(attributes, where=where)
    missing = Missing.of(
        attributes, stored, values, scale=packing.scale, offset=packing.offset, netcdf=False, where=where
    )
    fills = (_in_type(v, values) for v in missing.fills)
    low, high = (None if v is None or math.isnan(v) or math.isinf(v) else v for v in (missing.low, missing.high))
    return Meaning(
        values,
        record.MaskRecord(
            tuple(dict.fromkeys(f for f in fills if f is not None)),
            None if low is None else _bound(low, values, upper=False),
            None if high is None else _bound(high, values, upper=True),
            values != stored,
        ),
        record.Packing(packing.scale, packing.offset) if packing else None,
    )


def within_limit(mask: record.MaskRecord, limit: float) -> tuple[int | float, int | float]:
    """Return the smallest and largest stored value that count where larger magnitudes are kept out of sums."""
    low = -limit if mask.valid_min is None else max(mask.valid_min, -limit)
    return low, limit if mask.valid_max is None else min(mask.valid_max, limit)


def _listed(value: Any) -> list[Any]:
    return list(value) if isinstance(value, list) else [value]


def _number(value: Any, dtype: np.dtype[Any], where: str) -> Any:
    """Return a fill value as a number; Zarr v3 keeps those of real type as the base64 text of a double's bytes."""
    if not isinstance(value, str):
        return int(value) if isinstance(value, bool | np.bool_) else value
    if value in _SPELT:
        return _SPELT[value]
    if dtype.kind == "f":
        try:
            return struct.unpack("<d", base64.b64decode(value, validate=True))[0]
        except (binascii.Error, struct.error, ValueError):
            pass
    raise ConformError(f"{where} = {value!r} is not a number; correct it in the store")


def _in_type(value: float, dtype: np.dtype[Any]) -> int | float | None:
    """Return a fill value as elements of this type equal it, `None` where none does or all such are missing anyway."""
    if not math.isfinite(value):
        return None
    if dtype.kind == "f":
        with np.errstate(over="ignore"):
            cast = float(dtype.type(value))
        return cast if math.isfinite(cast) else None
    info = np.iinfo(dtype)
    return int(value) if value == int(value) and info.min <= value <= info.max else None


def _bound(value: float, dtype: np.dtype[Any], *, upper: bool) -> int | float:
    """Return a bound that admits the same elements of this type: whole among integers, and within 64 bits."""
    if dtype.kind == "f":
        with np.errstate(over="ignore"):
            return float(dtype.type(value))
    whole = math.floor(value) if upper else math.ceil(value)
    info = np.iinfo(dtype)
    return min(max(whole, int(info.min) - 1), int(info.max) + 1) if dtype.itemsize < 8 else whole
