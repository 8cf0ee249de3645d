"""The fields of one variable as the table of its chunks: each field is a chunk of all its rows and columns."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from cfagg.formats.codecs import DamagedError
from cfagg.formats.pp.fields import Fields
from cfagg.formats.pp.packing import NONE
from cfagg.formats.pp.values import attributes_of, decode, storage_of, unpacked
from cfagg.model.chunks import ChunkTable, Encoding
from cfagg.model.grid import Grid

__all__ = ["LAND_MASK", "chunk_table", "type_of"]

#: STASH code of the land-sea mask: 1 is land.
LAND_MASK = 30

#: Words of headers that say how values are stored.
_SAME = ("LBROW", "LBNPT", "LBPACK", "LBUSER1", "BDATUM", "BMKS", "BMDI")


def type_of(fields: Fields) -> tuple[np.dtype[Any], Any]:
    """Return type and missing value of a variable that holds the values of some fields, unpacked.

    Fields that are all stored alike keep their type and BMDI; others become reals that hold all of them.
    """
    first = [0] if _are_alike(fields) else range(len(fields))
    dtypes, fill = [], None
    for i in first:
        own = attributes_of(fields, i)
        scaled = [np.asarray(own[name]).dtype for name in ("scale_factor", "add_offset") if name in own]
        dtypes.append(np.result_type(storage_of(fields, i).dtype, *scaled))
        fill = own.get("_FillValue") if fill is None else fill
    dtype = np.result_type(*dtypes)
    return dtype, None if fill is None else dtype.type(fill)


def chunk_table(
    fields: Fields,
    shape: tuple[int, ...],
    cells: npt.NDArray[np.int64],
    path: str,
    land: Callable[[], npt.NDArray[np.bool_] | None] = lambda: None,
) -> ChunkTable:
    """Return the table of a variable of type and missing value as `type_of` says.

    Parameters
    ----------
    fields : Fields
        Those of the variable.
    shape : tuple of int
        Of the variable: its last two dimensions are rows and columns of a field, and the others are counted by fields.
    cells : int64 array, shape (n,)
        Number of each field in C order over the other dimensions; cells without a field hold missing values.
    path : str
        Of the file, for messages.
    land : callable
        Returns the land-sea mask; it is only called where fields of land or sea points need it.
    """
    order = np.argsort(cells, kind="stable")
    fields, cells = fields.take(order), np.asarray(cells)[order]
    dtype, fill = type_of(fields)
    one = (*(1 for _ in shape[:-2]), *shape[-2:])
    grid = Grid.regular(shape, one)
    if _is_plain(fields, dtype):
        stored = dtype.newbyteorder(fields.form.byteorder)
        length = np.full(len(fields), shape[-1] * shape[-2] * dtype.itemsize)
        return ChunkTable(grid, Encoding(stored, fill=fill), cells, fields.data_offset, length)
    mask: list[npt.NDArray[np.bool_] | None] = []

    def values(raw: npt.NDArray[np.uint8], cell: int) -> npt.NDArray[Any]:
        i = int(np.searchsorted(cells, cell))
        storage = storage_of(fields, i)
        if storage.points and not mask:
            mask.append(land())
        found = decode(raw, fields, i, f"the field at byte {fields.header_offset[i]:,} of {path}", *mask)
        if found.shape != shape[-2:]:
            raise DamagedError(f"it has shape {found.shape}, and its variable {shape[-2:]}")
        return unpacked(found, fields, i, dtype, fill).reshape(one)

    return ChunkTable(grid, Encoding(dtype, fill=fill, decode=values), cells, fields.data_offset, fields.data_length)


def _are_alike(fields: Fields) -> bool:
    """Return whether all fields are stored in the same way."""
    columns = [fields[name] for name in _SAME]
    return all((column == column[0]).all() for column in columns)


def _is_plain(fields: Fields, dtype: np.dtype[Any]) -> bool:
    """Return whether all fields hold just the values of the variable, one by one."""
    if not _are_alike(fields):
        return False
    storage, own = storage_of(fields, 0), attributes_of(fields, 0)
    return (
        storage.method == NONE
        and not storage.points
        and storage.dtype == dtype
        and not own.keys() - {"_FillValue"}
        and bool((fields.data_length >= storage.dtype.itemsize * fields["LBROW"] * fields["LBNPT"]).all())
    )
