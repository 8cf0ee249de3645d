"""Conversions to netCDF-4; netCDF4 says what is in the file, zarr-python and NumPy what must be."""

from __future__ import annotations

import itertools
import os
import signal
import time

import h5py
import netCDF4
import numpy as np
import pytest
import xarray as xr
import zarr
from zarr.core.dtype import VariableLengthUTF8

import cfagg
from cfagg.cli.main import main
from cfagg.errors import LimitError, LossError, OptionError, TargetError, TargetExistsError, UnsupportedError
from tests.conversion.conftest import write_aggregation, write_fragment, write_packed
from tests.durability.tracing import forked


def array(group, name, data, dims, **more):
    """Write one array into a group of Zarr, version 2 or 3."""
    attributes = more.pop("attributes", {})
    if group.metadata.zarr_format == 2:
        attributes = {**attributes, "_ARRAY_DIMENSIONS": list(dims)}
    else:
        more["dimension_names"] = dims or None
    dtype = VariableLengthUTF8() if data.dtype.kind == "O" else data.dtype
    made = group.create_array(name, shape=data.shape, dtype=dtype, attributes=attributes, **more)
    made[...] = data
    return made


def values(path, name):
    """Return what netCDF4 reads of a variable, as stored."""
    with netCDF4.Dataset(path) as file:
        file[name].set_auto_maskandscale(False)
        return file[name][...]


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_groups_values_types_and_attributes_of_a_zarr_store_are_in_the_file(tmp_path, zarr_format):
    attributes = {"title": "a store", "version": [2, 3], "names": ["a", "b"]}
    root = zarr.open_group(str(tmp_path / "a.zarr"), mode="w", zarr_format=zarr_format, attributes=attributes)
    rng = np.random.default_rng(0)
    arrays = {
        "tas": (rng.normal(size=(7, 5)).astype("f4"), ("time", "x")),
        "count": (rng.integers(0, 99, (7, 5)).astype(">i2"), ("time", "x")),
        "name": (np.array(["a", "", "Ålesund", "d", "e"], object), ("x",)),
        "one": (np.array(3, "u8"), ()),
        "label": (np.array("a b", object), ()),
    }
    for name, (data, dims) in arrays.items():
        array(
            root, name, data, dims, attributes={"units": "K", "n": 4}, **({"chunks": (3, 2)} if data.ndim > 1 else {})
        )
    inner = root.create_group("deep").create_group("est", attributes={"a": 0.5})
    array(inner, "tas", np.arange(9.0), ("x",))  # another dimension of the same name
    report = cfagg.convert(tmp_path / "a.zarr", tmp_path / "a.nc", verify=True)
    assert report.losses == ()
    assert set(report.variables) == {*arrays, "deep/est/tas"}
    with netCDF4.Dataset(tmp_path / "a.nc") as file:
        assert file.data_model == "NETCDF4"
        assert (file.title, file.version.tolist(), file.names) == ("a store", [2, 3], ["a", "b"])
        for name, (data, dims) in arrays.items():
            assert file[name].dimensions == dims
            assert (file[name].units, file[name].n) == ("K", 4)
            file[name].set_auto_maskandscale(False)
            np.testing.assert_array_equal(np.asarray(file[name][...], data.dtype), data)
            assert data.dtype.kind == "O" or file[name].dtype == data.dtype.newbyteorder("=")
        assert file["deep/est"].a == 0.5
        assert file["deep/est/tas"].shape == (9,)


def test_chunks_are_those_of_the_source_and_compression_is_deflate_where_there_was_any(tmp_path):
    root = zarr.open_group(str(tmp_path / "a.zarr"), mode="w")
    array(root, "packed", np.zeros((7, 5), "i2"), ("y", "x"), chunks=(3, 2))
    array(root, "plain", np.zeros((7, 5), "i2"), ("y", "x"), chunks=(3, 2), compressors=None)
    array(root, "shards", np.zeros((8, 6), "i2"), ("b", "a"), chunks=(2, 3), shards=(4, 6))
    cfagg.convert(tmp_path / "a.zarr", tmp_path / "a.nc")
    with netCDF4.Dataset(tmp_path / "a.nc") as file:
        assert [file[n].chunking() for n in ("packed", "plain", "shards")] == [[3, 2], [3, 2], [2, 3]]
        assert [file[n].filters()["zlib"] for n in ("packed", "plain", "shards")] == [True, False, True]


