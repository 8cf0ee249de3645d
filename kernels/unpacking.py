"""Decompression for HDF5's filters: szip, the extended Rice coding of CCSDS 121.0-B, and LZF of h5py."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from cfagg.kernels.jit import jit

__all__ = ["unpack_lzf", "unpack_szip"]

#: Special counts of zero blocks: the number that means all the remaining ones, and the blocks of a segment.
_REST, _SEGMENT = 5, 64

#: The largest code of a pair of small numbers.
_PAIRS = 90


@jit
def unpack_szip(
    stored: npt.NDArray[np.uint8], out: npt.NDArray[np.uint8], bits: int, block: int, line: int, big: bool, steps: bool
) -> int:
    """Unpack a stream of samples until `out` is full.

    Parameters
    ----------
    stored : uint8, shape (n,)
        The stream.
    out : uint8, shape (m,)
        Memory for the samples; each takes 1, 2 or 4 bytes, as few as its bits need.
    bits : int
        Bits of a sample, 1 to 24.
    block : int
        Samples of a block, at least 2 and even.
    line : int
        Samples of a scan line, at least 1; no block extends across lines.
    big : bool
        Whether samples are big-endian.
    steps : bool
        Whether samples are stored as differences from the previous one.

    Returns
    -------
    int
        Number of bytes written; fewer than `m` if the stream ends early or is damaged.

    Raises
    ------
    ValueError
        If bits, block or line are not as described.

    Notes
    -----
    A block begins with the number of its coding: 0 for small numbers (then one bit: zero blocks, or pairs), the largest
    for plain samples, others for samples split into a unary part and `number - 1` plain bits.  The first sample of a
    line of differences is plain.  Source: CCSDS 121.0-B-3, sections 3 to 5.
    """
    if not 1 <= bits <= 24 or block < 2 or block % 2 or line < 1:
        raise ValueError("samples have 1 to 24 bits, blocks an even number of samples, and lines at least one")
    width = 1 if bits <= 8 else 2 if bits <= 16 else 4
    code = 3 if bits <= 8 else 4 if bits <= 16 else 5
    plain = (1 << code) - 1
    largest = (1 << bits) - 1
    end = 8 * stored.size
    blocks = (line + block - 1) // block
    samples = np.empty(blocks * block, np.int64)
    total = out.size // width
    at: Any = 0
    done: Any = 0
    while done < total:
        wanted = min(line, total - done)
        have: Any = 0
        while have < wanted:
            first = 1 if steps and have == 0 else 0
            if at + code + 1 > end:
                return done * width  # type: ignore[no-any-return]
            number = _bits(stored, at, code)
            at += code
            small = 0
            if number == 0:
                small = 1 + _bits(stored, at, 1)
                at += 1
            if first:
                if at + bits > end:
                    return done * width  # type: ignore[no-any-return]
                samples[have] = _bits(stored, at, bits)
                at += bits
            if small == 1:
                zeros = _zeros(stored, at, end)
                if zeros < 0:
                    return done * width  # type: ignore[no-any-return]
                at += zeros + 1
                run = zeros + 1
                here = have // block
                if run == _REST:
                    run = min(blocks - here, _SEGMENT - here % _SEGMENT)
                elif run > _REST:
                    run -= 1
                if run > blocks - here:
                    return done * width  # type: ignore[no-any-return]
                for i in range(have + first, have + run * block):
                    samples[i] = 0
                have += run * block
                continue
            if small == 2:
                k: Any = first
                while k < block:
                    pair = _zeros(stored, at, end)
                    if pair < 0 or pair > _PAIRS:
                        return done * width  # type: ignore[no-any-return]
                    at += pair + 1
                    # Pairs with the same sum are consecutive: 0; 1, 2; 3, 4, 5; …
                    both: Any = 0
                    while (both + 1) * (both + 2) // 2 <= pair:
                        both += 1
                    second = pair - both * (both + 1) // 2
                    if k % 2 == 0:
                        samples[have + k] = both - second
                        k += 1
                    samples[have + k] = second
                    k += 1
            elif number == plain:
                if at + bits * (block - first) > end:
                    return done * width  # type: ignore[no-any-return]
                for i in range(have + first, have + block):
                    samples[i] = _bits(stored, at, bits)
                    at += bits
            else:
                low = number - 1
                for i in range(have + first, have + block):
                    zeros = _zeros(stored, at, end)
                    if zeros < 0 or zeros > largest >> low:
                        return done * width  # type: ignore[no-any-return]
                    at += zeros + 1
                    samples[i] = zeros << low
                if at + low * (block - first) > end:
                    return done * width  # type: ignore[no-any-return]
                for i in range(have + first, have + block):
                    samples[i] += _bits(stored, at, low)
                    at += low
            have += block
        if steps:
            last = samples[0]
            for i in range(1, wanted):
                step = samples[i]
                # Small steps go up or down, larger ones only in the direction that has room for them.
                turned = largest - last if last > largest >> 1 else last
                if (step + 1) >> 1 <= turned:
                    last += -((step + 1) >> 1) if step & 1 else step >> 1
                else:
                    last = largest - step if last > largest >> 1 else step
                if last < 0 or last > largest:
                    return done * width  # type: ignore[no-any-return]
                samples[i] = last
        for i in range(wanted):
            value = samples[i]
            for byte in range(width):
                out[(done + i) * width + byte] = value >> 8 * (width - 1 - byte if big else byte) & 255
        done += wanted
    return done * width  # type: ignore[no-any-return]


@jit
def _bits(stored: npt.NDArray[np.uint8], at: int, count: int) -> int:
    """Return the number in some bits of a stream, highest first; the stream has them."""
    value: Any = 0
    for i in range(at >> 3, (at + count + 7) >> 3):
        value = value << 8 | np.int64(stored[i])
    return (value >> (-(at + count) & 7)) & ((1 << count) - 1)  # type: ignore[no-any-return]


@jit
def _zeros(stored: npt.NDArray[np.uint8], at: int, end: int) -> int:
    """Return the number of zeros before the next one of a stream, -1 if there is none."""
    start = at
    while at < end:
        byte = np.int64(stored[at >> 3]) & (255 >> (at & 7))
        if byte:
            while not byte >> (7 - (at & 7)) & 1:
                at += 1
            return at - start
        at += 8 - (at & 7)
    return -1


@jit
def unpack_lzf(stored: npt.NDArray[np.uint8], out: npt.NDArray[np.uint8]) -> int:
    """Unpack a block of LZF, uint8, into uint8 `out`; return the number of bytes, -1 if it is damaged or too long.

    A byte below 32 is followed by that many literals plus one.  Of any other byte, the upper three bits are a length
    minus two (7: the next byte adds to it), the rest and the next byte are a distance back in the output minus one.
    Source: LibLZF 3.6.
    """
    n, m = stored.size, out.size
    i: Any = 0
    at: Any = 0
    while i < n:
        control: Any = np.int64(stored[i])
        i += 1
        if control < 32:
            count: Any = control + 1
            if i + count > n or at + count > m:
                return -1
            for k in range(count):
                out[at + k] = stored[i + k]
            i += count
        else:
            count = control >> 5
            if count == 7:
                if i >= n:
                    return -1
                count += np.int64(stored[i])
                i += 1
            if i >= n:
                return -1
            start = at - ((control & 31) << 8) - np.int64(stored[i]) - 1
            i += 1
            count += 2
            if start < 0 or at + count > m:
                return -1
            # One by one: the source may overlap what is written.
            for k in range(count):
                out[at + k] = out[start + k]
        at += count
    return at  # type: ignore[no-any-return]
