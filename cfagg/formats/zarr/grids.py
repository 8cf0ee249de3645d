"""Chunk grids of Zarr, in both directions: metadata → `Grid`, and lengths of chunks → metadata.

Sources: the regular grid of the Zarr v2 and v3 core specifications, which NCZarr also uses; the extension
``rectilinear`` of version 3, called ``rectangular`` in the draft of ZEP 3.

A dimension of a rectilinear grid is one number, a list of lengths, or a list that includes runs ``[length, count]``;
chunks may extend beyond the array's end. Dimensions of equal chunks cost O(1) and all others O(runs), up to the columns
of edges that `Grid` has.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from cfagg.conventions import limits
from cfagg.conventions.findings import shorten
from cfagg.errors import LimitError, ModelError, Problem, SourceError, UnsupportedError
from cfagg.formats.zarr.codecs import named
from cfagg.model import Grid, Regular
from cfagg.model.runs import run_lengths

__all__ = ["chunk_grid", "for_listing", "grid_v2", "grid_v3", "is_rectilinear", "runs_along", "with_runs"]

Int64 = npt.NDArray[np.int64]

#: Name of a grid whose chunks differ -> the key of its lengths.
_VARIABLE = {"rectilinear": "chunk_shapes", "rectangular": "chunk_shape"}

#: Most chunks of unequal lengths along a dimension: zarr-python needs a microsecond and a hundred bytes for each.
_LISTED = 2**20

#: Chunks along a dimension of the grid that replaces them.
_COARSE = 2**12

#: All lengths and array sizes are below this, so that sums of two fit in 64 bits.
_BEYOND = 2**62


def grid_v2(chunks: Any, shape: tuple[int, ...], problems: list[Problem]) -> Grid:
    """Return the grid of a Zarr v2 array, including NCZarr."""
    return _regular(chunks, shape, "chunks", problems)


def grid_v3(
    document: Mapping[str, Any], shape: tuple[int, ...], problems: list[Problem], where: str
) -> tuple[Grid, Grid]:
    """Return the chunks to decode and the objects that are stored; without shards they are the same."""
    name, configuration = named(document.get("chunk_grid"))
    if name == "regular":
        objects = _regular(configuration.get("chunk_shape"), shape, "chunk_grid", problems)
    elif name in _VARIABLE:
        if configuration.get("kind", "inline") != "inline":
            raise UnsupportedError(f"{where} has chunk edges of kind {shorten(configuration['kind'])}, not 'inline'")
        key = _VARIABLE[name]
        objects = _variable(configuration.get(key), shape, f"chunk_grid.{key}", problems, where)
    else:
        raise UnsupportedError(f"{where} has the chunk grid {shorten(name)}; regular and rectilinear grids are read")
    codecs = document.get("codecs")
    if not isinstance(codecs, list) or not codecs or not all(named(c)[0] for c in codecs):
        problems.append(Problem("codecs", f"expected a list of codecs, found {shorten(codecs)}"))
        return objects, objects
    shards = [named(c)[1] for c in codecs if named(c)[0] == "sharding_indexed"]
    if not shards or len(codecs) > 1:
        # Codecs around shards transpose or compress them as a whole, so that only whole shards can be decoded.
        return objects, objects
    inner = _regular(shards[0].get("chunk_shape"), shape, "codecs.sharding_indexed.chunk_shape", problems)
    if problems:
        return objects, objects
    for d, (a, outer) in enumerate(zip(inner.axes, objects.axes, strict=True)):
        lengths = np.int64(outer.chunk) if isinstance(outer, Regular) else np.diff(outer)
        chunk = a.chunk if isinstance(a, Regular) else 1
        if np.any(lengths % chunk):
            problems.append(Problem(f"codecs.sharding_indexed.chunk_shape[{d}]", f"{chunk} does not divide the shards"))
    return inner, objects


def for_listing(grid: Any, shape: Any, where: str, *, coarse: bool = False, within: Any = None) -> Any:
    """Return a grid for zarr-python, which lists every edge, with its newer name, and equal chunks as one number."""
    # Raises an error if it would list more chunks than in any array, or more unequal ones than it can in a second.
    # With `coarse`, returns in the latter case a regular grid of fewer chunks, which differs from the stored one;
    # `within` are the lengths of chunks in shards, which divide those of shards.
    name, configuration = named(grid)
    key = _VARIABLE.get(name, "")
    edges = configuration.get(key)
    if not isinstance(edges, list):
        return grid
    sizes = shape if isinstance(shape, list) and len(shape) == len(edges) else [None] * len(edges)
    shorter = []
    for d, (entry, size) in enumerate(zip(edges, sizes, strict=True)):
        runs = [r for r in entry if type(r) is list and len(r) == 2] if isinstance(entry, list) else []
        counts = [r[1] for r in runs if type(r[1]) is int and r[1] > 0]
        if _is_length(entry) and _is_length(size):
            counts = [-(-size // entry)]
        if sum(counts) > limits.MAX_PARTITIONS:
            raise LimitError(f"{where}, dimension {d} has {sum(counts):,} chunks, more than {limits.MAX_PARTITIONS:,}")
        equal = runs == entry and len(runs) == len(counts) == 1 and _is_length(runs[0][0]) and _is_length(size)
        # A run that ends early or extends beyond the array's end is kept, since a number would mean something else.
        shorter.append(runs[0][0] if equal and -(-size // runs[0][0]) == counts[0] else entry)
        listed = sum(counts) + len(entry) - len(runs) if shorter[-1] is entry and isinstance(entry, list) else 0
        if listed > _LISTED and coarse and all(map(_is_length, sizes)):
            return _coarse(edges, sizes, within)
        if listed > _LISTED:
            raise LimitError(
                f"{where}, dimension {d} has {listed:,} chunks of unequal lengths, which zarr-python lists one by one: "
                f"expected at most {_LISTED:,}; cfagg.open_array reads it if cfagg decodes its codecs, else write it "
                "in fewer chunks"
            )
    if name == "rectilinear" and shorter == edges:
        return grid
    others = {k: v for k, v in configuration.items() if k != key}
    return {"name": "rectilinear", "configuration": {"kind": "inline", **others, "chunk_shapes": shorter}}


def _coarse(edges: Sequence[Any], sizes: Sequence[Any], within: Any) -> dict[str, Any]:
    """Return a regular grid of the same number of chunks along each dimension, or a limited one if smaller."""
    inner = within if isinstance(within, list) and len(within) == len(edges) and all(map(_is_length, within)) else None
    lengths = [
        e if _is_length(e) else max(-(-n // (_few(e) * i)), 1) * i
        for e, n, i in zip(edges, sizes, inner or [1] * len(edges), strict=True)
    ]
    return {"name": "regular", "configuration": {"chunk_shape": lengths}}


def _few(entry: Any) -> int:
    """Return the number of chunks in a list of lengths and runs, up to the limit of a coarse grid."""
    listed = entry if isinstance(entry, list) else []
    count = sum(e[1] if type(e) is list and len(e) == 2 and _is_length(e[1]) else 1 for e in listed)
    return min(max(count, 1), _COARSE)


def chunk_grid(chunks: Sequence[Any]) -> dict[str, Any]:
    """Return the chunk grid of a Zarr v3 array.

    Parameters
    ----------
    chunks : sequence of int, or of `Regular` and array_like of int
        The length of all chunks along each dimension, for a regular grid; or per dimension the lengths of its chunks
        one by one, or `Regular` if they are equal, as in `NewArray.chunks`, for a rectilinear one.

    Notes
    -----
    In a rectilinear grid, consecutive equal lengths are a run, a pair of length and number.  The shortest form of equal
    chunks, one number for the dimension, is never written, because icechunk does not accept it.
    """
    if all(isinstance(c, int) for c in chunks):
        return {"name": "regular", "configuration": {"chunk_shape": list(chunks)}}
    # An empty dimension has no chunk, but a length.
    runs = [((c.chunk, max(c.count, 1)),) if isinstance(c, Regular) else run_lengths(c) for c in chunks]
    shapes = [[[length, count] if count > 1 else length for length, count in each] for each in runs]
    return {"name": "rectilinear", "configuration": {"kind": "inline", "chunk_shapes": shapes}}


def is_rectilinear(document: Mapping[str, Any]) -> bool:
    """Return whether an array's document gives the length of each chunk, even if all are equal.

    >>> is_rectilinear({"chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [2]}}})
    False
    """
    return named(document.get("chunk_grid"))[0] in _VARIABLE


def runs_along(grid: Mapping[str, Any], shape: Sequence[int], axis: int) -> tuple[Int64, Int64]:
    """Return lengths and numbers of the chunks of a rectilinear grid up to the array's end along a dimension.

    For an empty dimension the first length is returned, with no chunks.

    >>> lengths, counts = runs_along(chunk_grid([[31, 28, 1, 1]]), (60,), 0)
    >>> lengths.tolist(), counts.tolist()
    ([31, 28, 1], [1, 1, 1])
    """
    name, configuration = named(grid)
    key = _VARIABLE[name]
    problems: list[Problem] = []
    given = configuration.get(key)
    entry = given[axis] if isinstance(given, list) and len(given) == len(shape) else None
    found = _runs(entry, shape[axis], f"chunk_grid.{key}[{axis}]", problems)
    if found is None:
        raise SourceError("the array that grows has an invalid chunk grid", problems)
    return found


def with_runs(grid: Mapping[str, Any], axis: int, lengths: Int64, counts: Int64) -> dict[str, Any]:
    """Return a rectilinear grid with new chunks along a dimension, merging equal neighbours, without listing edges."""
    name, configuration = named(grid)
    key = _VARIABLE[name]
    lengths, counts = lengths[counts > 0], counts[counts > 0]
    starts = np.flatnonzero(np.diff(lengths, prepend=0))
    runs = zip(lengths[starts].tolist(), np.add.reduceat(counts, starts).tolist(), strict=True)
    shapes = list(configuration[key])
    shapes[axis] = [length if count == 1 else [length, count] for length, count in runs]
    return {"name": name, "configuration": {**configuration, key: shapes}}


def _regular(chunks: Any, shape: tuple[int, ...], where: str, problems: list[Problem]) -> Grid:
    """Return the grid of equal chunks."""
    good = isinstance(chunks, list) and len(chunks) == len(shape) and all(_is_length(n, 0) for n in chunks)
    # A dimension of size 0 has no chunk, and some writers give its chunks the size 0.
    if good and all(c >= 1 or (c == 0 and n == 0) for c, n in zip(chunks, shape, strict=True)):
        return Grid.regular(shape, [max(c, 1) for c in chunks])
    problems.append(Problem(where, f"expected {len(shape)} chunk lengths of at least 1, found {shorten(chunks)}"))
    return Grid.regular(shape, [max(n, 1) for n in shape])


def _is_length(value: Any, least: int = 1) -> bool:
    return type(value) is int and least <= value < _BEYOND


def _variable(given: Any, shape: tuple[int, ...], key: str, problems: list[Problem], where: str) -> Grid:
    """Return the grid of chunks whose lengths are given dimension by dimension."""
    whole = Grid.regular(shape, [max(n, 1) for n in shape])
    if not isinstance(given, list) or len(given) != len(shape):
        problems.append(Problem(key, f"expected the chunk lengths of {len(shape)} dimensions, found {shorten(given)}"))
        return whole
    axes: list[Regular | Int64] = []
    for d, (entry, n) in enumerate(zip(given, shape, strict=True)):
        found = _runs(entry, n, f"{key}[{d}]", problems)
        if found is not None:
            axes.append(_axis(*found, n, f"{where}, dimension {d}"))
    if len(axes) < len(shape):
        return whole
    try:
        return Grid(axes, shape)
    except ModelError as error:
        problems.append(Problem(key, str(error)))
        return whole


def _axis(lengths: Int64, counts: Int64, size: int, where: str) -> Regular | Int64:
    """Return the edges along a dimension of a size, described in O(1) if all chunks are equal."""
    if len(lengths) == 1:
        return Regular(size, int(lengths[0]))
    if int(counts.sum()) > limits.MAX_PARTITIONS:
        raise LimitError(f"{where} has {int(counts.sum())} chunks, more than {limits.MAX_PARTITIONS}")
    edges = np.zeros(int(counts.sum()) + 1, np.int64)
    np.cumsum(np.repeat(lengths, counts), out=edges[1:])
    return edges


def _runs(entry: Any, size: int, where: str, problems: list[Problem]) -> tuple[Int64, Int64] | None:
    """Return lengths and numbers of chunks up to the end of a dimension, with equal neighbours in one run."""
    # `None` if they are invalid, or end too early.  An empty dimension has its first length, with no chunks.
    if _is_length(entry):
        return np.array([entry]), np.array([-(-size // entry)])
    columns = _columns(entry)
    if columns is None:
        problems.append(Problem(where, f"expected lengths of at least 1 or runs of them, found {shorten(entry)}"))
        return None
    lengths, counts = columns
    # Each run is limited to the chunks that reach the end on their own, so that products fit in 64 bits; sums of
    # millions of runs may not, which is detected because they become negative.
    counts = np.minimum(counts, -(-size // lengths))
    ends = np.cumsum(lengths * counts)
    wrapped = np.flatnonzero(ends < 0)
    reached = ends[: wrapped[0]] if len(wrapped) else ends
    last = int(np.searchsorted(reached, size))
    if last == len(ends):
        problems.append(Problem(where, f"chunks end at {ends[-1]}, before the dimension's end at {size}"))
        return None
    before = int(ends[last - 1]) if last else 0
    lengths, counts = lengths[: last + 1], counts[: last + 1]
    counts[last] = -(-(size - before) // int(lengths[last]))
    starts = np.flatnonzero(np.diff(lengths, prepend=0))
    return lengths[starts], np.add.reduceat(counts, starts)


def _columns(entry: Any) -> tuple[Int64, Int64] | None:
    """Return lengths and numbers of the runs in a list, or `None` if it is something else."""
    if not isinstance(entry, list) or not entry:
        return None
    if set(map(type, entry)) <= {int}:
        lengths, counts = entry, [1]
    else:
        runs = [[e, 1] if type(e) is int else e for e in entry]
        if not all(type(r) is list and len(r) == 2 and type(r[0]) is type(r[1]) is int for r in runs):
            return None
        lengths, counts = ([r[k] for r in runs] for k in (0, 1))
    if not (min(lengths) >= 1 and max(lengths) < _BEYOND and min(counts) >= 1 and max(counts) < _BEYOND):
        return None
    columns = np.array(lengths, np.int64), np.array(counts, np.int64)
    return columns[0], np.broadcast_to(columns[1], columns[0].shape)
