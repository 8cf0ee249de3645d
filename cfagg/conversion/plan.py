"""The plan of a conversion: every array of the store, its chunks, and the source of its values."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from cfagg.arrays.reader import Reader
from cfagg.arrays.source import OtherSource, Source, refuse_unreadable
from cfagg.arrays.untold import unlimited_note, unread_attributes, unused_note
from cfagg.conversion import packing
from cfagg.conversion.chunks import check_dimensions, choose_chunks, choose_shards
from cfagg.conversion.options import Options
from cfagg.conversion.report import Report
from cfagg.conversion.selection import select
from cfagg.conversion.storage import cell_edges
from cfagg.conversion.stored_as import StoredAs
from cfagg.conversion.variables import MAX_CELLS, MAX_CHUNKS, Values, flaw_of, values_of
from cfagg.errors import LimitError, UnsupportedError
from cfagg.findings.losses import Loss
from cfagg.formats.zarr.attributes import fill_of, group_attributes, is_strict, variable_attributes
from cfagg.formats.zarr.creating import chunk_key
from cfagg.formats.zarr.readers import rectilinear_note
from cfagg.model import Grid
from cfagg.storage.access import Access

__all__ = ["Array", "Plan", "build_plan", "dialects_of", "unreadable"]

#: Why a variable with certain names, or in a group with one, is left out.
_UNNAMED = "its path cannot be used within a Zarr store"


@dataclass(frozen=True, eq=False)
class Array:
    """One array of the store."""

    path: str  # within the store, without a leading slash
    dims: tuple[str, ...]
    shape: tuple[int, ...]
    dtype: np.dtype[Any]  # as written; `object` for strings
    attributes: Mapping[str, Any]  # as JSON values, without the fill value
    fill: Any  # declared, in `dtype`
    grid: Grid
    rectilinear: bool  # whether chunks have unequal sizes
    cells: tuple[npt.NDArray[np.int64], ...]  # per dimension, the edges of the blocks in which the source stores values
    reader: Reader
    stored: np.dtype[Any]  # type returned by `reader`
    unpack: packing.Unpack | packing.Unwritten | None = None  # converts read values to written ones
    inner: tuple[int, ...] | None = None  # lengths of the chunks within shards, if `grid` is that of shards
    whole_cells: bool = True  # whether a cell of the source is always read as a whole
    feeds: str | None = None  # path of the array for which this one is intermediate
    stored_as: StoredAs | None = None  # how its objects are stored in an existing array
    unstored: Any = None  # what a Zarr source returns for chunks that are not stored, if it declares no fill value
    absent: npt.NDArray[np.bool_] | None = None  # chunks that are not written at all, by number in C order

    @property
    def chunk_shape(self) -> tuple[int, ...]:
        """Shape of a stored object of a regular grid: a chunk, or a shard."""
        return tuple(a.chunk for a in self.grid.axes)  # type: ignore[union-attr]

    @property
    def padding(self) -> Any:
        """Value of elements beyond the array in its last chunks."""
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
        """Return the key of a chunk within the store: ``tas/c/0/1`` in Zarr v3, ``tas/0.1`` in v2."""
        return chunk_key(self.path, index, zarr_format)


@dataclass(frozen=True, eq=False)
class Plan:
    """Everything to be written."""

    groups: dict[str, dict[str, Any]]  # attributes by path within the store; the root is ""
    arrays: tuple[Array, ...]
    notes: tuple[str, ...]  # information for users
    losses: tuple[Loss, ...] = ()  # what is left out

    def report(self, target: str, stored: int, chunks: int, *, resumed: int, verified: bool) -> Report:
        """Return the report of a finished conversion, with the bytes stored and the number of chunks."""
        arrays = self.arrays
        return Report(
            target=target,
            variables=tuple(a.path for a in arrays),
            bytes=sum(a.nbytes for a in arrays),
            stored=stored,
            chunks=chunks,
            resumed=resumed,
            verified=verified,
            notes=self.notes,
            losses=self.losses,
            dialects=dialects_of(arrays),
        )


def dialects_of(arrays: Sequence[Array]) -> tuple[str, ...]:
    """Return the conventions of the aggregations from which arrays are read."""
    # Only readers of aggregations have one; their class is only imported if the source has some.
    read = [getattr(a.reader, "aggregation", None) for a in arrays]
    return tuple(sorted({r.dialect for r in read if r is not None} - {""}))


def build_plan(source: Source, access: Access, options: Options, workers: int) -> Plan:
    """Return the plan of a conversion; headers of partitions are read if packing must be decided."""
    chosen = select(source.root, options.variables, source.path)
    losses = unreadable(source, chosen, options)
    if options.on_loss == "drop":
        unnamed = sorted(path for path in chosen if not all(map(_is_name, path.split("/"))))
        losses += tuple(Loss(path, None, "the variable", "it is left out", _UNNAMED) for path in unnamed)
        chosen.difference_update(unnamed)
    groups: dict[str, dict[str, Any]] = {"": group_attributes(source.root.attributes)}
    arrays: list[Array] = []
    notes: list[str] = []
    known: set[str] = set()
    for group in source.root.walk():
        where = group.path.strip("/")
        names = [n for n in group.variables if f"{where}/{n}".lstrip("/") in chosen]
        if where and options.variables is not None and not any(c.startswith(where + "/") for c in chosen):
            continue
        if options.on_loss == "drop" and not all(map(_is_name, where.split("/"))):
            if group.attributes:
                losses += (Loss(where, None, "the attributes of the group", "they are left out", _UNNAMED),)
            continue
        for part in where.split("/"):
            _check_name(part, source.path)
        groups[where] = group_attributes(group.attributes)
        facts = {name: fact for name, (of, fact) in group.facts.items() if of in names}
        for name, variable in ({name: group.variables[name] for name in names} | facts).items():
            _check_name(name, source.path)
            known.update(variable.dims)
            values = values_of(source, group, variable, access, options, workers, notes)
            losses += values.losses
            arrays.append(_array(source, values, options, notes))
    if not isinstance(options.chunks, str):
        check_dimensions(dict(options.chunks), known, source.path)
    if options.shards is not None:
        check_dimensions(dict(options.shards), known, source.path, "shards")
    notes.extend(_readers(groups, arrays, options.zarr_format))
    notes += unlimited_note(source.root, chosen, "Zarr does not say which can grow, because all arrays can")
    if options.variables is None:
        notes += unused_note(source.root, "Zarr has those of arrays only")
    return Plan(groups, tuple(arrays), tuple(notes), losses)


def unreadable(source: Source, chosen: set[str], options: Options) -> tuple[Loss, ...]:
    """Return what of `chosen` cannot be read, or is taken from it; raise if the loss is not accepted."""
    found = [e for g in source.root.walk() for e in g.lacking.values() if chosen.issuperset(e.variables)]
    if options.on_loss == "error":
        refuse_unreadable(
            found,
            "choose other variables with variables=[…] (--variable NAME), or leave it out with on_loss='drop' "
            "(--on-loss drop)",
        )
    lost = [(path, e.message) for e in found for path in e.variables]
    if options.on_loss == "drop":
        for group in source.root.walk():
            for path, one in ((f"{group.path.strip('/')}/{n}".lstrip("/"), v) for n, v in group.variables.items()):
                if path in chosen and (flaw := flaw_of(source, group, one)) is not None:
                    lost.append((path, flaw))
                    chosen.discard(path)
    left = tuple(Loss(path, None, "the variable", "it is left out", why) for path, why in lost)
    wanted = None if options.variables is None else chosen
    return left + unread_attributes(source, wanted, drop=options.on_loss == "drop")


def _readers(groups: Mapping[str, Mapping[str, Any]], arrays: list[Array], zarr_format: int) -> Iterator[str]:
    """Yield notes on what other libraries cannot read in the store."""
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
    if zarr_format == 3:
        yield from _fills_of_text(arrays)
    odd = [f"{path or '/'}: {k}" for path, found in groups.items() for k, v in found.items() if not is_strict(v)]
    odd += [f"{a.path}: {k}" for a in arrays for k, v in a.attributes.items() if not is_strict(v)]
    if odd:
        yield (
            f"attributes that are NaN or infinite ({', '.join(odd)}) cannot be represented in strict JSON: "
            "zarr-python, xarray and netCDF-C read them as they are written, strict readers refuse the store"
        )


def _fills_of_text(arrays: Sequence[Array]) -> Iterator[str]:
    """Yield notes on fill values of text, for which Zarr v3 has no attribute that xarray opens."""
    declared = {a.path: a.fill for a in arrays if a.dtype.kind in "OS" and a.fill is not None}
    text = ", ".join(path for path, fill in declared.items() if _is_text(fill))
    if text:
        yield f"fill values of text ({text}) are those of the Zarr v3 arrays; xarray masks text by them in v2 only"
    empty = ", ".join(path for path, fill in declared.items() if not _is_text(fill))
    if empty:
        yield (
            f"fill values that are empty or a null character ({empty}) are those of all text in Zarr v3: xarray masks "
            "text by them in v2 only, and _FillValue does not come back where the store is converted"
        )


def _is_text(fill: str | bytes) -> bool:
    """Return whether a fill value of text differs from the one that arrays of text have by default."""
    return bool(fill.strip("\0") if isinstance(fill, str) else fill.strip(b"\0"))


def _array(source: Source, made: Values, options: Options, notes: list[str]) -> Array:
    """Return the array of the store for one variable."""
    path, dtype, reader, storage, where = made.path, made.dtype, made.reader, made.storage, made.where
    wanted = options.chunks if isinstance(options.chunks, str) else dict(options.chunks)
    itemsize = 32 if dtype.kind == "O" else dtype.itemsize
    grid, rectilinear = choose_chunks(path, made.dims, reader.grid, storage, itemsize, wanted, options.zarr_format)
    inner = None
    if options.shards is not None and made.dims:
        fixed = () if isinstance(wanted, str) else tuple(wanted)
        grid, inner = choose_shards(path, made.dims, grid, dict(options.shards), fixed)
    if grid.size > MAX_CHUNKS:
        raise LimitError(
            f"{where}: an array of shape {made.shape} would get {grid.size:,} chunks, more than {MAX_CHUNKS:,}; choose "
            "larger ones with chunks="
        )
    cells = max(reader.grid.matrix_shape, default=0)
    if cells > MAX_CELLS:
        raise LimitError(
            f"{where} is stored in {cells:,} chunks along one dimension, more than {MAX_CELLS:,}; store it in larger "
            "chunks first"
        )
    if rectilinear:
        notes.append(rectilinear_note(path))
    return Array(
        path=path,
        dims=made.dims,
        shape=made.shape,
        dtype=dtype,
        attributes=variable_attributes(made.attributes, dtype),
        fill=fill_of(made.attributes, dtype, where),
        grid=grid,
        rectilinear=rectilinear,
        cells=cell_edges(reader.grid, storage),
        reader=reader,
        stored=made.stored,
        unpack=made.unpack,
        inner=inner,
        whole_cells=storage is not None or isinstance(source, OtherSource),
        unstored=reader.fill if made.unpack is None else None,
    )


def _is_name(name: str) -> bool:
    """Return whether a name leads to no place out of the store, and to none of its metadata."""
    return not name.startswith(".") and {"/", "\\", "\0"}.isdisjoint(name) and name != "zarr.json"


def _check_name(name: str, path: str) -> None:
    """Raise an error for names that a store cannot have."""
    if not _is_name(name):
        raise UnsupportedError(
            f"file {path}: the name {name!r} cannot be used within a Zarr store; name the variables to convert with "
            "variables=, or leave it out with on_loss='drop' (--on-loss drop)"
        )
