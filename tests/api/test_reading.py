"""The two functions of analysis code."""

import os
import pickle

import netCDF4
import numpy as np
import pytest
import xarray as xr

import cfagg
from cfagg.arrays.chunked import ZarrReader
from cfagg.errors import (
    AccessError,
    CalendarError,
    ConventionError,
    FragmentNotFoundError,
    LimitError,
    OptionError,
    SourceError,
    UnitsError,
    UnknownConventionWarning,
    UnreadableAggregationError,
    UnsupportedError,
)
from cfagg.labelled import zarr as zarr_engine
from tests import nca_files

MASTER = np.arange(20, dtype="f4").reshape(5, 4)


@pytest.fixture
def path(tmp_path):
    coordinates = {"t": (["t"], np.arange(5), {"axis": "T"}), "y": (["y"], np.arange(4), {})}
    return nca_files.simple(tmp_path, MASTER, ["t", "y"], [[0, 2, 5], [0, 4]], coordinates=coordinates)


def test_an_aggregation_is_read_with_its_coordinates(path):
    ds = cfagg.read(path)
    np.testing.assert_array_equal(ds.tas, MASTER)
    np.testing.assert_array_equal(ds.tas.sel(t=3), MASTER[3])
    assert list(ds.coords) == ["t", "y"]


def test_values_are_read_when_they_are_asked_for(path):
    ds = cfagg.read(path)
    (path.parent / "parts" / "1_0.nc").unlink()
    np.testing.assert_array_equal(ds.tas[:2], MASTER[:2])
    with pytest.raises(FragmentNotFoundError, match=r"partition \(1, 0\)"):
        ds.tas.load()


def test_missing_partitions_are_filled_on_request(path):
    (path.parent / "parts" / "1_0.nc").unlink()
    found = cfagg.read(path, missing="fill").tas
    np.testing.assert_array_equal(found[:2], MASTER[:2])
    assert np.isnan(found[2:]).all()


def test_chunks_give_dask_arrays_along_the_partitions(path):
    assert cfagg.read(path, chunks={}).tas.chunks == ((2, 3), (4,))
    assert cfagg.read(path).tas.chunks is None


def test_variables_are_chosen_and_unknown_ones_named(path):
    assert list(cfagg.read(path, variables="tas").variables) == ["tas", "t", "y"]
    assert list(cfagg.read(path, variables=[]).data_vars) == []
    with pytest.raises(SourceError, match=r"'pr'.*tas"):
        cfagg.read(path, variables=["tas", "pr"])


def test_allow_admits_files_elsewhere(tmp_path):
    elsewhere = tmp_path / "archive"
    elsewhere.mkdir()
    nca_files.fragment(elsewhere / "a.nc", "tas", MASTER, ["t", "y"])
    (tmp_path / "home").mkdir()
    content = nca_files.array(
        ["t", "y"],
        [[0, 5], [0, 4]],
        lambda i, box: {"data": {"file": str(elsewhere / "a.nc"), "ncvar": "tas", "shape": [5, 4]}},
    )
    path = nca_files.aggregation(tmp_path / "home" / "agg.nca", "tas", "f4", {"t": 5, "y": 4}, content)
    with pytest.raises(AccessError, match="allow="):
        cfagg.read(path).load()
    np.testing.assert_array_equal(cfagg.read(path, allow=[elsewhere]).tas, MASTER)


def test_options_of_xarray_are_handed_on(path):
    assert cfagg.read(path, drop_variables=["y"]).tas.coords.keys() == {"t"}


@pytest.mark.parametrize("name", ["temperature.nca", "a.zarr"])
def test_an_unknown_option_is_refused_and_the_file_is_not_blamed(path, tmp_path, name):
    xr.Dataset({"tas": ("t", MASTER[:, 0])}).to_zarr(tmp_path / "a.zarr", consolidated=False)
    place = path if name == "temperature.nca" else tmp_path / name
    with pytest.raises(OptionError, match=r"^read has no option 'decode_timez'; did you mean decode_times\?$"):
        cfagg.read(place, decode_timez=False)
    with pytest.raises(OptionError, match=r"^read has no option 'bogus'"):
        cfagg.read(place, bogus=1)


