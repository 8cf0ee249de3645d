"""Search in pages of packed entries, compiled; the pages are described in `cfagg.kernels.lookup`."""

from __future__ import annotations

import numpy as np

from cfagg.kernels.jit import jit

__all__ = ["row_in_page", "rows_in_pages"]

_HEAD, _PART = 9, 512


@jit
def rows_in_pages(words, starts, bounds, wanted, out):
    """Find the first rows that are not before epochs, with the arguments of `cfagg.kernels.lookup.rows_in_pages`."""
    for k in range(len(starts)):
        _search(words, starts[k], wanted, bounds[k], bounds[k + 1], out)


@jit
def row_in_page(words, epoch):
    """Return the first row that is not before an epoch, in one page."""
    wanted = np.empty(1, np.int64)
    out = np.empty(1, np.int64)
    wanted[0] = epoch
    _search(words, 0, wanted, 0, 1, out)
    return out[0]


@jit
def _search(words, at, wanted, begin, end, out):
    """Go through the entries of a page once, for all wanted epochs."""
    epoch, row, count, step, length = words[at + 1], words[at + 2], words[at + 3], words[at + 4], words[at + 5]
    kinds, last, after = words[at + 6], words[at + 7], words[at + 8]
    j = begin
    while j < end and wanted[j] <= epoch:
        out[j] = row
        j += 1
    stop = end
    while stop > j and wanted[stop - 1] > last:
        stop -= 1
        out[stop] = after
    if j == stop:
        return
    if kinds == 0:
        for i in range(j, stop):
            # Rounded up: the first entry that is not before.
            out[i] = row + (wanted[i] - epoch + step - 1) // step * length
        return
    wide_step, wide_length = kinds & 255, kinds >> 8 & 255
    more_steps, more_lengths = kinds >> 16 & 65535, kinds >> 32 & 65535
    marks = (count - 1) // _PART
    mark = at + _HEAD
    steps = mark + 2 * marks
    lengths = steps + wide_step * ((count + 62) // 64)
    place = lengths + wide_length * ((count + 63) // 64) + 1
    place_length = place + (more_steps + 3) // 4
    value = place_length + (more_lengths + 3) // 4
    value_length = value + more_steps
    # Positions of exceptions ascend, so only the next one is needed.
    i, part, e, f = 0, 0, 0, 0
    next_step = _place(words, place, 0, more_steps)
    next_length = _place(words, place_length, 0, more_lengths)
    while j < stop:
        ahead = part
        while ahead < marks and words[mark + ahead] < wanted[j]:
            ahead += 1
        if ahead > part:
            part = ahead
            i, epoch, row = part * _PART, words[mark + part - 1], words[mark + marks + part - 1]
            while next_step >= 0 and next_step < i:
                e += 1
                next_step = _place(words, place, e, more_steps)
            while next_length >= 0 and next_length < i:
                f += 1
                next_length = _place(words, place_length, f, more_lengths)
        while epoch < wanted[j] and i < count - 1:
            if i == next_length:
                row += length + words[value_length + f]
                f += 1
                next_length = _place(words, place_length, f, more_lengths)
            else:
                row += length + _bits(words, lengths, i, wide_length)
            if i == next_step:
                epoch += step + words[value + e]
                e += 1
                next_step = _place(words, place, e, more_steps)
            else:
                epoch += step + _bits(words, steps, i, wide_step)
            i += 1
        out[j] = row if epoch >= wanted[j] else after
        j += 1


@jit
def _bits(words, at, i, width):
    """Return value `i` among values of equal width."""
    if width == 0:
        return np.int64(0)
    bit = i * width
    word, shift = at + (bit >> 6), np.uint64(bit & 63)
    value = np.uint64(words[word]) >> shift
    # A value that ends with its word has no bits in the next one, which exists nevertheless.
    value |= (np.uint64(words[word + 1]) << (np.uint64(63) - shift)) << np.uint64(1)
    if width < 64:
        value &= (np.uint64(1) << np.uint64(width)) - np.uint64(1)
    return np.int64(value)


@jit
def _place(words, at, k, count):
    """Return the position of exception `k`, or -1 after the last."""
    if k >= count:
        return np.int64(-1)
    return words[at + (k >> 2)] >> ((k & 3) << 4) & 65535
