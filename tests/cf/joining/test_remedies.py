"""What reasons say would join two variables does join them."""

from __future__ import annotations

import re
from typing import Any, get_args

import numpy as np
import pytest

from cfagg.cf.joining import Described, Options
from cfagg.cf.joining.reasons import Rule
from cfagg.cf.joining.remedies import remedy_of
from cfagg.model.dataset import Group
from tests.cf.joining.datasets import TAS, TIME, add, boxes_of, described, reason
from tests.cf.joining.test_options import tas

CELLS = {"bounds": [[0.0, 2.0]]}


def named(text: str) -> dict[str, Any]:
    """Return the first option that a remedy names, with its value."""
    found = re.search(r"(\w+)=(True|'\w+')", text)
    assert found is not None, text
    return {found[1]: found[2] == "True" or found[2].strip("'")}


@pytest.mark.parametrize(
    ("first", "second", "rule"),
    [
        ({}, {}, "equal"),
        ({"times": [0.0, 2.0]}, {"times": [1.0, 3.0]}, "overlap"),
        ({"times": [0.0, 1.0]}, {"times": [1.0, 2.0]}, "overlap"),
        ({"times": [0.0, 1.0, 2.0]}, {"times": [1.0]}, "overlap"),
        ({"standard_name": "", "long_name": "x"}, {"times": [1.0], "standard_name": "", "long_name": "x"}, "problem"),
        ({"units": None}, {"times": [1.0], "units": None}, "problem"),
        ({"realization_index": 1}, {"realization_index": 2}, "attribute"),
        (
            {"standard_name": "a", "long_name": "x"},
            {"times": [1.0], "standard_name": "b", "long_name": "x"},
            "signature",
        ),
    ],
)
def test_the_option_that_a_remedy_names_joins(first: dict[str, Any], second: dict[str, Any], rule: str) -> None:
    def both(options: Options | None = None) -> list[Described]:
        made = []
        for given in (first, second):
            own = {**given}
            made.append(tas(own.pop("times", [0.0]), options, **own))
        return made

    found = reason(*both())
    assert found.rule == rule
    options = Options(**named(found.remedy))
    assert len(boxes_of(*both(options), options=options)[1]) == 1


@pytest.mark.parametrize(
    ("options", "first", "second", "said"),
    [
        (Options(equal="model"), {"model": "a"}, {"model": "b"}, "leave 'model' out of equal=, or name it in ignore="),
        (Options(exist="model"), {"model": "a"}, {}, "leave 'model' out of exist=, or name it in ignore="),
        (Options(equal_all=True), {"model": "a"}, {"model": "b"}, "equal_all=True, or name 'model' in ignore="),
        (Options(exist_all=True), {"model": "a"}, {}, "leave out exist_all=True or equal_all=True"),
        (Options(respect_valid=True), {"valid_min": 1.0}, {"valid_min": 2.0}, "leave out respect_valid=True"),
        (Options(cells={"T": {"cellsize": "2 days"}}), CELLS, {"bounds": [[1.0, 2.0]]}, "leave out cells="),
        (Options(contiguous=True), {}, {}, "leave out contiguous=True"),
        (Options(overlap=False), CELLS, {"bounds": [[1.0, 2.0]]}, "leave out overlap=False"),
        (Options(axes="latitude"), {}, {}, "name time in axes="),
    ],
)
def test_the_option_that_a_remedy_says_to_leave_out_kept_apart(
    options: Options, first: dict[str, Any], second: dict[str, Any], said: str
) -> None:
    def both(options: Options) -> list[Described]:
        return [tas([float(k)], options, **given) for k, given in enumerate((first, second))]

    assert said in reason(*both(options), options=options).remedy
    assert len(boxes_of(*both(Options()))[1]) == 1


def test_remedies_of_what_others_keep_apart_name_what_joins_those() -> None:
    members = [tas([0.0]), tas([1.0]), tas([3.0, 4.0]), tas([4.0, 5.0])]
    found = reason(*members)
    assert (found.rule, "on_overlap='first'" in found.remedy) == ("crowded", True)
    assert len(boxes_of(*members, options=Options(on_overlap="first"))[1]) == 1


def test_coordinates_in_common_with_other_cells_are_to_be_corrected_not_chosen() -> None:
    one, other = (tas([0.0, 1.0], bounds=[[-1.0, 0.0], [0.0, 1.0]]), tas([1.0, 2.0], bounds=[[0.5, 1.0], [1.0, 2.0]]))
    found = reason(one, other)
    assert found.rule == "overlap"
    assert found.remedy.startswith("correct what belongs to time, such as bounds")
    assert len(boxes_of(one, other, options=Options(on_overlap="first"))[1]) == 2


@pytest.mark.parametrize("rule", [r for r in get_args(Rule) if r not in ("overlap", "crowded")])
def test_every_rule_has_a_remedy(rule: str) -> None:
    assert remedy_of(rule, "time", 1.0, 2.0, Options())


def test_parts_that_differ_are_to_be_made_equal() -> None:
    height = {"standard_name": "height", "units": "m"}

    def at(time: float, value: float) -> Described:
        others = {"area": (("lat",), np.full(2, value), height)}
        return tas([time], cell_measures="area: area", others=others)

    found = reason(at(0.0, 1.0), at(1.0, 1.0 + 1e-7))
    assert (found.rule, "rtol=" in found.remedy) == ("part", True)
    assert len(boxes_of(at(0.0, 1.0), at(1.0, 1.0 + 1e-7), options=Options(rtol=1e-6))[1]) == 1


