"""Which variables are converted: those named, and what is needed to make sense of them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from cfagg.arrays.source import Group
from cfagg.errors import OptionError

__all__ = ["select"]

#: Attributes that name other variables (CF chapters 3, 5, 7 and 9).
_REFERENCES = (
    "ancillary_variables", "bounds", "cell_measures", "climatology", "coordinates", "formula_terms", "geometry",
    "grid_mapping", "interior_ring", "node_coordinates", "node_count", "part_node_count",
)  # fmt: skip


def select(root: Group, wanted: Sequence[str] | None, where: str) -> set[str]:
    """Return the paths of the variables to convert, aggregations that cannot be read among them.

    Coordinates, bounds and whatever the attributes of a wanted variable refer to come with it; None is all.
    """
    known = {path: (group, name) for group in root.walk() for path, name in _paths(group)}
    if wanted is None:
        return set(known)
    todo = [w.strip("/") for w in wanted]
    unknown = [w for w in todo if w not in known]
    if unknown:
        raise OptionError(
            f"{where} has no variable {', '.join(map(repr, unknown))}; its variables are {', '.join(known) or 'none'}"
        )
    chosen: set[str] = set()
    while todo:
        path = todo.pop()
        if path in chosen:
            continue
        chosen.add(path)
        group, name = known[path]
        if name in group.unreadable:
            continue
        variable = group.variables[name]
        for other in [*variable.dims, *_referenced(variable.attributes)]:
            found = _nearest(known, group.path.strip("/"), other)
            if found is not None:
                todo.append(found)
    return chosen


def _paths(group: Group) -> Iterator[tuple[str, str]]:
    """Yield path and name of each variable of a group."""
    for name in (*group.variables, *group.unreadable):
        yield f"{group.path.strip('/')}/{name}".lstrip("/"), name


def _referenced(attributes: Mapping[str, Any]) -> Iterator[str]:
    """Yield the words of referring attributes that may be names."""
    for name in _REFERENCES:
        text = attributes.get(name)
        if isinstance(text, str):
            yield from (w for w in re.split(r"\s+", text) if w and not w.endswith(":"))


def _nearest(known: Mapping[str, object], where: str, name: str) -> str | None:
    """Return the path of a variable as seen from a group: in it, or in one above."""
    if name.startswith("/"):
        return name.strip("/") if name.strip("/") in known else None
    parts = where.split("/") if where else []
    for n in range(len(parts), -1, -1):
        path = "/".join([*parts[:n], name])
        if path in known:
            return path
    return None
