"""Values and attributes of datasets that a target cannot represent are refused, and none is replaced."""

from __future__ import annotations

import math
from datetime import timedelta
from pathlib import Path
from typing import Any

import cftime
import netCDF4
import numpy as np
import numpy.testing as npt
import pytest
import xarray as xr
import zarr

import cfagg
from cfagg.errors import ConformError, ConventionError, LossError, OptionError, UnsupportedError

DATES = np.array(["2000-01-01", "NaT"], "M8[ns]")


@pytest.mark.parametrize("name", ["a.zarr", "a.nc"])
@pytest.mark.parametrize("chunks", [None, 1])
@pytest.mark.parametrize(
    ("values", "encoding", "said"),
    [
        ([1.0, np.nan], {"dtype": "i4"}, "nan cannot be stored as int32, .*; give it a _FillValue"),
        ([1.0, np.nan], {"dtype": "i2", "scale_factor": 0.5}, "nan cannot be stored as int16"),
        ([1.0, np.inf], {"dtype": "i4", "_FillValue": -1}, "inf cannot be stored as int32, .*; choose another type"),
        ([1.0, 32767.5], {"dtype": "i2"}, "32767.5 cannot be stored as int16"),
        ([1.0, -70.0], {"dtype": "i1", "scale_factor": 0.5, "_FillValue": 7}, "-70.0 cannot be stored as int8"),
        ([1.0, -1.0], {"dtype": "i1", "_Unsigned": "true", "_FillValue": 7}, "-1.0 cannot be stored as uint8"),
        ([1.0, 2.0**63], {"dtype": "i8"}, "cannot be stored as int64"),
        ([1, 300], {"dtype": "u1"}, "300 cannot be stored as uint8"),
        (DATES, {"dtype": "i4", "units": "days since 2000-01-01"}, "NaT cannot be stored as int32"),
    ],
)  # fmt: skip
def test_a_value_that_would_become_another_is_refused(
    tmp_path: Path, values: Any, encoding: dict[str, Any], said: str, chunks: int | None, name: str
) -> None:
    dataset = xr.Dataset({"v": ("x", np.array(values))}).chunk({} if chunks is None else {"x": chunks})
    dataset.v.encoding = encoding
    with pytest.raises(ConformError, match=f"variable 'v': the value .*{said}"):
        cfagg.write(dataset if chunks else dataset.load(), tmp_path / name)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("values", "encoding"),
    [
        ([1.0, np.nan], {"dtype": "i4", "_FillValue": -1}),
        ([1.0, np.nan], {"dtype": "i4", "missing_value": -1}),
        ([0.0, 255.0], {"dtype": "i1", "_Unsigned": "true", "_FillValue": 7}),
        ([1.5, 16383.5], {"dtype": "i2", "scale_factor": 0.5}),
        ([-(2.0**63), 1.0], {"dtype": "i8"}),
        ([1, 255], {"dtype": "u1"}),
        (DATES, {"dtype": "i8", "units": "days since 2000-01-01"}),
        (DATES, {"dtype": "i4", "units": "days since 2000-01-01", "_FillValue": -1}),
    ],
)
def test_all_other_values_are_written_as_xarray_writes_them(
    tmp_path: Path, values: Any, encoding: dict[str, Any]
) -> None:
    dataset = xr.Dataset({"v": ("x", np.array(values))})
    dataset.v.encoding = encoding
    cfagg.write(dataset, tmp_path / "a.zarr")
    xr.testing.assert_equal(xr.open_zarr(tmp_path / "a.zarr").load().astype(dataset.v.dtype), dataset)


@pytest.mark.parametrize("chunks", [None, 1])
@pytest.mark.parametrize("key", ["_FillValue", "missing_value"])
@pytest.mark.parametrize(
    ("dtype", "real", "fill"), [("i8", "f8", -(2**63) + 2), ("u8", "f8", 2**64 - 2), ("i4", "f4", -(2**31) + 1)]
)
def test_missing_values_become_a_fill_value_that_reals_do_not_represent(
    tmp_path: Path, dtype: str, real: str, fill: int, key: str, chunks: int | None
) -> None:
    dataset = xr.Dataset({"v": ("x", np.array([1, np.nan, 3], real)), "one": np.array(np.nan, real)})
    for variable in dataset.variables.values():
        variable.encoding = {"dtype": dtype, key: np.array([fill], dtype)[0]}
    if chunks:
        dataset = dataset.chunk(x=chunks)
    for name in ("a.zarr", "a.nc"):
        cfagg.write(dataset, tmp_path / name)
        found = cfagg.read(tmp_path / name, mask_and_scale=False)
        assert found["v"].values.tolist() == [1, fill, 3]
        assert (found["v"].dtype, found["one"].item()) == (np.dtype(dtype), fill)
        assert found["v"].attrs[key] == fill
    dataset["v"].encoding["scale_factor"] = 0.5
    with pytest.raises(ConformError, match=r"nan cannot be stored as .*; give it a _FillValue that float"):
        cfagg.write(dataset, tmp_path / "b.zarr")


