"""The order of dimensions: CF section 2.4."""

from __future__ import annotations

from collections.abc import Iterator

from cfagg.cf.roles import Axis
from cfagg.checking.axes import axis_of
from cfagg.checking.context import Context, once
from cfagg.findings.finding import Hit
from cfagg.findings.rule import rule
from cfagg.model.dataset import Dimension, Variable


@once
def _coordinates(c: Context) -> dict[int, Variable]:
    """Return the coordinate variable of each dimension, by identity of the dimension."""
    return {id(v.dimensions[0]): v for v in c.dataset.variables if v.is_coordinate}


@once
def _spatial(c: Context) -> set[int]:
    """Return the dimensions that auxiliary coordinates of space or time span, by identity."""
    return {id(d) for v in c.roles.auxiliary if v.dimensions and axis_of(c, v) for d in v.dimensions}


@once
def _labelled(c: Context) -> set[int]:
    """Return the dimensions whose elements have labels, by identity."""
    return {id(v.dimensions[0]) for v in c.roles.auxiliary if v.is_text and v.dimensions}


@once
def _axes(c: Context) -> dict[int, Axis | None]:
    """Return the axis of each dimension that has a coordinate variable, by identity of the dimension."""
    return {dimension: axis_of(c, v) for dimension, v in _coordinates(c).items()}


@rule("DOC007")
def space_and_time_are_in_order(c: Context) -> Iterator[Hit]:
    """Dimensions of time, height, latitude and longitude stand in this order."""
    axes = _axes(c)
    for v in c.dataset.variables:
        if len(v.dimensions) < 2:
            continue
        found = [(d.name, axis) for d in v.dimensions if (axis := axes.get(id(d))) is not None]
        places = ["TZYX".index(axis) for _, axis in found]
        if places != sorted(places):
            wanted = [name for name, axis in sorted(found, key=lambda pair: "TZYX".index(pair[1]))]
            yield Hit(
                v,
                None,
                f"its dimensions of space and time are in the order ({', '.join(n for n, _ in found)}); "
                f"the recommended order is time, height, latitude, longitude: ({', '.join(wanted)})",
            )


@rule("DOC008")
def other_dimensions_come_first(c: Context) -> Iterator[Hit]:
    """Dimensions of other things than space and time stand to the left of those."""
    axes, data = _axes(c), c.roles.data
    coards = "COARDS" in (c.dataset.root.text("Conventions") or "")
    for v in c.dataset.variables:
        if len(v.dimensions) < 2 or v not in data or not v.is_numeric:
            continue
        first = next((n for n, d in enumerate(v.dimensions) if axes.get(id(d))), None)
        if first is None:
            continue
        late = [d.name for d in v.dimensions[first + 1 :] if not axes.get(id(d)) and _is_other(c, d, coards=coards)]
        if late:
            reason = "as COARDS requires" if coards else "where that is possible"
            yield Hit(
                v,
                None,
                f"{late[0]!r} is not a space or time dimension: put it before {v.dims[first]!r}, {reason}",
                None if coards else "info",
            )


def _is_other(c: Context, dimension: Dimension, *, coards: bool) -> bool:
    """Whether a dimension without an axis is known to be none of space and time."""
    v = _coordinates(c).get(id(dimension))
    if id(dimension) in _spatial(c):
        return False
    if v is None:
        return coards or id(dimension) in _labelled(c)
    return "compress" not in v.attributes and v.text("standard_name") != "healpix_index"
