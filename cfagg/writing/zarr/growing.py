"""How the metadata of a Zarr array change when it grows along one dimension, and which objects are affected.

All work depends only on the end of the array: nothing here iterates over all of its chunks.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np

from cfagg.errors import LimitError, SourceError, UnsupportedError
from cfagg.formats.zarr.codecs import named
from cfagg.formats.zarr.grids import is_rectilinear, runs_along, with_runs
from cfagg.formats.zarr.metadata import Opens, ZarrArray, array_of
from cfagg.writing.zarr.text import text_fill, text_type

__all__ = ["Growth", "Tail", "grow"]


@dataclass(frozen=True, eq=False)
class Tail(ZarrArray):
    """The end of an array along one dimension, without its first `before` objects and `start` elements."""

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
    """A grown array: its new document, and its new end, which begins at the previously last object but one."""

    document: dict[str, Any]
    tail: Tail
    #: Former and new number of elements along the dimension.
    former: int
    size: int

    @property
    def objects(self) -> range:
        """Indices of the tail's objects along the dimension that contain new values."""
        count = self.tail.objects.matrix_shape[self.tail.axis]
        edges = [self.tail.objects.extent(_at(self.tail, k))[self.tail.axis] for k in range(count)]
        first = next((k for k, (_, end) in enumerate(edges) if end + self.tail.start > self.former), count)
        return range(first, count)


def _at(tail: Tail, k: int) -> tuple[int, ...]:
    return tuple(k if d == tail.axis else 0 for d in range(tail.ndim))


def grow(
    store: str,
    path: str,
    documents: Mapping[str, Mapping[str, Any]],
    axis: int,
    count: int,
    opens: Opens | None = None,
) -> Growth:
    """Return the growth of an array by `count` along a dimension; `documents` are those of the array, by file name."""
    # `opens` opens stored objects of stores that are neither directories nor URLs.
    # On a regular grid the last chunk is filled first, and the rest is whole chunks.  On a rectilinear grid the rest is
    # one new edge, which joins the run of equal ones before it.
    zarr_format = 3 if "zarr.json" in documents else 2
    name = "zarr.json" if zarr_format == 3 else ".zarray"
    document = dict(documents[name])
    where = f"{store}: array {path!r}"
    shape = list(document["shape"])
    former, size = shape[axis], shape[axis] + count
    if size >= 2**62:
        raise LimitError(f"{where} would have {size:,} elements along dimension {axis}")
    given = document.get("chunk_grid", {})
    if zarr_format == 2 or not _has_edges(document, axis, where):
        chunk = _length(document, zarr_format, axis, where)
        before = max(-(-former // chunk) - 2, 0)
        start = before * chunk
        grids = [given, given]
    else:
        lengths, counts = runs_along(given, shape, axis)
        total = int(np.dot(lengths, counts))
        # Only the last two chunks at most.
        last = np.repeat(lengths[-2:], np.minimum(counts[-2:], 2))[-2:]
        before, start = int(counts.sum()) - len(last), total - int(last.sum())
        new = np.array([size - total] if size > total else [], np.int64)
        _check_shards(document, axis, size - total, where)
        every = np.concatenate([lengths, new]), np.concatenate([counts, np.ones_like(new)])
        end = np.concatenate([last, new])
        grids = [with_runs(given, axis, *every), with_runs(given, axis, end, np.ones_like(end))]
    shape[axis] = size
    whole = {**document, "shape": shape, **({"chunk_grid": grids[0]} if grids[0] else {})}
    shape = list(shape)
    shape[axis] = size - start
    tail_of = {**document, "shape": shape, **({"chunk_grid": grids[1]} if grids[1] else {})}
    texts = {n: json.dumps(tail_of if n == name else d).encode() for n, d in documents.items()}
    prefix = f"{path}/" if path else ""
    text = text_type(document, zarr_format, where)
    found = array_of(store, path, lambda key: texts.get(key.removeprefix(prefix)), opens, any_type=text is not None)
    known = {f.name: getattr(found, f.name) for f in fields(found)}
    if text is not None:
        known |= {"dtype": text, "fill_value": text_fill(document, text)}
    tail = Tail(**known, axis=axis, before=before, start=start)
    return Growth(whole, tail, former, size)


def _has_edges(document: Mapping[str, Any], axis: int, where: str) -> bool:
    """Whether the chunk lengths along a dimension are listed individually, so that they may differ."""
    name, configuration = named(document.get("chunk_grid"))
    if not is_rectilinear(document):
        if name != "regular":
            raise UnsupportedError(f"{where} has the chunk grid {name!r}; regular and rectilinear ones grow")
        return False
    given = configuration.get("chunk_shapes" if name == "rectilinear" else "chunk_shape")
    return not (isinstance(given, list) and len(given) > axis and type(given[axis]) is int)


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


def _check_shards(document: Mapping[str, Any], axis: int, rest: int, where: str) -> None:
    """Raise an error if a new edge of shards is not a whole number of their chunks."""
    given = document.get("codecs")
    name, configuration = named(given[0]) if isinstance(given, list) and given else ("", {})
    inner = configuration.get("chunk_shape") if name == "sharding_indexed" else None
    length = inner[axis] if isinstance(inner, list) and len(inner) > axis and type(inner[axis]) is int else 1
    if rest > 0 and length > 0 and rest % length:
        raise UnsupportedError(
            f"{where} has shards of varying length in chunks of {length}; append a multiple of {length}, found {rest}"
        )