@pytest.mark.parametrize("filters", [{}, {"zlib": True, "complevel": 4}, {"zlib": True, "shuffle": False},
                                     {"fletcher32": True}, {"zlib": True, "fletcher32": True}])  # fmt: skip
def test_filters_of_a_netcdf_source_are_kept(tmp_path, filters):
    data = np.random.default_rng(0).integers(0, 9, (20, 30)).astype("i4")
    with netCDF4.Dataset(tmp_path / "a.nc", "w") as file:
        file.createDimension("y", 20)
        file.createDimension("x", 30)
        file.createVariable("v", "i4", ("y", "x"), chunksizes=(7, 8), **filters)[:] = data
    cfagg.convert(tmp_path / "a.nc", tmp_path / "b.nc")
    with netCDF4.Dataset(tmp_path / "a.nc") as a, netCDF4.Dataset(tmp_path / "b.nc") as b:
        assert a["v"].filters() == b["v"].filters()
        assert b["v"].chunking() == [7, 8]
        np.testing.assert_array_equal(b["v"][:], data)


@pytest.mark.parametrize(("options", "chunks", "deflated", "level"), [
    ({"chunks": {"time": 2}}, [2, 4, 6], True, 1),
    ({"chunks": {"time": -1}, "codec": "none"}, [12, 4, 6], False, 0),
    ({"codec": "gzip"}, [2, 4, 6], True, 5),
    ({"level": 9}, [2, 4, 6], True, 9),
])  # fmt: skip
def test_chunks_and_compression_can_be_asked_for(floats, tmp_path, options, chunks, deflated, level):
    cfagg.convert(floats[0], tmp_path / "out.nc", **options)
    with netCDF4.Dataset(tmp_path / "out.nc") as file:
        assert file["tas"].chunking() == chunks
        assert (file["tas"].filters()["zlib"], file["tas"].filters()["complevel"]) == (deflated, level)
        file.set_auto_maskandscale(False)
        np.testing.assert_array_equal(file["tas"][:], floats[1])


def test_partitions_of_unequal_sizes_are_no_chunks_of_netcdf(tmp_path):
    path = write_aggregation(tmp_path / "a.nca", [2, 5, 1])
    for k, n in enumerate((2, 5, 1)):
        write_fragment(tmp_path / f"part{k}.nc", np.zeros((n, 4, 6)))
    with pytest.raises(UnsupportedError, match="netCDF-4 has chunks of one size only"):
        cfagg.convert(path, tmp_path / "out.nc", chunks="partitions")
    assert list(tmp_path.glob("*out*")) == []


def test_an_aggregation_becomes_values_and_the_file_says_nothing_of_partitions(floats, tmp_path):
    report = cfagg.convert(floats[0], tmp_path / "out.nc")
    assert report.dialects == ("NCA-0.1",)
    with netCDF4.Dataset(tmp_path / "out.nc") as file:
        assert file.Conventions == "CF-1.5"
        assert set(file.variables) == {"time", "time_bnds", "lat", "lon", "tas"}
        assert set(file.dimensions) == {"time", "lat", "lon", "bnds"}
        assert set(file["tas"].ncattrs()) == {"units", "long_name", "cell_methods", "missing_value"}
        assert file["tas"].missing_value.dtype == np.float32
        np.testing.assert_array_equal(values(tmp_path / "out.nc", "tas"), floats[1])


def test_packed_integers_of_partitions_that_are_packed_alike_are_copied_untouched(tmp_path):
    path, stored = write_packed(tmp_path, [(0.01, 280.0)] * 3)
    cfagg.convert(path, tmp_path / "out.nc")
    with netCDF4.Dataset(tmp_path / "out.nc") as file:
        assert (file["tas"].scale_factor, file["tas"].add_offset, file["tas"]._FillValue) == (0.01, 280.0, -32768)
    np.testing.assert_array_equal(values(tmp_path / "out.nc", "tas"), stored)


