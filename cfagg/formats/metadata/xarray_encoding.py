"""The form in which xarray would write variables to netCDF, without computing or writing their values.

xarray's own encoders are run, on single values if that is enough: only times without units and text that becomes
characters are processed as a whole.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from cfagg.cf.packing import DECODING_ATTRIBUTES
from cfagg.cf.references import REFERRING
from cfagg.errors import FragmentReadError
from cfagg.model.dataset import Kind

__all__ = ["Encoded", "encoded_variables"]

#: Up to this many times are encoded to find units for them.
_TIMES = 1 << 22

#: Errors that xarray may raise for objects that it cannot write.
_REFUSALS = (ValueError, TypeError, AttributeError, OverflowError, NotImplementedError, KeyError)


@dataclass(frozen=True, slots=True)
class Encoded:
    """A variable in the form and type in which it is written."""

    #: The variable with its values in memory, and the encoding with which they are written.
    source: Any
    dims: tuple[Hashable, ...]
    attributes: Mapping[Hashable, Any]
    dtype: np.dtype[Any]
    kind: Kind
    #: Name and size of the dimension that is added for the characters of strings.
    characters: tuple[str, int] | None = None
    #: Whether xarray could write it.
    writable: bool = True

    def read(self, slices: tuple[slice, ...], path: str) -> npt.NDArray[Any]:
        """Return a hyperslab of the values as written."""
        try:
            return self._read(slices)
        except Exception as error:  # lazy arrays may raise any exception
            raise FragmentReadError(
                f"values of {path!r} cannot be read or encoded: {type(error).__name__}: {str(error)[:300]}"
            ) from error

    def _read(self, slices: tuple[slice, ...]) -> npt.NDArray[Any]:
        part = self.source[slices[: len(self.source.dims)]]
        if self.kind == "char" and self.characters is not None:
            values = np.asarray(part.values)
            if values.dtype.kind != "S":
                values = np.char.encode(np.where(_missing(values), "", values).astype(str), "utf-8")
            width = self.characters[1]
            wide = values.astype(f"S{max(width, 1)}")
            return wide.reshape(*wide.shape, 1).view("S1")[..., :width][..., slices[-1]]
        if self.kind not in ("integer", "float"):
            values = np.asarray(part.values)
            return values if values.dtype == np.dtype("S1") else np.where(_missing(values), "", values).astype(object)
        if self.writable:
            part = _encode(part)
        with np.errstate(all="ignore"):
            return np.asarray(part.values).astype(self.dtype)


def encoded_variables(variables: Mapping[Hashable, Any]) -> dict[Hashable, Encoded]:
    """Return the variables of an `xarray.Dataset`, with their ``coordinates`` attributes, as written."""
    from xarray.conventions import cf_encoder

    samples = {name: _sample(variable) for name, variable in variables.items()}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        refused: set[Hashable] = set()
        for name, sample in samples.items():
            try:
                _encode(sample, name)
            except _REFUSALS:
                refused.add(name)
        # Bounds get the units of their times, and lose the attributes that they inherit.
        given = {name: sample for name, sample in samples.items() if name not in refused}
        written = cf_encoder(given, {})[0]
        found = {}
        for name, variable in variables.items():
            if name in written:
                found[name] = _encoded(name, variable, samples[name], written[name])
            else:
                found[name] = _as_it_stands(variable)
    return found


def _encode(variable: Any, name: Hashable = None) -> Any:
    from xarray.conventions import encode_cf_variable

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return encode_cf_variable(variable, name=name)


def _with(variable: Any, data: Any, encoding: Mapping[str, Any]) -> Any:
    """Return a variable of the same dimensions and attributes with other data and encoding."""
    from xarray import Variable

    return Variable(variable.dims, data, dict(variable.attrs), dict(encoding), fastpath=True)


def _sample(variable: Any) -> Any:
    """Return a variable that is encoded like the given one, with a single value if that is enough."""
    encoding = dict(variable.encoding)
    if _is_time(variable):
        if getattr(variable, "chunks", None) is not None:
            # xarray's defaults if both are absent; it cannot write if only one is absent.
            lazy = {"dtype": "int64", "units": f"microseconds{' since 1970-01-01' * (variable.dtype.kind != 'm')}"}
            return _with(variable, variable.data, lazy | encoding)
        if variable.size <= _TIMES:
            return _with(variable, variable.values, encoding)
        encoding.setdefault("units", "seconds since 1970-01-01" if variable.dtype.kind != "m" else "seconds")
        return _with(variable, _one(variable), encoding)
    if variable.dtype.kind == "O":
        return _with(variable, _one(variable), encoding)
    return _with(variable, np.zeros((1,) * variable.ndim, variable.dtype), encoding)


def _one(variable: Any) -> npt.NDArray[Any]:
    """Return the first value of a variable, in an array with the same number of dimensions."""
    value = np.empty((1,) * variable.ndim, variable.dtype)
    first = _first(variable)
    value[...] = "" if first is None else first
    return value


def _first(variable: Any) -> Any:
    """Return the first value in memory that is not missing, or `None` if there is none."""
    if variable.size == 0 or getattr(variable, "chunks", None) is not None:
        return None
    first = variable[(0,) * variable.ndim].values if variable.ndim else variable.values
    if variable.dtype.kind != "O" or not _missing(np.asarray(first)).any():
        return first.item() if variable.dtype.kind == "O" else first
    rest = variable.values
    return next(iter(rest[~_missing(rest)]), None)


def _missing(values: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
    """Return which objects are `None` or NaN."""
    if values.dtype.kind != "O":
        return np.zeros(values.shape, bool)
    flat = [v is None or (isinstance(v, float) and math.isnan(v)) for v in values.ravel()]
    return np.array(flat, bool).reshape(values.shape)


def _is_time(variable: Any) -> bool:
    """Whether the values are dates or durations that have been decoded."""
    if variable.dtype.kind in "mM":
        return True
    if variable.dtype != object:
        return False
    first = _first(variable)
    return "units" in variable.encoding or (hasattr(first, "timetuple") and hasattr(first, "calendar"))


def _encoded(name: Hashable, variable: Any, sample: Any, written: Any) -> Encoded:
    # The encoding found for all values applies to each part.
    encoding = dict(sample.encoding)
    if _is_time(variable):
        encoding |= {key: written.attrs[key] for key in ("units", "calendar") if key in written.attrs}
        encoding["dtype"] = written.dtype
    source = variable.copy(deep=False)
    source.encoding = encoding
    # Attributes that are used to encode times are removed, or they would be written twice.
    source.attrs = {k: v for k, v in variable.attrs.items() if k not in ("units", "calendar") or not _is_time(variable)}
    # An empty array of objects is written as real numbers, whatever the type of a value.
    dtype, kind = _type(variable if variable.size == 0 and written.dtype.kind == "O" else written)
    if kind != "string":
        return Encoded(source, tuple(variable.dims), written.attrs, dtype, kind)
    characters, attributes = _characters(name, variable, written)
    if characters is None:
        return Encoded(source, tuple(variable.dims), attributes, dtype, kind)
    dims = (*variable.dims, characters[0])
    return Encoded(source, dims, attributes, np.dtype("S1"), "char", characters)


def _type(variable: Any) -> tuple[np.dtype[Any], Kind]:
    """Return the type of an encoded variable; text is initially treated as strings."""
    dtype = variable.dtype
    if dtype.metadata and "enum" in dtype.metadata:
        return np.dtype(dtype.newbyteorder("=").str, metadata={"enum": dict(dtype.metadata["enum"])}), "other"
    if dtype.kind in "iu":
        return dtype.newbyteorder("="), "integer"
    if dtype.kind == "b":
        return np.dtype("i1"), "integer"
    if dtype.kind == "f":
        return dtype.newbyteorder("="), "float"
    if dtype.kind in "UST":
        return np.dtype(object), "string"
    if dtype.kind == "O" and variable.size == 0:
        return np.dtype("f8"), "float"
    first = _first(variable) if dtype.kind == "O" else None
    return np.dtype(object), "string" if dtype.kind == "O" and isinstance(first, str | bytes) else "other"


def _characters(name: Hashable, variable: Any, written: Any) -> tuple[tuple[str, int] | None, Mapping[Hashable, Any]]:
    """Return the dimension of characters, `None` for strings, and the attributes of text."""
    from xarray.coding import strings as coding

    if getattr(variable, "chunks", None) is not None and variable.dtype.kind == "O":
        return None, written.attrs
    as_characters = written.encoding.get("dtype") == "S1"
    is_bytes = written.dtype.kind == "S" or (written.dtype.kind == "O" and isinstance(_first(variable), bytes))
    if not as_characters and not is_bytes:
        return None, written.attrs
    data: Any = written.data
    if written.dtype.kind != "S":
        values = variable.values
        data = np.where(_missing(values), b"" if is_bytes else "", values).astype("S" if is_bytes else "U")
    text = _with(written, data, written.encoding)
    coders: Any = coding  # which has no type annotations
    try:
        text = coders.EncodedStringCoder(allows_unicode=True).encode(text, name=name)
        encoded = coders.CharacterArrayCoder().encode(text, name=name)
    except _REFUSALS:
        return None, written.attrs
    if len(encoded.dims) == len(variable.dims):
        return None, encoded.attrs
    return (str(encoded.dims[-1]), int(encoded.shape[-1])), encoded.attrs


#: Keys that decoding moves out of the attributes.
_MOVED = (*DECODING_ATTRIBUTES, "units", "calendar", *REFERRING)


def _as_it_stands(variable: Any) -> Encoded:
    """Return a variable that xarray would not write, with attributes and encoding combined."""
    attributes = dict(variable.attrs)
    for key in _MOVED:
        if variable.encoding.get(key) is not None:
            attributes.setdefault(key, variable.encoding[key])
    dtype, kind = _type(variable)
    return Encoded(variable, tuple(variable.dims), attributes, dtype, kind, writable=False)