def test_plain_netcdf_is_read_too(tmp_path):
    for kind in ("NETCDF3_CLASSIC", "NETCDF4"):
        nca_files.fragment(tmp_path / f"{kind}.nc", "tas", MASTER, ["t", "y"], format=kind)
        with cfagg.read(tmp_path / f"{kind}.nc") as ds:
            np.testing.assert_array_equal(ds.tas, MASTER)


@pytest.mark.parametrize("version", [2, 3])
def test_zarr_stores_are_read_too(tmp_path, version):
    xr.Dataset({"tas": (("t", "y"), MASTER)}).to_zarr(
        tmp_path / "store", zarr_format=version, consolidated=version == 2
    )
    np.testing.assert_array_equal(cfagg.read(tmp_path / "store", chunks={}).tas, MASTER)


def test_a_group_is_read(path):
    with netCDF4.Dataset(path, "a") as ds:
        variable = ds.createGroup("g").createVariable("other", "f4", ())
        variable.setncatts(ds["tas"].__dict__)
    np.testing.assert_array_equal(cfagg.read(path, group="g").other, MASTER)


def test_what_cannot_be_read_says_what_it_is(tmp_path):
    (tmp_path / "text").write_text("hello")
    for name, message in (("text", "not a netCDF file"), ("gone", "no file"), (".", "not a Zarr store")):
        with pytest.raises(SourceError, match=message):
            cfagg.read(tmp_path / name)


def test_open_aggregation_opens_no_partition(path):
    for file in (path.parent / "parts").iterdir():
        file.unlink()
    found = cfagg.open_aggregation(path, "tas")
    assert found.grid.sizes == ((2, 3), (4,))
    assert found.partitions.file_name(1) == "parts/1_0.nc"


def test_open_aggregation_refuses_an_ordinary_variable_and_names_the_others(path):
    with pytest.raises(SourceError, match=r"'t' .*not an aggregation.*/tas"):
        cfagg.open_aggregation(path, "t")
    with pytest.raises(SourceError, match="'pr'"):
        cfagg.open_aggregation(path, "pr")


def write_bounds(folder, *, master_units, fragment_units=None):
    """Two files with months since their own year, whose bounds have no units, as one aggregated coordinate."""
    sizes, box = {"time": 24, "bnds": 2}, np.stack([np.arange(12) * 30.0, np.arange(12) * 30.0 + 30], 1)
    for k, year in enumerate((2000, 2001)):
        units = {"units": f"days since {year}-01-01", "calendar": "noleap"}
        nca_files.fragment(
            folder / f"{k}.nc", "t", box.mean(1), ["time"], {**units, "bounds": "edges"},
            coordinates={"edges": (["time", "bnds"], box, fragment_units or {})},
        )  # fmt: skip
    for name, variable, dims in (("time", "t", ["time"]), ("time_bnds", "edges", ["time", "bnds"])):
        content = nca_files.array(
            dims,
            [[0, 12, 24], [0, 2]][: len(dims)],
            lambda i, _, variable=variable, dims=dims: {
                "data": {"file": f"{i[0]}.nc", "ncvar": variable, "shape": [12, 2][: len(dims)]}
            },
        )
        said = {**master_units, "bounds": "time_bnds"} if name == "time" else {}
        nca_files.aggregation(folder / "agg.nca", name, "f8", sizes, content, said, dims=dims)
    return folder / "agg.nca", np.concatenate([box, box + 365])


def test_aggregated_bounds_without_units_are_those_of_their_coordinate_in_every_file(tmp_path):
    units = {"units": "hours since 2000-01-01", "calendar": "noleap"}
    path, bounds = write_bounds(tmp_path, master_units=units)
    found = cfagg.read(path, decode_times=False)
    np.testing.assert_array_equal(found.time_bnds, bounds * 24)
    np.testing.assert_array_equal(found.time, bounds.mean(1) * 24)
    np.testing.assert_array_equal(cfagg.read(path).time_bnds.dt.year[:, 0], [2000] * 12 + [2001] * 12)


