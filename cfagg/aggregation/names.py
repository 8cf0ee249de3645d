"""Names in the dataset of an aggregation: equal variables become one, and all others have distinct names."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from cfagg.arrays.joined_source import variable_of
from cfagg.arrays.source import Group, Variable
from cfagg.cf.joining import Described, Stated
from cfagg.cf.references import DIMENSION_LISTS, KEYED, REFERRING, own_name
from cfagg.model import Aggregation

__all__ = [
    "BOUNDS",
    "REFERRING_TEXTS",
    "Contents",
    "absent",
    "content_key",
    "dimension_name",
    "dimension_order",
    "is_listed",
    "names_beside",
    "note_name",
    "of_dimension",
    "referring",
    "renamed",
]

#: Attributes containing names of variables or of dimensions.
REFERRING_TEXTS = frozenset({*REFERRING, *DIMENSION_LISTS, "mesh"}) - {
    "aggregated_data", "aggregated_dimensions", "dimensions",
}  # fmt: skip

BOUNDS = ("bounds", "climatology")

#: The integers up to this one are exact as reals.
_EXACT = 2**53

#: Attributes of datasets that tell grids, and what belongs to these, apart.
_OF_MODELS = ("source_id", "model_id", "rcm_version_id", "grid_label")

_TOPOLOGY = ("_connectivity", "_coordinates", "_dimension")

_WORD = re.compile(r"[^\s:]+")
#: Excludes a word before a colon, such as the measure in "area: areacella".
_VALUE = re.compile(r"[^\s:]+(?![^\s:]|:)")


class Contents:
    """Dimensions and variables of one group, built up incrementally."""

    def __init__(self) -> None:
        self.dimensions: dict[str, int] = {}
        self.unlimited: set[str] = set()
        self.variables: dict[str, Variable | Aggregation] = {}
        self.arrays: dict[str, npt.NDArray[Any]] = {}
        #: The references of variables, by names in this group, and the names that their files lack.
        self.refers: dict[str, tuple[dict[str, Any], frozenset[str]]] = {}
        #: The first file of the arrays for which these hold.
        self.places: dict[str, str] = {}
        #: Those of these names that denote variables of other files, in their order.
        self.outside: dict[str, tuple[str, ...]] = {}
        #: The names of arrays in their files.
        self.called: dict[str, str] = {}
        #: How the samples of features are stored, or the mesh of places, by the key of the coordinate of these.
        self.linked: dict[Any, Any] = {}
        self._numbers: dict[str, int] = {}
        self._known: dict[Any, str] = {}
        self._keys: dict[str, Any] = {}
        self._growing: tuple[dict[Any, Any], ...] = (
            self.dimensions, self.variables, self.arrays, self.refers, self.places, self.outside, self.called,
            self.linked, self._numbers, self._known, self._keys,
        )  # fmt: skip
        self._undone: list[tuple[str, int]] = []

    def mark(self) -> tuple[int, ...]:
        """Return a marker of the current content for `back`."""
        self._undone = []
        return tuple(map(len, self._growing))

    def back(self, mark: tuple[int, ...]) -> None:
        """Remove everything that was added since the last mark."""
        for own, count in zip(self._growing, mark, strict=True):
            while len(own) > count:
                own.popitem()
        for name, number in reversed(self._undone):
            self._numbers[name] = number

    def keys(self, names: Iterable[str]) -> tuple[Any, ...]:
        """Return the keys of names, or the names themselves if they have none."""
        return tuple(self._keys.get(name, name) for name in names)

    def refer(self, name: str, attributes: Mapping[str, Any], names: Mapping[str, str], place: str) -> bool:
        """Make a variable refer by the names here; return `False` if it already refers to something else.

        Bounds that its file lacks are dropped. Arrays of the same file may use different ones of the same names.
        """
        gone = [k for k in BOUNDS if k in attributes and _new(str(attributes[k]), names, k) is None]
        attributes = {k: v for k, v in attributes.items() if k not in gone}
        found = referring(attributes, names), absent(attributes, names)
        if name in self.refers:
            before = self.refers[name]
            return before == found or (before[0] == found[0] and self.places.get(name) == place)
        self.refers[name], self.places[name] = found, place
        one = self.variables[name]
        kept = {k: v for k, v in one.attributes.items() if k not in gone}
        self.variables[name] = replace(one, attributes={**kept, **found[0]})
        return True

    def settle(self, name: str, attributes: Mapping[str, Any], names: Mapping[str, str]) -> None:
        """Note that a variable may refer to what an array has, though others with the same variable lack it."""
        found, missing = self.refers[name]
        self.refers[name] = found, missing & absent(attributes, names)

    def known(self, key: Any) -> str | None:
        """Return the name of the object that was added under a key, or `None`."""
        return self._known.get(key)

    def free(self, name: str, key: Any = None, beside: Collection[str] = ()) -> str:
        """Return an unused name, with a number if necessary, and reserve it under a key.

        It is also none of those in `beside`.
        """
        free = name
        while free in self._numbers or free in beside:
            if name in self._numbers:
                self._undone.append((name, self._numbers[name]))
            self._numbers[name] = self._numbers.get(name, 0) + 1
            free = f"{name}_{self._numbers[name]}"
        self._numbers[free] = 0
        if key is not None:
            self._known[key] = free
            self._keys[free] = key
        return free

    def apart(self, key: Any, beside: Collection[str]) -> Any:
        """Return a key that does not belong to one of the names in `beside`."""
        while self._known.get(key) in beside:
            key = ("apart", key)
        return key

    def head(self, name: str, key: Any) -> str:
        """Return the name of a dimension as that of its coordinate, which is registered under a key."""
        self._known[key] = name
        return name

    def dimension(self, name: str, size: int, key: Any, beside: Collection[str] = ()) -> str:
        """Return the name of a dimension, adding it unless its key is known; the name is none of those in `beside`."""
        key = self.apart(key, beside)
        found = self._known.get(key)
        if found is None:
            found = self.free(name, key, beside)
            self.dimensions[found] = size
        return found

    def add(self, name: str, dims: Sequence[str], values: npt.NDArray[Any], attributes: Mapping[str, Any]) -> None:
        """Add an in-memory array."""
        values.flags.writeable = False
        self.variables[name] = variable_of(name, dims, values, attributes)
        self.arrays[name] = values

    def fits(self, other: Contents) -> bool:
        """Return whether everything in another one could also be added here, under the same names."""
        names = {name: key for key, name in other._known.items()}
        if any(self.refers.get(name, of) != of for name, of in other.refers.items()):
            return False
        return all(
            name not in self._numbers or (name in names and self._known.get(names[name]) == name)
            for name in other._numbers
        )

    def group(self, attributes: Mapping[str, Any], path: str = "/") -> Group:
        """Return the group at a path, in which no variable refers to one that its file lacked."""
        external: dict[str, None] = {}
        for name, (_, missing) in self.refers.items():
            one, outside = self.variables[name], self.outside.get(name, ())
            taken = {word: self.free(word) for word in sorted(missing & self.variables.keys()) if word not in outside}
            taken |= {word: self._elsewhere(word, one) for word in outside if word in missing & self.variables.keys()}
            if taken:
                self.variables[name] = replace(one, attributes=renamed(one.attributes, taken))
            external |= dict.fromkeys(taken.get(word, word) for word in outside)
        if path == "/":
            listed = " ".join(word for word in external if word not in self.variables)
            attributes = {k: v for k, v in attributes.items() if k != "external_variables"}
            attributes |= {"external_variables": listed} if listed else {}
        used = {d for v in self.variables.values() for d in v.dims}
        dimensions = {d: n for d, n in self.dimensions.items() if d in used}
        return Group(path, dimensions, frozenset(self.unlimited), dict(attributes), self.variables)

    def _elsewhere(self, word: str, one: Variable | Aggregation) -> str:
        """Return the name here of what an array calls `word`, in another file; an unused name if there is none."""
        named = (word, *(name for name, called in self.called.items() if called == word))
        return next((name for name in named if _fits(self.variables[name], one)), None) or self.free(word)


def _fits(other: Variable | Aggregation, one: Variable | Aggregation) -> bool:
    """Return whether a variable has no dimensions beside those of another, and is not of another model."""
    said = ((other.attributes.get(name), one.attributes.get(name)) for name in _OF_MODELS)
    return set(other.dims) <= set(one.dims) and all(None in both or str(both[0]) == str(both[1]) for both in said)


def renamed(attributes: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    """Return attributes with the new names of the variables and dimensions that they refer to.

    >>> renamed({"cell_methods": "time: mean", "units": "time"}, {"time": "time_1"})
    {'cell_methods': 'time_1: mean', 'units': 'time'}
    >>> renamed({"cell_measures": "area: area"}, {"area": "area_1"})
    {'cell_measures': 'area: area_1'}

    A dimension may be renamed differently from the variable of the same name; its key is given by `of_dimension`.

    >>> renamed({"instance_dimension": "station"}, {"station": "station_2", of_dimension("station"): "station_1"})
    {'instance_dimension': 'station_1'}
    """
    found = dict(attributes)
    for key, pattern in (*_patterns(found), ("cell_methods", _WORD)):
        if isinstance(found.get(key), str):
            found[key] = pattern.sub(lambda m, key=key: _new(m[0], names, key) or m[0], found[key])  # type: ignore[misc]
    return found


def referring(attributes: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, str]:
    """Return the attributes that contain names of variables or of dimensions, with the new names.

    >>> referring({"cf_role": "mesh_topology", "face_node_connectivity": "nodes"}, {"nodes": "nodes_1"})
    {'face_node_connectivity': 'nodes_1'}
    """
    found = renamed(attributes, names)
    return {key: found[key] for key, _ in _patterns(attributes)}


def absent(attributes: Mapping[str, Any], names: Mapping[str, str]) -> frozenset[str]:
    """Return the words of such attributes that are not among these names.

    >>> sorted(absent({"cell_measures": "area: area", "ancillary_variables": "flags"}, {"flags": "flags"}))
    ['area']
    """
    found = ((key, pattern.findall(str(attributes[key]))) for key, pattern in _patterns(attributes))
    return frozenset(word for key, words in found for word in words if _new(word, names, key) is None)


def _new(word: str, names: Mapping[str, str], key: str) -> str | None:
    """Return the new name for a name or a path in an attribute."""
    # Beside those of all variables are `face_dimension` and others of meshes.
    dimension = key in DIMENSION_LISTS or key.endswith("_dimension")
    found = names.get(of_dimension(own_name(word))) if dimension else None
    return found or names.get(word, names.get(word.lstrip("/")))


def of_dimension(name: str) -> str:
    """Return the key for a dimension among the names of variables, which contain no blanks."""
    return f"dimension {name}"


def _patterns(attributes: Mapping[str, Any]) -> list[tuple[str, re.Pattern[str]]]:
    """Return the attributes that refer to others, with patterns that find the names in them."""
    mesh = attributes.get("cf_role") == "mesh_topology"
    return [
        (key, _VALUE if key in KEYED else _WORD)
        for key, text in attributes.items()
        if isinstance(text, str) and (key in REFERRING_TEXTS or (mesh and key.endswith(_TOPOLOGY)))
    ]


def content_key(values: npt.NDArray[Any]) -> tuple[Any, ...]:
    """Return a key that is the same for equal arrays, also for equal numbers of other types.

    >>> content_key(np.arange(3, dtype="f4")) == content_key(np.arange(3, dtype="i2"))
    True
    """
    if values.dtype == object:
        return values.shape, tuple(values.ravel().tolist())
    if values.dtype.kind in "iuf" and values.itemsize <= 8:
        large = values.dtype.kind != "f" and values.itemsize == 8
        if not large or ((values <= _EXACT) & (values >= -_EXACT)).all():
            return values.shape, "numbers", values.astype("f8").tobytes()
    return values.shape, values.dtype.str, np.ascontiguousarray(values).tobytes()


def dimension_order(described: Sequence[Described], several: Sequence[str]) -> list[str]:
    """Return the identities of the axes that are dimensions: first those along which members vary, then their own.

    `several` are the axes along which the array has more than one element.
    """
    own: dict[str, None] = {}
    for stated_dims, along in dict.fromkeys((d.stated.dims, tuple(d.along.items())) for d in described):
        here = dict(along)
        own.update(dict.fromkeys(here[dim] for dim in stated_dims if dim in here))
    if len({d.stated.dims for d in described}) > 1:
        most = max(described, key=lambda d: len(d.along))
        own = dict.fromkeys([*(most.along[d] for d in most.stated.dims if d in most.along), *own])
    # Dimensions of other variables only, such as features of a ragged array, are excluded.
    known = described[0].axes.keys() - described[0].along.values()
    return [*(n for n in several if n not in own and n in known), *own]


def note_name(names: dict[str, str], described: Sequence[Described], identity: str, new: str) -> None:
    """Record the new name of a dimension: attributes come from the first member, and names in others mean its own."""
    names.update({d: new for d, i in described[0].along.items() if i == identity})
    for one in described:
        for dim, axis in one.along.items():
            if axis == identity:
                names.setdefault(dim, new)


def is_listed(one: Described, other: Stated) -> bool:
    """Return whether a variable lists another among its coordinates, such as the names of its features."""
    listed = (one.stated.text("coordinates") or "").split()
    return other.name.rpartition("/")[2] in {word.rpartition("/")[2] for word in listed}


def names_beside(described: Sequence[Described], identity: str) -> set[str]:
    """Return the names that members use for their other dimensions.

    A dimension of the array with such a name would be mistaken for one of these when they are read.
    """
    return {name for d in described for name in d.stated.dims if d.along.get(name) != identity}


def dimension_name(described: Sequence[Described], identity: str, beside: Collection[str]) -> str:
    """Return the name of an axis in the first member that has it as a dimension, or else its coordinate's name.

    The coordinate's name comes first where the first member has a scalar one, and others have coordinate variables.  If
    possible, it is a name that is not in `beside`, and none of a coordinate along several axes, such as of times that
    depend on starts and steps.
    """
    coordinate = described[0].axes[identity]
    several = {p.stated.name for one in described for p in one.parts.values() if len({*p.axes} - {""}) > 1}
    found: dict[str, None] = {}
    for one in described:
        found.update(dict.fromkeys(d for d, a in one.along.items() if a == identity and d in one.stated.dims))
    found |= dict.fromkeys(d for d, a in described[0].along.items() if a == identity)  # of features, for example
    others = (one.axes[identity].stated for one in described)
    if not coordinate.stated.dims and any(other.dims == (other.name.rpartition("/")[2],) for other in others):
        found = {coordinate.stated.name: None, **found}
    found = {name: None for name in found if coordinate.index or name not in several}
    names = [*found, coordinate.stated.name]
    return next((n for n in found if n not in beside), names[0]).rpartition("/")[2]
