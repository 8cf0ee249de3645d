"""Conversions from end to end, against the values that were put into the files."""

import shutil

import h5py
import netCDF4
import numpy as np
import pytest
import xarray as xr
import zarr

import cfagg
from cfagg.conversion import Report, convert, plan, variables
from cfagg.conversion.packing import Unwritten
from cfagg.demo import sample
from cfagg.errors import (
    AccessError,
    ConventionError,
    FragmentNotFoundError,
    LimitError,
    OptionError,
    SourceError,
    TargetError,
    TargetExistsError,
    UnsupportedError,
)
from cfagg.formats.values.pool import open_files
from cfagg.formats.zarr.attributes import fill_of
from tests.conversion.conftest import LAT, LON, write_aggregation, write_fragment, write_packed

FORMATS = pytest.mark.parametrize("zarr_format", [3, 2])


@pytest.mark.few(3)
@FORMATS
@pytest.mark.parametrize("codec", ["zstd", "blosc", "gzip", "none"])
def test_values_are_equal_bit_for_bit_with_every_codec(floats, tmp_path, zarr_format, codec):
    path, values = floats
    convert(path, tmp_path / "out.zarr", zarr_format=zarr_format, codec=codec, chunks={"time": 5, "lat": 3})
    found = zarr.open_group(tmp_path / "out.zarr", mode="r")["tas"]
    assert found.dtype == "f4"
    assert found.chunks == (5, 3, LON)
    expected = np.where(values == np.float32(-999), np.float32(-999), values)
    assert found[:].tobytes() == expected.tobytes()


@FORMATS
def test_chunks_at_the_end_of_an_array_are_filled_up_with_its_fill_value(floats, tmp_path, zarr_format):
    path, values = floats
    convert(path, tmp_path / "out.zarr", zarr_format=zarr_format, chunks={"time": 5, "lat": LAT - 1}, workers=1)
    array = zarr.open_group(tmp_path / "out.zarr", mode="r+")["tas"]
    array.resize((15, 2 * (LAT - 1), LON))
    found = array[:]
    assert (found[:12, :LAT] == values).all()
    fill = array.fill_value or 0  # Zarr v2 may have none
    found[:12, :LAT] = fill
    assert (found == fill).all()


@FORMATS
def test_xarray_sees_coordinates_bounds_attributes_and_masks(floats, tmp_path, zarr_format):
    path, values = floats
    report = convert(path, tmp_path / "out.zarr", zarr_format=zarr_format, verify=True)
    with xr.open_zarr(tmp_path / "out.zarr", consolidated=True) as ds:
        assert set(ds.variables) == {"time", "time_bnds", "lat", "lon", "tas"}
        assert ds.attrs == {"Conventions": "CF-1.5", "title": "test"}
        assert ds.tas.dims == ("time", "lat", "lon")
        assert ds.tas.attrs == {"units": "K", "long_name": "temperature", "cell_methods": "time: mean"}
        assert ds.time.attrs["bounds"] == "time_bnds"
        np.testing.assert_array_equal(ds.tas, np.where(values == -999, np.nan, values))
        assert str(ds.time.values[0])[:13] == "2000-01-01T12"
    assert report == Report(
        target=str(tmp_path / "out.zarr"),
        variables=("time", "time_bnds", "lat", "lon", "tas"),
        bytes=values.nbytes + 8 * 12 * 3 + 8 * (LAT + LON),
        stored=report.stored,
        chunks=5,
        verified=True,
        dialects=("NCA-0.1",),
    )


def test_fill_value_of_floats_masks_in_xarray_for_both_formats(tmp_path):
    values = np.ones((2, LAT, LON), "f4")
    values[0, 0] = 1e20
    write_fragment(tmp_path / "part0.nc", values, fill=np.float32(1e20))
    path = tmp_path / "a.nca"
    write_aggregation(path, [2], attributes={"missing_value": np.float32(1e20)})
    with netCDF4.Dataset(tmp_path / "plain.nc", "w") as nc:
        nc.createDimension("x", 3)
        nc.createVariable("v", "f4", ("x",), fill_value=np.float32(1e20))[:] = np.ma.masked_equal([1, 2, 3], 2)
    for zarr_format in (3, 2):
        convert(tmp_path / "plain.nc", tmp_path / f"{zarr_format}.zarr", zarr_format=zarr_format)
        with xr.open_zarr(tmp_path / f"{zarr_format}.zarr") as ds:
            np.testing.assert_array_equal(ds.v, [1, np.nan, 3])


@FORMATS
def test_integers_that_all_partitions_pack_alike_are_copied_untouched(tmp_path, zarr_format):
    path, stored = write_packed(tmp_path, [(0.01, 250.0)] * 3)
    report = convert(path, tmp_path / "out.zarr", zarr_format=zarr_format)
    found = zarr.open_group(tmp_path / "out.zarr", mode="r")["tas"]
    assert found.dtype == "i2"
    np.testing.assert_array_equal(found[:], stored)
    assert (found.attrs["scale_factor"], found.attrs["add_offset"], found.fill_value) == (0.01, 250.0, -32768)
    assert report.notes == ()
    files = [tmp_path / f"part{i}.nc" for i in range(3)]
    with (
        xr.open_zarr(tmp_path / "out.zarr") as ours,
        xr.open_mfdataset(files, combine="nested", concat_dim="time") as theirs,
    ):
        np.testing.assert_array_equal(ours.tas.values, theirs.tas.values)
        assert np.isnan(ours.tas.values[1, 2, 3])


