"""The grammar of --select and --over."""

import argparse

import cftime
import numpy as np
import pytest
import xarray as xr
from hypothesis import given, settings
from hypothesis import strategies as st

from cfagg.cf.dimension_kinds import kinds
from cfagg.cli import selecting
from cfagg.errors import SelectionError
from tests.effort import examples


def array(lat=None, lon=None, time=None):
    coords = {
        "time": xr.date_range("2000-01-01", periods=1000, freq="D") if time is None else time,
        "lat": ("lat", np.arange(80.0, -81, -20) if lat is None else lat, {"units": "degrees_north"}),
        "lon": ("lon", np.arange(0.0, 360, 30) if lon is None else lon, {"units": "degrees_east"}),
        "name": ["a", "b", "c"],
    }
    shape = (len(coords["time"]), len(coords["lat"][1]), len(coords["lon"][1]), 3, 4)
    dims = ("time", "lat", "lon", "name", "member")
    return xr.DataArray(np.broadcast_to(np.int8(0), shape), coords=coords, dims=dims, name="tas")


def chosen(text, of=None):
    """Positions, as a list or a number."""
    of = array() if of is None else of
    [(dim, found)] = selecting.positions([selecting.selection(text)], of, kinds(of)).items()
    return (dim, found) if isinstance(found, int) else (dim, np.arange(of.sizes[dim])[found].tolist())


@pytest.mark.parametrize(
    ("text", "dim", "expected"),
    [
        ("lat=40", "lat", 2),
        ("latitude=-40", "lat", 6),
        ("LAT=0:40", "lat", [2, 3, 4]),
        ("lat=40:0", "lat", [2, 3, 4]),
        ("lat=40/0", "lat", [2, 3, 4]),
        ("lat=:-50", "lat", [7, 8]),
        ("lat=70/", "lat", [0]),
        ("y=19.9:20.1", "lat", [3]),
        ("lon=30:90", "lon", [1, 2, 3]),
        ("lon=-60:30", "lon", [10, 11, 0, 1]),
        ("x=330:30", "lon", [11, 0, 1]),
        ("lon=-180:180", "lon", list(range(12))),
        ("lon=0:360", "lon", list(range(12))),
        ("lon=100:", "lon", list(range(4, 12))),
        ("lon=390:450", "lon", [1, 2, 3]),
        ("time=2000-02", "time", list(range(31, 60))),
        ("t=2000-02-03", "time", 33),
        ("time=2000-02-03T00:00", "time", 33),
        ("time=2000-12-30/2001-01-02", "time", [364, 365, 366, 367]),
        ("time=2000-12-30:2001-01-02", "time", [364, 365, 366, 367]),
        ("time=2000-12-30T12:00/2001-01-02T00:00", "time", [365, 366, 367]),
        ("time=2002-09-25/", "time", [998, 999]),
        ("time=[3]", "time", 3),
        ("time=[-1]", "time", 999),
        ("time=[10:13]", "time", [10, 11, 12]),
        ("time=[::400]", "time", [0, 400, 800]),
        ("time=[ -3 : ]", "time", [997, 998, 999]),
        ("time=[5, 1,-1]", "time", [5, 1, 999]),
        ("name=b", "name", 1),
        ("name=a/b", "name", [0, 1]),
        ("member=[2]", "member", 2),
    ],
)
def test_selections_mean_positions(text, dim, expected):
    assert chosen(text) == (dim, expected)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("lat=30", "no lat of 30; the nearest are 20 and 40"),
        ("lat=north", "'north' is not a number"),
        ("lat=85:90", "selects nothing; lat runs from 80 to -80"),
        ("lat=:", "at least one end"),
        ("lat=1:2:3", "write first/last"),
        ("time=2010", "no such time; time runs from 2000-01-01 to 2002-09-26"),
        ("time=2001/2000", "selects nothing"),
        ("time=yesterday", "no such time"),
        *((f"time={t}", "no such time") for t in ("NaN", "NaT", "2001/NaN", "NaT/2001", "nan/", "/null")),
        ("time=[1000]", "there is no position 1000; the dimension has 1,000"),
        ("time=[10:5]", "selects nothing"),
        ("time=[::-1]", "step of -1"),
        ("name=z", "no such name"),
        ("member=2", "has no coordinate; select positions, as member=[0:10]"),
        ("height=2", "no dimension 'height'; it has time, lat, lon, name, member"),
    ],
)
def test_what_is_not_there_is_said(text, message):
    with pytest.raises(SelectionError) as raised:
        chosen(text)
    assert message in raised.value.message
    assert "\n" not in raised.value.message


