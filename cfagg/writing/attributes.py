"""Conversion of attributes of any source to netCDF types: JSON has a single number type, and values that netCDF lacks.

Untyped numbers in JSON (Zarr) get the type that their variable requires: fill values, valid ranges and flags have the
type of the values. Other integers become ``int``, ``int64`` or ``uint64``, whichever first holds them all; reals become
``float`` if they are clearly the decimal expansion of one, else ``double``.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from cfagg.findings.losses import Loss

__all__ = ["NAMED_AS_A_DIMENSION", "expressible", "name_flaw", "netcdf_attributes", "text_flaw", "without_text_fill"]

#: Attributes that have the type of their variable's values (netCDF User Guide; CF sections 2.5.1, 3.5).
_OF_VALUES = frozenset({"missing_value", "flag_values", "flag_masks"})
#: Attributes that may apply to packed or to unpacked values; the latter are floating-point numbers.
_OF_EITHER = frozenset({"valid_min", "valid_max", "valid_range", "actual_range"})

#: Names reserved by the netCDF library.
_RESERVED = frozenset(
    {
        "CLASS", "DIMENSION_LIST", "NAME", "REFERENCE_LIST", "_IsNetcdf4", "_NCProperties", "_Netcdf4Coordinates",
        "_Netcdf4Dimid", "_SuperblockVersion", "_nc3_strict", "_NCCOPY", "_Codecs", "_Format",
    }
)  # fmt: skip

#: Why a group is lost that has the name of a dimension beside it: HDF5 has one object of each name in a group.
NAMED_AS_A_DIMENSION = "a dimension has this name there, and netCDF-4 has only one of both"

_ILLEGAL = re.compile(r"[\x00-\x1f\x7f/]")
#: With more significant digits than this, a real is the expansion of a shorter type, not a decimal that someone wrote.
_DIGITS = 9
#: Maximum number of characters of a value shown in a loss.
_SHOWN = 60


def name_flaw(name: str) -> str | None:
    """Return why a variable, dimension, group or attribute cannot have a name in netCDF, or `None` if it can.

    >>> name_flaw("sea_ice"), name_flaw("a/b")
    (None, 'netCDF names hold neither slashes nor control characters')
    """
    if not name or name.endswith(" "):
        return "netCDF names are not empty and do not end with a blank"
    if _ILLEGAL.search(name):
        return "netCDF names hold neither slashes nor control characters"
    try:
        raw = name.encode()
    except UnicodeEncodeError:
        return "it is not Unicode text"
    if len(raw) > 256:
        return "netCDF names have at most 256 bytes"
    if not (name[0].isalnum() or name[0] == "_" or ord(name[0]) > 127):
        return "netCDF names begin with a letter, a digit or an underscore"
    if unicodedata.normalize("NFC", name) != name:
        return "netCDF has no other form of this name than the composed one (NFC)"
    return None


def _attribute_flaw(name: Any) -> str | None:
    """Return why an attribute cannot have a name, or `None` if it can."""
    if not isinstance(name, str):
        return "the names of attributes are texts"
    return name_flaw(name) or ("the netCDF library reserves this name" if name in _RESERVED else None)


def netcdf_attributes(
    attributes: Mapping[str, Any], dtype: np.dtype[Any] | None, path: str
) -> tuple[dict[str, Any], tuple[Loss, ...]]:
    """Return attributes in netCDF types, and a loss for each attribute that netCDF cannot hold.

    `dtype` is `None` for attributes of a group; `path` is used in losses.

    >>> found, losses = netcdf_attributes({"valid_min": 0, "n": 3, "crs": {"a": 1}}, np.dtype("i2"), "tas")
    >>> found
    {'valid_min': np.int16(0), 'n': np.int32(3)}
    >>> str(losses[0])
    "variable 'tas': attribute 'crs' ({'a': 1}) is lost: netCDF has numbers and texts, and lists of either"
    """
    kept, losses = {}, []
    packed = dtype is not None and dtype.kind in "iu" and ("scale_factor" in attributes or "add_offset" in attributes)
    for name, given in attributes.items():
        why = _attribute_flaw(name)
        value = None
        if why is None:
            value, why = _value(given, _type_beside(name, given, dtype, packed=packed))
        if why is None:
            kept[name] = value
        else:
            losses.append(Loss(path, None, f"attribute {name!r}", _short(given), why))
    return kept | _packing_of_one_type(attributes, kept), tuple(losses)


def without_text_fill(attributes: Mapping[str, Any], path: str) -> tuple[dict[str, Any], tuple[Loss, ...]]:
    """Return the attributes of bytes of fixed length as those of characters, and the loss of a fill value.

    >>> without_text_fill({"_FillValue": "none", "long_name": "station"}, "name")[0]
    {'long_name': 'station'}
    """
    kept = {k: v for k, v in attributes.items() if k != "_FillValue"}
    if (fill := attributes.get("_FillValue")) is None:
        return kept, ()
    why = "the fill value of an array of characters is a single character"
    return kept, (Loss(path, None, "attribute '_FillValue'", _short(fill), why),)


def _packing_of_one_type(attributes: Mapping[str, Any], kept: Mapping[str, Any]) -> dict[str, Any]:
    """Return both numbers of a packing in one type, which CF section 8.1 demands, where JSON gave them none.

    A scale of 0.10000000149011612 is plainly a float, and an offset of 0.0 or 0 may be one; 273.15 is none.
    """
    both = {n: kept[n] for n in ("scale_factor", "add_offset") if n in kept and type(attributes[n]) in (int, float)}
    types = {v.dtype for v in both.values()}
    if len(types) < 2 or not any(one.kind == "f" for one in types):
        return {}
    with np.errstate(over="ignore"):
        short = np.dtype("f4") in types and all(float(np.float32(v)) == v for v in both.values())
    return {n: (np.float32 if short else np.float64)(v) for n, v in both.items()}


def expressible(
    attributes: Mapping[str, Any], dtype: np.dtype[Any] | None, path: str
) -> tuple[Mapping[str, Any], tuple[Loss, ...]]:
    """Return attributes without those that the netCDF library would refuse, and a loss for each of these.

    >>> expressible({"units": "K", "flag": True, "half": np.float16(1)}, None, "tas")[0]
    {'units': 'K', 'half': np.float32(1.0)}
    """
    odd = {
        k: v
        for k, v in attributes.items()
        if (not isinstance(v, str) or "\0" in v or _attribute_flaw(k) is not None) and k != "_FillValue"
    }
    found, losses = netcdf_attributes(odd, dtype, path)
    other = {k: found[k] for k, v in odd.items() if k in found and _is_other(v)}
    if not losses and not other:
        return attributes, ()
    return {k: other.get(k, v) for k, v in attributes.items() if k not in odd or k in found}, losses


def _is_other(value: Any) -> bool:
    """Return whether netCDF has a number only in another type: 16-bit floats, and integers of more than 64 bits."""
    if isinstance(value, np.ndarray | np.generic):
        return value.dtype == np.float16
    return isinstance(value, int | list | tuple) and np.asarray(value).dtype.kind == "O"


def _type_beside(name: str, given: Any, dtype: np.dtype[Any] | None, *, packed: bool) -> np.dtype[Any] | None:
    """Return the type that an attribute must have because of its variable's type, or `None` if any type will do."""
    if dtype is None or dtype.kind not in "iuf" or (name not in _OF_VALUES and name not in _OF_EITHER):
        return None
    if packed and name in _OF_EITHER and any(isinstance(v, float) for v in (given if type(given) is list else [given])):
        return None
    return dtype


