"""Rows by date: entries of sorted rows, and pages of packed entries.

An entry is an epoch, the first row that has it, and the number of rows that do.  A page contains consecutive entries as
64-bit little-endian words: a head of nine (`HEAD`), then the steps between epochs and the lengths, each minus the
smallest of them, in as few bits as all but a few of them need.  Those few, the exceptions, are listed with their
positions.  If all steps are equal, and all lengths, the page is only a head.

========  ==========================================================================================
word      content
========  ==========================================================================================
0         checksum, which is not verified here
1, 2, 3   first epoch, first row, number of entries
4, 5      smallest step between epochs, smallest length
6         from the lowest bits on: 8 bits the width of a step, 8 that of a length, 16 the number of
          exceptions among steps, 16 that among lengths
7, 8      last epoch, row after the last
9, ...    epochs, then rows, of entries 512, 1024, ...; steps, then lengths, each in groups of 64
          values, which take as many words as a value has bits; an empty word; places of exceptions
          among steps and among lengths, 16 bits each and each to a full word; exceptions among
          steps, and among lengths
========  ==========================================================================================

Everything here is plain NumPy, so that no compiler has to be loaded; `cfagg.kernels.lookup_compiled` has the same
search for large numbers of epochs.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = [
    "HEAD", "PART", "entries_of_rows", "epochs_of_rows", "pack_page", "page_words", "row_in_page", "rows_in_pages",
    "unpack_page",
]  # fmt: skip

Int64 = npt.NDArray[np.int64]

#: Words of a page's head.
HEAD = 9

#: Most entries of a page that is more than a head, since positions of exceptions have 16 bits.
MAX_PACKED = 2**16

#: Interval of the entries whose epoch and row are stored, so that a search need not read all earlier entries.
PART = 512

#: Values of more bits than this are stored whole; narrower ones can be read with one word from any byte.
_MAX_WIDTH = 56


def epochs_of_rows(rows: npt.NDArray[np.float32]) -> Int64:
    """Return seconds since 1970 of rows of observations.

    Parameters
    ----------
    rows : float32 array, shape (n, 2 or more)
        Days since 1970 and seconds of the day, then anything.

    Returns
    -------
    int64 array, shape (n,)

    Examples
    --------
    >>> epochs_of_rows(np.array([[1, 30], [-1, 0]], "f4"))
    array([ 86430, -86400])
    """
    epoch = rows[:, 0].astype(np.int64)
    epoch *= 86400
    epoch += rows[:, 1].astype(np.int64)
    return epoch


def entries_of_rows(rows: npt.NDArray[np.float32], start: int = 0) -> tuple[Int64, Int64, Int64]:
    """Return the entries of consecutive sorted rows.

    Parameters
    ----------
    rows : float32 array, shape (n, 2 or more)
        Days since 1970 and seconds of the day, then anything; sorted by them.
    start : int
        Index of the first of these rows.

    Returns
    -------
    epoch, start, length : int64 arrays
        One entry for each run of rows of the same date.

    Examples
    --------
    >>> rows = np.array([[0, 5, 1], [0, 5, 2], [0, 7, 1]], "f4")
    >>> [column.tolist() for column in entries_of_rows(rows, 100)]
    [[5, 7], [100, 102], [2, 1]]
    """
    if not len(rows):
        return np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, np.int64)
    epoch = epochs_of_rows(rows)
    new = np.flatnonzero(epoch[1:] != epoch[:-1]) + 1
    first = np.concatenate([np.zeros(1, np.int64), new])
    length = np.diff(first, append=len(rows))
    return epoch[first], first + start, length


def pack_page(epoch: Int64, start: Int64, length: Int64) -> Int64:
    """Return the page of some entries.

    Parameters
    ----------
    epoch, start, length : int64 arrays, shape (n,)
        Consecutive entries, 1 to `MAX_PACKED` of them; epochs do not decrease, each starts where the last ends.

    Returns
    -------
    int64 array
        Words; the checksum is 0.

    Examples
    --------
    >>> pack_page(np.array([60, 120, 180]), np.array([0, 2, 4]), np.array([2, 2, 2])).tolist()
    [0, 60, 0, 3, 60, 2, 0, 180, 6]
    """
    n = len(epoch)
    step, length = np.diff(epoch), np.asarray(length, np.int64)
    low = (int(step.min()) if n > 1 else 0, int(length.min()))
    columns = [_pack((values - least).view(np.uint64)) for values, least in zip((step, length), low, strict=True)]
    if not any(column.used for column in columns):
        body: list[Int64] = []
    else:
        body = [epoch[PART::PART], start[PART::PART]]
        body += [c.words for c in columns] + [np.zeros(1, np.int64)]
        body += [_to_words(c.places) for c in columns] + [c.exceptions for c in columns]
    kinds = sum(
        column.width << shift | len(column.exceptions) << more
        for column, shift, more in zip(columns, (0, 8), (16, 32), strict=True)
    )
    head = [0, int(epoch[0]), int(start[0]), n, *low, kinds, int(epoch[-1]), int(start[-1] + length[-1])]
    return np.concatenate([np.array(head, np.int64), *body])


class _Packed:
    """A column of a page: packed values, and the positions and values of exceptions."""

    __slots__ = ("exceptions", "places", "width", "words")

    def __init__(self, width: int, words: Int64, places: npt.NDArray[np.uint16], exceptions: Int64) -> None:
        self.width, self.words, self.places, self.exceptions = width, words, places, exceptions

    @property
    def used(self) -> bool:
        """Whether any value is not zero."""
        return self.width > 0 or len(self.exceptions) > 0


def _pack(values: npt.NDArray[np.uint64]) -> _Packed:
    """Pack 64-bit values in the width that takes the least space."""
    # A value that double precision rounds up gets one bit too many, which only costs space.
    bits = np.frexp(values.astype(np.float64))[1]
    counts = np.bincount(bits, minlength=65)[:65]
    groups = -(-len(values) // 64)
    beyond = len(values) - np.cumsum(counts)
    cost = np.arange(65) * groups * 64 + beyond * (64 + 16)
    cost[_MAX_WIDTH + 1 : 64] = cost.max() + 1
    # The least value is zero and takes no bits, so the number of exceptions is below `MAX_PACKED` and fits in 16 bits.
    width = int(np.argmin(cost))
    places = np.flatnonzero(bits > width).astype(np.uint16)
    padded = np.zeros(groups * 64, "<u8")
    padded[: len(values)] = values
    padded[places] = 0
    if width == 64:
        words = padded.view(np.int64)
    elif width == 0:
        words = np.empty(0, np.int64)
    else:
        each = np.unpackbits(padded.view(np.uint8).reshape(-1, 8), axis=1, count=width, bitorder="little")
        words = np.packbits(each.reshape(-1), bitorder="little").view(np.int64)
    return _Packed(width, words, places, values[places].view(np.int64))


def _to_words(places: npt.NDArray[np.uint16]) -> Int64:
    """Return positions as whole words."""
    padded = np.zeros(-(-len(places) // 4) * 4, "<u2")
    padded[: len(places)] = places
    return padded.view(np.int64)


def page_words(head: Sequence[Any]) -> Any:
    """Return the number of words of a page with this head, or 0 if the head is invalid.

    Parameters
    ----------
    head : sequence of int, or of int64 arrays
        The first `HEAD` words of a page; for many pages, columns.

    Returns
    -------
    int, or int64 array

    Examples
    --------
    >>> page_words([0, 60, 0, 3, 60, 2, 0, 180, 6]), page_words([0, 60, 0, -1, 60, 2, 0, 180, 6])
    (9, 0)
    """
    _, first, row, count, step, length, kinds, last, end = head[:HEAD]
    wide_step, wide_length, more_steps, more_lengths = kinds & 255, kinds >> 8 & 255, kinds >> 16 & 65535, kinds >> 32
    plain, packed = kinds == 0, kinds != 0
    right = (count >= 1) & (step >= 0) & (length >= 1) & (row >= 0) & (end > row) & (last >= first)
    right = right & ((wide_step <= _MAX_WIDTH) | (wide_step == 64))
    right = right & ((wide_length <= _MAX_WIDTH) | (wide_length == 64))
    right = right & (plain | ((count <= MAX_PACKED) & (more_steps < count) & (more_lengths <= count)))
    # Products from invalid heads may wrap around, which does no harm.
    right = right & (packed | ((first + (count - 1) * step == last) & (row + count * length == end)))
    words = wide_step * ((count + 62) // 64) + wide_length * ((count + 63) // 64) + 1 + (count - 1) // PART * 2
    words = words + (more_steps + 3) // 4 + (more_lengths + 3) // 4 + more_steps + more_lengths
    return (words * packed + HEAD) * (right & (more_lengths >= 0) & (more_lengths < MAX_PACKED))


def unpack_page(words: Int64, part: int | None = None) -> tuple[Int64, Int64]:
    """Return the entries of a page that is more than a head.

    Parameters
    ----------
    words : int64 array
        A page of the number of words that `page_words` returns.
    part : int, optional
        Return only the entries from index ``PART * part`` on, at most `PART` of them.

    Returns
    -------
    epoch : int64 array, shape (n,)
    start : int64 array, shape (n + 1,)
        Starts of the entries, and the end of the last.

    Examples
    --------
    >>> page = pack_page(np.array([60, 120, 190]), np.array([0, 2, 4]), np.array([2, 2, 5]))
    >>> [column.tolist() for column in unpack_page(page)]
    [[60, 120, 190], [0, 2, 4, 9]]
    """
    first, row, count, step, length, kinds = words[1:7].tolist()
    marks = (count - 1) // PART
    low, n = 0, count
    if part is not None:
        low = PART * part
        n = min(PART, count - low)
        if part:
            first, row = int(words[HEAD + part - 1]), int(words[HEAD + marks + part - 1])
    wide_step, wide_length = kinds & 255, kinds >> 8 & 255
    more_steps, more_lengths = kinds >> 16 & 65535, kinds >> 32 & 65535
    steps = HEAD + 2 * marks
    lengths = steps + wide_step * ((count + 62) // 64)
    place = lengths + wide_length * ((count + 63) // 64) + 1
    place_length = place + (more_steps + 3) // 4
    value = place_length + (more_lengths + 3) // 4
    epoch, start = np.empty(n, np.int64), np.empty(n + 1, np.int64)
    for out, at, width, least, more, where, what in (
        (epoch, steps, wide_step, step, more_steps, place, value),
        (start, lengths, wide_length, length, more_lengths, place_length, value + more_steps),
    ):
        values = out[1:].view(np.uint64)
        _unpack(words[at + width * (low // 64) :], width, values)
        if more:
            places = words[where : where + (more + 3) // 4].view("<u2")[:more]
            inside = (places >= low) & (places < low + len(values))
            values[places[inside] - np.uint16(low)] = words[what : what + more].view(np.uint64)[inside]
        out[1:] += least
    epoch[0], start[0] = first, row
    np.add.accumulate(epoch, out=epoch)
    np.add.accumulate(start, out=start)
    return epoch, start


def row_in_page(words: Int64, epoch: int) -> int:
    """Return the first row that is not before an epoch, in a page that is more than a head.

    Examples
    --------
    >>> row_in_page(pack_page(np.array([60, 120, 190]), np.array([0, 2, 4]), np.array([2, 2, 5])), 61)
    2
    """
    marks = words[HEAD : HEAD + (int(words[3]) - 1) // PART]
    epochs, starts = unpack_page(words, int(marks.searchsorted(epoch)))
    return int(starts[epochs.searchsorted(epoch)])


def _unpack(words: Int64, width: int, out: npt.NDArray[np.uint64]) -> None:
    """Unpack values; an empty word follows them at some distance."""
    if width == 0:
        out[:] = 0
        return
    size = len(out)
    if width == 64:
        out[:] = words[:size].view(np.uint64)
        return
    # Each value is within one of the overlapping words that begin at every byte.
    byte, bit = _bits_of(width)
    raw = words.view(np.uint8)
    blocks, rest = divmod(size, PART)
    row = PART // 8 * width
    if blocks:
        table: npt.NDArray[np.uint64] = np.ndarray((blocks, row), "<u8", raw, 0, (row, 1))
        np.right_shift(table[:, byte], bit, out=out[: blocks * PART].reshape(blocks, PART))
    if rest:
        length = int(byte[rest - 1]) + 1
        last: npt.NDArray[np.uint64] = np.ndarray((length,), "<u8", raw, blocks * row, (1,))
        np.right_shift(last[byte[:rest]], bit[:rest], out=out[blocks * PART :])
    out &= np.uint64((1 << width) - 1)


@cache
def _bits_of(width: int) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.uint64]]:
    """Return the byte, and the bit of it, at which each of `PART` values of a width begins."""
    first = np.arange(PART) * width
    return first // 8, (first % 8).astype(np.uint64)


def rows_in_pages(words: Int64, starts: Int64, bounds: Int64, wanted: Int64, out: Int64) -> None:
    """Find the first rows that are not before epochs, in pages that are known to contain them.

    Parameters
    ----------
    words : int64 array
        Pages, each of the number of words that `page_words` returns.
    starts : int64 array, shape (pages,)
        Start of each page among the words.
    bounds : int64 array, shape (pages + 1,)
        Page `k` is searched for ``wanted[bounds[k]:bounds[k + 1]]``.
    wanted : int64 array, shape (m,)
        Ascending epochs.
    out : int64 array, shape (m,)
        The rows; the row after the page's last if all its entries are before an epoch.

    Examples
    --------
    >>> page = pack_page(np.array([60, 120, 190]), np.array([0, 2, 4]), np.array([2, 2, 5]))
    >>> out = np.empty(3, np.int64)
    >>> rows_in_pages(page, np.array([0]), np.array([0, 3]), np.array([60, 61, 999]), out)
    >>> out.tolist()
    [0, 2, 9]
    """
    for k, at in enumerate(starts.tolist()):
        part = slice(int(bounds[k]), int(bounds[k + 1]))
        head = words[at : at + HEAD].tolist()
        if head[6]:
            epoch, start = unpack_page(words[at:])
            out[part] = start[np.searchsorted(epoch, wanted[part])]
        else:
            ask = np.clip(wanted[part], head[1], head[7])
            ranks = -((head[1] - ask) // head[4]) if head[4] else np.zeros(len(ask), np.int64)
            out[part] = np.where(wanted[part] > head[7], head[8], head[2] + ranks * head[5])
