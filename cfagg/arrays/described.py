"""A file described without the netCDF library, as a source."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from cfagg.arrays.source import Group, Variable
from cfagg.conventions.marks import mark_of
from cfagg.errors import UnreadableAggregationError
from cfagg.model import dataset as model

__all__ = ["group_of"]


def group_of(
    found: model.Group,
    where: str,
    variable: Callable[[model.Variable], Variable],
    attributes: Callable[[model.Group], dict[str, Any]],
) -> Group:
    """Return one group and those below; aggregations and variables that cannot be read are listed as unreadable."""
    variables: dict[str, Any] = {}
    unreadable: dict[str, UnreadableAggregationError] = {}
    for name, one in found.variables.items():
        whole = [f"{found.path.rstrip('/')}/{name}".lstrip("/")]
        if one.unreadable is not None:
            unreadable[name] = UnreadableAggregationError(one.unreadable, (), whole)
            continue
        made = variable(one)
        mark = mark_of(made.attributes, made.dims)
        if mark is None:
            variables[name] = made
            continue
        message = (
            f"{where}: variable {name!r} is an aggregation by its attribute {mark!r}, and aggregations are read from "
            "netCDF files only"
        )
        unreadable[name] = UnreadableAggregationError(message, (), whole)
    return Group(
        path=found.path,
        dimensions={name: d.size for name, d in found.dimensions.items()},
        unlimited=frozenset(name for name, d in found.dimensions.items() if d.unlimited),
        attributes=attributes(found),
        variables=variables,
        groups={name: group_of(g, where, variable, attributes) for name, g in found.groups.items()},
        unreadable=unreadable,
    )
