"""Writing the file of a conversion to netCDF-4: the netCDF library defines it, and a few threads write values.

Chunks that use only shuffle and deflate are compressed by these threads and stored directly; everything else is written
through the library, one thread at a time. Memory is bounded as in `cfagg.conversion.run`: one slab per thread.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from cfagg.conversion.netcdf_plan import NetcdfGroup, NetcdfPlan, NetcdfVariable
from cfagg.conversion.request import Request
from cfagg.conversion.slab_reading import Scratch, read_slab
from cfagg.conversion.slab_writer import Task
from cfagg.conversion.staged import Staged, staged
from cfagg.errors import TargetError, UnsupportedError
from cfagg.formats.fastzlib import deflate
from cfagg.formats.values.locks import LIBRARY
from cfagg.formats.values.netcdf4_names import stored_paths
from cfagg.formats.zarr.written_codecs import content_checksum
from cfagg.runtime.netcdf_files import closing_written, created, failures_of_hdf5
from cfagg.runtime.publishing import sync_file
from cfagg.runtime.threads import run_threads
from cfagg.writing.netcdf import check_texts, define, locked, set_attributes

__all__ = ["write_file"]

#: Size in bytes of the library's chunk cache of a variable: slabs are whole chunks, so that it needs to cache none.
_CACHE = 1 << 20

#: HDF5 filter numbers.
_DEFLATE, _SHUFFLE = 1, 2

Write = Callable[[NetcdfVariable, tuple[slice, ...], npt.NDArray[Any]], None]


def write_file(plan: NetcdfPlan, path: Path, request: Request) -> None:
    """Write all of a plan into a new file, forced to disk, and read it back if verification was requested.

    The directory of the file belongs to this run only; intermediate data are written there.
    """
    with staged([v.array for v in plan.variables], request, path.with_name("file.scratch")) as made:
        variables = tuple(replace(v, array=a) for v, a in zip(plan.variables, made.arrays, strict=True))
        _write(plan.root, path, _Job(variables, made, verify=request.verify))


def _write(root: NetcdfGroup, path: Path, job: _Job) -> None:
    import netCDF4

    variables = job.variables
    packed = {i for i, v in enumerate(variables) if _is_packed_here(v)}
    with locked(lambda: closing_written(created(lambda: netCDF4.Dataset(path, "w"), path), path)) as file:
        with LIBRARY:
            _define(file, root)
        job.run([i for i in range(len(variables)) if i not in packed], _Through(file, variables))
    if packed:
        with failures_of_hdf5(path), locked(lambda: closing(_opened(path))) as file:
            job.run(sorted(packed), _Packing(file, variables))
            with LIBRARY:
                file.flush()
        with path.open("rb") as same:
            sync_file(same.fileno())
    if job.is_verified:
        with locked(lambda: closing(netCDF4.Dataset(path))) as file:
            job.verify(_flat(file), path)


def _opened(path: Path) -> Any:
    """Return a file created by the netCDF library, opened by HDF5 only."""
    import h5py

    return h5py.File(path, "r+")


def _define(file: Any, group: NetcdfGroup) -> None:
    """Define a group with all its descendants."""
    for name, size in group.dimensions.items():
        file.createDimension(name, None if name in group.unlimited else size)
    set_attributes(file, group.attributes)
    for one in group.variables:
        storage: dict[str, Any] = {"contiguous": True} if one.chunks is None else {"chunksizes": one.chunks}
        dtype = as_stored(one)
        # The library would enable shuffle by default.
        filters = {"shuffle": False, **one.filters}
        made = define(file, one.name, one.dims, dtype, one.attributes, **(storage | filters if one.dims else {}))
        if one.chunks is not None:
            made.set_var_chunk_cache(_CACHE, 1009, 1.0)
    for inner in group.groups:
        _define(file.createGroup(inner.name), inner)


def as_stored(one: NetcdfVariable) -> np.dtype[Any]:
    """Return the type of a variable in the file: for Booleans and half floats, the next larger netCDF type."""
    dtype = one.array.dtype
    if dtype.kind == "b":
        return np.dtype("i1")
    return np.dtype("f4") if dtype == np.float16 else dtype


def _is_packed_here(one: NetcdfVariable) -> bool:
    """Whether the chunks of a variable are compressed without the library."""
    return one.chunks is not None and one.array.dtype.kind != "O" and not one.filters.get("fletcher32")


class _Job:
    """The slabs of all variables, and what was written for each."""

    def __init__(self, variables: Sequence[NetcdfVariable], made: Staged, *, verify: bool) -> None:
        self.variables, self.slabs, self.threads, self.is_verified = variables, made.slabs, made.threads, verify
        self.progress = made.progress
        self.total = sum(v.array.nbytes for v in variables)
        self.done = 0
        self.checksums: dict[tuple[int, int], int] = {}
        self._scratch = Scratch()
        if self.progress is not None:
            self.progress(0, self.total)

    def run(self, numbers: Sequence[int], write: Write) -> None:
        """Read and write the slabs of some variables."""
        stop = threading.Event()
        todo: Iterator[Task] = (
            Task(i, k) for i in numbers for k in range(len(self.slabs[i])) if 0 not in self.variables[i].array.shape
        )

        def work(task: Task) -> tuple[Task, int, int]:
            one = self.variables[task.array]
            extent = self.slabs[task.array].extent(task.slab)
            values = read_slab(one.array, extent, self._scratch)
            if not stop.is_set():
                write(one, extent, _texts(one, values))
            return task, values.nbytes, content_checksum(_texts(one, values)) if self.is_verified else 0

        with closing(run_threads(work, todo, self.threads, "convert", stop)) as results:
            for task, count, checksum in results:
                self.done += count
                if self.is_verified:
                    self.checksums[task.array, task.slab] = checksum
                if self.progress is not None:
                    self.progress(self.done, self.total)

    def verify(self, found: dict[str, Any], path: Path) -> None:
        """Compare the values read by the netCDF library with those written."""
        for (i, k), checksum in self.checksums.items():
            one, extent = self.variables[i], self.slabs[i].extent(k)
            with LIBRARY:
                values = np.asarray(found[one.array.path][extent or ...])
            if content_checksum(values) != checksum:
                raise TargetError(
                    f"{path.name}: variable {one.array.path!r}, {extent}: what was read back differs from what was "
                    "written; check the disk and convert again"
                )


def _texts(one: NetcdfVariable, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return values in the type of the file; raise an error for texts that it would truncate."""
    check_texts(values, one.array.path)
    return values if values.dtype.kind == "O" else values.astype(as_stored(one), copy=False)


