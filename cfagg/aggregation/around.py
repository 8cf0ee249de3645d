"""Attributes of the files of arrays: at the dataset, at a group or at an array, whichever all files share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from cfagg.aggregation.joining import Joined
from cfagg.aggregation.masters import common, distinct
from cfagg.aggregation.names import Contents
from cfagg.cf.attribute_table import attribute_table
from cfagg.cf.joining import Described

__all__ = ["shared", "spread"]

#: Attributes that mean something else at a variable than at a dataset, and are not of CF.
_OF_VARIABLES = frozenset(
    {"mesh", "location", "topology_dimension", "CLASS", "NAME", "DIMENSION_LIST", "REFERENCE_LIST"}
)


def shared(described: Sequence[Described]) -> dict[str, Any]:
    """Return the attributes that the files of all members share."""
    around = distinct(one.around for one in described)
    return common(around)[0] if around else {}


def spread(
    joined: Joined, contents: Mapping[str, Contents], placed: Sequence[tuple[str, str]]
) -> tuple[dict[str, dict[str, Any]], list[tuple[str, ...]]]:
    """Return the attributes of each group, and those of the files of each array that are nowhere in the dataset.

    `placed` gives group and name of each array.  What all of its files have in common, and others do not, becomes an
    attribute of the array, where CF gives it the same meaning as at a dataset.
    """
    everywhere = shared(joined.described)
    known: dict[tuple[int, ...], tuple[dict[str, Any], tuple[str, ...]]] = {}
    each = []
    for rows in joined.rows():
        files = distinct(joined.described[row].around for row in rows.tolist())
        key = tuple(map(id, files))  # the same for all variables of the same files
        if key not in known:
            known[key] = common(files)
        each.append(known[key])
    groups = dict.fromkeys(contents, everywhere)
    # At a dataset that is no tree are those of all files.
    kept = {"external_variables"} if "/" in contents else set()
    if "/" not in contents:
        for path in contents:
            own, _ = common([own for (own, _), (group, _) in zip(each, placed, strict=True) if group == path])
            groups[path] = {name: value for name, value in own.items() if name not in everywhere}
        groups["/"] = everywhere
    left, axes = [], {*joined.options.dimension, *joined.options.field_ancillaries}
    for (own, differing), (path, name) in zip(each, placed, strict=True):
        array = contents[path].variables[name]
        rest = {k: v for k, v in own.items() if k not in everywhere and k not in groups[path]}
        moved = {k: v for k, v in rest.items() if k not in array.attributes and _means_the_same(k)}
        if moved:
            contents[path].variables[name] = replace(array, attributes={**array.attributes, **moved})
        left.append(tuple(k for k in (*rest, *differing) if k not in moved and k not in axes | kept))
    return groups, left


def _means_the_same(name: str) -> bool:
    """Return whether an attribute describes a variable as it describes a dataset."""
    row = attribute_table().get(name)
    if row is None:
        return not name.startswith("_") and name not in _OF_VARIABLES
    return {"G", "D"} <= row.uses[-1][1]
