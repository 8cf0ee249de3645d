"""What each option of the rules joins or keeps apart, and what reasons say of it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from cfagg.cf.joining import Described, Options
from cfagg.errors import OptionError
from cfagg.model.dataset import Group
from tests.cf.joining.datasets import LATITUDE, TAS, TIME, add, boxes_of, described, reason


def tas(times: list[float], options: Options | None = None, **changes: Any) -> Described:
    """Return the description of a variable along time; of `None`, an attribute is not there."""
    root = Group(attributes=changes.pop("around", {}))
    time = {**TIME, **changes.pop("time", {})}
    if "bounds" in changes:
        add(root, "time_bnds", ("time", "bnds"), changes.pop("bounds"))
        time["bounds"] = "time_bnds"
    add(root, "time", ("time",), times, **time)
    for name, (dims, values, attributes) in changes.pop("others", {}).items():
        add(root, name, dims, values, **attributes)
    name = changes.pop("name", "tas")
    attributes = {k: v for k, v in {**TAS, **changes}.items() if v is not None}
    add(root, name, ("time",), np.zeros(len(times), "f4"), **attributes)
    return described(root, options)


def count(*members: Described, options: Options | None = None) -> int:
    return len(boxes_of(*members, options=options)[1])


def two(options: Options, first: dict[str, Any], second: dict[str, Any]) -> list[Described]:
    return [tas([float(k)], options, **changes) for k, changes in enumerate((first, second))]


NAMELESS: dict[str, Any] = {"standard_name": None}


@pytest.mark.parametrize(
    ("options", "first", "second"),
    [
        (
            Options(relaxed_identities=True),
            {"standard_name": None, "long_name": "t"},
            {"standard_name": None, "long_name": "t"},
        ),
        (Options(relaxed_identities=True), NAMELESS, NAMELESS),
        (Options(field_identity="long_name"), {"long_name": "t"}, {"long_name": "t", "standard_name": "other"}),
        (Options(variable_identities=True), {"standard_name": "a"}, {"standard_name": "b"}),
        (Options(allow_no_identity=True), NAMELESS, {"standard_name": None, "name": "other"}),
        (Options(relaxed_units=True), {"units": None}, {"units": None}),
        (Options(equal="source"), {"source": "a"}, {"source": "a"}),
        (Options(exist="source"), {"source": "a"}, {"source": "b"}),
        (Options(equal_all=True, ignore="source"), {"source": "a"}, {"source": "b"}),
        (Options(exist_all=True), {"source": "a"}, {"source": "b"}),
        (Options(equal="source_id"), {"around": {"source_id": "a"}}, {"source_id": "a"}),
    ],
)
def test_options_by_which_more_is_joined(options: Options, first: dict[str, Any], second: dict[str, Any]) -> None:
    assert count(*two(options, first, second), options=options) == 1


@pytest.mark.parametrize(
    ("options", "first", "second", "what"),
    [
        (Options(), NAMELESS, NAMELESS, "problem"),
        (Options(), {"units": None}, {"units": None}, "problem"),
        (Options(field_identity="long_name"), {"long_name": "t"}, {"long_name": "u"}, "identity"),
        (Options(field_identity="long_name"), {}, {"long_name": "u"}, "problem"),
        (Options(variable_identities=True), {"name": "a"}, {"name": "b"}, "identity"),
        (Options(equal="source"), {"source": "a"}, {"source": "b"}, "source"),
        (Options(equal="source"), {"around": {"source": "a"}}, {"around": {"source": "b"}}, "source"),
        (Options(exist="source"), {"source": "a"}, {}, "source exists"),
        (Options(equal_all=True), {"long_name": "a"}, {"long_name": "b"}, "long_name"),
        (Options(exist_all=True), {"long_name": "a"}, {}, "names of attributes"),
        (Options(respect_valid=True), {"valid_max": np.array([1.0])}, {"valid_max": np.array([2.0])}, "valid_max"),
    ],
)
def test_options_by_which_less_is_joined(
    options: Options, first: dict[str, Any], second: dict[str, Any], what: str
) -> None:
    assert reason(*two(options, first, second), options=options).what == what


def test_only_the_axes_asked_for_are_joined() -> None:
    def at(time: float, height: float) -> Described:
        z = {"z": ((), height, {"standard_name": "height", "units": "m"})}
        return tas([time], others=z, coordinates="z")

    four = [at(t, z) for z in (2.0, 10.0) for t in (0.0, 1.0)]
    assert count(*four) == 1
    for axes, found in (
        ("time", [0, 0, 1, 1]),
        (("height",), [0, 1, 0, 1]),
        (("height", "time"), [0] * 4),
        ((), [0, 1, 2, 3]),
    ):
        assert boxes_of(*four, options=Options(axes=axes))[1].box.tolist() == found
    assert reason(four[0], four[2], options=Options(axes="time")).rule == "not asked for"


DAY = np.array([[0.0, 1.0], [1.0, 2.0]])


@pytest.mark.parametrize(
    "cells", [True, {"T": {"cellsize": "1 day"}}, {"time": [{"cellsize": "1 hour"}, {"cellsize": "24 hours"}]}]
)
def test_daily_and_monthly_means_part_ways(cells: Any) -> None:
    options = Options(cells=cells)
    days = [tas([0.5, 1.5], options, bounds=DAY), tas([2.5, 3.5], options, bounds=DAY + 2)]
    month = tas([45.0], options, bounds=np.array([[31.0, 60.0]]))
    assert count(*days, month) == 1
    assert boxes_of(*days, month, options=options)[1].box.tolist() == [0, 0, 1]
    found = reason(days[0], month, options=options)
    assert (found.rule, found.what) == ("signature", "cells of time")
    assert "cellsize" in str(found)


def test_instants_part_ways_by_their_distances() -> None:
    options = Options(cells={"T": [{"spacing": "1 hour"}, {"spacing": "6 hours"}]})
    parts = [tas([0.0, 1 / 24], options), tas([1.0, 1.25], options), tas([2.0, 2.25], options)]
    assert boxes_of(*parts, options=options)[1].box.tolist() == [0, 1, 1]


@pytest.mark.parametrize(
    "one",
    [{"cellsize": "a day"}, {"cellsize": "1 dya"}, {"size": "1 day"}, "1 day", {"cellsize": "2 months"}, {}, 3],
)
def test_conditions_that_are_none_are_refused(one: Any) -> None:
    for cells in ({"T": one}, 3):
        with pytest.raises(OptionError, match="cells"):
            Options(cells=cells)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("rtol", -1),
        ("atol", "1"),
        ("overlap", 1),
        ("equal", 3),
        ("axes", [1]),
        ("field_identity", 2),
        ("on_overlap", "x"),
    ],
)
def test_values_that_options_cannot_have_are_refused(name: str, value: Any) -> None:
    with pytest.raises(OptionError, match=name):
        Options(**{name: value})


@pytest.mark.parametrize("values", [("r1", "r2"), (np.array([1]), np.array([2]))])
def test_attributes_become_axes(values: tuple[Any, Any]) -> None:
    options = Options(dimension="run")
    parts = [tas([0.0], options, around={"run": run}) for run in values]
    members, boxes = boxes_of(*parts, options=options)
    assert [axis.name for axis in members.axes] == ["time", "run"]
    assert boxes.extent.tolist() == [[1, 2]]
    assert parts[0].axes["run"].promoted
    assert count(*(tas([0.0], around={"run": run}) for run in values)) == 2


def test_attributes_become_ancillary_variables() -> None:
    options = Options(field_ancillaries="tracking_id")
    parts = [tas([float(k)], options, around={"tracking_id": f"hdl:{k}"}) for k in range(2)]
    assert count(*parts, options=options) == 1
    assert [p.parts["tracking_id"].values.item() for p in parts] == ["hdl:0", "hdl:1"]  # type: ignore[union-attr]


@pytest.mark.parametrize("choice", ["first", "last"])
def test_of_equal_variables_one_is_taken(choice: Any) -> None:
    parts = [tas([0.0, 1.0]), tas([0.0, 1.0]), tas([2.0])]
    boxes = boxes_of(*parts, options=Options(on_overlap=choice))[1]
    assert boxes.box.tolist() == [0, 0, 0]
    assert boxes.dropped.tolist() == [choice == "last", choice == "first", False]
    assert count(*parts) == 3


def test_an_overlap_is_an_error_where_that_is_asked_for() -> None:
    options = Options(on_overlap="error")
    with pytest.raises(OptionError, match="member 0 and member 1 have 1 coordinate along time in common"):
        boxes_of(tas([0.0, 1.0]), tas([1.0, 2.0]), options=options)
    with pytest.raises(OptionError, match="member 0 has all coordinates of member 1"):
        boxes_of(tas([0.0, 1.0]), tas([1.0, 0.0]), options=options)
    assert count(tas([0.0]), tas([1.0]), options=options) == 1


def test_equal_coordinates_of_other_cells_do_not_stand_for_each_other() -> None:
    parts = [tas([1.0], bounds=np.array([[1 - w, 1 + w]])) for w in (0.5, 0.25)]
    for choice in ("apart", "first"):
        found = reason(*parts, options=Options(on_overlap=choice))  # type: ignore[arg-type]
        assert (found.rule, found.what, found.a, found.b) == ("cells", "bounds of time", 0.5, 0.75)


def test_4_byte_reals_are_equal_within_two_units_in_the_last_place_and_times_are_not() -> None:
    def at(time: float, latitude: Any, options: Options | None = None) -> Described:
        root = Group()
        add(root, "time", ("time",), np.array([time], "f4"), **TIME)
        add(root, "lat", ("lat",), latitude, **LATITUDE)
        add(root, "tas", ("time", "lat"), np.zeros((1, 2), "f4"), **TAS)
        return described(root, options=options)

    third = np.array([1 / 3, 2 / 3])
    assert count(at(0.0, third), at(1.0, third.astype("f4"))) == 1
    assert count(at(0.0, third), at(1.0, third * (1 + 1e-6))) == 2
    assert count(at(0.0, third), at(1.0, (third * (1 + 1e-6)).astype("f4"))) == 2
    # Integers are compared exactly, whatever the tolerance.
    wide = Options(atol=1.5)
    for kind, arrays in (("f8", 1), ("i4", 2)):
        parts = [at(time, np.array([10, 20 + k], kind), wide) for time, k in ((0.0, 0), (9.0, 1))]
        assert count(*parts, options=wide) == arrays
    near = np.nextafter(np.float32(1), np.float32(2))
    assert count(at(1.0, third), at(near, third)) == 1  # two times, joined
    assert boxes_of(at(1.0, third), at(near, third))[1].extent[0].tolist() == [2, 2]
