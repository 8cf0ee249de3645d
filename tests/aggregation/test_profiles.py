"""Profiles of stations and trajectories: joined or apart, all are there, each with its own time and place."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import netCDF4
import numpy as np
import numpy.testing as npt
import pytest

import cfagg
from tests.aggregation.profiles import (
    ALTITUDE,
    DATA,
    KINDS,
    TIME,
    How,
    Profile,
    counted,
    many_features,
    one_feature,
    profiles_of,
    ragged,
)

#: What writes each form, and how many arrays three files are that go on with the same features, or have others.
FORMS: dict[str, Any] = {
    "one feature on levels": (lambda *a: one_feature(*a, levels=True), 1, {"timeSeriesProfile": 1}),
    "one feature": (lambda *a: one_feature(*a, levels=False), 1, {}),
    "features on levels": (lambda *a: many_features(*a, levels=True), 3, dict.fromkeys(KINDS, 1)),
    "features": (lambda *a: many_features(*a, levels=False), 3, dict.fromkeys(KINDS, 1)),
    "ragged": (ragged, 3, dict.fromkeys(KINDS, 1)),
}
HOW = [{}, {"fill": 1e20, "heights": "km", "packed": True}, {"down": True, "since": "hours since 2000-01-01"}]


def profile(feature: str, time: int, kind: str, form: str, rng: np.random.Generator) -> Profile:
    """Return a profile; only ragged arrays have them of unequal lengths here, so that all forms hold the same."""
    standing = kind == "timeSeriesProfile"
    heights = [0.0, 10.0, 20.0]
    if form == "ragged":
        heights = sorted(rng.choice(50, rng.integers(1, 4), replace=False) * 10.0)
    elif form == "features" or (form == "one feature" and not standing):
        heights = [10.0 * time, 10.0 * time + 5, 1000.0]
    values = 200 + 0.5 * rng.integers(1, 200, len(heights))
    place = (ord(feature) / 2, 10.0) if standing else (0.5 * time, -1.0 * time)
    return Profile(feature, float(time), *place, tuple(zip(map(float, heights), map(float, values), strict=True)))


@pytest.mark.few(8)
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("going_on", [True, False], ids=["times", "features"])
def test_all_profiles_of_files_are_in_what_is_made_of_them(
    tmp_path: Path, form: str, kind: str, *, going_on: bool
) -> None:
    write, on, beside = FORMS[form]
    rng = np.random.default_rng(len(form) + going_on)
    files, expected = [], []
    for k, how in enumerate(HOW):
        names = "AB" if going_on else "AB" if k == 0 else "CD" if k == 1 else "EF"
        names = names[: 1 if form.startswith("one") else 2]
        own = [profile(n, t + 10 * k * going_on, kind, form, rng) for t in (0, 3) for n in names]
        files.append(write(tmp_path / f"{k}.nc", own, How(kind, **how)))
        expected += own
    arrays = on if going_on else beside.get(kind, 3)
    for order, output in ((files[::-1], None), (files, tmp_path / "out.nc")):
        with cfagg.aggregate(order, output=output, on_loss="materialise", decode_times=False) as made:
            found = made if output is None else cfagg.read(output, decode_times=False)
            named = [n for n in found.data_vars if str(n).startswith("ta")]
            assert counted([p for n in named for p in profiles_of(found, str(n))]) == counted(expected)
            if form != "one feature" or going_on:
                assert len(named) == arrays
            assert made.cfagg.report.why(0, 2).joined == (len(named) == 1)


def test_ragged_arrays_of_several_files_say_why_they_are_apart(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    files = []
    for k in range(2):
        own = [profile("A", t + k, "timeSeriesProfile", "ragged", rng) for t in (0, 3)]
        files.append(ragged(tmp_path / f"{k}.nc", own, How()))
    (answer,) = cfagg.aggregate(files).cfagg.report.why(0, 1).answers
    assert (answer.rule, answer.what) == ("features", "timeseries_id")
    assert "both have timeseries_id A" in str(answer)
    assert "put all samples of a feature into one file" in answer.remedy


def test_variables_of_one_ragged_file_share_the_counts_of_its_features(tmp_path: Path) -> None:
    rng = np.random.default_rng(2)
    files = []
    for k in range(2):
        own = [profile("A", t + k, "trajectoryProfile", "ragged", rng) for t in (0, 3)]
        files.append(ragged(tmp_path / f"{k}.nc", own, How("trajectoryProfile")))
        with netCDF4.Dataset(files[-1], "a") as file:
            other = file.createVariable("hur", "f8", ("obs",))
            other.setncatts({"standard_name": "relative_humidity", "units": "1", "coordinates": "time lat lon alt"})
            other[...] = np.arange(file.dimensions["obs"].size)
    with cfagg.aggregate(files) as found:
        for one, other in (("ta", "hur"), ("ta_1", "hur_1")):
            assert found[one].dims == found[other].dims
        counts = [v for v in found.variables.values() if "sample_dimension" in v.attrs]
        assert [c.attrs["sample_dimension"] for c in counts] == [*found["ta"].dims, *found["ta_1"].dims]


def test_names_of_profiles_that_begin_anew_in_each_file_join_nothing(tmp_path: Path) -> None:
    files = []
    for k in range(2):
        with netCDF4.Dataset(tmp_path / f"{k}.nc", "w") as file:
            file.featureType = "trajectoryProfile"
            file.createDimension("profile", 2)
            file.createDimension("z", 2)
            made = {
                "time": (("profile",), [2.0 * k, 2.0 * k + 1], TIME),
                "number": (("profile",), [1, 2], {"cf_role": "profile_id"}),
                "z": (("z",), [0.0, 10.0], ALTITUDE),
                "ta": (("profile", "z"), np.full((2, 2), k), DATA | {"coordinates": "time number"}),
            }  # fmt: skip
            for name, (dims, values, said) in made.items():
                own = file.createVariable(name, "f8", dims)
                own.setncatts(said)
                own[...] = values
        files.append(tmp_path / f"{k}.nc")
    with cfagg.aggregate(files, decode_times=False) as found:
        assert not found.cfagg.report.why(0, 1).joined
        for name, time in (("ta", [0, 1]), ("ta_1", [2, 3])):
            named = found[name].encoding.get("coordinates") or found[name].attrs.get("coordinates")
            npt.assert_array_equal(found[next(w for w in named.split() if w.startswith("time"))], time)


def test_times_along_a_dimension_that_is_only_counted_are_joined_where_it_gets_a_coordinate(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    files = []
    for k in range(2):
        own = [profile(n, t + 10 * k, "timeSeriesProfile", "features", rng) for t in (0, 1) for n in "AB"]
        files.append(many_features(tmp_path / f"{k}.nc", own, How(), levels=False))
    (answer,) = cfagg.aggregate(files).cfagg.report.why(0, 1).answers
    assert (answer.rule, answer.what) == ("part", "time")
    assert "give that dimension a coordinate with a standard_name" in answer.remedy
    for k, path in enumerate(files):
        with netCDF4.Dataset(path, "a") as file:
            number = file.createVariable("profile", "i4", ("profile",))
            number.setncatts({"standard_name": "realization", "units": "1"})
            number[:] = [2 * k, 2 * k + 1]
    with cfagg.aggregate(files) as found:
        assert found["ta"].shape == (2, 4, 3)


@pytest.mark.parametrize("listed", ["", " name profile"])
def test_names_of_features_are_listed_as_coordinates_where_their_file_does(tmp_path: Path, listed: str) -> None:
    with netCDF4.Dataset(tmp_path / "a.nc", "w") as file:
        file.featureType = "timeSeriesProfile"
        for dim, values, name, own in (
            ("station", [1, 2], "name", {"cf_role": "timeseries_id"}),
            ("feature", [1, 2, 3], "profile", {"cf_role": "profile_id"}),
            ("feature", [2, 1, 1], "count", {"sample_dimension": "obs"}),
            ("feature", [0, 0, 1], "index", {"instance_dimension": "station"}),
            ("feature", [0, 1, 2], "time", TIME),
            ("obs", [0, 1, 2, 3], "z", ALTITUDE),
            ("obs", [5, 6, 7, 8], "ta", {**DATA, "coordinates": f"time z{listed}"}),
        ):
            if dim not in file.dimensions:
                file.createDimension(dim, len(values))
            made = file.createVariable(name, "f8" if name in ("time", "z", "ta") else "i4", (dim,))
            made.setncatts(own)
            made[:] = values
    cfagg.aggregate([tmp_path / "a.nc"], output=tmp_path / "b.nc")
    with netCDF4.Dataset(tmp_path / "b.nc") as file:
        assert sorted(file["ta"].coordinates.split()) == sorted(f"time z{listed}".split())
