"""Discrete sampling geometries, the coordinates of their data: CF sections 9.1 and 9.5."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

from cfagg.checking.context import Context
from cfagg.checking.features import TYPES, FeatureData, features
from cfagg.findings.finding import Hit
from cfagg.findings.rule import rule
from cfagg.model.dataset import Variable

_WORDS = {"X": "a longitude or x", "Y": "a latitude or y", "Z": "a vertical coordinate", "T": "a time"}


def _lacking(type_: str, placed: FeatureData) -> list[str]:
    return [a for a in TYPES[type_] if not placed.axes[a]]


@rule("DSG014")
def data_have_coordinates(c: Context) -> Iterator[Hit]:
    """Each data variable of features has a coordinates attribute, or has coordinate variables for all axes."""
    f = features(c)
    for placed in f.data if f.type is not None else ():
        if placed.listed or f.type is None or not _lacking(f.type, placed):
            continue
        v = placed.variable
        certain = not {"units", "standard_name"}.isdisjoint(v.attributes) and "flag_meanings" not in v.attributes
        names = ", ".join(_WORDS[a] for a in _lacking(f.type, placed))
        message = f"there is no coordinates attribute, and {names} cannot be found otherwise; name the coordinates"
        yield Hit(v, "coordinates", message, None if certain else "warning")


@rule("DSG015")
def data_have_the_mandatory_coordinates(c: Context) -> Iterator[Hit]:
    """Data of features have coordinates for the axes listed in table 9.1."""
    f = features(c)
    for placed in f.data if f.type is not None else ():
        if not placed.listed or f.type is None:
            continue  # DSG014
        v = placed.variable
        if v.text("coordinates") is None or any(r.target is None for r in c.references_of(v, "coordinates")):
            continue  # COO009
        missing = _lacking(f.type, placed)
        if missing:
            names = " and ".join(_WORDS[a] for a in missing)
            type_ = c.dataset.root.text("featureType")
            yield Hit(v, "coordinates", f"{names} is not among its coordinates; featureType {type_!r} needs it")


def _follows(x: Variable, z: Variable) -> bool:
    """Whether one coordinate varies with another; a dimension of size 1 that only the other one has may be its own."""
    return prod(z.shape) > 1 and set(z.dimensions) <= set(x.dimensions)


def _within(part: Variable, whole: Variable) -> bool:
    """Whether a coordinate varies, and another one varies along all of its dimensions."""
    own = {d for d in part.dimensions if d.size > 1}
    return bool(own) and own <= set(whole.dimensions)


#: For each type, coordinates that must not vary: (these, along the dimensions of those).
_NOT_ALONG = {
    "timeseries": (("XY", "T"),),
    "profile": (("XYT", "Z"),),
    "timeseriesprofile": (("XY", "T"), ("T", "Z")),
    "trajectoryprofile": (("XYT", "Z"),),
}

#: For each type, coordinates that must vary along the dimensions of others.
_ALONG = {"trajectory": (("XY", "T"),), "trajectoryprofile": (("XY", "T"),)}


@rule("DSG016")
def coordinates_vary_as_table_9_1_says(c: Context) -> Iterator[Hit]:
    """The coordinates of features vary along the dimensions that their type requires."""
    f = features(c)
    if f.type is None:
        return
    type_ = c.dataset.root.text("featureType")
    for placed in f.data:
        v, axes = placed.variable, placed.axes
        for fixed, along in _NOT_ALONG.get(f.type, ()):
            for a in fixed:
                if axes[a] and axes[along] and all(_follows(x, z) for x in axes[a] for z in axes[along]):
                    # Section 9.5 allows precise positions during a profile in addition to nominal ones.
                    message = (
                        f"its coordinate {axes[a][0].name!r} varies along that of {axes[along][0].name!r}; "
                        f"{_WORDS[a]} of a feature of type {type_!r} does not, or also exists as a nominal one"
                    )
                    yield Hit(v, "coordinates", message, "warning" if along == "Z" else None)
        for moving, along in _ALONG.get(f.type, ()):
            for a in moving:
                ways = [t for t in axes[along] if prod(t.shape) > 1]
                if axes[a] and ways and not any(_within(t, x) for x in axes[a] for t in ways):
                    message = (
                        f"its coordinate {axes[a][0].name!r} does not vary along that of {ways[0].name!r}; "
                        f"{_WORDS[a]} of a feature of type {type_!r} does"
                    )
                    yield Hit(v, "coordinates", message)
        if f.type == "point" and v.size > 1:
            yield from _point(placed)


def _point(placed: FeatureData) -> Iterator[Hit]:
    v, axes = placed.variable, placed.axes
    if len(v.dimensions) > 1:
        message = f"point data have one dimension; this variable has ({', '.join(v.dims)})"
        yield Hit(v, None, message, "warning")
        return
    for a in "XYT":
        if axes[a] and not any(set(v.dimensions) <= set(x.dimensions) for x in axes[a]):
            message = (
                f"its coordinate {axes[a][0].name!r} does not have the dimension {v.dims[0]!r}; each point has its own"
            )
            yield Hit(v, "coordinates", message, "warning")
