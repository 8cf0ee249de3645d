"""One pass from a source block to its place: any strides and byte order, cast, scale, offset, missing values.

The Python side (`gather`) reduces both views to the same short list of loops: size-1 axes dropped, axes merged that are
contiguous on both sides, ordered by the target's strides.  Both arrays are passed to the compiled side as
one-dimensional windows of memory with start and steps, so that there is one signature per pair of types for any number
of dimensions, flips and order of axes.  Arguments that a call does not need (scale, missing values, checks) are `None`,
which removes their code at compile time.

Rows that are contiguous on both sides are converted directly.  All others go through a small buffer that stays in the
first-level cache: filled by steps, or tile by tile if source and target have different innermost axes, then
byte-swapped if necessary, and then converted by the same loop, which the compiler turns into vector instructions
because it has neither branches nor strides.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from cfagg.kernels.jit import jit
from cfagg.kernels.loops import loops_of, window
from cfagg.kernels.registers import SQUARE, reverse_bytes, transpose_square

__all__ = ["can_gather", "gather"]

_BUFFER = 24576
"""Bytes of both buffers together, so that they stay in the first-level cache."""

_TILE = 64
"""Longest side of a tile along the target's inner axis."""

_DIRECT = 512
"""Shortest row that is converted without the buffer: each row ends with a few elements that are converted singly."""


@jit
def _fill_tile(raw, start, s_row, s_column, stage, height, width):
    """Copy a tile whose rows are the columns of the source into the rows of `stage`."""
    tall, wide = 0, 0
    if s_row in (1, -1):
        tall, wide = height - height % SQUARE, width - width % SQUARE
        for j in range(0, wide, SQUARE):
            for i in range(0, tall, SQUARE):
                at = start + j * s_column
                if s_row == 1:
                    transpose_square(raw, at + i, s_column, stage, i * width + j, width)
                else:
                    last = i + SQUARE - 1
                    transpose_square(raw, at - last, s_column, stage, last * width + j, -width)
    for j in range(width):
        for i in range(tall if j < wide else 0, height):
            stage[np.uintp(i * width + j)] = raw[np.uintp(start + j * s_column + i * s_row)]


@jit
def _convert(source, target, scale, offset, low, high, first, second, fill, lost, whole, real, check, top, bottom):
    """Convert one contiguous row and return whether any element is bad.

    Parameters
    ----------
    source, target : 1-D contiguous arrays
        Of at least ``target.size`` elements; `target` is written.
    scale, offset : float64 or None
        None for a pure cast.
    low, high, first, second : source type, or low is None
        Values outside ``low..high`` (including NaN) or equal to `first` or `second` are missing; no test if None.
    fill : target type or None
        What missing elements become.
    lost : bool or None
        Missing elements are bad.
    whole, real : True or None
        The target's type is integer; the source's type is real.
    check : tuple or None
        None if no value can be bad, else the smallest and largest source value that the target can represent.
    bottom, top : float64
        Smallest and largest result that fits an integer target; if integers are cast to reals, `top` is the first power
        of two beyond the source's type.
    """
    bad = False
    for j in range(target.size):
        v = source[j]
        ok = True
        if scale is None:
            if check is None:
                x = target.dtype.type(v)
            elif whole is not None:
                ok = (v >= check[0]) & (v <= check[1])
                if real is None:
                    x = target.dtype.type(v)
                else:
                    ok &= np.rint(v) == v
                    x = target.dtype.type(v if ok else source.dtype.type(0))
            elif real is not None:
                x = target.dtype.type(v)
                ok = (abs(x) < np.inf) | (not abs(v) < np.inf)
            else:
                x = target.dtype.type(v)
                ok = x < top
                y = x if ok else target.dtype.type(0)
                ok &= source.dtype.type(y) == v
        else:
            r = np.float64(v) * scale + offset
            if whole is None:
                x = target.dtype.type(r)
                if check is not None:
                    ok = abs(x) < np.inf
                    if real is not None:
                        ok |= not abs(v) < np.inf
            else:
                r = np.rint(r)
                if check is not None:
                    ok = (v >= check[0]) & (v <= check[1]) & (r >= bottom) & (r <= top)
                    r = r if ok else 0.0
                x = target.dtype.type(r)
        if low is None:
            target[j] = x
            if check is not None:
                bad |= not ok
        else:
            keep = (v >= low) & (v <= high) & (v != first) & (v != second)
            target[j] = x if keep else fill
            if check is not None:
                bad |= keep & (not ok)
            if lost is not None:
                bad |= lost & (not keep)
    return bad