def test_differing_packings_are_decoded_each_by_its_own_with_a_note(tmp_path):
    path, stored = write_packed(tmp_path, [(0.01, 250.0), (0.02, 260.0)])
    report = convert(path, tmp_path / "out.zarr")
    expected = np.concatenate(
        [(stored[:3].astype("f8") * 0.01 + 250).astype("f4"), (stored[3:].astype("f8") * 0.02 + 260).astype("f4")]
    )
    expected[1, 2, 3] = np.nan
    found = zarr.open_group(tmp_path / "out.zarr", mode="r")["tas"]
    assert found.dtype == "f4"
    np.testing.assert_array_equal(found[:], expected)
    assert "not packed alike" in report.notes[0]
    assert "scale_factor" not in found.attrs


def test_packed_numbers_without_a_unit_are_not_copied_as_percentages(tmp_path):
    path, stored = write_packed(tmp_path, [(0.01, 1.0)] * 2)
    for name, units in ((path, "%"), (tmp_path / "part0.nc", "%"), (tmp_path / "part1.nc", "")):
        with netCDF4.Dataset(name, "a") as nc:
            nc["tas"].units = units
    convert(path, tmp_path / "out.zarr")
    with xr.open_zarr(tmp_path / "out.zarr") as ds:
        np.testing.assert_allclose(ds.tas[3:], stored[3:] + 100.0, rtol=1e-6)


def test_decode_writes_the_floats_of_shared_packing(tmp_path):
    path, stored = write_packed(tmp_path, [(0.01, 250.0)] * 2)
    convert(path, tmp_path / "out.zarr", packing="decode")
    found = zarr.open_group(tmp_path / "out.zarr", mode="r")["tas"]
    expected = (stored.astype("f8") * 0.01 + 250).astype("f4")
    expected[1, 2, 3] = np.nan
    np.testing.assert_array_equal(found[:], expected)
    assert "scale_factor" not in found.attrs


@FORMATS
def test_xarray_unpacks_integers_from_zarr_in_double_precision_even_if_the_file_says_single(tmp_path, zarr_format):
    with netCDF4.Dataset(tmp_path / "a.nc", "w") as nc:
        nc.createDimension("x", 2)
        nc.createVariable("v", "i2", ("x",)).scale_factor = np.float32(0.01)
        nc["v"][:] = [10.0, 20.0]
    convert(tmp_path / "a.nc", tmp_path / "out.zarr", zarr_format=zarr_format)
    with xr.open_dataset(tmp_path / "a.nc") as before, xr.open_zarr(tmp_path / "out.zarr") as after:
        assert (before.v.dtype, after.v.dtype) == ("f4", "f8")
        np.testing.assert_array_equal(after.v.values, np.array([1000, 2000]) * float(np.float32(0.01)))


@FORMATS
def test_decode_of_a_packed_variable_equals_xarrays_decoding(tmp_path, zarr_format):
    with netCDF4.Dataset(tmp_path / "a.nc", "w") as nc:
        nc.createDimension("x", 6)
        v = nc.createVariable("v", "i2", ("x",), fill_value=-9)
        v.set_auto_maskandscale(False)
        v.setncatts({"scale_factor": -0.1, "add_offset": 3.0, "valid_range": np.array([0, 5], "i2")})
        v[:] = [0, 1, 2, -9, 4, 5]
    convert(tmp_path / "a.nc", tmp_path / "out.zarr", packing="decode", zarr_format=zarr_format)
    with xr.open_dataset(tmp_path / "a.nc") as theirs, xr.open_zarr(tmp_path / "out.zarr") as ours:
        assert ours.v.dtype == theirs.v.dtype == np.float64
        np.testing.assert_array_equal(ours.v, theirs.v)
        assert ours.v.attrs["valid_range"] == [2.5, 3.0]
        assert "scale_factor" not in ours.v.encoding


@pytest.mark.parametrize(
    ("dtype", "scale", "expected"),
    [("i2", np.float32(0.5), "f4"), ("i4", np.float32(0.5), "f8"), ("i1", np.float64(0.5), "f8"), ("i4", 0.5, "f8")],
)
def test_decoded_values_have_the_type_of_their_packing_where_that_holds_them(tmp_path, dtype, scale, expected):
    largest = np.iinfo(dtype).max - 2
    with netCDF4.Dataset(tmp_path / "a.nc", "w") as nc:
        nc.createDimension("x", 2)
        v = nc.createVariable("v", dtype, ("x",))
        v.set_auto_maskandscale(False)
        v.scale_factor = scale
        v[:] = [3, largest]
    convert(tmp_path / "a.nc", tmp_path / "out.zarr", packing="decode")
    found = zarr.open_group(tmp_path / "out.zarr", mode="r")["v"]
    assert (found.dtype, found[:].tolist()) == (np.dtype(expected), [1.5, largest / 2])


