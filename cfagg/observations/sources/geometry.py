"""The layout of the observations in a netCDF file: all of CF's discrete sampling geometries as one structure.

Observations are the elements of some dimensions; a variable with only some of these applies along the others.  In
ragged arrays one dimension refers to another, such as that of observations to that of stations or profiles, by counts
or by an index (CF chapter 9, appendix H).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from cfagg.cf.kinds_of_units import is_reference_time
from cfagg.cf.roles import COMMON_NAMES, place_by_units
from cfagg.conventions.marks import mark_of
from cfagg.errors import ConventionError, Problem
from cfagg.errors.arguments import closest

__all__ = ["Described", "Geometry", "find_geometry", "slabs"]

#: Attributes that name variables which describe others, or the shapes of their cells.
_DESCRIBING = (
    "bounds", "climatology", "grid_mapping", "bounds_tie_points", "tie_point_mapping", "node_count", "node_coordinates",
    "part_node_count", "interior_ring",
)  # fmt: skip

#: Attributes that name variables which belong to the structure of a file.
_STRUCTURE = ("sample_dimension", "instance_dimension")


@dataclass(frozen=True, slots=True)
class Described:
    """A variable of a file, without its values."""

    name: str
    dims: tuple[str, ...]
    dtype: np.dtype[Any]
    attributes: Mapping[str, Any]

    def text(self, key: str) -> str:
        """Return a text attribute, or an empty string."""
        value = self.attributes.get(key)
        return value.strip() if isinstance(value, str) else ""


@dataclass(frozen=True)
class Geometry:
    """The layout of a file's observations."""

    #: Dimensions whose elements are the observations, slowest first.
    dims: tuple[str, ...]
    sizes: Mapping[str, int]
    #: For a dimension, the one that it refers to, the kind of link (``count`` or ``index``) and its variable.
    links: Mapping[str, tuple[str, str, str]]
    #: The variables of ``date``, ``latitude`` and ``longitude``.
    places: Mapping[str, str]
    data: tuple[str, ...]
    #: Numeric variables that belong to no observation.
    left_out: tuple[str, ...] = field(default=())

    @property
    def rows(self) -> int:
        """Number of elements, including padding."""
        return int(np.prod([self.sizes[d] for d in self.dims], dtype=np.int64))

    def used(self) -> list[str]:
        """Return the names of all variables that are read."""
        return [*self.places.values(), *self.data, *(name for _, _, name in self.links.values())]


def find_geometry(
    variables: Mapping[str, Described],
    sizes: Mapping[str, int],
    where: str,
    *,
    flavour: Mapping[str, str] | None = None,
    columns: Iterable[str] | None = None,
    groups: Iterable[str] = (),
) -> Geometry:
    """Return the layout of a file's observations; ConventionError lists every problem."""
    # `flavour` names variables that attributes do not identify; `columns` are the other variables wanted, which then
    # determine the dimensions of the observations.  Variables of the file's `groups` are not read.
    problems: list[Problem] = []
    wanted = None if columns is None else tuple(dict.fromkeys(columns))
    for name, variable in variables.items():
        if (wanted is None or name in wanted) and mark_of(variable.attributes) is not None:
            remedy = "write it to one file with cfagg.read(…).to_netcdf(…), or name the other variables in columns"
            problems.append(Problem(name, f"is an aggregation of other files, which are not read here; {remedy}"))
    links = _links(variables, sizes, problems)
    places = _places(variables, dict(flavour or {}), problems)
    if problems:
        if unread := ", ".join(groups):
            problems.append(Problem("groups", f"variables of {unread} are not read; copy them to the root of a file"))
        raise ConventionError(f"{where} is not understood as observations", problems)
    apart = _apart(variables, links) | set(places.values())
    candidates = {n: v for n, v in variables.items() if n not in apart and v.dtype.kind in "iuf"}
    chosen = candidates if wanted is None else {n: v for n, v in candidates.items() if n in wanted}
    single = {d for name in places.values() for d in variables[name].dims if sizes[d] == 1}
    dims = _dims(variables, chosen, links, places, single)
    reached = _reached(dims, links) | single
    outside = [f"{n} ({v})" for n, v in places.items() if not set(variables[v].dims) <= reached]
    if outside:
        raise ConventionError(
            f"{where}: {', '.join(outside)} has dimensions that the observations, numbered by {', '.join(dims)}, do "
            "not have; name other variables in flavour"
        )
    mentioned = {word for v in variables.values() for word in v.text("coordinates").split()}
    fit = [n for n, v in candidates.items() if set(v.dims) <= reached and (v.dims or n in mentioned)]
    if wanted is None:
        # Scalars and labels of dimensions do not count as omitted data.
        left_out = tuple(n for n, v in candidates.items() if n not in fit and v.dims and v.dims != (n,))
        if left_out and not fit:
            lost = [f"{n} ({', '.join(variables[n].dims)})" for n in left_out]
            raise ConventionError(
                f"{where}: no variable has dimensions of the observations, which times and places number by "
                f"{', '.join(dims)}: {', '.join(lost)}; name others in flavour, expand arrays compressed by gathering "
                "or subsampling, or give columns: [] for dates and places alone"
            )
        return Geometry(dims, sizes, links, places, tuple(fit), left_out)
    for name in wanted:
        if name not in variables:
            problems.append(Problem(name, f"is not a variable of the file{closest(name, variables)}"))
        elif variables[name].dtype.kind not in "iuf":
            problems.append(Problem(name, f"is not numeric but {variables[name].dtype}"))
        elif not set(variables[name].dims) <= reached:
            own = ", ".join(variables[name].dims)
            problems.append(Problem(name, f"has dimensions ({own}) that observations do not have"))
    if problems:
        raise ConventionError(f"{where}: columns cannot be read", problems)
    return Geometry(dims, sizes, links, places, wanted)


