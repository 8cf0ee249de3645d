"""What one variable of one file says about itself: plain, picklable data, which decide what it is joined with."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from cfagg.model.dataset import AttributeValue, Kind

__all__ = ["WITHIN", "Companion", "Coordinate", "Described", "Stated", "root_of"]

#: Stands in the identity of an axis between what it counts and the axis of what has a range of it each.
WITHIN = " within "


#: What is counted there.
_COUNTED = ("samples", "profiles", "nodes", "parts")


def root_of(identity: str) -> str:
    """Return the axis of what has a range each of what another counts; nothing where it is another name.

    >>> root_of("samples within timeseries_id"), root_of("index 0 of what is within timeseries_id")
    ('timeseries_id', '')
    """
    counted, _, root = identity.partition(WITHIN)
    return root if counted in _COUNTED else ""


@dataclass(frozen=True, eq=False, slots=True, weakref_slot=True)
class Stated:
    """The metadata of a variable as its file states them; `name` is its path without a leading slash."""

    name: str
    dims: tuple[str, ...]
    dtype: np.dtype[Any]
    kind: Kind
    attributes: Mapping[str, AttributeValue]

    def text(self, attribute: str) -> str | None:
        """Return an attribute that is text, `None` where it is absent or something else."""
        value = self.attributes.get(attribute)
        return value if isinstance(value, str) else None


@dataclass(frozen=True, eq=False, slots=True, weakref_slot=True)
class Coordinate:
    """A coordinate with its bounds along one dimension, or none, as stored; text has type `object`.

    One without dimensions is of an axis of size 1 that is no dimension of the variable. `index` says that it only
    counts the places along a dimension: there is no such variable, nothing is ever joined along it, and its values say
    nothing but how many there are. One whose name
    is that of an attribute (`promoted`) holds the value of the attribute: neither is there such a variable.
    """

    identity: str
    stated: Stated
    values: npt.NDArray[Any]  # always with one dimension
    bounds: npt.NDArray[Any] | None = None
    bounds_stated: Stated | None = None
    index: bool = False
    promoted: bool = False

    @property
    def within(self) -> str:
        """The axis whose places decide where its own are: that of the features of a ragged array or of geometries."""
        return root_of(self.identity) if self.index else ""

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
    """A variable with values that belongs to this one, such as coordinates of several dimensions or cell measures."""

    stated: Stated
    shape: tuple[int, ...]
    #: The identities of the axes that it spans, in the order of its dimensions; "" for a dimension that is none (of
    #: bounds, say).  Behind them, axes of size 1 along which it varies and that are none of its dimensions: of scalar
    #: coordinates that belong to an axis of scalar coordinates, such as the latitude of a station.
    axes: tuple[str, ...]
    #: `None` where there are too many to be kept; `digest` tells these apart.
    values: npt.NDArray[Any] | None
    #: Attribute by which it is referred to: ``"coordinates"``, ``"cell_measures"``, …
    role: str = "coordinates"
    digest: bytes = b""


@dataclass(frozen=True, eq=False, slots=True)
class Described:
    """What decides with which others a variable is joined, and what of it stands in an array of them."""

    stated: Stated
    shape: tuple[int, ...]
    signature: Mapping[str, Hashable]
    #: By the identity of each axis; those of size 1 that are no dimension are among them.
    axes: Mapping[str, Coordinate]
    #: The identity of the axis that each of its dimensions is.
    along: Mapping[str, str]
    #: What else has values, by its identity.
    parts: Mapping[str, Companion] = field(default_factory=dict)
    #: Variables without values that matter, such as grid mappings, by their names.
    mappings: Mapping[str, Stated] = field(default_factory=dict)
    #: Attributes of the dataset and of the groups around the variable.
    around: Mapping[str, AttributeValue] = field(default_factory=dict)
    #: Why it is joined with nothing.
    problem: str | None = None
