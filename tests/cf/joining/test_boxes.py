"""Joining members into boxes, against products enumerated by itertools."""

from __future__ import annotations

from itertools import combinations, pairwise, product
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cfagg.cf.joining import Axis, Boxes, Members, Options, Part, Points, codes, join, why, with_samples
from cfagg.errors import ModelError, OptionError
from tests.effort import examples


def members(cells: list[tuple[int, ...]], groups: list[int] | None = None, axes: int | None = None) -> Members:
    """Return members with one coordinate along each axis."""
    columns = np.array(cells, np.int64).reshape(len(cells), axes or len(cells[0])).T
    names = ("time", "level", "realization")
    return Members(
        {"name": np.array(groups or [0] * len(cells))},
        [Axis.of_points(n, c, c * 10.0) for n, c in zip(names, columns, strict=False)],
    )


def is_sound(made: Members, boxes: Boxes) -> bool:
    """Whether every box is the product of what it has along each axis, each cell once."""
    for box in range(len(boxes)):
        own = np.flatnonzero(boxes.box == box)
        places = {tuple(p) for p in boxes.position[own].tolist()}
        if places != set(product(*map(range, boxes.shape[box]))) or len(places) != len(own):
            return False
        if len({made.signature["name"][i] for i in own}) != 1:
            return False
        for a, axis in enumerate(made.axes):
            at = {int(p): axis.first[i] for p, i in zip(boxes.position[own, a], own, strict=True)}
            if any(at[p] != axis.first[i] for p, i in zip(boxes.position[own, a], own, strict=True)):
                return False
            if list(at.values()) and [at[p] for p in sorted(at)] != sorted(at.values()):
                return False
    return True


def test_members_along_several_axes_become_one_box() -> None:
    made = members(list(product(range(3), range(4), range(2))))
    boxes = join(made)
    assert boxes.shape.tolist() == [[3, 4, 2]]
    assert is_sound(made, boxes)


def test_the_order_of_members_does_not_matter() -> None:
    cells = list(product(range(3), range(4)))
    made = members(cells[::-1])
    boxes = join(made)
    assert boxes.position.tolist() == [list(c) for c in cells[::-1]]


def test_boxes_are_numbered_by_their_first_members() -> None:
    assert join(members([(1, 0), (1, 0), (0, 0)], [5, 3, 5])).box.tolist() == [0, 1, 0]


def test_a_ragged_set_is_split_into_the_fewest_boxes() -> None:
    # Joined along levels first these are three boxes; along times first, level 0 would be a fourth.
    cells = [(t, z) for t in range(3) for z in (0, t + 1)]
    made = members(cells)
    boxes = join(made)
    assert boxes.shape.tolist() == [[1, 2]] * 3
    assert is_sound(made, boxes)
    turned = members([(z, t) for t, z in cells])
    assert join(turned).shape.tolist() == [[2, 1]] * 3


def test_the_order_of_axes_is_chosen_for_each_group_on_its_own() -> None:
    cells = [(t, z) for t in range(3) for z in (0, t + 1)]
    made = members(cells + [(z, t) for t, z in cells], [0] * 6 + [1] * 6)
    assert join(made).shape.tolist() == [[1, 2]] * 3 + [[2, 1]] * 3


def test_equal_members_stay_apart_each_with_its_like() -> None:
    made = members([(0, 0), (1, 0), (0, 0), (1, 0), (2, 0)])
    boxes = join(made)
    assert boxes.box.tolist() == [0, 0, 1, 1, 0]
    assert why(made, boxes, 0, 2).rule == "equal"  # type: ignore[union-attr]


def test_members_of_other_signatures_stay_apart() -> None:
    made = members([(0, 0), (1, 0)], [4, 7])
    boxes = join(made)
    reason = why(made, boxes, 0, 1)
    assert len(boxes) == 2
    assert reason is not None
    remedy = "give both the same name"
    assert reason.as_dict() == {"rule": "signature", "what": "name", "a": 4, "b": 7, "remedy": remedy}
    assert str(reason) == "they differ in name: 4 and 7"


def test_ranges_that_overlap_are_not_joined_and_others_are() -> None:
    code = np.arange(5)
    first, last = np.array([0.0, 10, 0, 5, 20]), np.array([9.0, 19, 9, 15, 30])
    made = Members({"name": np.array([0, 0, 1, 1, 1])}, [Axis("time", code, first, last)])
    boxes = join(made)
    assert boxes.box.tolist() == [0, 0, 1, 2, 3]
    reason = why(made, boxes, 2, 3)
    assert reason is not None
    assert (reason.rule, reason.what, reason.a, reason.b) == ("overlap", "time", (0.0, 9.0), (5.0, 15.0))


