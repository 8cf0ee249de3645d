"""Arrays cut into parts in any way are one array again, each value at its place; NumPy says what the array was."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from cfagg.cf.joining import Boxes, Described, Members, Options
from cfagg.model.dataset import Group
from tests.cf.joining.datasets import LATITUDE, LONGITUDE, TAS, TIME, add, boxes_of, described
from tests.effort import examples

Index = tuple[npt.NDArray[np.int64], ...]
Ranges = tuple[tuple[int, int], ...]

NAMES = ("time", "lat", "lon")
#: Attributes, and what multiplies and is added to coordinates, so that they say the same.
FORMS: dict[str, list[tuple[dict[str, Any], float, float]]] = {
    "time": [
        (TIME, 1.0, 0.0),
        ({**TIME, "units": "hours since 2000-01-01", "calendar": "gregorian"}, 24.0, 0.0),
        ({**TIME, "units": "days since 1999-12-01"}, 1.0, 31.0),
    ],
    "lat": [(LATITUDE, 1.0, 0.0), ({**LATITUDE, "units": "radian"}, np.pi / 180, 0.0)],
    "lon": [(LONGITUDE, 1.0, 0.0)],
}


@dataclass(frozen=True)
class Whole:
    """An array with coordinates along its dimensions, some with bounds, and a coordinate of two dimensions."""

    values: npt.NDArray[Any]
    bounds: tuple[bool, ...]
    plane: bool

    def part(
        self, index: tuple[npt.NDArray[np.int64], ...], forms: tuple[int, ...], down: tuple[bool, ...]
    ) -> Described:
        """Return the description of some of the array, in other units and directions, with the values that it has."""
        root = Group()
        index = tuple(i[::-1] if turned else i for i, turned in zip(index, down, strict=True))
        for name, own, bounds, form in zip(NAMES, index, self.bounds, forms, strict=False):
            attributes, scale, offset = FORMS[name][form % len(FORMS[name])]
            at = (own * 1.5 + 0.25) * scale + offset
            more = {"bounds": f"{name}_bnds"} if bounds else {}
            add(root, name, (name,), at, **attributes, **more)
            if bounds:
                cells = np.stack([at - 0.75 * scale, at + 0.75 * scale], axis=1)
                add(root, f"{name}_bnds", (name, "bnds"), cells)
        dims = NAMES[: self.values.ndim]
        named = {}
        if self.plane:
            plane = np.add.outer(index[-2] * 10.0, index[-1] * 0.1)
            add(root, "height", dims[-2:], plane, standard_name="surface_altitude", units="m")
            named = {"coordinates": "height"}
        add(root, "tas", dims, self.values[np.ix_(*index)], **TAS, **named)
        return described(root)


def reassembled(boxes: Boxes, parts: list[npt.NDArray[Any]]) -> npt.NDArray[Any]:
    """Return the array that parts make where boxes say that they stand."""
    out = np.full(boxes.extent[0], -1)
    for k, part in enumerate(parts):
        if boxes.dropped[k]:
            continue
        where = []
        for axis in range(out.ndim):
            if (k, axis) in boxes.scattered:
                place = boxes.scattered[k, axis]
            else:
                start, count = boxes.start[k, axis], boxes.count[k, axis]
                place = np.full(part.shape[axis], -1)
                used = np.arange(part.shape[axis])[boxes.trimmed.get((k, axis), slice(None))]
                order = used[::-1] if boxes.flipped[k, axis] else used
                place[order] = np.arange(start, start + count)
            where.append(place)
        chosen = [np.flatnonzero(place >= 0) for place in where]
        target = np.ix_(*(place[c] for place, c in zip(where, chosen, strict=True)))
        assert (out[target] == -1).all()
        out[target] = part[np.ix_(*chosen)]
    return out[tuple(slice(None, None, -1 if d else 1) for d in boxes.descending[0])]


@st.composite
def shapes(draw: st.DrawFn, dims: int) -> tuple[int, ...]:
    return tuple(draw(st.integers(2, 6)) for _ in range(dims))


def halves(draw: st.DrawFn, ranges: Ranges, depth: int) -> list[Ranges]:
    """Cut a box in two along one axis, and the halves in other ways."""
    able = [a for a, (low, high) in enumerate(ranges) if high - low > 1]
    if not depth or not able or not draw(st.integers(0, 3)):
        return [ranges]
    axis = draw(st.sampled_from(able))
    low, high = ranges[axis]
    at = draw(st.integers(low + 1, high - 1))
    both = [(*ranges[:axis], r, *ranges[axis + 1 :]) for r in ((low, at), (at, high))]
    return [part for half in both for part in halves(draw, half, depth - 1)]


def pinwheel(shape: tuple[int, ...]) -> list[Ranges]:
    """Five boxes that no cut takes apart, along the last two dimensions."""
    (n, m), rest = shape[-2:], tuple((0, k) for k in shape[:-2])
    r, c = (1, n - 1), (1, m - 1)
    parts = [((0, r[0]), (0, c[1])), ((0, r[1]), (c[1], m)), ((r[1], n), (c[0], m)), ((r[0], n), (0, c[0])), (r, c)]
    return [(*rest, *part) for part in parts]


@st.composite
def cut(draw: st.DrawFn, dims: int) -> tuple[Whole, list[Ranges]]:
    """Return an array and how it is cut: by halves again and again, a grid, or a pinwheel."""
    shape = draw(shapes(dims))
    whole = Whole(
        np.arange(np.prod(shape)).reshape(shape),
        tuple(draw(st.booleans()) for _ in range(dims)),
        dims > 1 and draw(st.booleans()),
    )
    way = draw(st.sampled_from(["halves", "grid", "pinwheel"]))
    if way == "pinwheel" and dims > 1 and min(shape[-2:]) > 2:
        return whole, pinwheel(shape)
    if way == "grid":
        edges = [sorted({0, n, *draw(st.lists(st.integers(0, n), max_size=2))}) for n in shape]
        parts: list[Ranges] = [()]
        for e in edges:
            parts = [(*p, r) for p in parts for r in pairwise(e)]
        return whole, parts
    return whole, halves(draw, tuple((0, n) for n in shape), 4)


def described_in_any_way(draw: Any, whole: Whole, parts: list[Any]) -> tuple[list[Described], list[npt.NDArray[Any]]]:
    made, values = [], []
    for index in parts:
        forms = tuple(draw(st.integers(0, 2)) for _ in index)
        down = tuple(draw(st.booleans()) for _ in index)
        made.append(whole.part(index, forms, down))
        values.append(whole.values[np.ix_(*(i[::-1] if d else i for i, d in zip(index, down, strict=True)))])
    return made, values


def check(members: Members, boxes: Boxes, values: list[npt.NDArray[Any]], whole: Whole) -> None:
    assert len(boxes) == 1
    out = reassembled(boxes, values)
    # All have the size 1 along a dimension only where the array has.
    names = [axis.name for axis in members.axes]
    assert names == ["time", "latitude", "longitude"][: out.ndim]
    np.testing.assert_array_equal(out, whole.values)


@given(st.data(), st.integers(1, 3))
@settings(max_examples=examples(150))
def test_an_array_that_was_cut_in_any_way_is_one_again(data: st.DataObject, dims: int) -> None:
    whole, cuts = data.draw(cut(dims))
    cuts = data.draw(st.permutations(cuts))
    parts = [tuple(np.arange(*r) for r in ranges) for ranges in cuts]
    made, values = described_in_any_way(data.draw, whole, parts)
    check(*boxes_of(*made), values, whole)


@given(st.data(), st.integers(1, 3))
@settings(max_examples=examples(100))
def test_an_array_of_interleaved_parts_is_one_again(data: st.DataObject, dims: int) -> None:
    whole, _ = data.draw(cut(dims))
    owner = data.draw(st.lists(st.integers(0, 2), min_size=whole.values.shape[0], max_size=whole.values.shape[0]))
    rest = tuple(np.arange(n) for n in whole.values.shape[1:])
    parts = [(np.flatnonzero(np.array(owner) == k), *rest) for k in dict.fromkeys(owner)]
    made, values = described_in_any_way(data.draw, whole, parts)
    options = Options(interleave=True)
    check(*boxes_of(*made, options=options), values, whole)


@given(st.data(), st.sampled_from(["first", "last"]))
@settings(max_examples=examples(100))
def test_of_parts_that_overlap_the_first_or_the_last_gives_the_values(data: st.DataObject, choice: str) -> None:
    n = data.draw(st.integers(2, 9))
    whole = Whole(np.arange(n * 2).reshape(n, 2), (data.draw(st.booleans()), False), plane=False)
    ranges = data.draw(st.lists(st.tuples(st.integers(0, n - 1), st.integers(1, n)), min_size=2, max_size=5))
    parts = [(np.arange(a, min(a + k, n)), np.arange(2)) for a, k in ranges]
    there = np.unique(np.concatenate([p[0] for p in parts]))
    assume(len({p[0].tobytes() for p in parts}) > 1)
    made, values = described_in_any_way(data.draw, whole, parts)
    marked = [v + 1000 * (k + 1) for k, v in enumerate(values)]
    options = Options(on_overlap=choice)  # type: ignore[arg-type]
    _, boxes = boxes_of(*made, options=options)
    expected = np.full((n, 2), -1)
    for k in range(len(parts)) if choice == "last" else reversed(range(len(parts))):
        expected[np.ix_(*parts[k])] = whole.values[np.ix_(*parts[k])] + 1000 * (k + 1)
    apart = Options()
    shared = sum(len(p[0]) for p in parts) > there.size
    if shared or len(boxes) == 1:
        assert len(boxes) == 1
        np.testing.assert_array_equal(reassembled(boxes, marked), expected[there])
    if shared:
        assert len(boxes_of(*made, options=apart)[1]) == len(parts)


@given(st.data())
@settings(max_examples=examples(60))
def test_parts_that_leave_a_hole_are_no_single_array(data: st.DataObject) -> None:
    whole, cuts = data.draw(cut(2))
    assume(len(cuts) > 3)
    gone = data.draw(st.integers(0, len(cuts) - 1))
    parts = [tuple(np.arange(*r) for r in ranges) for k, ranges in enumerate(cuts) if k != gone]
    made, _ = described_in_any_way(data.draw, whole, parts)
    _, boxes = boxes_of(*made)
    for box in range(len(boxes)):
        own = np.flatnonzero(boxes.box == box)
        assert boxes.count[own].prod(axis=1).sum() == boxes.extent[box].prod()


@given(st.data())
@settings(max_examples=examples(60))
def test_parts_of_which_some_overlap_never_fill_a_place_twice(data: st.DataObject) -> None:
    whole, cuts = data.draw(cut(2))
    more = []
    for _ in range(data.draw(st.integers(1, 2))):
        ends = [
            sorted((data.draw(st.integers(0, n - 1)), data.draw(st.integers(0, n - 1)))) for n in whole.values.shape
        ]
        more.append(tuple((low, high + 1) for low, high in ends))
    parts = [tuple(np.arange(*r) for r in ranges) for ranges in data.draw(st.permutations([*cuts, *more]))]
    made, _ = described_in_any_way(data.draw, whole, parts)
    _, boxes = boxes_of(*made)
    for box in range(len(boxes)):
        own = np.flatnonzero(boxes.box == box)
        assert boxes.count[own].prod(axis=1).sum() == boxes.extent[box].prod()


def test_five_that_fill_a_square_and_one_more_in_it_are_no_array() -> None:
    whole = Whole(np.arange(9).reshape(3, 3), (False, False), plane=False)
    inside: Ranges = ((0, 2), (1, 3))
    parts = [tuple(np.arange(*r) for r in ranges) for ranges in [*pinwheel((3, 3)), inside]]
    made = [whole.part(p, (0, 0), (False, False)) for p in parts]
    assert len(boxes_of(*made[:5])[1]) == 1
    assert len(boxes_of(*made)[1]) > 1


def test_a_coordinate_of_two_dimensions_that_differs_at_one_time_keeps_parts_apart() -> None:
    cuts = [((0, 1), (0, 1)), ((0, 1), (1, 3)), ((1, 2), (0, 2)), ((1, 2), (2, 3)), ((2, 3), (0, 1)), ((2, 3), (1, 3))]

    def made(odd: int) -> list[Described]:
        out = []
        for k, (time, lat) in enumerate(cuts):
            root = Group()
            add(root, "time", ("time",), np.arange(*time) * 1.0, **TIME)
            add(root, "lat", ("lat",), np.arange(*lat) * 1.0, **LATITUDE)
            add(root, "lon", ("lon",), [0.0, 1.0], **LONGITUDE)
            plane = np.add.outer(np.arange(*lat) * 10.0, [0.0, 1.0]) + (k == odd)
            add(root, "height", ("lat", "lon"), plane, standard_name="surface_altitude", units="m")
            sizes = [root.dimensions[d].size for d in NAMES]
            add(root, "tas", NAMES, np.zeros(sizes, "f4"), **TAS, coordinates="height")
            out.append(described(root))
        return out

    assert boxes_of(*made(-1))[1].extent.tolist() == [[3, 3, 2]]
    for odd in range(len(cuts)):
        boxes = boxes_of(*made(odd))[1]
        assert len(boxes) > 1
        # The part with other heights is with those of its own time alone.
        with_it = np.flatnonzero(boxes.box == boxes.box[odd])
        assert {cuts[k][0] for k in with_it.tolist()} == {cuts[odd][0]}


def test_parts_are_not_joined_around_others_that_then_would_stand_in_a_hole() -> None:
    whole = Whole(np.arange(64).reshape(4, 4, 4), (False, False, False), plane=True)
    cuts: list[Ranges] = [
        *(((0, 4), (0, 1), (0, 4)), ((0, 2), (1, 2), (0, 4)), ((2, 3), (1, 2), (0, 4)), ((3, 4), (1, 2), (0, 3))),
        *(((3, 4), (1, 2), (3, 4)), ((0, 2), (2, 3), (0, 3)), ((2, 4), (2, 3), (0, 3)), ((0, 4), (2, 3), (3, 4))),
        *(((0, 1), (3, 4), (0, 4)), ((1, 2), (3, 4), (0, 4)), ((2, 3), (3, 4), (0, 4)), ((3, 4), (3, 4), (0, 4))),
    ]
    parts = [tuple(np.arange(*r) for r in ranges) for ranges in cuts]
    made = [whole.part(p, (0, 0, 0), (False, False, False)) for p in parts]
    check(*boxes_of(*made), [whole.values[np.ix_(*p)] for p in parts], whole)
