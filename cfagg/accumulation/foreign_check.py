"""Sums of other writers against the data: a few chunks added up and compared.

A group without cfagg's own attribute says neither how its data were masked and weighted nor that they are still the
same.  What it holds at its first, middle and last chunks tells most mistakes: other weights, missing values counted,
samples at other places, parts that were never written, data that were rewritten.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from cfagg.accumulation.arrays import SumArrays
from cfagg.accumulation.foreign_deltas import stored_type
from cfagg.conventions.accumulation_record import MaskRecord
from cfagg.errors import FragmentReadError
from cfagg.kernels.cumulative_mask import Mask
from cfagg.zarrs.chunks import read_box
from cfagg.zarrs.metadata import ZarrArray

__all__ = ["Mismatch", "Terms", "check_sums", "holds", "lacks_any", "read_region", "valid_cells"]

Array = npt.NDArray[Any]
Range = tuple[int, int]
Samples = tuple[npt.NDArray[np.int64] | None, ...]

#: Elements that one comparison adds up at most, and bytes of chunks that it decodes for them.
_ELEMENTS, _BYTES = 2**22, 2**29


@dataclass(frozen=True)
class Terms:
    """How the values of an array are counted.

    Parameters
    ----------
    dtype : numpy.dtype
        Type as which stored values are read: the array's, or its unsigned twin.
    mask : MaskRecord
        Which of them are missing.
    weights : float64 array, optional
        Weights along `axis`; None where all are 1.
    axis : int
        Axis of the weights.
    """

    dtype: np.dtype[Any]
    mask: MaskRecord
    weights: npt.NDArray[np.float64] | None = None
    axis: int = 0


@dataclass(frozen=True)
class Mismatch:
    """What is wrong with some sums.

    Parameters
    ----------
    message : str
        What was found.
    of_data : bool
        Whether they contradict the data, which tells against all sums of the group; else only these cannot be used.
    """

    message: str
    of_data: bool = True


def valid_cells(values: Array, mask: MaskRecord) -> npt.NDArray[np.bool_]:
    """Return which values count."""
    return Mask.of(values.dtype, mask.fills, mask.valid_min, mask.valid_max).valid(values)


def check_sums(source: ZarrArray, arrays: SumArrays, samples: Samples, terms: Terms) -> Mismatch | None:
    """Return what is wrong with the sums of one combination, `None` where they agree with the data.

    Parameters
    ----------
    source : ZarrArray
        The data.
    arrays : SumArrays
        The sums.
    samples : tuple
        Per axis of the source the positions up to which sums reach; `None` where it is not accumulated.
    terms : Terms
        How values are counted.
    """
    summed = [d for d, positions in enumerate(samples) if positions is not None]
    if any(positions is not None and not positions.size for positions in samples):
        return Mismatch("it has no sums", of_data=False)
    if not source.size:
        return None
    first = {d: (0, _at(samples, d, 0)) for d in summed}
    places = [(first, dict.fromkeys(summed, 0), place) for place in (0.0, 0.5, 1.0)]
    positions = samples[summed[0]]
    if len(summed) == 1 and positions is not None and len(positions) > 1:
        d, last = summed[0], len(positions) - 1
        places.append(({d: (_at(samples, d, last - 1), _at(samples, d, last))}, {d: last}, 1.0))
    seen = set()
    for ranges, index, place in places:
        box = _box(source, ranges, place)
        if box is None:
            return Mismatch("its first sums are of more data than is quickly added up to check them", of_data=False)
        if (key := (box, tuple(index.values()))) in seen:
            continue
        seen.add(key)
        try:
            wrong = _compare(source, arrays, terms, box, index)
        except FragmentReadError as error:
            return Mismatch(str(error), of_data=False)
        if wrong is not None:
            return wrong
    return None


def _at(samples: Samples, d: int, k: int) -> int:
    positions = samples[d]
    return 0 if positions is None else int(positions[k])


def _box(source: ZarrArray, ranges: dict[int, Range], place: float) -> tuple[Range, ...] | None:
    """Return a box of the source: these ranges and, along the other dimensions, a chunk at a place from 0 to 1."""
    box, chunks = [], 1
    for d, (edges, length) in enumerate(zip(source.grid.edges, source.shape, strict=True)):
        if d in ranges:
            a, b = ranges[d]
            chunks *= int(np.searchsorted(edges, b) - np.searchsorted(edges, a, side="right") + 1)
        else:
            i = round(place * (len(edges) - 2))
            a, b = int(edges[i]), min(int(edges[i + 1]), length)
        box.append((a, b))
    cells = prod(max(int(np.diff(edges).max(initial=1)), 1) for edges in source.grid.edges)
    if chunks * cells * source.dtype.itemsize > _BYTES:
        return None
    free = [d for d in range(len(box)) if d not in ranges]
    # The far end stays: it is what a writer may have left out.
    while free and prod(b - a for a, b in box) > _ELEMENTS:
        d = max(free, key=lambda d: box[d][1] - box[d][0])
        a, b = box[d]
        if b - a == 1:
            break
        box[d] = ((a + b) // 2, b)
    return tuple(box)


def _compare(
    source: ZarrArray, arrays: SumArrays, terms: Terms, box: tuple[Range, ...], index: dict[int, int]
) -> Mismatch | None:
    """Compare the stored sums over a box with those of the data."""
    total, size, weight = _sums(source, terms, box, tuple(index))
    for name, array, expected, scale in (
        ("sum", arrays.data, total, size),
        ("sum of weights" if terms.weights is not None else "count", arrays.weights, weight, weight),
    ):
        if array is None:
            continue
        upper = _stored(array, arrays.axes, box, index)
        lower = _stored(array, arrays.axes, box, {d: k - 1 for d, k in index.items()}) if any(index.values()) else 0.0
        rounding = _rounding(array)
        if not (np.isfinite(upper).all() and np.isfinite(lower).all()):
            return Mismatch(f"a {name} in {array.name!r} is not finite: cells that are NaN or infinite were counted")
        allowed = rounding * (scale + np.abs(upper) + np.abs(lower))
        wrong = np.abs((upper - lower) - expected) > allowed
        if wrong.any():
            at = tuple(int(i) for i in np.argwhere(wrong)[0])
            place = ", ".join(
                f"{d} {a}:{b}" if i in index else f"{d} {a + n}"
                for i, (d, (a, b), n) in enumerate(zip(source.dims, box, at, strict=True))
            )
            found = float((upper - lower)[at])
            return Mismatch(
                f"the {name} over {place} in {array.name!r} is {found:.9g}, but the data give {expected[at]:.9g}"
            )
    return None


def _sums(source: ZarrArray, terms: Terms, box: tuple[Range, ...], axes: tuple[int, ...]) -> tuple[Array, Array, Array]:
    """Return sums of the values in a box along some axes, of their absolute values, and of their weights."""
    values = read_region(source, box).view(terms.dtype)
    valid = valid_cells(values, terms.mask)
    weight = valid.astype(np.float64)
    if terms.weights is not None:
        shape = [-1 if d == terms.axis else 1 for d in range(source.ndim)]
        weight *= terms.weights[slice(*box[terms.axis])].reshape(shape)
    weighted = np.where(valid, values, values.dtype.type(0)).astype(np.float64) * weight
    return (
        weighted.sum(axis=axes, keepdims=True),
        np.abs(weighted).sum(axis=axes, keepdims=True),
        weight.sum(axis=axes, keepdims=True),
    )


def _rounding(array: ZarrArray) -> float:
    """Return by what part of itself a sum may differ, in the type it is stored in and however it was added up."""
    stored = stored_type(array)
    return max(64 * float(np.finfo(stored).eps), 1e-11) if stored.kind == "f" else 1e-12


def _stored(array: ZarrArray, axes: Sequence[int], box: tuple[Range, ...], index: dict[int, int]) -> Array:
    """Return stored sums at one sample and along the other axes of a box, axes in the order of the source."""
    ranges = tuple((index[d], index[d] + 1) if d in index else box[d] for d in axes)
    return read_region(array, ranges).astype(np.float64).transpose(np.argsort(axes))


def read_region(array: ZarrArray, box: Sequence[Range]) -> Array:
    """Return the elements of a box, absent chunks as fill values.

    Parameters
    ----------
    array : ZarrArray
        The array.
    box : sequence of (int, int)
        Start and stop along each dimension.
    """
    out = np.full([b - a for a, b in box], array.fill_value, array.dtype)
    for index, inner, outer in _pieces(array, box):
        part = read_box(array, index, inner)
        if part is not None:
            out[outer] = part
    return out


def _pieces(
    array: ZarrArray, box: Sequence[Range]
) -> Iterator[tuple[tuple[int, ...], tuple[slice, ...], tuple[slice, ...]]]:
    """Yield the chunks that a box touches, the part of each that it takes, and where it goes."""
    touched = []
    for edges, length, (a, b) in zip(array.grid.edges, array.shape, box, strict=True):
        along = []
        for i in range(int(np.searchsorted(edges, a, side="right")) - 1, int(np.searchsorted(edges, b))):
            start, stop = int(edges[i]), min(int(edges[i + 1]), length)
            low, high = max(a, start), min(b, stop)
            along.append((i, slice(low - start, high - start), slice(low - a, high - a)))
        touched.append(along)
    for place in np.ndindex(*map(len, touched)):
        chosen = [along[k] for along, k in zip(touched, place, strict=True)]
        yield tuple(c[0] for c in chosen), tuple(c[1] for c in chosen), tuple(c[2] for c in chosen)


def lacks_any(source: ZarrArray, dtype: np.dtype[Any], mask: MaskRecord) -> bool:
    """Return whether any cell is missing; reads all of the data.

    Parameters
    ----------
    source, dtype
        As of `holds`.
    mask : MaskRecord
        Which cells are missing.
    """
    for index in np.ndindex(source.grid.matrix_shape):
        values = read_region(source, source.grid.extent(index)).view(dtype)
        if not valid_cells(values, mask).all():
            return True
    return False


def holds(source: ZarrArray, dtype: np.dtype[Any], counted: MaskRecord, declared: MaskRecord) -> bool:
    """Return whether any cell counts by one mask and is missing by another; reads all of the data.

    Parameters
    ----------
    source : ZarrArray
        The data.
    dtype : numpy.dtype
        Type as which its values are read.
    counted, declared : MaskRecord
        By what cells were counted, and what the array itself declares.
    """
    for index in np.ndindex(source.grid.matrix_shape):
        box = source.grid.extent(index)
        values = read_region(source, box).view(dtype)
        if (valid_cells(values, counted) & ~valid_cells(values, declared)).any():
            return True
    return False
