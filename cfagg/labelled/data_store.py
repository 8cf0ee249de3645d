"""One group of an aggregation file as xarray's data store: variables, attributes and encoding, not yet decoded."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import numpy as np
from xarray.backends.common import AbstractDataStore
from xarray.core import indexing
from xarray.core.variable import Variable as XarrayVariable

from cfagg.arrays.opening import open_reader
from cfagg.arrays.reader import Reader
from cfagg.arrays.source import Group, Source, Variable
from cfagg.arrays.stored import RefusedReader
from cfagg.cf.missing import warn_of_text
from cfagg.cf.unpackable import real_packing
from cfagg.cf.values import text_missing
from cfagg.errors import AccessError, SourceError
from cfagg.formats.values.holding import Hold
from cfagg.labelled.indexed import IndexedArray
from cfagg.model import Aggregation, Regular
from cfagg.storage.access import Access
from cfagg.storage.urls import absolute

__all__ = ["AggregationStore"]


class AggregationStore(AbstractDataStore):
    """The variables of one group; `unpack` if values will be unpacked."""

    def __init__(
        self,
        source: Source,
        group: Group,
        access: Access,
        missing: Literal["error", "fill"],
        workers: int | None,
        *,
        unpack: bool = True,
        word_size: int | None = None,
        index: Any = True,
        hold: Hold | None = None,
    ) -> None:
        self.source = source
        self.group = group
        self.access = access
        self.missing = missing
        self.workers = workers
        self.unpack = unpack
        self.word_size = word_size
        self.index = index
        self.hold = hold

    def get_variables(self) -> dict[str, XarrayVariable]:
        """Return the public variables, aggregated ones in the form of the master array."""
        found = {
            name: self._aggregated(v) if isinstance(v, Aggregation) else self._plain(v)
            for name, v in (self.group.variables | {n: fact for n, (_, fact) in self.group.facts.items()}).items()
        }
        for variable in found.values() if self.unpack else ():
            variable.attrs = real_packing(variable.attrs, variable.dtype)
        return found

    def get_attrs(self) -> dict[str, Any]:
        """Return the attributes of the group without those that mark an aggregation file."""
        return self.group.public_attributes

    def get_dimensions(self) -> dict[str, int]:
        """Return the dimensions without those of private variables."""
        return self.group.public_dimensions

    def get_encoding(self) -> dict[str, Any]:
        """Return the unlimited dimensions and the file."""
        return {
            "unlimited_dims": set(self.group.unlimited) & set(self.group.public_dimensions),
            "source": str(absolute(self.source.path)),
        }

    def _aggregated(self, aggregation: Aggregation) -> XarrayVariable:
        reader = self._reader(aggregation.name)
        attributes = self.group.with_facts(aggregation.name, aggregation.attributes)
        known = {"units": aggregation.units, "calendar": aggregation.calendar}
        attributes.update({name: value for name, value in known.items() if value is not None})
        encoding = self._encoding(reader)
        if encoding["dtype"] is str:
            del encoding["dtype"]  # by which xarray would read all values for the length of the longest
        # dask makes its chunks along these, so that no two chunks need the same partition.  An empty dimension has no
        # partition, and a single chunk of size 0 in dask.
        sizes = (n or (0,) for n in aggregation.grid.sizes)
        encoding["preferred_chunks"] = dict(zip(aggregation.dims, sizes, strict=True))
        return self._variable(aggregation.dims, reader, attributes, encoding)

    def _plain(self, variable: Variable) -> XarrayVariable:
        try:
            reader = self._reader(variable.name)
        except AccessError as error:
            # The others may still be read.
            reader = RefusedReader(variable.dims, variable.shape, variable.dtype, error)
        if tuple(reader.shape) != variable.shape:
            # Two parsers determined the lengths: by the variable's links to its dimensions, and by the reverse links.
            raise SourceError(
                f"{self.source.path} is damaged: variable {variable.name!r} has shape {tuple(reader.shape)}, but its "
                f"dimensions have lengths {variable.shape}; restore the file"
            )
        if reader.dtype.kind in "iuf":
            warn_of_text(text_missing(variable.attributes), f"{self.source.path}, variable {variable.name!r}")
        encoding = {**self._encoding(reader), **reader.encoding}
        if reader.chunks is not None:
            encoding["chunksizes"] = reader.chunks
            encoding["preferred_chunks"] = dict(zip(variable.dims, reader.chunks, strict=True))
        elif reader.grid.size > 1 and reader.grid.ndim == len(variable.dims):
            # Chunks of Zarr; for equal ones only their length is given, as there may be any number.  The last of
            # unequal ones may be longer than the rest of the array.
            sizes = (
                a.chunk if isinstance(a, Regular) else tuple(np.diff(np.minimum(a, n)).tolist())
                for a, n in zip(reader.grid.axes, reader.shape, strict=True)
            )
            encoding["preferred_chunks"] = dict(zip(variable.dims, sizes, strict=True))
        return self._variable(variable.dims, reader, dict(variable.attributes), encoding)

    def _reader(self, name: str) -> Reader:
        path = f"{self.group.path.rstrip('/')}/{name}"
        return open_reader(
            self.source,
            path,
            self.access,
            missing=self.missing,
            workers=self.workers,
            word_size=self.word_size,
            index=self.index,
        )

    def _encoding(self, reader: Reader) -> dict[str, Any]:
        dtype: Any = _fixed(reader.dtype)
        if dtype.kind == "O" and (dtype.metadata or {}).get("element_type") is str:
            dtype = str
        return {"source": str(absolute(self.source.path)), "original_shape": reader.shape, "dtype": dtype}

    def _variable(
        self, dims: tuple[str, ...], reader: Reader, attributes: dict[str, Any], encoding: dict[str, Any]
    ) -> XarrayVariable:
        if reader.dtype.kind == "S" and isinstance(attributes.get("_FillValue"), str):
            # netCDF4 returns a character as str, and xarray compares it with bytes.
            attributes["_FillValue"] = np.bytes_(attributes["_FillValue"])
        if reader.dtype.names is not None:
            # Which xarray cannot compare with values of compounds.
            encoding |= {name: attributes.pop(name) for name in ("_FillValue", "missing_value") if name in attributes}
        array = IndexedArray(reader, _fixed(reader.dtype), self.hold)
        return XarrayVariable(dims, indexing.LazilyIndexedArray(array), attributes, encoding)


def _fixed(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return the type of texts of a fixed width in Zarr, as zarr-python has it, and any other unchanged."""
    metadata: Mapping[str, Any] = dtype.metadata or {}
    return np.dtype(f"U{metadata['characters']}") if "characters" in metadata else dtype
