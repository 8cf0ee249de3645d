"""A variable found in a file: its header, and how its values are stored there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from cfagg.cf.header import Header
from cfagg.storage.files import FileKey
from cfagg.storage.gate import Reference

__all__ = ["Chunked", "Contiguous", "Library", "Located"]


#: Numbers of HDF5 filters.
_DEFLATE, _SHUFFLE, _FLETCHER32 = 1, 2, 3


@dataclass(frozen=True, slots=True)
class Contiguous:
    """Values in one block of bytes, or one block a record.

    Parameters
    ----------
    offset : int
        Byte at which the first value stands; -1 where nothing was ever written.
    record : int
        Bytes from one index of the first dimension to the next; 0 where they follow each other.
    dtype : numpy.dtype
        Type as stored, with its byte order.
    fill : object
        Value of what was never written.
    """

    offset: int
    record: int
    dtype: np.dtype[Any]
    fill: Any = None


@dataclass(frozen=True, slots=True)
class Chunked:
    """Values in HDF5 chunks that are read and decoded without the HDF5 library.

    Parameters
    ----------
    chunks : tuple of int
        Shape of a chunk.
    filters : tuple of (int, tuple of int)
        Filters in the order of writing: HDF5 filter number and its parameters.
    dtype : numpy.dtype
        Type as stored, with its byte order.
    path : str
        The dataset's path in the file, for messages.
    tree : int, optional
        Where the table of chunks stands, where it may be a version 1 B-tree.
    """

    chunks: tuple[int, ...]
    filters: tuple[tuple[int, tuple[int, ...]], ...]
    dtype: np.dtype[Any]
    path: str
    tree: int | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Library:
    """Values that only the netCDF library reads.

    Parameters
    ----------
    chunks : tuple of int, optional
        Shape of a chunk, where there are chunks.
    """

    chunks: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True)
class Located:
    """A variable found in a file.

    Parameters
    ----------
    key : FileKey
        The file's state when it was found.
    address, group : str
        The variable as it was asked for.
    header : Header
        What the file says about it; the type is in native byte order.
    storage : Contiguous, Chunked or Library
        How its values are stored.
    path : str
        The variable's own path in the file.
    references : sequence of Reference, optional
        What it refers to outside the file; `None`, which the gate refuses, where that is not known.
    """

    key: FileKey
    address: str
    group: str
    header: Header
    storage: Contiguous | Chunked | Library
    path: str
    references: Sequence[Reference] | None = None

    @property
    def chunks(self) -> tuple[int, ...] | None:
        """Shape of a chunk, `None` where values are contiguous."""
        return None if isinstance(self.storage, Contiguous) else self.storage.chunks

    @property
    def encoding(self) -> dict[str, Any]:
        """How the values are compressed, by the names of netCDF4-python; of what others compress, nothing."""
        if not isinstance(self.storage, Chunked):
            return {}
        filters = dict(self.storage.filters)
        level = filters.get(_DEFLATE, ())
        return {
            "zlib": _DEFLATE in filters,
            "complevel": level[0] if level else 0,
            "shuffle": _SHUFFLE in filters,
            "fletcher32": _FLETCHER32 in filters,
            "contiguous": False,
        }
