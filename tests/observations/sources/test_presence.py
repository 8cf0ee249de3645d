"""Moorings, profiles and other arrays in which variables have fewer dimensions than the observations."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Any

import netCDF4
import numpy as np
import pandas as pd
import pytest

from cfagg.errors import UnknownConventionWarning
from cfagg.observations.sources import netcdf as module
from cfagg.observations.sources.netcdf import NetcdfSource
from tests.observations.sources.dsg_files import variable
from tests.observations.sources.reading import rows

FILL = np.float32(-9)


def mooring(path: Path, **more: Any) -> pd.DataFrame:
    """Write a mooring in the form of OceanSITES, and return its rows as a loop over its elements finds them."""
    temp = np.arange(15, dtype="f4").reshape(5, 3)
    temp[[1, 3]] = FILL
    temp[4, :2] = FILL
    wind = np.array([1, 2, FILL, FILL, 5], "f4")
    with netCDF4.Dataset(path, "w") as file:
        for name, size in (("TIME", 5), ("DEPTH", 3), ("LATITUDE", 1), ("LONGITUDE", 1)):
            file.createDimension(name, size)
        variable(file, "TIME", ("TIME",), np.arange(5), "f8", units="days since 1950-01-01", standard_name="time")
        variable(file, "LATITUDE", ("LATITUDE",), [15], units="degrees_north")
        variable(file, "LONGITUDE", ("LONGITUDE",), [-38], units="degrees_east")
        variable(file, "DEPTH", ("DEPTH",), [1, 10, 50], units="m", positive="down", axis="Z")
        for name, dims, values in (("TEMP", ("TIME", "DEPTH"), temp), ("WSPD", ("TIME",), wind)):
            made = file.createVariable(name, "f4", dims, fill_value=FILL)
            made.units = "degC" if name == "TEMP" else "m s-1"
            made[:] = values
        for name, (dims, values, attributes) in more.items():
            variable(file, name, dims, values, **attributes)
    found = []
    for i in range(5):
        kept = [j for j in range(3) if temp[i, j] != FILL] or ([0] if wind[i] != FILL else [])
        found += [(i, [1, 10, 50][j], temp[i, j], wind[i]) for j in kept]
    frame = pd.DataFrame(found, columns=["day", "DEPTH", "TEMP", "WSPD"]).astype("f8")
    return frame.replace(float(FILL), np.nan)


def same(path: Path, expected: pd.DataFrame, **config: Any) -> pd.DataFrame:
    found = rows(NetcdfSource({"path": str(path), **config})).sort_values(["date", "DEPTH"])
    assert set(found["latitude"]) == {15}
    assert set(found["longitude"]) == {-38}
    days = (found["date"] - pd.Timestamp(1950, 1, 1)) / pd.Timedelta(days=1)
    np.testing.assert_array_equal(days, expected["day"])
    for name in ("DEPTH", "TEMP", "WSPD"):
        np.testing.assert_array_equal(found[name], expected[name])
    return found


@pytest.mark.parametrize("block", [1, 2, 4, 1000])
def test_the_wind_above_a_mooring_stays_where_there_is_nothing_below(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, block: int
) -> None:
    monkeypatch.setattr(module, "BLOCK", block)
    expected = mooring(tmp_path / "a.nc")
    assert len(expected) == 8
    found = same(tmp_path / "a.nc", expected)
    assert found.index.tolist() == [1, 2, 3, 4, 7, 8, 9, 15]


def test_a_mooring_of_one_time_is_read(tmp_path: Path) -> None:
    with netCDF4.Dataset(tmp_path / "a.nc", "w") as file:
        for name, size in (("TIME", 1), ("DEPTH", 3), ("LATITUDE", 1), ("LONGITUDE", 1)):
            file.createDimension(name, size)
        variable(file, "TIME", ("TIME",), [2], "f8", units="days since 1950-01-01", standard_name="time")
        variable(file, "LATITUDE", ("LATITUDE",), [15], units="degrees_north")
        variable(file, "LONGITUDE", ("LONGITUDE",), [-38], units="degrees_east")
        variable(file, "LEVEL", ("DEPTH",), [1, 10, 50], units="m", positive="down")
        variable(file, "TEMP", ("TIME", "DEPTH"), [[1, 2, 3]], units="degC")
    found = rows(NetcdfSource({"path": str(tmp_path / "a.nc")}))
    assert found["TEMP"].tolist() == [1, 2, 3]
    assert set(found["date"]) == {pd.Timestamp(1950, 1, 3)}


@pytest.mark.parametrize(
    ("dims", "attributes"),
    [
        (("TIME",), {}),
        (("TIME",), {"units": "1"}),
        (("TIME",), {"units": "days since 1950-01-01"}),
        (("TIME",), {"units": "m", "positive": "up"}),
        (("DEPTH",), {"units": "m"}),
    ],
)
def test_numbers_of_casts_and_levels_make_no_rows(tmp_path: Path, dims: tuple[str, ...], attributes: Any) -> None:
    size = {"TIME": 5, "DEPTH": 3}[dims[0]]
    expected = mooring(tmp_path / "a.nc", other=(dims, np.arange(size), attributes))
    config = {"flavour": {"date": "TIME"}}
    same(tmp_path / "a.nc", expected, **config)


def test_flags_of_tests_at_a_station_make_no_rows(tmp_path: Path) -> None:
    # As in HadISD, whose place has a dimension of one element, too.
    with netCDF4.Dataset(tmp_path / "a.nc", "w") as file:
        for name, size in (("time", 5), ("coordinate_length", 1), ("test", 3)):
            file.createDimension(name, size)
        variable(file, "time", ("time",), np.arange(5), "f8", units="hours since 1931-01-01", standard_name="time")
        for name in ("latitude", "longitude"):
            variable(file, name, ("coordinate_length",), [50], standard_name=name, units="degrees")
        variable(file, "temperatures", ("time",), np.arange(5), units="degC")
        variable(file, "quality_control_flags", ("time", "test"), np.zeros((5, 3)))
    with pytest.warns(UnknownConventionWarning, match="quality_control_flags"):
        found = rows(NetcdfSource({"path": str(tmp_path / "a.nc")}))
    assert found["temperatures"].tolist() == [0, 1, 2, 3, 4]


def test_parts_of_a_build_have_the_rows_of_their_dates(tmp_path: Path) -> None:
    mooring(tmp_path / "a.nc")
    source = NetcdfSource({"path": str(tmp_path / "a.nc")})
    counts = [len(rows(source, datetime(1950, 1, i), datetime(1950, 1, i + 1))) for i in range(1, 6)]
    assert counts == [3, 1, 3, 0, 1]
