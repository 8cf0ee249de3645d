"""Which numbers are written: packed integers as they are, or the floats they stand for."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from cfagg.cf.gather import gather
from cfagg.cf.header import Header
from cfagg.cf.masking import DEFAULT_FILLS, numbers, reinterpret
from cfagg.cf.packing import Packing, read_as
from cfagg.errors import ConformError
from cfagg.model import Aggregation, Layout

__all__ = ["Unpack", "decoded", "is_packed", "shared_packing"]

_PACKING = ("scale_factor", "add_offset")
_VALID = ("valid_min", "valid_max", "valid_range")


@dataclass(frozen=True)
class Unpack:
    """How packed values become floats: ``stored * scale + offset``, missing ones NaN.

    Parameters
    ----------
    dtype : numpy.dtype
        Type of the result.
    read : numpy.dtype
        Type as which the stored values are meant (``_Unsigned``).
    scale, offset : float
        The packing.
    fills : tuple of numbers
        Stored values that mean missing.
    """

    dtype: np.dtype[Any]
    read: np.dtype[Any]
    scale: float
    offset: float
    fills: tuple[int | float, ...]

    def __call__(self, packed: npt.NDArray[Any], out: npt.NDArray[Any]) -> None:
        """Write the floats that `packed` stands for into `out`, an array of equal shape."""
        bad, first = gather(packed.view(self.read), out, self.scale, self.offset, self.fills)
        if bad:
            raise ConformError(
                f"{bad} packed values do not fit {self.dtype.name}, the first is element {first} of its block; use "
                "packing='keep'"
            )


def is_packed(attributes: Mapping[str, Any]) -> bool:
    """Whether a variable's attributes declare a packing."""
    return any(name in attributes for name in _PACKING)


def decoded(dtype: np.dtype[Any], attributes: Mapping[str, Any], where: str) -> tuple[Unpack, dict[str, Any]]:
    """Return how a packed variable is decoded, and the attributes of the result.

    The result's type is that of `scale_factor` and `add_offset` (CF section 8.1), and float64 where they are no floats
    or where 32-bit integers would not fit.  Bounds of the valid range are expressed in the result's units.

    Raises
    ------
    ConformError
        If the attributes do not describe a packing.
    """
    packing = Packing.of(attributes, where=where)
    kinds = [np.asarray(attributes[n]).dtype for n in _PACKING if n in attributes]
    narrow = all(k == np.float32 for k in kinds) and (dtype.itemsize <= 2 or dtype == np.float32)
    result = np.dtype(np.float32 if narrow else np.float64)
    read = read_as(dtype, attributes)
    fills = tuple(
        v.view(read).item() if dtype.kind in "iu" else v.item()
        for name in ("_FillValue", "missing_value")
        for v in [np.asarray(numbers(attributes, name, where)).astype(dtype)]
        for v in v
    )
    kept = {k: v for k, v in attributes.items() if k not in {*_PACKING, *_VALID, "missing_value", "_Unsigned"}}
    for name in _VALID:
        bounds = numbers(attributes, name, where)
        if not bounds:
            continue
        if not isinstance(bounds[0], float) or dtype.kind == "f":
            # Packed units, by the NetCDF User's Guide; a float bound of packed integers is unpacked already.
            bounds = [reinterpret(b, dtype, read) for b in bounds]
            bounds = [float(np.float64(b) * packing.scale + packing.offset) for b in bounds]
        values = np.asarray(bounds).astype(result)
        flipped = {"valid_min": "valid_max", "valid_max": "valid_min"}.get(name, name) if packing.scale < 0 else name
        kept[flipped] = np.sort(values) if name == "valid_range" else values[0]
    kept["_FillValue"] = result.type(np.nan)
    return Unpack(result, read, packing.scale, packing.offset, fills), kept


def shared_packing(
    aggregation: Aggregation, rows: Iterable[tuple[Layout, Header | None]]
) -> tuple[Aggregation | None, str]:
    """Return the aggregation with the packing that all its partitions share, so that integers are copied untouched.

    Parameters
    ----------
    aggregation : Aggregation
        An aggregation of floats without a packing of its own.
    rows : iterable of (Layout, Header or None)
        Layout and header of each partition, None where its file is missing.  Iterated only as far as needed.

    Returns
    -------
    aggregation : Aggregation or None
        The same array in packed form, None where there is no shared packing.
    note : str
        Why not, where partitions are packed; else empty.
    """
    if aggregation.dtype.kind != "f" or is_packed(aggregation.attributes):
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
                return None, ""
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
    fill = seen[-1]
    if fill is None:
        fill = DEFAULT_FILLS.get(sample.dtype.str[1:])
    if fill is None and absent:
        return None, (
            f"variable {aggregation.name!r}: partitions are missing and its packed integers have no missing value: "
            f"decoded values of type {aggregation.dtype.name} are written"
        )
    if fill is not None:
        attributes["_FillValue"] = sample.dtype.type(fill)
    return replace(aggregation, dtype=sample.dtype, attributes=attributes), ""


def _packing_key(aggregation: Aggregation, layout: Layout, header: Header, where: str) -> tuple[Any, ...] | None:
    """Return what must be equal for integers to be copied, None where a partition is not packed or is packed oddly."""
    attributes = header.attributes
    units = layout.units or attributes.get("units") or aggregation.units
    calendar = layout.calendar or attributes.get("calendar") or aggregation.calendar
    odd = (
        header.dtype.kind not in "iu"
        or not is_packed(attributes)
        or any(n in attributes for n in _VALID)
        or units != aggregation.units
        or calendar != aggregation.calendar
        or any(v is not None for v in (layout.fill, layout.scale_factor, layout.add_offset, layout.packing))
    )
    fills = {*numbers(attributes, "_FillValue", where), *numbers(attributes, "missing_value", where)}
    if odd or len(fills) > 1:
        return None
    packing = Packing.of(attributes, where=where)
    widths = tuple(np.asarray(attributes[n]).dtype.str for n in _PACKING if n in attributes)
    unsigned = str(attributes.get("_Unsigned", ""))
    return (header.dtype.str, packing.scale, packing.offset, widths, unsigned, next(iter(fills), None))
