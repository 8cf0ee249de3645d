"""Arrays of an accumulation that another program wrote: those that are whole, and where their samples may be."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from cfagg.accumulation.arrays import SumArrays, find
from cfagg.accumulation.foreign_deltas import undo_deltas
from cfagg.conventions.accumulation import Names, parse_array, sample_positions
from cfagg.conventions.accumulation_model import Dims
from cfagg.errors import ConventionError, Problem, UnsupportedError
from cfagg.formats.zarr.metadata import ZarrArray
from cfagg.formats.zarr.stamps import stamps

__all__ = ["Samples", "StoredSums", "newest", "read_stored_sums"]

Samples = tuple[npt.NDArray[np.int64] | None, ...]


@dataclass(frozen=True)
class StoredSums:
    """The sums of one combination that are well formed, with the places where its samples may be, likeliest first."""

    arrays: SumArrays
    places: tuple[Samples, ...]


def read_stored_sums(
    source: ZarrArray, path: str, combination: Dims, names: Names, weighted: bool, problems: list[Problem]
) -> StoredSums | None:
    """Return the arrays of one combination and where their samples may be, or note why they cannot be used."""
    label = "+".join(combination)
    data_name = names.weighted if weighted else names.unweighted
    if data_name is None or (names.weights is None and weighted):
        kinds = f"{'_DATA_WEIGHTED' if weighted else '_DATA_UNWEIGHTED'} and _WEIGHTS"
        problems.append(Problem(label, f"{kinds} expected, found {' and '.join(names.as_dict())}"))
        return None
    before = len(problems)
    data = _open(source, path, combination, data_name, problems)
    counts = None if names.weights is None else _open(source, path, combination, names.weights, problems)
    if data is None or len(problems) > before:
        return None
    arrays = [a for a in (data, counts) if a is not None]
    strides = [parse_array({**a.attributes, "_ARRAY_DIMENSIONS": list(a.dims)}).stride for a in arrays]
    if counts is not None and (data.dims != counts.dims or data.shape != counts.shape or strides[0] != strides[1]):
        problems.append(
            Problem(counts.name, f"dimensions {counts.dims}, shape {counts.shape} and strides {strides[1]}, not "
                    f"{data.dims}, {data.shape} and {strides[0]} as of {data_name!r}")
        )  # fmt: skip
        return None
    if weighted and (data.dtype.kind != "f" or (counts is not None and not _holds_weights(counts.dtype))):
        whole = next(a.dtype.name for a in arrays if a.dtype.kind != "f")
        problems.append(Problem(label, f"weighted sums that were cut to whole numbers ({whole}): no use"))
        return None
    for array, (least, most) in zip(arrays, (_bounds(source.dtype), (0, 1)), strict=False):
        if not _holds(array.dtype, least * source.size, most * source.size):
            found = f"sums that {array.dtype.name} may not hold: an overflow would not show"
            problems.append(Problem(array.name, found))
            return None
    axes = tuple(source.dims.index(d) for d in data.dims)
    places = _places(source, axes, data, strides[0], problems)
    if places is None:
        return None
    for array in arrays:
        if absent := int((stamps(array)[:, 0] < 0).sum()):
            found = f"{absent} of {array.objects.size} chunks are absent: never written, or zeros"
            problems.append(Problem(array.name, found))
    return StoredSums(SumArrays(data, counts, None, None, None, axes), places) if len(problems) == before else None


def _open(source: ZarrArray, path: str, combination: Dims, name: str, problems: list[Problem]) -> ZarrArray | None:
    """Return one array of sums, whole and with attributes that fit the group, or note why not."""
    array = find(source, path, name, problems)
    if array is None:
        return None
    try:
        array = undo_deltas(array)
        parse_array(
            {**array.attributes, "_ARRAY_DIMENSIONS": list(array.dims)}, dims=source.dims, combination=combination
        )
    except ConventionError as error:
        problems.extend(Problem(f"{name}.{p.where}", p.message) for p in error.problems)
        return None
    except UnsupportedError as error:
        problems.append(Problem(name, str(error)))
        return None
    if array.dtype.kind not in "iuf":
        problems.append(Problem(name, f"numbers expected, found {array.dtype.name}"))
        return None
    return array


def newest(array: ZarrArray) -> int:
    """Return when the youngest stored object of an array was written, in nanoseconds."""
    return int(stamps(array)[:, 1].max(initial=0))


def _bounds(dtype: np.dtype[Any]) -> tuple[float, float]:
    """Return the smallest and largest number of a type; real sums of any real numbers are as good as they can be."""
    return (0, 0) if dtype.kind == "f" else (int(np.iinfo(dtype).min), int(np.iinfo(dtype).max))


def _holds_weights(dtype: np.dtype[Any]) -> bool:
    """Return whether a type of sums may hold those of weights: if of whole numbers, only one that hardly overflows."""
    return dtype.kind == "f" or dtype.itemsize == 8


def _holds(dtype: np.dtype[Any], least: float, most: float) -> bool:
    """Return whether a type of sums holds every number between two."""
    return dtype.kind == "f" or (np.iinfo(dtype).min <= least and most <= np.iinfo(dtype).max)


def _places(
    source: ZarrArray, axes: tuple[int, ...], data: ZarrArray, strides: tuple[int, ...], problems: list[Problem]
) -> tuple[Samples, ...] | None:
    """Return where samples stand by the convention, and where the generator puts them, or note a wrong shape."""
    before = len(problems)
    regular: list[npt.NDArray[np.int64] | None] = [None] * source.ndim
    early: list[npt.NDArray[np.int64] | None] = [None] * source.ndim
    for axis, size, stride in zip(axes, data.shape, strides, strict=True):
        length, dim = source.shape[axis], source.dims[axis]
        if not stride:
            if size != length:
                problems.append(Problem(data.name, f"size {length} along {dim!r} expected, found {size}"))
            continue
        whole = sample_positions(source.grid.axes[axis], length, stride)
        edges = source.grid.edges[axis]  # `open_foreign` has made sure that there are not too many
        # Chunks that are not whole at the array's end may have been dropped, and strides that are not.
        fewest = (int(np.searchsorted(edges, length, side="right")) - 1) // stride
        if not max(fewest, 1) <= size <= len(whole):
            expected = f"{fewest} to {len(whole)}" if fewest < len(whole) else str(fewest)
            problems.append(Problem(data.name, f"{expected} samples along {dim!r} expected, found {size}"))
            continue
        regular[axis] = whole[:size]
        # Over the first two chunks, then one more stride each.
        index = 2 + stride * np.arange(size)
        if index[-1] < len(edges) and stride > 2:
            early[axis] = np.minimum(edges[index], length)
        else:
            early[axis] = whole[:size]
    if len(problems) > before:
        return None
    return (tuple(regular), tuple(early)) if _differ(regular, early) else (tuple(regular),)


def _differ(one: list[Any], other: list[Any]) -> bool:
    return any(a is not None and not np.array_equal(a, b) for a, b in zip(one, other, strict=True))