def _links(
    variables: Mapping[str, Described], sizes: Mapping[str, int], problems: list[Problem]
) -> dict[str, tuple[str, str, str]]:
    links: dict[str, tuple[str, str, str]] = {}
    for name, variable in variables.items():
        for key, kind in (("sample_dimension", "count"), ("instance_dimension", "index")):
            other = variable.text(key)
            if not other:
                continue
            if other not in sizes or len(variable.dims) != 1 or variable.dtype.kind not in "iu":
                problems.append(
                    Problem(
                        name,
                        f"has {key} = {other!r}; expected whole numbers on one dimension, and a dimension of that name "
                        f"(there are {', '.join(sizes)})",
                    )
                )
                continue
            source, target = (other, variable.dims[0]) if kind == "count" else (variable.dims[0], other)
            if source in links:
                problems.append(Problem(name, f"and {links[source][2]} both say what {source} belongs to"))
            links[source] = (target, kind, name)
    for start in links:
        seen, at = {start}, links[start][0]
        while at in links and at not in seen:
            seen.add(at)
            at = links[at][0]
        if at in seen:
            problems.append(Problem(links[start][2], f"leads from {start} back to {at}"))
            break
    return links


def _places(variables: Mapping[str, Described], flavour: Mapping[str, str], problems: list[Problem]) -> dict[str, str]:
    found: dict[str, str] = {}
    mentioned = {word for v in variables.values() for word in v.text("coordinates").split()}
    for kind in ("date", "latitude", "longitude"):
        name = flavour.get(kind)
        if name is not None:
            if name not in variables:
                problems.append(Problem(f"flavour.{kind}", f"{name} is not a variable{closest(name, variables)}"))
            elif (dtype := variables[name].dtype).kind not in "iuf":
                said = f"{name} is {'text' if dtype.kind in 'OSU' else dtype}, expected numbers; name another variable"
                problems.append(Problem(f"flavour.{kind}", said))
            else:
                found[kind] = name
            continue
        names = _likely(kind, variables)
        if len(names) > 1:
            # Variables that data name as coordinates, or that have the name of their dimension, take precedence.
            named = [n for n in names if n in mentioned or variables[n].dims == (n,)]
            names = named or names
        if len(names) == 1:
            found[kind] = names[0]
        else:
            said = f"may be {', '.join(names)}" if names else f"is in none of {', '.join(variables) or 'no variables'}"
            problems.append(Problem(kind, f"{said}; name the variable in flavour"))
    return found


