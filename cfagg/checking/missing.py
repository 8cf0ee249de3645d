"""Missing values and unpacking of packed values.

Sources: CF sections 2.5.1 and 8.1; attribute conventions of the netCDF User's Guide.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from cfagg.cf.missing import WRITTEN_FILLS, Missing
from cfagg.cf.packing import Packing, as_meant, read_as
from cfagg.cf.valid import is_packed_type, typed_bounds
from cfagg.model.dataset import Variable

__all__ = [
    "given_limits",
    "limits_are_unpacked",
    "missing_mask",
    "packing",
    "unpacked",
    "unsigned",
    "unwritten",
    "valid_limits",
]

_PACKING = ("scale_factor", "add_offset")

#: Attributes with this many missing values or more are ignored.
_MOST = 1000


def unwritten(v: Variable) -> bool:
    """Whether all values are the fill value, as in a variable that was never written."""
    fill = WRITTEN_FILLS.get(v.dtype.str[1:]) if v.netcdf else None
    own = _numbers(v, "_FillValue")
    if own is not None and own.size:
        fill = own.astype(v.dtype)[0]
    if fill is None or v.dialect is not None:
        return False
    value = np.array(fill).astype(v.dtype)
    return all(bool((np.asarray(block) == value).all()) for block in v.blocks())


def unsigned(v: Variable, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return integers with the signedness that ``_Unsigned`` declares."""
    return as_meant(values, v.attributes)


def missing_mask(v: Variable, values: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
    """Return which stored values are missing according to `cfagg.cf.missing`, ignoring unusable attributes."""
    values = unsigned(v, np.asarray(values))
    if values.dtype.kind not in "iuf" or not v.is_numeric:
        return np.zeros(values.shape, bool)
    return _missing(v).mask(values)


def _missing(v: Variable) -> Missing:
    """Return which values of a variable of numbers are missing."""
    attributes: dict[str, Any] = {}
    sizes = {"_FillValue": range(1, _MOST), "missing_value": range(1, _MOST), "valid_range": (2,)}
    for name in ("_FillValue", "missing_value", "valid_range", "valid_min", "valid_max", *_PACKING):
        given = _numbers(v, name)
        if given is not None and given.size in sizes.get(name, (1,)):
            attributes[name] = given if v.group.typed else given.tolist()
    scale, offset = (float(part) for part in packing(v) or (1, 0))
    if not (np.isfinite(scale) and np.isfinite(offset) and scale):
        scale, offset = 1.0, 0.0
    stored = v.dtype.newbyteorder("=")
    meant = read_as(stored, v.attributes)
    if v.fill is not None:
        attributes["_FillValue"] = v.fill
    return Missing.of(attributes, stored, meant, scale=scale, offset=offset, netcdf=v.netcdf, warn=False, where=v.path)


def _numbers(v: Variable, name: str) -> npt.NDArray[Any] | None:
    """Return the numbers of an attribute, or `None` if it is not numeric."""
    given = v.numbers(name)
    return given if given is not None and given.ndim == 1 and given.dtype.kind in "iuf" else None


def valid_limits(v: Variable) -> tuple[Any, Any]:
    """Return the smallest and the largest valid value as stored, with `None` for one that is not given."""
    if not v.is_numeric:
        return None, None
    missing = _missing(v)
    low, high, _ = typed_bounds(read_as(v.dtype.newbyteorder("="), v.attributes), missing.low, missing.high)
    return None if missing.low is None else low, None if missing.high is None else high


def _limits(v: Variable) -> Iterator[tuple[str, npt.NDArray[Any], bool]]:
    """Yield the usable attributes that limit the valid range, and whether they apply to stored values."""
    for name in ("valid_range", "valid_min", "valid_max"):
        given = _numbers(v, name)
        if given is not None and given.size == 1 + (name == "valid_range"):
            own = packing(v) is None or is_packed_type(given if v.group.typed else given.tolist(), v.dtype)
            yield name, given, own


def limits_are_unpacked(v: Variable) -> bool:
    """Whether a limit of the valid range is given in terms of unpacked values."""
    return not all(own for _, _, own in _limits(v))


def given_limits(v: Variable) -> tuple[Any, Any]:
    """Return the smallest and the largest valid value unpacked, with `None` for one that is not given.

    Limits that are given unpacked are not rounded to values that can be stored, unlike those of `valid_limits`.
    """
    pair = packing(v)
    if pair is None:
        return valid_limits(v)
    ends: tuple[list[Any], list[Any]] = ([], [])
    for name, given, own in _limits(v):
        turned = own and float(pair[0]) < 0
        for at, end in enumerate(unpacked(v, given) if own else given, start=int(name == "valid_max")):
            if np.isfinite(end):
                ends[at ^ turned].append(end)
    return max(ends[0], default=None), min(ends[1], default=None)


def packing(v: Variable) -> tuple[Any, Any] | None:
    """Return ``scale_factor`` and ``add_offset`` as scalars, 1 or 0 for one that is absent; `None` if not packed.

    Attributes that are not single numbers are ignored.
    """
    found: list[Any] = []
    for name in _PACKING:
        given = v.numbers(name)
        usable = given is not None and given.ndim == 1 and given.size == 1 and given.dtype.kind in "iuf"
        found.append(given[0] if usable and given is not None else None)
    scale, offset = found
    if scale is None and offset is None:
        return None
    if scale is None:
        return offset.dtype.type(1), offset
    return scale, scale.dtype.type(0) if offset is None else offset


def unpacked(v: Variable, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return unpacked values, in the type of ``scale_factor`` and ``add_offset``.

    Missing values are not treated specially: see `missing_mask`.
    """
    pair = packing(v)
    values = unsigned(v, np.asarray(values))
    if pair is None or values.dtype.kind not in "iuf":
        return values
    scale, offset = pair
    return Packing(scale, offset).undo(values, np.result_type(scale.dtype, offset.dtype))