def test_a_bound_that_a_negative_scale_turns_is_the_other_one_and_the_narrower_of_two_holds(tmp_path):
    with netCDF4.Dataset(tmp_path / "a.nc", "w") as nc:
        nc.createDimension("x", 4)
        for name, bounds in (("v", {"valid_min": np.int16(1)}), ("w", {"valid_min": np.int16(1), "valid_max": 2.0})):
            v = nc.createVariable(name, "i2", ("x",), fill_value=-9)
            v.set_auto_maskandscale(False)
            v.setncatts({"scale_factor": -0.5, "add_offset": 3.0, **bounds})
            v[:] = [0, 1, 2, 4]
    convert(tmp_path / "a.nc", tmp_path / "out.zarr", packing="decode")
    root = zarr.open_group(tmp_path / "out.zarr", mode="r")
    assert {k: v for k, v in root["v"].attrs.items() if "valid" in k} == {"valid_max": 2.5}
    np.testing.assert_array_equal(root["v"][:], [3.0, 2.5, 2.0, 1.0])  # beyond the bound as before
    assert {k: v for k, v in root["w"].attrs.items() if "valid" in k} == {"valid_max": 2.0}


@FORMATS
def test_strings_characters_scalars_groups_and_empty_dimensions(tmp_path, zarr_format):
    with netCDF4.Dataset(tmp_path / "a.nc", "w") as nc:
        nc.createDimension("n", 3)
        nc.createDimension("length", 4)
        nc.createDimension("never", None)
        nc.createVariable("text", str, ("n",))[:] = np.array(["a", "", "çé"], object)
        nc.createVariable("code", "S1", ("n", "length"))[:] = netCDF4.stringtochar(np.array([b"abcd", b"x", b""], "S4"))
        nc.createVariable("scalar", "i8", ())[...] = 2**60
        nc.createVariable("note", str, ())[...] = "hello"
        nc.createVariable("nothing", "f4", ("never", "n"))
        inner = nc.createGroup("a").createGroup("b")
        inner.about = "inner"
        inner.createVariable("w", "u2", ("n",))[:] = [1, 2, 65535]
    convert(tmp_path / "a.nc", tmp_path / "out.zarr", zarr_format=zarr_format, verify=True)
    with xr.open_dataset(tmp_path / "a.nc") as theirs, xr.open_zarr(tmp_path / "out.zarr") as ours:
        xr.testing.assert_equal(ours.load(), theirs.load())
        assert ours.nothing.shape == (0, 3)
    root = zarr.open_group(tmp_path / "out.zarr", mode="r")
    assert root["a/b"].attrs["about"] == "inner"
    assert root["a/b/w"][:].tolist() == [1, 2, 65535]
    with xr.open_datatree(tmp_path / "out.zarr", engine="zarr") as tree:
        assert tree["a/b/w"].values.tolist() == [1, 2, 65535]


def test_partitions_of_unequal_sizes_become_a_rectilinear_grid_with_a_note(tmp_path):
    sizes = [2, 5, 3]
    values = np.arange(10 * LAT * LON, dtype="f4").reshape(10, LAT, LON)
    for i, (a, b) in enumerate([(0, 2), (2, 7), (7, 10)]):
        write_fragment(tmp_path / f"part{i}.nc", values[a:b])
    path = write_aggregation(tmp_path / "a.nca", sizes)
    report = convert(path, tmp_path / "out.zarr", chunks="partitions", verify=True)
    assert "rectilinear" in " ".join(report.notes)
    with zarr.config.set({"array.rectilinear_chunks": True}):
        found = zarr.open_group(tmp_path / "out.zarr", mode="r")["tas"]
        assert found.metadata.to_dict()["chunk_grid"]["name"] == "rectilinear"
        np.testing.assert_array_equal(found[:], values)
    with pytest.raises(UnsupportedError, match="differ in size along 'time'"):
        convert(path, tmp_path / "v2.zarr", chunks="partitions", zarr_format=2)
    assert not (tmp_path / "v2.zarr").exists()


def test_partitions_of_equal_sizes_become_a_regular_grid(floats, tmp_path):
    path, _ = floats
    assert convert(path, tmp_path / "out.zarr", chunks="partitions", zarr_format=2).notes == ()
    assert zarr.open_group(tmp_path / "out.zarr", mode="r")["tas"].chunks == (5, LAT, LON)


