"""The axes of the coordinates of a dataset, by `cfagg.cf.roles`."""

from __future__ import annotations

from cfagg.cf import roles
from cfagg.checking.context import Context, once
from cfagg.model.dataset import Variable

__all__ = ["axis_of", "is_latitude", "is_longitude", "name_of"]


def name_of(v: Variable) -> str:
    """Return the standard name of a variable without its modifier, empty where it has none."""
    words = v.words("standard_name")
    return words[0] if words else ""


@once
def axis_of(c: Context, v: Variable) -> roles.Axis | None:
    """Return the axis that a coordinate is for, `None` if it is none of the four."""
    return roles.axis_of(v.attributes, len(v.dimensions) if v in c.roles.coordinates else None)


def is_latitude(v: Variable) -> bool:
    """Whether it is a true latitude, by its units (CF section 4.1) or its standard name."""
    return roles.place_of(v.attributes) == "latitude"


def is_longitude(v: Variable) -> bool:
    """Whether it is a true longitude, by its units (CF section 4.2) or its standard name."""
    return roles.place_of(v.attributes) == "longitude"
