"""Discrete sampling geometries: their types, and how their features are stored (CF chapter 9)."""

from __future__ import annotations

from functools import cached_property
from typing import NamedTuple

from cfagg.checking.axes import axis_of
from cfagg.checking.context import Context, once
from cfagg.checking.spans import coordinate_span
from cfagg.model.dataset import Dimension, Variable

__all__ = ["ROLES", "SPELLINGS", "TYPES", "FeatureData", "Features", "axes_of", "features"]

#: The types of features and the axes for which their data have coordinates (table 9.1).
TYPES = {
    "point": "XYT",
    "timeseries": "XYT",
    "trajectory": "XYT",
    "profile": "XYZT",
    "timeseriesprofile": "XYZT",
    "trajectoryprofile": "XYZT",
}

#: The usual spelling of each type.
SPELLINGS = {
    t.lower(): t for t in ("point", "timeSeries", "trajectory", "profile", "timeSeriesProfile", "trajectoryProfile")
}

#: Values of cf_role for each type.
ROLES = {
    "timeseries": ("timeseries_id",),
    "trajectory": ("trajectory_id",),
    "profile": ("profile_id",),
    "timeseriesprofile": ("timeseries_id", "profile_id"),
    "trajectoryprofile": ("trajectory_id", "profile_id"),
}

_IDENTIFIERS = frozenset({"timeseries_id", "profile_id", "trajectory_id"})


class FeatureData(NamedTuple):
    """A data variable with its coordinates for each of X, Y, Z and T; `listed` if ``coordinates`` names them."""

    variable: Variable
    listed: bool
    axes: dict[str, list[Variable]]


class Features:
    """The features of a dataset; `type` is the lowercase ``featureType``, or `None` if it is not in table 9.1.

    `counts` are count variables of contiguous ragged arrays with their sample dimension, `indices` index variables of
    indexed ones with their instance dimension, `identifiers` variables whose ``cf_role`` identifies features.
    """

    def __init__(self, context: Context, type_: str | None) -> None:
        self.context = context
        self.type = type_
        self.counts: list[tuple[Variable, Dimension | None]] = []
        self.indices: list[tuple[Variable, Dimension | None]] = []
        self.identifiers: list[Variable] = []

    @cached_property
    def instances(self) -> set[Dimension]:
        """Dimensions along which each element describes a whole feature."""
        found = {d for v in self.identifiers for d in axes_of(v)}
        found |= {d for v, _ in self.counts for d in v.dimensions}
        return found | {d for _, d in self.indices if d is not None}

    @cached_property
    def samples(self) -> set[Dimension]:
        """Dimensions along which the elements of ragged arrays are stored."""
        found = {d for _, d in self.counts if d is not None}
        return found | {d for v, _ in self.indices for d in v.dimensions if d not in self.instances}

    @cached_property
    def data(self) -> list[FeatureData]:
        """The data variables of the features: those with ``coordinates`` or with the dimensions of elements."""
        c, found = self.context, []
        for v in c.dataset.variables:
            if v not in c.roles.data or not v.is_numeric or not v.dimensions:
                continue
            listed = "coordinates" in v.attributes
            if not listed and (
                not self._has_elements(v)
                or c.references_to(v, "ancillary_variables", "cell_measures")
                or axis_of(c, v) is not None  # a coordinate, even if nothing names it
            ):
                continue
            found.append(FeatureData(v, listed, self._axes(v)))
        return found

    def _has_elements(self, v: Variable) -> bool:
        own = set(v.dimensions)
        if self.samples:
            return bool(own & self.samples)
        if self.instances:
            return bool(own & self.instances) and bool(own - self.instances)
        return any(d.size > 1 for d in own)

    def _axes(self, v: Variable) -> dict[str, list[Variable]]:
        c = self.context
        named = c.targets(v, "coordinates")
        for geometry in c.targets(v, "geometry"):  # GEO010 checks that data name those of their container
            named += c.targets(geometry, "coordinates")
        for d in coordinate_span(c, v):
            target, _ = c.resolver.variable(d.name, v.group)
            if target is not None and target.is_coordinate and target.dimensions[0] is d:
                named.append(target)
        found: dict[str, list[Variable]] = {"X": [], "Y": [], "Z": [], "T": []}
        for t in dict.fromkeys(named):
            axis = axis_of(c, t)
            if axis is None and t.is_numeric and (t.text("units") or "1") != "1":
                axis = "Z"  # section 4.3 rules how a vertical coordinate is identified
            if axis is not None:
                found[axis].append(t)
        return found


def axes_of(v: Variable) -> tuple[Dimension, ...]:
    """Return the dimensions of a variable except the one for the characters of strings."""
    return v.dimensions[:-1] if v.kind == "char" else v.dimensions


@once
def features(c: Context) -> Features:
    """Return the features of a dataset."""
    text = (c.dataset.root.text("featureType") or "").lower()
    found = Features(c, text if text in TYPES else None)
    for v in c.with_attribute("sample_dimension", "instance_dimension", "cf_role"):
        if "sample_dimension" in v.attributes:
            found.counts.append((v, _dimension(c, v, "sample_dimension")))
        if "instance_dimension" in v.attributes:
            found.indices.append((v, _dimension(c, v, "instance_dimension")))
        if v.text("cf_role") in _IDENTIFIERS:
            found.identifiers.append(v)
    return found


def _dimension(c: Context, v: Variable, attribute: str) -> Dimension | None:
    words = v.words(attribute)
    return c.resolver.dimension(words[0], v.group) if len(words) == 1 else None