@pytest.mark.parametrize(
    ("attribute", "text", "named"),
    [
        ("coordinate_interpolation", "tie: way", ["tie", "way"]),
        ("tie_point_mapping", "x: tie tp", ["tie"]),
        ("interpolation_parameters", "ce: tie", ["tie"]),
        ("nodes", "tie", ["tie"]),
        ("bounds_tie_points", "tie", ["tie"]),
        ("quantization", "way", ["way"]),
        ("grid_mapping", "way: tie", ["tie", "way"]),
    ],
)
def test_what_a_variable_refers_to_comes_with_it(tmp_path, attribute, text, named):
    with netCDF4.Dataset(tmp_path / "a.nc", "w") as file:
        file.createDimension("x", 2)
        file.createVariable("v", "f4", ("x",)).setncattr(attribute, text)
        for name in ("tie", "way", "other"):
            file.createVariable(name, "f4", ("x",))
    convert(tmp_path / "a.nc", tmp_path / "out.zarr", variables=["v"])
    assert sorted(zarr.open_group(tmp_path / "out.zarr").array_keys()) == sorted(["v", *named])


def test_chosen_variables_bring_what_they_refer_to(floats, tmp_path):
    path, _ = floats
    report = convert(path, tmp_path / "out.zarr", variables=["time"])
    assert set(report.variables) == {"time", "time_bnds"}
    with pytest.raises(OptionError, match="has no variable 'nope'; its variables are: time"):
        convert(path, tmp_path / "b.zarr", variables=["nope"])


def test_missing_files_raise_or_are_filled(floats, tmp_path):
    path, values = floats
    (tmp_path / "part1.nc").unlink()
    with pytest.raises(FragmentNotFoundError, match=r"part1\.nc"):
        convert(path, tmp_path / "out.zarr")
    assert not (tmp_path / "out.zarr").exists()
    convert(path, tmp_path / "out.zarr", missing="fill", overwrite=True)
    found = zarr.open_group(tmp_path / "out.zarr", mode="r")["tas"][:]
    np.testing.assert_array_equal(found[:5], values[:5])
    assert (found[5:10] == -999).all()


def test_references_outside_need_allow(floats, tmp_path):
    path, _ = floats
    (tmp_path / "inner").mkdir()
    (tmp_path / "elsewhere").mkdir()
    inner = path.rename(tmp_path / "inner" / "floats.nca")
    for i in range(3):
        (tmp_path / f"part{i}.nc").rename(tmp_path / "elsewhere" / f"part{i}.nc")
        (tmp_path / "inner" / f"part{i}.nc").symlink_to(tmp_path / "elsewhere" / f"part{i}.nc")
    with pytest.raises(AccessError, match="allow="):
        convert(inner, tmp_path / "out.zarr")
    assert convert(inner, tmp_path / "out.zarr", allow=[tmp_path / "elsewhere"]).chunks == 5


def test_an_existing_store_is_replaced_only_when_asked(floats, tmp_path):
    path, values = floats
    convert(path, tmp_path / "out.zarr", zarr_format=2)
    with pytest.raises(TargetExistsError, match="overwrite=True"):
        convert(path, tmp_path / "out.zarr")
    convert(path, tmp_path / "out.zarr", overwrite=True)
    np.testing.assert_array_equal(zarr.open_group(tmp_path / "out.zarr", mode="r", zarr_format=3)["tas"][:], values)
    assert not (tmp_path / "out.zarr" / ".zgroup").exists()


def test_a_directory_that_is_no_store_is_never_deleted(floats, tmp_path):
    path, _ = floats
    (tmp_path / "precious").mkdir()
    (tmp_path / "precious" / "thesis.tex").write_text("x")
    (tmp_path / "file").write_text("x")
    for name in ("precious", "file"):
        with pytest.raises(TargetError):
            convert(path, tmp_path / name, overwrite=True)
    assert (tmp_path / "precious" / "thesis.tex").exists()
    with pytest.raises(TargetError, match="no directory"):
        convert(path, tmp_path / "no" / "such" / "out.zarr")


def test_a_store_that_holds_the_source_is_not_replaced(floats, tmp_path):
    path, _ = floats
    zarr.create_group(tmp_path)
    with pytest.raises(TargetError, match="lies within"):
        convert(path, tmp_path, overwrite=True)
    assert path.exists()


def test_a_part_of_another_store_is_not_replaced(floats, tmp_path):
    path, _ = floats
    store = zarr.create_group(tmp_path / "whole.zarr")
    store.create_array("tas", data=np.arange(3.0))
    store.create_group("old").create_array("tas", data=np.arange(4.0))
    zarr.consolidate_metadata(store.store)
    for name in ("tas", "old", "old/tas"):
        with pytest.raises(TargetError, match=r"part of the Zarr store .*whole\.zarr"):
            convert(path, tmp_path / "whole.zarr" / name, overwrite=True)
    array = cfagg.open_array(tmp_path / "whole.zarr", "tas")
    with pytest.raises(TargetError, match="part of the Zarr store"):
        cfagg.write(cfagg.concatenate([array, array]), tmp_path / "whole.zarr" / "tas", to="zarr", overwrite=True)
    assert array[:].tolist() == [0, 1, 2]


