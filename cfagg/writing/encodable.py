"""Values that the stored type of a variable of xarray cannot represent, which xarray would replace by others."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from cfagg.cf.missing import typed_fills
from cfagg.cf.packing import read_as
from cfagg.cf.values import reinterpret
from cfagg.errors import CfaggError, ConformError, UnsupportedError
from cfagg.formats.zarr.attributes import fill_of
from cfagg.writing.netcdf import blocks

if TYPE_CHECKING:
    import xarray as xr

#: Errors of xarray about dates that it does not encode.
_FLAWS = (KeyError, NotImplementedError, TypeError, ValueError)

__all__ = ["as_coordinates", "check_type", "encodable", "named_dates", "of_one_type", "of_their_type", "with_gaps"]


def as_coordinates(variables: Mapping[Any, xr.Variable]) -> dict[Any, xr.Variable]:
    """Return variables whose coordinates along a dimension, and the bounds of these, are encoded as CF demands."""
    # They get no `_FillValue` unless they have one, and bounds are in the units of their coordinate.
    out = dict(variables)
    for name, variable in variables.items():
        if variable.dims != (name,):
            continue
        own = {**variable.encoding, **variable.attrs}
        given = {key: own[key] for key in ("units", "calendar") if key in own}
        real = np.issubdtype(own.get("dtype", int), np.floating)
        for one in (name, own.get("bounds"), own.get("climatology")):
            found = variables.get(one)
            if found is None or found.dtype.kind not in "fmMO" or "_FillValue" in {**found.encoding, **found.attrs}:
                continue
            inherited = given if found.dtype.kind in "mMO" and "units" not in found.encoding and "units" in own else {}
            if found.chunks and inherited:
                # Of Dask arrays, xarray wants both units and type, or neither; not all bounds are whole numbers.
                inherited = {**inherited, "dtype": own["dtype"]} if real else {}
            out[one] = made = found.copy(deep=False)
            made.encoding = {**inherited, **found.encoding, "_FillValue": None}
    return out


def encodable(variable: xr.Variable, name: str) -> xr.Variable:
    """Return a variable whose values can be encoded, else raise an error: at once, for Dask arrays when computed."""
    if variable.dtype.kind == "O" and not variable.chunks:
        variable = of_one_type(_numbered(variable))
        _refuse_missing_texts(variable, name)
    if variable.dtype.kind == "M" and not variable.chunks:
        variable = _encoded_gaps(variable)
    encoding = variable.encoding
    try:
        stored = np.dtype(encoding.get("dtype") or variable.dtype)
    except TypeError as error:
        raise UnsupportedError(f"variable {name!r} cannot be encoded: {error}") from error
    if stored.kind in "iuf":
        # xarray wraps fill values around, or ends by an error of NumPy.
        fill_of({**variable.attrs, **encoding}, stored, f"variable {name!r}")
    if stored.kind not in "iu" or variable.dtype.kind not in "fiumMO":
        return variable
    packed = not {"scale_factor", "add_offset"}.isdisjoint(encoding)
    if packed:
        variable = _unpacked_as_reals(variable)
        encoding = variable.encoding
    kind = {"true": "u", "false": "i"}.get(str(encoding.get("_Unsigned")), stored.kind)
    held = np.dtype(f"{kind}{stored.itemsize}")
    if variable.dtype.kind == "O":
        return variable if variable.chunks else _dates_checked(variable, name, held)
    fill = next((v for k in ("_FillValue", "missing_value") if (v := encoding.get(k)) is not None), None)
    # Without a fill value, xarray forgets that stored integers are read as others.
    forgotten = fill is None and kind != stored.kind and variable.dtype.kind in "fiu"
    if not packed and not forgotten and np.can_cast(variable.dtype, held):
        return variable
    # xarray puts the fill value among the reals, of which large integers, such as netCDF's default one, are none.
    rounded = variable.dtype.kind == "f" and fill is not None and _is_rounded(fill, variable.dtype)
    replaced = rounded and not packed and "_Unsigned" not in encoding
    # Dates and durations that are missing are the least integer of 64 bits, in memory as in the file.
    has_fill = (fill is not None and rounded is replaced) or (variable.dtype.kind in "mM" and stored.itemsize == 8)
    check = partial(
        _checked,
        name=name,
        stored=held,
        scale=encoding.get("scale_factor", 1),
        offset=encoding.get("add_offset", 0),
        has_fill=has_fill,
        fill=fill if replaced else None,
        kind=stored.kind if replaced or forgotten else None,
    )
    made = variable.copy(deep=False)
    if forgotten:
        packing = {k: encoding[k] for k in ("scale_factor", "add_offset", "_Unsigned") if k in encoding}
        made.attrs = {**variable.attrs, **packing}
        made.encoding = {k: v for k, v in encoding.items() if k not in packing}
    if variable.chunks:
        data: Any = variable.data
        dtype = stored.newbyteorder("=") if replaced or forgotten else data.dtype
        return made.copy(data=data.map_blocks(check, dtype=dtype, meta=data._meta.astype(dtype)))
    values = variable.values
    if replaced or forgotten:
        return made.copy(data=check(values))
    for part in blocks(values.shape, 8):  # packed numbers take 8 bytes each while they are checked
        check(np.asarray(values[part]))
    loaded = variable.copy(data=values)
    return _dates_checked(loaded, name, held) if variable.dtype.kind in "mM" else loaded


def check_type(variable: xr.Variable, name: str) -> None:
    """Raise an error for types of pandas, of which NumPy and xarray's encoding know nothing."""
    if not isinstance(variable.dtype, np.dtype):
        raise UnsupportedError(
            f"variable {name!r} is of type {variable.dtype}, which is not a NumPy type; convert it with astype"
        )


