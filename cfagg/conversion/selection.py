"""Selecting the variables to convert: those named, and those needed to interpret them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from cfagg.arrays.source import Group
from cfagg.cf.references import names_in
from cfagg.errors import OptionError
from cfagg.errors.arguments import closest, some

__all__ = ["select"]


def select(root: Group, wanted: Sequence[str] | None, where: str) -> set[str]:
    """Return the paths of the variables to convert, including aggregations that cannot be read.

    Coordinates, bounds and all variables named in attributes of a wanted variable are included; None means all.
    """
    known = {path: (group, name) for group in root.walk() for path, name in _paths(group)}
    if wanted is None:
        return set(known)
    todo = [w.strip("/") for w in wanted]
    unknown = [w for w in todo if w not in known]
    if unknown:
        raise OptionError(
            f"{where} has no variable {', '.join(map(repr, unknown))}; its variables are: {some(known)}"
            f"{closest(unknown[0], known)}"
        )
    chosen: set[str] = set()
    while todo:
        path = todo.pop()
        if path in chosen:
            continue
        chosen.add(path)
        group, name = known[path]
        if name in group.lacking:
            continue
        variable = group.variables[name]
        for other in [*variable.dims, *(name for _, _, name in names_in(variable.attributes))]:
            found = _nearest(known, group.path.strip("/"), other)
            if found is not None:
                todo.append(found)
    return chosen


def _paths(group: Group) -> Iterator[tuple[str, str]]:
    """Yield path and name of each variable of a group."""
    for name in (*group.variables, *group.lacking):
        yield f"{group.path.strip('/')}/{name}".lstrip("/"), name


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
