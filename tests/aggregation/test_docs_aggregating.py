"""What the page on aggregating promises, and that its table has all options with their defaults."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path
from typing import Any

import netCDF4
import numpy as np
import pytest
import xarray as xr

import cfagg
from cfagg.cf.joining import Options
from tests.aggregation.months import month, months

PAGE = (Path(__file__).parents[2] / "docs" / "aggregating.md").read_text(encoding="utf-8")


def changed(path: Path | str, name: str = "", **attributes: Any) -> None:
    """Set attributes of a variable of a file, or of the file."""
    with netCDF4.Dataset(path, "a") as file:
        (file[name] if name else file).setncatts(attributes)


def data(found: xr.Dataset) -> list[str]:
    """Return the names of the variables of temperature."""
    return [str(n) for n in found.data_vars if found[n].attrs.get("standard_name") == "air_temperature"]


def test_the_table_has_all_options_with_their_defaults() -> None:
    rows = re.findall(r"^\| `(\w+)` \| `(.+?)` \|", PAGE, re.MULTILINE)
    assert {name: eval(default) for name, default in rows} == {f.name: f.default for f in fields(Options)}


def test_names_of_variables_and_dimensions_and_descriptions_do_not_count(tmp_path: Path) -> None:
    first = month(tmp_path / "a.nc", 0)
    second = tmp_path / "b.nc"
    with xr.open_dataset(month(tmp_path / "m.nc", 1), decode_times=False) as opened:
        renamed = opened.rename(tas="temp", time="t", lat="y", lon="x").assign_attrs(title="other", history="other")
        renamed["temp"].attrs["long_name"] = "other"
        renamed.encoding = {}
        renamed.to_netcdf(second)
    found = cfagg.aggregate([first, second])
    assert (data(found), found["tas"].dims, found.sizes["time"]) == (["tas"], ("time", "lat", "lon"), 4)
    np.testing.assert_array_equal(found["tas"][:, 1, 2], [5, 11, 105, 111])


@pytest.mark.parametrize(
    ("name", "attribute", "value"),
    [
        ("tas", "standard_name", "sea_surface_temperature"),
        ("tas", "units", "m"),
        ("tas", "cell_methods", "time: mean"),
        ("time", "calendar", "noleap"),
        ("time", "calendar", "360_day"),
    ],
)
def test_other_quantities_methods_and_calendars_stay_apart(
    tmp_path: Path, name: str, attribute: str, value: str
) -> None:
    paths = months(tmp_path, 2)
    changed(paths[1], name, **{attribute: value})
    assert len([n for n in cfagg.aggregate(paths).data_vars if str(n).startswith("tas")]) == 2


def test_units_are_those_of_the_first_file_and_others_are_converted(tmp_path: Path) -> None:
    paths = months(tmp_path, 2)
    changed(paths[1], "tas", units="degC")
    found = cfagg.aggregate(paths)["tas"]
    assert found.attrs["units"] == "K"
    np.testing.assert_allclose(found[2, 0], [373.15, 374.15, 375.15], rtol=1e-6)


def test_times_of_other_origins_and_units_are_compared_as_dates(tmp_path: Path) -> None:
    paths = months(tmp_path, 2)
    with netCDF4.Dataset(paths[1], "a") as file:
        file["time"].units = "hours since 2000-01-02"
        file["time"][:] = [24, 48]
    found = cfagg.aggregate(paths)
    assert [str(t)[:10] for t in found["time"].values] == ["2000-01-01", "2000-01-02", "2000-01-03", "2000-01-04"]


def test_latitudes_from_north_to_south_are_turned(tmp_path: Path) -> None:
    paths = months(tmp_path, 2)
    with netCDF4.Dataset(paths[1], "a") as file:
        file["lat"][:] = [45.0, -45.0]
        file["tas"][:] = file["tas"][:][:, ::-1]
    found = cfagg.aggregate(paths)
    np.testing.assert_array_equal(found["lat"], [-45.0, 45.0])
    np.testing.assert_array_equal(found["tas"][2], [[100, 101, 102], [103, 104, 105]])


def test_coordinates_that_differ_by_rounding_are_equal_and_others_are_not(tmp_path: Path) -> None:
    paths = months(tmp_path, 3)
    for path, more in zip(paths, (0.0, 1e-13, 1e-6), strict=True):
        with netCDF4.Dataset(path, "a") as file:
            file["lon"][:] = [0.1, 120.1 + more, 240.1]
    assert cfagg.aggregate(paths[:2]).sizes["time"] == 4
    assert len(data(cfagg.aggregate(paths[::2]))) == 2
    assert cfagg.aggregate(paths, atol=1e-5).sizes["time"] == 6


def test_lengths_may_differ_and_the_order_of_files_does_not_matter(tmp_path: Path) -> None:
    paths = [
        month(tmp_path / "a.nc", 0, days=5),
        month(tmp_path / "b.nc", 4, days=2),
        month(tmp_path / "c.nc", 3, days=4),
    ]
    one, other = cfagg.aggregate(paths), cfagg.aggregate(paths[::-1])
    assert one.sizes["time"] == 11
    xr.testing.assert_equal(one, other)


def test_a_scalar_coordinate_becomes_a_dimension(tmp_path: Path) -> None:
    paths = months(tmp_path, 2)
    for number, path in enumerate(paths):
        with netCDF4.Dataset(path, "a") as file:
            file["time"][:] = [0, 1]
            member = file.createVariable("member", "i4", ())
            member.setncatts({"standard_name": "realization", "units": "1"})
            member[...] = 7 + number
            file["tas"].coordinates = "member"
    found = cfagg.aggregate(paths)
    assert found["tas"].sizes == {"member": 2, "time": 2, "lat": 2, "lon": 3}
    np.testing.assert_array_equal(found["member"], [7, 8])


def test_what_would_leave_a_hole_stays_apart(tmp_path: Path) -> None:
    paths = months(tmp_path, 2)
    with netCDF4.Dataset(paths[1], "a") as file:
        file["lat"][:] = [50.0, 60.0]
    found = cfagg.aggregate(paths)
    assert data(found) == ["tas", "tas_1"]
    assert found.cfagg.report.why(0, 1).answers[0].rule == "axes"


def test_simulations_that_overlap_are_parted_by_what_archives_call_them(tmp_path: Path) -> None:
    paths = [*months(tmp_path / "a", 3), *months(tmp_path / "b", 2)]
    for number, path in enumerate(paths):
        changed(path, source_id="A" if number < 3 else "B")
    assert [cfagg.aggregate(paths)[n].shape[0] for n in ("tas", "tas_1")] == [6, 4]


def test_a_scenario_continues_a_historical_simulation_unless_asked_to_stay_apart(tmp_path: Path) -> None:
    paths = months(tmp_path, 2)
    for path, experiment in zip(paths, ("historical", "ssp585"), strict=True):
        changed(path, experiment_id=experiment)
    assert data(cfagg.aggregate(paths)) == ["tas"]
    assert data(cfagg.aggregate(paths, equal="experiment_id")) == ["tas", "tas_1"]


def test_an_attribute_becomes_an_axis_of_an_ensemble(tmp_path: Path) -> None:
    paths = [str(month(tmp_path / f"{k}.nc", 0)) for k in range(3)]
    for k, path in enumerate(paths):
        changed(path, variant_label=f"r{k}i1p1f1")
    found = cfagg.aggregate(paths, dimension="variant_label")
    assert sorted(found["tas"].sizes.values()) == [2, 2, 3, 3]
    assert "r2i1p1f1" in found["variant_label"].values


def test_attributes_that_differ_are_joined_or_left_out_and_listed(tmp_path: Path) -> None:
    paths = months(tmp_path, 2)
    for number, path in enumerate(paths):
        changed(path, title="same", history=f"run {number}")
        changed(path, "tas", comment=f"c{number}", level=np.int32(number), long_name="same")
    found = cfagg.aggregate(paths)
    assert (found.attrs["title"], "history" in found.attrs) == ("same", False)
    assert found["tas"].attrs["comment"] == "c0 :AGGREGATED: c1"
    assert found["tas"].attrs["long_name"] == "same"
    apart = cfagg.aggregate(paths, concatenate=False)
    assert not {"comment", "level"} & apart["tas"].attrs.keys()
    assert {"comment", "level"} <= set(apart.cfagg.report.groups[0].dropped)


def test_only_files_that_a_selection_touches_are_opened(tmp_path: Path) -> None:
    paths = months(tmp_path, 3)
    found = cfagg.aggregate(paths)["tas"]
    for path in paths[1:]:
        Path(path).unlink()
    np.testing.assert_array_equal(found[0, 1], [3, 4, 5])
    with pytest.raises(cfagg.CfaggError):
        found[2].load()


def test_a_file_that_changed_since_the_scan_raises(tmp_path: Path) -> None:
    paths = months(tmp_path, 2)
    found = cfagg.aggregate(paths)["tas"]
    with netCDF4.Dataset(paths[1], "a") as file:
        file["tas"][:] = 0
        file.history = "changed"
    with pytest.raises(cfagg.errors.FragmentMismatchError, match="aggregate the files again"):
        found.load()


def test_the_default_fill_value_is_missing(tmp_path: Path) -> None:
    paths = months(tmp_path, 2)
    with netCDF4.Dataset(paths[1], "a") as file:
        file["tas"][0, 0, 0] = netCDF4.default_fillvals["f4"]
    assert np.isnan(cfagg.aggregate(paths)["tas"][2, 0, 0])


def test_a_file_that_is_none_is_an_error_or_is_listed(tmp_path: Path) -> None:
    paths = months(tmp_path, 2)
    (tmp_path / "bad.nc").write_bytes(b"none")
    with pytest.raises(cfagg.errors.SourceError, match=r"bad\.nc"):
        cfagg.aggregate(tmp_path)
    found = cfagg.aggregate(tmp_path, skip_errors=True)
    assert found.sizes["time"] == 4
    assert [Path(one.file).name for one in found.cfagg.report.unread] == ["bad.nc"]
    with pytest.raises(cfagg.errors.SourceNotFoundError):
        cfagg.aggregate(tmp_path / "*.zarr")
    assert cfagg.aggregate([*paths, paths[0]]).sizes["time"] == 4
