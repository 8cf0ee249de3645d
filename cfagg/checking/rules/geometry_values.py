"""Values of the counts and nodes of geometries: CF section 7.6."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from cfagg.cf.roles import place_of
from cfagg.checking.context import Context
from cfagg.checking.geometries import LONGEST, Geometry, counts, geometries
from cfagg.checking.missing import unpacked, unwritten
from cfagg.findings.finding import Hit
from cfagg.findings.rule import rule, shared
from cfagg.model.dataset import Variable


def _per_geometry(g: Geometry) -> npt.NDArray[np.int64] | None:
    """Return the number of nodes of each geometry, or `None` if unknown."""
    if g.node_count is not None:
        return counts(g.node_count)
    sizes = {n.size for n in g.nodes}
    return np.array(list(sizes), np.int64) if len(sizes) == 1 and not g.has("node_count") else None


def _too_few(c: Context, kind: str, least: int) -> Iterator[Hit]:
    for g in geometries(c):
        if g.kind != kind:
            continue
        where = g.node_count if g.node_count is not None else g.container
        numbers = _per_geometry(g)
        if numbers is None:
            continue
        bad = np.flatnonzero(numbers < least)
        if bad.size:
            message = f"{kind} {bad[0]} has {numbers[bad[0]]} nodes; expected {least} or more ({bad.size} in all)"
            yield Hit(where, None, message)
        elif g.part_node_count is not None:
            parts = counts(g.part_node_count)
            bad = np.flatnonzero(parts < least) if parts is not None else bad
            if parts is not None and bad.size:
                message = f"part {bad[0]} of the {kind}s has {parts[bad[0]]} nodes; {least} or more make sense"
                yield Hit(g.part_node_count, None, message, "warning")


shared(_too_few, GEO005=("line", 2), GEO006=("polygon", 3), needs="data")


def node_total(g: Geometry) -> Iterator[Hit]:
    """The dimension of the nodes has the sum of the node counts as its size (a part of GEO013)."""
    numbers = counts(g.node_count) if g.node_count is not None else None
    if numbers is None and g.part_node_count is not None and not g.has("node_count"):
        numbers = counts(g.part_node_count)
    elif numbers is not None and g.part_node_count is not None:
        parts = counts(g.part_node_count)
        if parts is not None and parts.sum() != numbers.sum():
            return  # GEO017
    dimension = g.nodes[0].dimensions[0]
    if numbers is not None and numbers.sum() != dimension.size:
        message = (
            f"the counts of nodes add up to {int(numbers.sum())}, the dimension {dimension.name!r} of the nodes has "
            f"size {dimension.size}"
        )
        yield Hit(g.container, "node_count", message)


@rule("GEO015", each=geometries)
def parts_are_counted_in_one_dimension(c: Context, g: Geometry) -> Iterator[Hit]:
    """The part node count has one dimension, with an element for each part of each geometry."""
    if not g.has("part_node_count"):
        return
    names = c.references_of(g.container, "part_node_count")
    if len(names) != 1 or names[0].target is None:
        found = f"there is no variable {names[0].name!r}" if len(names) == 1 else "it is not one name"
        yield Hit(g.container, "part_node_count", f"{found}; expected one with the number of nodes of each part")
        return
    v = names[0].target
    if len(v.dimensions) != 1 or not v.is_numeric:
        yield Hit(
            v, None, f"it has type {v.dtype} and dimensions ({', '.join(v.dims)}); expected counts along one dimension"
        )
    elif c.options.data:
        yield from _whole_parts(g, v)


def _whole_parts(g: Geometry, v: Variable) -> Iterator[Hit]:
    """Each geometry consists of whole parts."""
    parts, numbers = counts(v), _per_geometry(g)
    if parts is None or numbers is None or parts.sum() != numbers.sum():
        return  # GEO017, GEO013
    ends, wanted = np.cumsum(parts), np.cumsum(numbers)
    cut = np.flatnonzero(~np.isin(wanted, np.concatenate(([0], ends))))
    if cut.size:
        yield Hit(v, None, f"the end of geometry {cut[0]} is within a part; each part belongs to one geometry")
    elif (parts < 1).any():
        yield Hit(v, None, f"part {int(np.flatnonzero(parts < 1)[0])} has no nodes; there is one element too many")


@rule("GEO017", each=geometries, needs="data")
def counts_have_the_same_sum(_: Context, g: Geometry) -> Iterator[Hit]:
    """The parts have as many nodes in total as the geometries."""
    if g.node_count is None or g.part_node_count is None:
        return
    numbers, parts = counts(g.node_count), counts(g.part_node_count)
    if numbers is not None and parts is not None and numbers.sum() != parts.sum():
        message = (
            f"it adds up to {int(parts.sum())} nodes, {g.node_count.name!r} to {int(numbers.sum())}; "
            "both count the same nodes"
        )
        yield Hit(g.part_node_count, None, message)


@rule("GEO019", each=geometries, needs="data")
def interior_ring_is_zero_or_one(_: Context, g: Geometry) -> Iterator[Hit]:
    """The interior ring variable holds 0 and 1 only."""
    v = g.interior_ring
    if v is None or v.dialect is not None:
        return
    if not v.is_numeric:
        yield Hit(v, None, f"it is of type {v.dtype}; expected 0 for exterior and 1 for interior rings")
        return
    for block in v.blocks() if not unwritten(v) else ():
        other = block[(block != 0) & (block != 1)]
        if other.size:
            yield Hit(v, None, f"it holds {other.ravel()[0]}; expected 0 for exterior and 1 for interior rings")
            break
    else:
        yield from _exterior_first(g, v)


def _exterior_first(g: Geometry, v: Variable) -> Iterator[Hit]:
    """The first ring of each polygon is an exterior one (not in the conformance document)."""
    if g.part_node_count is None or g.node_count is None:
        return
    inner, parts, numbers = counts(v), counts(g.part_node_count), counts(g.node_count)
    if inner is None or parts is None or numbers is None or inner.shape != parts.shape:
        return
    starts = np.isin(np.cumsum(parts) - parts, np.cumsum(numbers) - numbers) & (parts > 0)
    bad = np.flatnonzero(starts & (inner == 1))
    if bad.size:
        message = f"ring {bad[0]} is the first of its polygon and interior; exterior rings come before their holes"
        yield Hit(v, None, message, "warning")


@rule("GEO014", each=geometries, needs="data")
def rings_have_their_direction(_: Context, g: Geometry) -> Iterator[Hit]:
    """Exterior rings run anticlockwise, interior rings clockwise, seen from above."""
    if g.kind != "polygon":
        return
    by_axis = {(n.text("axis") or "").upper(): n for n in g.nodes}
    x, y = by_axis.get("X"), by_axis.get("Y")
    sizes = counts(g.part_node_count) if g.part_node_count is not None else _per_geometry(g)
    if x is None or y is None or sizes is None or not (x.is_numeric and y.is_numeric):
        return
    if len(x.dimensions) != 1 or x.dimensions != y.dimensions:
        return  # GEO013
    if x.size > LONGEST or sizes.sum() != x.size or (sizes < 0).any():
        return
    if g.part_node_count is not None and any(h.severity is None for h in _whole_parts(g, g.part_node_count)):
        return  # GEO015
    if g.has("interior_ring") and g.interior_ring is None:
        return  # GEO020
    if x.read is None or y.read is None or x.dialect is not None or y.dialect is not None:
        return
    inner = counts(g.interior_ring) if g.interior_ring is not None else np.zeros(sizes.size, np.int64)
    if inner is None or inner.shape != sizes.shape:
        return  # GEO020
    if g.interior_ring is not None and not np.isin(g.interior_ring.values(), (0, 1)).all():
        return  # GEO019
    east, north = (unpacked(n, n.values()).astype(float) for n in (x, y))
    area = _areas(east, north, sizes, angular=_is_longitude(x))
    wrong = np.flatnonzero(np.where(inner == 1, area > 0, area < 0))
    if wrong.size:
        ring = int(wrong[0])
        kind, found = ("interior", "anticlockwise") if inner[ring] == 1 else ("exterior", "clockwise")
        message = f"ring {ring} is {kind} and runs {found}; reverse its nodes ({wrong.size} in all)"
        yield Hit(g.container, "node_coordinates", message)


def _is_longitude(x: Variable) -> bool:
    return place_of(x.attributes) == "longitude" or x.words("standard_name")[:1] == ["grid_longitude"]


def _areas(
    x: npt.NDArray[np.float64], y: npt.NDArray[np.float64], sizes: npt.NDArray[np.int64], *, angular: bool
) -> npt.NDArray[np.float64]:
    """Return twice the signed area of each ring, 0 if unknown.

    Longitudes may jump by 360 degrees; the sign of a ring around a pole cannot be determined in the plane.
    """
    out = np.zeros(sizes.size)
    used = sizes > 0
    starts = (np.cumsum(sizes) - sizes)[used]
    if not starts.size:
        return out
    after = np.arange(1, x.size + 1)
    after[starts + sizes[used] - 1] = starts
    steps = x[after] - x
    if angular:
        steps = (steps + 180.0) % 360.0 - 180.0
    # Sum the area under each edge, dx * mean y, which is negative for an anticlockwise ring seen from above.
    with np.errstate(invalid="ignore", over="ignore"):
        area = -np.add.reduceat(steps * (y + y[after]), starts)
        turned = np.abs(np.add.reduceat(steps, starts)) > 1.0 if angular else np.zeros(starts.size, bool)
        size = np.add.reduceat(np.abs(steps * (y + y[after])), starts)
    area[turned | ~(np.abs(area) > 1e-9 * size)] = 0.0
    out[used] = area
    return out
