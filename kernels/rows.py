"""Rows of observations in order: comparing, sorting, merging, and dropping duplicates.

Rows are float32 and are compared column by column.  NaN comes after every number and equals any NaN; -0.0 equals 0.0.
The first two columns are days since 1970 and the second of the day, integers without NaN.

Every function raises `ValueError` for arrays whose shapes do not fit and for numbers of rows that do not exist.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from cfagg.kernels.jit import jit

__all__ = ["first_disorder", "lower_bound", "merge_runs", "normalise", "sort_order", "take_unique"]

Rows = npt.NDArray[np.float32]
Int64 = npt.NDArray[np.int64]

#: Groups of equal keys up to this size are sorted by insertion.
_FEW = 12


@jit
def normalise(rows: Rows) -> None:
    """Turn -0.0 into 0.0, and every NaN into 0x7fc00000, in place, so that equal rows have equal bits."""
    nan = np.float32(np.nan)
    for i in range(rows.shape[0]):
        for j in range(rows.shape[1]):
            value = rows[i, j]
            if value != value:  # noqa: PLR0124  NaN
                rows[i, j] = nan
            elif value == 0:
                rows[i, j] = 0


@jit
def _compare(a: Rows, i: int, b: Rows, j: int) -> int:
    """Return -1, 0 or 1 if row i of `a` is before, equal to or after row j of `b`."""
    for c in range(a.shape[1]):
        x, y = a[i, c], b[j, c]
        if x < y:
            return -1
        if x > y:
            return 1
        if x != y:
            # At least one is NaN.
            if x == x:  # noqa: PLR0124
                return -1
            if y == y:  # noqa: PLR0124
                return 1
    return 0


@jit(inline="always")
def _check(fits):
    """Raise an error unless the arguments fit, since no index is checked."""
    if not fits:
        raise ValueError("arrays of rows, their keys, order, bounds and output do not fit together")


@jit
def _are_rows(order: Int64, count: int) -> bool:
    """Return whether all numbers are those of one of `count` rows."""
    good = True
    for i in order:
        good &= 0 <= i < count
    return good


@jit
def first_disorder(rows: Rows) -> int:
    """Return the first row that is not after the previous one, or -1 if rows are sorted and distinct."""
    for i in range(1, rows.shape[0]):
        if _compare(rows, i - 1, rows, i) >= 0:
            return i
    return -1


@jit
def lower_bound(rows: Rows, bound: Rows, after: bool, start: int) -> int:
    """Return how many sorted rows, `start` or more, are before the row ``bound[0]``; `after` counts equal ones, too."""
    _check(bound.shape[0] > 0 and bound.shape[1] == rows.shape[1] and 0 <= start <= rows.shape[0])
    step = 1
    low, high = start, rows.shape[0]
    while low + step <= rows.shape[0]:
        order = _compare(rows, low + step - 1, bound, 0)
        if order < 0 or (after and order == 0):
            low += step
            step *= 2
        else:
            high = low + step - 1
            break
    while low < high:
        middle = (low + high) // 2
        order = _compare(rows, middle, bound, 0)
        if order < 0 or (after and order == 0):
            low = middle + 1
        else:
            high = middle
    return low


@jit
def sort_keys(rows: Rows, keys: Int64) -> None:
    """Fill `keys` with the leading part of the order of rows: the date, and as much of the latitude as fits."""
    n = rows.shape[0]
    _check(rows.shape[1] > 2 and len(keys) == n)
    low = np.int64(2**62)
    high = -low
    for i in range(n):
        epoch = np.int64(rows[i, 0]) * 86400 + np.int64(rows[i, 1])
        keys[i] = epoch
        low = min(low, epoch)
        high = max(high, epoch)
    span = np.uint64(high - low) if n else np.uint64(0)
    bits = 0
    while span >> np.uint64(bits):
        bits += 1
    room = 62 - bits
    cut = 32 - room if room < 32 else 0
    words = rows.view(np.uint32)
    for i in range(n):
        word = np.int64(words[i, 2])
        # Bits of a float32 in the order of the values: NaN, canonical and without sign, is last.
        ordered = 0xFFFFFFFF - word if word >> 31 else word + 0x80000000
        keys[i] = ((keys[i] - low) << (32 - cut)) | (ordered >> cut)


@jit
def _sort_group(rows: Rows, order: Int64, scratch: Int64, start: int, stop: int) -> None:
    """Sort a part of `order` by whole rows; stable."""
    n = stop - start
    if n <= _FEW:
        for i in range(start + 1, stop):
            moving = order[i]
            k = i
            while k > start and _compare(rows, order[k - 1], rows, moving) > 0:
                order[k] = order[k - 1]
                k -= 1
            order[k] = moving
        return
    width = 1
    while width < n:
        for left in range(start, stop, 2 * width):
            middle = min(left + width, stop)
            right = min(left + 2 * width, stop)
            i, j = left, middle
            for k in range(left, right):
                if i < middle and (j >= right or _compare(rows, order[i], rows, order[j]) <= 0):
                    scratch[k] = order[i]
                    i += 1
                else:
                    scratch[k] = order[j]
                    j += 1
        for k in range(start, stop):
            order[k] = scratch[k]
        width *= 2


@jit
def sort_order(rows: Rows, keys: Int64, order: Int64) -> None:
    """Complete `order`, the numbers of rows by ascending keys, so that rows are sorted by all columns."""
    n = len(order)
    _check(len(keys) == rows.shape[0] and _are_rows(order, len(keys)))
    scratch = np.empty(n, np.int64)
    start = 0
    while start < n:
        stop = start + 1
        while stop < n and keys[order[stop]] == keys[order[start]]:
            stop += 1
        if stop - start > 1:
            _sort_group(rows, order, scratch, start, stop)
        start = stop


@jit
def take_unique(rows: Rows, order: Int64, out: Rows) -> int:
    """Copy rows to `out` in their sorted order, each distinct one once, and return their number."""
    _check(out.shape[0] >= len(order) and out.shape[1] == rows.shape[1] and _are_rows(order, rows.shape[0]))
    count = 0
    for i in order:
        if count == 0 or _compare(out, count - 1, rows, i) != 0:
            for c in range(rows.shape[1]):
                out[count, c] = rows[i, c]
            count += 1
    return count


@jit
def merge_runs(rows: Rows, bounds: Int64, out: Rows) -> int:
    """Merge sorted runs between `bounds` into `out`, and return the number of distinct rows."""
    _check(len(bounds) > 0 and out.shape[1] == rows.shape[1] and bounds[0] >= 0)
    for k in range(1, len(bounds)):
        _check(bounds[k - 1] <= bounds[k])
    _check(bounds[-1] <= rows.shape[0] and bounds[-1] - bounds[0] <= out.shape[0])
    place = bounds[:-1].copy()
    heap = np.empty(len(place), np.int64)
    size = 0
    for k in range(len(place)):
        if place[k] < bounds[k + 1]:
            heap[size] = k
            size += 1
    for i in range(size // 2 - 1, -1, -1):
        _sift(rows, place, heap, size, i)
    count = 0
    while size:
        k = heap[0]
        i = place[k]
        if count == 0 or _compare(out, count - 1, rows, i) != 0:
            for c in range(rows.shape[1]):
                out[count, c] = rows[i, c]
            count += 1
        place[k] += 1
        if place[k] == bounds[k + 1]:
            size -= 1
            heap[0] = heap[size]
        _sift(rows, place, heap, size, 0)
    return count


@jit
def _sift(rows: Rows, place: Int64, heap: Int64, size: int, i: int) -> None:
    """Sift a run down to its place in the heap of runs, which has the one with the first row on top."""
    while True:
        child = 2 * i + 1
        if child >= size:
            return
        if child + 1 < size and _compare(rows, place[heap[child + 1]], rows, place[heap[child]]) < 0:
            child += 1
        if _compare(rows, place[heap[child]], rows, place[heap[i]]) >= 0:
            return
        heap[i], heap[child] = heap[child], heap[i]
        i = child
