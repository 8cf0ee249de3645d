"""Patterns of partitions with the same header, layout and selection: the bytes to read, and where elements go."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from cfagg.arrays.index.sites import Conforming, Sites
from cfagg.arrays.index.table import Index
from cfagg.arrays.plan import AxisPlan, Plan
from cfagg.cf import conform
from cfagg.conventions import limits
from cfagg.errors import CfaggError
from cfagg.formats.values.storage import Contiguous, StoredVariable
from cfagg.model.chunks import ChunkTable, Encoding
from cfagg.storage.files import FileKey

__all__ = ["MOST", "Pattern", "Request", "codes_of", "pattern_of"]

Int64 = npt.NDArray[np.int64]

#: Most elements of each partition that are read in this way, and most chunks of one fragment.
MOST, _CHUNKS = 2**16, 16

#: Bytes of a gap between elements that are read rather than skipped.
_GAP = 2**13


class Request(NamedTuple):
    """The bytes to read of one chunk of each fragment of a pattern, and the elements in them."""

    #: The index of the chunk, or -1 for a block of bytes.
    chunk: int
    #: For a chunk without codecs: offset from its start, and number of bytes.
    begin: int
    length: int
    #: Positions of elements: in the bytes that are read, or in elements of the chunk; and in the block.
    source: Int64
    block: Int64 | slice
    #: Whether these are all elements that are read, in order.
    is_whole: bool = False


@dataclass(frozen=True)
class Pattern:
    """The operations for each of some partitions."""

    encoding: Encoding
    shape: tuple[int, ...]  # of a chunk; empty for a block of bytes
    requests: list[Request]
    size: int  # elements of each
    recipe: conform.Recipe
    offsets: Int64  # place of each element, relative to the first place of the partition
    is_row: bool  # whether these are consecutive
    is_plain: bool  # whether the bytes that are read are exactly the elements, in order
    is_copied: bool  # whether they equal those of the output, except missing ones


def codes_of(reader: Conforming, index: Index, made: Plan, rows: Sequence[Int64], cell: Int64, row: Int64) -> Int64:
    """Return a number for each cell of a plan, equal for those that are read in the same way."""
    partitions = reader.aggregation.partitions
    code = index.kinds[row]
    code = _joined(code, partitions.layout[cell].astype(np.int64))
    code = _joined(code, partitions.part[cell].astype(np.int64) + 1)
    for axis, chosen, edges, sizes in zip(made.axes, rows, reader.grid.axes, reader.grid.matrix_shape, strict=True):
        if len(axis) > 1:
            code = _joined(code, _alike(axis, edges, sizes)[chosen])
    return code


def _alike(axis: AxisPlan, edges: Any, count: int) -> Int64:
    """Return a number for each row of an axis, equal for those with the same place in cells of equal length."""
    if axis.index is not None:
        every: Int64 = np.arange(len(axis))
        return every
    code = _joined(axis.start - axis.start.min(), axis.count)
    if isinstance(edges, np.ndarray):
        return _joined(code, np.diff(edges)[axis.cell])
    return _joined(code, (axis.cell == count - 1).astype(np.int64))


def _joined(one: Int64, other: Int64) -> Int64:
    """Return a number for each pair of numbers."""
    if other.size and (other == other[0]).all():
        return one
    codes = np.unique(other, return_inverse=True)[1]
    pairs = np.unique(one, return_inverse=True)[1] * len(other) + codes
    joined: Int64 = np.unique(pairs, return_inverse=True)[1].astype(np.int64)
    return joined


def pattern_of(reader: Conforming, index: Index, sites: Sites, made: Plan, k: int, steps: Int64) -> Pattern | None:
    """Return the pattern of all partitions that are read like that of cell `k` of the plan."""
    i = int(made.cell[k])
    file, row = int(sites.file[i]), int(sites.row[i])
    key = FileKey(
        index.where(file), 0, *(int(c[file]) for c in (index.inode, index.size, index.mtime_ns, index.ctime_ns))
    )
    stored = index.stored(row, key, index.address[row])
    if stored is None or stored.header.dtype.kind not in "iuf":
        return None
    if reader.aggregation.bounds_of is not None and "units" not in stored.header.attributes:
        return None
    try:
        found = reader.prepared(i, stored, made.source(k))
    except CfaggError:
        return None  # reported by the general method
    if found is None:
        return None
    recipe, indices, feeds, stored = found
    if recipe.dates is not None or any(a < 0 and n > 1 for a, n in zip(recipe.axes, _lengths(made, k), strict=True)):
        return None
    sizes = [len(one) for one in indices]
    size = math.prod(sizes)
    if size > MOST or not size:
        return None
    requests = _requests(stored, [np.asarray(one, np.int64) for one in indices])
    if requests is None:
        return None
    chunk = stored.chunks or ()
    encoding = stored.storage.encoding  # type: ignore[union-attr]
    plain = replace(recipe, axes=(0,), flips=(False,), extra=())
    offsets = _offsets(made, k, sizes, feeds, steps)
    is_row = bool((offsets == np.arange(size)).all())
    simple = [_simple(one, chunk, encoding) for one in requests]
    one = simple[0]
    in_order = len(simple) == 1 and one.is_whole and isinstance(one.block, slice) and one.block == slice(0, size)
    is_plain = encoding.is_plain and in_order
    return Pattern(
        encoding, chunk, simple, size, plain, offsets, is_row, is_plain, _is_copied(recipe, encoding, reader.dtype)
    )


def _is_copied(recipe: conform.Recipe, encoding: Encoding, dtype: np.dtype[Any]) -> bool:
    """Return whether values are written to the output unchanged, except missing ones."""
    if recipe.texts is not None:
        return False
    plain = recipe.dates is None and not recipe.whole and recipe.clash is None and recipe.rule.light
    return encoding.dtype == dtype and (recipe.identity or plain)


def _simple(request: Request, chunk: tuple[int, ...], encoding: Encoding) -> Request:
    """Return a request that records whether its elements are all those read, in order."""
    step = encoding.dtype.itemsize if encoding.is_plain else 1
    count = math.prod(chunk) if not encoding.is_plain else request.length // step
    whole = len(request.source) == count and bool((request.source == np.arange(count) * step).all())
    block = request.block
    if isinstance(block, np.ndarray) and (np.diff(block) == 1).all():
        block = slice(int(block[0]), int(block[-1]) + 1)
    return request._replace(block=block, is_whole=whole)


def _lengths(made: Plan, k: int) -> list[int]:
    return [int(axis.count[row]) for axis, row in zip(made.axes, made.rows(k), strict=True)]


def _offsets(made: Plan, k: int, sizes: Sequence[int], feeds: Sequence[tuple[int, bool]], steps: Int64) -> Int64:
    """Return the place in the output of each element of a block, relative to that of its partition."""
    offsets = np.zeros(sizes, np.int64)
    for axis, (d, flip) in enumerate(feeds):
        if d < 0:
            continue
        row = made.rows(k)[d]
        target = made.axes[d].target(row)
        if isinstance(target, slice):
            target = np.arange(made.axes[d].size)[target]
        places = (target - made.axes[d].out[row]) * steps[d]
        shape = [1] * len(sizes)
        shape[axis] = -1
        offsets += (places[::-1] if flip else places).reshape(shape)
    return offsets.reshape(-1)


def _requests(stored: StoredVariable, indices: list[Int64]) -> list[Request] | None:
    """Return the requests to a fragment for some elements along each of its dimensions."""
    storage, shape = stored.storage, stored.header.shape
    itemsize = stored.header.dtype.itemsize
    if isinstance(storage, Contiguous):
        steps = [itemsize * math.prod(shape[d + 1 :]) for d in range(len(shape))]
        if storage.record and steps:
            steps[0] = storage.record
        return _spans(-1, _flat(indices, steps), itemsize)
    chunk = stored.chunks
    if not isinstance(storage, ChunkTable) or chunk is None or storage.cell.size != storage.grid.size:
        return None
    nbytes = math.prod(chunk) * itemsize
    if nbytes > limits.MAX_CHUNK:
        return None
    counts = storage.grid.matrix_shape
    cells = _flat(
        [one // c for one, c in zip(indices, chunk, strict=True)],
        [math.prod(counts[d + 1 :]) for d in range(len(counts))],
    )
    within = _flat(
        [one % c for one, c in zip(indices, chunk, strict=True)],
        [math.prod(chunk[d + 1 :]) for d in range(len(chunk))],
    )
    touched, inverse = np.unique(cells, return_inverse=True)
    if len(touched) > _CHUNKS:
        return None
    found: list[Request] = []
    for n, cell in enumerate(touched.tolist()):
        block = np.flatnonzero(inverse == n)
        if not storage.encoding.is_plain:
            found.append(Request(cell, 0, 0, within[block], block))
            continue
        spans = _spans(cell, within[block] * itemsize, itemsize)
        if spans is None:
            return None
        found += [one._replace(block=block[one.block]) for one in spans]
    return found if len(found) <= _CHUNKS else None


def _flat(indices: Sequence[Int64], steps: Sequence[int]) -> Int64:
    """Return the position of each element of a block, in C order."""
    places = np.zeros((), np.int64)
    for one, step in zip(indices, steps, strict=True):
        places = np.add.outer(places, one * step)
    return places.reshape(-1)


def _spans(chunk: int, places: Int64, itemsize: int) -> list[Request] | None:
    """Return requests for elements at some bytes, with neighbours merged."""
    order = np.argsort(places, kind="stable")
    ascending = places[order]
    cuts = np.flatnonzero(np.diff(ascending) > _GAP) + 1
    if len(cuts) >= _CHUNKS:
        return None
    found = []
    for part in np.split(order, cuts):
        begin, end = int(places[part[0]]), int(places[part[-1]]) + itemsize
        found.append(Request(chunk, begin, end - begin, places[part] - begin, part))
    return found