@jit
def _run(
    source, raw, target, values, stage, place, shape, s_step, t_step, s_start, t_start, tiled, swap,
    scale, offset, low, high, first, second, fill, lost, whole, real, check, top, bottom,
):  # fmt: skip
    """Gather all rows and return whether any element is bad.

    Parameters
    ----------
    source, raw, target : 1-D contiguous arrays
        Windows of memory; `raw` is that of `source` as unsigned integers.
    values, stage, place : 1-D contiguous arrays of equal size
        Buffer in the source's type, the same memory as unsigned integers, and a buffer in the target's type.
    shape, s_step, t_step : int64[n >= 2]
        Loops from outer to inner, their lengths and their steps in elements; the inner target step is positive.
    s_start, t_start : int64
        Positions of the first elements in the windows.
    tiled : bool
        The source is read along the last loop but one.
    swap : bool
        The source has the opposite byte order.
    """
    bad = False
    n = shape.size
    rows, columns = shape[n - 2], shape[n - 1]
    s_row, s_column, t_row, t_column = s_step[n - 2], s_step[n - 1], t_step[n - 2], t_step[n - 1]
    unit = t_column == 1
    direct = unit and s_column == 1 and not swap and not tiled and (columns >= _DIRECT or rows == 1)
    joined = unit and t_row == columns  # a buffer of whole rows is one run of the target
    if direct:
        height, width = 1, columns
    else:
        width = min(columns, _TILE if tiled else stage.size)
        height = min(rows, stage.size // width)
    index = np.zeros(n, np.int64)
    blocks = 1
    for d in range(n - 2):
        blocks *= shape[d]
    for _ in range(blocks):
        for i0 in range(0, rows, height):
            for j0 in range(0, columns, width):
                h = min(height, rows - i0)
                w = min(width, columns - j0)
                a = s_start + i0 * s_row + j0 * s_column
                b = t_start + i0 * t_row + j0 * t_column
                if tiled:
                    _fill_tile(raw, a, s_row, s_column, stage, h, w)
                elif not direct:
                    for i in range(h):
                        part = stage[i * w : i * w + w]
                        at = a + i * s_row
                        if s_column == 1:
                            for j in range(w):
                                part[j] = raw[np.uintp(at + j)]
                        elif s_column == -1:
                            for j in range(w):
                                part[j] = raw[np.uintp(at - j)]
                        else:
                            for j in range(w):
                                part[j] = raw[np.uintp(at + j * s_column)]
                if swap:
                    for j in range(h * w):
                        stage[j] = reverse_bytes(stage[j])
                size = h * w
                line = source[a : a + size] if direct else values[:size]
                through = not direct and not (unit and (h == 1 or (joined and w == columns)))
                out = place[:size] if through else target[b : b + size]
                bad |= _convert(
                    line, out, scale, offset, low, high, first, second, fill, lost, whole, real, check, top, bottom
                )
                if through and unit:
                    for i in range(h):
                        at = b + i * t_row
                        part, done = target[at : at + w], place[i * w : i * w + w]
                        for j in range(w):
                            part[j] = done[j]
                elif through:
                    for i in range(h):
                        at = b + i * t_row
                        for j in range(w):
                            target[np.uintp(at + j * t_column)] = place[i * w + j]
        for d in range(n - 3, -1, -1):
            index[d] += 1
            s_start += s_step[d]
            t_start += t_step[d]
            if index[d] < shape[d]:
                break
            s_start -= shape[d] * s_step[d]
            t_start -= shape[d] * t_step[d]
            index[d] = 0
    return bad


def can_gather(source: npt.NDArray[Any], target: npt.NDArray[Any], fills: tuple[Any, ...] = ()) -> bool:
    """Return whether `gather` supports these arguments.

    Arrays must be of numbers and aligned, with steps of whole elements, the target writable and in native byte order,
    and `fills` at most two.
    """
    return (
        target.dtype.isnative
        and target.flags.writeable
        and source.dtype.kind in "iuf"
        and target.dtype.kind in "iuf"
        and len(fills) <= 2
        and all(a.flags.aligned and not any(step % a.itemsize for step in a.strides) for a in (source, target))
    )  # fmt: skip


def gather(
    source: npt.NDArray[Any],
    target: npt.NDArray[Any],
    scale: float = 1.0,
    offset: float = 0.0,
    fills: tuple[Any, ...] = (),
    low: Any = None,
    high: Any = None,
    fill: Any = None,
    checked: bool = True,
) -> bool:
    """Write ``source * scale + offset``, computed in float64 and rounded once, into `target`.

    Parameters
    ----------
    source, target : ndarray
        Views of equal shape that do not overlap, for which `can_gather` holds; `target` is written.
    scale, offset : float
        With 1 and 0 the values are only cast.
    fills : tuple of source type
        At most two values that mean missing.
    low, high : source type, optional
        Smallest and largest value that is not missing.  Without `low`, `high` and `fills` nothing is
        missing, NaN neither.
    fill : target type, optional
        What missing elements become.  By default NaN; for an integer target they are bad.
    checked : bool
        False if the caller knows that no value can be bad.

    Returns
    -------
    bool
        Whether there is any bad element.  The target is undefined there.

    Raises
    ------
    ValueError
        If the shapes differ, or `can_gather` does not hold.

    Examples
    --------
    >>> import numpy as np
    >>> out = np.empty((2, 2), "f4")
    >>> gather(np.array([[1, 2], [3, 4]], "i2").T[::-1], out, 0.5, 1.0, (np.int16(3),), fill=np.float32("nan"))
    False
    >>> out
    array([[2. , 3. ],
           [1.5, nan]], dtype=float32)
    """
    if source.shape != target.shape or not can_gather(source, target, fills):
        raise ValueError("source and target differ in shape, or have types or steps that cannot be gathered")
    if source.size == 0:
        return False
    swap = not source.dtype.isnative
    native = source.dtype.newbyteorder("=") if swap else source.dtype
    pure = scale == 1.0 and offset == 0.0
    masked = bool(fills) or _excludes(native, low, high)
    if pure and not masked and native == target.dtype:  # only bits are moved: one signature for each size
        native = np.dtype(f"u{native.itemsize}")
        target = target.view(native)
    shape, s_step, t_step, s_start, t_start = loops_of(source, target)
    tiled = abs(s_step[-2]) < abs(s_step[-1]) and min(shape[-2:]) > 1
    source_window, s_start = window(source, native, shape, s_step, s_start)
    target_window, t_start = window(target, target.dtype, shape, t_step, t_start)
    unsigned = np.dtype(f"u{native.itemsize}")
    values = np.empty(_BUFFER // (native.itemsize + target.itemsize), native)
    whole, real = target.dtype.kind != "f" or None, native.kind == "f" or None
    check, top, bottom = _checks(native, target.dtype, pure) if checked else (None, 0.0, 0.0)
    least, most, first, second = _missing(native, fills, low, high) if masked else (None,) * 4
    lost = fill is None if masked and whole else None
    if fill is None:
        fill = target.dtype.type(0 if whole else np.nan)
    return bool(
        _run(
            source_window,
            source_window.view(unsigned),
            target_window,
            values,
            values.view(unsigned),
            np.empty(values.size, target.dtype),
            np.array(shape),
            np.array(s_step),
            np.array(t_step),
            s_start,
            t_start,
            tiled,
            swap,
            None if pure else float(scale),
            None if pure else float(offset),
            least,
            most,
            first,
            second,
            fill if masked else None,
            lost,
            whole,
            real,
            check,
            top,
            bottom,
        )
    )


@lru_cache(maxsize=64)
def _range(dtype: np.dtype[Any]) -> tuple[int, int]:
    """Return the smallest and largest value of an integer type; looking them up costs as much as a small block."""
    info = np.iinfo(dtype)
    return int(info.min), int(info.max)


def _excludes(dtype: np.dtype[Any], low: Any, high: Any) -> bool:
    """Return whether bounds make anything missing; those of reals always do, since NaN is outside of them."""
    if dtype.kind == "f":
        return low is not None or high is not None
    lowest, highest = _range(dtype)
    return (low is not None and low > lowest) or (high is not None and high < highest)


def _missing(dtype: np.dtype[Any], fills: tuple[Any, ...], low: Any, high: Any) -> tuple[Any, ...]:
    """Return bounds and two missing values, so that the test for missing values always has the same form."""
    if dtype.kind == "f":
        least, most = dtype.type(-np.inf if low is None else low), dtype.type(np.inf if high is None else high)
        none = dtype.type(np.nan)
    else:
        lowest, highest = _range(dtype)
        least, most = dtype.type(lowest if low is None else low), dtype.type(highest if high is None else high)
        # Any value that is missing anyway: if there is no fill, a bound excludes something.
        beyond = int(least) - 1 if least > lowest else min(int(most) + 1, highest)
        none = fills[0] if fills else dtype.type(beyond)
    first = fills[0] if fills else none
    second = fills[1] if len(fills) > 1 else none
    return least, most, first, second


@lru_cache(maxsize=256)
def _checks(source: np.dtype[Any], target: np.dtype[Any], pure: bool) -> tuple[tuple[Any, Any] | None, float, float]:
    """Return the source values that fit into the target, and the largest and smallest result that do."""
    if target.kind == "f":
        return (source.type(0), source.type(0)), float(_range(source)[1] + 1) if source.kind != "f" else 0.0, 0.0
    lowest, highest = _range(target)
    exact = 2**53
    top, bottom = float(min(highest, exact)), float(max(lowest, -exact))
    if source.kind == "f":
        if not pure:
            return (source.type(-np.inf), source.type(np.inf)), top, bottom
        last = np.nextafter(source.type(2.0 ** highest.bit_length()), source.type(0))
        return (source.type(lowest), last), top, bottom
    least, most = (lowest, highest) if pure else (-exact, exact)
    held = _range(source)
    return (source.type(max(least, held[0])), source.type(min(most, held[1]))), top, bottom
