"""Results as text and as JSON."""

import json

import cftime
import numpy as np
import xarray as xr

from cfagg.display.statistic import Query, Selection, as_json, selected, text_lines


def asked(**changes):
    options = {"store": "a.zarr", "variable": "tas", "statistic": "mean", "over": ("time",), "group": None}
    return Query(**{**options, "selected": {}, "weights": None, **changes})


def test_the_title_lists_what_was_reduced():
    assert asked(over=("time", "lat", "lon"), statistic="std").title == "standard deviation over time, lat and lon"
    assert asked(over=(), group="year").title == "mean, by year"


def test_selections_are_written_in_degrees_dates_or_units():
    assert str(Selection(-30.0, 60.0, 4, 9, "degrees_east", "longitude")) == "30°W to 60°E"
    assert str(Selection(170.0, 190.0, 4, 9, "degrees_east", "longitude")) == "170°E to 170°W"
    # Most of the Earth does not look like a strip.
    assert str(Selection(0.0, 357.0, 4, 9, "degrees_east", "longitude")) == "0° to 357°E"
    assert str(Selection(-180.0, 177.0, 4, 9, "degrees_east", "longitude")) == "180° to 177°E"
    assert str(Selection(500.0, 500.0, 1, 9, "hPa", "vertical")) == "500 hPa"
    days = xr.DataArray(np.zeros(3), coords={"time": xr.date_range("2000-01-01", periods=3, freq="12h")}, dims="time")
    assert str(selected(days, "time", "time", slice(0, 2))) == "2000-01-01 to 2000-01-01T12:00:00"
    assert str(selected(xr.DataArray(np.zeros(3), dims="x"), "x", "other", 1)) == "position 1"
    assert str(selected(xr.DataArray(np.zeros(3), dims="x"), "x", "other", np.array([2, 0]))) == "positions 2 to 0"


def test_whole_numbers_are_written_in_all_digits():
    assert text_lines(xr.DataArray(123456789012, name="n"), asked())[-1] == "  result  123456789012"
    lines = text_lines(xr.DataArray([2**53, 2**53 + 1], dims="x", name="n"), asked())
    assert [line.split() for line in lines if "highest" in line] == [["highest", "9007199254740993", "at", "x", "[1]"]]


def test_a_result_without_any_value_says_so():
    lines = text_lines(xr.DataArray([np.nan, np.nan], dims="x", name="tas"), asked())
    assert "  missing  2 of 2" in lines
    assert lines[-1].split() == ["1", "missing"]
    assert text_lines(xr.DataArray(np.nan, name="tas", attrs={"units": "K"}), asked())[-1] == "  result  missing K"


def test_hostile_names_and_units_forge_no_lines():
    array = xr.DataArray([1.0, 2.0], dims="x\n", name="tas", attrs={"units": "K\x1b[2J", "long_name": "a\nb"})
    lines = text_lines(array, asked(store="\x1b]0;x\x07"))
    assert all(line.isprintable() for line in lines)
    assert "\x1b" not in as_json(array, asked(store="\x1b]0;x\x07"))


def test_json_is_strict():
    time = np.array([cftime.datetime(2000, 2, 30, calendar="360_day"), cftime.datetime(2000, 3, 1, calendar="360_day")])
    array = xr.DataArray(
        [[np.nan, np.inf]], dims=("x", "time"), coords={"time": time, "n": 1, "s": ("x", ["ü"])}, name="tas"
    )
    found = json.loads(as_json(array, asked()), parse_constant=lambda c: 1 / 0)
    assert found["values"] == [["NaN", "Infinity"]]
    assert found["coordinates"]["time"] == {
        "dims": ["time"], "values": ["2000-02-30T00:00:00", "2000-03-01T00:00:00"], "attributes": {},
        "calendar": "360_day",
    }  # fmt: skip
    assert found["coordinates"]["n"]["values"] == 1
    assert found["coordinates"]["s"]["values"] == ["ü"]
