"""Reading variables whose values are in their own file, as stored: no masking, no scaling."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from cfagg.arrays.blocks import Work
from cfagg.arrays.plan import Plan
from cfagg.arrays.reader import Reader, whole
from cfagg.arrays.slabs import VariableReader
from cfagg.arrays.subarray import Fragment
from cfagg.errors import AccessError
from cfagg.formats.values import locate, read, scan
from cfagg.storage.files import CONTEXT_SOURCE
from cfagg.storage.handles import handles
from cfagg.storage.urls import absolute

__all__ = ["NetcdfReader", "RefusedReader"]


class NetcdfReader(VariableReader):
    """A variable of a netCDF file, in the group at a path."""

    def __init__(self, path: str | os.PathLike[str], group: str, variable: str, *, workers: int | None = None) -> None:
        self.path = absolute(os.fspath(path))
        self.group = group
        self.variable = variable
        self.workers = workers
        self.label = f"file {self.path}, variable {variable!r}"
        located = locate(self.path, variable, CONTEXT_SOURCE, group)
        self._describe(located.header)
        self.chunks, self.encoding = located.chunks, located.encoding
        self.other_filters = located.other_filters
        self.grid = whole(self.shape)

    def __repr__(self) -> str:
        return f"<NetcdfReader of {self.variable!r} {self.shape} {self.dtype}>"

    def stored_boxes(self, sparse: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]] | None:
        """Return the bounds of the written chunks, if these are few of many."""
        from cfagg.arrays.index.tables import few_chunks

        located = locate(self.path, self.variable, CONTEXT_SOURCE, self.group)
        table = few_chunks(located, handles.get(self.path), CONTEXT_SOURCE, sparse)
        if table is None:
            return None
        lengths = np.array(located.chunks)
        starts = np.stack(np.unravel_index(table.cell, table.grid.matrix_shape), axis=1).astype(np.int64) * lengths
        return starts, np.minimum(starts + lengths, self.shape)

    def _fragment(self) -> Fragment:
        located = locate(self.path, self.variable, CONTEXT_SOURCE, self.group)
        return Fragment(
            located.header,
            located.chunks,
            lambda slices: read(located, slices, CONTEXT_SOURCE),
            self.label,
            lambda slices: scan(located, slices, CONTEXT_SOURCE),
        )


class RefusedReader(Reader):
    """An ordinary variable whose values may not be read: requesting any raises the reason."""

    def __init__(self, dims: tuple[str, ...], shape: tuple[int, ...], dtype: np.dtype[Any], error: AccessError) -> None:
        self.dims, self.shape, self.dtype, self.attributes, self.encoding = dims, shape, dtype, {}, {}
        self.error = error
        self.workers, self.label = 1, error.message
        self.grid = whole(shape)

    def read(self, selection: Any, out: npt.NDArray[Any] | None = None) -> npt.NDArray[Any]:  # noqa: ARG002
        """Raise the reason why it may not be read."""
        raise AccessError(self.error.message)

    def _blocks(self, made: Plan, out: npt.NDArray[Any]) -> Iterator[Work]:  # noqa: ARG002
        raise AccessError(self.error.message)
