"""A PP file as a dataset: its fields as few variables as possible, with the coordinates from their headers."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from cfagg.errors import LimitError
from cfagg.formats.pp.arrays import Array, Arrays
from cfagg.formats.pp.attributes import cell_methods, described, name_of, of_field
from cfagg.formats.pp.building import Builder
from cfagg.formats.pp.coordinates import Coordinate, counted
from cfagg.formats.pp.fields import Fields
from cfagg.formats.pp.grids import GRID_WORDS, grid_of
from cfagg.formats.pp.grouping import Box, boxes_of
from cfagg.formats.pp.levels import HYBRID, axis_levels
from cfagg.formats.pp.stash import Phenomenon
from cfagg.formats.pp.times import Times, axis_times, series_times, times_of
from cfagg.formats.pp.values import boundary_of
from cfagg.model.dataset import Dataset, Group, Kind, Variable
from cfagg.storage.files import Handle

__all__ = ["dataset_of"]

#: The CF version of the result.
_CONVENTIONS = "CF-1.13"

#: Most variables of one file.
MOST_VARIABLES = 50_000

#: STASH codes of the fields that define hybrid levels, by LBVC: orography, and surface pressure.
_OROGRAPHY = 33
_FOLLOWED = {65: (_OROGRAPHY,), 9: (409, 1)}


@dataclass(frozen=True, eq=False, slots=True)
class _Part:
    """A future variable: its fields, dimensions and coordinates, with names that are not yet unique."""

    box: Box
    array: Array
    phenomenon: Phenomenon
    dims: tuple[str, ...]
    coordinates: list[Coordinate]
    mapping: dict[str, Any] | None
    #: Names of the dimensions in the dataset.
    names: dict[str, str]

    @property
    def named(self) -> tuple[str, ...]:
        """Names of the dimensions in the dataset."""
        return tuple(self.names[d] for d in self.dims)


def dataset_of(handle: Handle, fields: Fields) -> Dataset:
    """Return the description of a file by its fields."""
    arrays, times = Arrays(handle, fields), times_of(fields)
    number, vectors = arrays.extra()
    root = Group(attributes={"Conventions": _CONVENTIONS})
    builder = Builder(root)
    boxes = boxes_of(fields, times, number)
    if len(boxes) > MOST_VARIABLES:
        raise LimitError(
            f"{handle.key.path} has {len(fields):,} fields of {len(boxes):,} variables, more than {MOST_VARIABLES:,}; "
            "split it"
        )
    parts = [_part(fields, times, box, arrays, vectors[int(number[box.first])], builder) for box in boxes]
    called = [builder.free(name_of(fields, part.box.first, part.phenomenon)) for part in parts]
    surfaces: dict[int, list[tuple[_Part, str]]] = {}
    for part, name in zip(parts, called, strict=True):
        surfaces.setdefault(int(fields["LBUSER4"][part.box.first]), []).append((part, name))
    for part, name in zip(parts, called, strict=True):
        _add(builder, fields, times, part, name, surfaces)
    return Dataset(handle.key.path, "pp", root)


def _part(fields: Fields, times: Times, box: Box, arrays: Arrays, extra: dict[int, Any], builder: Builder) -> _Part:
    """Return a future variable, after adding its dimensions."""
    first = box.first
    array, phenomenon = arrays.of(box), of_field(fields, first)
    grid = grid_of(fields, first, array.grid, extra, partial(series_times, fields, times, first))
    along_times, coordinates = axis_times(times, box.along("reference", "time"))
    if any(c.name == "time" for c in grid.coordinates) and not along_times:
        # Each row has its own time, so those of the field as a whole are not coordinates.
        coordinates = []
    dims: list[str] = []
    realization = fields["LBRSVD4"][box.along("realization")]
    if realization.size > 1 or realization[0] != 0:
        coordinates.append(_along(counted("realization", realization, {"standard_name": "realization"}), dims))
    dims += along_times
    pseudo = fields["LBUSER5"][box.along("pseudo_level")]
    if pseudo.size > 1 or pseudo[0] not in (0, -32768):
        coordinates.append(_along(counted("pseudo_level", pseudo, {"long_name": "pseudo_level"}), dims))
    along_levels, levels = axis_levels(fields, box.along("level"), phenomenon.height)
    if not along_levels and any(c.attributes.get("axis") == "Z" for c in grid.coordinates):
        # Each row or column has its own level.
        levels = []
    dims += along_levels
    grid = grid.beside(dims)
    coordinates += levels + grid.coordinates
    whole = (*dims, *grid.dims)
    sizes = dict(zip(whole, array.shape, strict=True))
    names = builder.dimensions(sizes.items(), coordinates)
    return _Part(box, array, phenomenon, whole, coordinates, grid.mapping, names)


def _along(coordinate: Coordinate, dims: list[str]) -> Coordinate:
    """Return the coordinate of numbers along an axis, which becomes a dimension if there are several."""
    if coordinate.values.size == 1:
        return coordinate.first()
    dims.append(coordinate.name)
    return coordinate.along((coordinate.name,), dimension=True)


def _add(
    builder: Builder, fields: Fields, times: Times, part: _Part, name: str, others: dict[int, list[tuple[_Part, str]]]
) -> None:
    """Add the variable of a part with its coordinates."""
    first = part.box.first
    attributes = described(fields, first, part.phenomenon)
    if part.array.fill is not None:
        attributes["_FillValue"] = np.array([part.array.fill])
    coordinates = [c for c in part.coordinates if not c.dimension]
    lbvc = int(fields["LBVC"][first])
    # A formula has two coordinates besides that of the dimension, which fields without level numbers lack.
    terms = {HYBRID[lbvc][0], "sigma"} if lbvc in HYBRID else None
    has_terms = terms is not None and terms <= {c.name for c in coordinates}
    surface = _surface(fields, times, part, others) if has_terms else None
    aux = []
    if surface is not None:
        term, standard_name, formula = HYBRID[lbvc]
        sigma = next(c for c in coordinates if c.name == "sigma")
        b = builder.coordinate(sigma, part.names)
        b_bounds = builder.group.variables[b].attributes.get("bounds")
        of = {"standard_name": standard_name, "formula_terms": formula.format(a="{self}", b=b, field=surface)}
        of_bounds = {"formula_terms": formula.format(a="{self}", b=b_bounds, field=surface)}
        aux.append(
            builder.coordinate(
                next(c for c in coordinates if c.name == term), part.names, of, of_bounds if b_bounds else None
            )
        )
        coordinates = [c for c in coordinates if c.name != term]
    aux += [builder.coordinate(c, part.names) for c in coordinates]
    if aux:
        attributes["coordinates"] = " ".join(aux)
    if part.mapping is not None:
        attributes["grid_mapping"] = builder.mapping(part.mapping)
    attributes["cell_methods"] = cell_methods(fields, first, {c.name for c in part.coordinates}, part.phenomenon)
    dimensions = tuple(builder.group.dimensions[d] for d in part.named)
    kind: Kind = "float" if part.array.dtype.kind == "f" else "integer"
    builder.group.variables[name] = Variable(
        name,
        builder.group,
        dimensions,
        part.array.dtype,
        kind,
        {k: v for k, v in attributes.items() if v is not None},
        chunks=part.array.table,
        netcdf=False,
        refusals=part.array.refusals,
        unreadable=boundary_of(fields, first, f"{part.array.owner.handle.key.path}: variable {name!r}"),
    )


def _surface(fields: Fields, times: Times, part: _Part, others: dict[int, list[tuple[_Part, str]]]) -> str | None:
    """Return the surface variable for the levels of a part: on its grid, and with its times if it varies with time."""
    first = part.box.first
    known = {d for c in part.coordinates if c.dimension for d in c.dims}.issuperset(part.dims[-2:])
    for code in _FOLLOWED[int(fields["LBVC"][first])]:
        for other, name in others.get(code, ()):
            if other.named[-2:] != part.named[-2:] or not set(other.named) <= set(part.named):
                continue
            # Dimensions without coordinates are shared by all grids of one size.
            if not known and any(fields[word][first] != fields[word][other.box.first] for word in GRID_WORDS):
                continue
            still = code == _OROGRAPHY
            level = part.names.get("model_level_number")
            same = {*part.named[:-2]} - {level} == {*other.named[:-2]}
            if still or (same and (len(other.dims) > 2 or times.time[other.box.first] == times.time[first])):
                return name
    return None
