"""Descriptions of many files: what is equal is the same object, what differs is not, and nothing is kept for ever."""

from __future__ import annotations

import gc
import pickle
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cfagg.cf.joining import Described, Options, describe_all, describing, interned
from cfagg.model.dataset import Dataset, Group
from tests.cf.joining.datasets import LATITUDE, LONGITUDE, TAS, TIME, add, boxes_of, described, reason
from tests.effort import examples


def dataset(k: int, **changes: Any) -> Dataset:
    """Return a dataset of two variables, whose history and origin of time are its own."""
    root = Group(attributes={"history": f"made {k}", **changes.get("around", {})})
    units = {"units": f"days since 2000-01-{k + 1:02}", "history": f"{k}", **changes.get("time", {})}
    add(root, "time", ("time",), [0.0, 0.5], **{**TIME, **units})
    add(root, "lat", ("lat",), [10.0, 20.0], **{**LATITUDE, **changes.get("lat", {})})
    for name, standard in (("tas", "air_temperature"), ("sst", "surface_temperature")):
        add(root, name, ("time", "lat"), np.zeros((2, 2), "f4"), **{**TAS, "standard_name": standard})
    return Dataset("a.nc", "netcdf", root)


def test_what_is_equal_in_files_is_the_same_object() -> None:
    one, other = describe_all(dataset(0)), describe_all(dataset(1))
    assert one[0].stated is other[0].stated
    assert one[0].signature is other[0].signature
    assert one[0].axes["latitude"] is other[1].axes["latitude"]
    assert one[0].axes is one[1].axes
    assert one[0].axes["time"] is not other[0].axes["time"]
    assert [d.around["history"] for d in (one[0], other[0])] == ["made 0", "made 1"]
    assert other[0].axes["time"].stated.text("history") == "1"


@pytest.mark.parametrize(
    "change",
    [
        {"lat": {"standard_name": "grid_latitude"}},
        {"time": {"calendar": "360_day"}},
        {"around": {"featureType": "point"}},
    ],
)
def test_files_of_another_structure_are_described_anew(change: dict[str, Any]) -> None:
    plain, changed = describe_all(dataset(0))[0], describe_all(dataset(1, **change))[0]
    assert dict(plain.signature) != dict(changed.signature)


def test_descriptions_from_other_processes_are_made_the_same_objects_again() -> None:
    here = describe_all(dataset(0))
    there = pickle.loads(pickle.dumps([*describe_all(dataset(0)), *describe_all(dataset(1))]))
    same = interned(there)
    assert [d.stated.name for d in same] == ["tas", "sst"] * 2
    assert same[0].stated is here[0].stated
    assert same[2].axes["latitude"] is here[0].axes["latitude"]
    assert same[0].signature is same[2].signature
    assert boxes_of(*here, *same[2:])[1].box.tolist() == [0, 1, 0, 1]


def test_descriptions_from_other_processes_keep_the_digests_of_their_values() -> None:
    there = describe_all(dataset(0), Options(on_overlap="equal"))
    assert [one.digest for one in interned(pickle.loads(pickle.dumps(there)))] == [one.digest for one in there]
    assert all(one.digest for one in there)
    assert not any(one.digest for one in describe_all(dataset(0)))


def test_descriptions_that_are_gone_leave_nothing_but_structures() -> None:
    kept = describe_all(dataset(0))
    gc.collect()
    before = len(describing._coordinates)
    for k in range(1, 20):
        describe_all(dataset(k))
    gc.collect()
    assert len(describing._coordinates) <= before
    del kept


def test_structures_that_are_kept_are_not_more_than_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(describing, "_MOST", 3)
    for k in range(8):
        describe_all(dataset(0, lat={"long_name": f"{k}"}))
        assert len(describing._plans) <= max(3, 1)


def part(k: int, *, broken: str = "") -> Described:
    """Return one time of an array with all that may belong to one; one thing in it is another."""
    root = Group()

    def own(name: str, attributes: dict[str, Any], **change: Any) -> dict[str, Any]:
        return {**attributes, **change} if broken == name else attributes

    def values(name: str, numbers: Any) -> Any:
        found = np.array(numbers, float)
        if broken == name:
            found.flat[-1] += 0.125
        return found

    add(root, "time", ("time",), [float(k)], **own("calendar", TIME, calendar="360_day"), bounds="time_bnds")
    add(root, "time_bnds", ("time", "two"), [[k - 0.5, k + 0.5]])
    add(root, "lat", ("lat",), values("lat", [10.0, 20.0]), **LATITUDE, bounds="lat_bnds")
    add(root, "lat_bnds", ("lat", "two"), values("lat_bnds", [[5.0, 15.0], [15.0, 25.0]]))
    add(root, "lon", ("lon",), values("lon", [0.0, 1.0, 2.0]), **own("lon units", LONGITUDE, units="m"))
    area = {"standard_name": "cell_area", "units": "m2"}
    add(root, "area", ("lat", "lon"), values("area", np.ones((2, 3))), **own("area units", area, units="m"))
    add(root, "height", ("lat",), values("height", [1.0, 2.0]), standard_name="surface_altitude", units="m")
    names = np.array(["a", "b", "changed" if broken == "names" else "c"], object)
    add(root, "names", ("lon",), names, standard_name="region")
    add(
        root,
        "z",
        (),
        values("z", 2.0),
        standard_name="height",
        units="m",
        positive="down" if broken == "positive" else "up",
    )
    crs = {"grid_mapping_name": "latitude_longitude", "earth_radius": np.array([6371000.0])}
    add(root, "crs", (), 0, **own("crs", crs, earth_radius=np.array([6378137.0])))
    attributes = {
        **TAS,
        "cell_methods": "time: maximum" if broken == "methods" else "time: mean",
        "coordinates": "height names z",
        "cell_measures": "area: area",
        "grid_mapping": "crs",
        "flag_meanings": "a c" if broken == "flags" else "a b",
    }
    attributes = own("identity", own("units", attributes, units="m"), standard_name="surface_temperature")
    kind = object if broken == "type" else "f4"
    array = np.full((1, 2, 3), "") if broken == "type" else np.zeros((1, 2, 3), kind)
    add(root, "tas", ("time", "lat", "lon"), array, **attributes)
    return described(root)