def _value(given: Any, dtype: np.dtype[Any] | None) -> tuple[Any, str | None]:
    """Return a value in a netCDF type, or the reason why it has none."""
    if isinstance(given, np.ndarray | np.generic):
        return _typed(given)
    if isinstance(given, str):
        return given, text_flaw(given)
    if isinstance(given, bytes):
        return np.frombuffer(given, "S1"), None
    values = list(given) if isinstance(given, list | tuple) else [given]
    if values and all(isinstance(v, str) for v in values):
        return values, next(filter(None, map(text_flaw, values)), None)
    if any(isinstance(v, bool | np.bool_) for v in values):
        return None, "netCDF has no booleans"
    if not all(isinstance(v, int | float | np.number) for v in values):
        return None, "netCDF has numbers and texts, and lists of either"
    try:
        found = _numbers(values, dtype)
    except OverflowError:
        found = None
    if found is None:
        mixed = any(isinstance(v, float | np.floating) for v in values)
        return None, f"netCDF has no {'type that holds all of them' if mixed else 'integers of more than 64 bits'}"
    return (found if isinstance(given, list | tuple) else found[0]), None


def _typed(given: Any) -> tuple[Any, str | None]:
    """Return a value that already has a type, or the reason why netCDF cannot hold it."""
    found = np.asarray(given)
    if np.ma.is_masked(given):
        return None, "netCDF attributes have no missing values"
    if found.ndim > 1:
        return None, "netCDF attributes have one dimension"
    if found.dtype.kind in "OU":
        texts = [str(v) for v in found.reshape(-1)]
        return np.array(texts, object), next(filter(None, map(text_flaw, texts)), None)
    if found.dtype.kind == "b":
        return None, "netCDF has no booleans"
    if found.dtype == np.float16:
        return found.astype("f4")[()], None
    if found.dtype.kind not in "iufS" or (found.dtype.kind != "S" and found.dtype.itemsize > 8):
        return None, f"netCDF has no type {found.dtype}"
    return given, None


