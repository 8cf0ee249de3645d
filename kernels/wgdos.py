"""Unpacking WGDOS, the packing of fields of the Met Office's Unified Model (method 1 of ``LBPACK``)."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from cfagg.kernels.jit import jit

__all__ = ["unpack_wgdos"]

#: Flags of a row, above the bits of a number.
_MISSING, _MINIMUM, _ZERO = 32, 64, 128

#: Exponents of the precision, either way.
_LARGEST = 900


#: The largest numbers of 4 and 8 bytes.
_SINGLE, _DOUBLE = float(np.finfo(np.float32).max), float(np.finfo(np.float64).max)


@jit
def unpack_wgdos(stored: npt.NDArray[np.uint32], out: npt.NDArray[Any], missing: float) -> tuple[int, int]:
    """Unpack the rows of one field.

    Parameters
    ----------
    stored : uint32, shape (n,)
        The words in native byte order, beginning with their number, the exponent of the precision and the shape.
    out : float32 or float64, shape (rows, columns)
        Memory for the values, of the shape given by the third word.
    missing : float
        The value written for missing values.

    Returns
    -------
    lacking : int
        Number of values that rows flag but their words do not contain; they became `missing`.  -1 if a row is invalid,
        or may have values beyond the type of `out`.
    row : int
        The first row that lacks values or is invalid; the number of rows if there is none.

    Notes
    -----
    A row is a word with its least value in IBM floating point (sign, base-16 exponent plus 64, 24-bit fraction), a word
    with flags and the number of words that follow, then maps of one bit a column, back to back and padded to a whole
    word, and the other values as steps above the least one. A bit of the zero map that is 0 means zero; a point that is
    both missing and zero makes a row invalid. Nothing after the words of a row is read as one of its values. Source:
    Met Office, Unified Model documentation paper F3.
    """
    rows, columns = out.shape
    end: Any = stored.size
    lacking: Any = 0
    first: Any = rows
    if end < 3:
        return -1, 0
    exponent: Any = np.int64(stored[1])
    if exponent >= 2**31:
        exponent -= 2**32
    if not -_LARGEST <= exponent <= _LARGEST:
        return -1, 0
    step = math.ldexp(1.0, int(exponent))
    most = _SINGLE if out.itemsize == 4 else _DOUBLE
    at: Any = 3
    for row in range(rows):
        if at + 2 > end:
            return -1, row
        word: Any = np.int64(stored[at])
        base: Any = math.ldexp(float(word & 0xFFFFFF), int(4 * (((word >> 24) & 127) - 64) - 24))
        if word >> 31:
            base = -base
        word = np.int64(stored[at + 1])
        flags, held = word >> 16, word & 0xFFFF
        begin: Any = at + 2
        at = begin + held
        bits: Any = flags & 31
        maps: Any = ((flags >> 5) & 1) + ((flags >> 6) & 1) + ((flags >> 7) & 1)
        following: Any = begin + (maps * columns + 31) // 32
        if flags > 255 or at > end or following > at:
            return -1, row
        if abs(base) + (1 << bits) * step > most:
            return -1, row
        if maps == 0 and bits == 0:
            out[row, :] = base
            continue
        width = np.uint64(bits)
        mask = (np.uint64(1) << width) - np.uint64(1)
        buffer: Any = np.uint64(0)
        ready: Any = np.uint64(0)
        place: Any = np.uint64(following)
        if maps == 0:
            there = min(columns, held * 32 // bits)
            for column in range(there):
                if ready < width:
                    buffer = (buffer << np.uint64(32)) | np.uint64(stored[place])
                    place += np.uint64(1)
                    ready += np.uint64(32)
                ready -= width
                out[row, column] = base + np.int64((buffer >> ready) & mask) * step
            if there < columns:
                out[row, there:] = missing
                lacking += columns - there
                first = min(first, row)
            continue
        left: Any = (at - following) * 32
        for column in range(columns):
            bit: Any = column
            value: Any = base
            plain: Any = bits > 0
            if flags & _MISSING:
                if _bit(stored, begin, bit):
                    value, plain = missing, False
                bit += columns
            if flags & _MINIMUM:
                plain = plain and not _bit(stored, begin, bit)
                bit += columns
            if flags & _ZERO and not _bit(stored, begin, bit):
                if flags & _MISSING and _bit(stored, begin, column):
                    return -1, row
                value, plain = 0.0, False
            if plain:
                left -= bits
                if left < 0:
                    value = missing
                    lacking += 1
                    first = min(first, row)
                else:
                    if ready < width:
                        buffer = (buffer << np.uint64(32)) | np.uint64(stored[place])
                        place += np.uint64(1)
                        ready += np.uint64(32)
                    ready -= width
                    value = base + np.int64((buffer >> ready) & mask) * step
            out[row, column] = value
    return lacking, first


@jit
def _bit(stored: npt.NDArray[np.uint32], begin: int, bit: int) -> bool:
    """Return one bit of the words from `begin` on, counted from the highest."""
    return (stored[begin + (bit >> 5)] >> np.uint32(31 - (bit & 31))) & np.uint32(1) != 0  # type: ignore[no-any-return]