@pytest.mark.parametrize("dtype", ["i4", "f4", "i8", "f8"])
def test_dates_of_dask_are_written_in_the_type_of_their_encoding(tmp_path: Path, dtype: str) -> None:
    dates = np.array(["2000-01-01", "2000-01-03", "NaT"], "M8[ns]")
    dataset = xr.Dataset({"v": ("x", dates)}).chunk(x=1)
    dataset.v.encoding = {"dtype": dtype, "units": "days since 2000-01-01", "_FillValue": -1}
    cfagg.write(dataset, tmp_path / "a.zarr")
    assert cfagg.open_array(tmp_path / "a.zarr", "v").dtype == np.dtype(dtype)
    xr.testing.assert_equal(xr.open_zarr(tmp_path / "a.zarr").load(), dataset.compute())
    dataset.v.encoding = {"dtype": "i1", "units": "seconds since 2000-01-01", "_FillValue": -1}
    with pytest.raises(ConformError, match="encoded date 172800 cannot be stored as int8"):
        cfagg.write(dataset, tmp_path / "b.zarr")
    assert not (tmp_path / "b.zarr").exists()


@pytest.mark.parametrize("chunks", [None, 1])
@pytest.mark.parametrize(
    ("values", "encoding", "stored"),
    [
        (np.array([1, 80.5, 127.5], "f4"), {"dtype": "i1", "_Unsigned": "true", "scale_factor": 0.5}, [2, -95, -1]),
        (np.array([2, 200, 255], "u1"), {"dtype": "i1", "_Unsigned": "true"}, [2, -56, -1]),
        (np.array([2, -56, -1], "i1"), {"dtype": "u1", "_Unsigned": "false"}, [2, 200, 255]),
    ],
)
def test_integers_that_are_read_as_others_stay_so_without_a_missing_value(
    tmp_path: Path, values: Any, encoding: dict[str, Any], stored: list[int], chunks: int | None
) -> None:
    dataset = xr.Dataset({"v": ("x", values), "one": values[2]})
    for variable in dataset.variables.values():
        variable.encoding = encoding
    for name in ("a.zarr", "a.nc"):
        cfagg.write(dataset if chunks is None else dataset.chunk(x=chunks), tmp_path / name)
        found = cfagg.read(tmp_path / name, mask_and_scale=False)
        assert (found["v"].dtype, found["v"].values.tolist()) == (np.dtype(encoding["dtype"]), stored)
        xr.testing.assert_equal(cfagg.read(tmp_path / name).load(), dataset)
    with pytest.raises(ConformError, match=r"the value .* cannot be stored as u?int8"):
        cfagg.write(dataset.assign(v=dataset["v"].copy(data=np.array([2, 3, 1e3]))), tmp_path / "b.zarr")


@pytest.mark.parametrize("calendar", ["standard", "noleap"])
@pytest.mark.parametrize("chunks", [None, 2])
@pytest.mark.parametrize("name", ["a.zarr", "a.nc", "a.nca"])
def test_coordinates_and_their_bounds_are_encoded_as_cf_demands(
    tmp_path: Path, calendar: str, chunks: int | None, name: str
) -> None:
    dates = xr.date_range("2000-01-01", periods=4, calendar=calendar, use_cftime=calendar == "noleap")
    given = {
        "tas": ("time", np.arange(4.0), {"standard_name": "air_temperature", "units": "K"}),
        "time_bnds": (("time", "two"), np.stack([dates.values, (dates + timedelta(hours=12)).values], 1)),
    }
    times = ("time", dates.values, {"standard_name": "time", "bounds": "time_bnds"})
    dataset = xr.Dataset(given, {"time": times, "x": ("x", [1.5])}, {"Conventions": "CF-1.13"})
    dataset["x"].attrs = {"standard_name": "longitude", "units": "degrees_east"}
    dataset["time"].encoding = {"units": "days since 1999-01-01", "calendar": calendar, "dtype": "f8"}
    cfagg.write(dataset if chunks is None else dataset.chunk(time=chunks), tmp_path / name)
    found = cfagg.read(tmp_path / name, decode_cf=False)
    assert not any("_FillValue" in found[n].attrs for n in ("time", "time_bnds", "x"))
    assert found["time_bnds"].attrs.get("units", "days since 1999-01-01") == "days since 1999-01-01"
    npt.assert_array_equal(found["time_bnds"][0].values, [365, 365.5])
    assert not [f for f in cfagg.check(tmp_path / name, data=True).findings if f.severity == "error"]