def test_packed_integers_are_decoded_on_demand(tmp_path):
    path, stored = write_packed(tmp_path, [(0.5, 280.0)] * 2)
    cfagg.convert(path, tmp_path / "out.nc", packing="decode")
    expected = np.where(stored == -32768, np.nan, stored * 0.5 + 280)
    np.testing.assert_array_equal(values(tmp_path / "out.nc", "tas"), expected)


def test_scale_and_offset_of_a_zarr_store_have_one_type(tmp_path):
    with netCDF4.Dataset(tmp_path / "a.nc", "w") as file:
        file.createDimension("x", 2)
        file.createVariable("v", "i2", ("x",)).setncatts({"scale_factor": np.float32(0.1), "add_offset": np.float32(0)})
        file.createVariable("w", "i2", ("x",)).setncatts({"scale_factor": 0.1, "add_offset": 0.0})
        file.createVariable("t", "i2", ("x",)).setncatts({"scale_factor": np.float32(0.1), "add_offset": 273.15})
        file.createVariable("u", "i2", ("x",)).setncatts({"scale_factor": 0.5, "add_offset": np.int32(0)})
    cfagg.convert(tmp_path / "a.nc", tmp_path / "a.zarr")
    cfagg.convert(tmp_path / "a.zarr", tmp_path / "b.nc")
    with netCDF4.Dataset(tmp_path / "b.nc") as file:
        kinds = [[file[n].getncattr(k).dtype for k in ("scale_factor", "add_offset")] for n in "vwtu"]
        assert (file["t"].scale_factor, file["t"].add_offset) == (np.float32(0.1), 273.15)
    assert kinds == [["f4", "f4"], *[["f8", "f8"]] * 3]


def test_packed_partitions_with_a_valid_range_are_decoded_with_a_note(tmp_path):
    with netCDF4.Dataset(tmp_path / "a.nc", "w") as file:
        file.createDimension("x", 3)
        file.createVariable("v", "i2", ("x",)).setncatts({"scale_factor": 0.5, "valid_min": np.int16(0)})
        file["v"].set_auto_maskandscale(False)
        file["v"][:] = [1, 2, -1]
    cfagg.convert(tmp_path / "a.nc", tmp_path / "b.nc", to="CF-1.13")
    assert "valid range, outside which" in str(cfagg.convert(tmp_path / "b.nc", tmp_path / "c.nc").notes)
    np.testing.assert_array_equal(values(tmp_path / "c.nc", "v"), [0.5, 1, np.nan])


def test_packed_partitions_with_several_missing_values_are_decoded_with_a_note(tmp_path):
    with netCDF4.Dataset(tmp_path / "a.nc", "w") as file:
        file.createDimension("x", 3)
        attributes = {"scale_factor": 0.5, "missing_value": np.array([-1, -2], "i2")}
        file.createVariable("v", "i2", ("x",)).setncatts(attributes)
        file["v"].set_auto_maskandscale(False)
        file["v"][:] = [1, -2, -1]
    cfagg.convert(tmp_path / "a.nc", tmp_path / "b.nc", to="CF-1.13")
    assert "several missing values: decoded" in str(cfagg.convert(tmp_path / "b.nc", tmp_path / "c.nc").notes)
    np.testing.assert_array_equal(values(tmp_path / "c.nc", "v"), [0.5, np.nan, np.nan])


def test_a_valid_range_in_text_stays_what_it_is_where_integers_are_decoded(tmp_path):
    with netCDF4.Dataset(tmp_path / "a.nc", "w") as file:
        file.createDimension("x", 2)
        file.createVariable("v", "i2", ("x",)).setncatts({"scale_factor": 0.5, "valid_min": " 0.0", "valid_max": 3.0})
        file["v"][:] = [1, 2]
    cfagg.convert(tmp_path / "a.nc", tmp_path / "b.nc", packing="decode")
    with netCDF4.Dataset(tmp_path / "b.nc") as file:
        assert (file["v"].valid_min, file["v"].valid_max) == (" 0.0", 3.0)


