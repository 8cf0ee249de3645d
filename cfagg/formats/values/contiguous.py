"""Reading values stored in one block of bytes, or one block per record, with positioned reads and no lock."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from cfagg.formats.values.storage import Contiguous
from cfagg.storage.files import Context, Handle
from cfagg.storage.gate import Checked

__all__ = ["gather", "read", "scan"]

#: Cost of a request in bytes: a longer gap is skipped, a shorter one read and discarded.
_REQUEST = 2**14

#: Bytes of the largest array that is read whole without considering how to split it.
_SMALL = 2**20

#: Bytes of the parts in which large arrays are read: they fit into the caches of a processor.
_PART = 2**20

#: Longest single request, if there is a choice.
_LONGEST = 2**26


def read(
    checked: Checked, storage: Contiguous, shape: Sequence[int], slices: Sequence[slice], context: Context
) -> npt.NDArray[Any]:
    """Read a hyperslab in native byte order: one slice per dimension, 0 <= start <= stop <= size and step > 0."""
    handle = checked.handle
    return gather(
        storage, shape, slices, lambda count, at: handle.exactly(count, at, context), partial(_check, handle, context)
    )


def scan(
    checked: Checked, storage: Contiguous, shape: Sequence[int], slices: Sequence[slice], context: Context
) -> Iterator[tuple[tuple[slice, ...], npt.NDArray[Any]]] | None:
    """Return the parts of a hyperslab with their places, each overwritten by the next, in the file's byte order."""
    # `None` if it is small, or is not one run of bytes.
    dtype, counts = storage.encoding.dtype, [len(range(s.start, s.stop, s.step)) for s in slices]
    size = math.prod(counts) * dtype.itemsize
    if size < 2 * _PART or storage.offset < 0:
        return None
    strides = _strides(storage, shape)
    # The bytes from the first element to the last.
    whole = dtype.itemsize + sum((n - 1) * s.step * t for n, s, t in zip(counts, slices, strides, strict=True))
    if whole != size:
        return None  # there are gaps
    first = storage.offset + sum(s.start * t for s, t in zip(slices, strides, strict=True))
    _check(checked.handle, context, first + size)
    return _parts(checked, dtype, counts, first, context)


def _parts(
    checked: Checked, dtype: np.dtype[Any], counts: Sequence[int], first: int, context: Context
) -> Iterator[tuple[tuple[slice, ...], npt.NDArray[Any]]]:
    """Yield parts of one run of bytes, divided along the first axis whose elements fit into a part."""
    rows = [math.prod(counts[d + 1 :]) * dtype.itemsize for d in range(len(counts))]
    axis = next(d for d, size in enumerate(rows) if size <= _PART)
    most = _PART // rows[axis]
    memory = np.empty(most * rows[axis], np.uint8)
    inner = [slice(0, n) for n in counts[axis + 1 :]]
    at = first
    for outer in itertools.product(*map(range, counts[:axis])):
        above = [slice(i, i + 1) for i in outer]
        for start in range(0, counts[axis], most):
            stop = min(start + most, counts[axis])
            part = memory[: (stop - start) * rows[axis]]
            checked.handle.fill(part, at, context)
            at += part.nbytes
            shape = [1] * axis + [stop - start, *counts[axis + 1 :]]
            yield (*above, slice(start, stop), *inner), part.view(dtype).reshape(shape)


def _check(handle: Handle, context: Context, end: int) -> None:
    """Raise an error if values reach beyond the end of a file."""
    if end > handle.key.size:
        raise context.damage(
            f"{handle.key.path} is truncated: it has {handle.key.size} bytes, but values reach to byte {end}; restore "
            "the file"
        )


def gather(
    storage: Contiguous,
    shape: Sequence[int],
    slices: Sequence[slice],
    take: Callable[[int, int], Any],
    check: Callable[[int], None] = lambda _: None,
) -> npt.NDArray[Any]:
    """Return a hyperslab; `check` is called with its end in bytes, `take` reads a number of bytes at a position."""
    whole = _whole(storage, shape, slices)
    if whole is not None:
        check(storage.offset + whole)
        dtype = storage.encoding.dtype
        # These stay in memory for thousands of files, so they are copies with a shared type.
        native = np.dtype(dtype.type) if dtype.kind in "iuf" and dtype.metadata is None else dtype.newbyteorder("=")
        return np.frombuffer(take(whole, storage.offset), dtype).reshape(shape).astype(native)
    picked = [range(s.start, s.stop, s.step) for s in slices]
    counts = [len(p) for p in picked]
    dtype = storage.encoding.dtype
    block = np.empty(counts, dtype.newbyteorder("="))
    if block.size == 0:
        return block
    if storage.offset < 0:
        block[...] = storage.encoding.fill
        return block
    strides = _strides(storage, shape)
    first = storage.offset + sum(p[0] * s for p, s in zip(picked, strides, strict=True))
    # Bytes from the first to the end of the last selected element, along the axes from k on.
    spans = [dtype.itemsize]
    for p, s in zip(reversed(picked), reversed(strides), strict=True):
        spans.insert(0, spans[0] + (p[-1] - p[0]) * s)
    outer = _outer(counts, spans)
    span = spans[outer]
    inner = [p.step * s for p, s in zip(picked[outer:], strides[outer:], strict=True)]
    check(first + spans[0])
    for place in itertools.product(*(range(n) for n in counts[:outer])):
        at = first + sum(i * p.step * s for i, p, s in zip(place, picked, strides, strict=False))
        block[place] = np.ndarray(counts[outer:], dtype, take(span, at), strides=inner)
    return block


def _whole(storage: Contiguous, shape: Sequence[int], slices: Sequence[slice]) -> int | None:
    """Return the bytes of all values if all are selected, contiguous and not many; else `None`."""
    size = storage.encoding.dtype.itemsize
    for n, s in zip(shape, slices, strict=True):
        if s.start != 0 or s.stop != n or s.step != 1:
            return None
        size *= n
    one_block = not storage.record or (len(shape) > 0 and shape[0] == 1)
    return size if one_block and storage.offset >= 0 and 0 < size <= _SMALL else None


def _strides(storage: Contiguous, shape: Sequence[int]) -> list[int]:
    """Return the bytes from one index to the next along every dimension."""
    strides = [storage.encoding.dtype.itemsize]
    for n in reversed(shape[1:]):
        strides.insert(0, strides[0] * n)
    strides = strides[: len(shape)]
    if storage.record and strides:
        strides[0] = storage.record
    return strides


def _outer(counts: Sequence[int], spans: Sequence[int]) -> int:
    """Return the number of leading axes to iterate with a request per index, minimising the total cost."""
    best, least = len(counts), None
    requests = 1
    for k in range(len(counts) + 1):
        cost = requests * (spans[k] + _REQUEST)
        if (spans[k] <= _LONGEST or k == len(counts)) and (least is None or cost < least):
            best, least = k, cost
        if k < len(counts):
            requests *= counts[k]
    return best
