"""Cutting a sub-array's selection into blocks of bounded size, and reading blocks with a few threads."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from cfagg.arrays.subarray import Fragment, Indices, assemble, push
from cfagg.runtime.budget import processors

__all__ = ["BLOCK_BYTES", "SHARE_BYTES", "Put", "Work", "constant", "copy", "place", "run", "split"]

#: Stored bytes of one block: large enough that a request costs little, small enough that a few of them fit in memory
#: caches together.
BLOCK_BYTES = 2**25

#: Output bytes of a read below which threads are not worth while.
THREAD_BYTES = 2**22

#: Output bytes per partition below which threads would wait for the interpreter lock longer than they decode in
#: parallel.
SHARE_BYTES = 2**19

#: Places along one dimension of the output.
Places = range | npt.NDArray[np.int64]

#: Called with a block in the sub-array's order and a view of its place in the output's order.
Put = Callable[[npt.NDArray[Any], npt.NDArray[Any]], None]

#: One unit of work, which reads and writes its own part of the output.
Work = Callable[[], None]


def copy(block: npt.NDArray[Any], view: npt.NDArray[Any]) -> None:
    """Copy a block to its place unchanged."""
    view[...] = block


def place(out: npt.NDArray[Any], target: Sequence[Any], put: Callable[[npt.NDArray[Any]], Any]) -> None:
    """Call `put` with the view of `out` that `target`, a slice or an array per dimension, selects."""
    _store(out, [_places(t, n) for t, n in zip(target, out.shape, strict=True)], put)


def constant(out: npt.NDArray[Any], target: Sequence[Any], value: Any) -> Work:
    """Return the work of writing one value."""
    return partial(place, out, target, lambda view: view.fill(value))


def run(blocks: Iterator[Work], out_bytes: int, workers: int | None, partitions: int = 1) -> None:
    """Read all blocks, drawn one by one as threads become free; the first error stops the rest and is raised."""
    if workers is None:
        count = min(processors(), 8) if out_bytes >= SHARE_BYTES * partitions else 1
    else:
        count = max(int(workers), 1)
    if count == 1 or out_bytes < THREAD_BYTES:
        for work in blocks:
            work()
        return
    from concurrent.futures import ThreadPoolExecutor

    lock = threading.Lock()
    stop = threading.Event()

    def drain() -> None:
        try:
            while not stop.is_set():
                with lock:
                    work = next(blocks, None)
                if work is None:
                    return
                work()
        finally:
            # Also after the last block, as there are no others.
            stop.set()

    with ThreadPoolExecutor(count, "cfagg") as pool:
        try:
            futures = [pool.submit(drain) for _ in range(count)]
            for future in futures:
                future.result()
        finally:
            stop.set()


def split(
    indices: Sequence[Indices],
    feeds: Sequence[tuple[int, bool]],
    target: Sequence[Any],
    fragment: Fragment,
    out: npt.NDArray[Any],
    put: Put,
) -> Iterator[Work]:
    """Yield the blocks of one sub-array: `indices` of each of its axes go to `target` of the output, by `put`.

    `feeds` gives the output dimension of each axis, -1 for none, and whether it is reversed.
    """
    places = [_places(t, n) for t, n in zip(target, out.shape, strict=True)]
    itemsize = max(fragment.header.dtype.itemsize, 1)
    chunks = fragment.chunks if fragment.chunks and len(fragment.chunks) == len(indices) else (1,) * len(indices)
    todo: list[tuple[list[Indices], list[Places], int]] = [(list(indices), places, 0)]
    while todo:
        wanted, where, axis = todo.pop()
        size = itemsize
        for w, chunk in zip(wanted, chunks, strict=True):
            size *= len(w) if chunk < 2 or isinstance(w, range) else push(w, BLOCK_BYTES, chunk).count
        while axis < len(wanted) and (size > BLOCK_BYTES * 3 // 2) and len(wanted[axis]) == 1:
            axis += 1
        if size <= BLOCK_BYTES * 3 // 2 or axis == len(wanted):
            yield partial(_read, wanted, feeds, where, fragment, chunks, out, put)
            continue
        # Gaps within chunks, which are read too, count as if they were spread evenly.
        cuts = _cuts(wanted[axis], chunks[axis], BLOCK_BYTES * len(wanted[axis]) // size)
        d, flip = feeds[axis]
        n = len(wanted[axis])
        # The last is pushed first, so that blocks are in the order of the file.
        for a, b in reversed(list(itertools.pairwise(cuts))):
            sub, sub_where = list(wanted), list(where)
            sub[axis] = wanted[axis][a:b]
            if d >= 0:
                sub_where[d] = where[d][n - b : n - a] if flip else where[d][a:b]
            todo.append((sub, sub_where, axis + 1))


def _cuts(indices: Indices, chunk: int, most: int) -> list[int]:
    """Return where to cut a list of indices so that no chunk is read twice, if blocks of `most` elements allow that."""
    n = len(indices)
    most = max(most, 1)
    # A long range is only expanded if its chunks matter.
    starts = np.flatnonzero(np.diff(np.asarray(indices, np.int64) // chunk, prepend=-1)) if chunk > 1 else None
    cuts = [0]
    while cuts[-1] < n:
        end = cuts[-1] + most
        if end < n and starts is not None:
            k = int(np.searchsorted(starts, end, "right"))
            below = int(starts[k - 1])
            end = below if below > cuts[-1] else int(starts[k]) if k < len(starts) else n
        cuts.append(min(end, n))
    return cuts


def _read(
    indices: list[Indices],
    feeds: Sequence[tuple[int, bool]],
    places: list[Places],
    fragment: Fragment,
    chunks: Sequence[int],
    out: npt.NDArray[Any],
    put: Put,
) -> None:
    """Read one block and put it in its place."""
    whole = fragment.header.dtype.itemsize
    for w in indices:
        whole *= len(w)
    axes = [push(w, whole // max(len(w), 1), max(n, 1)) for w, n in zip(indices, chunks, strict=True)]
    if fragment.scan is not None and all(len(a.runs) == 1 and a.pick is None for a in axes):
        for within, part in fragment.scan([a.runs[0] for a in axes]):
            _store(out, _within(places, feeds, within), partial(put, part))
        return
    block = assemble(axes, fragment.header.dtype, fragment.read)
    _store(out, places, lambda view: put(block, view))


def _within(places: Sequence[Places], feeds: Sequence[tuple[int, bool]], within: Sequence[slice]) -> list[Places]:
    """Return the places of a part `within` a block, per axis of the sub-array."""
    out = list(places)
    for (d, flip), s in zip(feeds, within, strict=True):
        if d >= 0:
            n = len(places[d])
            out[d] = places[d][n - s.stop : n - s.start] if flip else places[d][s]
    return out


def _places(target: Any, length: int) -> Places:
    """Return a slice as a range."""
    return range(*target.indices(length)) if isinstance(target, slice) else target


def _store(out: npt.NDArray[Any], places: Sequence[Places], put: Callable[[npt.NDArray[Any]], Any]) -> None:
    """Call `put` with a view of the output, or with a block that is then scattered into it."""
    slices = [_slice(p) for p in places if isinstance(p, range)]
    if len(slices) == len(places):
        # The ellipsis gives a view even without dimensions.
        put(out[tuple(slices) + (...,)])  # noqa: RUF005
        return
    block = np.empty([len(p) for p in places], out.dtype)
    put(block)
    out[np.ix_(*(np.asarray(p) for p in places))] = block


def _slice(places: range) -> slice:
    """Return a range as the equivalent slice."""
    return slice(places.start, places.stop if places.stop >= 0 else None, places.step)
