"""The accumulated array and its neighbours: the meaning of stored values, and whether they are being written.

The same attributes are used as in xarray: for Zarr v2 the fill value of the metadata, for v3 the attribute
``_FillValue``, and ``missing_value`` for both.  A valid range applies too, by CF.  NaN and infinities never count.

Sources: CF sections 2.5.1, 4.1, 4.2 and 8.1; NetCDF User's Guide, "Attribute Conventions".
"""

from __future__ import annotations

import base64
import binascii
import ctypes
import math
import os
import re
import struct
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from cfagg.arrays.chunked import ZarrReader
from cfagg.cf.missing import Missing
from cfagg.cf.packing import Packing, read_as
from cfagg.cf.roles import Place, axis_of, place_of
from cfagg.conventions import accumulation_record as record
from cfagg.errors import CfaggError, ConformError, ConventionError, SourceError, StaleError, UnsupportedError
from cfagg.formats.zarr import ZarrArray, compare, open_array, stamps
from cfagg.formats.zarr.metadata import current_signature
from cfagg.formats.zarr.stamps import aged_stamps, unsure
from cfagg.storage.files import close_read
from cfagg.storage.urls import Url

if TYPE_CHECKING:
    from cfagg.kernels.cumulative.mask import Mask

__all__ = [
    "Meaning", "beside", "coordinate_along", "horizontal_dims", "mask_of", "read_cells", "read_meaning", "read_values",
    "role_of", "settled", "steady_axis", "unchanged", "within_limit", "write_back",
]  # fmt: skip

_TYPES = ("i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8", "b1")
_SPELT = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}


@dataclass(frozen=True)
class Meaning:
    """The meaning of stored values: the dtype in which they are read, missing values, and packing."""

    dtype: np.dtype[Any]
    mask: record.MaskRecord
    packing: record.Packing | None


def read_meaning(array: ZarrArray) -> Meaning:
    """Return the meaning of the stored values of an array, from its metadata and attributes."""
    where = f"{array.store}: array {array.path!r}"
    if array.dtype.str[1:] not in _TYPES:
        raise UnsupportedError(
            f"{where} has type {array.dtype.name}; only integers of 8 to 64 bits, booleans and real numbers of 16, 32 "
            "or 64 bits can be summed: store it as one of these"
        )
    attributes = dict(array.attributes)
    # Booleans count as 0 and 1.
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
        attributes["_FillValue"] = number_of(given, array.dtype, f"{where}: attribute _FillValue")
    if "missing_value" in attributes:
        attributes["missing_value"] = [
            number_of(v, array.dtype, f"{where}: attribute missing_value") for v in _listed(attributes["missing_value"])
        ]
    for name in ("valid_min", "valid_max", "valid_range"):
        if isinstance(attributes.get(name), str | list):
            attributes[name] = [_SPELT.get(str(v), v) for v in _listed(attributes[name])]
    packing = Packing.of(attributes, where=where)
    missing = Missing.of(
        attributes, stored, values, scale=packing.scale, offset=packing.offset, netcdf=False, where=where
    )
    fills = (in_type(v, values) for v in missing.fills)
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
    """Return the smallest and largest stored values that count if larger magnitudes are kept out of sums."""
    low = -limit if mask.valid_min is None else max(mask.valid_min, -limit)
    return low, limit if mask.valid_max is None else min(mask.valid_max, limit)


def mask_of(dtype: np.dtype[Any], mask: record.MaskRecord, limit: float | None = None) -> Mask:
    """Return the mask of values that count, of a dtype in native byte order, within the limit if one is given."""
    from cfagg.kernels.cumulative.mask import Mask, native_type

    low, high = (mask.valid_min, mask.valid_max) if limit is None else within_limit(mask, limit)
    return Mask.of(native_type(dtype), mask.fills, low, high)


def _listed(value: Any) -> list[Any]:
    return list(value) if isinstance(value, list) else [value]


def number_of(value: Any, dtype: np.dtype[Any], where: str) -> Any:
    """Return a fill value as a number; Zarr v3 encodes those of real dtypes as base64 text of a double's bytes."""
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


def in_type(value: float, dtype: np.dtype[Any]) -> int | float | None:
    """Return a fill value in this dtype, or `None` if no element can equal it or it is missing anyway (NaN)."""
    if not math.isfinite(value):
        return None
    if dtype.kind == "f":
        with np.errstate(over="ignore"):
            cast = float(dtype.type(value))
        return cast if math.isfinite(cast) else None
    info = np.iinfo(dtype)
    return int(value) if value == int(value) and info.min <= value <= info.max else None