def test_options_that_are_not_known_are_refused_before_anything_is_written(floats, tmp_path):
    path, _ = floats
    for wrong in ({"zarr_format": 4}, {"packing": "zip"}, {"codec": "lzma"}, {"chunks": "big"}, {"missing": "skip"}):
        with pytest.raises(UnsupportedError, match="choose from"):
            convert(path, tmp_path / "out.zarr", **wrong)
    for wrong in ({"level": 99}, {"memory": "much"}, {"workers": 0}, {"chunks": {"time": 0}}):
        with pytest.raises(LimitError):
            convert(path, tmp_path / "out.zarr", **wrong)
    with pytest.raises(OptionError, match="'height'"):
        convert(path, tmp_path / "out.zarr", chunks={"height": 3})
    with pytest.raises(SourceError):
        convert(tmp_path / "absent.nca", tmp_path / "out.zarr")
    assert not [p for p in tmp_path.iterdir() if "out.zarr" in p.name]


def test_a_chunk_that_does_not_fit_in_memory_is_refused(floats, tmp_path):
    path, _ = floats
    with pytest.raises(LimitError, match="more memory or smaller chunks"):
        convert(path, tmp_path / "out.zarr", memory=100)


def test_little_memory_and_odd_chunks_give_the_same_values(floats, tmp_path):
    path, values = floats
    convert(path, tmp_path / "out.zarr", memory=2000, workers=3, chunks={"time": 7, "lat": 3, "lon": 4}, verify=True)
    np.testing.assert_array_equal(zarr.open_group(tmp_path / "out.zarr", mode="r")["tas"][:], values)


def test_progress_ends_at_the_total(floats, tmp_path):
    path, _ = floats
    seen = []
    report = convert(path, tmp_path / "out.zarr", progress=lambda done, total: seen.append((done, total)))
    assert seen[0] == (0, report.bytes)
    assert seen[-1] == (report.bytes, report.bytes)
    assert [d for d, _ in seen] == sorted(d for d, _ in seen)


def test_the_public_name_is_the_function(floats, tmp_path):
    path, _ = floats
    assert cfagg.convert(path, tmp_path / "out.zarr").chunks == 5


def test_names_that_lead_out_of_the_store_are_refused(tmp_path):
    import h5py

    with h5py.File(tmp_path / "a.nc", "w") as file:
        file.create_dataset("..", data=np.arange(3))
    with pytest.raises(UnsupportedError, match="cannot be used"):
        convert(tmp_path / "a.nc", tmp_path / "out.zarr")


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_a_name_with_a_backslash_is_refused_which_zarr_python_takes_for_a_path(tmp_path, zarr_format):
    with netCDF4.Dataset(tmp_path / "a.nc", "w") as nc:
        nc.createDimension("x", 3)
        nc.createVariable("a\\b", "f4", ("x",))[:] = [1, 2, 3]
        nc.createVariable("c", "f4", ("x",))[:] = [4, 5, 6]
    with pytest.raises(UnsupportedError, match="cannot be used"):
        convert(tmp_path / "a.nc", tmp_path / "out.zarr", zarr_format=zarr_format)
    convert(tmp_path / "a.nc", tmp_path / "out.zarr", zarr_format=zarr_format, variables=["c"])
    assert zarr.open_group(tmp_path / "out.zarr", mode="r")["c"][:].tolist() == [4, 5, 6]


def test_a_classic_file_that_claims_more_records_than_it_has_is_refused_before_anything_is_made(tmp_path):
    with netCDF4.Dataset(tmp_path / "a.nc", "w", format="NETCDF3_64BIT_DATA") as nc:
        nc.createDimension("time", None)
        nc.createVariable("tas", "f4", ("time",))[:] = [1, 2, 3]
    data = bytearray((tmp_path / "a.nc").read_bytes())
    data[4:12] = (2**41).to_bytes(8, "big")
    (tmp_path / "a.nc").write_bytes(data)
    with pytest.raises(SourceError, match="truncated"):
        convert(tmp_path / "a.nc", tmp_path / "out.zarr")
    assert [p.name for p in tmp_path.iterdir()] == ["a.nc"]


def test_more_chunks_than_a_store_can_have_are_refused(floats, tmp_path, monkeypatch):
    monkeypatch.setattr(plan, "MAX_CHUNKS", 10)
    with pytest.raises(LimitError, match="more than 10; choose larger ones with chunks="):
        convert(floats[0], tmp_path / "out.zarr", chunks={"time": 1})


def test_an_array_of_mostly_absent_small_chunks_is_refused_before_hours_go_by(tmp_path, monkeypatch):
    monkeypatch.setattr(variables, "MAX_CHUNKS", 1000)
    with h5py.File(tmp_path / "a.nc", "w") as file:
        file.create_dataset("sparse", (4, 10**5), "i2", chunks=(2, 3))
        file.create_dataset("whole", (90, 90), "i2", np.ones((90, 90)), chunks=(2, 3))
    with pytest.raises(LimitError, match=r"'sparse'.*has 66,668 chunks, too many for .* bytes of memory"):
        convert(tmp_path / "a.nc", tmp_path / "out.zarr")
    convert(
        tmp_path / "a.nc", tmp_path / "whole.zarr", variables=["whole"], chunks={"phony_dim_2": 90, "phony_dim_3": 90}
    )


