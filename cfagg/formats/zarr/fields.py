"""The fields of Zarr array metadata: data type, fill value, chunk keys, names of dimensions."""

from __future__ import annotations

import re
import struct
from typing import Any

import numpy as np

from cfagg.conventions.findings import shorten
from cfagg.errors import Problem, UnsupportedError
from cfagg.formats.zarr.codecs import named

__all__ = ["NON_FINITE", "V3_TYPES", "data_type", "dim_names", "fill_number", "key_form"]

V3_TYPES = {
    "bool": "?", "int8": "i1", "int16": "i2", "int32": "i4", "int64": "i8", "uint8": "u1", "uint16": "u2",
    "uint32": "u4", "uint64": "u8", "float16": "f2", "float32": "f4", "float64": "f8",
}  # fmt: skip
#: Strings for numbers that JSON lacks.
NON_FINITE = {"NaN": float("nan"), "Infinity": float("inf"), "-Infinity": float("-inf")}

_V2_TYPE = re.compile(r"[<>|](b1|[iu][1248]|f[248])")


def data_type(given: Any, zarr_format: int, where: str) -> np.dtype[Any]:
    """Return the type of the elements in native byte order: booleans, integers and reals only."""
    if zarr_format == 3 and isinstance(given, str) and given in V3_TYPES:
        return np.dtype(V3_TYPES[given])
    if zarr_format == 2 and isinstance(given, str) and _V2_TYPE.fullmatch(given):
        return np.dtype(given).newbyteorder("=")
    raise UnsupportedError(f"{where} has the data type {shorten(given)}; booleans, integers and real numbers are read")


def fill_number(given: Any, dtype: np.dtype[Any], problems: list[Problem]) -> int | float | bool:
    """Return the fill value as a Python number.

    >>> fill_number("-Infinity", np.dtype("f4"), []), fill_number("0x7fc00000", np.dtype("f4"), [])
    (-inf, nan)
    """
    if dtype.kind == "f" and isinstance(given, str):
        if given in NON_FINITE:
            return NON_FINITE[given]
        if re.fullmatch(rf"0x[0-9a-fA-F]{{{2 * dtype.itemsize}}}", given):
            form = {2: "e", 4: "f", 8: "d"}[dtype.itemsize]
            return float(struct.unpack(f">{form}", bytes.fromhex(given[2:]))[0])
    elif dtype.kind == "f" and isinstance(given, int | float) and not isinstance(given, bool):
        return float(given) if abs(given) < 2**1023 or isinstance(given, float) else float("inf")
    elif dtype.kind == "b" and (isinstance(given, bool) or (type(given) is int and given in (0, 1))):
        return bool(given)
    elif dtype.kind in "iu" and isinstance(given, int | float) and not isinstance(given, bool) and given == given // 1:
        info = np.iinfo(dtype)
        if info.min <= given <= info.max:
            return int(given)
    problems.append(Problem("fill_value", f"{shorten(given)} is not a value of type {dtype.name}"))
    return 0


def dim_names(given: Any, rank: int, where: str, problems: list[Problem]) -> tuple[str, ...] | None:
    """Return names of dimensions, or `None` if there are none."""
    if given is None:
        return None
    if not isinstance(given, list) or len(given) != rank or not all(n is None or isinstance(n, str) for n in given):
        problems.append(Problem(where, f"expected {rank} names, found {shorten(given)}"))
        return None
    names = tuple(f"dim_{d}" if n is None else n for d, n in enumerate(given))
    if len(set(names)) != len(names):
        problems.append(Problem(where, f"a name occurs twice in {shorten(given)}"))
    return names


def key_form(given: Any, problems: list[Problem], where: str) -> tuple[str, str]:
    """Return prefix and separator of the keys of a Zarr v3 array."""
    name, configuration = named(given)
    separator = configuration.get("separator", "/" if name == "default" else ".")
    if name not in ("default", "v2"):
        raise UnsupportedError(f"{where} has the chunk keys {shorten(given)}; 'default' and 'v2' are read")
    if separator not in (".", "/"):
        problems.append(Problem("chunk_key_encoding", f"expected the separator . or /, found {shorten(separator)}"))
    return "c" if name == "default" else "", separator
