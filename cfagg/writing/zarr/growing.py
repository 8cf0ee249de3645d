"""How the metadata of a Zarr array change as it grows along one dimension, and which objects that concerns.

What is done depends on the end of the array alone: nothing here looks at all of its chunks, however many there are.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

from cfagg.errors import LimitError, SourceError, UnsupportedError
from cfagg.formats.zarr.codecs import named
from cfagg.formats.zarr.metadata import ZarrArray, array_of

__all__ = ["Growth", "Tail", "grow"]

#: Runs of edges along one dimension that are looked at.
_MOST_RUNS = 10**7


@dataclass(frozen=True, eq=False)
class Tail(ZarrArray):
    """The end of an array along one dimension: `before` objects and `start` elements of it are not part of this."""

    axis: int = field(kw_only=True)
    before: int = field(kw_only=True)
    start: int = field(kw_only=True)

    def key(self, index: Sequence[int]) -> str:
        """Return the key of a stored object, by its index in `objects`, below the array's folder."""
        shifted = list(index)
        shifted[self.axis] += self.before
        return super().key(shifted)


@dataclass(frozen=True)
class Growth:
    """What an array becomes: its document, and its grown end, which begins at the former last object but one."""

    document: dict[str, Any]
    tail: Tail
    #: Former and new number of elements along the dimension.
    former: int
    size: int

    @property
    def objects(self) -> range:
        """Indices of the objects of the tail, along the dimension, that hold something new."""
        count = self.tail.objects.matrix_shape[self.tail.axis]
        edges = [self.tail.objects.extent(_at(self.tail, k))[self.tail.axis] for k in range(count)]
        first = next((k for k, (_, end) in enumerate(edges) if end + self.tail.start > self.former), count)
        return range(first, count)


def _at(tail: Tail, k: int) -> tuple[int, ...]:
    return tuple(k if d == tail.axis else 0 for d in range(tail.ndim))