def _likely(kind: str, variables: Mapping[str, Described]) -> list[str]:
    """Return the variables that are most likely times, latitudes or longitudes."""
    aside = {v.text(k) for v in variables.values() for k in ("bounds", "climatology")}
    numeric = [v for n, v in variables.items() if v.dtype.kind in "iuf" and n not in aside]
    for test in (_has_standard_name, _has_units, _has_name):
        names = [v.name for v in numeric if test(v, kind)]
        if names:
            return names
    return []


def _has_standard_name(variable: Described, kind: str) -> bool:
    return variable.text("standard_name") == ("time" if kind == "date" else kind)


def _has_units(variable: Described, kind: str) -> bool:
    """Return whether a variable has units of times, latitudes or longitudes; a standard name takes precedence."""
    if variable.text("standard_name"):
        return False
    units = variable.text("units")
    return is_reference_time(units) if kind == "date" else place_by_units(units) == kind


def _has_name(variable: Described, kind: str) -> bool:
    name = variable.name.lower()
    # A variable called "t" is a temperature more often than a time.
    return name == "time" if kind == "date" else COMMON_NAMES.get(name) == kind


def _apart(variables: Mapping[str, Described], links: Mapping[str, tuple[str, str, str]]) -> set[str]:
    """Return variables that describe others: bounds, counts, indexes, grid mappings."""
    apart = {name for _, _, name in links.values()}
    for variable in variables.values():
        for key in _DESCRIBING:
            apart |= set(variable.text(key).replace(":", " ").split())
        if variable.text("grid_mapping_name") or variable.text("compress") or variable.text("geometry_type"):
            apart.add(variable.name)
        if any(variable.text(key) for key in _STRUCTURE):
            apart.add(variable.name)
    return apart


def _dims(
    variables: Mapping[str, Described],
    candidates: Mapping[str, Described],
    links: Mapping[str, tuple[str, str, str]],
    places: Mapping[str, str],
    single: set[str],
) -> tuple[str, ...]:
    """Return the dimensions that number the observations: those of the data with times and places."""
    needed = {d for name in places.values() for d in variables[name].dims}
    # Times and places that all have a single element would belong to any variable: data have at least the time's.
    least = (needed - single) or set(variables[places["date"]].dims) or needed
    # Of other dimensions, those with coordinates number observations, but not those of tests or of parts of a file.
    mentioned = {word for v in variables.values() for word in v.text("coordinates").split()}
    levels = {
        v.dims[0]
        for v in variables.values()
        if len(v.dims) == 1 and (v.name in {v.dims[0], *mentioned} or v.text("axis") or v.text("positive"))
    }
    best: tuple[str, ...] = ()
    most = (-1, -1)
    for variable in candidates.values():
        reach = _reached(variable.dims, links)
        fits = needed <= reach or least <= reach <= least | single | levels
        if fits and (size := (len(reach - single), len(reach))) > most:
            best, most = variable.dims, size
    if best:
        return best
    # If there are only times and places, use their dimensions that no other one refers to.
    own = dict.fromkeys(d for name in places.values() for d in variables[name].dims)
    return tuple(d for d in own if not any(d in _reached((other,), links) for other in needed if other != d))


def _reached(dims: Iterable[str], links: Mapping[str, tuple[str, str, str]]) -> set[str]:
    """Return the dimensions that some dimensions refer to, including themselves."""
    found = set(dims)
    todo = list(found)
    while todo:
        link = links.get(todo.pop())
        if link is not None and link[0] not in found:
            found.add(link[0])
            todo.append(link[0])
    return found


def slabs(sizes: list[int], most: int) -> Iterator[tuple[slice, ...]]:
    """Yield blocks of at most `most` elements, in C order; one of size 0 if there are no elements."""
    if not all(sizes):
        yield tuple(slice(0, n) for n in sizes)
        return
    inner = 1
    split = len(sizes)
    while split and inner * sizes[split - 1] <= most:
        split -= 1
        inner *= sizes[split]
    if not split:
        yield tuple(slice(0, n) for n in sizes)
        return
    step = max(1, most // inner)
    tail = tuple(slice(0, n) for n in sizes[split:])
    for lead in np.ndindex(*sizes[: split - 1]):
        for start in range(0, sizes[split - 1], step):
            stop = min(start + step, sizes[split - 1])
            yield (*(slice(i, i + 1) for i in lead), slice(start, stop), *tail)