def test_bounds_of_a_file_that_have_units_are_converted_to_those_of_the_coordinate(tmp_path):
    units = {"units": "days since 2000-01-01", "calendar": "noleap"}
    own = {"units": "days since 1999-01-01", "calendar": "noleap"}
    path, _ = write_bounds(tmp_path, master_units=units, fragment_units=own)
    assert float(cfagg.read(path, decode_times=False).time_bnds[12, 0]) == -365


def test_bounds_of_a_plain_coordinate_have_its_units(tmp_path):
    content = nca_files.array(
        ["z", "b"], [[0, 3], [0, 2]], lambda *_: {"data": {"file": "f.nc", "ncvar": "zb", "shape": [3, 2]}}
    )
    values = np.arange(6.0).reshape(3, 2)
    nca_files.fragment(tmp_path / "f.nc", "zb", values, ["z", "b"], {"units": "km"})
    plain = {"z": (["z"], [500.0, 2500.0, 4500.0], {"units": "m", "bounds": "zb"})}
    path = nca_files.aggregation(tmp_path / "agg.nca", "zb", "f8", {"z": 3, "b": 2}, content, coordinates=plain)
    np.testing.assert_array_equal(cfagg.read(path).zb, values * 1000)


@pytest.mark.parametrize(("dtype", "fill"), [("f4", np.float32(-999)), ("f8", -999.0), ("i4", np.int32(-999))])
def test_what_a_file_with_missing_value_alone_never_wrote_is_missing(tmp_path, dtype, fill):
    values = np.arange(6).reshape(2, 3).astype(dtype)
    path = nca_files.simple(tmp_path, values, ["t", "y"], [[0, 1, 2], [0, 3]], attributes={"missing_value": fill})
    part = tmp_path / "parts" / "0_0.nc"
    part.unlink()
    with netCDF4.Dataset(part, "w") as root:
        for name, size in (("t", 1), ("y", 3)):
            root.createDimension(name, size)
        v = root.createVariable("tas", dtype, ("t", "y"))
        v.missing_value = fill
        v.set_auto_maskandscale(False)
        v[0, 0], v[0, 2] = 7, fill
    found = cfagg.read(path).tas
    np.testing.assert_array_equal(found, [[7, np.nan, np.nan], [3, 4, 5]])


@pytest.mark.parametrize("chunks", [None, {}])
def test_an_array_without_partitions_is_empty(tmp_path, chunks):
    content = {"directions": {"t": True, "y": True}, "pdimensions": ["t"], "pshape": [0], "Partitions": []}
    path = nca_files.aggregation(tmp_path / "agg.nca", "tas", "f4", {"t": None, "y": 3}, content)
    assert cfagg.read(path, chunks=chunks).tas.load().shape == (0, 3)


def test_an_index_of_a_dimension_that_the_sub_array_lacks_may_be_repeated(tmp_path):
    nca_files.fragment(tmp_path / "f.nc", "tas", MASTER[0], ["y"])
    content = nca_files.array(
        ["t", "y"],
        [[0, 1], [0, 4]],
        lambda *_: {"dimensions": ["y"], "data": {"file": "f.nc", "ncvar": "tas", "shape": [4]}},
    )
    path = nca_files.aggregation(tmp_path / "agg.nca", "tas", "f4", {"t": 1, "y": 4}, content)
    expected = MASTER[[0, 0, 0]][:, [3, 3, 1]]
    np.testing.assert_array_equal(cfagg.read(path).tas[[0, 0, 0], [3, 3, 1]], expected)


def test_a_path_may_be_bytes(path):
    assert cfagg.read(os.fsencode(path)).tas.shape == (5, 4)
    assert cfagg.open_aggregation(os.fsencode(path), "tas").shape == (5, 4)


MARKS = ["aggregated_dimensions", "cfa_dimensions", "nca_dimensions"]