def of_one_type(variable: xr.Variable) -> xr.Variable:
    """Return objects in memory that are all bytes, or all numbers of a kind, in a type of NumPy; others unchanged."""
    kinds = {type(value) for value in variable.values.flat} if variable.dtype.kind == "O" else set()
    if len(kinds) != 1 or (kind := {bytes: "S", int: "iu", float: "f", bool: "b"}.get(kinds.pop())) is None:
        return variable
    made = np.array(variable.values.tolist())
    # Not with bytes that end with nulls, or integers of more than 64 bits.
    same = made.dtype.kind in kind and made.tolist() == variable.values.tolist()
    return variable.copy(data=made) if same or made.dtype.kind == "f" == kind else variable


def _unpacked_as_reals(variable: xr.Variable) -> xr.Variable:
    """Return a packed variable with real values, scale and offset: xarray packs in place, which fails for integers."""
    encoding = variable.encoding
    given = {k: np.asarray(encoding[k]) for k in ("scale_factor", "add_offset") if encoding.get(k) is not None}
    real = {k: np.float64(v.reshape(-1)[0]) for k, v in given.items() if v.dtype.kind in "iu" and v.size == 1}
    made = variable.astype("f8") if variable.dtype.kind in "iu" else variable.copy(deep=False)
    made.encoding = {**encoding, **real}
    return made


def _numbered(variable: xr.Variable) -> xr.Variable:
    """Return dates of cftime as numbers if some are missing, which xarray does not encode; others unchanged."""
    from xarray.conventions import encode_cf_variable

    units, missing = str(variable.encoding.get("units", "")), variable.isnull().values
    known = variable.values[~missing]
    dated = all(hasattr(one, "calendar") for one in known[:1]) if known.size else " since " in units
    if not (missing.any() and dated):
        return variable
    said = {k: variable.encoding[k] for k in ("units", "calendar") if k in variable.encoding}
    numbers, attributes = np.full(variable.shape, np.nan), {**variable.attrs, **said}
    if known.size:
        encoded = encode_cf_variable(type(variable)(("_",), known, encoding=said))
        numbers[~missing], attributes = encoded.values, {**variable.attrs, **encoded.attrs}
        attributes.pop("_FillValue", None)
    kept = {k: v for k, v in variable.encoding.items() if k not in said}
    return type(variable)(variable.dims, numbers, attributes, kept)


