"""One variable as read for a target: the numbers to write, and their attributes."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice
from typing import Any, Literal

import numpy as np

from cfagg.arrays.opening import open_reader
from cfagg.arrays.reader import Reader
from cfagg.arrays.source import Group, OtherSource, Source, Variable
from cfagg.cf.header import Header
from cfagg.conversion import packing
from cfagg.conversion.options import Options
from cfagg.conversion.storage import stored_chunks
from cfagg.display.names import dtype_name
from cfagg.errors import LimitError, UnsupportedError
from cfagg.findings.losses import Loss
from cfagg.formats.zarr.attributes import with_members, without_odd_fill
from cfagg.model import Aggregation, Layout
from cfagg.storage.access import Access
from cfagg.storage.handles import handles
from cfagg.storage.urls import absolute

__all__ = ["MAX_CELLS", "MAX_CHUNKS", "Values", "flaw_of", "values_of"]

#: Maximum number of chunks of one array, each of which is an object in a store.
MAX_CHUNKS = 2**24

#: Maximum number of chunks of the source along one dimension, whose edges are listed.
MAX_CELLS = 2**26


@dataclass(frozen=True, eq=False)
class Values:
    """What is written for one variable, and where its values come from."""

    path: str  # within the target, without a leading slash
    dims: tuple[str, ...]
    shape: tuple[int, ...]
    dtype: np.dtype[Any]  # as written; `object` for strings
    attributes: Mapping[str, Any]  # as in the source, including `_FillValue`
    reader: Reader
    stored: np.dtype[Any]  # type returned by `reader`
    unpack: packing.Unpack | packing.Unwritten | None  # converts read values to written ones
    storage: tuple[int, ...] | None  # chunks in which the source itself is stored
    where: str  # for messages
    losses: tuple[Loss, ...] = ()


def values_of(
    source: Source,
    group: Group,
    variable: Variable | Aggregation,
    access: Access,
    options: Options,
    workers: int,
    notes: list[str],
    *,
    default_fills: bool = False,
) -> Values:
    """Return the values to write for one variable; headers of partitions are read if packing must be decided.

    `default_fills`: readers of the target know the default fill values of the netCDF library.
    """
    path = f"{group.path.strip('/')}/{variable.name}".lstrip("/")
    where = f"file {source.path}, variable {path!r}"
    if (flaw := flaw_of(source, group, variable)) is not None:
        raise UnsupportedError(
            f"{where}: {flaw}; name the variables to convert with variables=, or leave it out with on_loss='drop' "
            "(--on-loss drop)"
        )
    attributes = group.with_facts(variable.name, variable.attributes)
    mode: Literal["error", "fill"] = "fill" if options.missing == "fill" else "error"
    reader = open_reader(source, path, access, missing=mode, workers=1, word_size=options.word_size)
    if isinstance(variable, Aggregation):
        if options.packing == "keep":
            packed, note = packing.shared_packing(variable, _headers(variable, reader, workers, options.missing))
            notes.extend([note] if note else [])
            if packed is not None:
                variable, attributes = packed, group.with_facts(packed.name, packed.attributes)
                reader = open_reader(
                    source, path, access, missing=mode, workers=1, aggregation=packed, word_size=options.word_size
                )
        for name in ("units", "calendar"):
            if getattr(variable, name) is not None:
                attributes.setdefault(name, getattr(variable, name))
    else:
        if source.format.startswith("NETCDF3") and 0 not in variable.shape:
            # A truncated file, or one with a wrong number of records, is detected before its terabytes are planned.
            reader.read([slice(n - 1, n) for n in variable.shape])
        attributes, named = with_members(attributes, variable.dtype, path)
        notes += named
    unpack: packing.Unpack | packing.Unwritten | None = None
    if options.packing == "decode" and packing.is_packed(attributes) and variable.dtype.kind in "iuf":
        unpack, attributes = packing.decoded(variable.dtype, attributes, where, netcdf=source.has_default_fills)
    elif isinstance(variable, Variable) and type(source) is Source and not default_fills:
        unpack = packing.Unwritten.of(variable.dtype.newbyteorder("="), attributes, where)
    dtype = variable.dtype if unpack is None else unpack.dtype
    dtype = np.dtype(object) if dtype.kind == "O" else dtype.newbyteorder("=")
    attributes, losses = without_odd_fill(attributes, dtype, path, where, drop=options.on_loss == "drop")
    storage = None if isinstance(source, OtherSource) else reader.chunks
    if isinstance(variable, Aggregation):
        storage = stored_chunks(group.path, variable, access)
    elif storage is not None:
        _check_stored(variable.shape, storage, handles.get(absolute(source.path)).key.size, where)
    return Values(
        path=path,
        dims=variable.dims,
        shape=variable.shape,
        dtype=dtype,
        attributes=attributes,
        reader=reader,
        stored=np.dtype(object) if dtype.kind == "O" else variable.dtype.newbyteorder("="),
        unpack=unpack,
        storage=storage,
        where=where,
        losses=losses,
    )


def _check_stored(shape: Sequence[int], storage: Sequence[int], size: int, where: str) -> None:
    """Raise an error if most chunks of an array cannot be in its file, which needs at least eight bytes for each."""
    count = math.prod(-(-n // max(c, 1)) for n, c in zip(shape, storage, strict=True))
    if count > max(MAX_CHUNKS, size // 8):
        raise LimitError(
            f"{where}: an array of shape {tuple(shape)} has {count:,} chunks, too many for {size:,} bytes of memory; "
            "store it in larger chunks first"
        )


def _headers(
    aggregation: Aggregation, reader: Any, workers: int, missing: str
) -> Iterator[tuple[Layout, Header | None]]:
    """Yield layout and header of every partition, None if it is missing and may be; a few threads read ahead."""
    partitions = aggregation.partitions
    rows = (i for i in range(len(partitions)) if partitions.present[i] and partitions.value[i] < 0)
    with ThreadPoolExecutor(workers) as pool:
        while batch := list(islice(rows, 64 * workers)):
            heads = pool.map(lambda i: _header(reader, i, missing), batch)
            for i, head in zip(batch, heads, strict=True):
                yield partitions.layout_of(i), head


def _header(reader: Any, i: int, missing: str) -> Header | None:
    """Return the header of a partition, or None if it is missing and may be."""
    from cfagg.errors import FragmentNotFoundError

    try:
        header: Header = reader.header(i)
    except FragmentNotFoundError:
        if missing == "fill":
            return None
        raise
    return header


def flaw_of(source: Source, group: Group, variable: Variable | Aggregation) -> str | None:
    """Return why a variable cannot be converted, as far as metadata tell, or `None`."""
    flaw = _type_flaw(variable.dtype)
    if flaw is None and isinstance(source, OtherSource) and isinstance(variable, Variable):
        return source.flaw(group.path, variable)
    return flaw


def _type_flaw(dtype: np.dtype[Any]) -> str | None:
    """Return why values of a type are not converted, or `None` if Zarr and netCDF share it."""
    metadata: Mapping[str, Any] = dtype.metadata or {}
    is_number = dtype.kind in "iufb" and dtype.itemsize <= 8
    if is_number or dtype.kind == "S" or (dtype.kind == "O" and metadata.get("element_type") is str):
        return None
    return f"values of type {dtype_name(dtype)} are not converted; expected text, integers or reals of up to 64 bits"