def test_unlimited_dimensions_stay_unlimited(tmp_path):
    with netCDF4.Dataset(tmp_path / "a.nc", "w") as file:
        file.createDimension("time", None)
        file.createDimension("x", 3)
        file.createVariable("v", "f4", ("time", "x"), chunksizes=(2, 3))[:] = np.arange(15.0).reshape(5, 3)
        file.createVariable("s", str, ("time",))[:] = np.array(list("abcde"), object)
        file.createVariable("never", "i2", ("time",))
    cfagg.convert(tmp_path / "a.nc", tmp_path / "b.nc")
    with netCDF4.Dataset(tmp_path / "b.nc") as file:
        assert (file.dimensions["time"].isunlimited(), file.dimensions["x"].isunlimited()) == (True, False)
        assert file["v"][:].tolist() == np.arange(15.0).reshape(5, 3).tolist()
        assert file["s"][:].tolist() == list("abcde")
        assert file["never"][:].mask.all()  # nothing was written there, and still is missing


@pytest.mark.parametrize("size", [None, 3])
@pytest.mark.parametrize("group", ["/", "/a"])
def test_a_variable_with_the_name_of_a_dimension_that_is_not_its_own_has_its_values(tmp_path, size, group):
    with netCDF4.Dataset(tmp_path / "a.nc", "w") as file:
        place = file.createGroup(group)
        place.createDimension("y", None)
        place.createDimension("x", size)
        place.createVariable("x", "f4", ("y",))[:] = [1, 2, 3]
        place.createVariable("tas", "f4", ("y", "x"))[:] = np.arange(9).reshape(3, 3)
    cfagg.convert(tmp_path / "a.nc", tmp_path / "b.nc")
    assert values(tmp_path / "b.nc", f"{group}/x").tolist() == [1, 2, 3]
    np.testing.assert_array_equal(values(tmp_path / "b.nc", f"{group}/tas"), np.arange(9).reshape(3, 3))


def test_xarray_reads_the_same_from_a_zarr_store_and_from_the_file_made_of_it(tmp_path):
    ds = xr.Dataset(
        {
            "a": (("time", "x"), [[1.0, np.nan, 3.0]] * 2),
            "b": ("x", [1.5, np.nan, 2.5]),
            "f": ("x", [True, False, True]),
        },
        {"x": [10, 20, 30], "time": np.array(["2000-01-01", "2000-01-02"], "M8[ns]"), "name": ("x", ["p", "q", "r"])},
        {"Conventions": "CF-1.8"},
    )
    ds.to_zarr(tmp_path / "a.zarr", encoding={"b": {"dtype": "i2", "scale_factor": 0.5, "_FillValue": -9}})
    cfagg.convert(tmp_path / "a.zarr", tmp_path / "a.nc")
    with xr.open_dataset(tmp_path / "a.zarr", engine="zarr") as first, xr.open_dataset(tmp_path / "a.nc") as second:
        xr.testing.assert_identical(first, second)


def test_what_netcdf_cannot_say_is_refused_as_a_whole_list_and_left_out_when_asked(tmp_path):
    root = zarr.open_group(str(tmp_path / "a.zarr"), mode="w", attributes={"crs": {"a": 1}, "kept": 1})
    array(root, "v", np.arange(3), ("x",), attributes={"flag": True, "nothing": None, "mixed": [1, "a"], "good": 2.5})
    array(root, "bad name ", np.arange(3), ("x",))
    with pytest.raises(LossError) as caught:
        cfagg.convert(tmp_path / "a.zarr", tmp_path / "a.nc")
    lost = {(loss.variable, loss.what) for loss in caught.value.losses}
    assert lost == {
        ("/", "attribute 'crs'"), ("v", "attribute 'flag'"), ("v", "attribute 'nothing'"), ("v", "attribute 'mixed'"),
        ("bad name ", "the variable"),
    }  # fmt: skip
    assert not (tmp_path / "a.nc").exists()
    report = cfagg.convert(tmp_path / "a.zarr", tmp_path / "a.nc", on_loss="drop")
    assert {(loss.variable, loss.what) for loss in report.losses} == lost
    with netCDF4.Dataset(tmp_path / "a.nc") as file:
        assert (file.ncattrs(), file["v"].ncattrs(), set(file.variables)) == (["kept"], ["good"], {"v"})


