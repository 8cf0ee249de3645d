"""Files that have times in common, one of them in the middle of another and stored backwards."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import netCDF4
import numpy as np
import pytest

import cfagg
from cfagg.errors import OptionError

PARTS = ((0, 10, 1), (3, 6, -1), (8, 12, -1))
TIME = {"standard_name": "time", "units": "days since 2000-01-01", "bounds": "time_bnds"}


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    """Return files whose values say of which file and time they are."""
    names = []
    for k, (start, stop, step) in enumerate(PARTS):
        names.append(str(tmp_path / f"{k}.nc"))
        time = np.arange(start, stop, dtype="f8")[::step]
        marked = np.stack([time + 100 * k] * 2, axis=1)
        with netCDF4.Dataset(names[-1], "w") as made:
            for dim, size in (("time", time.size), ("lat", 2), ("two", 2)):
                made.createDimension(dim, size)
            named: dict[str, tuple[tuple[str, ...], Any, dict[str, str]]] = {
                "time": (("time",), time, TIME),
                "time_bnds": (("time", "two"), np.stack([time - 0.5, time + 0.5], axis=1), {}),
                "lat": (("lat",), [1.0, 2.0], {"standard_name": "latitude", "units": "degrees_north"}),
                "height": (("time",), time * 10, {"standard_name": "height", "units": "m"}),
                "ps": (("time", "lat"), marked, {"standard_name": "surface_air_pressure", "units": "Pa"}),
                "tas": (("time", "lat"), marked, {"standard_name": "air_temperature", "units": "K"}),
            }
            for name, (dims, values, attributes) in named.items():
                made.createVariable(name, "f8", dims).setncatts(attributes)
                made[name][...] = values
            made["tas"].setncatts({"coordinates": "height", "ancillary_variables": "ps"})
    return names


@pytest.mark.parametrize("choice", ["first", "last"])
def test_the_report_and_its_page_say_how_many_variables_others_replaced(files, choice) -> None:
    twin = shutil.copy(files[0], f"{files[0]}.copy.nc")
    report = cfagg.aggregate([files[0], twin], on_overlap=choice).cfagg.report
    for text in (str(report), report._repr_html_()):
        assert "1 variable with the same coordinates left out (on_overlap)" in text


@pytest.mark.parametrize("choice", ["first", "last"])
def test_of_files_that_overlap_the_first_or_the_last_gives_all_that_belongs_to_a_time(files, choice) -> None:
    owner = np.empty(12, int)
    for k, (start, stop, _) in list(enumerate(PARTS))[:: -1 if choice == "first" else 1]:
        owner[start:stop] = k
    found = cfagg.aggregate(files, on_overlap=choice)
    expected = np.arange(12) + 100.0 * owner
    for name in ("tas", "ps"):
        np.testing.assert_array_equal(found[name].values, np.stack([expected] * 2, axis=1))
    np.testing.assert_array_equal(found["height"].values, np.arange(12) * 10.0)
    days = (found["time"].values - np.datetime64("2000-01-01")) / np.timedelta64(1, "D")
    np.testing.assert_array_equal(days, np.arange(12.0))
    edges = (found["time_bnds"].values - np.datetime64("2000-01-01")) / np.timedelta64(1, "D")
    np.testing.assert_array_equal(np.sort(edges, axis=1), np.stack([days - 0.5, days + 0.5], axis=1))


def test_files_that_overlap_are_named_where_that_is_an_error(files) -> None:
    said = r"'tas' of '.*0\.nc' and 'tas' of '.*2\.nc' have 2 coordinates along time in common"
    with pytest.raises(OptionError, match=said):
        cfagg.aggregate(files, on_overlap="error")
    assert len([n for n in cfagg.aggregate(files).data_vars if str(n).startswith("tas")]) == 3