def test_dates_of_dask_in_units_without_a_type_are_refused_by_name(tmp_path: Path) -> None:
    dates = np.array(["2000-01-01", "2000-01-03"], "M8[ns]")
    dataset = xr.Dataset({"b": (("time", "two"), dates[:, None])}, {"time": ("time", dates, {"bounds": "b"})}).chunk()
    dataset["time"].encoding = {"units": "days since 1999-01-01"}
    with pytest.raises(ConformError, match=r"a\.nc was not written: variable 'b': .*units"):
        cfagg.write(dataset, tmp_path / "a.nc")


def test_stored_values_that_were_not_decoded_are_written_as_they_are(tmp_path: Path) -> None:
    raw = xr.Dataset({"v": ("x", np.array([-1, 5], "i1"), {"_Unsigned": "true", "scale_factor": 0.5})})
    raw.v.encoding = {"dtype": np.dtype("i1")}
    cfagg.write(raw, tmp_path / "a.zarr")
    assert xr.open_zarr(tmp_path / "a.zarr", mask_and_scale=False).v.values.tolist() == [-1, 5]


@pytest.mark.parametrize(("value", "why"), [(np.arange(4).reshape(2, 2), "one dimension"), ("a\0b", "null character")])
def test_attributes_of_several_dimensions_and_with_null_characters_are_losses_in_netcdf(
    tmp_path: Path, value: Any, why: str
) -> None:
    with pytest.raises(LossError, match=why):
        cfagg.write(xr.Dataset({"v": ("x", [1, 2], {"odd": value})}, attrs={"odd": value}), tmp_path / "a.nc")
    assert list(tmp_path.iterdir()) == []


def test_attributes_of_several_dimensions_keep_their_shape_in_zarr(tmp_path: Path) -> None:
    table = np.arange(4).reshape(2, 2)
    cfagg.write(xr.Dataset({"v": ("x", [1], {"table": table})}, attrs={"table": table}), tmp_path / "a.zarr")
    with xr.open_zarr(tmp_path / "a.zarr") as found:
        assert found.attrs["table"] == found.v.attrs["table"] == table.tolist()


@pytest.mark.parametrize("name", ["a.nc", "a.nca"])
def test_16_bit_floats_that_netcdf_lacks_are_refused_with_the_remedy(tmp_path: Path, name: str) -> None:
    with pytest.raises(UnsupportedError, match=r"variable 'v': the type float16 .* write it as float32"):
        cfagg.write(xr.Dataset({"v": ("x", np.ones(2, "f2"))}), tmp_path / name)


@pytest.mark.parametrize("shape", [(4,), (2, 2), ()])
def test_bytes_of_a_fixed_length_are_written_to_zarr_and_grow(tmp_path: Path, shape: tuple[int, ...]) -> None:
    words = np.array([b"ab", b"c", b"xyz", b""], "S3")[: math.prod(shape)].reshape(shape)
    dataset = xr.Dataset({"v": (("t", "x")[: len(shape)], words)})
    cfagg.write(dataset, tmp_path / "a.zarr")
    cfagg.write(dataset.chunk(), tmp_path / "b.zarr")
    for name in ("a.zarr", "b.zarr"):
        assert zarr.open_group(tmp_path / name)["v"].dtype == words.dtype
        xr.testing.assert_equal(xr.open_zarr(tmp_path / name).load(), dataset)
    if shape:
        cfagg.append(tmp_path / "a.zarr", dataset, "t")
        assert cfagg.open_array(tmp_path / "a.zarr", "v")[...].tolist() == np.concatenate([words, words]).tolist()


