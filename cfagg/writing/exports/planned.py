"""Arrays in the form that exports write: references to chunks in other files, and written chunks."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from cfagg.findings.losses import Loss
from cfagg.model import Grid, Regular
from cfagg.model.chunks import Codec
from cfagg.storage.files import FileKey

__all__ = ["Node", "Planned", "References"]

Int64 = npt.NDArray[np.int64]


@dataclass(frozen=True)
class References:
    """Chunks in other files: one column for each property, in increasing order of cells."""

    cell: Int64
    file: Int64
    offset: Int64
    length: Int64
    files: tuple[FileKey, ...] = ()

    @classmethod
    def none(cls) -> References:
        """Return an empty set of references."""
        empty = np.empty(0, np.int64)
        return cls(empty, empty, empty, empty)


@dataclass(frozen=True)
class Planned:
    """One array: `fill` is its missing value, `unstored` the value of chunks that are not stored.

    `written` are cells whose values are stored in the target; `read` returns them for one slice per dimension.
    """

    path: str
    dims: tuple[str, ...]
    shape: tuple[int, ...]
    dtype: np.dtype[Any]  # in the byte order of the stored values
    attributes: Mapping[str, Any]
    fill: Any
    unstored: Any
    grid: Grid
    codecs: tuple[Codec, ...]
    references: References
    written: Int64
    read: Callable[[tuple[slice, ...]], npt.NDArray[Any]]
    partitions: int = 0
    losses: tuple[Loss, ...] = ()  # of values, which may be written instead
    notes: tuple[str, ...] = ()
    writable: bool = True  # whether its values can be written instead of referred to
    dropped: tuple[Loss, ...] = ()  # attributes that are left out

    @property
    def is_regular(self) -> bool:
        """Whether all chunks have the same shape."""
        return all(isinstance(axis, Regular) for axis in self.grid.axes)

    @property
    def written_bytes(self) -> int:
        """The size in bytes of the values of the written cells."""
        return sum(math.prod(self.grid.whole(self.grid.index(c))) for c in self.written.tolist()) * self.dtype.itemsize

    def chunk(self, cell: int) -> npt.NDArray[Any]:
        """Return the values of a written cell in the shape of its chunk, with filler beyond the edge of the array."""
        index = self.grid.index(cell)
        extent = self.grid.extent(index)
        found = self.read(tuple(slice(a, b) for a, b in extent))
        if found.dtype.kind == "O":
            whole: npt.NDArray[Any] = np.full(self.grid.whole(index), "", object)
        else:
            whole = np.zeros(self.grid.whole(index), self.dtype)
            if self.unstored is not None:
                whole[...] = self.unstored
        whole[tuple(slice(0, n) for n in found.shape)] = found if found.ndim else found.item()
        return whole


@dataclass(frozen=True)
class Node:
    """A group with its arrays."""

    path: str = ""
    attributes: Mapping[str, Any] = field(default_factory=dict)
    arrays: tuple[Planned, ...] = ()
    groups: tuple[Node, ...] = ()

    def walk(self) -> Iterator[Node]:
        """Yield this group and all its descendants, parents first."""
        yield self
        for group in self.groups:
            yield from group.walk()
