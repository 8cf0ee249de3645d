"""Times and durations of NumPy's own types in Zarr arrays."""

import base64
import json
from contextlib import nullcontext

import numpy as np
import pytest
import xarray as xr
import zarr

import cfagg
from cfagg.errors import CfaggError
from cfagg.formats.metadata.zarr_times import times_of
from tests.observations.servers import served

UNITS = ["ns", "us", "ms", "s", "m", "h", "D"]


def store(path, zarr_format, **arrays):
    group = zarr.open_group(path, mode="w", zarr_format=zarr_format)
    for name, values in arrays.items():
        named = {"dimension_names": ("time",)} if zarr_format == 3 else {}
        array = group.create_array(name, data=values, chunks=(2,), **named)
        if zarr_format == 2:
            array.attrs["_ARRAY_DIMENSIONS"] = ["time"]
    return str(path)


def times(unit, order="<"):
    return np.array(["2001-01-01", "1960-02-03", "2024-02-29"], f"{order}M8[{unit}]")


@pytest.mark.parametrize("zarr_format", [2, 3])
@pytest.mark.parametrize("unit", UNITS)
def test_times_are_those_that_xarray_reads(tmp_path, zarr_format, unit):
    some = times(unit)
    some[1] = np.datetime64("NaT")
    path = store(tmp_path / "a", zarr_format, time=times(unit), ref=some, lag=np.array([1, -2, 3], f"m8[{unit}]"))
    expected = xr.open_dataset(path, engine="zarr", consolidated=False)
    with xr.open_dataset(path, engine="cfagg", decode_timedelta=True) as found:
        for name in ("time", "ref", "lag"):
            np.testing.assert_array_equal(found[name].values.astype(expected[name].dtype), expected[name].values)


@pytest.mark.parametrize("order", ["<", ">"])
def test_times_are_numbers_in_other_formats(tmp_path, order):
    path = store(tmp_path / "a", 2, time=times("s", order))
    assert cfagg.open_array(path, "time")[::-1].tolist() == times("s").view("i8")[::-1].tolist()
    cfagg.convert(path, tmp_path / "a.nc")
    with xr.open_dataset(tmp_path / "a.nc", decode_times=False) as found:
        assert (found.time.dtype, found.time.units) == (np.dtype("i8"), "seconds since 1970-01-01")
        assert "_FillValue" not in found.time.encoding | found.time.attrs
        assert found.time.values.tolist() == times("s").view("i8").tolist()


def test_fill_values_of_unwritten_chunks_are_no_missing_times(tmp_path):
    path = store(tmp_path / "a", 2, ref=np.array(["1970-01-01", "1970-01-02", "NaT", "2001-01-01"], "M8[s]"))
    document = json.loads((tmp_path / "a/ref/.zarray").read_text())
    (tmp_path / "a/ref/.zarray").write_text(json.dumps(document | {"fill_value": 0}))
    with xr.open_dataset(path, engine="cfagg") as found:
        assert found.ref.isnull().values.tolist() == [False, False, True, False]


def references(path, **arrays):
    """Write references that hold their values themselves."""
    refs = {".zgroup": '{"zarr_format": 2}'}
    for name, values in arrays.items():
        document = {
            "zarr_format": 2, "shape": [3], "chunks": [3], "dtype": values.dtype.str, "fill_value": None, "order": "C",
            "compressor": None, "filters": None,
        }  # fmt: skip
        more = {} if name == "time" else {"standard_name": "air_temperature", "units": "K"}
        refs[f"{name}/.zarray"] = json.dumps(document)
        refs[f"{name}/.zattrs"] = json.dumps({"_ARRAY_DIMENSIONS": ["time"], **more})
        refs[f"{name}/0"] = "base64:" + base64.b64encode(values.tobytes()).decode()
    path.write_text(json.dumps({"version": 1, "refs": refs}))
    return path


def test_references_to_times_are_read_and_shown(tmp_path):
    path = references(tmp_path / "refs.json", time=times("s"))
    np.testing.assert_array_equal(cfagg.read(path).time.values.astype("M8[s]"), times("s"))
    assert "time (time: 3) int64 [seconds since 1970-01-01]" in str(cfagg.show(path))
    assert cfagg.open_aggregation(path, "time").units == "seconds since 1970-01-01"