@pytest.mark.parametrize("name", ["a.nc", "a.zarr"])
@pytest.mark.parametrize(
    ("values", "encoding"),
    [
        (np.arange(4) * np.timedelta64(6, "h") + np.datetime64("2000-01-01", "ns"), {"dtype": "i8"}),
        (np.arange(4) * np.timedelta64(6, "h").astype("m8[ns]"), {"units": "days", "dtype": "i8"}),
        (np.arange(4) * np.timedelta64(6, "h") + np.datetime64("2000-01-01", "ns"), {}),
    ],
)
def test_dates_of_dask_that_do_not_fit_their_units_are_refused_by_name(
    tmp_path: Path, name: str, values: Any, encoding: dict[str, Any]
) -> None:
    own = {"units": "days since 2000-01-01", **encoding}
    dataset = xr.Dataset({"good": ("x", values), "odd": ("x", values, {}, own)}).chunk(x=2)
    expected = ConformError if "dtype" in own or name == "a.nc" else UnsupportedError
    with pytest.raises(expected, match=rf"variable 'odd'.*{own['units']}") as caught:
        cfagg.write(dataset, tmp_path / name)
    assert "encoding" in str(caught.value)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["a.nc", "a.zarr"])
@pytest.mark.parametrize("chunks", [None, 1])
@pytest.mark.parametrize("kind", ["dates", "spans", "cftime"])
def test_dates_whose_numbers_the_type_of_their_encoding_does_not_have_are_refused(
    tmp_path: Path, name: str, chunks: int | None, kind: str
) -> None:
    dates: Any = np.array(["2000-01-01", "2300-01-01"], "M8[s]")
    if kind == "cftime":
        dates = np.array([cftime.DatetimeNoLeap(year, 1, 1) for year in (2000, 2300)], object)
    values = np.array([1, 10**10], "m8[s]") if kind == "spans" else dates
    own = {"dtype": "i4", "units": "seconds" if kind == "spans" else "seconds since 1970-01-01"}
    dataset = xr.Dataset({"v": ("x", values, {}, own)}).chunk({} if chunks is None else {"x": chunks})
    with pytest.raises(ConformError, match=r"variable 'v': the encoded date 10[0-9]* cannot be stored as int32"):
        cfagg.write(dataset if chunks else dataset.load(), tmp_path / name)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("chunks", [None, 1])
def test_dates_of_cftime_are_written_in_the_type_of_their_encoding(tmp_path: Path, chunks: int | None) -> None:
    dates = np.array([cftime.DatetimeNoLeap(year, 1, 1) for year in (2000, 2003)], object)
    own = {"dtype": "i4", "units": "days since 2000-01-01"}
    dataset = xr.Dataset({"v": ("x", dates, {}, own)})
    cfagg.write(dataset if chunks is None else dataset.chunk(x=chunks), tmp_path / "a.zarr")
    assert cfagg.open_array(tmp_path / "a.zarr", "v").dtype == "i4"
    xr.testing.assert_equal(xr.open_zarr(tmp_path / "a.zarr").load(), dataset)


@pytest.mark.parametrize("role", ["coordinate", "fragment"])
@pytest.mark.parametrize(
    ("value", "why"), [("a\0b", "first null character"), ("\ud800", "not Unicode"), (42, "an object of type int")]
)
def test_texts_that_netcdf_would_cut_off_or_lacks_are_refused(tmp_path: Path, value: Any, why: str, role: str) -> None:
    words = ("x", np.array(["good", value], object if value == 42 else None))
    dataset = xr.Dataset({"v": words}) if role == "fragment" else xr.Dataset({"n": ("x", [1, 2])}, {"v": words})
    with pytest.raises(UnsupportedError, match=f"variable 'v' holds .*{why}"):
        cfagg.write(dataset, tmp_path / "a.nc")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("attributes", [{"note": None}, {5: 1}])
@pytest.mark.parametrize("of", ["variable", "coordinate", "dataset"])
def test_attributes_that_netcdf_does_not_have_are_losses(tmp_path: Path, attributes: dict[Any, Any], of: str) -> None:
    dataset = xr.Dataset({"v": ("x", [1, 2])}, {"x": [1, 2]})
    {"variable": dataset.v, "coordinate": dataset.x, "dataset": dataset}[of].attrs |= attributes
    with pytest.raises(LossError, match=r"attribute ('note'|5) \(.*\) is lost"):
        cfagg.write(dataset, tmp_path / "a.nc")
    assert len(cfagg.write(dataset, tmp_path / "a.nc", on_loss="drop").losses) == 1


