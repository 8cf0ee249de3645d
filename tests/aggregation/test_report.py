"""What a report says of files that were joined, and of those that were not."""

from __future__ import annotations

import json
import pickle
import shutil
from pathlib import Path
from typing import Any

import netCDF4
import numpy as np
import pytest
import xarray as xr

import cfagg
from cfagg.aggregation.files import places
from cfagg.aggregation.joining import join_files
from cfagg.aggregation.report import Report
from cfagg.aggregation.scanning import scan
from cfagg.cf.joining import Options
from cfagg.errors import OptionError
from tests.aggregation.months import month, months


def report_of(folder: Path, options: Options | None = None) -> Report:
    return Report(join_files(scan(places(folder), options, skip_errors=True), options))


def test_a_group_tells_its_files_axes_and_rule(tmp_path: Path) -> None:
    names = months(tmp_path, 3)
    (group,) = report_of(tmp_path).groups
    assert (group.name, group.identity, group.units) == ("tas", "air_temperature", "K")
    assert list(group.files.first) == names
    assert group.rule == "3 joined along time"
    time = group.axes[0]
    assert (time.name, time.size, time.parts, time.first, time.last) == ("time", 6, 3, "2000-01-01", "2000-01-06")


def test_gaps_along_an_axis_are_seen(tmp_path: Path) -> None:
    months(tmp_path, 3)
    month(tmp_path / "m9.nc", 9)
    (group,) = report_of(tmp_path).groups
    assert [(r.first, r.last, r.members) for r in group.axes[0].runs.first] == [
        ("2000-01-01", "2000-01-06", 3),
        ("2000-01-19", "2000-01-20", 1),
    ]
    assert "time: 2000-01-01 to 2000-01-20 in 4 parts, 1 gap" in str(report_of(tmp_path))


def test_arrays_of_one_quantity_may_have_texts_along_an_axis_or_not_have_it(tmp_path: Path) -> None:
    month(tmp_path / "grid.nc", 0)
    for k, names in enumerate((["a", "b"], ["b", "c"])):
        with netCDF4.Dataset(tmp_path / f"{k}.nc", "w") as file:
            file.createDimension("station", 2)
            file.createVariable("station", str, ("station",)).cf_role = "timeseries_id"
            file.createVariable("tas", "f4", ("station",)).setncatts({"standard_name": "air_temperature", "units": "K"})
            file["station"][:], file["tas"][:] = np.array(names, object), k
    report = report_of(tmp_path)
    assert [group.name for group in report.groups] == ["tas", "tas_1", "tas_2"]
    assert "platform" not in str(report)
    assert "timeseries_id" in str(report)


def test_times_that_are_missing_are_no_range(tmp_path: Path) -> None:
    for name in months(tmp_path, 2)[1:]:
        with netCDF4.Dataset(name, "a") as file:
            file["time"][:] = float("nan")
    report = report_of(tmp_path)
    time = report.groups[0].axes[0]
    assert [(r.first, r.last, r.members) for r in time.runs.first] == [("2000-01-01", "2000-01-02", 1)]
    assert "2000-01-01 to" in str(report)
    json.loads(json.dumps(report.as_dict(), allow_nan=False))
    assert report.to_html()


@pytest.mark.parametrize("fill", [None, 1e20])
def test_a_range_ends_with_the_last_time_that_is_there(tmp_path: Path, fill: float | None) -> None:
    for name in months(tmp_path, 2)[1:]:
        with netCDF4.Dataset(name, "a") as file:
            file["time"][1] = float("nan") if fill is None else fill
            if fill is not None:
                file["time"].missing_value = fill
    report = report_of(tmp_path)
    assert "time: 2000-01-01 to 2000-01-03 in 2 parts" in str(report)


def test_why_two_files_are_one_array(tmp_path: Path) -> None:
    months(tmp_path, 2)
    found = report_of(tmp_path).why(0, 1)
    assert found.joined
    assert str(found.answers[0]) == "tas: both are in tas"