@pytest.mark.parametrize(
    ("dtype", "fill"),
    [
        ("S1", [-999]), ("S1", [300]), ("i2", []), ("f4", ["x"]), ("i2", [1, 2]), ("i2", np.nan), ("i2", -999.9),
        ("i2", 99999), ("u1", -1), ("u1", 256), ("i1", 255), ("i8", 2**64), ("u8", 2.0**64), ("f4", 1e300),
    ],
)  # fmt: skip
def test_a_fill_value_that_is_not_one_value_of_the_type_is_named(dtype, fill):
    with pytest.raises(ConventionError, match=r"^here: _FillValue = .* is not a single value of type"):
        fill_of({"_FillValue": np.array(fill)}, np.dtype(dtype), "here")


@pytest.mark.parametrize(
    ("dtype", "fill", "expected"),
    [
        ("i2", -1.0, -1), ("u8", 2**64 - 1, 2**64 - 1), ("i8", -(2**63), -(2**63)),
        ("f4", np.float64(1e20), np.float32(1e20)), ("f4", np.inf, np.inf), ("i2", [[7]], 7),
    ],
)  # fmt: skip
def test_a_fill_value_of_another_type_is_that_of_the_array(dtype, fill, expected):
    assert fill_of({"_FillValue": np.asarray(fill)}, np.dtype(dtype), "here") == expected


def test_attributes_of_nczarr_keep_their_types_and_reals_that_json_lacks(tmp_path):
    stated = {
        "missing_value": np.float32("nan"), "actual_range": np.array([-np.inf, np.inf], "f4"), "flag": np.int16(3),
        "flags": np.array([1, 2], "i1"), "count": np.uint8(200), "units": "1", "text": "NaN",
    }  # fmt: skip
    for place in (f"file://{tmp_path}/a.zarr#mode=nczarr,file", tmp_path / "b.nc"):
        with netCDF4.Dataset(place, "w") as file:
            file.createDimension("x", 2)
            made = file.createVariable("v", "f4", ("x",), fill_value=np.float32("inf"))
            made[:] = 1
            for one in (made, file):
                one.setncatts(stated)
    convert(tmp_path / "a.zarr", tmp_path / "c.nc")
    with netCDF4.Dataset(tmp_path / "b.nc") as expected, netCDF4.Dataset(tmp_path / "c.nc") as found:
        for one, other in ((found, expected), (found["v"], expected["v"])):
            assert {k: repr(a) for k, a in one.__dict__.items()} == {k: repr(a) for k, a in other.__dict__.items()}


def test_netcdf_c_reads_the_zarr_v2_store_with_equal_values(floats, tmp_path):
    path, values = floats
    convert(path, tmp_path / "out.zarr", zarr_format=2, codec="none", chunks={"time": 5})
    try:
        nc = netCDF4.Dataset(f"file://{tmp_path}/out.zarr#mode=zarr,file")
    except OSError as error:
        pytest.skip(f"this netCDF-C was built without NCZarr: {error}")
    with nc:
        nc.set_auto_maskandscale(False)
        assert nc["tas"].dimensions == ("time", "lat", "lon")
        np.testing.assert_array_equal(nc["tas"][:], values)
        np.testing.assert_array_equal(nc["time"][:], np.arange(12) + 0.5)


def test_neither_xarray_nor_dask_is_imported(floats, tmp_path):
    import subprocess
    import sys

    path, _ = floats
    script = (
        "import sys; from cfagg.conversion import convert; convert(sys.argv[1], sys.argv[2]);"
        "sys.exit(bool({'xarray', 'dask', 'pandas'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", script, path, tmp_path / "out.zarr"]).returncode == 0


def test_decode_reads_valid_ranges_of_unsigned_packed_values_as_unsigned(tmp_path):
    with netCDF4.Dataset(tmp_path / "a.nc", "w") as nc:
        nc.createDimension("x", 2)
        for name, valid in (("v", {"valid_range": np.array([0, -6], "i1")}), ("w", {"valid_max": np.int8(-6)})):
            v = nc.createVariable(name, "i1", ("x",), fill_value=np.int8(-1))
            v.set_auto_maskandscale(False)
            v.setncatts({"_Unsigned": "true", "scale_factor": np.float32(0.5), "add_offset": np.float32(1), **valid})
            v[:] = [0, -6]
    convert(tmp_path / "a.nc", tmp_path / "out.zarr", packing="decode")
    root = zarr.open_group(tmp_path / "out.zarr", mode="r")
    assert root["v"][:].tolist() == root["v"].attrs["valid_range"] == [1.0, 126.0]
    assert root["w"].attrs["valid_max"] == 126.0