def test_others_that_overlap_are_what_keeps_neighbours_apart() -> None:
    first, last = np.array([0.0, 10, 20, 25]), np.array([9.0, 19, 29, 35])
    made = Members({}, [Axis("time", np.arange(4), first, last)])
    reason = why(made, join(made), 0, 1)
    assert reason is not None
    assert (reason.rule, reason.others, reason.a, reason.b) == ("crowded", (2, 3), (20.0, 29.0), (25.0, 35.0))


def test_ranges_that_touch_in_one_coordinate_overlap() -> None:
    made = Members({}, [Axis("time", np.arange(2), np.array([0, 9]), np.array([9, 12]))])
    assert len(join(made)) == 2


def test_reasons_name_the_axes_in_which_members_differ() -> None:
    made = members([(0, 0), (1, 1)])
    reason = why(made, join(made), 0, 1)
    assert reason is not None
    assert (reason.rule, reason.what, reason.a, reason.b) == ("axes", "time, level", [0.0, 0.0], [10.0, 10.0])


def test_what_would_leave_missing_parts_is_said_to() -> None:
    made = members([(0, 0), (0, 1), (0, 2), (1, 0)])
    boxes = join(made)
    assert boxes.box.tolist() == [0, 1, 1, 0]
    reason = why(made, boxes, 0, 1)
    assert reason is not None
    assert (reason.rule, reason.what, reason.a, reason.b) == ("incomplete", "level", (0.0, 0.0), (10.0, 10.0))
    assert why(made, boxes, 0, 3) is None


def test_no_members_are_no_boxes() -> None:
    assert len(join(members([], [], 2))) == 0


def test_columns_of_different_lengths_are_refused() -> None:
    with pytest.raises(ModelError, match=r"name \(2,\), axis time \(1,\)"):
        Members({"name": np.zeros(2)}, [Axis.of_points("time", np.zeros(1, np.int64), np.zeros(1))])
    with pytest.raises(ModelError, match="none at all"):
        Members({}, [])


@settings(max_examples=examples(100))
@given(st.lists(st.tuples(*[st.integers(0, 3)] * 3), min_size=1, max_size=40))
def test_boxes_are_products_of_all_their_axes(cells: list[tuple[int, int, int]]) -> None:
    made = members(cells, [c[0] % 2 for c in cells])
    assert is_sound(made, join(made))


@settings(max_examples=examples(100))
@given(st.sets(st.tuples(st.integers(0, 2), st.integers(0, 3)), min_size=1))
def test_no_two_boxes_differ_along_one_axis_alone(cells: set[tuple[int, int]]) -> None:
    """What could still be joined is: two boxes with the same levels and times that do not overlap, or the reverse."""
    made = members(sorted(cells))
    boxes = join(made)
    sides = [[set(axis.code[boxes.box == b].tolist()) for axis in made.axes] for b in range(len(boxes))]
    for one, other in combinations(sides, 2):
        for axis in range(2):
            a, b = one[axis], other[axis]
            apart = max(a) < min(b) or max(b) < min(a)
            assert not (apart and one[1 - axis] == other[1 - axis])


def test_parts_along_joined_axes_are_compared_as_a_whole() -> None:
    time, level = np.array([0, 1, 0, 1]), np.array([0, 0, 1, 1])
    axes = [Axis.of_points("time", time, time), Axis.of_points("level", level, level)]
    for last, expected in ((2, [[2, 2]]), (3, [[2, 1], [2, 1]])):
        part = Part(np.array([1, 2, 1, last]), frozenset({"time"}))
        assert join(Members({"name": np.zeros(4)}, axes, {"orography": part})).shape.tolist() == expected


def test_forty_thousand_members_need_no_object_each() -> None:
    t, z, v = (i.ravel() for i in np.meshgrid(np.arange(100), np.arange(42), np.arange(10), indexing="ij"))
    made = Members({"name": v}, [Axis.of_points("time", t, t), Axis.of_points("level", z, z)])
    assert join(made).shape.tolist() == [[100, 42]] * 10


def test_many_axes_are_joined_in_some_of_all_orders() -> None:
    columns = np.array(list(product(range(2), repeat=6))).T
    axes = [Axis.of_points(str(a), c, c) for a, c in enumerate(columns)]
    assert join(Members({}, axes)).shape.tolist() == [[2] * 6]
    ragged = [Axis.of_points(axis.name, axis.code[1:], axis.first[1:]) for axis in axes]
    boxes = join(Members({}, ragged))
    assert sorted(np.prod(boxes.shape, axis=1).tolist()) == [1, 2, 4, 8, 16, 32]


def of_cells(cells: list[tuple[float, float]], points: list[float] | None = None) -> Members:
    """Return members of one point each, with the bounds of their cells."""
    low, high = np.array(cells, float).T
    at = np.arange(len(cells)) if points is None else np.array(points)
    return Members({"name": np.zeros(len(cells))}, [Axis("time", np.arange(len(cells)), at, at, low, high)])