def foreign(path, mark, **attributes):
    with netCDF4.Dataset(path, "w") as ds:
        ds.createDimension("t", 2)
        ds.createVariable("tas", "f4", ()).setncattr(mark, "t")
        t = ds.createVariable("t", "f4", ("t",))
        t.setncattr(mark, "t")
        t[:] = [1, 2]
        ds.createVariable("pr", "f4", ("t",))[:] = [3, 4]
    return path


@pytest.mark.parametrize("mark", MARKS)
def test_an_aggregation_of_another_convention_is_refused_and_never_read_as_a_scalar(tmp_path, mark):
    path = foreign(tmp_path / "a.nc", mark)
    with pytest.raises(ConventionError, match=f"a.nc: variable 'tas' .*{mark}.*variables=") as caught:
        cfagg.read(path)
    assert isinstance(caught.value, UnreadableAggregationError)
    assert caught.value.variables == ("tas",)
    with pytest.raises(ConventionError, match="variable 'tas'"):
        cfagg.read(path, variables=["tas", "pr"])
    with pytest.raises(ConventionError, match="variable 'tas'"):
        xr.open_dataset(path, engine="cfagg")
    with pytest.raises(ConventionError, match="variable 'tas'"):
        cfagg.open_aggregation(path, "tas")


@pytest.mark.parametrize("mark", MARKS)
def test_variables_beside_an_aggregation_that_cannot_be_read_are_read_by_name(tmp_path, mark):
    path = foreign(tmp_path / "a.nc", mark)
    assert cfagg.read(path, variables="pr").pr.values.tolist() == [3, 4]
    assert cfagg.read(path, variables=["pr"], drop_variables="t").pr.values.tolist() == [3, 4]
    assert list(xr.open_dataset(path, engine="cfagg", drop_variables=["tas"]).data_vars) == ["pr"]


def test_a_coordinate_that_cannot_be_read_is_missed_with_a_warning(tmp_path):
    path = foreign(tmp_path / "a.nc", "cfa_dimensions")
    with netCDF4.Dataset(path, "a") as ds:
        ds["pr"].coordinates = "tas"
    with pytest.warns(UnknownConventionWarning, match="'tas' .* left out of the coordinates of 'pr'"):
        assert cfagg.read(path, variables="pr").pr.values.tolist() == [3, 4]


def test_all_aggregations_that_cannot_be_read_are_in_one_error(tmp_path):
    path = foreign(tmp_path / "a.nc", "cfa_dimensions")
    with netCDF4.Dataset(path, "a") as ds:
        ds.createVariable("bad", "f4", ()).nca_array = '{"Partitions": []}'
        ds.createVariable("odd", "f4", ()).nca_private = "yes"
    with pytest.raises(UnreadableAggregationError, match="3 variables cannot be read") as caught:
        cfagg.read(path)
    assert sorted(caught.value.variables) == ["bad", "odd", "tas"]
    assert len(caught.value.problems) == 3
    with pytest.raises(UnreadableAggregationError) as alone:
        cfagg.open_aggregation(path, "bad")
    assert str(alone.value.problems[0]) in str(caught.value)
    again = pickle.loads(pickle.dumps(caught.value))
    assert (again.variables, str(again)) == (caught.value.variables, str(caught.value))


@pytest.mark.parametrize(("units", "factor"), [(np.int32(1), 1), (np.int32(5), None), ("5", 5)])
def test_units_that_are_a_number_are_not_taken_for_a_unit(tmp_path, units, factor):
    path = nca_files.simple(tmp_path, MASTER, ["t", "y"], [[0, 5], [0, 4]])
    with netCDF4.Dataset(tmp_path / "parts" / "0_0.nc", "a") as ds:
        ds["tas"].units = units
    if factor is None:
        with pytest.raises(UnitsError, match=r"partition \(0, 0\), .*: attribute units = .*5.* is not text"):
            cfagg.read(path).load()
    else:
        np.testing.assert_array_equal(cfagg.read(path).tas, MASTER * factor)


