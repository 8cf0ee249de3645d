"""Writing variables, attributes and groups as netCDF-4: plain values in, one file out."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import numpy as np
import numpy.typing as npt

from cfagg.display.names import dtype_name
from cfagg.errors import UnsupportedError
from cfagg.formats.values.locks import LIBRARY
from cfagg.formats.zarr.attributes import fill_of
from cfagg.writing.attributes import text_flaw
from cfagg.writing.content import Held

__all__ = [
    "BLOCK",
    "blocks",
    "check_texts",
    "define",
    "locked",
    "set_attributes",
    "type_flaw",
    "write_held",
    "write_small",
]

#: Size in bytes of values that are read and written at once.
BLOCK = 2**26

_COMPRESSION = ("zlib", "complevel", "shuffle", "fletcher32")


def define(
    group: Any, name: str, dims: tuple[str, ...], dtype: np.dtype[Any], attributes: Mapping[str, Any], **options: Any
) -> Any:
    """Return a new variable of a `netCDF4.Dataset` or group, with its attributes."""
    given = dict(attributes)
    fill = given.pop("_FillValue", None)
    if (flaw := type_flaw(dtype)) is not None:
        remedy = "write it as float32" if dtype == np.float16 else "leave it out"
        raise UnsupportedError(f"variable {name!r}: {flaw}; {remedy}")
    if dtype.kind in "iuf":
        fill = fill_of(attributes, dtype.newbyteorder("="), f"variable {name!r}")
    kind: Any = str if dtype.kind in "OUT" else dtype.newbyteorder("=")
    made = group.createVariable(name, kind, dims, fill_value=fill, **options)
    made.set_auto_maskandscale(False)
    made.set_auto_chartostring(False)
    set_attributes(made, given)
    return made


def type_flaw(dtype: np.dtype[Any]) -> str | None:
    """Return why values of a type are not written to netCDF, or `None` if they are."""
    said: Mapping[str, Any] = dtype.metadata or {}
    if dtype.kind in "OUT":
        if "vlen" in said:
            return "arrays of variable length cannot be written"
        return f"the type {said['name']} cannot be written to netCDF" if "name" in said else None
    if dtype.kind not in "iufS" or dtype.itemsize > {"S": 1}.get(dtype.kind, 8) or dtype == np.float16:
        return f"the type {dtype_name(dtype)} cannot be written to netCDF"
    return None


def set_attributes(of: Any, attributes: Mapping[str, Any]) -> None:
    """Set the attributes of a variable, group or file unchanged."""
    for name, value in attributes.items():
        if isinstance(value, str):
            of.setncattr(name, value)
        elif isinstance(value, np.ndarray) and value.dtype.kind in "OU":
            of.setncattr_string(name, [str(v) for v in value.reshape(-1)])
        elif isinstance(value, list | tuple) and value and all(isinstance(v, str) for v in value):
            of.setncattr_string(name, list(value))
        else:
            of.setncattr(name, value)


def write_held(group: Any, name: str, held: Held) -> None:
    """Write a variable with its values, which other threads may read meanwhile; see `locked`."""
    options = {k: v for k, v in held.compression.items() if k in _COMPRESSION and v is not None}
    options = options if options.get("zlib") and held.shape and held.dtype.kind in "iufS" else {}
    with LIBRARY:
        made = define(group, name, held.dims, held.dtype, held.attributes, **options)
    for slices in blocks(held.shape, held.dtype.itemsize):
        values = held.read(slices)
        check_texts(values, name)
        with LIBRARY:
            made[slices if held.shape else ...] = values


def check_texts(values: npt.NDArray[Any], name: str) -> None:
    """Raise an error if values are objects that are not text, or text that netCDF would cut off."""
    for text in values.reshape(-1).tolist() if values.dtype.kind == "O" else ():
        if not isinstance(text, str):
            kind = type(text).__name__
            raise UnsupportedError(f"variable {name!r} holds an object of type {kind}, expected text; leave it out")
        if not text.isascii() or "\0" in text:
            flaw = text_flaw(text)
            if flaw is not None:
                raise UnsupportedError(
                    f"variable {name!r} holds the text {text[:40]!r}: {flaw}; leave the variable out or change it"
                )


def write_small(
    group: Any, name: str, dims: tuple[str, ...], values: npt.NDArray[Any], attributes: Mapping[str, Any]
) -> None:
    """Write an in-memory array."""
    made = define(group, name, dims, values.dtype, attributes)
    made[...] = values


def blocks(
    shape: tuple[int, ...], itemsize: int, most: int = BLOCK, chunks: tuple[int, ...] = ()
) -> Iterator[tuple[slice, ...]]:
    """Yield slices that together cover the array, each of at most `most` bytes, and of whole chunks if these fit."""
    if not math.prod(shape):
        return
    ranges = []
    for k, size in enumerate(shape):
        step = min(size, max(1, most // (math.prod(shape[k + 1 :]) * itemsize)))
        if chunks and chunks[k] < step < size:
            step -= step % chunks[k]
        ranges.append([slice(start, min(start + step, size)) for start in range(0, size, step)])
    yield from itertools.product(*ranges)


@contextmanager
def locked(make: Callable[[], AbstractContextManager[Any]]) -> Iterator[Any]:
    """Open and close a file while holding the lock of the libraries, which is released within the block."""
    with LIBRARY:
        made = make()
        file = made.__enter__()
    try:
        yield file
    except BaseException as error:
        with LIBRARY:
            made.__exit__(type(error), error, error.__traceback__)
        raise
    with LIBRARY:
        made.__exit__(None, None, None)
