"""Entries of an index for single files and the variables in them, and columns of lists."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Self

import numpy as np
import numpy.typing as npt

from cfagg.storage.files import FileKey

__all__ = ["UNKNOWN", "FileRow", "FileState", "Ragged", "VariableRow"]

Int64 = npt.NDArray[np.int64]

#: Represents an unknown number.
UNKNOWN = -1


class FileState(NamedTuple):
    """The state of a file: times and inode of a local file, the tag of a remote one."""

    size: int
    mtime_ns: int = UNKNOWN
    ctime_ns: int = UNKNOWN
    inode: int = UNKNOWN
    etag: str | None = None

    @classmethod
    def of(cls, key: FileKey, etag: str | None = None) -> Self:
        """Return the state of an open file."""
        if etag is not None:
            return cls(key.size, etag=etag)
        return cls(key.size, key.modified, key.changed, key.inode)


class VariableRow(NamedTuple):
    """One stored variable: `header` as in `cfagg.arrays.index.headers`, and its chunks.

    `chunks` is the shape of a chunk, empty if values are in one block of bytes, or one block per record, `record` bytes
    apart. `cell` is `None` if every chunk is stored, and `mask` if every chunk passed all codecs.
    """

    address: str
    header: str
    shape: tuple[int, ...]
    chunks: tuple[int, ...]
    record: int
    cell: Int64 | None
    offset: Int64
    length: Int64
    mask: Int64 | None


class FileRow(NamedTuple):
    """One file: its state, the digest of its variables' metadata and the location of these, and the variables."""

    path: str
    state: FileState
    digest: bytes | None
    #: Start and end of each range of bytes in the digest, consecutively.
    ranges: tuple[int, ...]
    variables: tuple[VariableRow, ...]
    #: Data of other parts of cfagg for the file, which is not interpreted here.
    description: bytes | None = None


@dataclass(frozen=True, slots=True)
class Ragged:
    """Lists of integers, stored consecutively."""

    values: Int64
    #: Start of each, and the end of the last.
    bounds: Int64

    @classmethod
    def of(cls, lists: Iterable[Sequence[int] | Int64]) -> Self:
        """Return a column of these lists."""
        made = list(lists)
        counts = list(map(len, made))
        bounds = np.zeros(len(made) + 1, np.int64)
        np.cumsum(counts, out=bounds[1:])
        if np.ndarray in set(map(type, made)):
            there = [np.asarray(one, np.int64) for one, n in zip(made, counts, strict=True) if n]
            return cls(np.concatenate(there) if there else np.empty(0, np.int64), bounds)
        return cls(np.fromiter(itertools.chain.from_iterable(made), np.int64, sum(counts)), bounds)

    def __len__(self) -> int:
        return len(self.bounds) - 1

    def __getitem__(self, i: int) -> Int64:
        return self.values[self.bounds[i] : self.bounds[i + 1]]

    @property
    def counts(self) -> Int64:
        """The length of each list."""
        return np.diff(self.bounds)

    def take(self, rows: Int64) -> Ragged:
        """Return some lists, in this order."""
        bounds = np.concatenate([[0], np.cumsum(self.counts[rows])])
        starts = np.repeat(self.bounds[:-1][rows] - bounds[:-1], np.diff(bounds))
        return Ragged(self.values[np.arange(bounds[-1]) + starts], bounds)
