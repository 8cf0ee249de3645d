"""Compression by coordinate subsampling: tie points and their indices (CF section 8.3)."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import numpy.typing as npt

from cfagg.cf.lists import pairs
from cfagg.checking.context import Context, once
from cfagg.checking.missing import unsigned, unwritten
from cfagg.checking.rules.bounds import INHERITED
from cfagg.checking.subsampling import MappedDimension, interpolation_variables, mapping, sound, uses
from cfagg.findings.finding import Hit
from cfagg.findings.rule import rule
from cfagg.model.dataset import AttributeValue, Variable


def _names(dimensions: object) -> str:
    return ", ".join(sorted(getattr(d, "name", "") for d in dimensions))  # type: ignore[attr-defined]


@rule("SUB005")
def tie_points_have_the_mapped_dimensions(c: Context) -> Iterator[Hit]:
    """Tie points of an interpolation variable have the subsampled dimensions, and others of the data variable."""
    reported: set[tuple[int, int]] = set()
    for use in uses(c):
        parts = sound(c, use.interpolation)
        if parts is None:
            continue  # SUB004
        subsampled = {p.subsampled_dimension for p in parts}
        allowed = {*subsampled, *use.span} - {p.interpolated_dimension for p in parts}
        shapes = {frozenset(t.dimensions) for t in use.ties}
        for t in use.ties:
            message = None
            own = set(t.dimensions)
            if subsampled - own:
                message = f"it lacks the subsampled dimension {_names(subsampled - own)}"
            elif any(p.interpolated_dimension in own for p in parts):
                both = own & {p.interpolated_dimension for p in parts}
                message = f"it has {_names(both)}, which is interpolated, as well as the subsampled dimension for it"
            elif own - allowed:
                message = f"it has {_names(own - allowed)}, which is not a dimension of {use.parent.path!r}"
            elif len(shapes) > 1:
                message = f"tie points that {use.interpolation.name!r} interpolates have different dimensions"
            if message and (id(t), id(use.interpolation)) not in reported:
                reported.add((id(t), id(use.interpolation)))
                yield Hit(t, None, f"{message} ({', '.join(t.dims)})")


def _mapped(
    c: Context, parts: Callable[[Context, Variable], list[MappedDimension] | None]
) -> Iterator[tuple[Variable, MappedDimension]]:
    for v in interpolation_variables(c):
        for part in parts(c, v) or ():
            yield v, part


@rule("SUB006")
def index_variables_exist(c: Context) -> Iterator[Hit]:
    """Each tie point index variable that a mapping names exists."""
    for v, part in _mapped(c, mapping):
        if part.index_variable is None:
            yield Hit(v, "tie_point_mapping", f"there is no variable {part.indices!r} with indices of tie points")


def _indices(c: Context) -> Iterator[tuple[Variable, MappedDimension]]:
    """Yield each index variable once for each dimension of a mapping without other errors."""
    seen = set()
    for _, part in _mapped(c, sound):
        v = part.index_variable
        if v is not None and (id(v), part.subsampled, part.interpolated) not in seen:
            seen.add((id(v), part.subsampled, part.interpolated))
            yield v, part


@rule("SUB007")
def index_variables_are_lists_of_integers(c: Context) -> Iterator[Hit]:
    """A tie point index variable has one dimension and an integer type."""
    for v in dict.fromkeys(v for v, _ in _indices(c)):
        if len(v.dimensions) != 1:
            yield Hit(v, None, f"it has dimensions ({', '.join(v.dims)}); expected one, the subsampled dimension")
        elif v.kind != "integer":
            yield Hit(v, None, f"indices of tie points are of type {v.dtype}; expected an integer type")


@rule("SUB008", each=_indices)
def index_variables_have_the_subsampled_dimension(_: Context, v: Variable, part: MappedDimension) -> Iterator[Hit]:
    """The dimension of a tie point index variable is the subsampled dimension that the mapping names with it."""
    if len(v.dimensions) == 1 and part.subsampled_dimension is not v.dimensions[0]:
        yield Hit(v, None, f"its dimension is {v.dims[0]!r}; expected {part.subsampled!r} as in tie_point_mapping")


@rule("SUB009", each=_indices, needs="data")
def indices_of_tie_points_grow(_: Context, v: Variable, part: MappedDimension) -> Iterator[Hit]:
    """Indices of tie points start at 0 and increase, by 1 only where a continuous area ends."""
    values = _values(v)
    if values is None or not values.size or part.subsampled_dimension is not v.dimensions[0]:
        return  # SUB007, SUB008
    message = _disorder(values)
    if message is not None:
        yield Hit(v, None, message)
    elif part.interpolated_dimension is not None and values[-1] >= part.interpolated_dimension.size:
        size = part.interpolated_dimension.size
        message = f"index {values[-1]} is beyond the dimension {part.interpolated!r} of size {size}"
        yield Hit(v, None, message)
    elif (np.diff(values) == 0).any():
        message = (
            "an index occurs twice; chapter 8 requires strictly increasing ones, the conformance document does not"
        )
        yield Hit(v, None, message, "warning")


def _values(v: Variable) -> npt.NDArray[np.int64] | None:
    """Return indices of tie points, or `None` if they are not a list of integers or were not written."""
    usable = len(v.stored) == 1 and v.kind == "integer" and not unwritten(v)
    return unsigned(v, v.values()).astype(np.int64) if usable else None


def _disorder(values: npt.NDArray[np.int64]) -> str | None:
    """Return the error in the order of indices, or `None`."""
    steps = np.diff(values)
    short = steps <= 1
    if values[0] != 0:
        return f"the first index is {values[0]}; expected 0"
    if (steps < 0).any():
        return f"index {values[1:][steps < 0][0]} is less than the one before it"
    if (short[1:] & short[:-1]).any():
        at = int(np.flatnonzero(short[1:] & short[:-1])[0])
        found = ", ".join(map(str, values[at : at + 3].tolist()))
        return f"indices {found} are consecutive; of two adjacent steps one must be at least 2"
    return None


@rule("SUB010")
def subarea_dimension_has_its_size(c: Context) -> Iterator[Hit]:
    """An interpolation subarea dimension is smaller than the subsampled one by the number of continuous areas."""
    for v, part in _mapped(c, sound):
        subsampled, subarea, index = part.subsampled_dimension, part.subarea_dimension, part.index_variable
        if subsampled is None or subarea is None:
            continue
        areas = None
        values = _values(index) if c.options.data and index is not None else None
        if values is not None and values.size:
            if _disorder(values) is not None:
                continue  # SUB009
            steps = np.diff(values)
            areas = 1 + int(np.count_nonzero((steps == 0) | (steps == 1)))
        wrong = subarea.size != subsampled.size - areas if areas is not None else subarea.size >= subsampled.size
        if wrong:
            expected = f"{subsampled.size - areas}" if areas is not None else f"less than {subsampled.size}"
            message = (
                f"the subarea dimension {subarea.name!r} has size {subarea.size}; expected {expected}, the size of "
                f"{subsampled.name!r} minus the number of continuous areas"
            )
            yield Hit(v, "tie_point_mapping", message)


@rule("SUB012")
def parameters_have_dimensions_of_the_tie_points(c: Context) -> Iterator[Hit]:
    """Interpolation parameters have dimensions of the tie points, or subarea dimensions in their place."""
    reported: set[int] = set()
    for use in uses(c):
        parts = sound(c, use.interpolation)
        if parts is None or not use.ties:
            continue  # SUB004
        allowed = {d for t in use.ties for d in t.dimensions} | {p.subarea_dimension for p in parts}
        for _, names in pairs(use.interpolation.text("interpolation_parameters") or "") or ():
            target, _ = c.resolver.variable(names[0], use.interpolation.group)
            if target is None or id(target) in reported:
                continue
            own = set(target.dimensions)
            foreign = own - allowed
            doubled = [p for p in parts if p.subarea_dimension in own and p.subsampled_dimension in own]
            lacking = [p for p in parts if {p.subarea_dimension, p.subsampled_dimension}.isdisjoint(own)]
            if foreign or doubled:
                reported.add(id(target))
                what = _names(foreign) if foreign else f"{doubled[0].subsampled} and {doubled[0].subarea}"
                message = (
                    f"it has {what}; expected subsampled dimensions or, in their place, subarea dimensions, "
                    "together with other dimensions of the tie points"
                )
                yield Hit(target, None, message)
            elif lacking and own:
                reported.add(id(target))
                message = (
                    f"it has neither {lacking[0].subsampled!r} nor a subarea dimension for it; section 8.3.8 "
                    "requires it, the conformance document does not"
                )
                yield Hit(target, None, message, "warning")


@rule("SUB013", each="bounds_tie_points")
def bounds_tie_points_names_one_variable(c: Context, v: Variable) -> Iterator[str]:
    """A bounds_tie_points attribute is the name of one existing variable."""
    names = c.references_of(v, "bounds_tie_points")
    if v.text("bounds_tie_points") is None or len(names) != 1:
        yield ("bounds_tie_points is not one name; expected that of a variable")
    elif names[0].target is None:
        yield (f"there is no variable {names[0].name!r}; expected bounds tie points")


@once
def _bounds(c: Context) -> list[tuple[Variable, Variable]]:
    """Return tie point variables with their bounds tie points."""
    named = ((v, c.target(v, "bounds_tie_points")) for v in c.with_attribute("bounds_tie_points"))
    return [(v, b) for v, b in named if b is not None]


@rule("SUB014", each=_bounds)
def bounds_tie_points_have_the_dimensions_of_the_tie_points(_: Context, v: Variable, bounds: Variable) -> Iterator[Hit]:
    """Bounds tie points have the dimensions of their tie points."""
    if bounds.dimensions != v.dimensions:
        found, wanted = ", ".join(bounds.dims), ", ".join(v.dims)
        turned = set(bounds.dimensions) == set(v.dimensions)
        message = f"it has dimensions ({found}); expected those of {v.name!r}, ({wanted})"
        yield Hit(bounds, None, message, "warning" if turned else None)


@rule("SUB015", each=_bounds)
def bounds_tie_points_are_numbers(_: Context, __: Variable, bounds: Variable) -> Iterator[Hit]:
    """Bounds tie points are numbers."""
    if not bounds.is_numeric:
        yield Hit(bounds, None, f"bounds tie points are of type {bounds.dtype}; expected numbers")


@rule("SUB016", each=_bounds)
def bounds_tie_points_have_the_attributes_of_bounds(_: Context, v: Variable, bounds: Variable) -> Iterator[Hit]:
    """Bounds tie points have no fill value, and inherited attributes only if they equal those of their tie points."""
    for name in ("_FillValue", "missing_value"):
        if name in bounds.attributes:
            yield Hit(bounds, name, f"{name} is not allowed: bounds tie points are never missing").mended()
    for name in INHERITED:
        if name in bounds.attributes and not _same(bounds.attributes[name], v.attributes.get(name)):
            found = "another value" if name in v.attributes else "no such attribute"
            yield Hit(bounds, name, f"{v.name!r} has {found}; delete {name} here, it is inherited").mended()


def _same(one: AttributeValue, other: AttributeValue) -> bool:
    if isinstance(one, np.ndarray) and isinstance(other, np.ndarray):
        return one.dtype == other.dtype and np.array_equal(one, other)
    return type(one) is type(other) and bool(one == other)


@rule("SUB018", each=_bounds)
def bounds_tie_points_inherit_attributes(_: Context, v: Variable, bounds: Variable) -> Iterator[Hit]:
    """Bounds tie points do not repeat attributes of their tie points."""
    for name in INHERITED:
        if name in bounds.attributes and _same(bounds.attributes[name], v.attributes.get(name)):
            message = f"{name} is the same as of {v.name!r} and inherited from there; delete it"
            yield Hit(bounds, name, message).mended(safe=True)