@pytest.mark.parametrize(
    "text",
    ["lat", "=3", "lat=", "lat=[a]", "lat=[-]", "lat=[1:-:2]", "lat=[]", "lat=[1:2:3:4]", "lat=[1,]", "time=1/2/3"],
)
def test_what_has_another_form_is_wrong_usage(text):
    with pytest.raises(argparse.ArgumentTypeError):
        selecting.selection(text)


@pytest.mark.parametrize("text", ["lat,", "", "lat,lat"])
def test_lists_of_names_have_no_holes_and_no_repetition(text):
    with pytest.raises(argparse.ArgumentTypeError):
        selecting.names(text)


def test_a_dimension_is_selected_from_once():
    of = array()
    with pytest.raises(SelectionError, match="dimension 'lat' is selected twice"):
        selecting.positions([selecting.selection("lat=0"), selecting.selection("latitude=20")], of, kinds(of))


def test_single_precision_labels_are_found_as_they_are_printed():
    of = array(lat=np.array([0.1, 0.2, 0.3], "f4"))
    assert chosen("lat=0.1:0.3", of) == ("lat", [0, 1, 2])
    assert chosen("lat=0.3", of) == ("lat", 2)


def test_dates_of_other_calendars_are_selected_by_parts():
    time = xr.date_range("2000-01-01", periods=720, freq="D", calendar="360_day", use_cftime=True)
    assert isinstance(time[0], cftime.datetime)
    of = array(time=time)
    assert chosen("time=2000-02", of) == ("time", list(range(30, 60)))
    assert chosen("time=2000-02-30/2000-03-01", of) == ("time", [59, 60])
    with pytest.raises(SelectionError, match="no such time; time runs from 2000-01-01 to 2001-12-30"):
        chosen("time=2000-02-31", of)


@settings(max_examples=examples(60))
@given(
    first=st.integers(-720, 720), width=st.integers(0, 400), step=st.sampled_from([7.5, 30, 45]),
    start=st.sampled_from([0.0, -180.0, 3.75]),
)  # fmt: skip
def test_longitudes_go_round(first, width, step, start):
    lon = np.arange(start, start + 360, step)
    expected = {i for i, x in enumerate(lon) if (x - first) % 360 <= min(width, 359.999)}
    if not expected:
        return
    _, found = chosen(f"lon={first}:{first + width}", array(lon=lon))
    assert set(found) == (set(range(len(lon))) if width >= 360 else expected)
    if width < 360:
        assert (np.diff(lon[found]) % 360 == step).all()


def test_common_names_are_understood_where_it_is_clear():
    assert selecting.dimension("lat", {"t": "time", "rlat": "latitude"}, "tas") == "rlat"
    assert selecting.dimension("time", {"t": "time", "x": "longitude"}, "tas") == "t"
    assert selecting.dimension("lat", {"lat": "other", "latitude": "latitude"}, "tas") == "lat"
    assert selecting.dimension_by_name("lat", ("y", "latitude")) is None
    with pytest.raises(SelectionError, match="'lat' may mean rlat or ylat of 'tas'"):
        selecting.dimension("lat", {"rlat": "latitude", "ylat": "latitude"}, "tas")
