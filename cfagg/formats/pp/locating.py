"""One variable of a PP file by its name in `cfagg.read`, for aggregations that refer to it."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from cfagg.cf.header import Header
from cfagg.errors import UnsupportedError
from cfagg.formats.pp.addresses import scan_fields
from cfagg.formats.pp.dataset import dataset_of
from cfagg.formats.values.storage import StoredVariable, no_variable
from cfagg.model import Grid
from cfagg.model.chunks import ChunkTable, Encoding
from cfagg.model.dataset import Dataset, Variable
from cfagg.storage.files import CONTEXT_SOURCE, Borrowed, Context, FileKey, Handle
from cfagg.storage.handles import handles

__all__ = ["stored_variable"]


def stored_variable(handle: Handle, address: str, group: str, context: Context) -> StoredVariable:
    """Return a variable of a PP file with the table of its fields."""
    key, name = handle.key, address.strip("/")
    known = _described(key).root.variables
    found = known.get(name)
    if found is None:
        raise no_variable(handle, address, known, context)
    if found.unreadable is not None:
        raise UnsupportedError(context.said(found.unreadable))
    attributes = {k: v[0] if isinstance(v, np.ndarray) and v.size == 1 else v for k, v in found.attributes.items()}
    header = Header(key.path, address, found.dims, found.shape, found.dtype.newbyteorder("="), attributes)
    return StoredVariable(key, address, group, header, _table(key, found), name, ())


def _table(key: FileKey, found: Variable) -> ChunkTable:
    """Return the table of a variable; no file stays open for it."""
    name = found.name
    if found.chunks is None:
        # Values from headers are not stored in the file, so a single byte of it represents them.
        grid = Grid.regular(found.shape, [max(n, 1) for n in found.shape])
        made = Encoding(
            found.dtype.newbyteorder("="), decode=lambda _, __: _described(key).root.variables[name].values()
        )
        return ChunkTable(grid, made, np.arange(grid.size), np.zeros((), np.int64), np.ones((), np.int64))
    table = found.chunks()
    if table.encoding.decode is None:
        return table

    def decode(raw: npt.NDArray[np.uint8], cell: int) -> npt.NDArray[Any]:
        there: Any = _described(key).root.variables[name].chunks
        values: npt.NDArray[Any] = there().encoding.decode(raw, cell)
        return values

    return replace(table, encoding=replace(table.encoding, decode=decode))


class _Pooled:
    """The bytes of a file that is open only while it is read."""

    def __init__(self, key: FileKey) -> None:
        self._key = key

    def __len__(self) -> int:
        return self._key.size

    def __getitem__(self, where: slice) -> bytes:
        return handles.of(self._key, CONTEXT_SOURCE).some(where.stop - where.start, where.start)


@lru_cache(maxsize=8)
def _described(key: FileKey) -> Dataset:
    """Return the description of a file by the headers of its fields."""
    fields = scan_fields(handles.of(key, CONTEXT_SOURCE))
    return dataset_of(Borrowed(key.path, _Pooled(key)), fields)
