"""Tables of 64-bit integers in a Zarr store, read a few rows at a time.

Indexes of the published software are arrays of two dimensions in chunks of tens of megabytes, of which a search needs
single rows: only blocks of a chunk that hold them are read and decoded, and kept for the next ones.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from cfagg.errors import AccessError, SourceError
from cfagg.observations.arrays import open_stored, read_json
from cfagg.observations.indexes.protocol import Int64
from cfagg.observations.rows import Rows

if TYPE_CHECKING:
    from cfagg.storage.store import Source

__all__ = ["Table", "is_there"]

#: Columns of a table, of which a search reads whole rows.
_WIDEST = 1 << 20


def is_there(source: Source, key: str) -> bool:
    """Return whether a store has an object."""
    try:
        return source.size(key) is not None
    except AccessError:
        # What object stores also say of what is not there, to those who may not list the store.
        return False


class Table:
    """An array of int64 with two dimensions."""

    def __init__(self, source: Source, name: str) -> None:
        self.where = f"{source.path}: array {name!r}"
        array = open_stored(source, name)
        if array is None:
            raise SourceError(f"{source.path} has no array {name!r}")
        if array.dtype != np.int64 or len(array.shape) != 2:
            raise SourceError(f"{self.where} is {array.dtype} of shape {array.shape}, expected a table of int64")
        if array.shape[1] > _WIDEST:
            raise SourceError(f"{self.where} has {array.shape[1]:,} columns, expected at most {_WIDEST:,}")
        self.shape = (array.shape[0], array.shape[1])
        if array.zarr_format == 3:
            found = array.document.get("attributes")
        else:
            read = read_json(source, f"{name}/.zattrs")
            found = None if read is None else read[0]
        self.attributes: dict[str, Any] = found if isinstance(found, dict) else {}
        self._rows = Rows(source, array)

    def read(self, start: int, stop: int) -> Int64:
        """Return rows."""
        return self._rows.read(start, stop)