def _refuse_missing_texts(variable: xr.Variable, name: str) -> None:
    """Raise an error for missing texts, which xarray writes as empty ones, unless a fill value replaces them."""
    if variable.dtype.kind != "O" or {**variable.attrs, **variable.encoding}.get("_FillValue") is not None:
        return
    if any(isinstance(v, str | bytes) for v in variable.values.flat) and variable.isnull().values.any():
        raise UnsupportedError(
            f"variable {name!r} has missing texts, which would be read as empty ones; give them a value with "
            "fillna, or a _FillValue in the encoding"
        )


def _encoded_gaps(variable: xr.Variable) -> xr.Variable:
    """Return times that are all missing as numbers, which xarray encodes in its own calendar only; others unchanged."""
    from xarray.conventions import encode_cf_variable

    calendar = variable.encoding.get("calendar")
    if calendar is None or not variable.size or not np.isnat(variable[(slice(1),) * variable.ndim].values).all():
        return variable
    if not np.isnat(variable.values).all():
        return variable
    given = variable.copy(deep=False)
    given.encoding = {k: v for k, v in variable.encoding.items() if k != "calendar"}
    found = encode_cf_variable(given)
    found.attrs["calendar"] = calendar
    if variable.encoding.get("_FillValue", 0) is None:
        found.encoding["_FillValue"] = None
    return found


def _is_rounded(fill: Any, dtype: np.dtype[Any]) -> bool:
    """Whether a fill value is an integer that a type of reals does not represent exactly."""
    value = np.asarray(fill).reshape(-1)[:1]
    return value.dtype.kind in "iu" and bool(value.size) and float(value.astype(dtype)[0]) != int(value[0])


def of_their_type(encoded: xr.Variable, given: xr.Variable, name: str) -> xr.Variable:
    """Return encoded dates of Dask in the type of their encoding: xarray gives 64-bit numbers, whatever it says."""
    if not encoded.chunks or given.dtype.kind not in "mMO" or encoded.dtype.kind not in "iuf":
        return encoded
    data: Any = encoded.data
    return encoded.copy(data=data.map_blocks(_dates_as, encoded.dtype, name, dtype=encoded.dtype))


def _dates_checked(variable: xr.Variable, name: str, stored: np.dtype[Any]) -> xr.Variable:
    """Return dates in memory unchanged, or raise an error for the first whose number the integers cannot represent."""
    from xarray.conventions import encode_cf_variable

    wide = variable.copy(deep=False)
    wide.encoding = {**{k: v for k, v in variable.encoding.items() if k != "_Unsigned"}, "dtype": np.dtype("i8")}
    numbers = None
    # What cannot be encoded at all is reported when it is encoded, and so are other units.
    with suppress(NotImplementedError, TypeError, ValueError), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        numbers = encode_cf_variable(wide, name=name)
    if numbers is not None and numbers.dtype.kind == "i":
        _dates_as(numbers.values[~variable.isnull().values], stored, name)
    return variable


def _dates_as(values: npt.NDArray[Any], dtype: np.dtype[Any], name: str) -> npt.NDArray[Any]:
    """Return encoded dates in a type; raise an error for those that it cannot represent."""
    found = values.astype(dtype)
    if dtype.kind in "iu" and (found != values).any():
        value = values[found != values].ravel()[0]
        raise ConformError(
            f"variable {name!r}: the encoded date {value} cannot be stored as {dtype}, the type in its encoding; give "
            "it other units or another type there"
        )
    return found