def test_why_two_files_are_apart_names_rule_attribute_and_both_values(tmp_path: Path) -> None:
    names = months(tmp_path, 2)
    with netCDF4.Dataset(names[1], "a") as file:
        file["tas"].units = "m"
    (answer,) = report_of(tmp_path).why(names[0], "m1.nc").answers
    assert (answer.array, answer.rule, answer.what) == (None, "signature", "units")
    assert ("K" in answer.text, "m" in answer.text) == (True, True)


def test_files_that_others_keep_apart_are_told_which(tmp_path: Path) -> None:
    months(tmp_path, 4)
    shutil.copy(tmp_path / "m3.nc", tmp_path / "copy.nc")
    (answer,) = report_of(tmp_path).why("m0.nc", "m1.nc").answers
    assert (answer.rule, answer.what) == ("crowded", "time")
    assert answer.text.endswith(f"of {tmp_path}/copy.nc and {tmp_path}/m3.nc")


def test_each_form_of_a_report_says_what_would_join(tmp_path: Path) -> None:
    names = months(tmp_path, 2)
    shutil.copy(names[0], tmp_path / "copy.nc")
    report = report_of(tmp_path)
    remedy = "on_overlap='first' or on_overlap='last' takes one of them"
    assert f"    remedy: {remedy}" in str(report)
    assert f"    remedy: {remedy}" in str(report.why("copy.nc", names[0]))
    assert report.as_dict()["apart"]["first"][0]["remedy"].startswith(remedy)
    assert report.why("copy.nc", names[0]).as_dict()["answers"][0]["remedy"].startswith(remedy)
    assert remedy.replace("'", "&#x27;") in report.to_html()


def test_reasons_show_dates(tmp_path: Path) -> None:
    months(tmp_path, 2)
    month(tmp_path / "x.nc", 1, days=3)
    assert "2000-01-04 to 2000-01-06" in str(report_of(tmp_path).why("x.nc", "m1.nc"))


