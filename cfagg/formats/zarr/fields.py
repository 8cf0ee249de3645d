"""The fields of Zarr array metadata: data type, fill value, chunk grid, chunk keys, names of dimensions."""

from __future__ import annotations

import re
import struct
from collections.abc import Mapping
from typing import Any

import numpy as np

from cfagg.conventions import limits
from cfagg.conventions.findings import shorten
from cfagg.errors import LimitError, ModelError, Problem, UnsupportedError
from cfagg.formats.zarr.codecs import named
from cfagg.model import Grid, Regular

__all__ = ["NON_FINITE", "V3_TYPES", "data_type", "dim_names", "fill_number", "grid_v2", "grid_v3", "key_form"]

V3_TYPES = {
    "bool": "?", "int8": "i1", "int16": "i2", "int32": "i4", "int64": "i8", "uint8": "u1", "uint16": "u2",
    "uint32": "u4", "uint64": "u8", "float16": "f2", "float32": "f4", "float64": "f8",
}  # fmt: skip
#: How JSON writes numbers that it does not have.
NON_FINITE = {"NaN": float("nan"), "Infinity": float("inf"), "-Infinity": float("-inf")}

_V2_TYPE = re.compile(r"[<>|](b1|[iu][1248]|f[248])")


def data_type(given: Any, zarr_format: int, where: str) -> np.dtype[Any]:
    """Return the type of the elements in native byte order: booleans, integers and reals only.

    >>> data_type("float32", 3, "a"), data_type(">i2", 2, "a")
    (dtype('float32'), dtype('int16'))
    """
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
    """Return names of dimensions, `None` where there are none."""
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


def grid_v2(chunks: Any, shape: tuple[int, ...], problems: list[Problem]) -> Grid:
    """Return the grid of a Zarr v2 array."""
    return _regular(chunks, shape, "chunks", problems)


def grid_v3(
    document: Mapping[str, Any], shape: tuple[int, ...], problems: list[Problem], where: str
) -> tuple[Grid, Grid]:
    """Return the chunks to decode and the objects that are stored; they are one and the same without shards."""
    name, configuration = named(document.get("chunk_grid"))
    if name == "regular":
        objects = _regular(configuration.get("chunk_shape"), shape, "chunk_grid", problems)
    elif name in ("rectilinear", "rectangular"):
        key = "chunk_shapes" if name == "rectilinear" else "chunk_shape"
        if configuration.get("kind", "inline") != "inline":
            raise UnsupportedError(f"{where} has chunk edges of kind {shorten(configuration['kind'])}, not 'inline'")
        objects = _variable(configuration.get(key), shape, f"chunk_grid.{key}", problems)
    else:
        raise UnsupportedError(f"{where} has the chunk grid {shorten(name)}; regular and rectilinear grids are read")
    codecs = document.get("codecs")
    if not isinstance(codecs, list) or not codecs or not all(named(c)[0] for c in codecs):
        problems.append(Problem("codecs", f"expected a list of codecs, found {shorten(codecs)}"))
        return objects, objects
    shards = [named(c)[1] for c in codecs if named(c)[0] == "sharding_indexed"]
    if not shards or len(codecs) > 1:
        # Codecs around the shards turn or compress them whole: then a shard is what can be decoded.
        return objects, objects
    inner = _regular(shards[0].get("chunk_shape"), shape, "codecs.sharding_indexed.chunk_shape", problems)
    if problems:
        return objects, objects
    for d, (a, outer) in enumerate(zip(inner.axes, objects.axes, strict=True)):
        lengths = {outer.chunk} if isinstance(outer, Regular) else set(np.diff(outer).tolist())
        chunk = a.chunk if isinstance(a, Regular) else 1
        if any(n % chunk for n in lengths):
            problems.append(Problem(f"codecs.sharding_indexed.chunk_shape[{d}]", f"{chunk} does not divide the shards"))
    return inner, objects


def _regular(chunks: Any, shape: tuple[int, ...], where: str, problems: list[Problem]) -> Grid:
    """Return the grid of equal chunks."""
    good = isinstance(chunks, list) and len(chunks) == len(shape) and all(type(n) is int and n < 2**62 for n in chunks)
    # A dimension of size 0 has no chunk, and some writers say that its chunks have size 0.
    if good and all(c >= 1 or (c == 0 and n == 0) for c, n in zip(chunks, shape, strict=True)):
        return Grid.regular(shape, [max(c, 1) for c in chunks])
    problems.append(Problem(where, f"expected {len(shape)} chunk lengths of at least 1, found {shorten(chunks)}"))
    return Grid.regular(shape, [max(n, 1) for n in shape])


def _variable(given: Any, shape: tuple[int, ...], where: str, problems: list[Problem]) -> Grid:
    """Return the grid of chunks whose lengths are listed, also as runs ``[length, count]``."""
    whole = Grid.regular(shape, [max(n, 1) for n in shape])
    if not isinstance(given, list) or len(given) != len(shape):
        problems.append(
            Problem(where, f"expected the chunk lengths of {len(shape)} dimensions, found {shorten(given)}")
        )
        return whole
    axes: list[Any] = []
    for d, (axis, n) in enumerate(zip(given, shape, strict=True)):
        if type(axis) is int and axis >= 1:
            axes.append(Regular(n, axis))
            continue
        lengths = _lengths(axis)
        if lengths is None:
            problems.append(
                Problem(f"{where}[{d}]", f"expected lengths of at least 1 or runs of them, found {shorten(axis)}")
            )
            continue
        edges = np.concatenate([[0], np.cumsum(lengths)])
        if edges[-1] < n:
            problems.append(Problem(f"{where}[{d}]", f"chunks end at {edges[-1]}, before the dimension's end at {n}"))
            continue
        # Chunks beyond the end are left over where an array was made smaller.
        axes.append(edges[: int(np.searchsorted(edges, n)) + 1])
    if problems:
        return whole
    try:
        return Grid(axes, shape)
    except ModelError as error:
        problems.append(Problem(where, str(error)))
        return whole


def _lengths(axis: Any) -> np.ndarray[Any, np.dtype[np.int64]] | None:
    """Return the chunk lengths along one dimension with runs expanded, `None` where they are none."""
    if not isinstance(axis, list) or not axis:
        return None
    runs = []
    for entry in axis:
        run = [entry, 1] if type(entry) is int else entry
        if not isinstance(run, list) or len(run) != 2 or not all(type(n) is int and 1 <= n < 2**62 for n in run):
            return None
        runs.append(run)
    if sum(count for _, count in runs) > limits.MAX_PARTITIONS or sum(n * count for n, count in runs) >= 2**62:
        raise LimitError(f"more than {limits.MAX_PARTITIONS} chunks along one dimension")
    lengths, counts = zip(*runs, strict=True)
    return np.repeat(np.array(lengths, np.int64), np.array(counts, np.int64))
