"""Dimensions that should have cell methods and coordinates that should have bounds: CF section 7.3."""

from __future__ import annotations

from collections.abc import Iterator

from cfagg.cf.cell_methods import CellMethods
from cfagg.checking.axes import axis_of
from cfagg.checking.context import Context, once
from cfagg.checking.rules.cell_methods import coordinate_of, methods, norms, scalars
from cfagg.findings.finding import Hit
from cfagg.findings.rule import rule
from cfagg.model.dataset import Dimension, Variable

#: Attributes of variables whose values are codes, to which no method was applied.
_CODES = frozenset({"flag_values", "flag_masks", "flag_meanings", "cf_role"})


@once
def _parsed(c: Context) -> dict[Variable, CellMethods]:
    return dict(methods(c))


@rule("CEL006")
def dimensions_have_cell_methods(c: Context) -> Iterator[Hit]:
    """Cell methods of a data variable cover its dimensions and scalar coordinates of space and time."""
    parsed = _parsed(c)
    left_out = norms(c) | c.roles.named_by("cell_measures") | c.roles.named_by("ancillary_variables")
    for v in c.dataset.variables:
        if v not in c.roles.data or v in left_out or not v.is_numeric or not _CODES.isdisjoint(v.attributes):
            continue
        said = parsed.get(v)
        if said is None and "cell_methods" in v.attributes:
            continue
        if said is not None and said.problems:
            continue
        names = {name for entry in said.entries for name in entry.names} if said is not None else set()
        lacking = [(one, axis) for one, axis in _spatiotemporal(c, v) if not _covers(names, one, axis)]
        if lacking:
            found = "cell_methods does not mention" if said is not None else "there is no cell_methods for"
            listed = ", ".join(one.name for one, _ in lacking)
            yield Hit(v, "cell_methods", f"{found} {listed}; add e.g. {_example(lacking, whole=said is None)}")


def _example(lacking: list[tuple[Variable, str]], *, whole: bool) -> str:
    """Return cell methods that would cover some coordinates."""
    horizontal = {axis for _, axis in lacking} >= {"X", "Y"}
    entries = []
    for one, axis in lacking:
        name = "area" if horizontal and axis in "XY" else one.name
        entry = f"{name}: {'mean' if one.dimensions else 'point'}"
        if entry not in entries:
            entries.append(entry)
    return f'cell_methods = "{" ".join(entries)}"' if whole else f'"{" ".join(entries)}"'


#: The properties shared by variables with the same coordinates: group, dimensions and ``coordinates``.
_Frame = tuple[int, tuple[Dimension, ...], str | None]


def _frame(v: Variable) -> _Frame:
    return id(v.group), v.dimensions, v.text("coordinates")


@once
def _known(_: Context) -> dict[_Frame, list[tuple[Variable, str]]]:
    return {}


def _spatiotemporal(c: Context, v: Variable) -> list[tuple[Variable, str]]:
    """Return the coordinate variables and scalar coordinates of space and time, with their axes."""
    known, frame = _known(c), _frame(v)
    if frame not in known:
        named = (coordinate_of(c, v, name) for name in dict.fromkeys([*v.dims, *scalars(c, v)]))
        numeric = [x for x in dict.fromkeys(named) if x is not None and x.is_numeric]
        known[frame] = [(x, axis) for x in numeric if (axis := axis_of(c, x)) is not None]
    return known[frame]


def _covers(names: set[str], coordinate: Variable, axis: str) -> bool:
    standard = (coordinate.text("standard_name") or "").strip()
    return coordinate.name in names or standard in names or (axis in "XY" and "area" in names)


@rule("CEL007")
def cells_have_bounds(c: Context) -> Iterator[Hit]:
    """Coordinates to which a method other than point was applied have bounds or climatology."""
    reported: set[Variable] = set()
    seen: set[tuple[_Frame, int]] = set()
    for v, parsed in methods(c):
        # The same cell methods with the same coordinates add nothing.
        alike = _frame(v), id(parsed)
        if alike in seen:
            continue
        seen.add(alike)
        for entry in parsed.entries:
            if entry.is_point or entry.is_anomaly:
                continue
            for name in entry.names:
                coordinate = coordinate_of(c, v, name) or _of_standard_name(c, v, name)
                if coordinate is None or coordinate in reported or not coordinate.is_numeric:
                    continue
                if not {"bounds", "climatology", "nodes"} & coordinate.attributes.keys():
                    reported.add(coordinate)
                    message = (
                        f"the method {entry.method!r} of {v.path!r} was applied to cells of {name!r}, which has no "
                        "bounds; add a bounds variable"
                    )
                    yield Hit(coordinate, "bounds", message)


def _of_standard_name(c: Context, v: Variable, name: str) -> Variable | None:
    """Return the coordinate variable or scalar coordinate of `v` that has this standard name, if it is unique."""
    own = (coordinate_of(c, v, n) for n in dict.fromkeys([*v.dims, *scalars(c, v)]))
    found = [x for x in dict.fromkeys(own) if x is not None and (x.text("standard_name") or "").strip() == name]
    return found[0] if len(found) == 1 else None