def test_files_are_named_by_path_name_end_of_path_or_number(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    month(tmp_path / "a" / "m.nc", 0)
    month(tmp_path / "b" / "m.nc", 1)
    monkeypatch.chdir(tmp_path)
    report = report_of(tmp_path)
    for one, other in ((0, 1), ("a/m.nc", "b/m.nc"), (tmp_path / "a/m.nc", f"{tmp_path}/b/m.nc")):
        found = report.why(one, other)
        assert (found.a, found.b) == (f"{tmp_path}/a/m.nc", f"{tmp_path}/b/m.nc")


@pytest.mark.parametrize(
    ("given", "said"),
    [("m.nc", "2 files have this name"), ("z.nc", "not among the aggregated files"), (7, "there is no file 7")],
)
def test_a_file_that_is_not_clear_is_refused(tmp_path: Path, given: str | int, said: str) -> None:
    month(tmp_path / "a" / "m.nc", 0)
    month(tmp_path / "b" / "m.nc", 1)
    with pytest.raises(OptionError, match=said):
        report_of(tmp_path).why(given, 1)


def test_a_variable_that_only_one_file_has_is_refused(tmp_path: Path) -> None:
    months(tmp_path, 2)
    report = report_of(tmp_path)
    assert report.why(0, 1, "air_temperature").joined
    with pytest.raises(OptionError, match="'pr' is not in both"):
        report.why(0, 1, "pr")


def test_a_file_that_was_not_read_is_listed_with_its_reason(tmp_path: Path) -> None:
    months(tmp_path, 2)
    (tmp_path / "z.nc").write_bytes(b"nothing")
    report = report_of(tmp_path)
    assert [Path(u.file).name for u in report.unread] == ["z.nc"]
    assert "z.nc is not a netCDF file" in (report.why(0, "z.nc").problem or "")


def test_the_report_of_many_files_stays_short_and_lists_frequent_reasons_once(tmp_path: Path) -> None:
    names = months(tmp_path, 1)
    for number in range(40):
        shutil.copy(names[0], tmp_path / f"same{number}.nc")
    report = report_of(tmp_path)
    text = str(report)
    assert len(text.splitlines()) < 60
    assert text.count("they have the same coordinates along all axes (40 times)") == 1
    assert len(report.as_dict()["groups"]["first"]) == 41


def test_it_is_strict_json_text_and_html(tmp_path: Path) -> None:
    months(tmp_path, 2)
    report = report_of(tmp_path)
    facts = json.loads(json.dumps(report.as_dict(), allow_nan=False))
    assert facts["groups"]["first"][0]["axes"][0]["first"] == "2000-01-01"
    assert "tas" in report._repr_html_()
    assert json.dumps(report.why(0, 1).as_dict(), allow_nan=False)
    assert "tas" in report.why(0, 1)._repr_html_()


def test_a_dataset_has_its_report_and_so_has_what_is_selected_of_it(tmp_path: Path) -> None:
    months(tmp_path, 3)
    dataset = cfagg.aggregate(tmp_path)
    assert dataset.cfagg.report.groups[0].name == "tas"
    assert dataset.isel(time=0).cfagg.report.why(0, 2).joined
    assert cfagg.read([tmp_path / "m0.nc", tmp_path / "m1.nc"]).cfagg.report.groups[0].files.count == 2


def test_a_report_keeps_a_dataset_from_nothing(tmp_path: Path) -> None:
    months(tmp_path, 2)
    dataset = cfagg.aggregate(tmp_path)
    dataset.to_netcdf(tmp_path / "out.nc4")
    assert pickle.loads(pickle.dumps(dataset)).cfagg.report.groups[0].name == "tas"
    assert dataset.copy(deep=True).cfagg.report.why(0, 1).joined


def test_a_dataset_of_another_origin_has_no_report(tmp_path: Path) -> None:
    dataset = cfagg.read(month(tmp_path / "m.nc", 0))
    with pytest.raises(OptionError, match="was not returned by"):
        _ = dataset.cfagg.report
    assert not hasattr(dataset.cfagg, "report")


def test_attributes_that_differ_are_named(tmp_path: Path) -> None:
    names = months(tmp_path, 2)
    with netCDF4.Dataset(names[1], "a") as file:
        file["tas"].comment = "other"
    assert "comment" in cfagg.aggregate(tmp_path).cfagg.report.groups[0].dropped


def test_dates_of_each_array_are_those_of_its_own_calendar_and_origin(tmp_path: Path) -> None:
    for number, units in enumerate(("days since 1999-01-01", "days since 2001-01-01")):
        month(tmp_path / f"a{number}.nc", number)
        path = month(tmp_path / f"x{number}.nc", number)
        with netCDF4.Dataset(path, "a") as file:
            file["time"].setncatts({"calendar": "noleap", "units": units})
    report = report_of(tmp_path)
    found = [(group.axes[0].first, group.axes[0].last) for group in report.groups]
    assert found == [("2000-01-01", "2000-01-04"), ("1999-01-01", "2001-01-04")]
    with netCDF4.Dataset(path, "a") as file:
        file["time"].units = "hours since 1999-01-01 12:00:00"
    (answer,) = report_of(tmp_path).why("x0.nc", "x1.nc").answers
    assert "1999-01-01 to 1999-01-02 and 1999-01-01T14:00:00 to 1999-01-01T15:00:00" in str(answer)


def test_coordinates_that_no_data_variable_uses_are_named(tmp_path: Path) -> None:
    names = [str(tmp_path / f"{k}.nc") for k in range(3)]
    for k, name in enumerate(names):
        with netCDF4.Dataset(month(Path(name), k), "a") as file:
            for extra in ("depth", "band")[: (2, 1, 0)[k]]:
                file.createDimension(extra, 2)
                file.createVariable(extra, "f4", (extra,))[:] = [1, 2]
    assert cfagg.aggregate(names).cfagg.report.notes == (
        "'depth' is left out: no data variable of 2 files uses it",
        f"'band' is left out: no data variable of {names[0]} uses it",
    )
    assert cfagg.aggregate(names[2:]).cfagg.report.notes == ()


def _swath(path: Path, lines: int, *, start: int | None = None) -> str:
    """Write temperatures in places along a track, of scan lines that have times if they start at one."""
    shape = (lines, 2)
    latitude = {"standard_name": "latitude", "units": "degrees_north"}
    place: dict[str, Any] = {"lat": (("line", "pixel"), np.full(shape, lines), latitude)}
    if start is not None:
        seconds = {"standard_name": "time", "units": "seconds since 2000-01-01"}
        place["when"] = ("line", np.arange(start, start + lines), seconds)
    kelvin = {"standard_name": "air_temperature", "units": "K"}
    xr.Dataset({"tas": (("line", "pixel"), np.ones(shape), kelvin)}, place).to_netcdf(path)
    return str(path)


def test_swaths_are_joined_by_the_times_of_their_scan_lines_as_the_remedy_says(tmp_path: Path) -> None:
    bare = [_swath(tmp_path / f"{k}.nc", 2 + k) for k in range(2)]
    report = str(cfagg.aggregate(bare).cfagg.report)
    assert "a standard_name, which identifies its positions, such as the times of a swath" in report
    timed = [_swath(tmp_path / f"t{k}.nc", 2 + k, start=10 * k) for k in range(2)]
    assert cfagg.aggregate(timed).tas.shape == (5, 2)


@pytest.mark.parametrize("same_time", [False, True])
def test_longitudes_from_0_and_from_180_west_are_to_be_written_alike(tmp_path: Path, same_time: bool) -> None:
    def write(name: str, day: int, longitudes: list[int], times: list[int]) -> str:
        said = {"standard_name": "longitude", "units": "degrees_east"}
        when = {"standard_name": "time", "units": "days since 2000-01-01"}
        values = np.ones((len(times), len(longitudes)))
        kelvin = {"standard_name": "air_temperature", "units": "K"}
        place = {"time": ("time", times, when), "lon": ("lon", np.array(longitudes, "f8"), said)}
        xr.Dataset({"tas": (("time", "lon"), values, kelvin)}, place).to_netcdf(tmp_path / name)
        return str(tmp_path / name)

    west = [-180, -90, 0, 90]
    one = write("a.nc", 0, west, [0])
    other = write("b.nc", 1, [0, 90, 180, 270], [0 if same_time else 1])
    assert "so add 360 to negative ones and sort by longitude" in str(cfagg.aggregate([one, other]).cfagg.report)
    alike = write("c.nc", 0, sorted(v % 360 for v in west), [0])
    if not same_time:
        assert cfagg.aggregate([alike, other]).tas.shape == (2, 4)


@pytest.mark.parametrize("way", ["S1", "strings"])
def test_texts_of_other_lengths_are_joined_as_the_remedy_says(tmp_path: Path, way: str) -> None:
    def write(name: str, time: int, dtype: str, length: int) -> str:
        with netCDF4.Dataset(tmp_path / name, "w") as file:
            file.createDimension("time", 1)
            file.createDimension("length", length)
            file.createVariable("time", "f8", ("time",)).setncatts(
                {"standard_name": "time", "units": "days since 2000-01-01"}
            )
            file["time"][:] = time
            if dtype == "S1":
                file.createVariable("label", "S1", ("time", "length"))[:] = np.full((1, length), b"a")
            else:
                file.createVariable("label", str, ("time",))[0] = "a" * length
        return str(tmp_path / name)

    options: dict[str, Any] = {"relaxed_identities": True, "relaxed_units": True}
    both = [write("a.nc", 0, "S1", 3), write("b.nc", 1, "S1", 4)]
    report = str(cfagg.aggregate(both, **options).cfagg.report)
    assert "texts of other lengths: write them as strings, or all with as many characters" in report
    if way == "S1":
        made = [write("c.nc", 0, "S1", 4), write("b.nc", 1, "S1", 4)]
    else:
        made = [write("c.nc", 0, way, 3), write("d.nc", 1, way, 4)]
    assert cfagg.aggregate(made, **options).sizes["time"] == 2


def test_variables_without_any_identified_dimension_are_told_apart_with_the_reason(tmp_path: Path) -> None:
    for k in range(2):
        xr.Dataset({"v": (("y", "x"), np.ones((2, 3)))}).to_netcdf(tmp_path / f"{k}.nc")
    report = str(cfagg.aggregate(tmp_path).cfagg.report)
    assert "v (v, v_1): it cannot be joined: it has no standard name; " in report
