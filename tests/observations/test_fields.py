"""Fields of a gridded Dataset as samples."""

from __future__ import annotations

import pickle

import cftime
import numpy as np
import pytest
import xarray as xr

import cfagg
from cfagg.demo import sample
from cfagg.errors import CalendarError, OptionError
from cfagg.observations.fields import Fields

TIMES = np.array(["2020-01-01T00", "2020-01-01T06", "2020-01-01T12"], "M8[ns]")


def gridded(**extra) -> xr.Dataset:
    """Two variables on three times, two latitudes and four longitudes, the second in another order of dimensions."""
    values = np.arange(24, dtype="f4").reshape(3, 2, 4)
    return xr.Dataset(
        {
            "t": (("time", "lat", "lon"), values),
            "q": (("lon", "time", "lat"), values.transpose(2, 0, 1) * 10),
            "height": (("lat", "lon"), np.full((2, 4), 7, "f4")),
            **extra,
        },
        {"time": TIMES, "lat": [50.0, 40.0], "lon": [0.0, 90.0, 180.0, 270.0]},
        {"title": "made"},
    )


def test_a_field_has_the_variables_with_time_in_one_order_of_dimensions() -> None:
    fields = Fields(gridded())
    assert (fields.variables, fields.dims, fields.shape, len(fields)) == (("t", "q"), ("lat", "lon"), (2, 2, 4), 3)
    values = np.arange(24, dtype="f4").reshape(3, 2, 4)
    assert np.array_equal(fields[1], [values[1], values[1] * 10])
    assert np.array_equal(fields[-1], fields[2])
    assert fields[1].dtype == np.float32


def test_several_fields_come_one_after_the_other() -> None:
    fields = Fields(gridded(), ["q", "height"])
    assert np.array_equal(fields[[2, 0]], np.stack([fields[2], fields[0]]))
    assert np.array_equal(fields[::2], fields[[0, 2]])
    assert (fields[1][1] == 7).all()


def test_details_of_a_field_are_those_of_its_points() -> None:
    details = Fields(gridded()).details(1)
    assert details.latitudes.tolist() == [50] * 4 + [40] * 4
    assert details.longitudes.tolist() == [0, 90, 180, 270] * 2
    assert set(details.dates.astype(str).tolist()) == {"2020-01-01T06:00:00"}
    assert (len(details), details.timedeltas.tolist()) == (8, [0] * 8)


def test_places_may_have_both_dimensions_or_be_those_of_points() -> None:
    places = {"lat": (("y", "x"), [[1.0, 2.0], [3.0, 4.0]]), "lon": (("y", "x"), [[5.0, 6.0], [7.0, 8.0]])}
    curved = xr.Dataset({"t": (("time", "y", "x"), np.zeros((3, 2, 2)))}, {"time": TIMES, **places})
    assert Fields(curved).details(0).latitudes.tolist() == [1, 2, 3, 4]
    cells = xr.Dataset(
        {"t": (("time", "cell"), np.zeros((3, 2)))},
        {"time": TIMES, "a": ("cell", [1.0, 2.0], {"units": "degrees_north"}),
         "b": ("cell", [3.0, 4.0], {"standard_name": "longitude"})},
    )  # fmt: skip
    assert Fields(cells).details(0).longitudes.tolist() == [3, 4]


def test_fields_without_places_have_values_but_no_details() -> None:
    fields = Fields(xr.Dataset({"t": (("time", "cell"), np.zeros((3, 2)))}, {"time": TIMES}))
    assert fields[0].shape == (1, 2)
    with pytest.raises(OptionError, match="no coordinate latitude"):
        fields.details(0)


def test_times_of_cftime_in_a_standard_calendar_are_dates() -> None:
    times = xr.date_range("2020-01-01", periods=3, freq="6h", calendar="standard", use_cftime=True)
    fields = Fields(gridded().assign_coords(time=times))
    assert np.array_equal(fields.dates, TIMES)


@pytest.mark.parametrize("calendar", ["360_day", "noleap", "julian"])
def test_another_calendar_raises(calendar) -> None:
    times = xr.date_range("2020-01-01", periods=3, freq="6h", calendar=calendar, use_cftime=True)
    with pytest.raises(CalendarError, match=calendar):
        Fields(gridded().assign_coords(time=times))


@pytest.mark.parametrize(
    "times",
    [
        TIMES[[0, 0, 1]],
        np.array(["2020-01-01", "NaT", "2020-01-02"], "M8[ns]"),
        TIMES + np.timedelta64(1, "ms"),
        np.array([1, 2, 3]),
        np.array([cftime.datetime(2020, 1, 1, 0, 0, 0, 5, calendar="standard") for _ in range(3)]),
    ],
)
def test_times_that_are_no_dates_of_whole_seconds_or_stand_twice_raise(times) -> None:
    with pytest.raises(OptionError):
        Fields(gridded().assign_coords(time=times))


def test_variables_that_cannot_be_stacked_raise_all_at_once() -> None:
    other = gridded(a=(("time", "z"), np.zeros((3, 5))), b=(("time",), np.zeros(3)))
    with pytest.raises(OptionError, match="different grids") as caught:
        Fields(other)
    assert [p.where for p in caught.value.problems] == ["a", "b"]
    with pytest.raises(OptionError) as caught:
        Fields(gridded(name=(("time",), ["a", "b", "c"])), ["t", "x", "name"])
    assert [p.where for p in caught.value.problems] == ["x", "name"]
    with pytest.raises(OptionError, match="time dimensions"):
        Fields(gridded().isel(time=0))
    with pytest.raises(OptionError, match="no time"):
        Fields(gridded(), time="z")


def test_bounds_are_no_fields() -> None:
    bounds = xr.Dataset({"time_bnds": (("time", "nv"), np.zeros((3, 2)))})
    dataset = xr.merge([gridded(), bounds])
    dataset["time"].attrs["bounds"] = "time_bnds"
    assert Fields(dataset).variables == ("t", "q")


def test_a_lazy_aggregation_gives_its_fields_also_from_a_pickle() -> None:
    dataset = cfagg.read(sample("temperature.nca"))
    # A model year without leap days: the same months of a real year.
    months = np.arange(dataset.sizes["time"]).astype("M8[M]")
    dataset = dataset.assign_coords(time=months.astype("M8[s]"))
    name = next(n for n, v in dataset.data_vars.items() if "time" in v.dims and v.ndim >= 3)
    fields = pickle.loads(pickle.dumps(Fields(dataset, str(name))))
    assert np.array_equal(fields[3][0], dataset[name].isel(time=3).values, equal_nan=True)


def test_metadata_tell_source_variables_and_times() -> None:
    found = Fields(gridded()).metadata()
    assert (found["variables"], found["shape"], found["samples"]) == (["t", "q"], [2, 2, 4], 3)
    assert (found["start"], found["end"]) == ("2020-01-01T00:00:00", "2020-01-01T12:00:00")
    assert found["sources"][0]["attributes"] == {"title": "made"}