def _flat(group: Any) -> dict[str, Any]:
    """Return all variables of a `netCDF4.Dataset` by their paths, each without masking and scaling."""
    found = {}
    for variable in group.variables.values():
        variable.set_auto_maskandscale(False)
        variable.set_auto_chartostring(False)
        found[f"{group.path.strip('/')}/{variable.name}".lstrip("/")] = variable
    for inner in group.groups.values():
        found |= _flat(inner)
    return found


class _Through:
    """Writes with the netCDF library."""

    def __init__(self, file: Any, variables: Sequence[NetcdfVariable]) -> None:
        with LIBRARY:
            found = _flat(file)
            self._variables = {v.array.path: found[v.array.path] for v in variables}

    def __call__(self, one: NetcdfVariable, extent: tuple[slice, ...], values: npt.NDArray[Any]) -> None:
        with LIBRARY:
            self._variables[one.array.path][extent or ...] = values


class _Packing:
    """Compresses chunks and stores them directly."""

    def __init__(self, file: Any, variables: Sequence[NetcdfVariable]) -> None:
        self._scratch = Scratch()
        self._datasets, self._encoders = {}, {}
        with LIBRARY:
            for one in variables:
                if _is_packed_here(one):
                    path = one.array.path
                    # A variable with the name of a dimension that is not its own is stored under another name.
                    dataset = file[next(p for p in reversed(stored_paths(path)) if p in file)]
                    if dataset.shape != one.array.shape:
                        dataset.resize(one.array.shape)  # for an unlimited dimension
                    self._datasets[path] = dataset.id
                    self._encoders[path] = _encoder(dataset)

    def __call__(self, one: NetcdfVariable, extent: tuple[slice, ...], values: npt.NDArray[Any]) -> None:
        path, array = one.array.path, one.array
        dataset, encode = self._datasets[path], self._encoders[path]
        lengths = one.chunks or ()
        first = tuple(e.start for e in extent)
        counts = [range(0, n, c) for n, c in zip(values.shape, lengths, strict=True)]
        for index in np.ndindex(*map(len, counts)):
            at = tuple(r[i] for r, i in zip(counts, index, strict=True))
            part = values[tuple(slice(a, a + c) for a, c in zip(at, lengths, strict=True))]
            if part.shape != lengths:
                whole = self._scratch.array("chunk", lengths, values.dtype)
                whole[...] = array.padding
                whole[tuple(slice(n) for n in part.shape)] = part
                part = whole
            stored = encode(np.ascontiguousarray(part))
            with LIBRARY:
                dataset.write_direct_chunk(tuple(a + b for a, b in zip(first, at, strict=True)), stored)


def _encoder(dataset: Any) -> Callable[[npt.NDArray[Any]], Any]:
    """Return the encoder of C-contiguous chunks of a dataset, using only what the file records for its readers."""
    given = dataset.id.get_create_plist()
    found = {number: values for number, _, values, _ in (given.get_filter(k) for k in range(given.get_nfilters()))}
    shuffle, level = found.pop(_SHUFFLE, None), found.pop(_DEFLATE, None)
    if found:
        raise UnsupportedError(f"variable {dataset.name!r} has filters that are not packed here: {sorted(found)}")

    def encode(chunk: npt.NDArray[Any]) -> Any:
        raw: Any = chunk.reshape(-1).view(np.uint8)
        if shuffle is not None and chunk.itemsize > 1:
            raw = np.ascontiguousarray(raw.reshape(-1, chunk.itemsize).T).reshape(-1)
        return raw if level is None else deflate(raw, level[0])

    return encode
