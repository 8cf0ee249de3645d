"""Gathering a block of source values into an output array: copy, cast, scale, offset and mask in one pass."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Any

import numpy.typing as npt

from cfagg.cf.gather_numpy import gather_numpy
from cfagg.cf.gather_rule import GatherRule
from cfagg.errors import ConformError

__all__ = ["gather", "gather_by"]

_SMALL = 2**15
"""Size below which NumPy is as fast as preparing a call of the compiled kernel."""

_LOADED, _UNLOADED = 2**22, 2**27
"""Number of elements gathered by NumPy in this process after which loading the kernel is worthwhile.

Loading Numba costs about as much as NumPy needs for the larger number. Compiling for one pair of types, or fetching the
result from the cache, costs a multiple of the smaller one.
"""

_LIGHT = 16
"""Number of elements that count as one when NumPy copies whole rows and only looks for missing values."""


class _Work:
    """The number of elements in blocks for which the kernel would be worthwhile."""

    elements = 0


def _kernel_pays(source: npt.NDArray[Any], target: npt.NDArray[Any], rule: GatherRule) -> bool:
    """Return whether to use the compiled kernel: for large blocks, once enough work has been done to pay for it."""
    if source.size < _SMALL or (rule.copies and _same_order(source, target)):
        return False
    _Work.elements += source.size // (_LIGHT if rule.light and _same_order(source, target) else 1)
    return _Work.elements > (_LOADED if "numba" in sys.modules else _UNLOADED)


def _same_order(source: npt.NDArray[Any], target: npt.NDArray[Any]) -> bool:
    """Return whether the innermost axis of size > 1 is the same in both arrays, so that NumPy copies whole rows."""
    steps = [(abs(t), abs(s)) for n, s, t in zip(source.shape, source.strides, target.strides, strict=True) if n > 1]
    return min(steps)[1] == min(s for _, s in steps)


def gather(
    source: npt.NDArray[Any],
    target: npt.NDArray[Any],
    scale: float = 1.0,
    offset: float = 0.0,
    fills: Iterable[Any] = (),
    valid_min: Any = None,
    valid_max: Any = None,
    fill: Any = None,
) -> tuple[int, int]:
    """Write ``source * scale + offset`` into `target`, with missing values and NaN as `fill`.

    Both may have any strides and byte order, and are integers, float32 or float64.  Scale and offset are applied in
    float64 and the result is rounded once; with 1 and 0 values are only cast, and must not change except for rounding
    float64 to float32.  `fills` and values outside the valid range are missing; without a `fill` they become NaN.

    Return the number of elements that the target cannot represent, which are left undefined, and the flat index of the
    first or -1. These are values beyond its range, missing ones without a `fill`, integers that would be rounded,
    fractions cast to integers, and computed integers beyond 2**53.

    >>> import numpy as np
    >>> out = np.zeros((2, 3), "f4")
    >>> gather(np.array([[10, 20], [-1, 40], [50, 60]], "i2").T[::-1], out, scale=0.5, offset=1.0, fills=[-1])
    (0, -1)
    >>> out
    array([[11., 21., 31.],
           [ 6., nan, 26.]], dtype=float32)
    """
    rule = GatherRule.make(source.dtype, target.dtype, scale, offset, fills, valid_min, valid_max, fill)
    return gather_by(source, target, rule)


def gather_by(source: npt.NDArray[Any], target: npt.NDArray[Any], rule: GatherRule) -> tuple[int, int]:
    """Gather by a rule created for the types of both arrays."""
    if source.shape != target.shape:
        raise ConformError(f"a block of shape {source.shape} does not fit its place of shape {target.shape}")
    if _kernel_pays(source, target, rule) and not _by_kernel(source, target, rule):
        return 0, -1
    return gather_numpy(source, target, rule)


def _by_kernel(source: npt.NDArray[Any], target: npt.NDArray[Any], rule: GatherRule) -> bool:
    """Gather with the compiled kernel; return whether NumPy has to repeat it to count and find bad elements."""
    from cfagg.kernels import gather as kernel

    if not kernel.can_gather(source, target, rule.fills):
        return True
    low, high, fill = (rule.low, rule.high, rule.fill) if rule.masked else (None, None, None)
    return kernel.gather(
        source,
        target,
        rule.scale,
        rule.offset,
        rule.fills,
        low,
        high,
        None if rule.lost else fill,
        checked=rule.checked,
    )
