"""The numbers to write: packed integers unchanged, or the floats that they represent."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from cfagg.cf.gather import gather
from cfagg.cf.header import Header
from cfagg.cf.missing import Missing, default_fill, typed_fills
from cfagg.cf.packing import Packing, read_as
from cfagg.cf.valid import is_packed_type, stored_bounds, text_bounds
from cfagg.cf.values import numbers, reinterpret
from cfagg.errors import ConformError
from cfagg.model import Aggregation, Layout

__all__ = ["Unpack", "Unwritten", "decoded", "is_packed", "shared_packing"]

_PACKING = ("scale_factor", "add_offset")
_VALID = ("valid_min", "valid_max", "valid_range")


@dataclass(frozen=True)
class Unpack:
    """Decoding of packed values to floats: ``stored * scale + offset``, with NaN for missing ones."""

    dtype: np.dtype[Any]  # of the result
    read: np.dtype[Any]  # the type in which stored values are interpreted (``_Unsigned``)
    scale: float
    offset: float
    fills: tuple[int | float, ...]  # stored values that mean missing

    def __call__(self, packed: npt.NDArray[Any], out: npt.NDArray[Any]) -> None:
        """Write the floats represented by `packed` into `out`, an array of the same shape."""
        bad, first = gather(packed.view(self.read), out, self.scale, self.offset, self.fills)
        if bad:
            raise ConformError(
                f"{bad} packed values do not fit {self.dtype.name}, the first is element {first} of its block; use "
                "packing='keep'"
            )


@dataclass(frozen=True)
class Unwritten:
    """Replaces values that were never written by the declared missing value, since Zarr has no default fill values."""

    default: Any  # the value that the netCDF library leaves where nothing was written
    fill: Any  # the missing value declared by the variable, in the same type

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of the values."""
        found: np.dtype[Any] = self.fill.dtype
        return found

    @classmethod
    def of(cls, dtype: np.dtype[Any], attributes: Mapping[str, Any], where: str) -> Unwritten | None:
        """Return the replacement for a variable, or `None` if it declares ``_FillValue`` or nothing, or needs none.

        >>> Unwritten.of(np.dtype("f4"), {"missing_value": np.float32(-9)}, "a.nc").fill
        np.float32(-9.0)
        """
        default = default_fill(dtype) if dtype.kind in "iuf" and "_FillValue" not in attributes else None
        if default is None or np.asarray(attributes.get("missing_value", "")).dtype.kind not in "iuf":
            return None  # no default fill value, or no numbers declared
        given = typed_fills(numbers(attributes, "missing_value", where), dtype)
        if not given:
            return None
        unwritten = dtype.type(default)
        return None if unwritten in given else cls(unwritten, given[0])

    def __call__(self, stored: npt.NDArray[Any], out: npt.NDArray[Any]) -> None:
        """Write the values into `out`, an array of the same shape."""
        np.copyto(out, stored)
        np.copyto(out, self.fill, where=stored == self.default)


def is_packed(attributes: Mapping[str, Any]) -> bool:
    """Whether a variable's attributes declare a packing."""
    return any(name in attributes for name in _PACKING)


def decoded(
    dtype: np.dtype[Any], attributes: Mapping[str, Any], where: str, *, netcdf: bool = True
) -> tuple[Unpack, dict[str, Any]]:
    """Return the decoding of a packed variable, and the attributes of the result, with the valid range in its units.

    The result has the type of `scale_factor` and `add_offset` (CF section 8.1), or float64 if they are not floats or if
    it could not represent 32-bit integers.  `netcdf`: the netCDF library may have written its default fill value.
    """
    packing = Packing.of(attributes, where=where)
    kinds = [np.asarray(attributes[n]).dtype for n in _PACKING if n in attributes]
    narrow = all(k == np.float32 for k in kinds) and (dtype.itemsize <= 2 or dtype == np.float32)
    result = np.dtype(np.float32 if narrow else np.float64)
    read = read_as(dtype, attributes)
    missing = Missing.of(attributes, dtype, read, netcdf=netcdf, warn=False, where=where)
    kept = {k: v for k, v in attributes.items() if k not in {*_PACKING, *_VALID, "missing_value", "_Unsigned"}}
    kept |= _unpacked_bounds(attributes, dtype, packing, result, where)
    kept["_FillValue"] = result.type(np.nan)
    return Unpack(result, read, packing.scale, packing.offset, missing.fills), kept


