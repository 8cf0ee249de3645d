"""From the stored bytes of one field to its values, by the packing method in LBPACK.

The digits of LBPACK, from the last: the method (0 none, 1 WGDOS, 2 reals of 32 bits, 4 run length), whether points are
omitted (2: those on one side of a land-sea mask), which are stored (1 land, 2 sea), and the number format.
"""

from __future__ import annotations

import warnings
from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt

from cfagg.errors import CfaggWarning
from cfagg.formats.pp.fields import Form

__all__ = ["METHODS", "PackedError", "plain", "run_length", "scatter", "wgdos"]

#: Supported methods.
NONE, WGDOS, SHORT, RUNS = 0, 1, 2, 4
METHODS = {NONE: "none", WGDOS: "WGDOS", SHORT: "32-bit", RUNS: "run length"}


class PackedError(ValueError):
    """Stored bytes that do not contain the values that their header announces."""


def check_size(size: int, dtype: np.dtype[Any], count: int) -> None:
    """Raise `PackedError` if values that are stored one by one need more bytes than there are."""
    if count * dtype.itemsize > size:
        raise PackedError(f"{size:,} bytes of data, expected {count * dtype.itemsize:,} for {count:,} values")


def plain(raw: bytes, dtype: np.dtype[Any], count: int) -> npt.NDArray[Any]:
    """Return values that are stored one by one."""
    check_size(len(raw), dtype, count)
    return np.frombuffer(raw, dtype, count).astype(dtype.newbyteorder("="))


def run_length(raw: bytes, dtype: np.dtype[Any], count: int, missing: float) -> npt.NDArray[Any]:
    """Return values in which runs of missing ones are stored as one, followed by their number.

    >>> raw = np.array([1, -9, 3, 2], ">f4").tobytes()
    >>> run_length(raw, np.dtype(">f4"), 5, -9.0)
    array([ 1., -9., -9., -9.,  2.], dtype=float32)
    """
    words = np.frombuffer(raw, dtype, len(raw) // dtype.itemsize).astype(dtype.newbyteorder("="))
    begins = np.flatnonzero(words == words.dtype.type(missing))
    if (np.diff(begins) == 1).any():
        begins = _apart(begins)
    if len(begins) and begins[-1] + 1 == len(words):
        # Only padding after the last value, to a whole word or sector, may look like a run without a number.
        words, begins = words[:-1], begins[:-1]
    numbers = words[begins + 1]
    with np.errstate(invalid="ignore"):
        wrong = ~((numbers >= 0) & (numbers <= count) & (numbers == np.rint(numbers)))
    repeats = np.ones(len(words), np.int64)
    repeats[begins] = np.where(wrong, count + 1, numbers)
    repeats[begins + 1] = 0
    ends = np.cumsum(repeats)
    used = int(np.searchsorted(ends, count)) + 1 if count else 0
    if used > len(words) or (used and ends[used - 1] != count):
        total = int(ends[-1]) if len(ends) else 0
        raise PackedError(f"runs of missing values that decode to {total:,} values or more, not to {count:,}")
    return np.repeat(words[:used], repeats[:used])


def _apart(begins: npt.NDArray[np.intp]) -> npt.NDArray[np.intp]:
    """Return the starts of runs, without the numbers that happen to equal the missing value."""
    kept: list[int] = []
    for place in begins.tolist():
        if not kept or place != kept[-1] + 1:
            kept.append(place)
    return np.array(kept, np.intp)


def wgdos(raw: bytes, form: Form, shape: tuple[int, ...], missing: float, where: str | None) -> npt.NDArray[Any]:
    """Return the rows of a field in WGDOS packing, as reals of a word's size."""
    # One row may announce one value more than it contains, which becomes missing with a warning about `where`; without
    # `where` it is an error.
    from cfagg.kernels.wgdos import unpack_wgdos

    words = _words(raw, form, shape)
    # The packing of mo_pack takes the number of rows for that of columns; the values are in the order of the field.
    out = np.empty((int(words[2]) & 0xFFFF, int(words[2]) >> 16), f"f{form.word_size}")
    lacking, row = unpack_wgdos(words, out, missing)
    if lacking < 0:
        raise PackedError(f"row {row:,} of WGDOS packing is damaged")
    if lacking:
        if lacking > 1 or where is None:
            raise PackedError(f"row {row:,} of WGDOS packing holds fewer values than it announces")
        warnings.warn(
            f"{where}: row {row:,} of WGDOS packing holds one value less than it announces; that value is read as "
            "missing",
            CfaggWarning,
            stacklevel=2,
        )
    return out.reshape(shape)


def _words(raw: bytes, form: Form, shape: tuple[int, ...]) -> npt.NDArray[np.uint32]:
    """Return the words of WGDOS packing, which include the shape, perhaps turned, in native byte order."""
    # They are big-endian, and in little-endian files swapped together with the file's words or on their own.
    whole = raw[: len(raw) // 8 * 8] if form.word_size == 8 else raw[: len(raw) // 4 * 4]
    orders = (">u4",) if form.byteorder == ">" else ("<u4", ">u4") if form.word_size == 4 else ("<u8", "<u4", ">u4")
    for wanted, order in product((shape, shape[::-1]), orders):
        words = np.frombuffer(whole, order)
        if order == "<u8":
            words = words.astype(">u8").view(">u4")
        if len(words) < 3 or (int(words[2]) & 0xFFFF, int(words[2]) >> 16) != wanted:
            continue
        if not 3 <= int(words[0]) <= len(words):
            raise PackedError(f"{len(words):,} words of WGDOS packing, whose header gives {int(words[0]):,}")
        return words[: int(words[0])].astype(np.uint32)
    raise PackedError(f"data that do not begin as WGDOS packing of shape {shape}")


def scatter(values: npt.NDArray[Any], land: npt.NDArray[np.bool_], missing: Any) -> npt.NDArray[Any]:
    """Return values at the points where `land` is true, and `missing` elsewhere."""
    out = np.full(land.shape, missing, values.dtype)
    out[land] = values[: np.count_nonzero(land)]
    return out
