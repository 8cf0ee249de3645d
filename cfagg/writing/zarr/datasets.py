"""An xarray dataset as a Zarr store: each dask chunk becomes a chunk, even if their lengths differ."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from cfagg.errors import CfaggError, ConformError, OptionError, UnsupportedError
from cfagg.formats.zarr.attributes import group_attributes
from cfagg.formats.zarr.creating import document_bytes
from cfagg.formats.zarr.encoding import encoder, padded
from cfagg.formats.zarr.metadata import ZarrArray
from cfagg.formats.zarr.readers import rectilinear_note
from cfagg.model import Grid
from cfagg.runtime.budget import worker_count
from cfagg.runtime.threads import run_threads
from cfagg.writing.encodable import as_coordinates, check_type, encodable, of_one_type, of_their_type, with_gaps
from cfagg.writing.zarr.described import as_regular, described, fit, is_regular, named, planned, store_documents
from cfagg.writing.zarr.new_store import Keys, new_store
from cfagg.writing.zarr.own_source import refuse_own_source
from cfagg.writing.zarr.report import StoreReport

__all__ = ["write_dataset"]


def write_dataset(
    dataset: Any,
    target: str | os.PathLike[str],
    *,
    overwrite: bool = False,
    target_options: Mapping[str, Any] | None = None,
    workers: int | None = None,
) -> StoreReport:
    """Write an xarray dataset into a new store."""
    # Dask arrays are computed by the configured dask scheduler, and others are read by threads.
    import xarray

    lazy = [v._data for v in dataset.variables.values() if not v._in_memory]
    refuse_own_source(target, lazy, overwrite=overwrite)
    variables, attributes = xarray.conventions.encode_dataset_coordinates(dataset)
    jobs = [_job(name, variable) for name, variable in named(as_coordinates(variables), "dataset").items()]
    documents = {job.made.path: job.document for job in jobs}
    about = _attributes(attributes)
    with new_store(target, overwrite=overwrite, target_options=target_options) as place:
        computed = [job.computed(place.keys) for job in jobs if job.is_dask]
        sizes = [int(n) for found in _compute(computed) for n in np.asarray(found).reshape(-1) if n >= 0]
        tasks = (task for job in jobs if not job.is_dask for task in job.tasks(place.keys))
        with closing(run_threads(lambda task: task(), tasks, worker_count(workers), "write")) as results:
            sizes += results
        place.publish(store_documents(documents, about))
    notes = tuple(rectilinear_note(job.made.path) for job in jobs if not is_regular(job.made.grid))
    return StoreReport(target=place.path, variables=tuple(documents), chunks=len(sizes), stored=sum(sizes), notes=notes)


def _attributes(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """Return the attributes of the store; raise an error if JSON cannot represent them, before anything is computed."""
    found = group_attributes(attributes)
    try:
        document_bytes(found)
    except (TypeError, ValueError) as error:
        raise UnsupportedError(
            f"the attributes of the dataset cannot be written: {error}; delete or convert"
        ) from error
    return found


def _compute(arrays: list[Any]) -> tuple[Any, ...]:
    """Compute dask arrays in one go, so that shared inputs are computed only once."""
    if not arrays:
        return ()
    import dask

    found: tuple[Any, ...] = dask.compute(*arrays)
    return found


def _job(name: str, variable: Any) -> _Job:
    """Return the job that writes a variable."""
    from xarray.conventions import encode_cf_variable

    check_type(variable, name)
    given = encodable(with_gaps(variable), name)
    try:
        encoded = encode_cf_variable(given, name=name)
    except CfaggError:  # values cannot be read
        raise
    except (NotImplementedError, TypeError, ValueError) as error:  # raised for multi-indexes, for example
        raise UnsupportedError(f"variable {name!r} cannot be encoded: {error}") from error
    encoded = _as_booleans(of_their_type(encoded, given, name), given)
    if not encoded.chunks:
        encoded = of_one_type(encoded)
    dtype = encoded.dtype
    if dtype.kind in "UT":
        encoded = encoded.astype(object)
        dtype = np.dtype(object)
    if dtype.kind == "O" and not encoded.chunks and not all(isinstance(v, str) for v in encoded.values.flat):
        raise UnsupportedError(f"variable {name!r} holds objects other than strings, which cannot be written")
    grid = _grid(name, encoded, variable.encoding)
    native = dtype.newbyteorder("=")
    document = described(name, tuple(map(str, encoded.dims)), native, grid, encoded.attrs, None)
    return _Job(encoded, planned(name, document), document)


def _as_booleans(encoded: Any, given: Any) -> Any:
    """Return booleans, of which xarray's encoding makes the bytes that netCDF has instead, as they were."""
    if given.dtype.kind != "b" or encoded.dtype.kind == "b" or encoded.attrs.get("dtype") != "bool":
        return encoded
    made = encoded.astype(bool)
    made.attrs = {k: bool(v) if k == "_FillValue" else v for k, v in encoded.attrs.items() if k != "dtype"}
    return made