def with_gaps(variable: xr.Variable) -> xr.Variable:
    """Return a variable with several missing values, which xarray reads but does not encode, in a form that it does."""
    # Missing elements get the `_FillValue`, or else the first of the values, which are an attribute like any other.
    encoding = dict(variable.encoding)
    gaps, fill = np.asarray(encoding.get("missing_value", ())).reshape(-1), encoding.get("_FillValue")
    stored = np.dtype(encoding.get("dtype") or variable.dtype)
    if gaps.dtype.kind not in "iuf" or stored.kind not in "iuf" or not gaps.size:
        return variable
    meant = read_as(stored, encoding)
    typed = typed_fills((reinterpret(v, meant, stored) for v in gaps.tolist()), stored)
    if typed and gaps.size == 1 and (fill is None or gaps[0] == fill):
        return variable
    made = variable.copy(deep=False)
    given = encoding.pop("missing_value")
    if not typed:
        if not np.isnan(gaps).all():
            # No stored value equals it, but xarray would wrap it around to one.
            made.encoding, made.attrs = encoding, {**variable.attrs, "missing_value": given}
        return made
    made.encoding = {"_FillValue": typed[0], **encoding}
    made.attrs = {**variable.attrs, "missing_value": np.array(typed)}
    return made


def _checked(
    values: npt.NDArray[Any],
    *,
    name: str,
    stored: np.dtype[Any],
    scale: Any,
    offset: Any,
    has_fill: bool,
    fill: Any,
    kind: str | None,
) -> npt.NDArray[Any]:
    """Return values, or raise an error for the first one that the stored integers cannot represent."""
    # They are unchanged, or with a `kind` of integers the stored ones, with the fill value where they are missing.
    missing = np.isnat(values) if values.dtype.kind in "mM" else np.isnan(values) if values.dtype.kind == "f" else None
    bad = np.zeros(values.shape, bool) if missing is None or has_fill else missing
    packed = values
    if values.dtype.kind not in "mM":
        limits = np.iinfo(stored)
        with np.errstate(all="ignore"):
            if (scale, offset) != (1, 0):
                packed = (values - np.float64(offset)) / np.float64(scale)
            if packed.dtype.kind == "f":
                packed = np.around(packed)
        # The largest 64-bit integers are no floating-point numbers; the next ones are out of range.
        above = packed >= float(limits.max) + 1 if packed.dtype.kind == "f" else packed > limits.max
        outside = above | (packed < limits.min)
        bad = bad | outside
    if bad.any():
        value = values[bad][0]
        another = f"give it a _FillValue that {values.dtype} represents"
        remedy = another if missing is not None and missing[bad][0] else "choose another type or packing"
        raise ConformError(
            f"variable {name!r}: the value {value} cannot be stored as {stored}, the type in its encoding; {remedy} "
            "there, or remove the type from it"
        )
    if kind is None:
        return values
    out = np.full(values.shape, 0 if fill is None else np.asarray(fill).reshape(-1)[0], stored)
    np.copyto(out, packed, where=True if missing is None else ~missing, casting="unsafe")
    return out.view(f"{kind}{stored.itemsize}")


@contextmanager
def named_dates(target: str, variables: Callable[[], xr.Dataset]) -> Iterator[None]:
    """Name the variable in an error of xarray about dates, which it raises for a Dask array when they are computed."""
    try:
        yield
    except _FLAWS as error:
        if isinstance(error, CfaggError):
            raise
        given = variables().variables
        # In netCDF, bounds have the units of their coordinate.
        of = {b: v.encoding for v in given.values() for b in (v.attrs.get("bounds"), v.attrs.get("climatology"))}
        dates = {n: v for n, v in given.items() if v.chunks or v.dtype.kind in "mMO"}
        name = next((n for n, v in dates.items() if str(error) in (_flaw(v), _flaw(v, of.get(n)))), None)
        if name is None:
            raise
        why = f"xarray encodes no times in {error}; give it other units" if isinstance(error, KeyError) else error
        raise ConformError(f"{target} was not written: variable {name!r}: {why}") from error


def _flaw(variable: xr.Variable, of: Mapping[Any, Any] | None = None) -> str | None:
    """Return why xarray cannot encode a variable, which may be bounds of another, or `None` if it can."""
    from xarray.conventions import encode_cf_variable

    given = variable.copy(deep=False)
    given.encoding = {k: v for k, v in (of or {}).items() if k in ("units", "calendar")} | variable.encoding
    try:
        encode_cf_variable(given).compute()
    except _FLAWS as error:
        return str(error)
    return None