@pytest.mark.parametrize("name", ["a/b", "a ", "e\u0301", "-a", "", "a" * 300])
@pytest.mark.parametrize("of", ["variable", "dimension", "attribute", "coordinate"])
def test_names_that_netcdf_does_not_have_are_losses(tmp_path: Path, name: str, of: str) -> None:
    dataset = {
        "variable": xr.Dataset({name: ("x", [1, 2])}),
        "dimension": xr.Dataset({"v": (name, [1, 2])}),
        "attribute": xr.Dataset({"v": ("x", [1, 2], {name: "text"})}),
        "coordinate": xr.Dataset(coords={name: ("x", [1, 2])}),
    }[of].assign({"good": ("y", [1.0])})
    with pytest.raises(LossError, match="netCDF "):
        cfagg.write(dataset, tmp_path / "a.nc")
    assert list(tmp_path.iterdir()) == []
    report = cfagg.write(dataset, tmp_path / "a.nc", on_loss="drop")
    assert len(report.losses) == (2 if of == "dimension" else 1)
    assert set(cfagg.read(tmp_path / "a.nc").variables) == ({"v", "good"} if of == "attribute" else {"good"})


@pytest.mark.parametrize("of", ["variables", "dimensions"])
def test_names_that_differ_in_type_only_are_refused(tmp_path: Path, of: str) -> None:
    names: tuple[Any, Any] = (1, "1")
    given = {n: ("x", [1.0]) for n in names} if of == "variables" else {f"v{n!r}": ((n,), [1.0]) for n in names}
    with pytest.raises(OptionError, match="has '1' twice"):
        cfagg.write(xr.Dataset(given), tmp_path / "a.nc")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("value", "found"),
    [
        (np.bytes_(b"more than eight bytes"), "more than eight bytes"),
        (2**65, 2.0**65),
        ([2**65, 1], [2.0**65, 1.0]),
        (np.ma.masked_array([1, 2], [False, True]), None),
        (np.ma.masked_array([1, 2]), [1, 2]),
    ],
)
def test_attributes_of_unusual_types_are_written_as_they_are_or_are_losses(
    tmp_path: Path, value: Any, found: Any
) -> None:
    dataset = xr.Dataset({"v": ("x", [1.0], {"odd": value})})
    if found is None:
        with pytest.raises(LossError, match="no missing values"):
            cfagg.write(dataset, tmp_path / "a.nc")
        return
    cfagg.write(dataset, tmp_path / "a.nc")
    with netCDF4.Dataset(tmp_path / "a.nc") as file:
        assert np.asarray(file["v"].odd).tolist() == found


@pytest.mark.parametrize("role", ["coordinate", "fragment"])
@pytest.mark.parametrize("fill", [7.5, 1000, np.nan, "text", [1, 2]])
def test_a_fill_value_that_the_type_does_not_have_is_refused(tmp_path: Path, fill: Any, role: str) -> None:
    values = ("x", np.array([1, 7], "i1"), {"_FillValue": fill})
    dataset = xr.Dataset({"v": values}) if role == "fragment" else xr.Dataset({"n": ("x", [1, 2])}, {"v": values})
    with pytest.raises(ConventionError, match=r"variable 'v': _FillValue = .* is not a single value of type int8"):
        cfagg.write(dataset, tmp_path / "a.nc")
    assert list(tmp_path.iterdir()) == []


def test_preferred_chunks_may_be_integers_of_numpy(tmp_path: Path) -> None:
    own = {"preferred_chunks": {"x": np.int64(2)}}
    cfagg.write(xr.Dataset({"v": ("x", np.arange(5.0), {}, own)}), tmp_path / "a.nc")
    assert cfagg.open_array(tmp_path / "a.nc", "v").chunks == ((2, 2, 1),)