def test_a_dimension_with_two_sizes_in_one_group_gets_another_name_which_is_a_loss(tmp_path):
    root = zarr.open_group(str(tmp_path / "a.zarr"), mode="w")
    array(root, "a", np.arange(3), ("x",))
    array(root, "b", np.arange(4), ("x",))
    with pytest.raises(LossError, match="dimension 'x'"):
        cfagg.convert(tmp_path / "a.zarr", tmp_path / "a.nc")
    cfagg.convert(tmp_path / "a.zarr", tmp_path / "a.nc", on_loss="drop")
    with netCDF4.Dataset(tmp_path / "a.nc") as file:
        assert sorted((file["a"].dimensions[0], file["b"].dimensions[0])) == ["dim_4", "x"]
        assert file["b"][:].tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize("to", ["netcdf", "CF-1.13"])
def test_a_group_with_the_name_of_a_dimension_beside_it_is_a_loss_which_a_dry_run_says_too(tmp_path, to):
    root = zarr.open_group(str(tmp_path / "a.zarr"), mode="w")
    array(root, "v", np.arange(3), ("x",))
    array(root.create_group("x"), "w", np.arange(4), ("y",))
    for options in [{"dry_run": True}] * (to == "netcdf") + [{}]:
        with pytest.raises(LossError) as caught:
            cfagg.convert(tmp_path / "a.zarr", tmp_path / "a.nc", to=to, **options)
        assert "a dimension has this name there" in str(caught.value.losses[0])
    cfagg.convert(tmp_path / "a.zarr", tmp_path / "a.nc", to=to, on_loss="drop")
    assert cfagg.read(tmp_path / "a.nc")["v"].values.tolist() == [0, 1, 2]


def test_a_text_that_netcdf_would_cut_off_is_refused_and_nothing_is_left(tmp_path):
    root = zarr.open_group(str(tmp_path / "a.zarr"), mode="w")
    array(root, "s", np.array(["good", "ba\0d"], object), ("x",))
    with pytest.raises(UnsupportedError, match="'s' holds the text 'ba"):
        cfagg.convert(tmp_path / "a.zarr", tmp_path / "a.nc")
    assert [p.name for p in tmp_path.iterdir()] == ["a.zarr"]


def test_types_that_netcdf_does_not_have_are_widened_and_noted(tmp_path):
    root = zarr.open_group(str(tmp_path / "a.zarr"), mode="w")
    array(root, "half", np.array([0.1, 2, 65504], "f2"), ("x",))
    array(root, "flag", np.array([True, False, True]), ("x",))
    report = cfagg.convert(tmp_path / "a.zarr", tmp_path / "a.nc", verify=True)
    assert any("'half'" in note for note in report.notes)
    assert any("'flag'" in note for note in report.notes)
    np.testing.assert_array_equal(values(tmp_path / "a.nc", "half"), np.array([0.1, 2, 65504], "f2"))
    assert values(tmp_path / "a.nc", "flag").tolist() == [1, 0, 1]


@pytest.mark.parametrize("codec", ["zstd", "bzip2", "szip", "blosc_lz4"])
def test_filters_that_not_every_reader_has_become_deflate_which_is_noted(tmp_path, codec):
    data = np.arange(2000, dtype="f4")
    with netCDF4.Dataset(tmp_path / "a.nc", "w") as file:
        file.createDimension("x", 2000)
        file.createVariable("v", "f4", ("x",), compression=codec, chunksizes=(500,), fletcher32=True)[:] = data
    report = cfagg.convert(tmp_path / "a.nc", tmp_path / "b.nc")
    assert len(report.notes) == 1
    assert f"'v' is packed by {codec.partition('_')[0]}" in report.notes[0].replace("bz2", "bzip2")
    with netCDF4.Dataset(tmp_path / "b.nc") as file:
        found = file["v"].filters()
        assert [name for name, given in found.items() if given] == ["zlib", "shuffle", "complevel", "fletcher32"]
        np.testing.assert_array_equal(file["v"][:], data)


@pytest.mark.parametrize("target", ["out.zarr", "out.icechunk", "out.nca"])
def test_dimensions_that_can_grow_are_noted_where_the_target_does_not_say_it(tmp_path, target):
    with netCDF4.Dataset(tmp_path / "a.nc", "w") as file:
        for name, size in {"time": None, "run": None, "x": 2}.items():
            file.createDimension(name, size)
        file.createVariable("v", "f4", ("time", "x"))[:] = [[1, 2]]
        file.createVariable("w", "f4", ("run",))[:] = [1]
    (note,) = cfagg.convert(tmp_path / "a.nc", tmp_path / target).notes
    assert note.startswith("unlimited dimensions ('time', 'run') have fixed sizes")
    (note,) = cfagg.convert(tmp_path / "a.nc", tmp_path / target, variables=["w"], overwrite=True).notes
    assert note.startswith("unlimited dimensions ('run')")


