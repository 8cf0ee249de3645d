"""Arrays of fields: shape, type and missing value of each, and the reading of any part of it, field by field."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from cfagg.errors import CfaggError, LimitError, SourceError, UnsupportedError
from cfagg.formats.pp import packing
from cfagg.formats.pp.fields import Fields
from cfagg.formats.pp.grouping import Box
from cfagg.formats.pp.values import (
    Storage,
    attributes_of,
    conformed,
    decode_stored,
    masks_for,
    masks_of,
    read_extra,
    read_land,
    refusal_of,
    sizes_of,
    storage_of,
)
from cfagg.model.chunks import ChunkTable, Encoding
from cfagg.model.grid import Grid
from cfagg.storage.files import CONTEXT_SOURCE, Handle

__all__ = ["Array", "Arrays"]

Int64 = npt.NDArray[np.int64]

#: Limit on the values of horizontal coordinates, in addition to one for each byte of the file.
_MOST_COORDINATES = 2**24

#: The code of a vector of extra data.
_TITLE = 10

#: Words of the header that determine whether a field can be read, besides the bytes of its values.
_FORM = ("LBPACK", "LBUSER1", "LBHEM", "LBROW", "LBNPT")

#: Words of the header that determine the type, missing value and scale of a field.
_STORAGE = ("LBPACK", "LBUSER1", "BMKS", "BDATUM", "BMDI")


@dataclass(frozen=True, eq=False, slots=True)
class Array:
    """The values of the fields of a box."""

    owner: Arrays
    #: Indices of fields, with the dimensions of the array except the last two.
    index: Int64
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    #: The missing value, or `None` if there is none.
    fill: Any
    #: Whether all are stored plainly: one type, not packed, not scaled, with the same missing value.
    is_plain: bool

    @property
    def grid(self) -> tuple[int, ...]:
        """The shape of one field."""
        return self.shape[self.index.ndim :]

    def table(self) -> ChunkTable:
        """Return the table of the chunks of the array, each of which is one field."""
        fields, index = self.owner.fields.take(self.index.ravel()), self.index.ravel()
        size, count = sizes_of(fields), math.prod(self.grid) * self.dtype.itemsize
        grid = Grid.regular(self.shape, (1,) * self.index.ndim + self.grid)
        encoding = Encoding(self.dtype, decode=self.decoded)
        if self.is_plain and (size >= count).all():
            # Stored plainly; only the selected part of large ones is read.
            encoding, size = Encoding(self.dtype.newbyteorder(fields.form.byteorder)), np.full_like(size, count)
        return ChunkTable(grid, encoding, np.arange(index.size), fields.data_offset, size)

    def refusals(self) -> Iterator[CfaggError]:
        """Yield the errors that reading the values would raise, one for each form of fields, as far as headers tell."""
        return self.owner.refusals(self.index.ravel())

    def decoded(self, raw: npt.NDArray[np.uint8], cell: int) -> npt.NDArray[Any]:
        """Return the values of one field from its bytes."""
        i = int(self.index.ravel()[cell])
        values = self.owner.decoded(raw.tobytes(), i, self.dtype, self.fill, self.grid)
        return values.reshape((1,) * self.index.ndim + values.shape)


class Arrays:
    """The values of all fields of a file, which stays open."""

    def __init__(self, handle: Handle, fields: Fields) -> None:
        self.handle, self.fields = handle, fields
        #: Number of values of all horizontal coordinates so far.
        self._values = 0
        #: Cached land-sea masks, by their fields.
        self._land: dict[tuple[int, ...], npt.NDArray[np.bool_]] = {}

    def extra(self) -> tuple[Int64, list[dict[int, Any]]]:
        """Return a number for the extra data of each field, and the vectors of each number; 0 is none."""
        number = np.zeros(len(self.fields), np.int64)
        vectors: list[dict[int, Any]] = [{}]
        known: dict[Any, int] = {}
        for i in np.flatnonzero(self.fields["LBEXT"] > 0).tolist():
            try:
                found = read_extra(self.handle, self.fields, i)
            except UnsupportedError:
                continue
            # A title of the field is not a coordinate.
            found.pop(_TITLE, None)
            key = tuple((code, tuple(v) if isinstance(v, list) else v.tobytes()) for code, v in found.items())
            if key not in known:
                known[key] = len(vectors)
                vectors.append(found)
            number[i] = known[key]
        return number, vectors

    def of(self, box: Box) -> Array:
        """Return the array of a box."""
        index = box.numbers.reshape([n for n in box.numbers.shape if n > 1])
        kinds = [self._storage(i) for i in self._representatives(box.numbers.ravel())]
        shape = kinds[0][0].shape
        if kinds[0][0].points and len(shape) != 2:
            numbers = masks_for(self.fields, box.first, self._masks)[:1]
            shape = tuple(int(self._masks[word][n]) for n in numbers for word in ("LBROW", "LBNPT")) or shape
        self._values += sum(shape) if len(shape) == 2 else 0
        if self._values > _MOST_COORDINATES + self.handle.key.size:
            raise LimitError(
                f"field {box.first:,} of {self.handle.key.path} has {shape[0]:,} rows and {shape[1]:,} columns (LBROW, "
                "LBNPT), more than the file can hold; write it again"
            )
        dtype = np.result_type(*(t for _, t, _ in kinds))
        plain = all(s.dtype == dtype and s.method in (0, 2) and not s.points for s, _, _ in kinds)
        scaled = any(scaled for _, _, scaled in kinds)
        fill, same = _fill_of([s.fill for s, _, _ in kinds], dtype, scaled=scaled)
        return Array(self, index, (*index.shape, *shape), dtype, fill, plain and same and not scaled)

    def decoded(self, raw: bytes, i: int, dtype: np.dtype[Any], fill: Any, shape: tuple[int, ...]) -> npt.NDArray[Any]:
        """Return the values of field `i` from their bytes, in the form of its variable."""
        path = self.handle.key.path
        stored = decode_stored(raw, path, self.fields, i, CONTEXT_SOURCE, self.land(i))
        if stored.shape != shape:
            raise SourceError(
                f"field {i:,} of {path} has values of shape {stored.shape}, expected {shape} like the rest of its "
                "variable; write the file again"
            )
        values = conformed(stored, self.fields, i, dtype, fill)
        if dtype.kind == "i" and fill is not None:
            own = storage_of(self.fields, i).fill
            if own != fill and (stored == fill).any():
                raise SourceError(
                    f"field {i:,} of {path} has the value {fill}, which marks missing values of its variable, whose "
                    "fields have different ones (BMDI); read this field from a file of its own"
                )
        return values

    def refusals(self, index: Int64) -> Iterator[CfaggError]:
        """Yield the errors that reading some fields would raise, one for each form of them, as far as headers tell."""
        fields = self.fields.take(index)
        # The lengths of packed fields tell nothing, and may all differ.
        plain = np.isin(fields["LBPACK"] % 10, (packing.NONE, packing.SHORT))
        sizes = np.where(plain, sizes_of(fields), 0)
        forms = np.stack([*(fields[word] for word in _FORM), sizes], axis=-1)
        _, first = np.unique(forms, axis=0, return_index=True)
        for i in index[np.sort(first)].tolist():
            masked = bool(masks_for(self.fields, i, self._masks))
            error = refusal_of(self.handle.key.path, self.fields, i, masked=masked)
            if error is not None:
                yield error

    @cached_property
    def _masks(self) -> Fields:
        return masks_of(self.fields)

    def land(self, i: int) -> npt.NDArray[np.bool_] | None:
        """Return the land-sea mask of field `i` (true is land), or `None` if it needs none or there is none."""
        if self.fields["LBPACK"][i] // 10 % 10 != 2:
            return None
        numbers = masks_for(self.fields, i, self._masks)
        if numbers and numbers not in self._land:
            self._land[numbers] = read_land(self.handle, self._masks, numbers)
        return self._land.get(numbers)

    def _representatives(self, index: Int64) -> Iterator[int]:
        """Yield one field for each form of storage among those of an array."""
        if index.size == 1:
            yield int(index[0])
            return
        rows = np.stack([self.fields[word][index] for word in _STORAGE], axis=-1)
        _, found = np.unique(rows, axis=0, return_index=True)
        yield from np.sort(index[found]).tolist()

    def _storage(self, i: int) -> tuple[Storage, np.dtype[Any], bool]:
        """Return how a field is stored, the type of its values, and whether they are scaled."""
        where = f"field {i:,} of {self.handle.key.path}"
        try:
            storage = storage_of(self.fields, i, where)
        except UnsupportedError:
            # Other variables can be read; reading this one raises the reason.
            shape = tuple(max(int(self.fields[word][i]), 0) for word in ("LBROW", "LBNPT"))
            dtype = np.dtype(f"f{self.fields.word_size}")
            return Storage(dtype, shape, -1, 0, None, 0, 0), dtype, False
        scaled = bool(attributes_of(self.fields, i).keys() - {"_FillValue"})
        # Products of integers of 4 bytes need reals of 8.
        dtype = np.result_type(storage.dtype, f"f{self.fields.word_size}") if scaled else storage.dtype
        return storage, dtype, scaled


def _fill_of(fills: list[Any], dtype: np.dtype[Any], *, scaled: bool) -> tuple[Any, bool]:
    """Return the missing value of fields in one type, and whether it is that of each field."""
    # If they differ, or values are scaled, that of one field may be a valid value of another, so a new one is used.
    first = next((f for f in fills if f is not None), None)
    if first is None:
        return None, True
    same = all(f is not None and f == first for f in fills)
    if same and not scaled:
        return dtype.type(first), True
    if dtype.kind == "f":
        return dtype.type(np.nan), False
    return dtype.type(np.iinfo(dtype).min), False
