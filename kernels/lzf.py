"""Unpacking LZF, the compression of h5py's own filter."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from cfagg.kernels.jit import jit

__all__ = ["unpack_lzf"]


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
