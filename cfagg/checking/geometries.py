"""Geometry containers and the variables that belong to them: CF section 7.6."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from cfagg.checking.context import Context, once
from cfagg.checking.missing import missing_mask, unsigned, unwritten
from cfagg.checking.spans import coordinate_span
from cfagg.model.dataset import Variable

__all__ = ["LONGEST", "Geometry", "counts", "geometries", "several"]

#: Geometries with more nodes are not examined.
LONGEST = 1 << 24


class Geometry(NamedTuple):
    """A geometry container with the variables that it names; `None` if one is absent or not named.

    `users` name it in ``geometry``; `kind` is a legal ``geometry_type`` in lower case.
    """

    container: Variable
    users: list[Variable]
    kind: str | None
    nodes: list[Variable]
    node_count: Variable | None
    part_node_count: Variable | None
    interior_ring: Variable | None

    def has(self, attribute: str) -> bool:
        """Whether the container has an attribute, whatever its value."""
        return attribute in self.container.attributes

    @property
    def node_dimensions(self) -> set[object]:
        """The dimensions of all node coordinates."""
        return {d for n in self.nodes for d in n.dimensions}


@once
def geometries(c: Context) -> list[Geometry]:
    """Return the geometries of a dataset in order."""
    named = {c.target(v, "geometry") for v in c.with_attribute("geometry")}
    return [_geometry(c, v) for v in c.dataset.variables if v in named or "geometry_type" in v.attributes]


def _geometry(c: Context, v: Variable) -> Geometry:
    kind = (v.text("geometry_type") or "").strip().lower()
    return Geometry(
        v,
        list(dict.fromkeys(r.source for r in c.references_to(v, "geometry"))),
        kind if kind in ("point", "line", "polygon") else None,
        c.targets(v, "node_coordinates"),
        *(c.target(v, name) for name in ("node_count", "part_node_count", "interior_ring")),
    )


def counts(v: Variable) -> npt.NDArray[np.int64] | None:
    """Return the values of a count variable, missing ones as 0, or `None` if it does not contain numbers.

    The values of aggregation variables are in other files and are not read.
    """
    if not v.is_numeric or v.size > LONGEST or v.dialect is not None:
        return None
    values = unsigned(v, v.values().ravel())
    if values.size != v.size or unwritten(v):
        return None  # a header without values
    missing = missing_mask(v, values)
    if values.dtype.kind == "f":
        missing |= ~np.isfinite(values) | (np.abs(values) > 2**53)
    return np.where(missing, 0, values).astype(np.int64)


def several(c: Context, geometry: Geometry) -> bool:
    """Whether the data variables show that a container without a node count has more than one geometry.

    A dimension of more than one element without a coordinate variable, or one of coordinates with a ``nodes``
    attribute, can only be that of the geometries.
    """
    for user in geometry.users:
        named = c.targets(user, "coordinates")
        if any(d.size > 1 for t in named if "nodes" in t.attributes for d in t.dimensions):
            return True
        for d in coordinate_span(c, user):
            if d.size > 1:
                target, _ = c.resolver.variable(d.name, user.group)
                if target is None or not target.is_coordinate or "cf_role" in target.attributes:
                    return True
    return False
