"""Reduced Gaussian grids: section 5.6 and appendix F of the draft of CF-1.14."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from cfagg.checking.context import Context
from cfagg.checking.missing import unsigned, unwritten
from cfagg.checking.rules.grid_mappings import mappings_named
from cfagg.findings.finding import Hit
from cfagg.findings.rule import rule
from cfagg.model.dataset import Variable


def _latitudes(c: Context, mapping: Variable) -> Variable | None:
    """Return the one-dimensional latitude variable named, like its dimension, in latitude_dimension."""
    name = mapping.text("latitude_dimension")
    if name is None:
        return None
    target, _ = c.resolver.variable(name, mapping.group)
    good = target is not None and len(target.dimensions) == 1 and target.dims[0] == target.name
    return target if good else None


def _points(c: Context, mapping: Variable) -> int | None:
    """Return the number of points of the whole grid, the sum of the lengths of its latitude lines."""
    for attribute in ("points_per_latitude", "accumulated_points_per_latitude"):
        name = mapping.text(attribute)
        target = c.resolver.variable(name, mapping.group)[0] if name else None
        if target is not None and target.kind == "integer" and len(target.stored) == 1 and target.size:
            if unwritten(target):
                continue
            values = unsigned(target, target.values()).astype(np.int64)
            return int(values.sum() if attribute == "points_per_latitude" else values[-1])
    return None


@rule("GMP017")
def reduced_gaussian_index_is_an_index(c: Context) -> Iterator[Hit]:
    """A reduced_gaussian_index holds strictly monotonic integers within the grid."""
    mappings = mappings_named("reduced_gaussian")(c) if c.options.data else []
    points = [n for n in (_points(c, m) for m in mappings) if n is not None]
    for v in c.with_standard_name("reduced_gaussian_index"):
        if v.kind != "integer":
            yield Hit(v, "standard_name", f"reduced_gaussian_index is of type {v.dtype}; expected an integer type")
        elif c.options.data and len(v.stored) == 1 and not unwritten(v):
            yield from _values(v, max(points, default=None))


def _values(v: Variable, points: int | None) -> Iterator[Hit]:
    last: int | None = None
    rising: bool | None = None
    for block in v.blocks():
        values = unsigned(v, block).astype(np.int64)
        # The index of the first point is 0 in appendix F, so "positive" in section 5.6 is read as nonnegative.
        if values.min() < 0:
            yield Hit(v, None, f"the index {int(values.min())} is negative")
            return
        if points is not None and values.max() >= points:
            yield Hit(v, None, f"the index {int(values.max())} is outside a grid of {points} points")
            return
        steps = np.diff(values if last is None else np.concatenate(([last], values)))
        if steps.size:
            rising = bool(steps[0] > 0) if rising is None else rising
            if not (steps > 0 if rising else steps < 0).all():
                yield Hit(v, None, "the indices are not strictly monotonic; sort them")
                return
        last = int(values[-1])


@rule("GMP018", each=mappings_named("reduced_gaussian"))
def subtype_is_known(_: Context, v: Variable) -> Iterator[Hit]:
    """The grid_subtype of a reduced Gaussian grid is normal or octahedral, in any case."""
    value = v.text("grid_subtype")
    if value is not None and value.lower() not in ("normal", "octahedral"):
        yield Hit(v, "grid_subtype", f"{value!r} is not a kind of reduced Gaussian grid; expected normal, octahedral")


@rule("GMP019", each=mappings_named("reduced_gaussian"))
def number_of_latitudes_is_even(c: Context, v: Variable) -> Iterator[Hit]:
    """The latitude_dimension of a reduced Gaussian grid has an even size."""
    name, number = v.text("latitude_dimension"), v.numbers("latitude_dimension")
    if name is not None:
        target = c.resolver.dimension(name, v.group)
        if target is not None and target.size % 2:
            yield Hit(v, "latitude_dimension", f"dimension {name!r} has size {target.size}; expected an even one")
    elif number is not None and number.size == 1 and number.dtype.kind in "iuf":
        if float(number[0]) % 2:
            yield Hit(v, "latitude_dimension", f"latitude_dimension is {number[0]}; expected an even number")
        else:
            message = "latitude_dimension is a number, as in table F.1; appendix F elsewhere expects a name"
            yield Hit(v, "latitude_dimension", message, "warning")


@rule("GMP020", each=mappings_named("reduced_gaussian"))
def latitude_variable_exists(c: Context, v: Variable) -> Iterator[Hit]:
    """A variable of one dimension exists, and both have the name in latitude_dimension."""
    name = v.text("latitude_dimension")
    if name is not None and _latitudes(c, v) is None:
        yield Hit(
            v, "latitude_dimension", f"there is no variable {name!r} whose only dimension is {name!r} too; add one"
        )


@rule("GMP021", each=mappings_named("reduced_gaussian"))
def points_per_latitude_exist(c: Context, v: Variable) -> Iterator[Hit]:
    """The variable with the numbers of points exists and has an integer for each latitude line."""
    for attribute in ("points_per_latitude", "accumulated_points_per_latitude"):
        name = v.text(attribute)
        if name is None:
            continue
        target, _ = c.resolver.variable(name, v.group)
        latitudes = _latitudes(c, v)
        if target is None:
            yield Hit(v, attribute, f"there is no variable {name!r}")
        elif target.kind != "integer":
            yield Hit(target, None, f"{attribute} {name!r} is of type {target.dtype}; expected integers")
        elif latitudes is not None and target.dimensions != latitudes.dimensions:
            expected = latitudes.dims[0]
            yield Hit(target, None, f"{name!r} has dimensions ({', '.join(target.dims)}); expected ({expected})")
