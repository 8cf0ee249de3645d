"""The metadata of one variable of one file that decide which others it is joined with, as plain, picklable data."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt

from cfagg.model.dataset import AttributeValue, Kind

__all__ = ["GROWS", "NAMING", "UNNAMED", "WITHIN", "Companion", "Coordinate", "Described", "Stated", "root_of"]

#: Separates, in the identity of an axis, the counted elements from the axis whose elements each have a range of them.
WITHIN = " within "

#: The roles of variables that are data of their own, and name their scalar coordinates.
NAMING = frozenset({"ancillary_variables", "cell_measures", "formula_terms"})

#: Begins the identity of an axis that counts the places along a dimension without any coordinates.
UNNAMED = "ncvar%"

#: The attributes of an axis that counts the places along a dimension that can grow.
GROWS: Mapping[str, str] = MappingProxyType({"unlimited": "true"})

#: The kinds of counted elements.
_COUNTED = ("samples", "profiles", "nodes", "parts")


def root_of(identity: str) -> str:
    """Return the axis whose elements each have a range of those that this axis counts, or "" for other names.

    >>> root_of("samples within timeseries_id"), root_of("index 0 of what is within timeseries_id")
    ('timeseries_id', '')
    """
    counted, _, root = identity.partition(WITHIN)
    return root if counted in _COUNTED else ""


@dataclass(frozen=True, eq=False, slots=True, weakref_slot=True)
class Stated:
    """The metadata of a variable as stated in its file; `name` is its path without a leading slash."""

    name: str
    dims: tuple[str, ...]
    dtype: np.dtype[Any]
    kind: Kind
    attributes: Mapping[str, AttributeValue]

    def text(self, attribute: str) -> str | None:
        """Return an attribute if it is text, or else `None`."""
        value = self.attributes.get(attribute)
        return value if isinstance(value, str) else None


@dataclass(frozen=True, eq=False, slots=True, weakref_slot=True)
class Coordinate:
    """A coordinate with its bounds along one dimension, or none, as stored; text has type `object`.

    One without dimensions belongs to an axis of size 1 that is not a dimension of the variable. With `index` there is
    no such variable, only a count of the places along a dimension; nothing is joined along it, and only its size
    matters. With `promoted` it is the value of the attribute of that name, so there is no such variable either.
    """

    identity: str
    stated: Stated
    values: npt.NDArray[Any]  # always one-dimensional
    bounds: npt.NDArray[Any] | None = None
    bounds_stated: Stated | None = None
    index: bool = False
    promoted: bool = False

    @property
    def grows(self) -> bool:
        """Whether it counts records of which nothing says what they are, so that those of each file may be others."""
        return self.index and self.identity.startswith(UNNAMED) and self.stated.attributes == GROWS

    @property
    def within(self) -> str:
        """The axis that determines its positions: that of the features of a ragged array, or of the geometries."""
        return root_of(self.identity) if self.index else ""

    @property
    def cells(self) -> npt.NDArray[Any] | None:
        """Its bounds, with a row for each coordinate, also for one without dimensions."""
        if self.bounds is None:
            return None
        rows = len(self.values)
        return self.bounds.reshape(rows, self.bounds.size // rows if rows else self.bounds.shape[-1])

    @property
    def units(self) -> str | None:
        """Its units."""
        return self.stated.text("units")

    @property
    def calendar(self) -> str | None:
        """Its calendar."""
        return self.stated.text("calendar")


@dataclass(frozen=True, eq=False, slots=True, weakref_slot=True)
class Companion:
    """A variable with values that belongs to this one, such as multidimensional coordinates or cell measures."""

    stated: Stated
    shape: tuple[int, ...]
    #: The identities of the axes that it spans, in the order of its dimensions; "" for a dimension that is not an axis
    #: (that of bounds, say).  They are followed by axes of size 1 along which it varies but that are not its
    #: dimensions: for scalar coordinates that belong to an axis of scalar coordinates, such as the latitude of a
    #: station.
    axes: tuple[str, ...]
    #: `None` if there are too many to be kept; these are compared by `digest`.
    values: npt.NDArray[Any] | None
    #: Attribute that refers to it: ``"coordinates"``, ``"cell_measures"``, …
    role: str = "coordinates"
    digest: bytes = b""

    @property
    def named(self) -> tuple[str, ...]:
        """The axes of scalar coordinates that it names itself, such as the time of quality flags, where it may vary."""
        return self.axes[len(self.shape) :] if self.role in NAMING and "coordinates" in self.stated.attributes else ()


@dataclass(frozen=True, eq=False, slots=True)
class Described:
    """The properties that decide which others a variable is joined with, and that an array of them needs."""

    stated: Stated
    shape: tuple[int, ...]
    signature: Mapping[str, Hashable]
    #: By the identity of each axis, including those of size 1 that are not dimensions.
    axes: Mapping[str, Coordinate]
    #: The identity of the axis for each of its dimensions.
    along: Mapping[str, str]
    #: Other variables with values, by identity.
    parts: Mapping[str, Companion] = field(default_factory=dict)
    #: Variables whose values do not matter, such as grid mappings, by name.
    mappings: Mapping[str, Stated] = field(default_factory=dict)
    #: Attributes of the dataset and of the groups around the variable.
    around: Mapping[str, AttributeValue] = field(default_factory=dict)
    #: Why it cannot be joined.
    problem: str | None = None
    #: Of its own values, if an option asks to compare them; empty if they are too many.
    digest: bytes = b""
