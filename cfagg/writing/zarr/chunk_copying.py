"""Writing the chunks of an array joined from others: matching chunks are copied unchanged, all others encoded."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from cfagg.arrays.lazy import LazyArray
from cfagg.arrays.reader import Reader
from cfagg.conventions import limits
from cfagg.errors import LimitError, StaleError, UnsupportedError
from cfagg.formats.zarr.chunks import stored_chunk
from cfagg.formats.zarr.encoding import encoder, padded, shard_bytes
from cfagg.formats.zarr.metadata import ZarrArray, current_signature
from cfagg.formats.zarr.readers import rectilinear_note
from cfagg.formats.zarr.stored import stored_few
from cfagg.model import Regular
from cfagg.runtime.threads import run_threads
from cfagg.writing.zarr.described import is_regular
from cfagg.writing.zarr.forms import Form
from cfagg.writing.zarr.new_store import Keys, Stored
from cfagg.writing.zarr.report import StoreReport

__all__ = ["CopyJob", "Leaf"]

#: Number of chunks that one task copies.
_AT_ONCE = 32

#: Number of chunks from which the stored ones may be listed, and how many times fewer these must then be.
_MANY, _SPARSE = 256, 8

Int64 = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Leaf:
    """A stored or given array, its origin in the whole, and the form of its chunks."""

    reader: Reader
    origin: tuple[int, ...]
    array: ZarrArray | None = None
    form: Form | None = None


def _check_sources(leaves: Sequence[Leaf]) -> None:
    """Raise if the metadata of a source have changed or are gone, since its chunks may have changed too."""
    for leaf in leaves:
        array = leaf.array
        if array is not None and array.opens is None and current_signature(array) != array.signature:
            raise StaleError(
                f"{array.store}: array {array.path!r} was written, or removed, since it was opened; run again"
            )


@dataclass(eq=False)
class CopyJob:
    """The writing of all chunks of one array."""

    array: LazyArray
    made: ZarrArray
    document: Mapping[str, Any]
    form: Form | None
    leaves: Sequence[Leaf]
    chunks: int = 0
    copied: int = 0
    stored: int = 0
    _fills: dict[Any, bytes] = field(default_factory=dict)
    _known: dict[Any, tuple[Int64, Int64]] = field(default_factory=dict)

    @cached_property
    def _here(self) -> list[Int64]:
        """The edges of the stored objects of the new array."""
        return [_edges(axis) for axis in self.made.objects.axes]

    def run(self, keys: Keys, workers: int) -> None:
        """Write the chunks, using a few threads."""
        objects = self.made.objects
        largest = math.prod(
            (a.chunk if isinstance(a, Regular) else int(np.diff(a).max(initial=0))) for a in objects.axes
        )
        if largest * max(self.made.dtype.itemsize, 1) > limits.MAX_CHUNK:
            raise LimitError(f"{self.array!r} has chunks of {largest:,} elements, which are too large to be written")
        prefix = f"{self.made.path}/"
        with closing(run_threads(lambda task: task(), self._tasks(keys, prefix), workers, "write")) as results:
            for chunks, copied, stored in results:
                self.chunks += chunks
                self.copied += copied
                self.stored += stored
        _check_sources(self.leaves)

    def report(self, path: str, *, referenced: int, notes: Sequence[str] = ()) -> StoreReport:
        """Return a report of what was written."""
        unequal = () if is_regular(self.made.objects) else (rectilinear_note(self.made.path),)
        return StoreReport(
            target=path,
            variables=(self.made.path,),
            chunks=self.chunks,
            copied=self.copied - referenced,
            referenced=referenced,
            stored=self.stored,
            notes=(*notes, *unequal),
        )

    def _tasks(self, keys: Keys, prefix: str) -> Iterator[_Copies | _Encoded]:
        """Yield the tasks, each of which writes some chunks."""
        cells = self.made.objects.matrix_shape
        if math.prod(cells) > limits.MAX_PARTITIONS:
            raise LimitError(f"{self.array!r} has {math.prod(cells):,} chunks, more than {limits.MAX_PARTITIONS:,}")
        done = np.zeros(cells, bool)
        for leaf in self.leaves:
            matched = self._matched(leaf)
            if matched is None:
                continue
            rows, own, whole = matched
            done[np.ix_(*rows)] = True
            for some in itertools.batched(self._cells(leaf, rows, own, whole), _AT_ONCE):
                yield _Copies(self, keys, prefix, leaf, rows, own, whole, some)
        for index in zip(*np.nonzero(~done), strict=True) if cells else [()] * (not done):
            yield _Encoded(self, keys, prefix, tuple(map(int, index)))

    def _cells(self, leaf: Leaf, rows: Sequence[Int64], own: Sequence[Int64], whole: bool) -> Iterable[tuple[int, ...]]:
        """Return the matched cells to copy: if there are many and few are stored, only those that are."""
        every = itertools.product(*map(range, map(len, rows)))
        count = math.prod(map(len, rows))
        if leaf.array is None or not whole or count < _MANY or not _same_fill(leaf.array, self.made):
            return every
        stored = stored_few(leaf.array, count // _SPARSE)
        if stored is None:
            return every
        places = [np.minimum(o.searchsorted(n), len(o) - 1) for o, n in zip(own, stored.T, strict=True)]
        held = np.all([o[p] == n for o, p, n in zip(own, places, stored.T, strict=True)], axis=0)
        return zip(*(p[held].tolist() for p in places), strict=True)

    def _matched(self, leaf: Leaf) -> tuple[list[Int64], list[Int64], bool] | None:
        """Return, per dimension, cells of the new array that chunks of a source fill exactly, and these chunks."""
        # Also return whether these are whole objects rather than parts of shards. Return `None` if there are none.
        if leaf.array is None or leaf.form is None or self.form is None or leaf.form.key != self.form.key:
            return None
        if leaf.reader.dtype != self.made.dtype or 0 in self.made.shape:
            return None
        whole = leaf.form.shards is None
        if self.form.shards is not None:
            # Chunks missing from a shard would get the fill value of the new array.
            if leaf.form.shard_key != self.form.shard_key or not _same_fill(leaf.array, self.made):
                return None
            whole = True
        grid = leaf.array.objects if whole else leaf.array.grid
        rows, own = [], []
        ends = [o + n for o, n in zip(leaf.origin, leaf.reader.shape, strict=True)]
        for d, (other, origin, end) in enumerate(zip(grid.axes, leaf.origin, ends, strict=True)):
            key = (d, other, origin, end) if isinstance(other, Regular) else None
            found = None if key is None else self._known.get(key)
            if found is None:
                found = _fitting(self._here[d], self.made.shape[d], other, origin, end)
                if key is not None and not origin:  # the same for all parts, except along the axis of joining
                    self._known[key] = found
            rows.append(found[0])
            own.append(found[1])
        return (rows, own, whole) if all(map(len, rows)) else None

    def filled(self, shape: tuple[int, ...], value: Any) -> bytes:
        """Return the encoded bytes of a chunk filled with one value."""
        key = shape, np.asarray(value).tobytes()
        if key not in self._fills:
            self._fills[key] = self.encoded(np.full(shape, value, self.made.dtype), shape)
        return self._fills[key]

    def encoded(self, values: npt.NDArray[Any], shape: tuple[int, ...]) -> bytes:
        """Return the encoded bytes of an object (a chunk or a shard), filled beyond the end of the array."""
        made = self.made
        encode, whole = encoder(made).encode, padded(values, shape, made.fill_value)
        if made.objects is made.grid:
            return encode(whole)
        inner = [a.chunk if isinstance(a, Regular) else 1 for a in made.grid.axes]
        starts = itertools.product(*(range(0, n, m) for n, m in zip(shape, inner, strict=True)))
        boxes = (tuple(slice(a, a + m) for a, m in zip(start, inner, strict=True)) for start in starts)
        found = shard_bytes(made, [encode(whole[box]) for box in boxes])
        return b"" if found is None else found


@dataclass(frozen=True, eq=False)
class _Copies:
    """Some chunks of a source that are copied unchanged."""

    job: CopyJob
    keys: Keys
    prefix: str
    leaf: Leaf
    rows: Sequence[Int64]
    own: Sequence[Int64]
    whole: bool
    cells: Sequence[tuple[int, ...]]

    def __call__(self) -> tuple[int, int, int]:
        """Copy them; return the number of stored chunks, the number of copied ones, and their bytes."""
        array, made = self.leaf.array, self.job.made
        if array is None:
            raise TypeError("chunks are copied of stored arrays")
        chunks = copied = stored = 0
        same = _same_fill(array, made)
        for cell in self.cells:
            index = tuple(int(r[k]) for r, k in zip(self.rows, cell, strict=True))
            source = tuple(int(r[k]) for r, k in zip(self.own, cell, strict=True))
            key = f"{self.prefix}{made.key(index)}"
            if self.whole:
                path = f"{array.folder}/{array.key(source)}"
                size = self.keys.copy(key, Stored(array.store, path, array.allow, array.opens))
            else:
                data = stored_chunk(array, source)
                size = None if data is None else self.keys.put(key, data)
            if size is not None:
                copied += 1
            elif same:
                continue
            else:
                size = self.keys.put(key, self.job.filled(made.objects.whole(index), array.fill_value))
            chunks += 1
            stored += size
        return chunks, copied, stored


@dataclass(frozen=True, eq=False)
class _Encoded:
    """One chunk to be read and encoded."""

    job: CopyJob
    keys: Keys
    prefix: str
    index: tuple[int, ...]

    def __call__(self) -> tuple[int, int, int]:
        """Write it; return the number of stored chunks, the number of copied ones (0), and the bytes."""
        made = self.job.made
        box = [slice(a, b) for a, b in made.objects.extent(self.index)]
        values = self.job.array.reader.read(box)
        if values.dtype.kind == "O" and not all(isinstance(v, str) for v in values.flat):
            raise UnsupportedError(
                f"{self.job.array!r} holds objects other than strings, such as dates, which cannot be written"
            )
        data = self.job.encoded(values, made.objects.whole(self.index))
        return 1, 0, self.keys.put(f"{self.prefix}{made.key(self.index)}", data)


def _same_fill(array: ZarrArray, made: ZarrArray) -> bool:
    """Return whether chunks that are not stored have the same value in both arrays."""
    one, other = (np.asarray(a.fill_value, a.dtype) for a in (array, made))
    return one.tobytes() == other.tobytes()


def _fitting(here: Int64, size: int, axis: Regular | Int64, origin: int, end: int) -> tuple[Int64, Int64]:
    """Return the cells of the new array that are exactly filled by chunks of a part along an axis, and these chunks."""
    there = _edges(axis) + origin
    k = np.minimum(here.searchsorted(there[:-1]), len(here) - 2)
    fits = (here[k] == there[:-1]) & (here[k + 1] == there[1:])
    if end < size:
        # Chunks that reach beyond the end of a part would overlap the next one.
        fits &= there[1:] <= end
    return k[fits], fits.nonzero()[0]


def _edges(axis: Regular | Int64) -> Int64:
    return axis.expand() if isinstance(axis, Regular) else axis
