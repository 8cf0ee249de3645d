"""Names in the dataset of an aggregation: what is equal is one variable, and no two have the same name."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from cfagg.arrays.joined_source import variable_of
from cfagg.arrays.source import Group, Variable
from cfagg.cf.references import KEYED, REFERRING
from cfagg.model import Aggregation

__all__ = ["Contents", "renamed"]

_WORD = re.compile(r"[^\s:]+")
#: Not a word before a colon, such as the measure in "area: areacella".
_VALUE = re.compile(r"[^\s:]+(?![^\s:]|:)")


class Contents:
    """Dimensions and variables of one group as they are added."""

    def __init__(self) -> None:
        self.dimensions: dict[str, int] = {}
        self.unlimited: set[str] = set()
        self.variables: dict[str, Variable | Aggregation] = {}
        self.arrays: dict[str, npt.NDArray[Any]] = {}
        self._numbers: dict[str, int] = {}
        self._known: dict[Any, str] = {}

    def known(self, key: Any) -> str | None:
        """Return the name of what was added under a key."""
        return self._known.get(key)

    def free(self, name: str, key: Any = None, beside: Collection[str] = ()) -> str:
        """Return a name that nothing has yet, with a number where it has to be, and take it, under a key.

        Nor is it one of those that stand `beside` it.
        """
        free = name
        while free in self._numbers or free in beside:
            self._numbers[name] = self._numbers.get(name, 0) + 1
            free = f"{name}_{self._numbers[name]}"
        self._numbers[free] = 0
        if key is not None:
            self._known[key] = free
        return free

    def apart(self, key: Any, beside: Collection[str]) -> Any:
        """Return a key under which nothing is known by a name that stands beside it."""
        while self._known.get(key) in beside:
            key = ("apart", key)
        return key

    def head(self, name: str, key: Any) -> str:
        """Return the name of a dimension as that of its coordinate, which is known under a key from now on."""
        self._known[key] = name
        return name

    def dimension(self, name: str, size: int, key: Any, beside: Collection[str] = ()) -> str:
        """Return the name of a dimension that is added unless it is known by its key; it is none of those beside it."""
        key = self.apart(key, beside)
        found = self._known.get(key)
        if found is None:
            found = self.free(name, key, beside)
            self.dimensions[found] = size
        return found

    def add(self, name: str, dims: Sequence[str], values: npt.NDArray[Any], attributes: Mapping[str, Any]) -> None:
        """Add an array in memory."""
        values.flags.writeable = False
        self.variables[name] = variable_of(name, dims, values, attributes)
        self.arrays[name] = values

    def fits(self, other: Contents) -> bool:
        """Return whether all that another one holds could stand here too, under the same names."""
        names = {name: key for key, name in other._known.items()}
        return all(
            name not in self._numbers or (name in names and self._known.get(names[name]) == name)
            for name in other._numbers
        )

    def group(self, attributes: Mapping[str, Any], path: str = "/") -> Group:
        """Return the group at a path."""
        used = {d for v in self.variables.values() for d in v.dims}
        dimensions = {d: n for d, n in self.dimensions.items() if d in used}
        return Group(path, dimensions, frozenset(self.unlimited), dict(attributes), self.variables)


def renamed(attributes: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    """Return attributes with the new names of the variables and dimensions that they refer to.

    >>> renamed({"cell_methods": "time: mean", "units": "time"}, {"time": "time_1"})
    {'cell_methods': 'time_1: mean', 'units': 'time'}
    >>> renamed({"cell_measures": "area: area"}, {"area": "area_1"})
    {'cell_measures': 'area: area_1'}
    """
    found = dict(attributes)
    for key in (*REFERRING, "cell_methods"):
        text = found.get(key)
        if isinstance(text, str):
            found[key] = (_VALUE if key in KEYED else _WORD).sub(lambda m: names.get(m[0], m[0]), text)
    return found


def content_key(values: npt.NDArray[Any]) -> tuple[Any, ...]:
    """Return what is the same for equal arrays."""
    if values.dtype == object:
        return values.shape, tuple(values.ravel().tolist())
    return values.shape, values.dtype.str, np.ascontiguousarray(values).tobytes()
