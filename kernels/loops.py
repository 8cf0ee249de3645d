"""The fewest loops that visit two strided arrays together, and the memory that they visit."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["loops_of", "window"]

#: Lengths, steps and starts.
Loops = tuple[list[int], list[int], list[int], int, int]


def loops_of(source: npt.NDArray[Any], target: npt.NDArray[Any]) -> Loops:
    """Return lengths, steps and starts of the fewest loops over both arrays, in elements, outermost first.

    There are at least two.  The starts count from the first element of each array.  Target steps are positive and
    decrease, except for the last loop but one, which the source prefers as its innermost.
    """
    s_start = t_start = 0
    axes = []
    for length, s, t in zip(source.shape, source.strides, target.strides, strict=True):
        if length == 1:
            continue
        s, t = s // source.itemsize, t // target.itemsize
        if t < 0:
            s_start, t_start = s_start + (length - 1) * s, t_start + (length - 1) * t
            s, t = -s, -t
        axes.append((t, s, length))
    axes.sort(key=lambda axis: axis[0], reverse=True)
    merged: list[tuple[int, int, int]] = []
    for t, s, length in axes:
        if merged and merged[-1][0] == t * length and merged[-1][1] == s * length:
            merged[-1] = (t, s, length * merged[-1][2])
        else:
            merged.append((t, s, length))
    if len(merged) > 2:
        prefers = min(range(len(merged)), key=lambda d: abs(merged[d][1]) or 2**62)
        if prefers < len(merged) - 1:
            merged.insert(-1, merged.pop(prefers))
    while len(merged) < 2:
        merged.insert(0, (0, 0, 1) if merged else (1, 1, 1))
    return [a[2] for a in merged], [a[1] for a in merged], [a[0] for a in merged], s_start, t_start


class _Memory:
    """Memory that NumPy wraps as an array, so that read-only and writable arrays have one compiled signature."""

    def __init__(self, owner: npt.NDArray[Any], address: int, dtype: np.dtype[Any], count: int) -> None:
        self.owner = owner
        self.__array_interface__ = {"version": 3, "typestr": dtype.str, "shape": (count,), "data": (address, False)}


def window(
    array: npt.NDArray[Any], dtype: np.dtype[Any], shape: list[int], steps: list[int], start: int
) -> tuple[npt.NDArray[Any], int]:
    """Return the memory between the first and last visited element as a 1-D array, and the start in it."""
    low, count = start, 1
    for length, step in zip(shape, steps, strict=True):
        reach = (length - 1) * step
        low += min(reach, 0)
        count += abs(reach)
    address = array.__array_interface__["data"][0] + low * array.itemsize
    return np.asarray(_Memory(array, address, dtype, count)), start - low