def grow(store: str, path: str, documents: Mapping[str, Mapping[str, Any]], axis: int, count: int) -> Growth:
    """Return what an array becomes that grows by `count` along a dimension; `documents` are its own, by file name.

    On a regular grid the last chunk is filled first, and the rest is whole chunks.  On a rectilinear grid the rest is
    one new edge, which joins the run of equal ones before it.

    >>> made = {"name": "rectilinear", "configuration": {"kind": "inline", "chunk_shapes": [[[1, 9]]]}}
    >>> document = {"zarr_format": 3, "node_type": "array", "shape": [9], "data_type": "int8", "chunk_grid": made,
    ...             "chunk_key_encoding": "default", "fill_value": 0, "codecs": ["bytes"], "attributes": {}}
    >>> grown = grow("/a.zarr", "x", {"zarr.json": document}, 0, 1)
    >>> grown.document["chunk_grid"]["configuration"]["chunk_shapes"], grown.tail.key((2,))
    ([[[1, 10]]], 'c/9')
    """
    zarr_format = 3 if "zarr.json" in documents else 2
    name = "zarr.json" if zarr_format == 3 else ".zarray"
    document = dict(documents[name])
    where = f"{store}: array {path!r}"
    shape = list(document["shape"])
    former, size = shape[axis], shape[axis] + count
    if size >= 2**62:
        raise LimitError(f"{where} would have {size:,} elements along dimension {axis}")
    runs = _runs(document, axis, where) if zarr_format == 3 else None
    if runs is None:
        chunk = _length(document, zarr_format, axis, where)
        last = max(-(-former // chunk) - 1, 0)
        before = max(last - 1, 0)
        start = before * chunk
        grids = [document.get("chunk_grid"), document.get("chunk_grid")]
    else:
        runs = _cut(runs, former, where)
        total = sum(n * k for n, k in runs)
        last_two = _last(runs, 2)
        before, start = sum(k for _, k in runs) - len(last_two), total - sum(last_two)
        rest = size - total
        new = [] if rest <= 0 else [rest]
        _check_shards(document, axis, rest, where)
        if new and runs and runs[-1][0] == rest:
            runs = [*runs[:-1], (rest, runs[-1][1] + 1)]
        else:
            runs = [*runs, *((n, 1) for n in new)]
        grids = [_with(document, axis, _written(runs)), _with(document, axis, [*last_two, *new])]
    shape[axis] = size
    grown = {**document, "shape": shape, **({} if grids[0] is None else {"chunk_grid": grids[0]})}
    shape = list(shape)
    shape[axis] = size - start
    end = {**document, "shape": shape, **({} if grids[1] is None else {"chunk_grid": grids[1]})}
    texts = {n: json.dumps(end if n == name else d).encode() for n, d in documents.items()}
    prefix = f"{path}/" if path else ""
    found = array_of(store, path, lambda key: texts.get(key.removeprefix(prefix)), None)
    known = {f.name: getattr(found, f.name) for f in fields(found)}
    tail = Tail(**known, axis=axis, before=before, start=start)
    return Growth(grown, tail, former, size)


def _runs(document: Mapping[str, Any], axis: int, where: str) -> list[tuple[int, int]] | None:
    """Return the edges along a dimension as runs of length and number; `None` on a regular one."""
    name, configuration = named(document.get("chunk_grid"))
    if name == "regular":
        return None
    if name not in ("rectilinear", "rectangular"):
        raise UnsupportedError(f"{where} has the chunk grid {name!r}; regular and rectilinear ones grow")
    given = configuration.get("chunk_shapes" if name == "rectilinear" else "chunk_shape")
    one = given[axis] if isinstance(given, list) and len(given) > axis else None
    if type(one) is int:
        return None
    if not isinstance(one, list) or len(one) > _MOST_RUNS:
        raise SourceError(f"{where} has chunk edges that are no list of lengths; write its metadata again")
    runs = []
    for entry in one:
        run = (entry, 1) if type(entry) is int else entry
        if not isinstance(run, list | tuple) or len(run) != 2 or not all(type(n) is int and 0 < n < 2**62 for n in run):
            raise SourceError(f"{where} has chunk edges that are no lengths of at least 1; write its metadata again")
        runs.append((run[0], run[1]))
    return runs


def _length(document: Mapping[str, Any], zarr_format: int, axis: int, where: str) -> int:
    """Return the length of all chunks along a regular dimension."""
    name, configuration = named(document.get("chunk_grid"))
    key = {"regular": "chunk_shape", "rectilinear": "chunk_shapes", "rectangular": "chunk_shape"}.get(name, "")
    given = document.get("chunks") if zarr_format == 2 else configuration.get(key)
    one = given[axis] if isinstance(given, list) and len(given) > axis else None
    if type(one) is not int or not 0 <= one < 2**62:
        raise SourceError(f"{where} has no chunk length along dimension {axis}; write its metadata again")
    if one == 0:
        raise UnsupportedError(f"{where} has chunks of length 0 along the dimension and cannot grow; write it again")
    return one


def _cut(runs: list[tuple[int, int]], size: int, where: str) -> list[tuple[int, int]]:
    """Return the runs that cover a size; others are left over where an array was made smaller."""
    kept: list[tuple[int, int]] = []
    total = 0
    for length, count in runs:
        if total >= size:
            return kept
        needed = min(count, -(-(size - total) // length))
        kept.append((length, needed))
        total += length * needed
    if total < size:
        raise SourceError(f"{where} has chunks that end at {total}, before the dimension's end at {size}")
    return kept


def _last(runs: Sequence[tuple[int, int]], most: int) -> list[int]:
    """Return the last lengths."""
    found: list[int] = []
    for length, count in reversed(runs):
        found += [length] * min(count, most - len(found))
        if len(found) == most:
            break
    return found[::-1]


def _written(runs: Sequence[tuple[int, int]]) -> list[Any]:
    return [length if count == 1 else [length, count] for length, count in runs]


def _with(document: Mapping[str, Any], axis: int, edges: list[Any]) -> dict[str, Any]:
    """Return a chunk grid with other edges along a dimension."""
    name, configuration = named(document["chunk_grid"])
    key = "chunk_shapes" if name == "rectilinear" else "chunk_shape"
    shapes = list(configuration[key])
    shapes[axis] = edges
    return {"name": name, "configuration": {**configuration, key: shapes}}


def _check_shards(document: Mapping[str, Any], axis: int, rest: int, where: str) -> None:
    """Refuse a new edge of shards that is not a whole number of their chunks."""
    given = document.get("codecs")
    name, configuration = named(given[0]) if isinstance(given, list) and given else ("", {})
    inner = configuration.get("chunk_shape") if name == "sharding_indexed" else None
    length = inner[axis] if isinstance(inner, list) and len(inner) > axis and type(inner[axis]) is int else 1
    if rest > 0 and length > 0 and rest % length:
        raise UnsupportedError(
            f"{where} has shards of any length, of chunks of {length}; append a multiple of {length}, found {rest}"
        )