def _bound(value: float, dtype: np.dtype[Any], *, upper: bool) -> int | float:
    """Return a bound that admits the same elements of this dtype, as an integer for integers."""
    if dtype.kind == "f":
        with np.errstate(over="ignore"):
            return float(dtype.type(value))
    whole = math.floor(value) if upper else math.ceil(value)
    info = np.iinfo(dtype)
    return min(max(whole, int(info.min) - 1), int(info.max) + 1) if dtype.itemsize < 8 else whole


def horizontal_dims(array: ZarrArray) -> tuple[str, ...]:
    """Return the pair of horizontal dimensions in the array's order, empty if there is none or it is unclear."""
    roles: dict[str, list[str]] = {"Y": [], "X": []}
    for d in array.dims:
        coordinate = beside(array, d)
        role = None if coordinate is None or coordinate.dims != (d,) else role_of(coordinate)
        if role is not None:
            roles[role].append(d)
    if len(roles["Y"]) != 1 or len(roles["X"]) != 1:
        return _curvilinear_dims(array)
    return tuple(d for d in array.dims if d in (*roles["Y"], *roles["X"]))


def _curvilinear_dims(array: ZarrArray) -> tuple[str, ...]:
    """Return the two dimensions shared by auxiliary latitudes and longitudes, or an empty tuple if there are none."""
    dims: dict[Place, set[tuple[str, ...]]] = {"latitude": set(), "longitude": set()}
    for name in coordinate_names(array):
        found = beside(array, name)
        place = None if found is None else place_of(found.attributes)
        if found is not None and place is not None:
            dims[place].add(tuple(d for d in array.dims if d in found.dims) if len(found.dims) == 2 else ())
    if dims["latitude"] != dims["longitude"] or len(dims["latitude"]) != 1:
        return ()
    (pair,) = dims["latitude"]
    return pair if len(pair) == 2 else ()


def role_of(coordinate: ZarrArray) -> str | None:
    """Return ``"Y"`` or ``"X"`` for a horizontal coordinate, else None."""
    axis = axis_of(coordinate.attributes)
    return axis if axis in ("X", "Y") else None


def coordinate_along(array: ZarrArray, place: Place) -> ZarrArray | None:
    """Return the true latitude or longitude along one of the dimensions, not that of a rotated or projected grid."""
    for d in array.dims:
        found = beside(array, d)
        if found is not None and found.dims == (d,) and place_of(found.attributes) == place:
            return found
    return None


def steady_axis(array: ZarrArray) -> int:
    """Return the last axis that is no time, and so hardly grows; sums are not extended along an axis of weights."""
    coordinates = [beside(array, d) for d in array.dims]
    steady = [k for k, c in enumerate(coordinates) if c is None or axis_of(c.attributes) != "T"]
    return max(steady, default=0)


def beside(array: ZarrArray, name: str) -> ZarrArray | None:
    """Return another array of the same group, or `None` unless it exists and is numeric."""
    try:
        return open_array(array.store, path_beside(array, name), allow=array.allow)
    except (SourceError, UnsupportedError, ConventionError):
        return None


def opened(array: ZarrArray, path: str, *, any_type: bool = False) -> ZarrArray | None:
    """Return an array by its path in the store, or `None` if it cannot be opened."""
    try:
        return open_array(array.store, path, any_type=any_type, allow=array.allow)
    except CfaggError:
        return None


def path_beside(array: ZarrArray, name: str) -> str:
    """Return the path of another array of the same group."""
    parent, slash, _ = array.path.rpartition("/")
    return f"{parent}{slash}{name}"


def coordinate_names(array: ZarrArray) -> list[str]:
    """Return the auxiliary coordinates that an array names."""
    named = array.attributes.get("coordinates")
    return named.split() if isinstance(named, str) else []


def area_measure(array: ZarrArray) -> str | None:
    """Return the name of the variable that attributes give for cell areas, whether it exists or not."""
    measures = dict(re.findall(r"(\w+)\s*:\s*(\S+)", str(array.attributes.get("cell_measures", ""))))
    return measures.get("area")


def read_cells(array: ZarrArray, box: Sequence[tuple[int, int]] | None = None) -> npt.NDArray[Any]:
    """Return the stored values of a box (start and stop per dimension) or of all; missing chunks have fill values."""
    whole = (slice(None),) * array.ndim
    return ZarrReader(array, workers=1).read(whole if box is None else [slice(a, b) for a, b in box])