def test_a_scalar_with_the_name_of_a_dimension_is_named(tmp_path):
    with netCDF4.Dataset(tmp_path / "a.mnc", "w", format="NETCDF3_CLASSIC") as d:
        d.createDimension("zspace", 3)
        d.createVariable("zspace", "i4", ())[:] = 7  # only its attributes count, as in MINC
        d.createVariable("image", "f4", ("zspace",))[:] = [1, 2, 3]
    with pytest.raises(UnsupportedError, match=r"a\.mnc: variable 'zspace' has no dimensions, but .*=\['zspace'\]"):
        cfagg.read(tmp_path / "a.mnc")
    assert cfagg.read(tmp_path / "a.mnc", drop_variables=["zspace"])["image"].values.tolist() == [1, 2, 3]
    assert cfagg.open_array(tmp_path / "a.mnc", "zspace")[...] == 7


@pytest.mark.parametrize("several", [["a.nc", "b.nc"], ("a.nc",), "data/*.nc", "a?.nc"])
def test_several_files_that_are_not_there_are_not_found(several, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(FileNotFoundError, match=r"\.nc"):
        cfagg.read(several)


def test_a_file_whose_name_has_the_signs_of_a_pattern_is_read(tmp_path):
    path = foreign(tmp_path / "a[1]*.nc", "units")
    assert cfagg.read(path).pr.values.tolist() == [3, 4]


@pytest.mark.parametrize(
    ("head", "name"),
    [
        (b"GRIB\0\0\0\2", "GRIB"),
        (b"\x0e\x03\x13\x01" + b"\0" * 8, "HDF4"),
        (b"\0\0\1\0\0\0\7\xd0" + b"\0" * 8, "PP, big-endian with words of 4 bytes"),
        (b"\0\1\0\0\xd0\7\0\0" + b"\0" * 8, "PP, little-endian with words of 4 bytes"),
        (b"\0\0\2\0\0\0\0\0\0\0\7\xd0", "PP, big-endian with words of 8 bytes"),
    ],
)
def test_formats_that_are_not_read_are_known_by_name(tmp_path, head, name):
    path = tmp_path / "a"
    path.write_bytes(head + b"\0" * 512)
    for opens in (cfagg.read, cfagg.show, lambda p: cfagg.convert(p, tmp_path / "a.zarr"), cfagg.check):
        with pytest.raises(SourceError, match=name):
            opens(path)


def test_the_name_of_a_file_does_not_end_as_that_of_a_directory(path):
    for function in (cfagg.read, cfagg.show, cfagg.check):
        with pytest.raises(FileNotFoundError, match=f"{path.name}/"):
            function(f"{path}/")


@pytest.mark.parametrize(
    ("units", "calendar", "reason"),
    [
        ("days since 2000-01-01", "foo", "calendar 'foo' is unknown; expected one of standard, "),
        ("days since 2000-02-30", "noleap", "the date '2000-02-30' of units '.*' does not exist in calendar noleap"),
        ("days since 2000-01-01", "none", "times in calendar 'none' are not decoded by xarray"),
        ("months since 2000-01-01", "noleap", "units 'months since .* in calendar 'noleap' are not decoded by xarray"),
    ],
)
@pytest.mark.parametrize("form", ["nc", "zarr"])
def test_times_that_xarray_cannot_decode_are_named(units, calendar, reason, form, tmp_path):
    time = xr.Variable("time", [0.0, 1.0], {"units": units, "calendar": calendar})
    made = xr.Dataset(
        {"tas": ("time", [1.0, 2.0])}, {"time": time, "other": ("time", [0, 1], {"units": "days since 1990-01-01"})}
    )
    file = tmp_path / f"a.{form}"
    made.to_netcdf(file) if form == "nc" else made.to_zarr(file, consolidated=False)
    with pytest.raises(CalendarError, match=rf"{form}: variable 'time': {reason}.*; decode_times=False leaves"):
        cfagg.read(file)
    assert cfagg.read(file, decode_times=False).time.values.tolist() == [0, 1]


def test_all_times_that_xarray_cannot_decode_are_named_to_be_left_out(tmp_path):
    milliseconds = {"units": "msec since 00:00:00"}  # of FVCOM
    made = xr.Dataset({"a": ("x", [1, 2], milliseconds), "tas": ("x", [1.0, 2.0]), "b": ("x", [3, 4], milliseconds)})
    made.to_netcdf(tmp_path / "a.nc")
    with pytest.raises(CalendarError, match=r"variable 'a'.* drop_variables=\['a', 'b'\] leaves such variables out"):
        cfagg.read(tmp_path / "a.nc")
    assert list(cfagg.read(tmp_path / "a.nc", drop_variables=["a", "b"]).variables) == ["tas"]


def test_a_value_that_is_no_time_is_named_in_place_of_its_units(tmp_path):
    with netCDF4.Dataset(tmp_path / "a.nc", "w") as ds:
        ds.createDimension("x", 2)
        ds.createVariable("t", "i4", ("x",)).units = "days since 2000-01-01"
        ds["t"][0] = 1  # the other one is never written
    with pytest.raises(CalendarError, match=r"'t': the value -2147483647 is no time in units 'days since 2000-01-01'"):
        cfagg.read(tmp_path / "a.nc")


def test_times_that_are_all_missing_are_read_though_xarray_cannot_decode_them(tmp_path):
    time = ("x", [np.nan], {"units": "days since 2000-01-01", "calendar": "360_day"})
    xr.Dataset({"t": time}).to_netcdf(tmp_path / "a.nc")
    assert cfagg.read(tmp_path / "a.nc").t.isnull().all()
    cfagg.write(cfagg.read(tmp_path / "a.nc", decode_times=False), tmp_path / "out.nc")
    assert cfagg.open_aggregation(tmp_path / "out.nc", "t").partitions.file_name(0) == "a.nc"


@pytest.mark.parametrize("form", ["aggregation", "netcdf", "zarr", "several"])
@pytest.mark.parametrize(
    ("option", "wrong"), [("workers", 0), ("workers", "2"), ("workers", 1.5), ("chunks", "x"), ("chunks", [1])]
)
def test_options_of_odd_values_are_refused_whatever_is_read(path, tmp_path, form, option, wrong):
    xr.Dataset({"v": ("x", np.arange(3.0))}).to_netcdf(tmp_path / "n.nc")
    cfagg.convert(tmp_path / "n.nc", tmp_path / "z.zarr")
    given = {"aggregation": path, "netcdf": tmp_path / "n.nc", "zarr": tmp_path / "z.zarr", "several": [path]}[form]
    with pytest.raises((LimitError, OptionError), match=option):
        cfagg.read(given, **{option: wrong})
    if option == "workers" and form != "several":
        with pytest.raises((LimitError, OptionError), match=option):
            cfagg.open_array(given, "v", **{option: wrong})


def test_a_size_of_words_that_there_is_not_is_refused_for_every_file(path, tmp_path):
    for given in (path, cfagg.demo.sample("pp/umfile.pp"), cfagg.demo.sample("test1.nc")):
        with pytest.raises(OptionError, match="word_size=3 is not known; choose 1, 4 or 8"):
            cfagg.read(given, word_size=3)


def test_a_zarr_store_is_read_by_as_many_threads_as_are_given(tmp_path, monkeypatch):
    cfagg.convert(cfagg.demo.sample("test1.nc"), tmp_path / "z.zarr", chunks={"time": 1})
    made = []
    monkeypatch.setattr(zarr_engine, "ZarrReader", lambda array, workers: made.append(workers) or ZarrReader(array))
    assert cfagg.read(tmp_path / "z.zarr", workers=3)["tas"].shape == (12, 64, 128)
    assert set(made) == {3}


@pytest.mark.parametrize("several", [False, True])
def test_read_takes_no_engine(several):
    path = cfagg.demo.sample("test1.nc")
    with pytest.raises(OptionError, match=r"^engine: read finds out what the file is; .*xarray.open_dataset"):
        cfagg.read([path] if several else path, engine="netcdf4")
