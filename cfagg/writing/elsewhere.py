"""Other arrays as aggregations, whose fragments exist in files or are yet to be written."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from cfagg.arrays.aggregated import AggregationReader
from cfagg.arrays.chunked import ZarrReader
from cfagg.arrays.reader import Reader
from cfagg.arrays.slabs import SlabReader
from cfagg.arrays.stored import NetcdfReader
from cfagg.errors import LimitError
from cfagg.model import Aggregation, Grid, Layout, Partitions, Regular
from cfagg.storage.access import Access
from cfagg.writing import dialects
from cfagg.writing.content import Aggregated, Read
from cfagg.writing.references import home_of

__all__ = ["as_netcdf", "computed", "elsewhere", "is_elsewhere", "is_referable", "storage_of"]

#: Size in bytes of one fragment of an array that has neither dask chunks nor partitions.
_FRAGMENT = 2**28

#: Maximum number of fragments written for one array: more are hardly intended, but small metadata can request them.
_MOST = 2**20

#: Attributes that apply to stored (packed) values.
_OF_STORED = ("_FillValue", "missing_value", "valid_min", "valid_max", "valid_range", "_Unsigned", "actual_range")


def elsewhere(name: str, dims: tuple[str, ...], reader: Reader, attributes: Mapping[str, Any], to: str) -> Aggregated:
    """Return a variable of another file as an aggregation of it, or of its values if the dialect cannot refer to it."""
    if isinstance(reader, NetcdfReader):
        return _referring(name, dims, reader, attributes)
    dtype, read, attributes = as_netcdf(reader.dtype, reader.read, attributes)
    grid = None
    if isinstance(reader, SlabReader) and reader.addresses is not None:
        path, grid, addresses = reader.addresses()
        if addresses is not None and dialects.has_addresses(to):
            found = Partitions.build(
                grid.size, file=0, files=[path], offset=addresses, layouts=[Layout(dims, format="PP")]
            )
            whole = _aggregation(name, dims, dtype, grid, found, attributes)
            return Aggregated(whole, home_of(path), read)
    axis = reader.grid.axes[0]
    chunk = axis.chunk if isinstance(axis, Regular) else 1
    fragments = computed(name, dims, reader.shape, dtype, attributes, read, grid, chunk)
    return replace(fragments, storage=storage_of(reader, dtype))


def is_referable(dims: Sequence[Hashable]) -> bool:
    """Return whether an aggregation can have these dimensions: some, and none of them twice."""
    return 0 < len(dims) == len(set(dims))


def storage_of(reader: Reader | None, dtype: np.dtype[Any]) -> Mapping[str, Any]:
    """Return how netCDF stores a Zarr array: in its chunks if they are equal, and deflated if it is compressed."""
    if not isinstance(reader, ZarrReader) or not reader.shape or dtype.kind == "O":
        return {}
    decoder = reader.array.decoder
    found: dict[str, Any] = {}
    if decoder is None or decoder.steps:
        found = {"zlib": True, "complevel": 1, "shuffle": dtype.itemsize > 1}
    chunks = tuple(axis.chunk for axis in reader.grid.axes if isinstance(axis, Regular))
    return found | {"chunksizes": chunks} if len(chunks) == len(reader.shape) else found


def is_elsewhere(reader: Reader, to: str) -> bool:
    """Return whether the values of a variable are in a netCDF or PP file to which a dialect can refer."""
    if isinstance(reader, SlabReader) and reader.addresses is not None:
        return dialects.has_addresses(to)
    return isinstance(reader, NetcdfReader)


def computed(
    name: str,
    dims: tuple[str, ...],
    shape: tuple[int, ...],
    dtype: np.dtype[Any],
    attributes: Mapping[str, Any],
    read: Read,
    grid: Grid | None,
    chunk: int = 1,
) -> Aggregated:
    """Return an array whose values are in no file, with the cells of a grid as fragments."""
    # Without a grid, fragments divide the first dimension, if possible into multiples of chunks of length `chunk`.
    if grid is None:
        step = max(1, _FRAGMENT // max(1, math.prod(shape[1:]) * dtype.itemsize))
        step -= step % chunk if chunk <= step else 0
        if (count := -(-shape[0] // step)) > _MOST:
            raise LimitError(
                f"variable {name!r}: an array of shape {shape} would get {count:,} fragments, each a file; at most "
                f"{_MOST:,} are written: convert it to Zarr, or in parts"
            )
        first = [min(step, shape[0] - i) for i in range(0, shape[0], step)]
        grid = Grid.from_sizes([first, *([n] if n else [] for n in shape[1:])])
    none = Partitions.build(grid.size, layouts=[Layout(dims)], present=False)
    return Aggregated(_aggregation(name, dims, dtype, grid, none, attributes), "/", read, computed=True)


def as_netcdf(
    dtype: np.dtype[Any], read: Read, attributes: Mapping[str, Any]
) -> tuple[np.dtype[Any], Read, Mapping[str, Any]]:
    """Return the type, reader and attributes of an array as netCDF can hold it: Booleans as xarray stores them."""
    if dtype.kind == "b":
        return np.dtype("i1"), lambda slices: read(slices).astype("i1"), {**attributes, "dtype": "bool"}
    if dtype.kind in "OUT" and (dtype.metadata or {"element_type": str}).get("element_type") is str:
        return np.dtype(object), lambda slices: read(slices).astype(object), attributes
    return dtype, read, attributes


def _referring(name: str, dims: tuple[str, ...], reader: NetcdfReader, attributes: Mapping[str, Any]) -> Aggregated:
    """Return a variable of a netCDF file as an aggregation of one fragment."""
    others = dict(attributes)
    path = str(reader.path)
    grid = Grid([[0, n] if n else [0] for n in reader.shape])
    address = f"{reader.group.strip('/')}/{reader.variable}".lstrip("/")
    made = Partitions.build(grid.size, file=0, address=0, files=[path], addresses=[address], layouts=[Layout(dims)])
    # The unpacked values of a fragment are not packed again.
    packed = [others.pop(k, None) for k in ("scale_factor", "add_offset")]
    dtype = reader.dtype
    if any(value is not None for value in packed):
        dtype = np.result_type(np.float32, *(np.asarray(v).dtype for v in packed if v is not None))
        others = {k: v for k, v in others.items() if k not in _OF_STORED}
    aggregation = _aggregation(name, dims, dtype, grid, made, others)
    reads = AggregationReader(replace(aggregation, source=path), Access(path))
    return Aggregated(aggregation, home_of(path), reads.read)


def _aggregation(
    name: str,
    dims: tuple[str, ...],
    dtype: np.dtype[Any],
    grid: Grid,
    partitions: Partitions,
    attributes: Mapping[str, Any],
) -> Aggregation:
    """Return an aggregation; its units and calendar come from the attributes if they are texts there."""
    others = dict(attributes)
    units, calendar = (others.pop(k) if isinstance(others.get(k), str) else None for k in ("units", "calendar"))
    return Aggregation(name, dims, grid.shape, dtype, grid, partitions, units, calendar, attributes=others)
