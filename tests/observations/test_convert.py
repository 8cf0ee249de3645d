"""Samples in other containers."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import xarray as xr

import cfagg
from cfagg.errors import SelectionError
from cfagg.observations.sample import Details, Header, Sample
from tests.observations.small_stores import VARIABLES, hourly

ATTRIBUTES = {"t": {"units": "K", "standard_name": "air_temperature"}, "v": {"levels": [2, 10], "flag": True, "m": {}}}


@pytest.fixture(scope="module")
def ds(tmp_path_factory):
    path, _ = hourly(tmp_path_factory.mktemp("convert") / "synop.zarr", variables_metadata=ATTRIBUTES)
    return cfagg.open_observations(path, 2020, "2020-01-03", "(-3,+3]", "6h")


@pytest.fixture(params=["data", "deltatime"])
def sample(ds, request):
    return ds.subset(sample=request.param)[3]


def test_a_frame_has_dates_places_and_variables(ds, sample) -> None:
    frame = sample.to_pandas()
    assert frame.columns.tolist() == ["date", "latitude", "longitude", "timedelta", *VARIABLES]
    assert np.array_equal(frame[list(VARIABLES)], ds[3])
    assert np.array_equal(frame["date"], ds[3].dates)
    assert np.array_equal(frame["timedelta"], ds[3].timedeltas)
    assert frame.dtypes["latitude"] == frame.dtypes["t"] == np.float32
    assert isinstance(frame, pd.DataFrame)


def test_a_dataset_is_one_of_points_as_cf_has_them(ds, sample) -> None:
    points = sample.to_xarray()
    assert points.attrs["featureType"] == "point"
    assert points.attrs["reference_date"] == "2020-01-01T18:00:00"
    assert set(points.coords) == {"time", "latitude", "longitude"}
    assert all(v.dims == ("obs",) for v in points.variables.values())
    assert points["latitude"].attrs == {"standard_name": "latitude", "units": "degrees_north"}
    assert points["time"].attrs["standard_name"] == "time"
    assert points["t"].attrs == ATTRIBUTES["t"]
    assert np.array_equal(points["u"], np.asarray(ds[3])[:, 1])


def test_a_dataset_survives_netcdf(sample, tmp_path) -> None:
    points = sample.to_xarray()
    points.to_netcdf(tmp_path / "points.nc")
    with xr.open_dataset(tmp_path / "points.nc") as stored:
        xr.testing.assert_equal(stored.load(), points)
        assert stored["time"].encoding["units"].startswith("seconds since 1970-01-01")
        assert stored["v"].attrs["levels"].tolist() == [2, 10]
        assert (stored["v"].attrs["flag"], stored["v"].attrs["m"]) == (1, "{}")


def test_a_table_has_the_columns_of_the_frame_with_attributes_on_its_fields(ds, sample) -> None:
    table = sample.to_arrow()
    assert table.column_names == ["date", "latitude", "longitude", "timedelta", *VARIABLES]
    assert table.schema.field("date").type == pa.timestamp("s", tz="UTC")
    assert table.schema.field("t").type == pa.float32()
    assert table.schema.field("t").metadata == {b"units": b"K", b"standard_name": b"air_temperature"}
    assert json.loads(table.schema.field("v").metadata[b"levels"]) == [2, 10]
    assert np.array_equal(table["u"], np.asarray(ds[3])[:, 1])
    assert np.array_equal(table["date"].cast(pa.int64()), ds[3].dates.astype("i8"))


def test_dates_before_1582_survive_netcdf(tmp_path) -> None:
    places = np.array([[-171634, 3600, 51.5, 0]], "f4")
    sample = Sample(np.ones((1, 1), "f4"), Details(places, np.array([-171634 * 86400])), Header(("t",)))
    sample.to_xarray().to_netcdf(tmp_path / "points.nc")
    with xr.open_dataset(tmp_path / "points.nc") as stored:
        assert stored["time"].values.astype("M8[s]").tolist() == sample.dates.tolist()


@pytest.mark.parametrize("method", ["to_pandas", "to_xarray", "to_arrow"])
def test_parts_of_a_sample_and_several_samples_convert(ds, method) -> None:
    for x in (ds[3][5:9], ds[3][:, 1], ds[2:5], ds.subset(start=1900, end=1900)[0]):
        found = getattr(x, method)()
        length = found.sizes["obs"] if method == "to_xarray" else len(found)
        assert length == len(x)


def test_missing_values_stay_missing(ds) -> None:
    x = ds[3].copy()
    x[2, 1] = np.nan
    assert x.to_pandas()["u"].isna().sum() == 1
    assert int(x.to_xarray()["u"].isnull().sum()) == 1
    assert np.isnan(x.to_arrow()["u"].to_numpy()).sum() == 1


@pytest.mark.parametrize(
    ("method", "name"),
    [("to_pandas", "date"), ("to_xarray", "time"), ("to_xarray", "obs"), ("to_arrow", "latitude")],
)
def test_a_variable_that_would_take_the_place_of_another_column_raises(ds, method, name) -> None:
    with pytest.raises(SelectionError, match=f"named {name}"):
        getattr(ds.subset(rename={"t": name})[3], method)()


def test_a_calculated_sample_says_nothing_of_units(ds) -> None:
    assert (ds[3] - 273.15).to_xarray()["t"].attrs == {}


@pytest.mark.parametrize("method", ["to_pandas", "to_xarray", "to_arrow"])
def test_a_column_that_stands_twice_raises(ds, method) -> None:
    with pytest.raises(SelectionError, match="several times"):
        getattr(ds[3][:, [0, 1, 0]], method)()