def _grid(name: str, variable: Any, encoding: Mapping[str, Any]) -> Grid:
    """Return the chunk grid of a variable: its dask chunks, or else the chunks it was read with."""
    shape = variable.shape
    if variable.chunks:
        if any(np.isnan(n) for sizes in variable.chunks for n in sizes):
            raise OptionError(
                f"variable {name!r} has chunks of unknown lengths; give arrays of dask themselves, as a mapping such "
                "as {'tas': (('time',), array)}, or find the lengths with array.compute_chunk_sizes()"
            )
        if 0 in shape:
            return Grid.regular(shape, [max(n, 1) for n in shape])
        return as_regular(Grid.from_sizes([n for n in sizes if n] for sizes in variable.chunks))
    preferred = encoding.get("preferred_chunks") or {}
    if 0 in shape or any(d not in preferred for d in variable.dims):
        return fit(Grid.regular(shape, [max(n, 1) for n in shape]), variable.dtype)
    sizes = []
    for d, n in zip(variable.dims, shape, strict=True):
        given = preferred[d]
        if isinstance(given, int) and given > 0:
            given = [given] * (n // given) + ([n % given] if n % given else [])
        # It was sliced after reading, or its encoding does not come from xarray's readers.
        if not isinstance(given, tuple | list) or not all(isinstance(m, int) for m in given) or sum(given) != n:
            return fit(Grid.regular(shape, [max(n, 1) for n in shape]), variable.dtype)
        sizes.append([m for m in given if m])
    return fit(as_regular(Grid.from_sizes(sizes)), variable.dtype)


@dataclass(frozen=True, eq=False)
class _Job:
    """An encoded variable and the array that will store it."""

    variable: Any
    made: ZarrArray
    document: dict[str, Any]

    @property
    def is_dask(self) -> bool:
        """Whether its values are computed by dask."""
        return bool(self.variable.chunks) and 0 not in self.made.shape

    def computed(self, keys: Keys) -> Any:
        """Return a dask array with one number per chunk: its stored bytes, once it is computed and written."""
        data = self.variable.data
        # Empty dask chunks are not chunks of the store.
        numbers = tuple(np.where(np.array(s) > 0, np.cumsum(np.array(s) > 0) - 1, -1) for s in data.chunks)
        ones = tuple((1,) * len(sizes) for sizes in data.chunks)
        return data.map_blocks(
            _write_block, keys, self.made, numbers, chunks=ones, dtype=np.int64, meta=np.empty((0,) * data.ndim, "i8"),
            # `map_blocks` names its result by its arguments, so a store written twice would be found in a cache, or in
            # the memory of a scheduler, and nothing would be written.
            name=f"write-{self.made.path}-{os.urandom(8).hex()}",
        )  # fmt: skip

    def tasks(self, keys: Keys) -> Iterator[_Block]:
        """Yield tasks that each write one chunk."""
        for index in itertools.product(*map(range, self.made.grid.matrix_shape)):
            yield _Block(self.variable, keys, self.made, index)


@dataclass(frozen=True, eq=False)
class _Block:
    """One chunk of a variable that is in memory or is read when indexed."""

    variable: Any
    keys: Keys
    made: ZarrArray
    index: tuple[int, ...]

    def __call__(self) -> int:
        """Write it and return its stored bytes."""
        box = tuple(slice(a, b) for a, b in self.made.grid.extent(self.index))
        return _put(np.asarray(self.variable[box].values), self.keys, self.made, self.index)


def _write_block(
    block: npt.NDArray[Any],
    keys: Keys,
    made: ZarrArray,
    numbers: tuple[npt.NDArray[np.int64], ...],
    block_info: Any = None,
) -> npt.NDArray[np.int64]:
    """Write one dask chunk; this is idempotent, as the same bytes are written under the same key."""
    place = block_info[0]["chunk-location"] if block_info else (0,) * len(numbers)
    index = tuple(int(n[k]) for n, k in zip(numbers, place, strict=True))
    size = -1 if -1 in index else _put(np.asarray(block), keys, made, index)
    return np.full((1,) * len(numbers), size, np.int64)


def _put(values: npt.NDArray[Any], keys: Keys, made: ZarrArray, index: tuple[int, ...]) -> int:
    """Encode and write one chunk."""
    if values.dtype.kind == "O" and not all(isinstance(v, str) for v in values.flat):
        raise UnsupportedError(f"variable {made.path!r} holds objects other than strings, which cannot be written")
    expected = tuple(b - a for a, b in made.grid.extent(index))
    if values.shape != expected:
        raise OptionError(
            f"variable {made.path!r}, chunk {index}: dask gave values of shape {values.shape}, expected {expected} by "
            "the lengths of its chunks; correct what made the array"
        )
    stored = np.dtype(object) if made.dtype.kind == "O" else made.dtype
    if not np.can_cast(values.dtype, stored, "equiv"):
        raise ConformError(
            f"variable {made.path!r}, chunk {index}: values are of type {values.dtype}, but Dask says {stored}; give "
            "Dask the type, or convert with astype"
        )
    data = encoder(made).encode(padded(values, made.grid.whole(index), made.fill_value))
    return keys.put(f"{made.path}/{made.key(index)}", data)