def _unpacked_bounds(
    attributes: Mapping[str, Any], dtype: np.dtype[Any], packing: Packing, result: np.dtype[Any], where: str
) -> dict[str, Any]:
    """Return the valid range attributes for unpacked values, such that the same elements are valid."""
    found = text_bounds(attributes)
    read = read_as(dtype, attributes)
    scale, offset = packing.scale, packing.offset
    for name in [n for n in _VALID if n not in found]:
        given = numbers(attributes, name, where)
        values = [result.type(v) for v in given]
        turned = False
        if given and is_packed_type(attributes[name], dtype):
            values = [result.type(reinterpret(v, dtype, read) * scale + offset) for v in given]
            turned = scale < 0
        elif given:
            alone = {k: v for k, v in attributes.items() if k == name or k in _PACKING}
            # Elements within rounding error of a bound are valid, so a bound compared exactly must enclose them.
            ends = stored_bounds(alone, dtype, read, scale, offset, where)
            ends = ends[::-1] if scale < 0 else ends
            low, high = (None if v is None else result.type(v * scale + offset) for v in ends)
            if low is not None and name != "valid_max":
                values[0] = min(values[0], low)
            if high is not None and name != "valid_min":
                values[-1] = max(values[-1], high)
        other = {"valid_min": "valid_max", "valid_max": "valid_min"}.get(name, name) if turned else name
        if name == "valid_range" and values:
            found[other] = np.sort(values)
        elif values:
            # A swapped bound may share its name with one that is already unpacked: the narrower one applies.
            narrower = max if other == "valid_min" else min
            found[other] = narrower(found.get(other, values[0]), values[0])
    return found


def shared_packing(
    aggregation: Aggregation, rows: Iterable[tuple[Layout, Header | None]]
) -> tuple[Aggregation | None, str]:
    """Return an aggregation with the packing shared by all its partitions, so that integers are copied unchanged.

    `rows` are iterated only as far as needed. Return `None` if there is none, and a note if partitions are packed.
    """
    other = aggregation.dtype.kind != "f" or is_packed(aggregation.attributes)
    # The constant value of a whole partition is not packed.
    if other or (aggregation.partitions.value >= 0).any():
        return None, ""
    seen: tuple[Any, ...] | None = None
    first = ""
    sample: Header | None = None
    absent = not aggregation.partitions.present.all()
    for layout, head in rows:
        if head is None:
            absent = True
            continue
        where = f"file {head.file}, variable {head.variable}"
        key = _packing_key(aggregation, layout, head, where)
        if seen is None:
            if key is None:
                ranged = any(n in head.attributes for n in _VALID)
                what = "a valid range, outside which values are missing" if ranged else "several missing values"
                return None, (is_packed(head.attributes) and (ranged or len(_fills(head.attributes, where)) > 1)) * (
                    f"variable {aggregation.name!r}: its packed partitions have {what}: "
                    f"decoded values of type {aggregation.dtype.name} are written"
                )
            seen, first, sample = key, head.file, head
        elif key != seen:
            return None, (
                f"variable {aggregation.name!r}: its partitions are not packed alike ({first} and {head.file} differ): "
                f"decoded values of type {aggregation.dtype.name} are written"
            )
    if seen is None or sample is None:
        return None, ""
    if any(n in aggregation.attributes for n in _VALID):
        return None, (
            f"variable {aggregation.name!r}: its valid range is that of decoded values, so decoded values of type "
            f"{aggregation.dtype.name} are written"
        )
    attributes = {k: v for k, v in aggregation.attributes.items() if k not in {"_FillValue", "missing_value"}}
    attributes |= {k: sample.attributes[k] for k in (*_PACKING, "_Unsigned") if k in sample.attributes}
    # Values that were never written are replaced by the missing value if the files declare another one.
    fill = default_fill(sample.dtype) if seen[-1] is None else seen[-1]
    if fill is None and absent:
        return None, (
            f"variable {aggregation.name!r}: partitions are missing and its packed integers have no missing value: "
            f"decoded values of type {aggregation.dtype.name} are written"
        )
    if fill is not None:
        attributes["_FillValue"] = sample.dtype.type(fill)
    return replace(aggregation, dtype=sample.dtype, attributes=attributes, packs=True), ""


def _packing_key(aggregation: Aggregation, layout: Layout, header: Header, where: str) -> tuple[Any, ...] | None:
    """Return the key that must be equal for integers to be copied, or None if a partition is not normally packed."""
    attributes = header.attributes
    units = next((u for u in (layout.units, attributes.get("units")) if u is not None), aggregation.units)
    calendar = layout.calendar or attributes.get("calendar") or aggregation.calendar
    odd = (
        header.dtype.kind not in "iu"
        or not is_packed(attributes)
        or any(n in attributes for n in _VALID)
        or units != aggregation.units
        or calendar != aggregation.calendar
        or any(v is not None for v in (layout.fill, layout.scale_factor, layout.add_offset, layout.packing))
    )
    fills = _fills(attributes, where)
    if odd or len(fills) > 1:
        return None
    packing = Packing.of(attributes, where=where)
    widths = tuple(np.asarray(attributes[n]).dtype.str for n in _PACKING if n in attributes)
    unsigned = str(attributes.get("_Unsigned", ""))
    return (header.dtype.str, packing.scale, packing.offset, widths, unsigned, next(iter(fills), None))


def _fills(attributes: Mapping[str, Any], where: str) -> set[int | float]:
    """Return the different missing values that attributes declare."""
    return {*numbers(attributes, "_FillValue", where), *numbers(attributes, "missing_value", where)}
