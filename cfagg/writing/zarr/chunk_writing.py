"""Writing the chunks by which an array grows: whole objects, the previous last one including its former values."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import batched, product
from typing import Any

import numpy as np
import numpy.typing as npt

from cfagg.arrays.chunked import ZarrReader
from cfagg.conventions import limits
from cfagg.errors import FragmentReadError, LimitError, TargetError, UnsupportedError
from cfagg.formats.codecs import DamagedError
from cfagg.formats.zarr.chunks import decoded_chunk
from cfagg.formats.zarr.codecs import named
from cfagg.formats.zarr.encoding import Encoder, encoder, shard_bytes
from cfagg.formats.zarr.shards import Opened, Shards, find_shards
from cfagg.model import Regular
from cfagg.writing.zarr.growing import Growth, Tail
from cfagg.writing.zarr.place import Place
from cfagg.writing.zarr.text import TEXT, former_text

__all__ = ["Object", "Slab", "check_growth", "put_objects", "slabs"]

#: Returns the values of an increment along its dimension, for a start and a stop.
Values = Callable[[int, int], npt.NDArray[Any]]

#: Index of an object, and its part of the values of its row.
Object = tuple[tuple[int, ...], tuple[slice, ...]]

#: Size in bytes of objects that one thread writes one after another.
_RUN_BYTES = 1 << 20


class Slab:
    """New values of one row of objects: all objects at one index along the dimension."""

    def __init__(self, growth: Growth, k: int, values: npt.NDArray[Any], encode: Encoder) -> None:
        self.growth, self.k, self.values, self.encode = growth, k, values, encode
        tail = growth.tail
        self._counts = [1 if d == tail.axis else n for d, n in enumerate(tail.objects.matrix_shape)]
        #: First element of the objects along the dimension.
        self.begin = self._extent(tail.axis, k)[0] + tail.start

    def _extent(self, d: int, i: int) -> tuple[int, int]:
        tail = self.growth.tail
        return tail.objects.extent([i if e == d else 0 for e in range(tail.ndim)])[d]

    def runs(self, most: int) -> Iterator[tuple[Object, ...]]:
        """Yield objects (index and part of the values), small ones in batches of up to `most`."""
        axis = self.growth.tail.axis
        ranges = [range(self.k, self.k + 1) if d == axis else range(n) for d, n in enumerate(self._counts)]
        cuts = [
            [slice(None)] if d == axis else [slice(*self._extent(d, i)) for i in range(n)]
            for d, n in enumerate(self._counts)
        ]
        each = max(self.values.nbytes // max(math.prod(self._counts), 1), 1)
        return batched(zip(product(*ranges), product(*cuts), strict=True), max(min(_RUN_BYTES // each, most), 1))


def check_growth(growth: Growth) -> Encoder:
    """Return the encoder of new chunks; raise an error if they cannot be encoded, before anything is written."""
    tail = growth.tail
    encode = encoder(tail)
    counts = tail.objects.matrix_shape
    for k in {*growth.objects[:1], *growth.objects[-1:]}:
        index = [0] * tail.ndim
        index[tail.axis] = k
        nbytes = math.prod(tail.objects.whole(index)) * tail.dtype.itemsize
        if nbytes > limits.MAX_CHUNK:
            raise LimitError(
                f"{tail.store}: array {tail.path!r} would have a chunk of {nbytes:,} bytes, expected at most "
                f"{limits.MAX_CHUNK:,}; append in several parts"
            )
    if math.prod(counts[: tail.axis] + counts[tail.axis + 1 :]) * len(growth.objects) > limits.MAX_PARTITIONS:
        raise LimitError(f"{tail.store}: array {tail.path!r} would have more than {limits.MAX_PARTITIONS:,} new chunks")
    return encode


def slabs(growth: Growth, values: Values, encode: Encoder) -> Iterator[Slab]:
    """Yield the new values of an array, one row of objects at a time."""
    tail = growth.tail
    for k in growth.objects:
        index = [0] * tail.ndim
        index[tail.axis] = k
        a, b = tail.objects.extent(index)[tail.axis]
        low, high = max(a + tail.start, growth.former), min(b + tail.start, growth.size)
        yield Slab(growth, k, values(low - growth.former, high - growth.former), encode)


def put_objects(place: Place, slab: Slab, run: Iterable[Object]) -> tuple[int, int]:
    """Write some objects; return their number and bytes."""
    tail, is_new = slab.growth.tail, slab.begin >= slab.growth.former
    make = _chunk if tail.objects is tail.grid else _shard
    count = stored = 0
    for index, cut in run:
        key = f"{tail.path}/{tail.key(index)}".lstrip("/")
        data = make(place, slab, index, key, slab.values[cut])
        if is_new:
            place.put(key, data, new=True)
        else:
            place.stage(key, data)
        count, stored = count + 1, stored + len(data)
    return count, stored


def _chunk(place: Place, slab: Slab, index: Sequence[int], key: str, values: npt.NDArray[Any]) -> bytes:
    """Return a chunk with its former and its new values."""
    del key
    growth, tail, begin = slab.growth, slab.growth.tail, slab.begin
    shape = tail.grid.whole(index)
    if values.shape == shape and values.dtype == tail.dtype:
        return slab.encode.encode(values)
    whole = np.full(shape, tail.fill_value, tail.dtype)
    if begin < growth.former:
        _take(whole, _former(place, tail, index), tail.axis, growth.former - begin)
    _fill(whole, values, tail.axis, max(growth.former - begin, 0))
    return slab.encode.encode(whole)


def _shard(place: Place, slab: Slab, index: Sequence[int], key: str, values: npt.NDArray[Any]) -> bytes:
    """Return a shard: complete chunks unchanged, chunks with new values encoded."""
    growth, tail, begin = slab.growth, slab.growth.tail, slab.begin
    inner = [axis.chunk if isinstance(axis, Regular) else 1 for axis in tail.grid.axes]
    counts = [size // n for size, n in zip(tail.objects.whole(index), inner, strict=True)]
    extent = tail.objects.extent(index)
    stored = place.read(key) if begin < growth.former else None
    # Specific to this object, so that its index is read only once.
    shards = None if stored is None else _shards(tail)
    parts: list[bytes | None] = []
    for at in product(*map(range, counts)):
        chunk = [a // n + i for (a, _), n, i in zip(extent, inner, at, strict=True)]
        lows = [i * n for n, i in zip(inner, at, strict=True)]
        d = tail.axis
        low = begin + lows[d]
        if any(c * n >= size for c, n, size in zip(chunk, inner, tail.shape, strict=True)):
            parts.append(None)
            continue
        kept = None
        if low < growth.former and stored is not None and shards is not None:
            kept = _part(shards, tail, stored[0], index, chunk, key)
        if low + inner[d] <= growth.former:
            parts.append(kept)
        else:
            whole = np.full(inner, tail.fill_value, tail.dtype)
            if low < growth.former:
                former: npt.NDArray[Any] | None
                if tail.dtype.kind in TEXT:
                    former = former_text(tail, chunk, None if stored is None else stored[0])
                else:
                    _check_decoded(tail)
                    former = None if kept is None else decoded_chunk(tail, chunk, kept)
                _take(whole, former, d, growth.former - low)
            box = [slice(a, min(a + n, m)) for a, n, m in zip(lows, inner, values.shape, strict=True)]
            from_ = max(low, growth.former)
            first = max(begin, growth.former)
            box[d] = slice(from_ - first, min(low + inner[d], growth.size) - first)
            _fill(whole, values[tuple(box)], d, from_ - low)
            parts.append(slab.encode.encode(whole))
    made = shard_bytes(tail, parts)
    if made is None:
        raise TargetError(f"{tail.store}/{key} would be empty, expected the appended data; nothing was published")
    return made


def _former(place: Place, tail: Tail, index: Sequence[int]) -> npt.NDArray[Any] | None:
    """Return the values of a chunk that is not full."""
    if tail.dtype.kind in TEXT:
        found = place.read(f"{tail.path}/{tail.key(tail.object_of(index))}".lstrip("/"))
        return former_text(tail, index, None if found is None else found[0])
    _check_decoded(tail)
    return ZarrReader(tail).chunk(index)


def _check_decoded(tail: Tail) -> None:
    """Raise an error if the last chunk of an array is not full and cannot be decoded."""
    if tail.decoder is None:
        raise UnsupportedError(
            f"{tail.store}: array {tail.path!r} has codecs that cfagg does not decode, and its last chunk is not full; "
            "convert the store first"
        )


def _shards(tail: Tail) -> Shards:
    """Return the layout of the shards of an array."""
    document: Mapping[str, Any] = tail.document
    dtype = tail.dtype
    if dtype.kind in TEXT:
        # The positions of chunks do not depend on their contents: full ones are copied, the last one is read by zarr.
        name, configuration = named(document["codecs"][0])
        document = {"codecs": [{"name": name, "configuration": {**configuration, "codecs": [{"name": "bytes"}]}}]}
        dtype = np.dtype("u1")
    shards = find_shards(document, dtype)
    if shards is None:
        raise UnsupportedError(
            f"{tail.store}: array {tail.path!r} has shards that cfagg does not read; convert it first"
        )
    return shards


def _part(
    shards: Shards, tail: Tail, shard: bytes, held: Sequence[int], index: Sequence[int], key: str
) -> bytes | None:  # fmt: skip
    """Return the stored bytes of a chunk of a shard."""
    try:
        opened = Opened(lambda n, at: shard[at : at + n], len(shard), ())
        found = shards.locate(opened, tail.objects, held, index)
    except DamagedError as error:
        raise FragmentReadError(f"{tail.store}/{key} is damaged: {error}; write the shard again") from error
    return None if found is None else shard[found[0] : found[0] + found[1]]


def _take(whole: npt.NDArray[Any], former: npt.NDArray[Any] | None, axis: int, count: int) -> None:
    """Copy the first `count` elements of a former chunk."""
    if former is not None:
        cut = former[(slice(None),) * axis + (slice(0, count),)]
        whole[tuple(slice(0, n) for n in cut.shape)] = cut


def _fill(whole: npt.NDArray[Any], values: npt.NDArray[Any], axis: int, start: int) -> None:
    """Copy new values after the former ones."""
    box = [slice(0, n) for n in values.shape]
    box[axis] = slice(start, start + values.shape[axis])
    whole[tuple(box)] = values
