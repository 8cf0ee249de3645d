"""Arrays of an accumulation that another program wrote: completeness, sample positions, and missing weights.

NASA's generator of accumulations writes some arrays with the filter ``accumulation_delta_filter``, as differences along
the accumulated dimension.  No Zarr library supports this filter, and its own decoder needs the shape of a chunk, which
is not passed to filters of Zarr v2; here the shape is taken from the metadata of the array.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from functools import cached_property
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from cfagg.accumulation.group import CellWeights
from cfagg.accumulation.integrity import find, parsed
from cfagg.accumulation.layout import Sums
from cfagg.accumulation.source import beside, read_cells
from cfagg.cf.roles import COMMON_NAMES, place_of
from cfagg.conventions.accumulation import Names
from cfagg.conventions.accumulation_model import Dims, sample_positions
from cfagg.conventions.findings import shorten
from cfagg.errors import FragmentReadError, Problem, UnsupportedError
from cfagg.formats.zarr.codecs import DamagedError, Decoder, decoder
from cfagg.formats.zarr.metadata import ZarrArray
from cfagg.formats.zarr.numeric import Step
from cfagg.formats.zarr.stamps import stamps

__all__ = ["Samples", "StoredSums", "find_latitude", "has_deltas", "newest", "read_stored_sums", "stored_type"]

#: The filter's name in ``.zarray``.
FILTER = "accumulation_delta_filter"


@dataclass(frozen=True, eq=False)
class DeltaArray(ZarrArray):
    """An array of sums that is stored as differences and read as sums, in float64 or int64."""

    @cached_property
    def decoder(self) -> Decoder | None:
        """The decoder of chunks, which undoes the other codecs and then adds up the differences."""
        first, *others = self.document["filters"]
        stored = np.dtype(self.document["dtype"])
        inner = _others(self.document, others, stored)
        if inner is None:  # `undo_deltas` has checked that there is one
            return None
        axis = _axis(first)
        shape = tuple(self.document["chunks"])

        def add_up(raw: Any, fewest: int, most: int) -> Any:  # noqa: ARG001
            deltas = elements(raw, stored, prod(shape)).reshape(shape)
            # In more digits than stored, so that adding up does not round again.
            return np.cumsum(deltas, axis=axis, dtype=self.dtype).view(np.uint8).reshape(-1)

        nbytes = prod(shape) * stored.itemsize
        return Decoder((*inner.steps, Step(add_up, lambda sizes: (nbytes, nbytes))), swap=False)  # noqa: ARG005


def elements(raw: Any, dtype: np.dtype[Any], count: int) -> npt.NDArray[Any]:
    """Return decoded bytes as `count` elements, or raise `DamagedError`."""
    found = memoryview(raw).nbytes
    if found != count * dtype.itemsize:
        raise DamagedError(f"it decodes to {found:,} bytes, expected {count * dtype.itemsize:,}")
    return np.frombuffer(raw, dtype)


def has_deltas(array: ZarrArray) -> bool:
    """Return whether an array is stored with the filter."""
    filters = array.document.get("filters")
    return array.zarr_format == 2 and any(isinstance(f, dict) and f.get("id") == FILTER for f in filters or ())


def stored_type(array: ZarrArray) -> np.dtype[Any]:
    """Return the dtype in which the elements of an array are stored, even if they are read in another."""
    return np.dtype(array.document["dtype"]) if isinstance(array, DeltaArray) else array.dtype


def undo_deltas(array: ZarrArray) -> ZarrArray:
    """Return an array that is read as sums if it is stored as their differences; any other array is unchanged."""
    if not has_deltas(array):
        return array
    first, *others = array.document["filters"]
    where = f"{array.store}: array {array.path!r}"
    if not isinstance(first, dict) or first.get("id") != FILTER or array.dtype.kind not in "iuf":
        raise UnsupportedError(
            f"{where}: the filter {FILTER} can only be read as the first filter of an array of numbers"
        )
    axis = _axis(first)
    if axis is None or axis >= array.ndim:
        raise UnsupportedError(f"{where}: the filter {FILTER} does not say its axis; found {shorten(first)}")
    if _others(array.document, others, array.dtype) is None:
        raise UnsupportedError(f"{where}: uses a codec besides {FILTER} that is not supported")
    wide = replace(array, dtype=np.dtype("f8" if array.dtype.kind == "f" else "i8"))
    return DeltaArray(**{f.name: getattr(wide, f.name) for f in fields(wide)})


def _others(document: Mapping[str, Any], filters: list[Any], dtype: np.dtype[Any]) -> Decoder | None:
    """Return the decoder of the other codecs, or `None` if one of them is not supported."""
    found = decoder({**document, "filters": filters}, 2, dtype)
    return None if found is None or found.order is not None else found


def _axis(filter_: dict[str, Any]) -> int | None:
    """Return the axis of the stored array along which differences are stored, the first one that is accumulated."""
    order, accumulated = filter_.get("accumulation_dim_order_idx"), filter_.get("accumulation_dimension")
    if not isinstance(order, list) or not isinstance(accumulated, list):
        return None
    return next((axis for axis, d in enumerate(order) if type(d) is int and d in accumulated), None)


def find_latitude(source: ZarrArray) -> CellWeights | None:
    """Return the cosine of the latitude along one of the dimensions, or `None` if no latitude is found."""
    for axis, (name, length) in enumerate(zip(source.dims, source.shape, strict=True)):
        coordinate = beside(source, name)
        if coordinate is None or coordinate.shape != (length,) or not _is_latitude(name, coordinate):
            continue
        try:
            found = np.cos(np.deg2rad(read_cells(coordinate, [(0, length)]).astype(np.float64)))
        except FragmentReadError:
            continue
        # The cosine at a pole may be slightly negative by rounding; cosines of longitudes are clearly negative.
        if np.isfinite(found).all() and (found >= -1e-7).all():
            found.flags.writeable = False
            return CellWeights((axis,), given=found, latitude=coordinate.name)
    return None


def _is_latitude(name: str, coordinate: ZarrArray) -> bool:
    """Return whether a coordinate is a latitude by its name or attributes, and stored in unpacked degrees."""
    named = COMMON_NAMES.get(name.lower()) == "latitude" or place_of(coordinate.attributes) == "latitude"
    return named and coordinate.dtype.kind in "iuf" and "scale_factor" not in coordinate.attributes


Samples = tuple[npt.NDArray[np.int64] | None, ...]


@dataclass(frozen=True)
class StoredSums:
    """The well-formed sums of one combination, and the possible positions of its samples, likeliest first."""

    arrays: Sums[ZarrArray]
    places: tuple[Samples, ...]


def read_stored_sums(
    source: ZarrArray,
    dtype: np.dtype[Any],
    path: str,
    combination: Dims,
    names: Names,
    weighted: bool,
    problems: list[Problem],
) -> StoredSums | None:
    """Return the arrays and possible sample positions of one combination of data read as `dtype`, or note problems."""
    label = "+".join(combination)
    data_name = names.weighted if weighted else names.unweighted
    if data_name is None or (names.weights is None and weighted):
        kinds = f"{'_DATA_WEIGHTED' if weighted else '_DATA_UNWEIGHTED'} and _WEIGHTS"
        problems.append(Problem(label, f"expected {kinds}, found {' and '.join(names.as_dict())}"))
        return None
    opened = [_open(source, path, combination, n, problems) for n in (data_name, names.weights) if n is not None]
    found = [pair for pair in opened if pair is not None]
    if len(found) < len(opened):
        return None
    (data, stride), counts = found[0], found[1][0] if len(found) > 1 else None
    before = len(problems)
    if counts is not None and (data.dims, data.shape, stride) != (counts.dims, counts.shape, found[1][1]):
        what = f"dimensions {counts.dims}, shape {counts.shape} and strides {found[1][1]}"
        expected = f"{data.dims}, {data.shape} and {stride} like {data_name!r}"
        problems.append(Problem(counts.name, f"{what}, not {expected}"))
    # Sums of weights may be integers if these hardly overflow.
    elif weighted and (
        data.dtype.kind != "f" or (counts is not None and counts.dtype.kind != "f" and counts.dtype.itemsize < 8)
    ):
        whole = next(a.dtype.name for a, _ in found if a.dtype.kind != "f")
        problems.append(Problem(label, f"weighted sums that were truncated to whole numbers ({whole}) are of no use"))
    else:
        # Sums of real numbers need no check, since their range is not limited.
        info = None if dtype.kind == "f" else np.iinfo(dtype)
        least, most = (0, 0) if info is None else (int(info.min), int(info.max))
        for (array, _), low, high in zip(found, (least, 0), (most, 1), strict=False):
            size = None if array.dtype.kind == "f" else np.iinfo(array.dtype)
            if size is not None and not (size.min <= low * source.size and high * source.size <= size.max):
                message = f"sums may exceed {array.dtype.name}, and an overflow could not be detected"
                problems.append(Problem(array.name, message))
                return None
    if len(problems) > before:
        return None
    axes = tuple(source.dims.index(d) for d in data.dims)
    places = _places(source, axes, data, stride, problems)
    for array, _ in found if places is not None else ():
        if absent := int((stamps(array)[:, 0] < 0).sum()):
            are = "is" if absent == 1 else "are"
            message = f"{absent} of {array.objects.size} chunks {are} absent: never written, or zeros"
            problems.append(Problem(array.name, message))
    if places is None or len(problems) > before:
        return None
    kept = {"data": data} | ({} if counts is None else {"weights" if weighted else "counts": counts})
    return StoredSums(Sums(axes, kept), places)


def _open(
    source: ZarrArray, path: str, combination: Dims, name: str, problems: list[Problem]
) -> tuple[ZarrArray, tuple[int, ...]] | None:
    """Return an array of sums that fits the group, and its strides, or note why it does not fit."""
    array = find(source, path, name, problems)
    attributes = None if array is None else parsed(array, source.dims, combination, problems)
    if array is None or attributes is None:
        return None
    try:
        array = undo_deltas(array)
    except UnsupportedError as error:
        problems.append(Problem(name, str(error)))
        return None
    if array.dtype.kind not in "iuf":
        problems.append(Problem(name, f"expected numbers, found {array.dtype.name}"))
        return None
    return array, attributes.stride


def newest(array: ZarrArray) -> int:
    """Return the time at which the newest stored object of an array was written, in nanoseconds."""
    return int(stamps(array)[:, 1].max(initial=0))


def _places(
    source: ZarrArray, axes: tuple[int, ...], data: ZarrArray, strides: tuple[int, ...], problems: list[Problem]
) -> tuple[Samples, ...] | None:
    """Return sample positions by the convention and as the generator writes them, or note a wrong shape."""
    before = len(problems)
    regular: list[npt.NDArray[np.int64] | None] = [None] * source.ndim
    early: list[npt.NDArray[np.int64] | None] = [None] * source.ndim
    for axis, size, stride in zip(axes, data.shape, strides, strict=True):
        length, dim = source.shape[axis], source.dims[axis]
        if not stride:
            if size != length:
                problems.append(Problem(data.name, f"expected size {length} along {dim!r}, found {size}"))
            continue
        whole = sample_positions(source.grid.axes[axis], length, stride)
        edges = source.grid.edges[axis]  # `open_foreign` has checked that there are not too many
        # Partial chunks and strides at the end of the array may have been dropped.
        fewest = (int(np.searchsorted(edges, length, side="right")) - 1) // stride
        if not max(fewest, 1) <= size <= len(whole):
            expected = f"{fewest} to {len(whole)}" if fewest < len(whole) else str(fewest)
            problems.append(Problem(data.name, f"expected {expected} samples along {dim!r}, found {size}"))
            continue
        regular[axis] = whole[:size]
        # The first sample covers two chunks, each following one another stride.
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
