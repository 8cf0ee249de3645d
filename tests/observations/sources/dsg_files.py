"""Files of each form of CF's discrete sampling geometries (appendix H), and the observations in them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import netCDF4
import numpy as np
import pandas as pd

__all__ = ["FORMS", "write_form"]

UNITS = "hours since 2020-01-01"
FILL = -999.0

#: Name -> (featureType, writer); a writer fills a file and returns one tuple for each observation:
#: hour, latitude, longitude, temperature, and height where the form has one.
FORMS: dict[str, tuple[str, Callable[[Any], list[tuple[float, ...]]]]] = {}


def form(name: str, feature: str) -> Any:
    def keep(writer: Any) -> Any:
        FORMS[name] = (feature, writer)
        return writer

    return keep


def write_form(path: Path, name: str) -> pd.DataFrame:
    """Write a file; return its observations, sorted."""
    feature, writer = FORMS[name]
    with netCDF4.Dataset(path, "w") as file:
        file.setncatts({"Conventions": "CF-1.11", "featureType": feature})
        found = writer(file)
    hours, latitude, longitude, *rest = zip(*found, strict=True)
    frame = pd.DataFrame(
        {
            "date": np.datetime64("2020-01-01", "us") + (np.array(hours) * 3600).astype("m8[s]"),
            "latitude": latitude,
            "longitude": longitude,
            **dict(zip(["t", "height"], rest, strict=False)),
        }
    )
    return frame.sort_values(frame.columns.tolist(), ignore_index=True)


def variable(file: Any, name: str, dims: tuple[str, ...], values: Any, dtype: str = "f4", **attributes: Any) -> None:
    fill = FILL if dtype.startswith("f") and dims else None
    made = file.createVariable(name, dtype, dims, fill_value=fill)
    made.setncatts(attributes)
    made[...] = np.where(np.isnan(values), FILL, values) if dtype.startswith("f") else values


def places(file: Any, time: tuple[str, ...], place: tuple[str, ...], hours: Any, lat: Any, lon: Any) -> None:
    variable(file, "time", time, hours, "f8", standard_name="time", units=UNITS)
    variable(file, "lat", place, lat, standard_name="latitude", units="degrees_north")
    variable(file, "lon", place, lon, standard_name="longitude", units="degrees_east")


def temperature(file: Any, dims: tuple[str, ...], values: Any) -> None:
    variable(file, "t", dims, values, standard_name="air_temperature", units="K", coordinates="time lat lon")


def height(file: Any, dims: tuple[str, ...], values: Any) -> None:
    variable(file, "height", dims, values, standard_name="height", units="m", positive="up", axis="Z")


def names(file: Any, dim: str, role: str) -> None:
    """Write names as characters, which become no column."""
    file.createDimension("name_length", 3)
    made = file.createVariable("name", "S1", (dim, "name_length"))
    made.cf_role = role
    made[...] = np.full((len(file.dimensions[dim]), 3), b"x")


@form("point", "point")
def point(file: Any) -> Any:
    file.createDimension("obs", 3)
    rows = [(1.0, 50.0, 5.0, 280.0), (0.5, -10.0, 355.0, 300.0), (7.0, 0.0, 0.0, 290.0)]
    hours, lat, lon, t = zip(*rows, strict=True)
    places(file, ("obs",), ("obs",), hours, lat, lon)
    temperature(file, ("obs",), t)
    return rows


@form("time series, single", "timeSeries")
def series_single(file: Any) -> Any:
    file.createDimension("time", 3)
    places(file, ("time",), (), [0, 1, 2], 50.0, 5.0)
    temperature(file, ("time",), [1, 2, 3])
    return [(h, 50.0, 5.0, h + 1.0) for h in range(3)]


@form("time series, orthogonal", "timeSeries")
def series_orthogonal(file: Any) -> Any:
    file.createDimension("station", 2)
    file.createDimension("time", 3)
    places(file, ("time",), ("station",), [0, 1, 2], [50, 60], [5, 6])
    temperature(file, ("station", "time"), [[1, 2, np.nan], [4, 5, 6]])
    names(file, "station", "timeseries_id")
    return [(h, [50.0, 60.0][s], [5.0, 6.0][s], s * 3 + h + 1.0) for s in (0, 1) for h in range(3) if (s, h) != (0, 2)]


@form("time series, orthogonal, time first", "timeSeries")
def series_time_first(file: Any) -> Any:
    file.createDimension("time", None)
    file.createDimension("station", 2)
    places(file, ("time",), ("station",), [0, 1, 2], [50, 60], [5, 6])
    temperature(file, ("time", "station"), [[1, 4], [2, 5], [3, 6]])
    return [(h, [50.0, 60.0][s], [5.0, 6.0][s], s * 3 + h + 1.0) for s in (0, 1) for h in range(3)]


@form("time series, incomplete", "timeSeries")
def series_incomplete(file: Any) -> Any:
    file.createDimension("station", 2)
    file.createDimension("obs", 3)
    places(file, ("station", "obs"), ("station",), [[0, 1, np.nan], [0.5, 2, 3]], [50, 60], [5, 6])
    temperature(file, ("station", "obs"), [[1, 2, np.nan], [4, 5, 6]])
    return [(0, 50.0, 5.0, 1.0), (1, 50.0, 5.0, 2.0), (0.5, 60.0, 6.0, 4.0), (2, 60.0, 6.0, 5.0), (3, 60.0, 6.0, 6.0)]


@form("time series, contiguous", "timeSeries")
def series_contiguous(file: Any) -> Any:
    file.createDimension("station", 3)
    file.createDimension("obs", 5)
    variable(file, "row_size", ("station",), [2, 0, 3], "i4", sample_dimension="obs")
    places(file, ("obs",), ("station",), [0, 1, 0.5, 2, 3], [50, 55, 60], [5, 5.5, 6])
    temperature(file, ("obs",), [1, 2, 4, 5, 6])
    names(file, "station", "timeseries_id")
    return [(0, 50.0, 5.0, 1.0), (1, 50.0, 5.0, 2.0), (0.5, 60.0, 6.0, 4.0), (2, 60.0, 6.0, 5.0), (3, 60.0, 6.0, 6.0)]


@form("time series, indexed", "timeSeries")
def series_indexed(file: Any) -> Any:
    file.createDimension("station", 3)
    file.createDimension("obs", None)
    places(file, ("obs",), ("station",), [0, 0.5, 1, 2, 3], [50, 55, 60], [5, 5.5, 6])
    temperature(file, ("obs",), [1, 4, 2, 5, 6])
    variable(file, "station_index", ("obs",), [0, 2, 0, 2, 2], "i4", instance_dimension="station")
    return [(0, 50.0, 5.0, 1.0), (1, 50.0, 5.0, 2.0), (0.5, 60.0, 6.0, 4.0), (2, 60.0, 6.0, 5.0), (3, 60.0, 6.0, 6.0)]


@form("profile, single", "profile")
def profile_single(file: Any) -> Any:
    file.createDimension("z", 3)
    places(file, (), (), 6.0, 50.0, 5.0)
    height(file, ("z",), [10, 20, 30])
    temperature(file, ("z",), [1, np.nan, 3])
    return [(6.0, 50.0, 5.0, v, h) for v, h in ((1.0, 10.0), (np.nan, 20.0), (3.0, 30.0))]


@form("profile, orthogonal", "profile")
def profile_orthogonal(file: Any) -> Any:
    file.createDimension("z", 2)
    file.createDimension("profile", 2)
    places(file, ("profile",), ("profile",), [6, 12], [50, 60], [5, 6])
    height(file, ("z",), [10, 20])
    temperature(file, ("profile", "z"), [[1, 2], [3, 4]])
    first, second = (6.0, 50.0, 5.0), (12.0, 60.0, 6.0)
    return [(*first, 1.0, 10.0), (*first, 2.0, 20.0), (*second, 3.0, 10.0), (*second, 4.0, 20.0)]


@form("profile, incomplete", "profile")
def profile_incomplete(file: Any) -> Any:
    file.createDimension("profile", 2)
    file.createDimension("z", 2)
    places(file, ("profile",), ("profile",), [6, 12], [50, 60], [5, 6])
    height(file, ("profile", "z"), [[10, np.nan], [15, 25]])
    temperature(file, ("profile", "z"), [[1, np.nan], [3, 4]])
    return [(6.0, 50.0, 5.0, 1.0, 10.0), (12.0, 60.0, 6.0, 3.0, 15.0), (12.0, 60.0, 6.0, 4.0, 25.0)]


@form("profile, contiguous", "profile")
def profile_contiguous(file: Any) -> Any:
    file.createDimension("profile", 2)
    file.createDimension("obs", 3)
    places(file, ("profile",), ("profile",), [6, 12], [50, 60], [5, 6])
    variable(file, "row_size", ("profile",), [1, 2], "i4", sample_dimension="obs")
    height(file, ("obs",), [10, 15, 25])
    temperature(file, ("obs",), [1, 3, 4])
    return [(6.0, 50.0, 5.0, 1.0, 10.0), (12.0, 60.0, 6.0, 3.0, 15.0), (12.0, 60.0, 6.0, 4.0, 25.0)]


@form("profile, indexed", "profile")
def profile_indexed(file: Any) -> Any:
    file.createDimension("profile", 2)
    file.createDimension("obs", 3)
    places(file, ("profile",), ("profile",), [6, 12], [50, 60], [5, 6])
    variable(file, "which", ("obs",), [1, 0, 1], "i1", instance_dimension="profile")
    height(file, ("obs",), [15, 10, 25])
    temperature(file, ("obs",), [3, 1, 4])
    return [(6.0, 50.0, 5.0, 1.0, 10.0), (12.0, 60.0, 6.0, 3.0, 15.0), (12.0, 60.0, 6.0, 4.0, 25.0)]


@form("trajectory, single", "trajectory")
def trajectory_single(file: Any) -> Any:
    file.createDimension("time", 2)
    places(file, ("time",), ("time",), [0, 1], [50, 51], [5, 6])
    temperature(file, ("time",), [1, 2])
    return [(0, 50.0, 5.0, 1.0), (1, 51.0, 6.0, 2.0)]


@form("trajectory, incomplete", "trajectory")
def trajectory_incomplete(file: Any) -> Any:
    file.createDimension("trajectory", 2)
    file.createDimension("obs", 2)
    dims = ("trajectory", "obs")
    gap = np.nan
    places(file, dims, dims, [[0, 1], [3, gap]], [[50, 51], [60, gap]], [[5, 6], [7, gap]])
    temperature(file, dims, [[1, 2], [3, gap]])
    return [(0, 50.0, 5.0, 1.0), (1, 51.0, 6.0, 2.0), (3, 60.0, 7.0, 3.0)]


@form("trajectory, contiguous", "trajectory")
def trajectory_contiguous(file: Any) -> Any:
    file.createDimension("trajectory", 2)
    file.createDimension("obs", 3)
    places(file, ("obs",), ("obs",), [0, 1, 3], [50, 51, 60], [5, 6, 7])
    variable(file, "row_size", ("trajectory",), [2, 1], "i4", sample_dimension="obs")
    temperature(file, ("obs",), [1, 2, 3])
    names(file, "trajectory", "trajectory_id")
    return [(0, 50.0, 5.0, 1.0), (1, 51.0, 6.0, 2.0), (3, 60.0, 7.0, 3.0)]


@form("time series of profiles, orthogonal", "timeSeriesProfile")
def series_profile_orthogonal(file: Any) -> Any:
    for name, size in (("station", 2), ("profile", 2), ("z", 2)):
        file.createDimension(name, size)
    places(file, ("station", "profile"), ("station",), [[0, 6], [1, 7]], [50, 60], [5, 6])
    height(file, ("z",), [10, 20])
    temperature(file, ("station", "profile", "z"), np.arange(8).reshape(2, 2, 2))
    hours = [[0, 6], [1, 7]]
    return [
        (hours[s][p], [50.0, 60.0][s], [5.0, 6.0][s], 4.0 * s + 2 * p + z, 10.0 + 10 * z)
        for s in (0, 1)
        for p in (0, 1)
        for z in (0, 1)
    ]


@form("time series of profiles, ragged", "timeSeriesProfile")
def series_profile_ragged(file: Any) -> Any:
    for name, size in (("station", 2), ("profile", 3), ("obs", 4)):
        file.createDimension(name, size)
    places(file, ("profile",), ("station",), [0, 1, 6], [50, 60], [5, 6])
    variable(file, "row_size", ("profile",), [2, 1, 1], "i4", sample_dimension="obs")
    variable(file, "station_index", ("profile",), [1, 0, 1], "i4", instance_dimension="station")
    height(file, ("obs",), [10, 20, 10, 30])
    temperature(file, ("obs",), [1, 2, 3, 4])
    return [(0, 60.0, 6.0, 1.0, 10.0), (0, 60.0, 6.0, 2.0, 20.0), (1, 50.0, 5.0, 3.0, 10.0), (6, 60.0, 6.0, 4.0, 30.0)]


@form("profiles along a trajectory, ragged", "trajectoryProfile")
def trajectory_profile_ragged(file: Any) -> Any:
    for name, size in (("trajectory", 2), ("profile", 3), ("obs", 4)):
        file.createDimension(name, size)
    places(file, ("profile",), ("profile",), [0, 1, 6], [50, 60, 61], [5, 6, 7])
    variable(file, "row_size", ("profile",), [2, 1, 1], "i4", sample_dimension="obs")
    variable(file, "which", ("profile",), [1, 0, 1], "i4", instance_dimension="trajectory")
    height(file, ("obs",), [10, 20, 10, 30])
    temperature(file, ("obs",), [1, 2, 3, 4])
    return [(0, 50.0, 5.0, 1.0, 10.0), (0, 50.0, 5.0, 2.0, 20.0), (1, 60.0, 6.0, 3.0, 10.0), (6, 61.0, 7.0, 4.0, 30.0)]


@form("fields on a grid", "")
def fields(file: Any) -> Any:
    for name, size in (("time", 2), ("lat", 2), ("lon", 2)):
        file.createDimension(name, size)
    variable(file, "time", ("time",), [0, 6], "f8", standard_name="time", units=UNITS)
    variable(file, "lat", ("lat",), [50, 60], units="degrees_north")
    variable(file, "lon", ("lon",), [5, 6], units="degrees_east")
    temperature(file, ("time", "lat", "lon"), np.arange(8).reshape(2, 2, 2))
    return [
        (6 * h, [50.0, 60.0][i], [5.0, 6.0][j], 4.0 * h + 2 * i + j) for h in (0, 1) for i in (0, 1) for j in (0, 1)
    ]
