"""What sums of other writers are compared with: sums of the cells of a box, and differences of stored sums."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from cfagg.accumulation.arrays import CellWeights
from cfagg.accumulation.foreign_deltas import stored_type
from cfagg.conventions.accumulation_record import MaskRecord
from cfagg.formats.zarr.chunks import read_box
from cfagg.formats.zarr.metadata import ZarrArray
from cfagg.kernels.cumulative.mask import Mask

__all__ = [
    "Box",
    "Difference",
    "Mismatch",
    "Terms",
    "cell_sums",
    "difference",
    "place_name",
    "read_region",
    "rounding",
    "valid_cells",
]

Array = npt.NDArray[Any]
Box = tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class Terms:
    """How the values of an array are counted: their type as read, which are missing, and weights, known or not."""

    dtype: np.dtype[Any]
    mask: MaskRecord
    weights: CellWeights | None = None


@dataclass(frozen=True)
class Mismatch:
    """What is wrong with some sums."""

    message: str
    #: Whether they contradict the data, which tells against all sums of the group; else only against these.
    of_data: bool = True
    #: Whether sums of weights differ, so that the weights may be others than those supposed.
    of_weights: bool = False


def valid_cells(values: Array, mask: MaskRecord) -> npt.NDArray[np.bool_]:
    """Return which values count."""
    return Mask.of(values.dtype, mask.fills, mask.valid_min, mask.valid_max).valid(values)


def cell_sums(source: ZarrArray, terms: Terms, box: Box, axes: tuple[int, ...]) -> tuple[Array, Array, Array]:
    """Return sums of the values in a box along some axes, of their absolute values, and of their weights."""
    values = read_region(source, box).view(terms.dtype)
    valid = valid_cells(values, terms.mask)
    weight = valid.astype(np.float64)
    if terms.weights is not None:
        shape = [b - a if d in terms.weights.axes else 1 for d, (a, b) in enumerate(box)]
        weight *= terms.weights.array[tuple(slice(*box[d]) for d in terms.weights.axes)].reshape(shape)
    weighted = np.where(valid, values, values.dtype.type(0)).astype(np.float64) * weight
    return (
        weighted.sum(axis=axes, keepdims=True),
        np.abs(weighted).sum(axis=axes, keepdims=True),
        weight.sum(axis=axes, keepdims=True),
    )


@dataclass(frozen=True)
class Difference:
    """The difference of two stored sums, and their magnitudes together."""

    value: Array
    size: Array


def difference(array: ZarrArray, axes: Sequence[int], box: Box, index: dict[int, int]) -> Difference | None:
    """Return what stored sums give for a box, `None` where any is not finite."""
    upper = _stored(array, axes, box, index)
    lower = np.zeros_like(upper)
    if any(index.values()):
        lower = _stored(array, axes, box, {d: k - 1 for d, k in index.items()})
    if not (np.isfinite(upper).all() and np.isfinite(lower).all()):
        return None
    return Difference(upper - lower, np.abs(upper) + np.abs(lower))


def rounding(array: ZarrArray) -> float:
    """Return by what part of itself a sum may differ, in the type it is stored in and however it was added up."""
    stored = stored_type(array)
    return max(64 * float(np.finfo(stored).eps), 1e-11) if stored.kind == "f" else 1e-12


def _stored(array: ZarrArray, axes: Sequence[int], box: Box, index: dict[int, int]) -> Array:
    """Return stored sums at one sample and along the other axes of a box, axes in the order of the source."""
    ranges = tuple((index[d], index[d] + 1) if d in index else box[d] for d in axes)
    return read_region(array, ranges).astype(np.float64).transpose(np.argsort(axes))


def place_name(source: ZarrArray, box: Box, index: dict[int, int], at: tuple[int, ...]) -> str:
    """Return the name of one of the sums over a box."""
    return ", ".join(
        f"{d} {a}:{b}" if i in index else f"{d} {a + n}"
        for i, (d, (a, b), n) in enumerate(zip(source.dims, box, at, strict=True))
    )


def read_region(array: ZarrArray, box: Sequence[tuple[int, int]]) -> Array:
    """Return the elements of a box, absent chunks as fill values."""
    out = np.full([b - a for a, b in box], array.fill_value, array.dtype)
    for index, inner, outer in _pieces(array, box):
        part = read_box(array, index, inner)
        if part is not None:
            out[outer] = part
    return out


def _pieces(
    array: ZarrArray, box: Sequence[tuple[int, int]]
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
