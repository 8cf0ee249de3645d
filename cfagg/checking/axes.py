"""The axes of the coordinates of a dataset, as `cfagg.cf.roles` determines them."""

from __future__ import annotations

from cfagg.cf import roles
from cfagg.checking.context import Context, once
from cfagg.model.dataset import Variable

__all__ = ["axis_of", "is_latitude", "is_longitude", "name_of"]


def name_of(v: Variable) -> str:
    """Return the standard name of a variable without its modifier, or an empty string."""
    words = v.words("standard_name")
    return words[0] if words else ""


@once
def axis_of(c: Context, v: Variable) -> roles.Axis | None:
    """Return the axis of a coordinate, or `None` if it is none of the four."""
    return roles.axis_of(v.attributes, len(v.dimensions) if v in c.roles.coordinates else None)


def is_latitude(v: Variable) -> bool:
    """Whether its units (CF section 4.1) or standard name make a variable a true latitude."""
    return roles.place_of(v.attributes) == "latitude"


def is_longitude(v: Variable) -> bool:
    """Whether its units (CF section 4.2) or standard name make a variable a true longitude."""
    return roles.place_of(v.attributes) == "longitude"
