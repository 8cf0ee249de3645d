"""The plan of a conversion to netCDF-4: dimensions, attributes, chunks and filters of every variable."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from cfagg.arrays.fixed_length import spelled
from cfagg.arrays.source import Group, OtherSource, Source
from cfagg.conversion.chunks import auto_chunks, check_dimensions
from cfagg.conversion.netcdf_storage import itemsize_of, storage_of
from cfagg.conversion.plan import Array, unreadable
from cfagg.conversion.request import Request
from cfagg.conversion.selection import select
from cfagg.conversion.storage import cell_edges
from cfagg.conversion.variables import MAX_CHUNKS, Values, values_of
from cfagg.errors import LimitError, LossError
from cfagg.findings.losses import Loss
from cfagg.formats.zarr.attributes import fill_of
from cfagg.model import Grid
from cfagg.storage.access import Access
from cfagg.writing.attributes import NAMED_AS_A_DIMENSION, name_flaw, netcdf_attributes, without_text_fill

__all__ = ["NetcdfGroup", "NetcdfPlan", "NetcdfVariable", "plan_netcdf"]

#: Attributes that only describe an aggregation, and one that the library writes itself.
_HIDDEN = frozenset({"nca_dimensions", "nca_array", "nca_private", "_ARRAY_DIMENSIONS", "_FillValue"})


@dataclass(frozen=True, eq=False)
class NetcdfVariable:
    """One variable of the file."""

    name: str
    dims: tuple[str, ...]
    array: Array  # the array to read, in boxes of whole chunks of the file
    attributes: Mapping[str, Any]  # `_FillValue` included
    chunks: tuple[int, ...] | None  # of the file; `None` if values are contiguous
    filters: Mapping[str, Any]  # by the names of netCDF4-python


@dataclass(eq=False)
class NetcdfGroup:
    """One group of the file."""

    name: str
    dimensions: dict[str, int] = field(default_factory=dict)
    unlimited: set[str] = field(default_factory=set)
    attributes: dict[str, Any] = field(default_factory=dict)
    variables: list[NetcdfVariable] = field(default_factory=list)
    groups: list[NetcdfGroup] = field(default_factory=list)


@dataclass(frozen=True, eq=False)
class NetcdfPlan:
    """Everything to be written; `variables` are those of all groups."""

    root: NetcdfGroup
    variables: tuple[NetcdfVariable, ...]
    losses: tuple[Loss, ...]
    notes: tuple[str, ...]


def plan_netcdf(source: Source, access: Access, request: Request) -> NetcdfPlan:
    """Return the plan of a conversion; raise a `LossError` for anything that netCDF cannot express, unless dropped."""
    made = _Planner(source, access, request)
    losses = [*unreadable(source, made.chosen, request.options)]
    root = made.group(source.root, (), losses)
    refused = [loss for loss in made.losses if request.options.on_loss == "error"]
    if refused:
        raise LossError(
            f"{request.target} was not written: netCDF cannot express {len(refused):,} "
            f"thing{'s'[: len(refused) != 1]} of the source; on_loss='drop' (--on-loss drop) leaves them out",
            refused,
        )
    if not isinstance(request.options.chunks, str):
        check_dimensions(dict(request.options.chunks), made.known, source.path)
    return NetcdfPlan(root, tuple(made.variables), (*losses, *made.losses), tuple(made.notes))


class _Planner:
    """Traverses the groups of a source."""

    def __init__(self, source: Source, access: Access, request: Request) -> None:
        self.source, self.access, self.request = source, access, request
        self.chosen = select(source.root, request.options.variables, source.path)
        self.variables: list[NetcdfVariable] = []
        self.losses: list[Loss] = []
        self.notes: list[str] = []
        self.known: set[str] = set()

    def group(self, group: Group, above: tuple[Mapping[str, int], ...], losses: list[Loss]) -> NetcdfGroup:
        """Return one group with all its descendants; `above` are the dimensions of its parent groups."""
        path = group.path.strip("/")
        attributes, lost = netcdf_attributes(group.public_attributes, None, path or "/")
        self.losses += lost
        made = NetcdfGroup(path.rpartition("/")[2], attributes=attributes)
        names = [n for n in group.variables if f"{path}/{n}".lstrip("/") in self.chosen]
        facts = {name: fact for name, (of, fact) in group.facts.items() if of in names}
        found = [
            values_of(
                self.source, group, variable, self.access, self.request.options, self.request.workers, self.notes,
                default_fills=True,
            )
            for variable in ({name: group.variables[name] for name in names} | facts).values()
            if not self._flawed("the variable", variable.name, f"{path}/{variable.name}".lstrip("/"))
        ]  # fmt: skip
        self._dimensions(group, made)
        scopes = (*above, made.dimensions)
        for values in found:
            one = self._spelled(values, (*scopes, dict.fromkeys(names, -1)))
            dims = self._named(one, made, scopes)
            made.variables.append(self._variable(one, dims, {d for d in dims if self._grows(d, group)}))
        self.variables += made.variables
        for inner in group.groups.values():
            where = inner.path.strip("/")
            if self.request.options.variables is not None and not any(c.startswith(where + "/") for c in self.chosen):
                continue
            if not self._flawed("the group", where.rpartition("/")[2], where, made.dimensions):
                made.groups.append(self.group(inner, scopes, losses))
        return made

    def _flawed(self, what: str, name: str, path: str, beside: Collection[str] = ()) -> bool:
        """Whether netCDF does not allow a name, or not beside such dimensions, so that the named object is lost."""
        why = name_flaw(name) or (NAMED_AS_A_DIMENSION if name in beside else None)
        if why is not None:
            self.losses.append(Loss(path, None, what, name, why))
        return why is not None

    def _dimensions(self, group: Group, made: NetcdfGroup) -> None:
        """Define the dimensions of a group, all of them if all variables are converted."""
        used = {d for g in group.walk() for n, v in g.variables.items() for d in v.dims
                if f"{g.path.strip('/')}/{n}".lstrip("/") in self.chosen}  # fmt: skip
        for name, size in group.public_dimensions.items():
            if name not in used and (self.request.options.variables is not None or name_flaw(name)):
                continue
            if name_flaw(name):
                continue  # it is handled with its variables
            made.dimensions[name] = size
            if name in group.unlimited or not size:
                made.unlimited.add(name)
            if not size and name not in group.unlimited:
                self.notes.append(f"dimension {name!r} has the size 0: netCDF-4 writes it as unlimited")
            if name in group.unlimited and size and name not in used:
                self.notes.append(
                    f"no variable has the unlimited dimension {name!r}: its size, {size:,}, becomes 0 in netCDF-4"
                )

    def _grows(self, dim: str, group: Group) -> bool:
        """Whether a dimension is unlimited as seen from a group."""
        parts = group.path.strip("/").split("/") if group.path.strip("/") else []
        for n in range(len(parts), -1, -1):
            there = self.source.group("/".join(parts[:n]))
            if dim in there.dimensions:
                return dim in there.unlimited or not there.dimensions[dim]
        return False

    def _spelled(self, values: Values, scopes: tuple[Mapping[str, int], ...]) -> Values:
        """Return bytes of fixed length as characters, as xarray writes them; other values as they are."""
        reader = spelled(values.reader, ChainMap(*map(dict, reversed(scopes))))
        if reader is values.reader:
            return values
        attributes, lost = without_text_fill(values.attributes, values.path)
        self.losses += lost
        return replace(
            values,
            dims=reader.dims,
            shape=reader.shape,
            dtype=reader.dtype,
            stored=reader.dtype,
            attributes=attributes,
            reader=reader,
            storage=None if values.storage is None else (*values.storage, reader.shape[-1]),
        )

    def _named(self, values: Values, made: NetcdfGroup, scopes: tuple[Mapping[str, int], ...]) -> tuple[str, ...]:
        """Return the dimensions of a variable; names that netCDF does not allow, or has with another size, are lost."""
        dims: list[str] = []
        for name, size in zip(values.dims, values.shape, strict=True):
            known = next((scope[name] for scope in reversed(scopes) if name in scope), None)
            why = name_flaw(name)
            if why is None and known is None:
                made.dimensions[name] = size
                if not size:
                    made.unlimited.add(name)
            elif why is None and known != size:
                why = f"the dimension {name!r} has the size {known:,} there"
            if why is not None:
                self.losses.append(Loss(values.path, None, f"the name of dimension {name!r}", f"of size {size:,}", why))
                name = self._other(size, scopes, dims)  # noqa: PLW2901  it goes by another name from here
                made.dimensions.setdefault(name, size)
            dims.append(name)
        return tuple(dims)

    @staticmethod
    def _other(size: int, scopes: tuple[Mapping[str, int], ...], taken: Sequence[str]) -> str:
        """Return a replacement name for a dimension whose own name netCDF cannot use."""
        number = 0
        while True:
            name = f"dim_{size}" + (f"_{number}" if number else "")
            known = next((scope[name] for scope in reversed(scopes) if name in scope), size)
            if known == size and name not in taken:
                return name
            number += 1

    def _variable(self, values: Values, dims: tuple[str, ...], growing: set[str]) -> NetcdfVariable:
        """Return the netCDF variable for one variable."""
        self.known.update(values.dims)
        dtype, attributes = values.dtype, dict(values.attributes)
        if dtype.kind == "b":
            dtype = np.dtype("i1")
            if attributes.get("_FillValue") is None:
                attributes["dtype"], how = "bool", "as xarray does"
            else:
                how = "which are read as numbers, since xarray has no missing booleans in netCDF"
            self.notes.append(f"variable {values.path!r} is boolean: bytes 0 and 1 are written, {how}")
        elif dtype == np.float16:
            dtype = np.dtype("f4")
            self.notes.append(f"variable {values.path!r} has 16-bit floats: they are written as equal 32-bit ones")
        self.losses += values.losses
        fill = fill_of(attributes, dtype, values.where)
        kept = {k: v for k, v in attributes.items() if k not in _HIDDEN}
        others, lost = netcdf_attributes(kept, dtype, values.path)
        self.losses += lost
        if fill is not None:
            others["_FillValue"] = fill
        chunks, filters = storage_of(values, dtype, self.request, self.notes, growing=bool(growing))
        grid = Grid.regular(values.shape, chunks or auto_chunks(values.reader.grid, values.storage, itemsize_of(dtype)))
        if grid.size > MAX_CHUNKS:
            raise LimitError(
                f"{values.where}: an array of shape {values.shape} would get {grid.size:,} chunks, more than "
                f"{MAX_CHUNKS:,}; choose larger ones with chunks="
            )
        array = Array(
            path=values.path,
            dims=values.dims,
            shape=values.shape,
            dtype=values.dtype,
            attributes={},
            fill=fill,
            grid=grid,
            rectilinear=False,
            cells=cell_edges(values.reader.grid, values.storage),
            reader=values.reader,
            stored=values.stored,
            unpack=values.unpack,
            whole_cells=values.storage is not None or isinstance(self.source, OtherSource),
        )
        return NetcdfVariable(values.path.rpartition("/")[2], dims, array, others, chunks, filters)