def test_notes_name_what_strict_json_readers_and_netcdf_c_do_not_read(tmp_path):
    with netCDF4.Dataset(tmp_path / "a.nc", "w") as nc:
        nc.createDimension("x", 2)
        nc.createVariable("crs", "i4", ())
        nc.createVariable("v", "f4", ("x",)).setncattr("range", np.array([0, np.inf]))
    (scalars, infinite) = convert(tmp_path / "a.nc", tmp_path / "v2.zarr", zarr_format=2).notes
    assert "(crs)" in scalars
    assert "netCDF-C" in scalars
    assert "v: range" in infinite
    assert len(convert(tmp_path / "a.nc", tmp_path / "v3.zarr").notes) == 1
    with netCDF4.Dataset(tmp_path / "b.nc", "w") as nc:
        nc.createDimension("x", 2)
        nc.createVariable("names", str, ("x",))
    assert "(names)" in convert(tmp_path / "b.nc", tmp_path / "s.zarr", zarr_format=2).notes[0]


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_compound_attributes_become_mappings_from_their_fields(tmp_path, zarr_format):
    with netCDF4.Dataset(tmp_path / "a.nc", "w") as nc:
        kind = np.dtype([("lat", "f4"), ("count", "i8")], align=True)
        nc.createCompoundType(kind, "place")
        nc.createVariable("v", "i4", ()).setncattr("at", np.array([(0.5, 1), (1.5, 2)], kind))
        nc.setncattr("station", np.array((-2.5, 3), kind))
    convert(tmp_path / "a.nc", tmp_path / "a.zarr", zarr_format=zarr_format)
    root = zarr.open_group(str(tmp_path / "a.zarr"), mode="r")
    assert dict(root.attrs) == {"station": {"lat": -2.5, "count": 3}}
    assert root["v"].attrs["at"] == [{"lat": 0.5, "count": 1}, {"lat": 1.5, "count": 2}]


def test_missing_partitions_of_packed_bytes_without_a_fill_value_are_filled_in_decoded_values(tmp_path):
    attributes = {"scale_factor": np.float32(0.5), "add_offset": np.float32(0)}
    write_fragment(tmp_path / "part0.nc", np.ones((3, LAT, LON), "i1"), dtype="i1", attributes=attributes)
    report = convert(write_aggregation(tmp_path / "a.nca", [3, 3]), tmp_path / "out.zarr", missing="fill")
    found = zarr.open_group(tmp_path / "out.zarr", mode="r")["tas"][:]
    assert found.dtype == "f4"
    assert (found[:3] == 0.5).all()
    assert np.isnan(found[3:]).all()
    assert "no missing value" in report.notes[0]


@pytest.mark.parametrize("target", ["", "/"])
def test_a_name_that_cannot_be_a_store_is_refused(floats, tmp_path, target, monkeypatch):
    path, _ = floats
    zarr.create_group(tmp_path / "cwd.zarr")
    monkeypatch.chdir(tmp_path / "cwd.zarr")
    with pytest.raises(TargetError, match="name a directory"):
        convert(path, target, overwrite=True)


def test_a_fill_value_of_text_is_that_of_the_array_and_noted_where_xarray_does_not_mask(tmp_path):
    with netCDF4.Dataset(tmp_path / "a.nc", "w") as nc:
        nc.createDimension("x", 2)
        nc.createVariable("s", str, ("x",), fill_value="NA")[:] = np.array(["a", "NA"], object)
    notes = convert(tmp_path / "a.nc", tmp_path / "3.zarr").notes
    assert zarr.open_group(tmp_path / "3.zarr", mode="r")["s"].fill_value == "NA"
    assert any("(s)" in n and "fill values" in n for n in notes)
    convert(tmp_path / "a.nc", tmp_path / "2.zarr", zarr_format=2)
    with xr.open_zarr(tmp_path / "2.zarr") as ds:
        assert ds.s.isnull().values.tolist() == [False, True]


def test_the_source_can_be_changed_after_its_conversion(tmp_path):
    with netCDF4.Dataset(tmp_path / "a.nc", "w") as nc:
        nc.createDimension("x", 2)
        nc.createVariable("name", str, ("x",))[:] = np.array(["a", "b"], object)
    convert(tmp_path / "a.nc", tmp_path / "out.zarr")
    with netCDF4.Dataset(tmp_path / "a.nc", "a") as nc:
        nc.title = "changed"
    assert open_files() == 0


def write_clouds(path, members, **attributes):
    with netCDF4.Dataset(path, "w") as root:
        root.createDimension("x", 3)
        kind = root.createEnumType(np.uint8, "clouds", members)
        v = root.createVariable("c", kind, ("x",))
        v[:] = [0, 1, 255]
        v.setncatts(attributes)
    return path


@FORMATS
def test_members_of_an_enumeration_become_flags_and_are_noted(tmp_path, zarr_format):
    path = write_clouds(tmp_path / "a.nc", {"Clear": 0, "Cumulus": 1, "Stratus": 255})
    report = convert(path, tmp_path / "out.zarr", zarr_format=zarr_format)
    assert "'c' is an enumeration (Clear = 0, Cumulus = 1, Stratus = 255)" in " ".join(report.notes)
    found = zarr.open_group(tmp_path / "out.zarr", mode="r")["c"]
    assert found[:].tolist() == [0, 1, 255]
    assert found.dtype == "u1"
    assert dict(found.attrs)["flag_values"] == [0, 1, 255]
    assert found.attrs["flag_meanings"] == "Clear Cumulus Stratus"


