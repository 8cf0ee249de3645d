"""Variables of a dataset from coordinates of arrays: equal ones become one variable, each with a unique name."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from cfagg.formats.pp.coordinates import Coordinate
from cfagg.model.dataset import AttributeValue, Dimension, Group, Kind, Variable

__all__ = ["Builder"]

_KINDS: Mapping[str, Kind] = {"i": "integer", "f": "float", "O": "string"}

#: Name of the dimension of bounds.
_BOUNDS = "bnds"


class Builder:
    """Adds coordinates and variables to a group."""

    def __init__(self, group: Group) -> None:
        self.group = group
        #: Each name with its last number.
        self._names: dict[str, int] = {_BOUNDS: 0}
        self._known: dict[tuple[Any, ...], str] = {}

    def free(self, name: str) -> str:
        """Return an unused name, with a number if necessary, and reserve it."""
        free = name
        while free in self._names:
            self._names[name] += 1
            free = f"{name}_{self._names[name]}"
        self._names[free] = 0
        return free

    def dimensions(self, dims: Iterable[tuple[str, int]], coordinates: Iterable[Coordinate]) -> dict[str, str]:
        """Add dimensions with their coordinate variables; return the name of each in the group."""
        heads = {c.dims[0]: c for c in coordinates if c.dimension}
        found = {}
        for name, size in dims:
            head = heads.get(name)
            key = ("dimension", name, size) if head is None else ("head", *_content(head))
            if key not in self._known:
                self._known[key] = self.free(name)
                self.group.add_dimension(self._known[key], size)
                if head is not None:
                    self._add(self._known[key], head, (self._known[key],), {}, {})
            found[name] = self._known[key]
        return found

    def coordinate(
        self,
        coordinate: Coordinate,
        names: Mapping[str, str],
        attributes: Mapping[str, str] | None = None,
        bounds_attributes: Mapping[str, str] | None = None,
    ) -> str:
        """Add a coordinate that is not a coordinate variable of a dimension; return its name."""
        # In further `attributes` of it or its bounds `{self}` is replaced by their own name.
        dims = tuple(names[d] for d in coordinate.dims)
        more = {k: v for part in (attributes, bounds_attributes) for k, v in (part or {}).items()}
        key = ("coordinate", dims, *_content(coordinate), tuple(more.items()))
        if key not in self._known:
            self._known[key] = self.free(coordinate.name)
            self._add(self._known[key], coordinate, dims, attributes or {}, bounds_attributes or {})
        return self._known[key]

    def mapping(self, attributes: Mapping[str, Any]) -> str:
        """Add a grid mapping; return its name."""
        key = ("mapping", *((k, v if isinstance(v, str) else v.tobytes()) for k, v in attributes.items()))
        if key not in self._known:
            self._known[key] = self.free(str(attributes["grid_mapping_name"]))
            self._variable(self._known[key], (), np.zeros((), np.int32), dict(attributes))
        return self._known[key]

    def _add(
        self,
        name: str,
        coordinate: Coordinate,
        dims: tuple[str, ...],
        attributes: Mapping[str, str],
        bounds_attributes: Mapping[str, str],
    ) -> None:
        own = {**coordinate.attributes, **{k: v.replace("{self}", name) for k, v in attributes.items()}}
        if coordinate.bounds is not None:
            if _BOUNDS not in self.group.dimensions:
                self.group.add_dimension(_BOUNDS, 2)
            bounds = self.free(f"{name}_climatology" if coordinate.climatology else f"{name}_bounds")
            own["climatology" if coordinate.climatology else "bounds"] = bounds
        self._variable(name, dims, coordinate.values, own)
        if coordinate.bounds is not None:
            of_bounds = {k: v.replace("{self}", bounds) for k, v in bounds_attributes.items()}
            self._variable(bounds, (*dims, _BOUNDS), coordinate.bounds, of_bounds)

    def _variable(self, name: str, dims: tuple[str, ...], values: npt.NDArray[Any], attributes: dict[str, Any]) -> None:
        found: tuple[Dimension, ...] = tuple(self.group.dimensions[d] for d in dims)
        kind = _KINDS[values.dtype.kind]
        values.flags.writeable = False
        of: dict[str, AttributeValue] = {k: v for k, v in attributes.items() if v is not None}
        self.group.variables[name] = Variable(
            name, self.group, found, values.dtype, kind, of, read=values.__getitem__, netcdf=False
        )


def _content(coordinate: Coordinate) -> tuple[Any, ...]:
    """Return everything that two equal coordinates share."""
    bounds = None if coordinate.bounds is None else coordinate.bounds.tobytes()
    values: Any = coordinate.values.tobytes() if coordinate.values.dtype != object else tuple(coordinate.values)
    attributes = tuple(sorted((k, str(v)) for k, v in coordinate.attributes.items()))
    return coordinate.name, coordinate.values.shape, values, bounds, attributes