@pytest.mark.parametrize("target", ["out.nca", "out.nc"])
def test_a_dimension_of_the_size_0_stays_unlimited_in_an_aggregation_file_without_a_note(tmp_path, target):
    with netCDF4.Dataset(tmp_path / "a.nc", "w") as file:
        file.createDimension("time", None)
        file.createVariable("time", "f4", ("time",))
    to = "NCA-0.1" if target == "out.nca" else "CF-1.13"
    assert cfagg.convert(tmp_path / "a.nc", tmp_path / target, to=to).notes == ()
    with netCDF4.Dataset(tmp_path / target) as file:
        assert file.dimensions["time"].isunlimited()


def test_dimensions_that_no_array_of_a_zarr_store_has_are_noted(tmp_path):
    with netCDF4.Dataset(tmp_path / "a.nc", "w") as file:
        file.createDimension("x", 2)
        file.createGroup("g").createDimension("bnds", 2)
        file.createVariable("v", "f4", ("x",))[:] = [1, 2]
    (note,) = cfagg.convert(tmp_path / "a.nc", tmp_path / "a.zarr").notes
    assert note.startswith("dimensions of no variable ('g/bnds') are left out")


def test_an_existing_file_is_replaced_only_when_asked(floats, tmp_path):
    (tmp_path / "out.nc").write_bytes(b"old")
    with pytest.raises(TargetExistsError, match="overwrite"):
        cfagg.convert(floats[0], tmp_path / "out.nc")
    assert (tmp_path / "out.nc").read_bytes() == b"old"
    cfagg.convert(floats[0], tmp_path / "out.nc", overwrite=True)
    np.testing.assert_array_equal(values(tmp_path / "out.nc", "tas"), floats[1])


def test_neither_the_source_nor_a_file_within_it_is_replaced(tmp_path):
    root = zarr.open_group(str(tmp_path / "a.zarr"), mode="w")
    array(root, "v", np.arange(3), ("x",))
    with pytest.raises(TargetError, match="within it"):
        cfagg.convert(tmp_path / "a.zarr", tmp_path / "a.zarr" / "a.nc")
    cfagg.convert(tmp_path / "a.zarr", tmp_path / "a.nc")
    with pytest.raises(TargetError, match="is the source"):
        cfagg.convert(tmp_path / "a.nc", tmp_path / "a.nc", overwrite=True)
    with pytest.raises(TargetError, match="no directory"):
        cfagg.convert(tmp_path / "a.nc", tmp_path / "gone" / "b.nc")


@pytest.mark.parametrize("option", [{"zarr_format": 2}, {"shards": {"x": 2}}])
def test_options_that_say_nothing_to_a_file_are_refused(floats, tmp_path, option):
    with pytest.raises(OptionError, match=f"leave out {next(iter(option))}="):
        cfagg.convert(floats[0], tmp_path / "out.nc", **option)


@pytest.mark.parametrize("codec", ["zstd", "blosc"])
def test_codecs_that_not_every_reader_has_are_refused(floats, tmp_path, codec):
    with pytest.raises(UnsupportedError, match="choose 'gzip' or 'none'"):
        cfagg.convert(floats[0], tmp_path / "out.nc", codec=codec)


def test_memory_is_that_of_the_slabs_and_progress_ends_at_the_total(tmp_path):
    with h5py.File(tmp_path / "a.nc", "w") as file:
        data = np.random.default_rng(0).normal(size=(64, 40, 50)).astype("f4")
        file.create_dataset("v", data=data, chunks=(1, 40, 50), compression="gzip")
    seen = []
    cfagg.convert(tmp_path / "a.nc", tmp_path / "b.nc", memory="100KiB", progress=lambda *p: seen.append(p))
    assert seen[0] == (0, data.nbytes)
    assert seen[-1] == (data.nbytes, data.nbytes)
    assert max(b - a for (a, _), (b, _) in itertools.pairwise(seen)) <= 40_000
    np.testing.assert_array_equal(values(tmp_path / "b.nc", "v"), data)