@pytest.mark.parametrize(
    ("members", "attributes"),
    [
        ({"Clear": 0, "Cumulus": 1, "Stratus": 255}, {"flag_meanings": "a b"}),
        ({"Clear": 0, "Cumulus": 1, "no\u00ebl": 255}, {}),
    ],
)
def test_members_of_an_enumeration_that_flags_cannot_hold_are_noted_alone(tmp_path, members, attributes):
    path = write_clouds(tmp_path / "a.nc", members, **attributes)
    report = convert(path, tmp_path / "out.zarr")
    assert "not the names" in " ".join(report.notes)
    assert "Cumulus = 1" in " ".join(report.notes)
    assert "flag_values" not in zarr.open_group(tmp_path / "out.zarr", mode="r")["c"].attrs


def test_an_enumeration_that_was_read_is_written_by_xarray(tmp_path):
    path = write_clouds(tmp_path / "a.nc", {"Clear": 0, "Cumulus": 1, "Stratus": 255})
    cfagg.read(path, mask_and_scale=False).load().to_netcdf(tmp_path / "b.nc", engine="netcdf4")
    with netCDF4.Dataset(tmp_path / "b.nc") as root:
        root.set_auto_mask(False)
        assert root["c"][:].tolist() == [0, 1, 255]


@FORMATS
@pytest.mark.parametrize("dtype", ["f4", "i2"])
def test_what_was_never_written_is_missing_in_the_store_too(tmp_path, zarr_format, dtype):
    with netCDF4.Dataset(tmp_path / "a.nc", "w") as root:
        root.createDimension("x", 4)
        v = root.createVariable("v", dtype, ("x",))
        v.missing_value = np.array(-9, dtype)
        v.set_auto_mask(False)
        v[:2] = [7, -9]
        w = root.createVariable("w", dtype, ("x",), fill_value=-9)
        w[:2] = [7, -9]
    convert(tmp_path / "a.nc", tmp_path / "out.zarr", zarr_format=zarr_format, verify=True)
    found = zarr.open_group(tmp_path / "out.zarr", mode="r")
    assert found["v"][:].tolist() == found["w"][:].tolist() == [7, -9, -9, -9]
    assert found["v"].dtype == dtype


@FORMATS
@pytest.mark.parametrize("dtype", ["f4", "i2"])
def test_without_a_missing_value_what_was_never_written_stays_the_number_that_is_read(tmp_path, zarr_format, dtype):
    with netCDF4.Dataset(tmp_path / "a.nc", "w") as root:
        root.createDimension("x", 3)
        root.createVariable("v", dtype, ("x",))[:1] = 7
    convert(tmp_path / "a.nc", tmp_path / "out.zarr", zarr_format=zarr_format, verify=True)
    default = np.array(netCDF4.default_fillvals[dtype], dtype)
    for path in (tmp_path / "a.nc", tmp_path / "out.zarr"):
        assert cfagg.read(path).v.values.tolist() == [7, default, default]
    cfagg.aggregate(tmp_path / "a.nc", output=tmp_path / "all.nc")
    convert(tmp_path / "all.nc", tmp_path / "all.zarr", zarr_format=zarr_format)
    gap = np.nan if dtype == "f4" else default
    np.testing.assert_array_equal(cfagg.read(tmp_path / "all.zarr").v, [7, gap, gap])


def test_a_missing_value_that_is_text_says_nothing_of_what_was_never_written():
    assert Unwritten.of(np.dtype("f4"), {"missing_value": "none"}, "a.nc") is None


def test_a_file_to_which_the_source_refers_is_not_replaced_by_what_it_is_converted_to(tmp_path) -> None:
    parts = [tmp_path / "parts" / f"{k}.nc" for k in range(2)]
    parts[0].parent.mkdir()
    for k, part in enumerate(parts):
        time = ("time", np.arange(3.0) + 3 * k, {"units": "days since 2000-01-01", "standard_name": "time"})
        v = ("time", np.arange(3.0) + 3 * k, {"standard_name": "air_temperature", "units": "K"})
        xr.Dataset({"v": v}, {"time": time}).to_netcdf(part)
    cfagg.aggregate(parts, output=tmp_path / "all.nc")
    (tmp_path / "link").symlink_to(parts[0].parent)
    for target in (parts[0], tmp_path / "link" / "1.nc"):
        with pytest.raises(TargetError, match=r"all.nc refers to it, and its values would be lost"):
            cfagg.convert(tmp_path / "all.nc", target, overwrite=True)
    assert cfagg.read(tmp_path / "all.nc")["v"].values.tolist() == [0, 1, 2, 3, 4, 5]


def test_a_file_whose_chunks_are_referred_to_is_not_replaced_by_what_the_references_are_converted_to(tmp_path) -> None:
    shutil.copy(sample("test1.nc"), tmp_path / "a.nc")
    before = (tmp_path / "a.nc").read_bytes()
    cfagg.index(tmp_path / "a.nc", output=tmp_path / "references.json", to="kerchunk")
    with pytest.raises(TargetError, match=r"references.json refers to it"):
        cfagg.convert(tmp_path / "references.json", tmp_path / "a.nc", overwrite=True)
    assert (tmp_path / "a.nc").read_bytes() == before