@pytest.mark.parametrize("kind", ["json", "parquet", "url"])
def test_references_to_times_join(tmp_path, kind):
    whole = np.datetime64("2001-01-01", "s") + np.arange(6) * np.timedelta64(6, "h")
    for k in range(2):
        part = slice(3 * k, 3 * k + 3)
        path = references(tmp_path / f"{k}.json", time=whole[part], tas=np.arange(6.0)[part] + 10)
        if kind == "parquet":
            cfagg.index(path, output=tmp_path / f"{k}.parquet", to="kerchunk")
    with served(tmp_path) if kind == "url" else nullcontext() as server:
        home, end = (server.url, "json") if kind == "url" else (tmp_path, kind)
        found = cfagg.aggregate([f"{home}/1.{end}", f"{home}/0.{end}"], output=tmp_path / "a.nca")
        np.testing.assert_array_equal(found.time.values.astype("M8[s]"), whole)
        assert found.tas.values.tolist() == list(range(10, 16))


def test_a_coordinate_with_missing_times_is_refused(tmp_path):
    path = store(tmp_path / "a", 2, time=np.array(["2001-01-01", "NaT"], "M8[s]"))
    with pytest.raises(CfaggError, match=r"array time is a coordinate with missing times.*section 2\.5\.1"):
        cfagg.open_array(path, "time")[:]


@pytest.mark.parametrize("type_", ["<M8[M]", "<M8[Y]", "<M8[10s]", "<M8"])
def test_units_of_no_fixed_length_are_refused(tmp_path, type_):
    path = store(tmp_path / "a", 2, time=times("s"))
    document = json.loads((tmp_path / "a/time/.zarray").read_text())
    (tmp_path / "a/time/.zarray").write_text(json.dumps(document | {"dtype": type_}))
    with pytest.raises(CfaggError):
        cfagg.open_array(path, "time")[:]


@pytest.mark.parametrize("name", ["units", "scale_factor"])
def test_attributes_that_contradict_the_type_are_refused(tmp_path, name):
    path = store(tmp_path / "a", 2, time=times("s"))
    zarr.open_group(path)["time"].attrs[name] = "days since 1900-01-01" if name == "units" else 2.0
    with pytest.raises(CfaggError, match=r"holds values of type datetime64\[s\].*attributes \(units, calendar\)"):
        cfagg.open_array(path, "time")[:]


@pytest.mark.parametrize("units", ["seconds since 1970-01-01T00:00:00", "s since 1970-1-1 1:00 +1:00"])
def test_units_that_repeat_those_of_the_type_are_no_contradiction(tmp_path, units):
    path = store(tmp_path / "a", 2, time=times("s"))
    zarr.open_group(path)["time"].attrs["units"] = units
    np.testing.assert_array_equal(cfagg.read(path).time.values.astype("M8[s]"), times("s"))


def test_stores_of_times_join(tmp_path):
    whole = np.datetime64("2001-01-01", "s") + np.arange(6) * np.timedelta64(6, "h")
    for k in range(2):
        path = store(tmp_path / f"{k}.zarr", 2, time=whole[3 * k : 3 * k + 3], tas=np.arange(3.0) + 3 * k + 10)
        zarr.open_group(path)["tas"].attrs.update(standard_name="air_temperature", units="K")
    found = cfagg.aggregate([tmp_path / "1.zarr", tmp_path / "0.zarr"])
    np.testing.assert_array_equal(found.time.values.astype("M8[s]"), whole)
    assert found.tas.values.tolist() == list(range(10, 16))


def test_units_are_those_of_the_numbers():
    assert times_of({"dtype": "<m8[D]"}, 2, {}) == {"units": "days", "dtype": "timedelta64[s]"}
    for name in ("numpy.datetime64", "numpy.timedelta64"):
        of_ten = {"name": name, "configuration": {"unit": "s", "scale_factor": 10}}
        assert times_of({"data_type": of_ten}, 3, {}) is None


def test_the_checker_says_that_netcdf_has_no_such_type(tmp_path):
    found = cfagg.check(store(tmp_path / "a", 3, time=times("s")))
    assert "TYP001" in {f.code for f in found.findings}


def test_default_fill_values_of_times_and_complex_numbers_are_no_error(tmp_path):
    group = zarr.open_group(tmp_path / "a.zarr", mode="w", zarr_format=2)
    group.attrs["Conventions"] = "CF-1.13"
    for name, values in [("time", times("s")), ("spectrum", np.array([1j, 2, 3]))]:
        array = group.create_array(name, data=values)
        array.attrs.update({"_ARRAY_DIMENSIONS": ["time"], "long_name": name})
    found = cfagg.check(tmp_path / "a.zarr", data=True)
    assert [str(f) for f in found.findings if f.attribute == "_FillValue"] == []
