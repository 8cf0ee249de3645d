"""Fragments that are fields of PP files and fields files, found by address and described like the partition.

A field has rows and columns, and a partition may have more dimensions of size 1; a header has no names for them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from cfagg.arrays.identity import UNKNOWN, Identity, check_order, is_square
from cfagg.arrays.index.headers import StoredHeader
from cfagg.arrays.subarray import Fragment, place_of
from cfagg.cf.header import Header
from cfagg.errors import CfaggError, FragmentMismatchError, FragmentNotFoundError
from cfagg.formats.pp.addresses import FieldAt, find_field, scan_fields
from cfagg.formats.pp.fields import Fields
from cfagg.formats.pp.grids import axes_of
from cfagg.formats.pp.packing import NONE, SHORT
from cfagg.formats.pp.values import (
    Storage,
    attributes_of,
    masks_for,
    masks_of,
    packed_decoder,
    read_land,
    read_stored,
    storage_of,
)
from cfagg.formats.values.storage import Contiguous, StoredVariable
from cfagg.model import Aggregation, Grid
from cfagg.model.chunks import ChunkTable, Encoding
from cfagg.storage.files import Context, FileKey, Handle
from cfagg.storage.handles import handles

__all__ = ["addressed_field", "open_field", "stored_field"]

#: Cached fields, each about a kilobyte.
_REMEMBERED = 2048

#: Methods of packing in which values are stored one by one, and the dimensions of a field.
_PLAIN, _DIMS = (0, 2), ("row", "column")

#: Context of errors to which a partition is added.
_CONTEXT = Context()


def open_field(
    aggregation: Aggregation,
    i: int,
    handle: Handle,
    where: str,
    of_master: Callable[[str], Identity],
    word_size: int | None,
) -> Fragment:
    """Return the field of an open file that partition `i` refers to by its address.

    `of_master` gives the identity of the coordinates of a dimension of the aggregation.
    """
    context, layout = Context(where), aggregation.partitions.layout_of(i)
    key, address = handle.key, _address(aggregation, i, where)
    path = key.path
    try:
        found = _found(key, address, word_size)
        land = _land(key, found.fields)
    except CfaggError as error:
        raise type(error)(context.said(error.message)) from error
    fields = found.fields
    storage = storage_of(fields, 0, context.said(f"field at {address:,} of {path}"))
    code = int(fields["LBPACK"][0])
    if layout.packing is not None and layout.packing != code:
        raise FragmentMismatchError(
            f"{where}: the field at {address:,} of {path} has the packing LBPACK = {code}, but the aggregation says "
            f"{layout.packing}; correct its 'lbpack' or its 'file_offset'"
        )
    order = {"<": "little", ">": "big"}[fields.byteorder]
    if layout.endian not in (None, order):
        raise FragmentMismatchError(
            f"{where}: the words of {path} are {order}-endian, but the aggregation says {layout.endian}; correct "
            "'endian'"
        )
    shape = tuple(_sizes(aggregation, i))
    if not storage.points or land is not None:  # otherwise reading reports what is missing
        shape = _shape(storage.shape if land is None else land.shape, shape)
    name = f"field at {address:,} ({found.rule})" if address >= 0 else found.rule
    if is_square(shape) and len(shape) == len(layout.dims):
        _check_axes(layout.dims, shape, fields, of_master, place_of(where, name, path))
    dims = layout.dims if len(shape) == len(layout.dims) else ("row", "column")[-len(shape) :]
    header = Header(path, name, dims, shape, storage.dtype, attributes_of(fields, 0))

    def read(slices: Sequence[slice]) -> npt.NDArray[Any]:
        values = read_stored(handles.of(key, context), fields, 0, context, land)
        return values.reshape(shape)[tuple(slices)]

    return Fragment(header, shape, read, where, stored=_plain(key, fields, storage, header))


def _plain(key: FileKey, fields: Fields, storage: Storage, header: Header) -> StoredVariable | None:
    """Return the location of the values of a field, or `None` if it is packed."""
    nbytes = math.prod(header.shape) * storage.dtype.itemsize
    if storage.method not in (NONE, SHORT) or storage.points or storage.size < nbytes:
        return None
    at = Contiguous(int(fields.data_offset[0]), 0, Encoding(storage.dtype.newbyteorder(fields.form.byteorder)))
    return StoredVariable(key, header.variable, "/", header, at, header.variable, ())


def stored_field(handle: Handle, address: int, context: Context) -> tuple[StoredVariable, StoredHeader] | None:
    """Return the field at an address and its header, or `None` if its bytes alone do not determine its values."""
    found = find_field(handle, address, context)
    fields = found.fields
    storage = storage_of(fields, 0, context.where)
    code = int(fields["LBPACK"][0])
    if storage.points or len(storage.shape) != 2:
        return None
    dtype = storage.dtype.newbyteorder(fields.form.byteorder)
    decode = packed_decoder(code, dtype, storage.fill, storage.shape)
    if decode is None and storage.method not in _PLAIN:
        return None
    if decode is None and math.prod(storage.shape) * storage.dtype.itemsize > storage.size:
        return None
    encoding, begin = Encoding(dtype, decode=decode), int(fields.data_offset[0])
    identities = dict(zip(_DIMS, map(Identity.of, axes_of(fields, 0)), strict=True))
    name, attributes = f"field at {address:,} ({found.rule})", attributes_of(fields, 0)
    header = Header(handle.key.path, name, _DIMS, storage.shape, storage.dtype, attributes)
    place = packed_table(storage.shape, encoding, begin, storage.size) if decode else Contiguous(begin, 0, encoding)
    said = StoredHeader(name, _DIMS, encoding, attributes, identities, code)
    return StoredVariable(handle.key, name, "/", header, place, name, (), identities, code), said


def addressed_field(
    aggregation: Aggregation, i: int, located: StoredVariable, where: str, of_master: Callable[[str], Identity]
) -> StoredVariable | None:
    """Return a field from an index in the dimensions of partition `i`, or `None` if its file has to be opened."""
    layout, storage = aggregation.partitions.layout_of(i), located.storage
    if not isinstance(storage, Contiguous | ChunkTable) or located.packing is None or located.header.dims != _DIMS:
        return None
    order = "big" if storage.encoding.dtype.newbyteorder(">") == storage.encoding.dtype else "little"
    if layout.packing not in (None, located.packing) or layout.endian not in (None, order):
        return None
    shape = _shape(located.header.shape, tuple(_sizes(aggregation, i)))
    wide = [k for k, n in enumerate(shape) if n > 1]
    if is_square(shape) and len(shape) == len(layout.dims) and len(wide) == 2:
        found = [f"({k})" for k in range(len(layout.dims))]
        found[wide[0]], found[wide[1]] = _DIMS
        known = located.identities or {}
        place = place_of(where, located.path, located.header.file)
        check_order(layout.dims, found, shape, of_master, lambda dim: known.get(dim, UNKNOWN), place)
    dims = layout.dims if len(shape) == len(layout.dims) else _DIMS[-len(shape) :]
    old = located.header
    if isinstance(storage, ChunkTable):
        decode = storage.encoding.decode
        if decode is None:
            return None
        encoding = replace(storage.encoding, decode=lambda raw, cell: decode(raw, cell).reshape(shape))
        storage = packed_table(shape, encoding, int(storage.offset[0]), int(storage.length[0]))
    header = Header(old.file, located.path, dims, shape, old.dtype, old.attributes)
    return replace(located, header=header, storage=storage)


def packed_table(shape: tuple[int, ...], encoding: Encoding, offset: int, length: int) -> ChunkTable:
    """Return the table of a field that is one chunk."""
    return ChunkTable(
        Grid.regular(shape, shape), encoding, np.zeros(1, np.int64), np.array([offset]), np.array([length])
    )


def _check_axes(
    dims: Sequence[str], shape: Sequence[int], fields: Fields, of_master: Callable[[str], Identity], where: str
) -> None:
    """Raise an error if a partition has rows and columns interchanged according to the header of the field."""
    wide = [k for k, n in enumerate(shape) if n > 1]
    if len(wide) == 2:
        found = [f"({k})" for k in range(len(dims))]
        found[wide[0]], found[wide[1]] = "row", "column"
        known = dict(zip(("row", "column"), map(Identity.of, axes_of(fields, 0)), strict=True))
        check_order(dims, found, shape, of_master, lambda dim: known.get(dim, UNKNOWN), where)


def _address(aggregation: Aggregation, i: int, where: str) -> int:
    """Return the address of a field, or -1 if the partition gives none."""
    address, text = int(aggregation.partitions.offset[i]), aggregation.partitions.address_name(i)
    if address < 0 and text is not None:
        if not (text.isascii() and text.isdecimal() and len(text) < 20):
            raise FragmentNotFoundError(
                f"{where}: {text!r} is not the address of a field; give its position in the file"
            )
        return int(text)
    return address


def _sizes(aggregation: Aggregation, i: int) -> Sequence[int]:
    """Return the sizes of the dimensions of the sub-array of a partition, as far as the aggregation gives them."""
    layout, grid = aggregation.partitions.layout_of(i), aggregation.grid
    if layout.shape is not None:
        return layout.shape
    extent = grid.extent(grid.index(i))
    sizes = {d: b - a for d, (a, b) in zip(aggregation.dims, extent, strict=True)}
    return [sizes.get(d, 1) for d in layout.dims]


def _shape(stored: Sequence[int], sizes: Sequence[int]) -> tuple[int, ...]:
    """Return the shape of a field with the dimensions of a partition; additional ones have size 1.

    >>> _shape((73, 96), (1, 73, 96)), _shape((73, 96), (73, 1, 96)), _shape((1, 96), (96,)), _shape((1, 1), ())
    ((1, 73, 96), (73, 1, 96), (96,), ())
    """
    rest = list(stored)
    while len(rest) > len(sizes) and 1 in rest:
        rest.remove(1)
    if len(rest) > len(sizes):
        return tuple(stored)
    wide = [k for k, n in enumerate(sizes) if n != 1]
    places = wide if len(wide) == len(rest) else range(len(sizes) - len(rest), len(sizes))
    shape = [1] * len(sizes)
    for k, n in zip(places, rest, strict=True):
        shape[k] = n
    return tuple(shape)


@lru_cache(maxsize=_REMEMBERED)
def _found(key: FileKey, address: int, word_size: int | None) -> FieldAt:
    """Return the field at an address; without one, the only field of a file."""
    handle = handles.of(key, _CONTEXT)
    if address >= 0:
        return find_field(handle, address, _CONTEXT, word_size)
    fields = scan_fields(handle, _CONTEXT)
    if len(fields) != 1:
        raise FragmentNotFoundError(
            f"{key.path} has {len(fields):,} fields, but the partition names none; give its 'file_offset'"
        )
    return FieldAt(fields, "the only field")


def _land(key: FileKey, field: Fields) -> npt.NDArray[np.bool_] | None:
    """Return the land-sea mask for a field of a file (true is land), or `None` if it needs none or there is none."""
    numbers = masks_for(field, 0, _masks(key)) if field["LBPACK"][0] // 10 % 10 else ()
    return _mask(key, numbers) if numbers else None


@lru_cache(maxsize=16)
def _masks(key: FileKey) -> Fields:
    """Return the land-sea masks of a file."""
    return masks_of(scan_fields(handles.of(key, _CONTEXT), _CONTEXT))


@lru_cache(maxsize=16)
def _mask(key: FileKey, numbers: tuple[int, ...]) -> npt.NDArray[np.bool_]:
    """Return the land-sea mask of a file (true is land) from its fields."""
    return read_land(handles.of(key, _CONTEXT), _masks(key), numbers, _CONTEXT)
