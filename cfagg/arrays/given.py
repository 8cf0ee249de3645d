"""Readers of arrays passed as objects: in memory, of dask, and of zarr-python."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from cfagg.arrays.blocks import Work, place
from cfagg.arrays.plan import Plan
from cfagg.arrays.reader import Reader, whole
from cfagg.errors import CfaggError, OptionError, StaleError
from cfagg.model import Grid

__all__ = ["DaskReader", "MemoryReader", "reader_of"]


def reader_of(array: Any, where: str) -> Reader:
    """Return the reader of an array of NumPy, dask or zarr-python; `where` is its name in messages."""
    module = type(array).__module__.partition(".")[0]
    if module == "zarr" and hasattr(array, "store_path") and hasattr(array, "shape"):
        return _of_zarr(array, where)
    if module == "xarray":
        raise OptionError(
            f"{where} is an xarray object, whose values may be decoded: give {where}.data, join datasets by "
            "xarray.concat, or open what is stored with cfagg.open_array"
        )
    if hasattr(array, "__dask_graph__") and hasattr(array, "numblocks"):
        return DaskReader(array, where)
    if isinstance(array, np.ma.MaskedArray):
        raise OptionError(f"{where} is a masked array; give its values with array.filled(value)")
    if isinstance(array, np.ndarray):
        return MemoryReader(array, where)
    raise OptionError(
        f"{where} is an object of type {type(array).__name__}; expected an array that cfagg.open_array opened, or one "
        "of zarr-python, dask or NumPy"
    )


class _Given(Reader):
    """An array without names and attributes."""

    def _describe(self, shape: tuple[int, ...], dtype: np.dtype[Any], where: str) -> None:
        self.shape = tuple(int(n) for n in shape)
        self.dims = tuple(f"dim_{d}" for d in range(len(self.shape)))
        self.dtype = np.dtype(object) if dtype.kind in "UT" else np.dtype(dtype).newbyteorder("=")
        self.attributes: Mapping[str, Any] = {}
        self.encoding: dict[str, Any] = {}
        self.label = where

    def chunks_at(self, index: tuple[int, ...]) -> tuple[int, ...] | None:  # noqa: ARG002
        """Return lengths that no chunk exceeds: its elements are read together."""
        return self.shape


class MemoryReader(_Given):
    """An array in memory."""

    is_bare = True

    def __init__(self, array: npt.NDArray[Any], where: str) -> None:
        self._describe(array.shape, array.dtype, where)
        self._array, self.grid = array, whole(array.shape)

    def chunks_at(self, index: tuple[int, ...]) -> None:
        """Return that elements are read singly."""

    def _blocks(self, made: Plan, out: npt.NDArray[Any]) -> Iterator[Work]:
        for k in range(len(made)):
            yield partial(place, out, made.target(k), partial(_take, self._array, made.source(k)))


class DaskReader(_Given):
    """An array of dask, which is computed block by block by threads of this process."""

    is_bare = True

    def __init__(self, array: Any, where: str) -> None:
        if any(math.isnan(n) for sizes in array.chunks for n in sizes):
            raise OptionError(
                f"{where} has chunks of unknown lengths; find them with array.compute_chunk_sizes(), or write it with "
                "cfagg.write, which does not need them"
            )
        self._describe(array.shape, array.dtype, where)
        self._array = array
        self.grid = Grid.from_sizes([n for n in sizes if n] for sizes in array.chunks)

    def _blocks(self, made: Plan, out: npt.NDArray[Any]) -> Iterator[Work]:
        for k in range(len(made)):
            yield partial(self._compute, made, k, out)

    def _compute(self, made: Plan, k: int, out: npt.NDArray[Any]) -> None:
        found = self._array
        for d, (s, (start, stop)) in enumerate(zip(made.source(k), self.grid.extent(made.index(k)), strict=True)):
            part: Any = slice(s.start + start, min(s.stop + start, stop), s.step) if isinstance(s, slice) else s + start
            found = found[(slice(None),) * d + (part,)]
        values = np.asarray(found.compute(scheduler="threads"))
        place(out, made.target(k), partial(_put, values))


def _take(array: npt.NDArray[Any], source: Sequence[Any], view: npt.NDArray[Any]) -> None:
    for d, s in enumerate(source):
        array = array[(slice(None),) * d + (s,)]
    view[...] = array


def _put(values: npt.NDArray[Any], view: npt.NDArray[Any]) -> None:
    view[...] = values


def _of_zarr(array: Any, where: str) -> Reader:
    """Return the reader of an array of zarr-python: cfagg's own if it can decode the chunks."""
    from zarr.storage import LocalStore

    from cfagg.arrays.chunked import ZarrReader
    from cfagg.formats.zarr.metadata import array_of, open_array

    try:
        if type(array.store) is LocalStore:
            found = open_array(os.path.abspath(array.store.root), array.path)  # noqa: PTH100
        else:
            store = _Store(array.store)
            found = array_of(str(array.store), array.path, store.read, store)
    except (CfaggError, NotImplementedError):
        found = None
    if found is not None and found.decoder is not None:
        if found.shape != tuple(array.shape):
            raise StaleError(
                f"{where} has shape {array.shape}, but {found.shape} in its store: it has been written since it was "
                "opened; open it again"
            )
        return ZarrReader(replace(found, attributes=found.known_attributes))
    return _ByZarr(array, where)


class _Store:
    """The bytes of a store of zarr-python."""

    def __init__(self, store: Any) -> None:
        self._store = store

    def read(self, key: str) -> bytes | None:
        """Return the value of a key."""
        from zarr.core.buffer import default_buffer_prototype
        from zarr.core.sync import sync

        found: Any = sync(self._store.get(key, default_buffer_prototype()))
        return None if found is None else bytes(found.to_bytes())

    def __call__(self, path: str) -> tuple[Any, int, tuple[int, ...]] | None:
        """Open the object at a path, as `cfagg.formats.zarr.metadata.Opens`."""
        from cfagg.formats.zarr.remote import number_of

        found = self.read(path[len(str(self._store)) + 1 :])
        if found is None:
            return None
        return lambda count, offset: found[offset : offset + count], len(found), (number_of(found), len(found))


class _ByZarr(_Given):
    """An array that zarr-python decodes."""

    def __init__(self, array: Any, where: str) -> None:
        self._describe(array.shape, array.dtype, where)
        known = dict(array.attrs)
        if array.metadata.zarr_format == 2:
            names, fill = known.pop("_ARRAY_DIMENSIONS", None), array.fill_value
            if fill is not None and self.dtype.kind in "OS":
                known.setdefault(
                    "_FillValue", fill.decode("utf-8", "replace") if isinstance(fill, bytes) else str(fill)
                )
        else:
            names = array.metadata.dimension_names
        self.attributes = known
        if names and isinstance(names, list | tuple) and all(isinstance(n, str) for n in names):
            self.dims = tuple(names)
        self._array = array
        sizes = [[n for n in edges if n] for edges in array.write_chunk_sizes]
        self.grid = Grid.from_sizes(sizes) if all(sizes) else whole(self.shape)

    def _blocks(self, made: Plan, out: npt.NDArray[Any]) -> Iterator[Work]:
        for k in range(len(made)):
            yield partial(self._read, made, k, out)

    def _read(self, made: Plan, k: int, out: npt.NDArray[Any]) -> None:
        box = [slice(a, b) for a, b in self.grid.extent(made.index(k))]
        values = np.asarray(self._array[tuple(box)])
        place(out, made.target(k), partial(_take, values, made.source(k)))
