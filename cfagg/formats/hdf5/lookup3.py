"""The checksum of HDF5's metadata (Jenkins' lookup3), for many structures at once.

Source: HDF5 File Format Specification, version 3; Bob Jenkins, "lookup3.c" (2006), in the public domain.
"""

from __future__ import annotations

import struct
import sys
from collections.abc import Callable, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from cfagg.formats.hdf5.bytes import Bytes

__all__ = ["compiled", "damaged", "lookup3"]

_START = 0xDEADBEEF
_MASK = 0xFFFFFFFF

#: Fewest structures, and most blocks, that are summed together: NumPy is faster for many of equal length.
_FEW, _WORDS = 8, 1 << 20

#: Structures from which compiled code is used, which takes as long to load as NumPy takes to sum this many.
_WORTH = 1 << 9

#: Steps of mixing: each row is (number changed, number subtracted and xored, number added to the latter, bits).
_MIX = ((0, 2, 1, 4), (1, 0, 2, 6), (2, 1, 0, 8), (0, 2, 1, 16), (1, 0, 2, 19), (2, 1, 0, 4))
_FINAL = ((2, 1, 14), (0, 2, 11), (1, 0, 25), (2, 1, 16), (0, 2, 4), (1, 0, 14), (2, 1, 24))

#: Each number of bits and its complement to 32, in the type that NumPy needs no conversion for.
_SHIFTS = {bits: (np.uint32(bits), np.uint32(32 - bits)) for *_, bits in (*_MIX, *_FINAL)}


def damaged(data: Bytes, structures: Sequence[tuple[int, int, int]]) -> bool:
    """Return whether any structure (position, length, and position of its checksum) has a wrong checksum."""
    known = dict.fromkeys(structures)
    _Seen.count += len(known)
    parts, wanted = [], []
    for at, size, mark in known:
        whole = data[at : at + size]
        wanted.append(int.from_bytes(whole[mark : mark + 4], "little"))
        parts.append(whole[:-4] if mark == size - 4 else whole[:mark] + bytes(4) + whole[mark + 4 :])
    if _Seen.count >= _WORTH or "numcodecs.jenkins" in sys.modules:
        return list(map(compiled(), parts)) != wanted
    order = sorted(range(len(parts)), key=lambda i: -len(parts[i]))
    return lookup3([parts[i] for i in order]) != [wanted[i] for i in order]


class _Seen:
    """Number of structures that were compared in this process."""

    count = 0


@cache
def compiled() -> Callable[[bytes], int]:
    """Return the function for the checksum of one structure, which is compiled code that is slow to load."""
    from numcodecs.jenkins import jenkins_lookup3

    return jenkins_lookup3  # type: ignore[no-any-return]


def lookup3(parts: Sequence[bytes]) -> list[int]:
    """Return the checksums of several structures, the longest first."""
    # Blocks of three words are mixed in; the last block, full or not, ends the sum.
    blocks = [max((len(p) - 1) // 12, 0) for p in parts]
    lengths = np.array([len(p) for p in parts], np.uint32)
    state = np.full((3, len(parts)), _START, np.uint32) + lengths
    begin = 0
    while begin < len(parts):
        # Those that are at least half as long as the first are processed together.
        end = begin
        while end < len(parts) and blocks[end] * 2 >= blocks[begin] and (end - begin) * blocks[begin] < _WORDS:
            end += 1
        if end - begin >= _FEW and blocks[begin]:
            _mix_many(state[:, begin:end], parts[begin:end], blocks[begin:end])
        else:
            _mix_each(state, parts, blocks, begin, end)
        begin = end
    return _ended(state, [part[12 * n :] for part, n in zip(parts, blocks, strict=True)])


def _mix_many(state: npt.NDArray[Any], parts: Sequence[bytes], blocks: Sequence[int]) -> None:
    """Mix the blocks of structures, the longest first, into their states."""
    counts = np.array(blocks)
    words = np.zeros((len(parts), blocks[0] * 3), np.uint32)
    for i, part in enumerate(parts):
        words[i, : blocks[i] * 3] = np.frombuffer(part, "<u4", blocks[i] * 3)
    words = np.ascontiguousarray(words.T)
    actives = np.searchsorted(-counts, -np.arange(blocks[0]), side="left").tolist()
    left, right = np.empty((2, len(parts)), np.uint32)
    subtract, add, turn_left, turn_right = np.subtract, np.add, np.left_shift, np.right_shift
    before, now, one, other = 0, [], left, right
    for turn, active in enumerate(actives):
        if active != before:  # those that continue come first
            before, now, one, other = active, [row[:active] for row in state], left[:active], right[:active]
            steps = [(now[x], now[y], now[z], *_SHIFTS[bits]) for x, y, z, bits in _MIX]
        for row, word in zip(now, words[3 * turn : 3 * turn + 3, :active], strict=True):
            add(row, word, row)
        for x, y, z, bits, rest in steps:
            subtract(x, y, x)
            turn_left(y, bits, one)
            turn_right(y, rest, other)
            np.bitwise_or(one, other, one)
            np.bitwise_xor(x, one, x)
            add(y, z, y)


def _mix_each(state: npt.NDArray[Any], parts: Sequence[bytes], blocks: Sequence[int], begin: int, end: int) -> None:
    """Mix the blocks of a few structures into their states, one by one."""
    for i in range(begin, end):
        a, b, c = (int(n) for n in state[:, i])
        for d, e, f in struct.iter_unpack("<III", parts[i][: 12 * blocks[i]]):
            a = a + d & _MASK
            b = b + e & _MASK
            c = c + f & _MASK
            a = (a - c & _MASK) ^ ((c << 4 & _MASK) | c >> 28)
            c = c + b & _MASK
            b = (b - a & _MASK) ^ ((a << 6 & _MASK) | a >> 26)
            a = a + c & _MASK
            c = (c - b & _MASK) ^ ((b << 8 & _MASK) | b >> 24)
            b = b + a & _MASK
            a = (a - c & _MASK) ^ ((c << 16 & _MASK) | c >> 16)
            c = c + b & _MASK
            b = (b - a & _MASK) ^ ((a << 19 & _MASK) | a >> 13)
            a = a + c & _MASK
            c = (c - b & _MASK) ^ ((b << 4 & _MASK) | b >> 28)
            b = b + a & _MASK
        state[:, i] = a, b, c


def _ended(state: npt.NDArray[Any], last: Sequence[bytes]) -> list[int]:
    """Return the checksums of structures from their states before their last blocks; empty ones are not mixed."""
    words = np.frombuffer(b"".join(block.ljust(12, b"\0") for block in last), "<u4").reshape(-1, 3).T
    mixed = state + words
    for x, y, bits in _FINAL:
        mixed[x] ^= mixed[y]
        mixed[x] -= (mixed[y] << np.uint32(bits)) | (mixed[y] >> np.uint32(32 - bits))
    ended: list[int] = np.where([bool(block) for block in last], mixed[2], state[2]).tolist()
    return ended