@pytest.mark.parametrize("name", ["a.zarr", "a.nc"])
@pytest.mark.parametrize("place", ["encoding", "attrs"])
@pytest.mark.parametrize(
    ("dtype", "fill"), [("i2", 40000), ("i2", np.uint16(40000)), ("u1", -1), ("i2", 1e37), ("f4", 1e300)]
)
def test_a_fill_value_that_the_stored_type_lacks_is_refused_instead_of_wrapped_around(
    tmp_path: Path, dtype: str, fill: Any, place: str, name: str
) -> None:
    dataset = xr.Dataset({"v": ("x", np.array([1, 2], dtype))})
    getattr(dataset.v, place)["_FillValue"] = fill
    if place == "encoding":
        dataset.v.encoding["dtype"] = dtype
    with pytest.raises(ConventionError, match=r"variable 'v': _FillValue = '.*' is not a single value of type"):
        cfagg.write(dataset, tmp_path / name)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("stored", "said", "fill"), [("i2", "true", 40000), ("u2", "false", -1)])
def test_a_fill_value_of_the_other_sign_is_the_one_with_the_same_bits_where_unsigned_says_so(
    tmp_path: Path, stored: str, said: str, fill: int
) -> None:
    dataset = xr.Dataset({"v": ("x", [1.0, np.nan])})
    dataset.v.encoding = {"dtype": stored, "_Unsigned": said, "_FillValue": fill}
    cfagg.write(dataset, tmp_path / "a.nc")
    npt.assert_array_equal(cfagg.read(tmp_path / "a.nc").v, [1, np.nan])


@pytest.mark.parametrize("name", ["a.zarr", "a.nc"])
@pytest.mark.parametrize("calendar", ["standard", "360_day"])
@pytest.mark.parametrize("encoding", [{}, {"dtype": "i8"}, {"dtype": "i4", "_FillValue": -9}])
def test_times_that_are_all_missing_are_written_in_every_calendar(
    tmp_path: Path, encoding: dict[str, Any], calendar: str, name: str
) -> None:
    dataset = xr.Dataset({"v": ("time", [1.0, 2.0])}, {"time": np.full(2, "NaT", "M8[ns]")})
    dataset.time.encoding = {"units": "days since 2000-01-01", "calendar": calendar, **encoding}
    cfagg.write(dataset, tmp_path / name)
    found = cfagg.read(tmp_path / name).time
    assert found.isnull().all()
    assert found.encoding["calendar"] == calendar


@pytest.mark.parametrize("name", ["a.zarr", "a.nc"])
def test_units_in_which_xarray_encodes_no_times_are_refused_by_name(tmp_path: Path, name: str) -> None:
    dataset = xr.Dataset(coords={"time": np.array(["2000-01-01"], "M8[ns]")})
    dataset.time.encoding = {"units": "months since 2000-01-01"}
    with pytest.raises(ConformError, match="variable 'time': xarray encodes no times in 'months'; give it other units"):
        cfagg.write(dataset, tmp_path / name)


@pytest.mark.parametrize("name", ["a.zarr", "a.nc"])
@pytest.mark.parametrize(("dtype", "gap"), [("i1", np.int16(255)), ("u1", np.int32(-1)), ("i2", 40000)])
def test_a_missing_value_that_the_stored_type_lacks_makes_no_value_missing(
    tmp_path: Path, dtype: str, gap: Any, name: str
) -> None:
    values = np.array([1, 2, int(gap) % 2 ** (8 * np.dtype(dtype).itemsize)]).astype(dtype)
    dataset = xr.Dataset({"v": ("x", values.astype("f8"))})
    dataset.v.encoding = {"dtype": dtype, "missing_value": gap}
    cfagg.write(dataset, tmp_path / name)
    found = cfagg.read(tmp_path / name, mask_and_scale=False).v
    assert (found.values.tolist(), found.attrs["missing_value"]) == (values.tolist(), gap)
    npt.assert_array_equal(cfagg.read(tmp_path / name).v, values)


@pytest.mark.parametrize("name", ["a.zarr", "a.nc"])
@pytest.mark.parametrize("values", [np.array([3, 5, 7]), np.array([3.0, np.nan, 7.0])])
@pytest.mark.parametrize("packing", [{"scale_factor": np.int16(2), "add_offset": np.int32(1)}, {"add_offset": 1}])
def test_values_packed_with_integers_are_written(
    tmp_path: Path, values: Any, packing: dict[str, Any], name: str
) -> None:
    dataset = xr.Dataset({"v": ("x", values)})
    dataset.v.encoding = {"dtype": "i2", "_FillValue": -1, **packing}
    cfagg.write(dataset, tmp_path / name)
    npt.assert_array_equal(cfagg.read(tmp_path / name).v, values)