def test_a_run_that_is_killed_leaves_the_old_file_and_the_next_one_removes_what_it_left(floats, tmp_path):
    (tmp_path / "out.nc").write_bytes(b"old")
    read, write = os.pipe()

    def slowly(done, _total):
        os.write(write, b".")
        time.sleep(600 if done else 0)

    process = forked(lambda: cfagg.convert(floats[0], tmp_path / "out.nc", overwrite=True, progress=slowly))
    os.close(write)
    os.read(read, 1), os.read(read, 1)
    os.kill(process, signal.SIGKILL)
    os.waitpid(process, 0)
    os.close(read)
    assert (tmp_path / "out.nc").read_bytes() == b"old"
    assert len(list(tmp_path.glob(".out.nc*"))) == 1
    report = cfagg.convert(floats[0], tmp_path / "out.nc", overwrite=True, resume=True)
    assert "written from the beginning" in " ".join(report.notes)
    assert list(tmp_path.glob(".out.nc*")) == []
    np.testing.assert_array_equal(values(tmp_path / "out.nc", "tas"), floats[1])


def test_text_that_is_not_compressed_any_more_is_noted(tmp_path):
    with netCDF4.Dataset(tmp_path / "a.nc", "w") as file:
        file.createDimension("x", 9)
        file.createVariable("s", str, ("x",), zlib=True, chunksizes=(3,))[:] = np.array(["abc"] * 9, object)
        file.createVariable("plain", str, ("x",))[:] = np.array(["abc"] * 9, object)
    report = cfagg.convert(tmp_path / "a.nc", tmp_path / "b.nc")
    assert report.notes == ("variable 's' is text of any length, which netCDF-4 does not compress",)
    assert cfagg.convert(tmp_path / "a.nc", tmp_path / "c.nc", codec="none").notes == ()
    assert len(cfagg.convert(tmp_path / "a.nc", tmp_path / "d.nc", codec="gzip").notes) == 2


def test_a_missing_partition_leaves_nothing(floats, tmp_path):
    (tmp_path / "part1.nc").unlink()
    with pytest.raises(cfagg.errors.FragmentNotFoundError):
        cfagg.convert(floats[0], tmp_path / "out.nc")
    assert list(tmp_path.glob("*out.nc*")) == []


def test_the_command_writes_the_file_its_name_says(floats, tmp_path, capsys):
    assert main(["convert", str(floats[0]), str(tmp_path / "out.nc"), "--variable", "tas"]) == 0
    assert str(tmp_path / "out.nc") in capsys.readouterr().out
    np.testing.assert_array_equal(values(tmp_path / "out.nc", "tas"), floats[1])


def test_a_dry_run_counts_and_writes_nothing(floats, tmp_path):
    found = cfagg.convert(floats[0], tmp_path / "out.nc", dry_run=True, chunks={"time": 3})
    assert found.bytes_out == found.bytes_in == floats[1].nbytes + 8 * (12 + 24 + 4 + 6)
    assert list(tmp_path.glob("*out*")) == []
    assert found.chunks == cfagg.convert(floats[0], found.target, chunks={"time": 3}).chunks


def test_a_file_that_another_process_writes_meanwhile_stays(tmp_path):
    xr.Dataset({"v": ("x", [1.0, 2.0])}).to_netcdf(tmp_path / "a.nc")
    with pytest.raises(TargetExistsError, match=r"b\.nc exists"):
        cfagg.convert(
            tmp_path / "a.nc", tmp_path / "b.nc", progress=lambda *_: (tmp_path / "b.nc").write_bytes(b"theirs")
        )
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.nc", "b.nc"]
    assert (tmp_path / "b.nc").read_bytes() == b"theirs"


@pytest.mark.parametrize("level", [-3, 15])
def test_levels_that_deflate_does_not_have_are_refused(tmp_path, level):
    xr.Dataset({"v": ("x", [1.0, 2.0])}).to_netcdf(tmp_path / "a.nc")
    with pytest.raises(LimitError, match=f"level={level} is outside 0 to 9"):
        cfagg.convert(tmp_path / "a.nc", tmp_path / "b.nc", level=level)
