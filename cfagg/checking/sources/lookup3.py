"""The checksum of HDF5's metadata (Jenkins' lookup3), of many structures at once.

Source: HDF5 File Format Specification, version 3; Bob Jenkins, "lookup3.c" (2006), in the public domain.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from cfagg.checking.sources.hdf5_space import Slices

__all__ = ["damaged", "lookup3"]

_START = 0xDEADBEEF
_MASK = 0xFFFFFFFF

#: While more structures than these are still summed, NumPy does it faster.
_FEW = 8

#: Turns of mixing: each row is (number changed, number taken away and added, number added to, bits).
_MIX = ((0, 2, 1, 4), (1, 0, 2, 6), (2, 1, 0, 8), (0, 2, 1, 16), (1, 0, 2, 19), (2, 1, 0, 4))
_FINAL = ((2, 1, 14), (0, 2, 11), (1, 0, 25), (2, 1, 16), (0, 2, 4), (1, 0, 14), (2, 1, 24))


def damaged(data: Slices, structures: Sequence[tuple[int, int, int]]) -> bool:
    """Return whether the checksum in any structure is not that of its bytes.

    Parameters
    ----------
    data : bytes, mmap or the like
        The file.
    structures : sequence of (int, int, int)
        Place and length of each, and where in it the checksum stands: at its end, or within it and summed as zeros.
    """
    known = sorted(dict.fromkeys(structures), key=lambda item: -item[1])
    parts, wanted = [], []
    for at, size, mark in known:
        whole = data[at : at + size]
        wanted.append(int.from_bytes(whole[mark : mark + 4], "little"))
        parts.append(whole[:-4] if mark == size - 4 else whole[:mark] + bytes(4) + whole[mark + 4 :])
    order = sorted(range(len(parts)), key=lambda i: -len(parts[i]))
    return lookup3([parts[i] for i in order]) != [wanted[i] for i in order]


def lookup3(parts: Sequence[bytes]) -> list[int]:
    """Return the checksums of several pieces, the longest first.

    Examples
    --------
    >>> [hex(n) for n in lookup3([b"Four score and seven years ago", b""])]
    ['0x17770551', '0xdeadbeef']
    """
    # Blocks of three words are mixed in; the last block, full or not, ends the sum.
    blocks = [max((len(p) - 1) // 12, 0) for p in parts]
    lengths = np.array([len(p) for p in parts], np.uint32)
    state = np.full((3, len(parts)), _START, np.uint32) + lengths
    few = next((i for i, n in enumerate(sorted(blocks, reverse=True)) if i >= _FEW), None)
    shared = sorted(blocks, reverse=True)[_FEW] if few is not None else 0
    if shared:
        _mix_many(state, parts, blocks, shared)
    sums = []
    for i, part in enumerate(parts):
        done = min(blocks[i], shared)
        a, b, c = (int(n) for n in state[:, i])
        sums.append(_rest(part[12 * done :], a, b, c))
    return sums


def _mix_many(state: npt.NDArray[Any], parts: Sequence[bytes], blocks: Sequence[int], turns: int) -> None:
    """Mix the first blocks of all pieces into their states."""
    counts = np.array([min(n, turns) for n in blocks])
    words = np.zeros((len(parts), turns * 3), np.uint32)
    for i, part in enumerate(parts):
        n = int(counts[i]) * 3
        words[i, :n] = np.frombuffer(part, "<u4", n)
    words = np.ascontiguousarray(words.T)
    for turn in range(turns):
        # The longest come first.
        active = int(np.searchsorted(-counts, -turn, side="left"))
        now = state[:, :active]
        now += words[3 * turn : 3 * turn + 3, :active]
        for x, y, z, bits in _MIX:
            now[x] -= now[y]
            now[x] ^= (now[y] << np.uint32(bits)) | (now[y] >> np.uint32(32 - bits))
            now[y] += now[z]


def _rest(part: bytes, a: int, b: int, c: int) -> int:
    """Return the checksum of a piece from its state before the bytes that are left."""
    at, left = 0, len(part)
    while left > 12:
        a = a + int.from_bytes(part[at : at + 4], "little") & _MASK
        b = b + int.from_bytes(part[at + 4 : at + 8], "little") & _MASK
        c = c + int.from_bytes(part[at + 8 : at + 12], "little") & _MASK
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
        at += 12
        left -= 12
    if not left:
        return c
    last = part[at:].ljust(12, b"\0")
    numbers = [a, b, c]
    for i in range(3):
        numbers[i] = numbers[i] + int.from_bytes(last[4 * i : 4 * i + 4], "little") & _MASK
    for x, y, bits in _FINAL:
        turned = (numbers[y] << bits & _MASK) | numbers[y] >> (32 - bits)
        numbers[x] = (numbers[x] ^ numbers[y]) - turned & _MASK
    return numbers[2]
