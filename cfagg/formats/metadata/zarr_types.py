"""Types of Zarr arrays in the model, and the meaning of their fill values."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Container, Mapping
from typing import Any

import numpy as np

from cfagg.cf.missing import is_default_fill
from cfagg.formats.metadata.json_values import value_of_json
from cfagg.formats.zarr.codecs import named
from cfagg.formats.zarr.fields import NON_FINITE, V3_TYPES, fill_number
from cfagg.model.dataset import Kind, Variable

__all__ = ["fill_attribute", "fill_of_text", "give_types", "kind_of", "object_codec"]

#: Text types of Zarr v3.
_TEXTS = frozenset({"string", "fixed_length_utf32", "variable_length_utf8", "null_terminated_bytes"})

#: Codecs of numcodecs for objects.
_OBJECT_CODECS = ("vlen-utf8", "vlen-bytes", "vlen-array", "json2", "pickle", "msgpack2", "categorize")

#: Attributes that have the type of their variable, and those that may have that of its unpacked values.
_OF_VALUES = ("missing_value", "flag_values", "flag_masks")
_OF_EITHER = ("valid_min", "valid_max", "valid_range", "actual_range")


def kind_of(document: Mapping[str, Any], format_: int) -> tuple[np.dtype[Any], Kind]:
    """Return the NumPy type of an array and the kind of its values."""
    given = document.get("data_type" if format_ == 3 else "dtype")
    if format_ == 3:
        if isinstance(given, dict):
            length = given.get("configuration", {})
            width = length.get("length_bytes") if isinstance(length, dict) else None
            given = given.get("name")
            if given == "null_terminated_bytes" and width == 1:
                return np.dtype("S1"), "char"
        if isinstance(given, str) and given in _TEXTS:
            return np.dtype(object), "string"
        given = V3_TYPES.get(given, "") if isinstance(given, str) else ""
    if not isinstance(given, str) or not given or len(given) > 16:
        return np.dtype(object), "other"
    if given == "|O":
        # Texts of other codecs, such as json2, are not read by zarr-python.
        return np.dtype(object), "string" if object_codec(document) == "vlen-utf8" else "other"
    try:
        dtype = np.dtype(given)
    except (TypeError, ValueError, SyntaxError):
        return np.dtype(object), "other"
    if dtype.kind in "iu":
        return dtype.newbyteorder("="), "integer"
    if dtype.kind == "f":
        return dtype.newbyteorder("="), "float"
    if dtype.kind == "S" and dtype.itemsize == 1:
        return np.dtype("S1"), "char"
    return np.dtype(object), "string" if dtype.kind in "SU" else "other"


def object_codec(document: Mapping[str, Any]) -> str | None:
    """Return the name of the codec that turns objects of a Zarr v2 array into bytes, or `None`."""
    filters = document.get("filters")
    names = [f.get("id") for f in filters if isinstance(f, dict)] if isinstance(filters, list) else []
    return next((n for n in names if n in _OBJECT_CODECS), None)


def fill_attribute(variable: Variable, document: Mapping[str, Any], format_: int, *, nczarr: bool) -> None:
    """Give a variable the attribute ``_FillValue`` in its own type, if the store defines one."""
    # Zarr v2 has no other place for it than the fill value of unwritten chunks, which by default is 0, or that of the
    # netCDF library, so these are not treated as missing values.  xarray writes reals in base 64 in v3, VirtualiZarr
    # in v2 as well.
    variable.netcdf = nczarr
    declared = document.get("fill_value")
    if format_ == 2 and declared is not None and not nczarr:
        variable.fill = _masked(variable, declared, document.get("dtype"))
    given = variable.attributes.pop("_FillValue", None)
    other = variable.kind == "other" and document.get("dtype") != "|b1"  # the default of complex numbers is [0, 0]
    if given is None and format_ == 2 and not nczarr and not other:
        fill = document.get("fill_value")
        given = value_of_json(fill) if fill not in (None, 0, "", False) and not isinstance(fill, dict) else None
        if isinstance(given, str) and variable.kind == "float":
            given = np.array([NON_FINITE[given]]) if given in NON_FINITE else None
        elif isinstance(given, str) and variable.is_text:
            given = _decoded(given)
        if isinstance(given, np.ndarray) and variable.is_numeric and is_default_fill(variable.dtype, given):
            given = None
    elif isinstance(given, str) and variable.is_numeric:
        given = _from_base64(given, variable)
    elif isinstance(given, str) and format_ == 3 and _is_bytes(variable, document):
        given = _decoded(given)
    if given is None:
        return
    if isinstance(given, np.ndarray) and variable.is_numeric and given.size == 1:
        given = _own_type(given, variable.dtype)
    variable.attributes["_FillValue"] = given


def fill_of_text(variable: Variable, document: Mapping[str, Any]) -> str | bytes | None:
    """Return the fill value of characters or texts of any length in Zarr v3, or `None` if it is the default."""
    # xarray has no attribute for it, so it is where `_FillValue` of netCDF goes, and comes back from.
    declared, name = document.get("fill_value"), named(document.get("data_type"))[0]
    if not isinstance(declared, str) or not (variable.kind == "char" or name == "string"):
        return None
    return (declared if name == "string" else _decoded(declared)) or None


def _masked(variable: Variable, declared: Any, given: Any) -> Any:
    """Return the fill value of a Zarr v2 array, which readers treat as a missing value nevertheless, or `None`."""
    if variable.is_numeric or given == "|b1":
        return fill_number(declared, np.dtype("?") if given == "|b1" else variable.dtype, [])
    if variable.kind != "string" or not (isinstance(declared, str) or declared == 0):
        return None
    text = declared or ""  # 0 is that of texts of any length, as zarr-python 2 wrote it
    return _decoded(text) if str(given).startswith("|S") else text


def give_types(variable: Variable, given: Container[str]) -> None:
    """Give attributes that must have the type of their variable this type, unless the store gives theirs."""
    # JSON has one type of numbers, which became 64-bit ones.
    if not variable.is_numeric:
        return
    # Limits of packed values are those of values as stored, or as unpacked.
    packed = not {"scale_factor", "add_offset"}.isdisjoint(variable.attributes)
    for name in _OF_VALUES if packed else (*_OF_VALUES, *_OF_EITHER):
        value = variable.attributes.get(name)
        if isinstance(value, np.ndarray) and value.dtype.kind in "iuf" and name not in given:
            with np.errstate(all="ignore"):
                made = value.astype(variable.dtype)
            if np.array_equal(made, value, equal_nan=value.dtype.kind == made.dtype.kind == "f"):
                variable.attributes[name] = made


def _own_type(value: Any, dtype: np.dtype[Any]) -> Any:
    """Return a number in the type of its variable if it can be represented, else unchanged."""
    if dtype.kind == "f":
        return value.astype(dtype)
    if value.dtype.kind in "iu" and np.iinfo(dtype).min <= int(value[0]) <= np.iinfo(dtype).max:
        return value.astype(dtype)
    return value


def _is_bytes(variable: Variable, document: Mapping[str, Any]) -> bool:
    """Return whether the values of a Zarr v3 array are bytes."""
    return variable.kind == "char" or named(document.get("data_type"))[0] == "null_terminated_bytes"


def _decoded(text: str) -> str | bytes:
    """Return text that is stored in base 64, as bytes if it is not UTF-8; other text as it is."""
    try:
        found = base64.b64decode(text, validate=True).rstrip(b"\0")
    except (binascii.Error, ValueError):
        return text
    try:
        return found.decode()
    except UnicodeDecodeError:
        return found


def _from_base64(text: str, variable: Variable) -> Any:
    if text in NON_FINITE:
        return np.array([NON_FINITE[text]])
    try:
        raw = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return text
    # Always a double in xarray's form; other writers keep the type.
    if len(raw) == 8:
        return np.frombuffer(raw, "<f8").copy()
    return np.frombuffer(raw, variable.dtype.newbyteorder("<")) if len(raw) == variable.dtype.itemsize else text
