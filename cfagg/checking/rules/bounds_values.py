"""Values of bounds variables, and formula terms of bounds: CF sections 7.1 and 7.1.4."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from cfagg.cf.lists import pairs
from cfagg.checking.axes import axis_of, is_latitude, is_longitude
from cfagg.checking.context import Context
from cfagg.checking.missing import missing_mask, packing, unpacked
from cfagg.checking.rules.bounds import bounded, same_dimensions, shown
from cfagg.findings.finding import Hit
from cfagg.findings.rule import rule
from cfagg.model.dataset import BLOCK, Variable

Floats = npt.NDArray[np.float64]


def _shaped(v: Variable, b: Variable) -> bool:
    """Whether the dimensions allow a comparison of values."""
    usable = v.is_numeric and b.is_numeric and v.dialect is None and b.dialect is None
    readable = v.read is not None and b.read is not None
    return usable and readable and len(b.dimensions) > 0 and same_dimensions(b.dimensions[:-1], v.dimensions)


def _real(v: Variable, raw: npt.NDArray[Any]) -> Floats:
    """Return stored values unpacked, missing ones as NaN."""
    values = np.array(unpacked(v, raw), np.float64)
    values[missing_mask(v, raw)] = np.nan
    return values


def _real_bounds(v: Variable, b: Variable, raw: npt.NDArray[Any]) -> Floats:
    """Return stored bounds unpacked by their own attributes or, without any, by those of their parent."""
    packed = b if {"scale_factor", "add_offset"} & b.attributes.keys() else v
    plain = packed is v and raw.dtype.kind == "f"
    values = np.array(raw if plain else unpacked(packed, raw), np.float64)
    values[missing_mask(b, raw)] = np.nan
    return values


@rule("BND004", each=bounded, needs="data")
def missing_vertices_come_last(_: Context, v: Variable, b: Variable) -> Iterator[Hit]:
    """Missing vertices of a cell are the last ones."""
    if not _shaped(v, b):
        return
    before = 0
    for block in b.blocks():
        gone = missing_mask(b, block)
        bad = (gone[..., :-1] & ~gone[..., 1:]).any(axis=-1)
        if bad.any():
            cell = before + int(np.argmax(bad.ravel()))
            yield Hit(
                b, None, f"cell {_index(v, cell)} has a missing vertex before one that is not; missing ones come last"
            )
            break
        before += bad.size


def _index(v: Variable, flat: int) -> str:
    """Return the index of a value as in (2, 5)."""
    shape = v.shape or (1,)
    return str(tuple(int(i) for i in np.unravel_index(min(flat, int(np.prod(shape)) - 1), shape))).replace(",)", ")")


@rule("BND005", each=bounded, needs="data")
def bounds_are_ordered_as_the_coordinate(c: Context, v: Variable, b: Variable) -> Iterator[Hit]:
    """Bounds of a coordinate variable rise where it rises and fall where it falls."""
    if len(v.dimensions) != 1 or v.size < 2 or not _shaped(v, b) or b.dimensions[-1].size != 2:
        return
    # CF mentions coordinate variables; the rule also applies to others that rise or fall along their axis.
    if not v.is_coordinate and axis_of(c, v) not in ("Z", "T"):
        return
    steps = np.diff(_real(v, v.values()))
    rising = bool(np.all(steps > 0))
    if not rising and not np.all(steps < 0):
        return  # Another rule reports values that are not monotonic.
    edges = _real_bounds(v, b, b.values())
    width = edges[:, 1] - edges[:, 0]
    wrong = width < 0 if rising else width > 0
    if wrong.any():
        at = int(np.argmax(wrong))
        message = (
            f"{v.path!r} {'rises' if rising else 'falls'}, and {int(wrong.sum())} of its cells have bounds the "
            f"other way, first cell {at}: {edges[at, 0]:.9g}, {edges[at, 1]:.9g}; swap them"
            + (" or add 360 degrees" if is_longitude(v) else "")
        )
        yield Hit(b, None, message, None if v.is_coordinate else "warning")


@rule("BND009", each=bounded, needs="data")
def points_are_in_their_cells(c: Context, v: Variable, b: Variable) -> Iterator[Hit]:
    """Coordinates are within their cells or on their bounds."""
    if not _shaped(v, b) or b.dimensions[-1].size < 2 or v.size == 0:
        return
    if b.text("units") not in (None, v.text("units")):
        return  # BND007
    count, first = 0, ""
    for before, points, edges in _paired(v, b):
        wrong = _outside(c, v, b, points, edges)
        if wrong.any() and not count:
            at = int(np.argmax(wrong.ravel()))
            own = edges.reshape(-1, edges.shape[-1])[at]
            cell = ", ".join(f"{x:.9g}" for x in own[~np.isnan(own)][:8])
            first = f"point {_index(v, before + at)}: {points.ravel()[at]:.9g} is not within {cell} of {b.path!r}"
        count += int(wrong.sum())
    if count:
        yield Hit(v, None, f"{count} of {v.size} points outside their cells, first {first}")


def _paired(v: Variable, b: Variable) -> Iterator[tuple[int, Floats, Floats]]:
    """Yield blocks along the first dimension: the number of preceding points, the points, their bounds."""
    if v.read is None or b.read is None:
        return
    row = max(1, b.size // max(1, v.shape[0] if v.shape else 1))
    step = max(1, BLOCK // row)
    rest = tuple(slice(0, n, 1) for n in v.shape[1:])
    vertices = slice(0, b.shape[-1], 1)
    if not v.shape:
        yield 0, _real(v, v.read(())), _real_bounds(v, b, b.read((vertices,)))
        return
    for start in range(0, v.shape[0], step):
        some = slice(start, min(start + step, v.shape[0]), 1)
        points, edges = v.read((some, *rest)), b.read((some, *rest, vertices))
        yield start * (v.size // v.shape[0]), _real(v, points), _real_bounds(v, b, edges)


def _outside(c: Context, v: Variable, b: Variable, points: Floats, edges: Floats) -> npt.NDArray[np.bool_]:
    """Return which points are outside their cells, judged by one coordinate alone."""
    away = edges - points[..., None]
    if is_longitude(v):
        away = (away + 180.0) % 360.0 - 180.0
        # An edge half a turn away is on both sides.
        half = np.abs(away) >= 180.0 - 1e-6
    else:
        half = np.zeros(away.shape, bool)
    everything_missing = np.isnan(away).all(axis=-1)
    low = np.where(np.isnan(away), np.inf, np.where(half, -180.0, away)).min(axis=-1)
    high = np.where(np.isnan(away), -np.inf, np.where(half, 180.0, away)).max(axis=-1)
    slack = _slack(v, b, points, edges)
    if edges.shape[-1] > 2 and axis_of(c, v) in ("X", "Y", None):
        slack = slack + _bulge(low, high, edges, is_latitude(v))
    missing: Any = np.isnan(points) | everything_missing
    outside: npt.NDArray[np.bool_] = ((low > slack) | (high < -slack)) & ~missing
    if is_longitude(v):
        # Of a cell of more than half a turn, only the order of its two edges tells the direction.
        two = (edges.shape[-1] == 2) | ((~np.isnan(edges)).sum(axis=-1) == 2)
        ends = edges[..., :2]
        outside_two = ~_within_turns(points, ends, slack) & ~missing & (ends[..., 1] - ends[..., 0] > -180.0)
        outside = np.where(two, outside_two, outside)
    return outside


def _bulge(low: Floats, high: Floats, edges: Floats, latitude: bool) -> Floats:
    """Return how far a polygon may extend beyond its vertices in one coordinate.

    Its sides may be great circles, and a large polygon, or one near a pole, may contain the pole.
    """
    with np.errstate(invalid="ignore"):
        spread = np.where(np.isfinite(high - low), high - low, 0.0)
    polar = latitude & (np.abs(np.where(np.isnan(edges), 0.0, edges)).max(axis=-1) > 85.0)
    found: Floats = np.where((spread > 20.0) | polar, spread, 0.1 * spread)
    return found


def _within_turns(points: Floats, edges: Floats, slack: Floats) -> npt.NDArray[np.bool_]:
    """Return which longitudes are between their edges modulo whole turns."""
    low, high = edges.min(axis=-1), edges.max(axis=-1)
    turned = low + (points - low) % 360.0
    found: npt.NDArray[np.bool_] = (turned <= high + slack) | (turned >= low + 360.0 - slack)
    return found


def _slack(v: Variable, b: Variable, points: Floats, edges: Floats) -> Floats:
    """Return the tolerance for round-off of a point."""
    step = 4e-7 if min(v.dtype.itemsize, b.dtype.itemsize) <= 4 else 1e-12
    packed = sum(abs(float(pair[0])) for pair in (packing(v), packing(b)) if pair is not None)
    size = np.abs(np.where(np.isnan(edges), 0.0, edges)).max(axis=-1)
    found: Floats = packed + step * np.maximum(np.abs(np.where(np.isnan(points), 0.0, points)), size)
    return found


@rule("BND008", each=bounded)
def bounds_of_parametric_coordinates_have_formula_terms(c: Context, v: Variable, b: Variable) -> Iterator[Hit]:
    """Bounds of a parametric vertical coordinate have the same formula terms, at the bounds."""
    terms = _terms(c, v)
    if not terms:
        return
    if "formula_terms" not in b.attributes:
        message = (
            f"{v.path!r} has formula_terms and its bounds variable has none; add them with the terms at the bounds"
        )
        yield Hit(b, "formula_terms", message)
        return
    theirs = _terms(c, b)
    if not theirs:
        return  # Another rule reports errors of grammar.
    yield from _compared(c, v, b, terms, theirs)


def _terms(c: Context, v: Variable) -> dict[str, tuple[str, Variable | None]]:
    """Return name and variable of each formula term in lower case; empty if the grammar is violated."""
    groups = pairs(v.text("formula_terms") or "")
    if not groups or any(len(names) != 1 for _, names in groups):
        return {}
    return {r.key.lower(): (r.name, r.target) for r in c.references_of(v, "formula_terms") if r.key is not None}


def _compared(
    c: Context,
    v: Variable,
    b: Variable,
    terms: dict[str, tuple[str, Variable | None]],
    theirs: dict[str, tuple[str, Variable | None]],
) -> Iterator[Hit]:
    """Yield the differences between the terms of a coordinate and of its bounds."""
    lacking, further = sorted(terms.keys() - theirs.keys()), sorted(theirs.keys() - terms.keys())
    if lacking or further:
        names = lacking or further
        terms_ = f"the term{'s' if len(names) > 1 else ''} {', '.join(names)}"
        told = f"lacks {terms_}, which {v.path!r} has" if lacking else f"has {terms_}, which {v.path!r} lacks"
        yield Hit(b, "formula_terms", f"formula_terms {told}")
        return
    for term, (_, one) in terms.items():
        _, other = theirs[term]
        if one is None or other is None:
            continue  # Another rule checks that variables exist.
        wrong = _wrong(c, v, b, one, other)
        if wrong:
            yield Hit(b, "formula_terms", f"term {term}: {wrong}")


def _wrong(c: Context, v: Variable, b: Variable, one: Variable, other: Variable) -> str:
    """Return the error in a term at the bounds, or an empty string."""
    vertical = [d for d in v.dimensions if v.is_coordinate or any(t.size > 1 for t in v.dimensions)]
    if not any(d in vertical for d in one.dimensions):
        # A scalar level has no vertical dimension, so the terms of its bounds may differ.
        if one is other or not vertical:
            return ""
        return f"{other.path!r} is not {one.path!r}, which does not depend on the vertical; name the same variable"
    if one is other:
        return f"{one.path!r} depends on the vertical; name the variable that holds it at the bounds"
    if not other.dimensions or not same_dimensions(other.dimensions[:-1], one.dimensions):
        expected = f"expected {shown(one.dimensions)} and one more"
        return f"{other.path!r} has the dimensions {shown(other.dimensions)}; {expected}"
    if b.dimensions and other.dimensions[-1].size != b.dimensions[-1].size:
        return f"{other.path!r} has {other.dimensions[-1].size} vertices, {b.path!r} has {b.dimensions[-1].size}"
    named = c.references_of(one, "bounds")
    if one in c.roles.coordinates and one is not v and len(named) == 1 and named[0].target not in (None, other):
        return (
            f"bounds of the coordinate {one.path!r} are {named[0].name!r}, not {other.path!r}; name one of them in both"
        )
    return ""
