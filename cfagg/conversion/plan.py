"""What a conversion will write: every array of the store, its chunks, and where its values come from."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from cfagg.arrays.aggregated import AggregationReader
from cfagg.arrays.opening import open_reader
from cfagg.arrays.reader import Reader
from cfagg.arrays.source import Group, OtherSource, Source, Variable, refuse_unreadable
from cfagg.cf.header import Header
from cfagg.conversion import packing
from cfagg.conversion.chunks import RECTILINEAR_NOTE, check_dimensions, choose_chunks
from cfagg.conversion.options import Options
from cfagg.conversion.report import Report
from cfagg.conversion.selection import select
from cfagg.conversion.storage import cell_edges, stored_chunks
from cfagg.errors import LimitError, UnsupportedError
from cfagg.findings.losses import Loss
from cfagg.formats.zarr.attributes import fill_of, group_attributes, is_strict, variable_attributes, with_members
from cfagg.model import Aggregation, Grid, Layout
from cfagg.storage.access import Access
from cfagg.storage.handles import handles
from cfagg.storage.urls import absolute

__all__ = ["Array", "Plan", "build_plan"]

#: Chunks of one array at most: each is an object in the store.
MAX_CHUNKS = 2**24


@dataclass(frozen=True, eq=False)
class Array:
    """One array of the store."""

    path: str  # within the store, without a leading slash
    dims: tuple[str, ...]
    shape: tuple[int, ...]
    dtype: np.dtype[Any]  # that is written; `object` for strings
    attributes: Mapping[str, Any]  # as JSON holds them, without the fill value
    fill: Any  # declared, in `dtype`
    grid: Grid
    rectilinear: bool  # chunks are of unequal sizes
    cells: tuple[npt.NDArray[np.int64], ...]  # per dimension, the edges of what the source stores as one block
    reader: Reader
    stored: np.dtype[Any]  # type that `reader` gives
    unpack: packing.Unpack | packing.Unwritten | None = None  # how values become those that are written
    unstored: Any = None  # what a Zarr source gives for chunks that are not stored, where no fill value is declared

    @property
    def chunk_shape(self) -> tuple[int, ...]:
        """Lengths of a chunk of a regular grid."""
        return tuple(a.chunk for a in self.grid.axes)  # type: ignore[union-attr]

    @property
    def padding(self) -> Any:
        """Value of elements that lie beyond the array in its last chunks."""
        if self.fill is not None:
            return self.fill
        if self.unstored is not None:
            return self.unstored
        return {"O": "", "S": b""}.get(self.dtype.kind, 0)

    @property
    def nbytes(self) -> int:
        """Bytes of the values, before compression."""
        return math.prod(self.shape) * self.dtype.itemsize

    def key(self, index: tuple[int, ...], zarr_format: int) -> str:
        """Return the place of a chunk within the store: ``tas/c/0/1`` in Zarr v3, ``tas/0.1`` in v2."""
        if zarr_format == 2:
            return f"{self.path}/{'.'.join(map(str, index)) or '0'}"
        return "/".join([self.path, "c", *map(str, index)])


@dataclass(frozen=True, eq=False)
class Plan:
    """All that is written."""

    groups: dict[str, dict[str, Any]]  # attributes by path within the store; the root is ""
    arrays: tuple[Array, ...]
    notes: tuple[str, ...]  # what a user should know
    losses: tuple[Loss, ...] = ()  # what is left out

    def report(self, target: str, stored: int, *, resumed: int, verified: bool) -> Report:
        """Return what was done, when it is done."""
        arrays = self.arrays
        read = {a.reader.aggregation.dialect for a in arrays if isinstance(a.reader, AggregationReader)} - {""}
        return Report(
            target=target,
            variables=tuple(a.path for a in arrays),
            bytes=sum(a.nbytes for a in arrays),
            stored=stored,
            chunks=sum(a.grid.size for a in arrays),
            resumed=resumed,
            verified=verified,
            notes=self.notes,
            losses=self.losses,
            dialects=tuple(sorted(read)),
        )


def build_plan(source: Source, access: Access, options: Options, workers: int) -> Plan:
    """Return the plan of a conversion; headers of partitions are read where packing must be decided."""
    chosen = select(source.root, options.variables, source.path)
    losses = _losses(source, chosen, options)
    groups: dict[str, dict[str, Any]] = {"": group_attributes(source.root.attributes)}
    arrays: list[Array] = []
    notes: list[str] = []
    known: set[str] = set()
    for group in source.root.walk():
        where = group.path.strip("/")
        names = [n for n in group.variables if f"{where}/{n}".lstrip("/") in chosen]
        if where and options.variables is not None and not any(c.startswith(where + "/") for c in chosen):
            continue
        for part in where.split("/"):
            _check_name(part, source.path)
        groups[where] = group_attributes(group.attributes)
        facts = {name: fact for name, (of, fact) in group.facts.items() if of in names}
        for name, variable in ({name: group.variables[name] for name in names} | facts).items():
            _check_name(name, source.path)
            known.update(variable.dims)
            arrays.append(_array(source, group, variable, access, options, workers, notes))
    if not isinstance(options.chunks, str):
        check_dimensions(dict(options.chunks), known, source.path)
    notes.extend(_readers(groups, arrays, options.zarr_format))
    return Plan(groups, tuple(arrays), tuple(notes), losses)


def _losses(source: Source, chosen: set[str], options: Options) -> tuple[Loss, ...]:
    """Return the aggregations among those chosen that cannot be read; raise where a loss is not accepted."""
    found = [e for g in source.root.walk() for e in g.unreadable.values() if chosen.issuperset(e.variables)]
    if options.on_loss == "error":
        refuse_unreadable(
            found,
            "choose other variables with variables=[…] (--variable NAME), or leave it out with on_loss='drop' "
            "(--on-loss drop)",
        )
    return tuple(Loss(path, None, "the variable", "an aggregation", e.message) for e in found for path in e.variables)


def _readers(groups: Mapping[str, Mapping[str, Any]], arrays: list[Array], zarr_format: int) -> Iterator[str]:
    """Yield what other libraries will not read of the store."""
    characters = ", ".join(a.path for a in arrays if a.dtype.kind == "S")
    strings = ", ".join(a.path for a in arrays if a.dtype.kind == "O")
    scalars = ", ".join(a.path for a in arrays if not a.shape)
    if characters and zarr_format == 3:
        yield (
            f"variables of characters ({characters}) are written as fixed-length bytes, which Zarr v3 does not "
            "specify yet: zarr-python and xarray read them"
        )
    if strings and zarr_format == 2:
        yield f"variables of strings ({strings}): netCDF-C cannot open a store with these; zarr-python and xarray can"
    elif scalars and zarr_format == 2:
        yield f"variables without dimensions ({scalars}): netCDF-C does not show them; zarr-python and xarray do"
    text = ", ".join(a.path for a in arrays if a.dtype.kind in "OS" and a.fill is not None)
    if text and zarr_format == 3:
        yield f"fill values of text ({text}) are those of the Zarr v3 arrays; xarray masks text by them in v2 only"
    odd = [f"{path or '/'}: {k}" for path, found in groups.items() for k, v in found.items() if not is_strict(v)]
    odd += [f"{a.path}: {k}" for a in arrays for k, v in a.attributes.items() if not is_strict(v)]
    if odd:
        yield (
            f"attributes that are NaN or infinite ({', '.join(odd)}) cannot be represented in strict JSON: "
            "zarr-python, xarray and netCDF-C read them as they are written, strict readers refuse the store"
        )


def _array(
    source: Source,
    group: Group,
    variable: Variable | Aggregation,
    access: Access,
    options: Options,
    workers: int,
    notes: list[str],
) -> Array:
    """Return what becomes of one variable."""
    path = f"{group.path.strip('/')}/{variable.name}".lstrip("/")
    where = f"file {source.path}, variable {path!r}"
    _check_type(variable.dtype, where)
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
            # A file that was cut, or whose number of records is wrong, is told before its terabytes are planned.
            reader.read([slice(n - 1, n) for n in variable.shape])
        attributes, named = with_members(attributes, variable.dtype, path)
        notes += named
    unpack: packing.Unpack | packing.Unwritten | None = None
    if options.packing == "decode" and packing.is_packed(attributes) and variable.dtype.kind in "iuf":
        unpack, attributes = packing.decoded(variable.dtype, attributes, where, netcdf=source.has_default_fills)
    elif isinstance(variable, Variable) and "missing_value" in attributes and type(source) is Source:
        unpack = packing.Unwritten.of(variable.dtype.newbyteorder("="), attributes, where)
    dtype = variable.dtype if unpack is None else unpack.dtype
    storage = None if isinstance(source, OtherSource) else reader.chunks
    if isinstance(variable, Aggregation):
        storage = stored_chunks(group.path, variable, access)
    elif storage is not None:
        _check_stored(variable.shape, storage, handles.get(absolute(source.path)).key.size, where)
    wanted = options.chunks if isinstance(options.chunks, str) else dict(options.chunks)
    itemsize = 32 if dtype.kind == "O" else dtype.itemsize
    grid, rectilinear = choose_chunks(path, variable.dims, reader.grid, storage, itemsize, wanted, options.zarr_format)
    if grid.size > MAX_CHUNKS:
        raise LimitError(
            f"{where}: an array of shape {variable.shape} would get {grid.size:,} chunks, more than {MAX_CHUNKS:,}; if "
            "its shape is right, choose larger ones with chunks="
        )
    if rectilinear:
        notes.append(RECTILINEAR_NOTE.format(name=path))
    return Array(
        path=path,
        dims=variable.dims,
        shape=variable.shape,
        dtype=np.dtype(object) if dtype.kind == "O" else dtype.newbyteorder("="),
        attributes=variable_attributes(attributes, dtype),
        fill=fill_of(attributes, dtype, where),
        grid=grid,
        rectilinear=rectilinear,
        cells=cell_edges(reader.grid, storage),
        reader=reader,
        stored=np.dtype(object) if dtype.kind == "O" else variable.dtype.newbyteorder("="),
        unpack=unpack,
        unstored=reader.fill if unpack is None else None,
    )


def _check_stored(shape: Sequence[int], storage: Sequence[int], size: int, where: str) -> None:
    """Refuse an array most of whose chunks cannot be in its file, which notes each by eight bytes."""
    count = math.prod(-(-n // max(c, 1)) for n, c in zip(shape, storage, strict=True))
    if count > max(MAX_CHUNKS, size // 8):
        raise LimitError(
            f"{where}: an array of shape {tuple(shape)} has {count:,} chunks, of which {size:,} bytes hold few; "
            "if its shape is right, store it in larger chunks first"
        )


def _headers(
    aggregation: Aggregation, reader: Any, workers: int, missing: str
) -> Iterator[tuple[Layout, Header | None]]:
    """Yield layout and header of every partition, None where it is missing and may be; a few threads read ahead."""
    partitions = aggregation.partitions
    rows = (i for i in range(len(partitions)) if partitions.present[i] and partitions.value[i] < 0)
    with ThreadPoolExecutor(workers) as pool:
        while batch := list(islice(rows, 64 * workers)):
            heads = pool.map(lambda i: _header(reader, i, missing), batch)
            for i, head in zip(batch, heads, strict=True):
                yield partitions.layout_of(i), head


def _header(reader: Any, i: int, missing: str) -> Header | None:
    """Return the header of a partition, None where it is missing and may be."""
    from cfagg.errors import FragmentNotFoundError

    try:
        header: Header = reader.header(i)
    except FragmentNotFoundError:
        if missing == "fill":
            return None
        raise
    return header


def _check_type(dtype: np.dtype[Any], where: str) -> None:
    """Refuse types that Zarr and netCDF do not share."""
    metadata: Mapping[str, Any] = dtype.metadata or {}
    if dtype.kind in "iufb" or dtype == np.dtype("S1") or (dtype.kind == "O" and metadata.get("element_type") is str):
        return
    found = metadata.get("vlen", metadata.get("name", dtype))
    raise UnsupportedError(
        f"{where}: values of type {found} (neither numbers nor text) are not converted; "
        "name the variables to convert with variables="
    )


def _check_name(name: str, path: str) -> None:
    """Refuse names that would lead out of the store or clash with its metadata."""
    if name.startswith(".") or not {"/", "\\", "\0"}.isdisjoint(name) or name == "zarr.json":
        raise UnsupportedError(
            f"file {path}: the name {name!r} cannot be used within a Zarr store; name the variables to convert with "
            "variables="
        )
