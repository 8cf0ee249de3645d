"""Variables of datasets as members: what is equal in those that are joined, and where each stands along its axes."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from cfagg.cf.calendars import DateChange, canonical, transform
from cfagg.cf.cell_methods import parse
from cfagg.cf.joining.described import Companion, Coordinate, Described, Stated
from cfagg.cf.joining.equality import equal_arrays
from cfagg.cf.joining.members import Axis, Int64, Members, Part
from cfagg.cf.joining.options import Options
from cfagg.cf.kinds_of_units import is_reference_time, meaning
from cfagg.cf.lists import grid_mappings, pairs
from cfagg.cf.references import Resolver, references
from cfagg.cf.units import SAME
from cfagg.cf.variable_roles import Roles
from cfagg.errors import CfaggError
from cfagg.model.dataset import Dataset, Variable

__all__ = ["describe", "describe_all", "members_of"]

_VALID = ("valid_min", "valid_max", "valid_range")
_FLAGS = ("flag_values", "flag_masks", "flag_meanings")


def describe(variable: Variable, resolver: Resolver, options: Options | None = None) -> Described:
    """Return what decides with which others a variable is joined; the values of its coordinates are read."""
    options = options or Options()
    found, problems = _coordinates(variable, resolver, options)
    name = _identity(variable, options)
    if name is None:
        problems.append("it has no standard name")
    axes: dict[str, Coordinate] = {}
    along: dict[str, str] = {}
    for other in found:
        # The first is that of the dimension; scalar coordinates are axes of their own.
        if len(other.dims) > 1 or (other.dims and other.dims[0] in along):
            continue
        identity = _identity(other, options)
        if identity is not None and identity not in axes and not other.is_text:
            axes[identity] = _coordinate(other, resolver, identity)
            along.update(dict.fromkeys(other.dims, identity))
    if not options.relaxed_units:
        bare = [name or variable.name] * (variable.text("units") is None)
        bare += [identity for identity, c in axes.items() if c.units is None]
        problems += [f"{one!r} has no units" for one in bare]
    problems += [f"its dimension {d!r} has no coordinate with a standard name" for d in variable.dims if d not in along]
    parts: dict[str, Companion] = {}
    for role, other in (*(("coordinates", c) for c in found), *_ancillary(variable, resolver)):
        identity = _identity(other, options) or other.name
        if identity not in axes and set(other.dims) <= set(along):
            values = other.texts() if other.is_text else other.values()
            spans = tuple(along[d] for d in other.dims)
            parts[identity] = Companion(_stated(other), values.shape, spans, values, role)
    mappings = _mappings(variable, resolver)
    signature = {
        "identity": name,
        "units": _units(variable.text("units"), variable.text("calendar")),
        "cell methods": _methods(variable.text("cell_methods"), along),
        "axes": tuple(
            sorted((identity, _units(c.units, c.calendar), c.bounds is not None) for identity, c in axes.items())
        ),
        "order of dimensions": tuple(along.get(d, d) for d in variable.dims),
        "other coordinates and ancillary variables": tuple(
            sorted((n, tuple(sorted(set(p.axes)))) for n, p in parts.items())
        ),
        "grid mapping": _parameters(mappings),
        **{key: _plain(variable.attributes.get(key)) for key in (*_FLAGS, *options.equal)},
        **{f"{key} exists": key in variable.attributes for key in options.exist},
        **{key: _plain(variable.attributes.get(key)) for key in (_VALID if options.respect_valid else ())},
        "featureType": variable.group.text("featureType"),
    }
    return Described(
        _stated(variable),
        variable.shape,
        signature,
        axes,
        along,
        parts,
        mappings,
        variable.group.attributes,
        "; ".join(problems) or None,
    )


def describe_all(dataset: Dataset, options: Options | None = None) -> list[Described]:
    """Return descriptions of all data variables of a file, in order: of what no other variable refers to."""
    resolver = Resolver(dataset)
    roles = Roles(dataset, references(dataset, resolver))
    left = roles.data - roles.named_by("ancillary_variables") - roles.named_by("cell_measures")
    return [describe(v, resolver, options) for v in dataset.variables if v in left]


def members_of(described: Sequence[Described], options: Options | None = None) -> Members:
    """Return variables as members, with their coordinates in the units and the direction of the first.

    What cannot be joined at all has a signature of its own.
    """
    options = options or Options()
    names = list(dict.fromkeys(name for d in described for name in d.signature))
    signature, labels = {}, {}
    for name in names:
        signature[name], labels[name] = _numbers(d.signature.get(name) for d in described)
    # One that cannot be joined has a number of its own.
    alone = ((i, d.problem) if d.problem else (-1, None) for i, d in enumerate(described))
    signature["problem"], found = _numbers(alone)
    labels["problem"] = [problem for _, problem in found]
    axes = [_axis(name, described, options) for name in dict.fromkeys(n for d in described for n in d.axes)]
    parts = {}
    for name in dict.fromkeys(n for d in described for n in d.parts):
        own = [d.parts.get(name) for d in described]
        values = [np.empty(0) if p is None or p.values is None else p.values for p in own]
        spans = frozenset(a for p in own if p is not None for a in p.axes)
        parts[name] = Part(equal_arrays(values, options.rtol, options.atol), spans)
    return Members(signature, axes, parts, labels)


def _axis(name: str, described: Sequence[Described], options: Options) -> Axis:
    """Return where variables stand along one axis; those without it stand together."""
    first = next(d.axes[name] for d in described if name in d.axes)
    arrays, points = [], []
    descending = np.zeros(len(described), bool)
    ends, cells = np.zeros((2, len(described))), np.full((2, len(described)), np.nan)
    for i, one in enumerate(described):
        own = one.axes.get(name)
        values = np.empty(0) if own is None else _canonical(own, first)
        descending[i] = own is not None and len(own.values) > 1 and own.values[0] > own.values[-1]
        arrays.append(values)
        if values.size:
            ends[:, i] = values[0, 0], values[-1, 0]
        if own is not None and own.bounds is not None and values.size:
            cells[:, i] = values[:, 1:].min(), values[:, 1:].max()
        points.append(values[:, 0].astype(np.float64) if values.size else np.zeros(1))
    return Axis(
        name,
        equal_arrays(arrays, options.rtol, options.atol),
        first=ends[0],
        last=ends[1],
        low=cells[0],
        high=cells[1],
        points=(np.repeat(np.arange(len(points)), list(map(len, points))), np.concatenate(points)),
        descending=descending,
    )


def _canonical(own: Coordinate, first: Coordinate) -> npt.NDArray[Any]:
    """Return values, and bounds if there are any, as rows in increasing order and in the units of another."""
    values = own.values.reshape(-1, 1)
    if own.bounds is not None:
        # Which bound comes first says nothing.
        values = np.concatenate([values, np.sort(own.bounds.reshape(len(values), -1), axis=1)], axis=1)
    try:
        change = transform(own.units, own.calendar, first.units, first.calendar)
    except CfaggError:
        change = SAME
    # What does not convert, or has another calendar, is never joined: it stays as it is.
    if not isinstance(change, DateChange) and change != SAME:
        values = values * float(change[0]) + float(change[1])
    return values[::-1] if len(values) > 1 and values[0, 0] > values[-1, 0] else values


def _coordinates(variable: Variable, resolver: Resolver, options: Options) -> tuple[list[Variable], list[str]]:
    """Return coordinate variables first, then those that ``coordinates`` names; and what of these is missing."""
    found, problems = [], []
    for dimension in variable.dimensions:
        own, _ = resolver.variable(dimension.name, variable.group)
        if own is not None and own.is_coordinate and own.dimensions[0] is dimension:
            found.append(own)
    for name in variable.words("coordinates"):
        own, _ = resolver.variable(name, variable.group)
        if own is None:
            problems.append(f"its coordinate {name!r} is not there")
        elif own not in found:
            found.append(own)
    # Those with an identity come first, so that they are the ones of their dimensions.
    return sorted(found, key=lambda v: (_identity(v, options) is None, not v.is_coordinate)), problems


def _ancillary(variable: Variable, resolver: Resolver) -> Iterable[tuple[str, Variable]]:
    names = [("ancillary_variables", n) for n in variable.words("ancillary_variables")]
    names += [("cell_measures", n) for _, ns in pairs(variable.text("cell_measures") or "") or () for n in ns]
    for role, name in names:
        found, _ = resolver.variable(name, variable.group)
        if found is not None:
            yield role, found


def _stated(variable: Variable) -> Stated:
    """Return the metadata of a variable."""
    return Stated(variable.path.lstrip("/"), variable.dims, variable.dtype, variable.kind, variable.attributes)


def _coordinate(variable: Variable, resolver: Resolver, identity: str) -> Coordinate:
    name = variable.text("bounds") or variable.text("climatology")
    bounds = None if name is None else resolver.variable(name, variable.group)[0]
    values = np.atleast_1d(variable.values())
    if bounds is None:
        return Coordinate(identity, _stated(variable), values)
    return Coordinate(identity, _stated(variable), values, bounds.values(), _stated(bounds))


def _identity(variable: Variable, options: Options) -> str | None:
    """Return the standard name with its modifier, else, where that is enough, the long name or the name."""
    name = variable.text("standard_name")
    if name is not None and name.split():
        return " ".join(name.split())
    if not options.relaxed_identities:
        return None
    return f"long_name={variable.text('long_name')}" if variable.text("long_name") else f"ncvar%{variable.name}"


def _units(units: str | None, calendar: str | None) -> Hashable:
    """Return what units mean, with the calendar of reference times; as they are where nobody knows."""
    if units is None:
        return None
    if is_reference_time(units):
        try:
            return "reference time", canonical(calendar)
        except CfaggError:
            return "reference time", calendar
    found = meaning(units)
    return units if found is None else (tuple(sorted(found.dimension)), found.logarithmic)


def _methods(text: str | None, along: dict[str, str]) -> Hashable:
    """Return cell methods with the identities of axes for the names of dimensions, and without comments."""
    if text is None:
        return None
    return tuple(
        (tuple(sorted(along.get(n, n) for n in e.names)), e.method.lower(), e.where, e.over, e.within)
        for e in parse(text).entries
    )


def _mappings(variable: Variable, resolver: Resolver) -> dict[str, Stated]:
    """Return the grid mappings of a variable."""
    names = [name for name, _ in grid_mappings(variable.text("grid_mapping") or "") or ()]
    found = {name: resolver.variable(name, variable.group)[0] for name in names}
    return {name: _stated(own) for name, own in found.items() if own is not None}


def _parameters(mappings: Mapping[str, Stated]) -> Hashable:
    """Return the parameters of all grid mappings."""
    found = [tuple(sorted((k, _plain(v)) for k, v in of.attributes.items())) for of in mappings.values()]
    return tuple(sorted(found, key=str))


def _plain(value: Any) -> Hashable:
    """Return an attribute as something that can be compared."""
    if isinstance(value, np.ndarray):
        return tuple(value.ravel().tolist())
    return value if isinstance(value, Hashable) else repr(value)


def _numbers(values: Iterable[Any]) -> tuple[Int64, list[Any]]:
    """Return numbers of values, and the values by their numbers."""
    known: dict[Any, int] = {}
    return np.array([known.setdefault(v, len(known)) for v in values], np.int64), list(known)