def read_values(array: ZarrArray) -> npt.NDArray[np.float64]:
    """Return all elements of an array as real values, NaN where they are missing."""
    meaning, reader, out = read_meaning(array), ZarrReader(array), np.empty(array.shape)
    mask, packing = mask_of(meaning.dtype, meaning.mask), meaning.packing
    for index in np.ndindex(array.grid.matrix_shape):  # one chunk at a time, to save memory
        stored = reader.filled(index).view(meaning.dtype)
        values = stored.astype(np.float64)
        if packing is not None:
            values = values * packing.scale_factor + packing.add_offset
        place: Any = (*(slice(a, b) for a, b in array.grid.extent(index)), ...)
        out[place] = np.where(mask.valid(stored), values, np.nan)
    return out


#: A file that is written twice within one tick of the system's clock may look the same; seconds to rule this out.
_TICK, _COARSE_TICK = 0.02, 2.1


def settled(array: ZarrArray, which: npt.NDArray[np.int64] | None = None) -> npt.NDArray[np.int64]:
    """Return the stamps of objects once none of them can be rewritten within the same tick of the clock."""
    # `which` are numbers in C order, by default all.  If given, the caller is writing the array itself, and objects
    # that others write to an object store meanwhile have other ETags.
    for _ in range(100):
        if isinstance(array.store, Url):
            if which is not None:
                return stamps(array, which)
            found, since = aged_stamps(array)
            if since >= _COARSE_TICK:
                return found
            time.sleep(max(_COARSE_TICK - since, 0.1))
            continue
        now = time.time_ns()
        found = stamps(array, which)
        # Use change times too, since modification times may be set to anything; but some systems have no others.
        times = found[found[:, 0] >= 0, 1:3]
        tick = _TICK if not times.size or (times % 10**9).any() else _COARSE_TICK
        age = int(np.abs(now - times).min(initial=2**62)) / 1e9
        if age >= tick:
            return found
        time.sleep(tick - age + 0.001)
    raise StaleError(f"{array.store}: array {array.path!r} is being written; run again when nothing writes to it")


def write_back(array: ZarrArray, which: npt.NDArray[np.int64] | None = None) -> None:
    """Start writing changes made through memory maps to disk, so that later ones change the times of the files."""
    # A dirty page of a memory map can be changed again without changing the times of its file.  Once the system has
    # begun to write it to disk, the next change sets these times and is noticed.  File systems in memory never write
    # pages to disk, and set no times for maps.
    begin = None if isinstance(array.store, Url) else _sync_file_range()
    if begin is None:
        return
    shape = array.objects.matrix_shape
    places: Any = None
    if which is not None and shape:
        places = zip(*(i.tolist() for i in np.unravel_index(which, shape)), strict=True)
    for index in np.ndindex(shape) if places is None else places:
        try:
            file = os.open(f"{array.folder}/{array.key(index)}", os.O_RDONLY | os.O_NONBLOCK)
        except OSError:
            # Missing or unreadable, which reading it will report.
            continue
        # An error means that the file system does not support this, which is harmless.
        begin(file, ctypes.c_int64(0), ctypes.c_int64(0), 2)
        close_read(file)


@cache
def _sync_file_range() -> Any:
    """Return the Linux function that starts writing pages of a file to disk, or `None` on other systems."""
    return getattr(ctypes.CDLL(None), "sync_file_range", None) if sys.platform == "linux" else None


def unchanged(array: ZarrArray, seen: npt.NDArray[np.int64], which: npt.NDArray[np.int64] | None = None) -> None:
    """Raise an error if an array was written since its stamps were taken, by default those of all objects."""
    where = f"{array.store}: array {array.path!r}"
    again = "run again" if isinstance(array.store, Url) else "run again with resume=True (--resume)"
    remedy = f"{again} when nothing writes to it"
    if current_signature(array) != array.signature:
        raise StaleError(f"{where}: its metadata were written while it was accumulated; {remedy}")
    if which is not None and not (again_of := unsure(array, which)).all():
        seen, which = seen[again_of], which[again_of]
    changed = compare(seen, stamps(array, which))
    if changed:
        first = np.unravel_index(changed[0] if which is None else which[changed[0]], array.objects.matrix_shape)
        raise StaleError(
            f"{where}: {len(changed):,} of its stored chunks were written while it was accumulated, first "
            f"{tuple(map(int, first))}; {remedy}"
        )
