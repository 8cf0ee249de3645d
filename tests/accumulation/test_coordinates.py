"""Coordinates of one array, where xarray opens its group and where it does not."""

from __future__ import annotations

import json

import numpy as np
import pytest
import xarray as xr
import zarr

import cfagg
from cfagg.accumulation.coordinates import labelled_array
from cfagg.errors import SourceError
from cfagg.formats.zarr import open_array
from tests.accumulation.fields import DIMS, dataset


def break_codec(path):
    """Give an array a codec that nobody knows."""
    document = json.loads((path / "zarr.json").read_text())
    document["codecs"] = [{"name": "example.org/unknown", "configuration": {}}]
    (path / "zarr.json").write_text(json.dumps(document))


@pytest.mark.few(2)
@pytest.mark.parametrize("calendar", ["standard", "360_day"])
@pytest.mark.parametrize("group", ["", "model/day"])
def test_another_array_that_cannot_be_opened_does_not_matter(tmp_path, calendar, group):
    fields = dataset(calendar, steps=20)
    fields["broken"] = ("lat", np.arange(6.0))
    fields.to_zarr(tmp_path, group=group or None, consolidated=False)
    path = f"{group}/tas".strip("/")
    wanted = xr.open_zarr(tmp_path, group=group or None, chunks=None, consolidated=False)["tas"]
    break_codec(tmp_path / group / "broken")
    found = labelled_array(open_array(tmp_path, path), DIMS)
    assert found.attrs == wanted.attrs
    # Coordinates that only other variables name are not found; all that the array names are.
    assert set(found.coords) == set(wanted.coords)
    for name in found.coords:
        xr.testing.assert_identical(found[name].variable.to_base_variable(), wanted[name].variable.to_base_variable())


@pytest.mark.parametrize("broken", [False, True])
def test_coordinates_have_missing_integers_in_units_of_time_as_read_has_them(tmp_path, broken):
    fields = dataset(steps=2).drop_vars("region")  # which is text, and left to xarray
    hours = {"since_rain": ("lat", np.array([5, -1, 7, 8, 9, 1], "i2"), {"units": "hours", "_FillValue": np.int16(-1)})}
    fields.assign_coords(hours).assign(broken=("lat", np.arange(6.0))).to_zarr(tmp_path, consolidated=False)
    wanted = cfagg.read(tmp_path)["since_rain"]
    assert np.isnan(wanted[1])
    if broken:
        break_codec(tmp_path / "broken")
    found = labelled_array(open_array(tmp_path, "tas"), DIMS)
    np.testing.assert_array_equal(found["since_rain"], wanted)


def test_a_coordinate_that_cannot_be_read_is_named(tmp_path):
    dataset(steps=20).to_zarr(tmp_path, consolidated=False)
    break_codec(tmp_path / "lat")
    with pytest.raises(SourceError, match="coordinate 'lat' of 'tas' cannot be read"):
        labelled_array(open_array(tmp_path, "tas"), DIMS)


def test_dates_that_cannot_be_decoded_are_an_error_of_ours(tmp_path):
    dataset(steps=20).to_zarr(tmp_path, consolidated=False)
    zarr.open_array(tmp_path / "time", mode="r+").attrs["units"] = "days since 2000-13-45"
    with pytest.raises(SourceError, match=r"the coordinates of 'tas' cannot be decoded .*2000-13-45"):
        labelled_array(open_array(tmp_path, "tas"), DIMS)


def test_times_that_xarray_does_not_decode_are_named(tmp_path):
    dataset(steps=20).to_zarr(tmp_path, consolidated=False)
    zarr.open_array(tmp_path / "time", mode="r+").attrs["units"] = "months since 1955-01-01"
    with pytest.raises(SourceError, match=r"of 'tas' cannot be decoded \('time': units 'months since 1955-01-01'"):
        labelled_array(open_array(tmp_path, "tas"), DIMS)


def test_a_scale_beyond_64_bits_is_an_error_of_ours(tmp_path):
    dataset(steps=20).to_zarr(tmp_path, consolidated=False)
    zarr.open_array(tmp_path / "lat", mode="r+").attrs["scale_factor"] = 2**70
    with pytest.raises(SourceError, match="the coordinates of 'tas' cannot be decoded"):
        labelled_array(open_array(tmp_path, "tas"), DIMS)


def test_a_fill_value_that_no_integer_equals_does_not_matter(tmp_path):
    dataset(steps=20).astype("i2").to_zarr(tmp_path, consolidated=False)
    zarr.open_array(tmp_path / "tas", mode="r+").attrs["_FillValue"] = "NaN"
    assert set(labelled_array(open_array(tmp_path, "tas"), DIMS).coords) >= set(DIMS)


def test_arrays_without_names_of_dimensions_have_those_of_the_group(tmp_path):
    root = zarr.open_group(tmp_path, mode="w", zarr_format=2)
    root.create_array("tas", data=np.zeros((3, 2)), attributes={"units": "K", "scale_factor": 2.0})
    root.create_array("time", data=np.arange(3), attributes={"units": "days since 2001-01-01"})
    root.create_array("x", data=np.arange(9))
    found = labelled_array(open_array(tmp_path, "tas"), ("time", "x"))
    assert found.dims == ("time", "x")
    assert found["time"].dt.day.values.tolist() == [1, 2, 3]
    assert "x" not in found.coords
    assert found.attrs == {"units": "K"}


def test_nothing_is_asked_of_a_group_of_the_accumulation(tmp_path):
    dataset(steps=20).to_zarr(tmp_path, consolidated=False)
    zarr.open_group(tmp_path / "tas_accumulation_group", mode="w")
    assert labelled_array(open_array(tmp_path, "tas"), DIMS).dims == DIMS