@st.composite
def in_order(draw: st.DrawFn) -> list[tuple[float, float]]:
    """Return cells of points in order, with gaps, common bounds and overlaps, some without bounds."""
    found = []
    for k in range(draw(st.integers(2, 6))):
        low = draw(st.sampled_from([k - 1, k - 0.5, k - 0.25, np.nan]))
        found.append((float(low), float(low + draw(st.sampled_from([0.75, 1.0, 1.25])))))
    return found


@given(in_order(), st.booleans(), st.booleans(), st.randoms())
@settings(max_examples=examples(400))
def test_neighbours_are_joined_if_their_cells_are_as_the_options_say(cells, overlap, contiguous, random) -> None:
    gaps = [b[0] - a[1] for a, b in pairwise(cells)]
    wrong = any((not overlap and g < 0) or (contiguous and not g <= 0) for g in gaps)
    order = random.sample(range(len(cells)), len(cells))
    made = of_cells([cells[k] for k in order], [float(k) for k in order])
    options = Options(overlap=overlap, contiguous=contiguous)
    boxes = join(made, options)
    assert len(boxes) == (len(cells) if wrong else 1)
    assert wrong or boxes.position[:, 0].tolist() == order
    for a, b in combinations(range(len(cells)), 2):
        reason = why(made, boxes, a, b, options)
        if not wrong:
            assert reason is None
        elif abs(order[a] - order[b]) == 1:
            gap = gaps[min(order[a], order[b])]
            expected = "cells overlap" if not overlap and gap < 0 else "gap" if contiguous and not gap <= 0 else None
            assert reason is not None
            assert reason.rule == (expected or "incomplete")


@given(st.integers(2, 4), st.integers(2, 4), st.booleans())
@settings(max_examples=examples(30))
def test_cells_along_one_axis_do_not_matter_along_another(times: int, levels: int, whole: bool) -> None:
    t, z = (c.ravel() for c in np.meshgrid(np.arange(times), np.arange(levels), indexing="ij"))
    low = t + (0.0 if whole else 0.5 * (t == times - 1))
    axes = [Axis("time", t, t, t, low, t + 1.0), Axis("level", z, z, z, z * 2.0, z * 2 + 2.0)]
    boxes = join(Members({"name": np.zeros(t.size)}, axes), Options(contiguous=True))
    assert boxes.shape.tolist() == ([[times, levels]] if whole else [[1, levels]] * times)


def test_bounds_that_differ_in_the_last_place_are_common() -> None:
    third = np.array([0.1 + 0.2, 0.3])
    made = of_cells([(0.0, third[0]), (third[1], 1.0)])
    for options in (Options(contiguous=True), Options(overlap=False)):
        assert len(join(made, options)) == 1
        assert len(join(made, Options(contiguous=True, overlap=False, rtol=0))) == 2


def test_without_bounds_nothing_is_contiguous() -> None:
    made = members([(0,), (1,)])
    assert len(join(made, Options(contiguous=True))) == 2
    assert len(join(made, Options(overlap=False))) == 1
    found = why(made, join(made, Options(contiguous=True)), 0, 1, Options(contiguous=True))
    assert "or they have no bounds" in str(found)


def of_sets(sets: list[set[int]]) -> Members:
    """Return members of several points each."""
    first, last = (np.array([f(s) for s in sets], float) for f in (min, max))
    distinct = [sorted(s) for s in dict.fromkeys(map(frozenset, sets))]
    flat = np.array([p for s in distinct for p in s], np.int64)
    points = Points(np.cumsum([0, *map(len, distinct)]), flat, flat, np.zeros(len(distinct), bool))
    return Members({"name": np.zeros(len(sets))}, [Axis("time", rank(sets), first, last, points=points)])


def rank(sets: list[set[int]]) -> np.ndarray[Any, Any]:
    known: dict[frozenset[int], int] = {}
    return np.array([known.setdefault(frozenset(s), len(known)) for s in sets])


@given(st.lists(st.sets(st.integers(0, 12), min_size=1, max_size=4), min_size=2, max_size=5))
@settings(max_examples=examples(400))
def test_coordinates_are_interleaved_where_none_is_in_two_of_them(sets: list[set[int]]) -> None:
    made = of_sets(sets)
    equal = [sets.index(s) for s in sets]
    shared = any(a & b for (i, a), (j, b) in combinations(enumerate(sets), 2) if equal[i] != equal[j])
    if len(set(equal)) < len(sets):
        return  # equal ones stay apart, each with its like
    options = Options(interleave=True)
    boxes = join(made, options)
    assert len(boxes) == (len(sets) if shared else 1)
    for a, b in combinations(range(len(sets)), 2) if shared else ():
        found = why(made, boxes, a, b, options)
        assert found is not None
        assert found.rule == ("overlap" if sets[a] & sets[b] else "incomplete")
    ranges = sorted((min(s), max(s)) for s in sets)
    apart = all(a[1] < b[0] for a, b in pairwise(ranges))
    assert len(join(made)) == (1 if apart else len(sets))