@pytest.mark.parametrize("choice", ["first", "last", "error"])
def test_places_that_are_only_counted_are_nothing_in_common(choice: Any) -> None:
    def station(*times: float) -> Described:
        root = Group()
        add(root, "id", ("station",), [1, 2], standard_name="platform_id", cf_role="timeseries_id")
        add(root, "time", ("station", "obs"), np.array([times, times]), **TIME)
        values = np.zeros((2, len(times)))
        return described(add(root, "tas", ("station", "obs"), values, **TAS, coordinates="time").group)

    one, other = station(0.0, 1.0, 2.0), station(3.0, 4.0, 5.0, 6.0)
    assert len(boxes_of(one, other, options=Options(on_overlap=choice))[1]) == 2
    assert "standard_name" in reason(one, other, options=Options(on_overlap=choice)).remedy


@pytest.mark.parametrize(
    ("lacking", "said"), [("units", "give it units"), ("standard_name", "give it a standard name")]
)
def test_no_option_is_advised_for_what_only_one_of_two_lacks(lacking: str, said: str) -> None:
    assert reason(tas([0.0]), tas([1.0], **{lacking: None})).remedy == said


def test_what_both_lack_is_said_once_with_one_remedy() -> None:
    def bare(time: float) -> Described:
        root = Group()
        add(root, "time", ("time",), [time], **TIME)
        add(root, "zlev", ("zlev",), [0.0], units="m")
        return described(add(root, "sst", ("time", "zlev"), np.zeros((1, 1)), units="K").group)

    found = reason(bare(0.0), bare(1.0))
    assert str(found).count("has no standard name") == 1
    assert str(found).endswith("(both)")
    assert found.remedy == "relaxed_identities=True uses names instead, or give it and its coordinate standard names"


def test_latitudes_that_differ_by_rounding_are_joined_as_the_remedy_says() -> None:
    def at(time: float, rounded: str) -> Described:
        root = Group()
        add(root, "time", ("time",), [time], **TIME)
        lat = np.array([0.1, 0.2, 0.3], rounded).astype("f8")
        add(root, "lat", ("lat",), lat, standard_name="latitude", units="degrees_north")
        return described(add(root, "tas", ("time", "lat"), np.zeros((1, 3)), **TAS).group)

    found = reason(at(0.0, "f4"), at(1.0, "f8"))
    assert (found.rule, found.what, found.remedy.split(" ")[:3]) == (
        "axes",
        "time, latitude",
        ["rtol=", "and", "atol="],
    )
    assert len(boxes_of(at(0.0, "f4"), at(1.0, "f8"), options=Options(rtol=1e-6))[1]) == 1


def test_no_choice_between_files_is_advised_for_the_times_of_each_station() -> None:
    def stations(start: float) -> Described:
        root = Group()
        add(root, "id", ("station",), [1, 2], standard_name="platform_id", cf_role="timeseries_id")
        add(root, "time", ("station", "obs"), start + np.arange(4.0).reshape(2, 2), **TIME)
        return described(add(root, "tas", ("station", "obs"), np.zeros((2, 2)), **TAS, coordinates="time").group)

    found = reason(stations(0.0), stations(9.0))
    assert (found.rule, found.what, found.a, found.b) == ("part", "time", 0.0, 9.0)
    assert "on_overlap" not in found.remedy
    assert len(boxes_of(stations(0.0), stations(9.0), options=Options(on_overlap="first"))[1]) == 2


@pytest.mark.parametrize("choice", ["first", "last", "error"])
def test_stations_in_common_with_other_times_are_no_overlap(choice: Any) -> None:
    def stations(start: float) -> Described:
        root = Group()
        add(root, "id", ("station",), [1, 2], standard_name="platform_id", cf_role="timeseries_id")
        add(root, "time", ("station", "obs"), start + np.arange(6.0).reshape(2, 3), **TIME)
        return described(add(root, "tas", ("station", "obs"), np.zeros((2, 3)), **TAS, coordinates="id time").group)

    assert len(boxes_of(stations(0.0), stations(6.0), options=Options(on_overlap=choice))[1]) == 2
    if choice != "error":
        same = boxes_of(stations(0.0), stations(0.0), options=Options(on_overlap=choice))[1]
        assert (len(same), same.dropped.sum()) == (1, 1)


def test_of_scalar_coordinates_that_change_together_only_one_may_be_named() -> None:
    def season(time: float, others: str) -> Described:
        root = Group()
        add(root, "time", (), time, **TIME)
        add(root, "season", (), np.int32(time // 90), long_name="season", units="1", standard_name="season_number")
        add(root, "tas", (), np.float32(time), **{**TAS, "coordinates": others})
        return described(root)

    found = reason(season(0.0, "time season"), season(90.0, "time season"))
    assert (found.rule, found.what) == ("axes", "time, season_number")
    assert found.remedy.endswith("name only one of them in the attribute coordinates")
    assert len(boxes_of(season(0.0, "time"), season(90.0, "time"))[1]) == 1
