"""Which variables and dimensions the attributes of a dataset refer to, found once for all rules.

Names are resolved by CF section 2.7: a path as given; a bare name in the referring group, then in its ancestors, then,
for coordinate variables only, by lateral search.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from posixpath import normpath
from typing import Any, Literal, NamedTuple

from cfagg.cf.lists import grid_mappings, interpolations, pairs
from cfagg.model.dataset import LONGEST, Dataset, Dimension, Group, Variable

__all__ = [
    "DIMENSION_LISTS", "KEYED", "LISTS", "REFERRING", "WITH_A_GRAMMAR", "Reference", "Resolver", "names_in",
    "own_name", "references", "with_whole_paths",
]  # fmt: skip

#: Attributes that list names of variables.
LISTS = (
    "coordinates",
    "ancillary_variables",
    "bounds",
    "climatology",
    "nodes",
    "geometry",
    "node_coordinates",
    "node_count",
    "part_node_count",
    "interior_ring",
    "bounds_tie_points",
    "quantization",
    "select",
)

#: Attributes of the form ``key: variable``.
KEYED = ("cell_measures", "formula_terms", "interpolation_parameters", "aggregated_data")

#: Attributes with their own grammar.
WITH_A_GRAMMAR = ("grid_mapping", "coordinate_interpolation", "tie_point_mapping")

#: All of the above.
REFERRING = (*LISTS, *KEYED, *WITH_A_GRAMMAR)

#: Attributes that list names of dimensions.
DIMENSION_LISTS = ("dimensions", "aggregated_dimensions", "compress", "instance_dimension", "sample_dimension")

_NAMING = frozenset({*REFERRING, *DIMENSION_LISTS, "mesh"})
_OF_MESHES = ("_connectivity", "_coordinates", "_dimension")

#: A path that does not begin at the root.
_RELATIVE = re.compile(r"(?<![^\s:])[^\s:/]+/[^\s:]*")

#: ``elsewhere`` is not defined by CF: the only variable of that name is in a group that lateral search does not reach,
#: because it is not a coordinate variable.  One rule reports it; the others treat it as found.
How = Literal["path", "own", "ancestor", "lateral", "elsewhere"]


class Reference(NamedTuple):
    """One name of a variable in an attribute, and the variable, or `None` if there is none.

    `key` is the word before the colon, if the attribute has keys; ``"interpolation"`` marks the interpolation variable
    of a ``coordinate_interpolation``, and ``"coordinate"`` a coordinate in an extended ``grid_mapping``.  `how` is the
    way in which the variable was found.
    """

    source: Variable
    attribute: str
    name: str
    key: str | None
    target: Variable | None
    how: How | None


class Resolver:
    """Finds variables and dimensions of a dataset by name."""

    def __init__(self, dataset: Dataset) -> None:
        self._root = dataset.root
        self._lateral: dict[str, list[Variable]] = {}
        self._elsewhere: dict[str, Variable] = {}
        # Parents come first, so the first of several variables is as close to the root as any.
        for group in sorted(dataset.groups, key=lambda g: g.path.count("/") if g.path != "/" else 0):
            for variable in group.variables.values():
                if variable.is_coordinate:
                    self._lateral.setdefault(variable.name, []).append(variable)
                elif group is not dataset.root:
                    self._elsewhere.setdefault(variable.name, variable)

    def variables(self) -> Iterator[Variable]:
        """Yield all variables."""
        for group in self._root.walk():
            yield from group.variables.values()

    def variable(self, name: str, group: Group) -> tuple[Variable | None, How | None]:
        """Return the variable that `name` refers to in `group`, and how it was found."""
        if "/" in name:
            home, _, last = name.rpartition("/")
            found = self._group(home, name, group)
            target = found.variables.get(last) if found is not None else None
            return target, "path" if target is not None else None
        for level in group.ancestors():
            if name in level.variables:
                return level.variables[name], "own" if level is group else "ancestor"
        lateral = self._lateral.get(name)
        if lateral:
            # The shallowest of those that share the dimension visible from here, or else of all.
            shared = group.dimension(name)
            return next((v for v in lateral if v.dimensions[0] is shared), lateral[0]), "lateral"
        other = self._elsewhere.get(name)
        return (other, "elsewhere") if other is not None else (None, None)

    def dimension(self, name: str, group: Group) -> Dimension | None:
        """Return the dimension that `name` refers to in `group`."""
        if "/" not in name:
            return group.dimension(name)
        home, _, last = name.rpartition("/")
        found = self._group(home, name, group)
        return found.dimensions.get(last) if found is not None else None

    def _group(self, home: str, name: str, group: Group) -> Group | None:
        at: Group | None = self._root if name.startswith("/") else group
        for word in home.split("/"):
            if at is None:
                return None
            if word == "..":
                at = at.parent
            elif word not in ("", "."):
                at = at.groups.get(word)
        return at


def references(dataset: Dataset, resolver: Resolver) -> list[Reference]:
    """Return every reference to a variable in `LISTS`, `KEYED` and `WITH_A_GRAMMAR`, in the order of the variables."""
    found = []
    for variable in dataset.variables:
        if not variable.attributes:
            continue
        for attribute, key, name in names_in(variable.attributes):
            target, how = resolver.variable(name, variable.group)
            found.append(Reference(variable, attribute, name, key, target, how))
    return found


def own_name(path: str | None) -> str:
    """Return the name that a variable or dimension has in its group, which is the last part of a path.

    >>> own_name("/forecast/element"), own_name("station")
    ('element', 'station')
    """
    return (path or "").rpartition("/")[2]


def with_whole_paths(attributes: Mapping[str, Any], group: str) -> Mapping[str, Any]:
    """Return attributes in which relative paths of variables and dimensions begin at the root.

    >>> with_whole_paths({"grid_mapping": "../crs: x y", "units": "m/s"}, "/forecast/model")
    {'grid_mapping': '/forecast/crs: x y', 'units': 'm/s'}
    """
    found = {
        key: _RELATIVE.sub(lambda m: normpath(f"{group.rstrip('/')}/{m[0]}"), text)
        for key, text in attributes.items()
        if isinstance(text, str) and "/" in text and (key in _NAMING or key.endswith(_OF_MESHES))
    }
    return {**attributes, **found} if found else attributes


def names_in(attributes: Mapping[str, Any]) -> Iterator[tuple[str, str | None, str]]:
    """Yield attribute, key and name of each variable to which the attributes of a variable refer.

    >>> list(names_in({"grid_mapping": "crs: x", "bounds": "b"}))
    [('bounds', None, 'b'), ('grid_mapping', None, 'crs'), ('grid_mapping', 'coordinate', 'x')]
    """
    texts = {a: attributes[a] for a in REFERRING if isinstance(attributes.get(a), str)}
    for attribute, text in texts.items():
        if attribute in LISTS:
            for name in text[:LONGEST].split():
                yield attribute, None, name
        elif attribute == "grid_mapping":
            for mapping, coordinates in grid_mappings(text) or ():
                yield attribute, None, mapping
                for name in coordinates:
                    yield attribute, "coordinate", name
        elif attribute == "coordinate_interpolation":
            for ties, interpolation in interpolations(text) or ():
                for name in ties:
                    yield attribute, "tie_point", name
                yield attribute, "interpolation", interpolation
        else:
            for key, names in pairs(text) or ():
                # interpolated dimension: tie point index variable, then names of dimensions
                for name in names[:1] if attribute == "tie_point_mapping" else names:
                    yield attribute, key, name