def test_interleaved_members_are_joined_along_several_axes() -> None:
    sets = [{0, 2, 4}, {1, 3}, {5, 6}]
    time, level = (c.ravel() for c in np.meshgrid(range(3), range(2), indexing="ij"))
    one = of_sets([sets[k] for k in time]).axes[0]
    made = Members({"name": np.zeros(6)}, [one, Axis.of_points("level", level, level * 1.0)])
    boxes = join(made, Options(interleave=True))
    assert boxes.shape.tolist() == [[3, 2]]
    assert boxes.position.tolist() == [[int(t), int(z)] for t, z in zip(time, level, strict=True)]
    assert len(join(made)) == 3


def test_interleaved_coordinates_within_the_tolerance_are_shared() -> None:
    close = 0.1 + 0.2
    axis = Axis("time", np.arange(2), np.array([0.0, close]), np.array([0.3, 1.0]))
    made = Members({"name": np.zeros(2)}, [axis])
    assert len(join(made, Options(interleave=True))) == 2
    assert len(join(made, Options(interleave=True, rtol=0))) == 1


def test_interleaved_parts_have_no_neighbours() -> None:
    for other in ({"contiguous": True}, {"overlap": False}):
        with pytest.raises(OptionError, match="interleave=True joins parts that interlock"):
            Options(interleave=True, **other)


@given(st.data(), st.integers(1, 30), st.lists(st.sampled_from(["i1", "u1", "i8", "u8", "f8"]), min_size=1, max_size=3))
@settings(max_examples=examples(200))
def test_codes_are_the_ranks_of_rows(data: st.DataObject, count: int, types: list[str]) -> None:
    columns = []
    for kind in types:
        some: list[Any] = [-0.5, 0.0, 1e300, float("inf")]
        if kind != "f8":
            least, most = int(np.iinfo(kind).min), int(np.iinfo(kind).max)
            some = [least, least + 1, most - 1, most]
        columns.append(np.array(data.draw(st.lists(st.sampled_from(some), min_size=count, max_size=count)), kind))
    rows = list(zip(*(c.tolist() for c in columns), strict=True))
    rank = {row: k for k, row in enumerate(sorted(set(rows)))}
    assert codes(*columns).tolist() == [rank[row] for row in rows]


def test_a_coordinate_with_one_value_twice_is_joined_with_those_behind_it() -> None:
    twice = Points(np.array([0, 3, 5]), np.array([0, 1, 2, 3, 4]), np.array([0, 1, 1, 2, 2]), np.zeros(2, bool))
    axis = Axis("time", np.array([0, 1]), np.array([0.0, 2.0]), np.array([1.0, 2.0]), points=twice)
    boxes = join(Members({"name": np.zeros(2)}, [axis]))
    assert (boxes.extent.tolist(), boxes.start.tolist(), boxes.count.tolist()) == ([[5]], [[0], [3]], [[3], [2]])


@pytest.mark.parametrize(
    ("features", "apart"),
    [([[1, 2], [3, 4]], []), ([[1, 2], [4, 3]], [0, 1]), ([[1, 3, 2], [4, 5]], [0, 1])],
    ids=["in order", "the other way", "mixed"],
)
def test_ranges_do_not_follow_features_that_members_have_in_another_order(
    features: list[list[int]], apart: list[int]
) -> None:
    flat, sizes = np.concatenate(features), [len(own) for own in features]
    points = Points(np.cumsum([0, *sizes]), flat, flat, np.zeros(len(features), bool))
    ends = np.array([[min(own), max(own)] for own in features])
    made = Members({}, [Axis("feature", np.arange(len(features)), *ends.T, points=points)])
    name = "samples within feature"
    described: Any = [
        SimpleNamespace(
            axes={
                "feature": SimpleNamespace(within="", values=range(n)),
                name: SimpleNamespace(within="feature", values=range(2 * n)),
            },
            parts={f"count of {name}": SimpleNamespace(values=np.full(n, 2))},
        )
        for n in sizes
    ]
    grown, boxes, found = with_samples(described, made, join(made))
    assert boxes.box.tolist() == [0, 0]
    assert found.tolist() == apart
    if not apart:
        assert [axis.name for axis in grown.axes] == ["feature", name]
        assert boxes.start[:, 1].tolist() == [0, 4]
