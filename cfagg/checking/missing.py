"""Which values of a variable are missing, and what packed values stand for.

Sources: CF sections 2.5.1 and 8.1; attribute conventions of the netCDF User's Guide.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from cfagg.checking.model import Variable

__all__ = ["is_default_fill", "missing_mask", "packing", "unpacked", "unsigned", "unwritten", "valid_limits"]

#: What netCDF writes where nothing was written, by type; single bytes have no such value.
_DEFAULT_FILLS: dict[str, Any] = {
    "i2": -32767, "u2": 65535, "i4": -2147483647, "u4": 4294967295, "i8": -9223372036854775806,
    "u8": 18446744073709551614, "f4": 9.969209968386869e36, "f8": 9.969209968386869e36,
}  # fmt: skip


#: What it writes in place of single bytes where nothing was written: they may as well be meant.
_BYTES = {"i1": -127, "u1": 255}


def is_default_fill(dtype: np.dtype[Any], value: npt.NDArray[Any]) -> bool:
    """Whether a value is what netCDF writes where nothing was written in variables of a type."""
    default = _DEFAULT_FILLS.get(dtype.str.lstrip("<>|="))
    return default is not None and value.size == 1 and bool(np.isclose(float(value[0]), default, rtol=1e-6))


def unwritten(v: Variable) -> bool:
    """Whether all values are those that netCDF writes where nothing was written."""
    fill = {**_DEFAULT_FILLS, **_BYTES}.get(v.dtype.str.lstrip("<>|="))
    own = _numbers(v, "_FillValue")
    if own.size:
        fill = own[0]
    if fill is None or v.dialect is not None:
        return False
    value = np.array(fill).astype(v.dtype)
    return all(bool((np.asarray(block) == value).all()) for block in v.blocks())


def unsigned(v: Variable, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return integers as unsigned ones where ``_Unsigned`` says that they are."""
    if (v.text("_Unsigned") or "").lower() == "true" and values.dtype.kind == "i":
        return values.view(f"{values.dtype.byteorder}u{values.dtype.itemsize}")
    return values


def missing_mask(v: Variable, values: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
    """Return which values as stored are missing.

    They are not numbers, equal ``_FillValue`` or a ``missing_value``, lie outside ``valid_range``, ``valid_min`` and
    ``valid_max``, or are what netCDF writes where nothing was written and there is no ``_FillValue``.

    Parameters
    ----------
    v : Variable
        A variable of numbers.
    values : numpy.ndarray
        Values as stored, of any shape.

    Returns
    -------
    numpy.ndarray of bool
        In the shape of `values`.
    """
    values = unsigned(v, np.asarray(values))
    if values.dtype.kind not in "iuf":
        return np.zeros(values.shape, bool)
    mask = np.isnan(values) if values.dtype.kind == "f" else np.zeros(values.shape, bool)
    for name in ("_FillValue", "missing_value"):
        for one in _numbers(v, name):
            mask |= values == one
    if "_FillValue" not in v.attributes:
        default = _DEFAULT_FILLS.get(f"{values.dtype.kind}{values.dtype.itemsize}")
        if default is not None:
            mask |= values == np.array(default).astype(values.dtype)
    low, high = valid_limits(v)
    if low is not None:
        mask |= values < low
    if high is not None:
        mask |= values > high
    return mask


def _numbers(v: Variable, name: str) -> npt.NDArray[Any]:
    """Return the numbers of an attribute in the type of the variable; none where they do not fit in."""
    given = v.numbers(name)
    if given is None or given.ndim != 1 or given.dtype.kind not in "iuf" or given.size > 1000:
        return np.empty(0)
    given = unsigned(v, given)
    if v.kind == "float":
        with np.errstate(over="ignore"):
            return given.astype(v.dtype)
    if v.kind == "integer":
        return given[given == np.rint(given)] if given.dtype.kind == "f" else given
    return np.empty(0)


def valid_limits(v: Variable) -> tuple[Any, Any]:
    """Return the smallest and the largest valid value as stored, `None` for one that is not given.

    Real limits of packed integers are none: they may be meant for the unpacked values.  Those of real numbers have as
    many digits as these.
    """

    def end(value: Any) -> Any:
        return value.astype(v.dtype) if v.kind == "float" and packing(v) is None else value

    kinds = "iu" if v.kind == "integer" and packing(v) is not None else "iuf"
    given = v.numbers("valid_range")
    if given is not None and given.ndim == 1 and given.size == 2 and given.dtype.kind in kinds:
        low, high = unsigned(v, given)
        return end(low), end(high)
    ends: list[Any] = []
    for name in ("valid_min", "valid_max"):
        given = v.numbers(name)
        usable = given is not None and given.ndim == 1 and given.size == 1 and given.dtype.kind in kinds
        ends.append(end(unsigned(v, given)[0]) if usable and given is not None else None)
    return ends[0], ends[1]


def packing(v: Variable) -> tuple[Any, Any] | None:
    """Return ``scale_factor`` and ``add_offset`` as scalars, 1 or 0 for one that is absent; `None` if not packed.

    They are left alone where they are not single numbers.
    """
    found: list[Any] = []
    for name in ("scale_factor", "add_offset"):
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
    """Return what values as stored stand for, in the type of ``scale_factor`` and ``add_offset``.

    Missing values are not looked at: see `missing_mask`.
    """
    pair = packing(v)
    values = unsigned(v, np.asarray(values))
    if pair is None or values.dtype.kind not in "iuf":
        return values
    scale, offset = pair
    kind = np.result_type(scale.dtype, offset.dtype)
    with np.errstate(over="ignore", invalid="ignore"):
        out: npt.NDArray[Any] = values.astype(kind) * kind.type(scale) + kind.type(offset)
    return out