#: What is broken, the rule, what it is about, and both values, as a reason says them.
BROKEN: dict[str, tuple[str, str, str, str]] = {
    "calendar": ("signature", "axes", "calendar standard", "calendar 360_day"),
    "lat": ("axes", "time, latitude", "20.0", "20.125"),
    "lat_bnds": ("axes", "time, bounds of latitude", "25.0", "25.125"),
    "lon": ("axes", "time, longitude", "2.0", "2.125"),
    "lon units": ("signature", "axes", "longitude", "longitude (m"),
    "area": ("part", "cell_area", "1.0", "1.125"),
    "area units": ("signature", "other coordinates and ancillary variables", "m2", "m)"),
    "height": ("part", "surface_altitude", "2.0", "2.125"),
    "names": ("part", "region", "c", "changed"),
    "z": ("axes", "time, height", "2.0", "2.125"),
    "positive": ("signature", "axes", "positive up", "positive down"),
    "crs": ("signature", "grid mapping", "earth_radius 6371000.0", "earth_radius 6378137.0"),
    "methods": ("signature", "cell methods", "time: mean", "time: maximum"),
    "flags": ("signature", "flag_meanings", "a b", "a c"),
    "identity": ("signature", "identity", "air_temperature", "surface_temperature"),
    "units": ("signature", "units", "K", "m"),
    "type": ("signature", "type", "numbers", "text"),
}


@given(st.permutations(range(4)), st.sampled_from(sorted(BROKEN)), st.integers(0, 3))
@settings(max_examples=examples(80))
def test_one_thing_that_differs_keeps_its_variable_apart_and_is_named(
    order: list[int], broken: str, which: int
) -> None:
    members = [part(k, broken=broken if k == which else "") for k in order]
    at = order.index(which)
    boxes = boxes_of(*members)[1]
    assert (boxes.box == boxes.box[at]).sum() == 1
    assert len(boxes) == 2
    sound = members[at - 1]
    found = reason(sound, members[at], *(m for k, m in enumerate(members) if k not in (at, (at - 1) % 4)))
    rule, what, one, other = BROKEN[broken]
    assert (found.rule, found.what) == (rule, what)
    assert one in str(found.a)
    assert other in str(found.b)
    assert one in str(found)
    assert other in str(found)


@pytest.mark.parametrize("broken", sorted(BROKEN))
def test_each_thing_is_named(broken: str) -> None:
    found = reason(part(0), part(1, broken=broken), part(2))
    assert (found.rule, found.what) == BROKEN[broken][:2]
    assert BROKEN[broken][3] in str(found)
    assert len(boxes_of(part(0), part(1), part(2))[1]) == 1


def test_options_are_not_mixed_up_in_what_is_remembered() -> None:
    strict, loose = describe_all(dataset(0)), describe_all(dataset(0), Options(variable_identities=True))
    assert (strict[0].signature["identity"], loose[0].signature["identity"]) == ("air_temperature", "ncvar%tas")


@pytest.mark.parametrize(
    ("dims", "shape"), [(("time",), (2,)), (("lat", "two"), (2, 2)), (("time", "lat", "two"), (2, 2, 2)), ((), ())]
)
def test_what_has_other_dimensions_are_no_bounds(dims: tuple[str, ...], shape: tuple[int, ...]) -> None:
    root = dataset(0, time={"bounds": "cells"}).root
    add(root, "cells", dims, np.zeros(shape))
    found = describe_all(Dataset("a.nc", "netcdf", root))[0]
    assert "are not bounds of 'time'" in str(found.problem)
    assert found.axes["time"].bounds is None


def test_a_packing_that_cannot_be_undone_is_a_problem_of_its_variable_alone() -> None:
    wrong = describe_all(dataset(0, lat={"scale_factor": np.array([0.0])}))[0]
    assert "'lat' has packing that cannot be undone" in str(wrong.problem)
    assert len(boxes_of(wrong, describe_all(dataset(1))[0], describe_all(dataset(2))[0])[1]) == 2