def text_flaw(text: str) -> str | None:
    """Return why a text cannot be an attribute, or `None` if it can."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return "it is not Unicode text"
    return "netCDF ends a text at its first null character" if "\0" in text else None


def _numbers(values: list[Any], dtype: np.dtype[Any] | None) -> npt.NDArray[Any] | None:
    """Return numbers in the required type, or in the smallest that holds them all; `None` if there is none."""
    if dtype is not None:
        made = _exactly(values, dtype)
        if made is not None:
            return made
    if values and all(isinstance(v, int | np.integer) for v in values):
        made = next((m for kind in ("i4", "i8", "u8") if (m := _exactly(values, np.dtype(kind))) is not None), None)
        if made is not None:
            return made
    reals = np.array([float(v) for v in values], "f8")
    if any(isinstance(v, int | np.integer) and int(v) != float(v) for v in values):
        return None
    narrow = reals.astype("f4", copy=True) if not np.any(np.abs(reals[np.isfinite(reals)]) > 3.4e38) else reals
    expanded = np.array_equal(narrow.astype("f8"), reals, equal_nan=True)
    if expanded and any(np.isfinite(v) and float(f"{v:.{_DIGITS - 1}e}") != v for v in reals.tolist()):
        return narrow
    return reals


def _exactly(values: list[Any], dtype: np.dtype[Any]) -> npt.NDArray[Any] | None:
    """Return numbers in a type, or `None` if it cannot represent one of them exactly."""
    if dtype.kind == "f":
        with np.errstate(over="ignore"):
            made = np.array([float(v) for v in values], "f8").astype(dtype)
        same = [np.isnan(v) if np.isnan(m) else float(m) == v for m, v in zip(made, values, strict=True)]
    else:
        info = np.iinfo(dtype)
        same = [abs(v) != math.inf and v == v // 1 and info.min <= v <= info.max for v in values]
        made = np.array([int(v) for v in values], dtype) if all(same) else np.empty(0, dtype)
    return made if all(same) else None


def _short(given: Any) -> str:
    """Return a value as shown in a loss."""
    text = given if isinstance(given, str) else repr(given)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
