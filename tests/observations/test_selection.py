"""Selections: variables and areas."""

from __future__ import annotations

import numpy as np
import pytest

from cfagg.errors import OptionError
from cfagg.observations.selection import Area, Columns, parse_area

ALL = Columns.all_of(["t", "u", "v", "w"])


@pytest.mark.parametrize(
    ("options", "names"),
    [
        ({}, "tuvw"),
        ({"select": "v"}, "v"),
        ({"select": ["v", "t"]}, "vt"),
        ({"select": {"v", "t"}}, "tv"),
        ({"drop": "u"}, "tvw"),
        ({"drop": {"u", "t"}}, "vw"),
        ({"select": ["w", "v", "t"], "drop": ["v"]}, "wt"),
        ({"reorder": ["w", "v", "u", "t"]}, "wvut"),
        ({"reorder": {"w": 0, "t": 1, "v": 3, "u": 2}}, "wtuv"),
        ({"select": ["w", "t"], "reorder": "sort"}, "tw"),
    ],
)
def test_variables_are_selected_dropped_and_reordered_in_this_order(options, names) -> None:
    assert ALL.choose(**options).names == tuple(names)


def test_renaming_keeps_the_stored_names() -> None:
    columns = ALL.choose(select=["u", "t"], rename={"t": "u", "u": "t"})
    assert (columns.names, columns.stored) == (("t", "u"), ("u", "t"))
    assert columns.positions(["t", "u", "v", "w"]).tolist() == [1, 0]


def test_choosing_again_goes_by_the_new_names() -> None:
    columns = ALL.choose(rename={"t": "temperature"}).choose(select="temperature")
    assert (columns.names, columns.stored) == (("temperature",), ("t",))


def test_all_unknown_names_are_told_at_once_with_what_may_be_meant() -> None:
    with pytest.raises(OptionError, match="temprature") as caught:
        Columns.all_of(["temperature", "u"]).choose(select=["temprature", "u", "x"])
    assert [str(p) for p in caught.value.problems] == [
        "select: there is no variable 'temprature'; did you mean temperature?",
        "select: there is no variable 'x'",
    ]


@pytest.mark.parametrize(
    "options",
    [
        {"select": ["t", "t"]},
        {"select": []},
        {"select": 3},
        {"select": {"t": 1}},
        {"drop": list("tuvw")},
        {"drop": "x"},
        {"reorder": ["t", "u"]},
        {"reorder": {"t": 0, "u": 0, "v": 1, "w": 2}},
        {"reorder": "t"},
        {"rename": {"x": "y"}},
        {"rename": {"t": "u"}},
        {"rename": {"t": ""}},
        {"rename": {"t": 3}},
        {"rename": ["t"]},
    ],
)
def test_choices_that_cannot_be_honoured_raise(options) -> None:
    with pytest.raises(OptionError):
        ALL.choose(**options)


# ---- area ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("area", "longitudes", "inside"),
    [
        ((90, 10, -90, 20), [9, 10, 15, 20, 21], [0, 1, 1, 1, 0]),
        ((90, -10, -90, 10), [349, 350, 0, 10, 11], [0, 1, 1, 1, 0]),
        ((90, 350, -90, 10), [349, 350, 0, 10, 11], [0, 1, 1, 1, 0]),
        ((90, 170, -90, -170), [169, 170, 180, 190, 191], [0, 1, 1, 1, 0]),
        ((90, -180, -90, 180), [0, 90, 180, 270, 359], [1, 1, 1, 1, 1]),
        ((90, 0, -90, 360), [0, 90, 180, 270, 359], [1, 1, 1, 1, 1]),
        ((90, 180, -90, -180), [0, 90, 180, 270, 359], [1, 1, 1, 1, 1]),
        ((90, 10, -90, 10), [9, 10, 11, 0, 180], [0, 1, 0, 0, 0]),
        ((90, 0, -90, 180), [0, 90, 180, 181, 359], [1, 1, 1, 0, 0]),
        ((90, -1e-9, -90, 10), [0, 5, 10, 11, 359], [1, 1, 1, 0, 0]),
        ((90, 0, -90, 360 - 1e-9), [0, 90, 180, 270, 359], [1, 1, 1, 1, 1]),
        ((90, 10, -90, 10 - 1e-9), [0, 90, 180, 270, 359], [1, 1, 1, 1, 1]),
        # Stores of other software may have longitudes that are not from 0 to 360.
        ((90, -10, -90, 10), [-11, -10, 360, 370, 371], [0, 1, 1, 1, 0]),
    ],
)
def test_an_area_reaches_eastwards_from_west_to_east_over_any_meridian(area, longitudes, inside) -> None:
    mask = parse_area(area).mask(np.zeros(5, "f4"), np.array(longitudes, "f4"))
    assert mask.tolist() == [bool(i) for i in inside]


def test_an_observation_on_a_bound_is_inside_though_single_precision_rounds_it() -> None:
    bounds = (50.1, 10.1, 40.1, 20.1)
    corners = np.array([50.1, 40.1], "f4"), np.array([10.1, 20.1], "f4")
    assert parse_area(bounds).mask(*corners).all()


def test_places_that_are_missing_are_in_no_area() -> None:
    nan = np.array([np.nan, 0, np.nan], "f4")
    assert not parse_area((90, -180, -90, 180)).mask(nan, nan[[1, 0, 2]]).any()


@pytest.mark.parametrize(
    "area",
    [(1, 2, 3), (40, 0, 50, 10), (91, 0, 0, 1), (1, 0, 0, np.nan), "Europe", 3, {"north": 1}, (10, 400, 0, 10),
     ("a", 1, 2, 3)],
)  # fmt: skip
def test_what_is_no_area_raises(area) -> None:
    with pytest.raises(OptionError):
        parse_area(area)


def test_an_area_may_name_its_bounds() -> None:
    assert parse_area({"north": 60, "west": -10, "south": 40, "east": 10}) == Area(60, -10, 40, 10)


@pytest.mark.parametrize("bounds", [(60, -10, 40, 350), (60, -0.5, 40, 359.5), (60, 350, 40, 10), (60, 170, 40, -170)])
def test_areas_in_one_convention_or_of_a_whole_turn_are_taken(bounds):
    assert parse_area(bounds) is not None


@pytest.mark.parametrize("bounds", [(60, -10, 40, 200), (60, 350, 40, -5), (60, 190, 40, -170)])
def test_an_area_with_longitudes_of_two_conventions_is_refused(bounds):
    with pytest.raises(ValueError, match=r"two conventions.*write both from -180 to 180, or both from 0 to 360"):
        parse_area(bounds)
