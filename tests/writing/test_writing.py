"""Complete aggregation files: written from files, datasets and arrays, and read again with the same values."""

from __future__ import annotations

import json
import os
import shutil
import threading
from pathlib import Path

import dask
import dask.array
import netCDF4
import numpy as np
import pytest
import xarray as xr

import cfagg
from cfagg.arrays.netcdf_source import open_source
from cfagg.arrays.opening import open_reader
from cfagg.conventions import nca_write
from cfagg.demo import sample
from cfagg.errors import (
    AccessError,
    ConventionError,
    FragmentNotFoundError,
    LossError,
    OptionError,
    TargetError,
    TargetExistsError,
)
from cfagg.runtime.progress import listening
from cfagg.runtime.targets import DIALECTS
from cfagg.storage.access import Access
from cfagg.writing.sources import aggregated
from tests import instruction_files, nca_files

SAMPLES = {
    "temperature.nca": "tas",
    "temperature2.nca": "tas",
    "figure1.nca": "p",
    "packed.nca": "tas",
    "sst.nca": "surface_temperature",
}
LATER = ("CFA-0.6.2", "CF-1.13")


@pytest.fixture(scope="module")
def samples(tmp_path_factory):
    """The samples in a directory that can be written to."""
    folder = tmp_path_factory.mktemp("samples") / "here"
    shutil.copytree(Path(sample("sst.nca")).parent, folder, ignore=shutil.ignore_patterns("*.py", "__pycache__", "pp"))
    return folder


@pytest.fixture
def parts(tmp_path):
    """Two files of 2 and 3 times, and an aggregation of them with coordinates."""
    values = np.arange(20, dtype="f4").reshape(5, 4)
    (tmp_path / "data").mkdir()
    for k, span in enumerate((slice(0, 2), slice(2, 5))):
        nca_files.fragment(tmp_path / f"data/p{k}.nc", "tas", values[span], ["time", "lat"], {"units": "K"})
    records = [
        {
            "index": [k],
            "location": [[a, b], [0, 4]],
            "data": {"shape": [b - a, 4], "file": f"data/p{k}.nc", "ncvar": "tas"},
        }
        for k, (a, b) in enumerate([(0, 2), (2, 5)])
    ]
    with netCDF4.Dataset(tmp_path / "a.nca", "w") as file:
        file.Conventions = "CF-1.6 NCA"
        file.title = "two parts"
        file.createDimension("time", 5)
        file.createDimension("lat", 4)
        lat = file.createVariable("lat", "f8", ("lat",))
        lat[:] = [60, 30, 0, -30]
        lat.units, lat.bounds = "degrees_north", "lat_bnds"
        file.createDimension("bnds", 2)
        file.createVariable("lat_bnds", "f8", ("lat", "bnds"))[:] = np.arange(8).reshape(4, 2)
        time = file.createVariable("time", "i4", ("time",))
        time[:] = range(5)
        time.units = "days since 2000-01-01"
        file.createVariable("crs", "i4", ()).grid_mapping_name = "latitude_longitude"
        tas = file.createVariable("tas", "f4", ())
        tas.units, tas.grid_mapping, tas.standard_name = "K", "crs", "air_temperature"
        tas.nca_dimensions = "time lat"
        tas.nca_array = json.dumps({"directions": {"time": True, "lat": False}, "pdimensions": ["time"], "pshape": [2],
                                    "Partitions": records})  # fmt: skip
    return tmp_path


def canonical(path, name):
    return nca_write.write(cfagg.open_aggregation(path, name))


# Translating files


@pytest.mark.few(4)
@pytest.mark.parametrize("name", SAMPLES)
@pytest.mark.parametrize("to", DIALECTS)
def test_every_sample_has_the_same_values_in_every_dialect(samples, to, name):
    variable = SAMPLES[name]
    target = samples / f"{name}.{to}.nc"
    report = cfagg.convert(samples / name, target, to=to, on_loss="materialise")
    assert (report.dialect, report.losses, report.variables) == (to, (), (variable,))
    assert cfagg.open_aggregation(target, variable).dialect == to
    with cfagg.read(samples / name) as old, cfagg.read(target) as new:
        assert new[variable].dims == old[variable].dims
        assert new[variable].dtype == old[variable].dtype
        np.testing.assert_array_equal(new[variable].values, old[variable].values)
        assert set(old.coords) == set(new.coords)
        for coordinate in old.coords:
            xr.testing.assert_identical(old[coordinate], new[coordinate])


@pytest.mark.few(3)
@pytest.mark.parametrize("name", ["temperature.nca", "sst.nca"])
@pytest.mark.parametrize("to", [d for d in DIALECTS if d != "NCA-0.1"])
def test_nca_01_to_another_dialect_and_back_is_exact_where_nothing_is_lost(samples, to, name):
    there, back = samples / f"there-{name}-{to}.nc", samples / f"back-{name}-{to}.nca"
    assert cfagg.convert(samples / name, there, to=to).losses == ()
    assert cfagg.convert(there, back).losses == ()
    variable = SAMPLES[name]
    assert canonical(back, variable) == canonical(samples / name, variable)
    one, other = (cfagg.open_aggregation(p, variable) for p in (samples / name, back))
    assert one == other


def test_directions_that_coordinates_tell_are_left_to_them_and_come_back(parts):
    assert cfagg.convert(parts / "a.nca", parts / "b.nc", to="CF-1.13").notes == ()
    assert "dimension_directions" not in cfagg.open_aggregation(parts / "b.nc", "tas").attributes
    cfagg.convert(parts / "b.nc", parts / "c.nca")
    assert canonical(parts / "c.nca", "tas") == canonical(parts / "a.nca", "tas")


def test_a_translated_file_is_complete(parts):
    cfagg.convert(parts / "a.nca", parts / "b.nc", to="CF-1.13")
    with netCDF4.Dataset(parts / "b.nc") as file:
        assert (file.Conventions, file.title) == ("CF-1.13", "two parts")
        assert file["tas"].shape == ()
        assert file["tas"].dtype == "f4"
        assert set(file["tas"].ncattrs()) == {
            "units", "grid_mapping", "standard_name", "aggregated_dimensions", "aggregated_data"
        }  # fmt: skip
        assert file["tas_uris"][...].tolist() == [["data/p0.nc"], ["data/p1.nc"]]
        assert file["tas_identifiers"][...] == "tas"
        assert file["tas_map"][...].filled(-1).tolist() == [[2, 3], [4, -1]]
        assert file["lat"][:].tolist() == [60, 30, 0, -30]
        assert file["lat_bnds"][:].shape == (4, 2)
        assert file["crs"].grid_mapping_name == "latitude_longitude"


def test_conventions_name_the_dialect_and_what_else_the_file_follows(parts):
    wanted = {
        "NCA-0.1": "CF-1.6 NCA",
        "CFA-0.4": "CF-1.6 CFA-0.4",
        "CFA-0.6.2": "CF-1.6 CFA-0.6.2",
        "CF-1.13": "CF-1.13",
    }
    for to, text in wanted.items():
        cfagg.convert(parts / "a.nca", parts / f"{to}.nc", to=to)
        with netCDF4.Dataset(parts / f"{to}.nc") as file:
            assert file.Conventions == text


@pytest.mark.parametrize("to", LATER)
def test_what_cannot_be_said_is_listed_partition_by_partition_and_nothing_is_written(samples, to):
    target = samples / f"refused-{to}.nc"
    with pytest.raises(LossError, match=r"22 things.*on_loss='materialise'") as caught:
        cfagg.convert(samples / "figure1.nca", target, to=to)
    assert len(caught.value.losses) == 22
    first = caught.value.losses[0]
    assert (first.variable, first.partition, first.what) == ("p", (0, 1), "part of a sub-array")
    assert isinstance(caught.value, ValueError)
    assert not target.exists()
    assert not list(samples.glob(".refused*"))


@pytest.mark.parametrize("to", LATER)
def test_only_lossy_partitions_are_written_into_fragments(samples, to):
    target = samples / f"materialised-{to}.nc"
    report = cfagg.convert(samples / "figure1.nca", target, to=to, on_loss="materialise")
    assert report.fragments == 22
    folder = target.with_name(f"{target.name}.fragments")
    assert len(list(folder.iterdir())) == 22
    with netCDF4.Dataset(folder / "p.0.1.nc") as file:
        assert file["p"][...].tolist() == [[1, 2], [8, 9]]
    names = set(cfagg.open_aggregation(target, "p").partitions.files)
    assert "figure1_boxes.nc" in names
    assert f"{folder.name}/p.0.1.nc" in names


def test_dropping_leaves_out_a_variable_whose_values_would_be_other_ones_and_lists_it(samples):
    report = cfagg.convert(samples / "figure1.nca", samples / "dropped.nc", to="CF-1.13", on_loss="drop")
    assert report.variables == ()
    assert [loss.what for loss in report.losses if loss.partition is None] == ["the variable"]
    assert len(report.losses) == 23
    assert "p" not in cfagg.read(samples / "dropped.nc")


def test_arrays_in_the_file_itself_come_with_it_or_are_written_beside_it(samples):
    private = "nca_45sdf83745"
    for to, mark in (("NCA-0.1", ("nca_private", 1)), ("CFA-0.4", ("cf_role", "cfa_private"))):
        cfagg.convert(samples / "temperature2.nca", samples / f"own-{to}.nc", to=to)
        with netCDF4.Dataset(samples / f"own-{to}.nc") as file:
            assert file[private].getncattr(mark[0]) == mark[1]
    cfagg.convert(samples / "temperature2.nca", samples / "own.nc", to="CF-1.13", on_loss="materialise")
    with netCDF4.Dataset(samples / "own.nc") as file:
        assert private not in file.variables
        assert not any(d.startswith("nca") for d in file.dimensions)


def test_units_that_the_fragments_say_themselves_are_no_loss(samples):
    report = cfagg.convert(samples / "packed.nca", samples / "units.nc", to="CF-1.13")
    assert report.losses == ()
    assert [note.partition(": ")[2][:8] for note in report.notes] == ["the data", "units of"]


def test_groups_stay_groups(parts):
    with netCDF4.Dataset(parts / "a.nca") as flat, netCDF4.Dataset(parts / "g.nca", "w") as file:
        file.createDimension("time", 5)
        inner = file.createGroup("model")
        inner.createDimension("lat", 4)
        tas = inner.createVariable("tas", "f4", ())
        tas.setncatts({k: flat["tas"].getncattr(k) for k in ("units", "nca_dimensions", "nca_array")})
    for to in DIALECTS:
        report = cfagg.convert(parts / "g.nca", parts / f"g-{to}.nc", to=to, on_loss="drop")
        assert report.variables == ("model/tas",)
        got = cfagg.read(parts / f"g-{to}.nc", group="model")["tas"].values
        np.testing.assert_array_equal(got, np.arange(20, dtype="f4").reshape(5, 4))


def test_packing_of_the_array_is_kept_through_fragments_where_a_dialect_packs_otherwise(parts):
    with netCDF4.Dataset(parts / "a.nca", "a") as file:
        packed = file.createVariable("packed", "i2", ())
        packed.setncatts({k: file["tas"].getncattr(k) for k in ("units", "nca_dimensions", "nca_array")})
        packed.scale_factor, packed.add_offset, packed.missing_value = 0.5, 1.0, np.int16(-99)
    values = cfagg.read(parts / "a.nca")["packed"].values
    np.testing.assert_array_equal(values, np.arange(20).reshape(5, 4))
    for to in LATER:
        with pytest.raises(LossError, match="packing of the array"):
            cfagg.convert(parts / "a.nca", parts / "never.nc", to=to)
        cfagg.convert(parts / "a.nca", parts / f"{to}.nc", to=to, on_loss="materialise")
        new = cfagg.read(parts / f"{to}.nc", mask_and_scale=False)["packed"]
        assert (new.dtype, new.attrs["scale_factor"]) == (np.dtype("i2"), 0.5)
        np.testing.assert_array_equal(cfagg.read(parts / f"{to}.nc")["packed"].values, values)
        cfagg.convert(parts / f"{to}.nc", parts / f"{to}.nca", on_loss="materialise")
        np.testing.assert_array_equal(cfagg.read(parts / f"{to}.nca")["packed"].values, values)


# References


@pytest.mark.few(2)
@pytest.mark.parametrize("to", DIALECTS)
def test_references_are_relative_to_the_new_file_unless_asked(parts, to):
    (parts / "deep/er").mkdir(parents=True)
    cases = {
        parts / "deep/er/b.nc": (None, "../../data/p0.nc"),
        parts / "c.nc": ("/", str(parts / "data/p0.nc")),
        parts / "d.nc": (parts / "deep", "../data/p0.nc"),
        parts / "e.nc": (None, "data/p0.nc"),
    }
    for target, (base, wanted) in cases.items():
        cfagg.convert(parts / "a.nca", target, to=to, relative_to=base)
        assert cfagg.open_aggregation(target, "tas").partitions.file_name(0) == wanted
    ds = cfagg.read(parts / "deep/er/b.nc", allow=[parts])
    np.testing.assert_array_equal(ds["tas"].values.ravel(), np.arange(20))


def test_references_do_not_start_at_a_file(parts):
    with pytest.raises(OptionError, match=r"a\.nca is not a directory; name the one"):
        cfagg.convert(parts / "a.nca", parts / "b.nca", relative_to=parts / "a.nca")


def test_relative_references_start_at_the_file_and_not_at_the_working_directory(parts, monkeypatch):
    (parts / "elsewhere").mkdir()
    monkeypatch.chdir(parts / "elsewhere")
    cfagg.convert("../a.nca", "b.nc", to="CF-1.13")
    assert cfagg.open_aggregation("b.nc", "tas").partitions.file_name(0) == "../data/p0.nc"


def test_references_lead_to_the_same_files_where_the_target_is_reached_through_a_link(parts):
    (parts / "real/deep").mkdir(parents=True)
    (parts / "link").symlink_to(parts / "real/deep")
    cfagg.convert(parts / "a.nca", parts / "link/b.nc", to="CF-1.13")
    values = cfagg.read(parts / "real/deep/b.nc", allow=[parts])["tas"].values
    np.testing.assert_array_equal(values.ravel(), np.arange(20))


@pytest.mark.skipif(os.name != "posix", reason="links")
@pytest.mark.parametrize("target", ["real/data/b.nc", "link/data/b.nc", "link/b.nc"])
def test_files_that_are_named_through_a_link_are_moved_with_the_directory_of_the_target(tmp_path, parts, target):
    (tmp_path / "real").mkdir()
    (parts / "data").rename(tmp_path / "real/data")
    (tmp_path / "link").symlink_to("real")
    cfagg.convert(tmp_path / "link/data/p0.nc", tmp_path / target, to="CF-1.13")
    (tmp_path / "link").unlink()
    (tmp_path / "real").rename(tmp_path / "moved")
    found = tmp_path / "moved" / Path(target).relative_to(Path(target).parts[0])
    assert not cfagg.open_aggregation(found, "tas").partitions.file_name(0).startswith("..")
    np.testing.assert_array_equal(cfagg.read(found)["tas"], cfagg.read(tmp_path / "moved/data/p0.nc")["tas"])


def test_names_that_uris_must_encode_are_read_back_and_noted(parts):
    (parts / "data").rename(parts / "dätä #1")
    cfagg.rebase(parts / "a.nca", "data", "dätä #1")
    report = cfagg.convert(parts / "a.nca", parts / "b.nc", to="CF-1.13")
    assert "percent-encoded" in report.notes[0]
    with netCDF4.Dataset(parts / "b.nc") as file:
        assert file["tas_uris"][0, 0] == "d%C3%A4t%C3%A4%20%231/p0.nc"
    np.testing.assert_array_equal(cfagg.read(parts / "b.nc")["tas"].values.ravel(), np.arange(20))


# Datasets, aggregations and arrays


@pytest.mark.few(3)
@pytest.mark.parametrize("chunks", [None, {}], ids=["lazy", "dask"])
@pytest.mark.parametrize("to", DIALECTS)
def test_what_was_read_and_not_changed_stays_an_aggregation(parts, to, chunks):
    ds = cfagg.read(parts / "a.nca", chunks=chunks)
    report = cfagg.write(ds, parts / "b.nc", to=to)
    assert (report.fragments, report.partitions, report.losses) == (0, 2, ())
    assert not list(parts.glob("*.fragments"))
    assert cfagg.open_aggregation(parts / "b.nc", "tas").partitions.file_name(1) == "data/p1.nc"
    xr.testing.assert_equal(cfagg.read(parts / "b.nc"), ds)


def test_a_dataset_and_its_file_are_written_alike(parts):
    cfagg.write(cfagg.read(parts / "a.nca"), parts / "b.nca")
    assert canonical(parts / "b.nca", "tas") == canonical(parts / "a.nca", "tas")


def test_names_and_attributes_that_the_user_gave_are_written(parts):
    ds = cfagg.read(parts / "a.nca").rename(tas="t", lat="y")
    ds["t"].attrs["history"] = "renamed"
    del ds["t"].attrs["standard_name"]
    cfagg.write(ds, parts / "b.nc")
    found = cfagg.open_aggregation(parts / "b.nc", "t")
    assert (found.dims, found.attributes["history"], "standard_name" in found.attributes) == (
        ("time", "y"),
        "renamed",
        False,
    )
    np.testing.assert_array_equal(cfagg.read(parts / "b.nc")["t"].values.ravel(), np.arange(20))


def test_units_of_values_in_other_files_are_not_changed_by_their_name(parts):
    ds = cfagg.read(parts / "a.nca")
    ds["tas"].attrs["units"] = "degC"
    with pytest.raises(OptionError, match="its units were changed from 'K' to 'degC'"):
        cfagg.write(ds, parts / "b.nc")


@pytest.mark.few(2)
@pytest.mark.parametrize("change", ["computed", "selected", "loaded", "decoded otherwise"])
def test_what_is_not_the_array_in_the_files_is_written_by_its_values(parts, change):
    ds = cfagg.read(parts / "a.nca", chunks={} if change == "computed" else None)
    made = {
        "computed": lambda: ds.assign(tas=ds["tas"] * 2),
        "selected": lambda: ds.isel(time=[1, 3]),
        "loaded": lambda: ds.load(),
        "decoded otherwise": lambda: xr.decode_cf(ds.assign(tas=ds["tas"].assign_attrs(scale_factor=3.0))),
    }[change]()
    report = cfagg.write(made, parts / "b.nc")
    assert report.fragments > 0
    xr.testing.assert_equal(cfagg.read(parts / "b.nc"), made)


SLICES = {
    "whole partitions": {"time": slice(2, 5)},
    "parts": {"time": slice(1, 4), "lat": slice(1, 3)},
    "of slices": {"time": slice(None), "lat": slice(2, None)},
}


@pytest.mark.few(5)
@pytest.mark.parametrize("to", DIALECTS)
@pytest.mark.parametrize("name", SLICES)
def test_slices_stay_references_where_the_dialect_can_say_them(parts, to, name):
    ds = cfagg.read(parts / "a.nca").isel(lat=slice(0, 4)).isel(SLICES[name])
    report = cfagg.write(ds, parts / "b.nc", to=to)
    says = name == "whole partitions" or to in ("NCA-0.1", "CFA-0.4")
    assert bool(report.fragments) is not says
    assert any("written to b.nc.fragments" in note for note in report.notes) is not says
    xr.testing.assert_equal(cfagg.read(parts / "b.nc"), ds.load())
    if says:
        assert cfagg.open_aggregation(parts / "b.nc", "tas").partitions.files[0].startswith("data/p")


@pytest.mark.parametrize(
    "change", [{"time": [0, 3, 1]}, {"time": slice(None, None, 2)}, {"time": slice(None, None, -1)}, {"time": 3}]
)
def test_what_is_no_box_is_written_by_its_values(parts, change):
    ds = cfagg.read(parts / "a.nca").isel(change)
    assert cfagg.write(ds, parts / "b.nca").fragments
    xr.testing.assert_equal(cfagg.read(parts / "b.nca"), ds.load())


@pytest.mark.few(2)
@pytest.mark.parametrize("to", DIALECTS)
def test_arrays_of_the_file_that_a_dataset_was_read_from_are_referred_to_there(samples, to):
    ds = cfagg.read(samples / "temperature2.nca")
    cfagg.write(ds, samples / "own.nc", to=to, on_loss="materialise", overwrite=True)
    np.testing.assert_array_equal(cfagg.read(samples / "own.nc")["tas"].values, ds["tas"].values)


def test_arrays_of_a_file_that_is_replaced_are_written_beside_it(samples, tmp_path):
    for name in ("temperature2.nca", *(p.name for p in samples.glob("test*.nc"))):
        shutil.copy(samples / name, tmp_path)
    ds = cfagg.read(tmp_path / "temperature2.nca")
    expected = ds["tas"].values
    fresh = cfagg.read(tmp_path / "temperature2.nca")
    assert cfagg.write(fresh, tmp_path / "temperature2.nca", overwrite=True).fragments
    np.testing.assert_array_equal(cfagg.read(tmp_path / "temperature2.nca")["tas"].values, expected)


def test_arrays_of_a_group_are_referred_to_by_their_path(tmp_path):
    with netCDF4.Dataset(tmp_path / "a.nca", "w") as root:
        root.createDimension("t", 3)
        group = root.createGroup("run")
        own = group.createVariable("own", "f8", ("t",))
        own.nca_private, own[:] = np.int32(1), [1, 2, 3]
        record = {"index": [], "location": [[0, 3]], "data": {"shape": [3], "ncvar": "own"}}
        array = {"directions": {"t": True}, "pdimensions": [], "pshape": [], "Partitions": [record]}
        group.createVariable("tas", "f8", ()).setncatts({"nca_dimensions": "t", "nca_array": json.dumps(array)})
    cfagg.write(cfagg.read(tmp_path / "a.nca", group="run"), tmp_path / "b.nc", to="CF-1.13")
    found = cfagg.open_aggregation(tmp_path / "b.nc", "tas").partitions
    assert (found.file_name(0), found.address_name(0)) == ("a.nca", "/run/own")
    assert cfagg.read(tmp_path / "b.nc")["tas"].values.tolist() == [1, 2, 3]


class Heard:
    """Remembers what it is told of the progress of tasks."""

    def __init__(self):
        self.said = []

    def start(self, what, total):
        self.said.append((what, total))
        return 7

    def advance(self, number, steps):
        self.said.append((number, steps))

    def finish(self, number):
        self.said.append(number)


def test_fragments_are_written_by_several_threads_and_tell_how_far_they_are(tmp_path, monkeypatch):
    threads = set()

    def values(block):
        threads.add(threading.current_thread().name)
        return block + 1

    monkeypatch.setattr("os.sched_getaffinity", lambda _: range(4), raising=False)
    array = xr.DataArray(dask.array.zeros((40, 3), chunks=(1, 3)), dims=("t", "x"), name="v")
    heard = Heard()
    with dask.config.set(scheduler="synchronous"), listening(heard):
        cfagg.write(xr.apply_ufunc(values, array, dask="parallelized"), tmp_path / "b.nc")
    assert heard.said == [("fragments", 40), *[(7, 1)] * 40, 7]
    assert {name for name in threads if name.startswith("cfagg-fragments-")}
    np.testing.assert_array_equal(cfagg.read(tmp_path / "b.nc")["v"].values, np.ones((40, 3)))


def test_the_first_value_that_cannot_be_computed_ends_all_and_leaves_nothing(tmp_path):
    def values(block):
        if block.any():
            raise ArithmeticError("seven")
        return block

    array = xr.DataArray(dask.array.arange(9, chunks=1) == 7, dims="t", name="v").astype("f8")
    with pytest.raises(ArithmeticError, match="seven"):
        cfagg.write(xr.apply_ufunc(values, array, dask="parallelized", output_dtypes=["f8"]), tmp_path / "b.nc")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("to", DIALECTS)
def test_computed_values_are_written_by_dask_chunk(tmp_path, to):
    values = dask.array.arange(24, chunks=24, dtype="f8").reshape(6, 4).rechunk((4, 2))
    array = xr.DataArray(values, dims=("time", "x"), name="tas", attrs={"units": "K"})
    report = cfagg.write(array, tmp_path / "b.nc", to=to)
    assert (report.fragments, report.losses) == (4, ())
    assert "4 fragments were written" in report.notes[-1]
    folder = tmp_path / "b.nc.fragments"
    assert sorted(p.name for p in folder.iterdir()) == [f"tas.{i}.{j}.nc" for i in (0, 1) for j in (0, 1)]
    with netCDF4.Dataset(folder / "tas.1.0.nc") as file:
        assert file["tas"][...].tolist() == [[16, 17], [20, 21]]
        assert file["tas"].units == "K"
    np.testing.assert_array_equal(cfagg.read(tmp_path / "b.nc")["tas"], np.arange(24.0).reshape(6, 4))


def test_dates_texts_and_missing_values_of_arrays_in_memory_survive(tmp_path):
    dates = np.array(["2000-01-01", "2000-02-01", "NaT"], "datetime64[ns]")
    ds = xr.Dataset(
        {"when": ("x", dates), "what": ("x", np.array(["a", "bc", "é"], object)), "v": ("x", [1.0, np.nan, 3.0])},
        {"x": [1, 2, 3], "name": ("x", ["p", "q", "r"]), "height": 2.0},
    )
    cfagg.write(ds, tmp_path / "b.nc")
    with cfagg.read(tmp_path / "b.nc") as found:
        xr.testing.assert_equal(found.load(), ds)
    with netCDF4.Dataset(tmp_path / "b.nc") as file:
        assert file["x"].shape == (3,)
        assert file["height"][...] == 2.0
        assert file["v"].shape == ()


def test_a_variable_of_a_plain_file_is_referred_to(tmp_path):
    nca_files.fragment(tmp_path / "p.nc", "tas", np.arange(4, dtype="f4"), ["x"], {"units": "K"})
    report = cfagg.write(cfagg.read(tmp_path / "p.nc"), tmp_path / "b.nc")
    assert report.fragments == 0
    found = cfagg.open_aggregation(tmp_path / "b.nc", "tas")
    assert (found.partitions.file_name(0), found.partitions.address_name(0)) == ("p.nc", "tas")
    np.testing.assert_array_equal(cfagg.read(tmp_path / "b.nc")["tas"], np.arange(4))


def test_packed_variables_of_plain_files_are_referred_to_by_what_they_unpack_to(tmp_path):
    attributes = {"scale_factor": 0.5, "add_offset": 1.0, "units": "K"}
    nca_files.fragment(tmp_path / "p.nc", "tas", np.arange(4, dtype="i2"), ["x"], attributes, fill_value=np.int16(2))
    cfagg.convert(tmp_path / "p.nc", tmp_path / "a.nc", to="CF-1.13")
    cfagg.write(cfagg.read(tmp_path / "p.nc"), tmp_path / "b.nca")
    for name in ("a.nc", "b.nca"):
        assert cfagg.open_aggregation(tmp_path / name, "tas").partitions.file_name(0) == "p.nc"
        np.testing.assert_array_equal(cfagg.read(tmp_path / name)["tas"], [1.0, 1.5, np.nan, 2.5])


@pytest.mark.parametrize("form", ["file", "aggregation"])
def test_values_keep_their_packing_where_the_user_dropped_the_encoding(samples, tmp_path, form):
    path = samples / "packed.nca"
    if form == "file":
        path = tmp_path / "a.nc"
        packed = xr.Dataset({"tas": ("x", [10.5, np.nan, 11.5], {"units": "K"})})
        packed.to_netcdf(path, encoding={"tas": {"dtype": "i2", "scale_factor": 0.5, "_FillValue": -1}})
    found = cfagg.read(path)
    cfagg.write(found.drop_encoding(), tmp_path / "b.nca", relative_to="/")
    with cfagg.read(tmp_path / "b.nca", allow=["/"]) as again:
        np.testing.assert_array_equal(again.tas, found.tas)
    assert not (tmp_path / "b.nca.fragments").exists()


def test_an_aggregation_is_written_with_the_coordinates_it_refers_to(parts):
    report = cfagg.write(cfagg.open_aggregation(parts / "a.nca", "tas"), parts / "b.nc")
    assert report.variables == ("tas",)
    xr.testing.assert_equal(cfagg.read(parts / "b.nc"), cfagg.read(parts / "a.nca"))


def test_arrays_without_names_are_written_with_names_of_their_own(tmp_path):
    cfagg.write(dask.array.ones((4, 2), chunks=2), tmp_path / "b.nc")
    assert cfagg.read(tmp_path / "b.nc")["data"].dims == ("dim_0", "dim_1")
    with pytest.raises(OptionError, match="no name"):
        cfagg.write(xr.DataArray([1]), tmp_path / "c.nc")
    with pytest.raises(OptionError, match="type int"):
        cfagg.write(3, tmp_path / "c.nc")


# Targets


@pytest.mark.parametrize(
    ("name", "to", "found"),
    [
        ("a.nca", None, "NCA-0.1"),
        ("a.nc", None, "CF-1.13"),
        ("a.nc", "CFA-0.4", "CFA-0.4"),
        ("a.cfa", "CFA-0.6.2", "CFA-0.6.2"),
    ],
)
def test_the_suffix_decides_only_without_to(tmp_path, name, to, found):
    assert cfagg.write(np.ones(3), tmp_path / name, to=to).dialect == found


@pytest.mark.parametrize(
    ("name", "to", "message"),
    [
        ("a.nca", "CF-1.13", "contradicts to='CF-1.13': give another name, or leave out to="),
        ("a.zarr", "CF-1.13", "contradicts to='CF-1.13': give another name, or leave out to="),
        ("a.nc", "zarr", "contradicts to='zarr': give another name, or leave out to="),
        ("a.nc", "CF-1.12", "is not one of"),
        ("a.cfa", None, r"the ending '.cfa' does not tell .* are .nc \(CF-1.13\), .* instance, a.nc"),
        ("a.icechunk", None, "use cfagg.convert"),
        ("a.txt", None, r"the ending '.txt' does not tell .* instance, a.zarr"),
    ],
)
def test_a_name_that_contradicts_to_or_says_nothing_is_refused(tmp_path, name, to, message):
    with pytest.raises(OptionError, match=message):
        cfagg.write(np.ones(3), tmp_path / name, to=to)


def test_convert_takes_nc_for_plain_netcdf(parts):
    cfagg.convert(parts / "a.nca", parts / "b.nc")
    with netCDF4.Dataset(parts / "b.nc") as file:
        assert "tas" in file.variables
        assert "nca_array" not in file["tas"].ncattrs()


def test_an_aggregation_has_nothing_to_resume(tmp_path):
    with pytest.raises(OptionError, match="is written as a whole, so that no run leaves anything to resume: leave out"):
        cfagg.convert(tmp_path / "a.nc", tmp_path / "b.nca", resume=True)


@pytest.mark.parametrize("option", [{"chunks": {"time": 1}}, {"codec": "gzip"}, {"resume": True}, {"workers": 2}])
def test_options_of_zarr_are_refused_for_aggregation_files(parts, option):
    with pytest.raises(OptionError, match=f"leave out {next(iter(option))}="):
        cfagg.convert(parts / "a.nca", parts / "b.nc", to="CF-1.13", **option)


def test_a_file_is_replaced_only_when_asked_and_its_former_fragments_go_with_it(tmp_path):
    cfagg.write(np.zeros(3), tmp_path / "b.nc")
    with pytest.raises(TargetExistsError, match="overwrite=True"):
        cfagg.write(np.ones(3), tmp_path / "b.nc")
    for value in (1, 2):
        cfagg.write(np.full(3, value), tmp_path / "b.nc", overwrite=True)
        assert cfagg.read(tmp_path / "b.nc")["data"].values.tolist() == [value] * 3
        assert len(list(tmp_path.iterdir())) == 2


@pytest.mark.parametrize("name", ["a.nc", "a.nca"])
def test_a_file_that_another_process_writes_meanwhile_stays_and_no_fragments_are_left(tmp_path, name):
    def overtaken(block):
        (tmp_path / name).write_bytes(b"theirs")
        return block

    values = dask.array.from_array(np.arange(4.0), chunks=2).map_blocks(overtaken, dtype="f8", meta=np.empty(0))
    with pytest.raises(TargetExistsError, match=rf"{name} exists; replace it with overwrite"):
        cfagg.write(xr.Dataset({"v": ("x", values)}), tmp_path / name)
    assert {p.name: p.read_bytes() for p in tmp_path.iterdir()} == {name: b"theirs"}


def test_fragments_that_the_new_file_refers_to_stay(tmp_path):
    cfagg.write(np.arange(3), tmp_path / "b.nc")
    cfagg.convert(tmp_path / "b.nc", tmp_path / "b.nc", to="CFA-0.6.2", overwrite=True)
    assert cfagg.open_aggregation(tmp_path / "b.nc", "data").dialect == "CFA-0.6.2"
    assert cfagg.read(tmp_path / "b.nc")["data"].values.tolist() == [0, 1, 2]


@pytest.mark.few(2)
@pytest.mark.parametrize("by", ["version", "link", "nested", "outside"])
def test_former_fragments_that_the_new_file_needs_in_other_ways_stay(tmp_path, by):
    target = tmp_path / "b.nc"
    cfagg.write(xr.DataArray(np.arange(3.0), dims="x", name="tas"), target)
    fragment = "b.nc.fragments/tas.0.nc"
    source, allow = tmp_path / "source.nc", ()
    if by == "version":
        uris = [["none.nc", fragment]]
        instruction_files.cfa(source, "tas", "f8", {"x": 3}, [[3]], uris, [["tas", "tas"]])
    elif by == "link":
        (tmp_path / "link").symlink_to("b.nc.fragments")
        instruction_files.cf(source, "tas", "f8", {"x": 3}, [[3]], ["link/tas.0.nc"])
    else:
        folder = tmp_path if by == "nested" else tmp_path.parent / f"{tmp_path.name} outside"
        folder.mkdir(exist_ok=True)
        allow = (tmp_path.parent,)
        instruction_files.cf(
            folder / "inner.nc", "tas", "f8", {"x": 3}, [[3]], [os.path.relpath(tmp_path / fragment, folder)]
        )
        instruction_files.cf(source, "tas", "f8", {"x": 3}, [[3]], [os.path.relpath(folder / "inner.nc", tmp_path)])
    cfagg.write(cfagg.read(source, allow=allow), target, to="CFA-0.6.2", overwrite=True)
    assert cfagg.read(target, allow=allow)["tas"].values.tolist() == [0, 1, 2]


@pytest.mark.parametrize("way", ["aggregation", "dataset", "convert"])
def test_what_a_file_may_not_read_is_not_made_readable_by_writing_it_elsewhere(parts, way):
    (parts / "foreign").mkdir()
    cfagg.write(cfagg.open_aggregation(parts / "a.nca", "tas"), parts / "foreign/b.nc")
    assert cfagg.open_aggregation(parts / "foreign/b.nc", "tas").partitions.files[0] == "../data/p0.nc"

    def write(*allow):
        source, target = parts / "foreign/b.nc", parts / "new.nc"
        if way == "convert":
            return cfagg.convert(source, target, to="CF-1.13", allow=allow)
        if way == "dataset":
            return cfagg.write(cfagg.read(source, allow=allow), target)
        return cfagg.write(cfagg.open_aggregation(source, "tas"), target, allow=allow)

    with pytest.raises(AccessError, match=r"'\.\./data/p0\.nc'.*new\.nc was not written"):
        write()
    assert not (parts / "new.nc").exists()
    write(parts / "data")
    assert cfagg.read(parts / "new.nc")["tas"].shape == (5, 4)


@pytest.mark.parametrize("source", ["dataset", "stores"])
def test_attributes_that_netcdf_cannot_hold_are_losses(tmp_path, source):
    odd = {
        "standard_name": "air_temperature",
        "units": "K",
        "checked": True,
        "source": {"model": 1},
        "half": np.float16(1),
    }
    data = xr.Dataset(
        {"tas": ("time", [1.0, 2.0], odd)}, {"time": ("time", [0.0, 1.0], {"units": "days since 2000-1-1"})}
    )
    data.time.attrs["standard_name"] = "time"
    out = tmp_path / "out.nc"

    def write(**options):
        if source == "dataset":
            return cfagg.write(data, out, **options).losses
        return cfagg.aggregate([tmp_path / "0.zarr", tmp_path / "1.zarr"], output=out, **options).cfagg.report.losses

    if source == "stores":
        del odd["half"], data.tas.attrs["half"]
        for number in range(2):
            time = ("time", data.time.values + 2 * number, data.time.attrs)
            data.assign_coords(time=time).to_zarr(tmp_path / f"{number}.zarr", zarr_format=3, consolidated=False)
    with pytest.raises(LossError, match="2 attributes cannot be expressed in netCDF") as caught:
        write()
    assert not out.exists()
    assert write(on_loss="drop") == caught.value.losses
    assert not {"checked", "source"} & set(cfagg.read(out).tas.attrs)


def test_attributes_that_a_convention_needs_for_itself_are_losses(tmp_path):
    cfagg.write(xr.DataArray(np.arange(3), dims="x", name="tas"), tmp_path / "a.nc")
    with netCDF4.Dataset(tmp_path / "a.nc", "a") as file:
        file["tas"].cf_role = "profile_id"
    tas = cfagg.read(tmp_path / "a.nc")
    with pytest.raises(LossError, match="cf_role"):
        cfagg.write(tas, tmp_path / "b.nc", to="CFA-0.4")
    report = cfagg.write(tas, tmp_path / "b.nc", to="CFA-0.4", on_loss="drop")
    assert [loss.what for loss in report.losses] == ["cf_role"]
    assert cfagg.read(tmp_path / "b.nc")["tas"].values.tolist() == [0, 1, 2]


def test_variables_whose_names_run_together_have_fragments_of_their_own(tmp_path):
    given = {
        "t": (("y", "x"), np.arange(4.0).reshape(2, 2)),
        "t.0": ("x", [4.0, 5.0]),
        "T": (("y", "x"), np.ones((2, 2))),
    }
    cfagg.write(xr.Dataset(given).chunk(1), tmp_path / "c.nc")
    made = {p.name.casefold() for p in (tmp_path / "c.nc.fragments").iterdir()}
    assert len(made) == 10
    found = cfagg.read(tmp_path / "c.nc")
    for name, (_, values) in given.items():
        assert np.array_equal(found[name], values)


def test_files_of_others_beside_the_target_stay(tmp_path):
    (tmp_path / "b.nc.fragments").mkdir()
    (tmp_path / "b.nc.fragments/mine.txt").write_text("mine")
    cfagg.write(np.arange(3), tmp_path / "b.nc")
    assert (tmp_path / "b.nc.fragments/mine.txt").read_text() == "mine"
    assert cfagg.read(tmp_path / "b.nc")["data"].values.tolist() == [0, 1, 2]


def test_a_target_that_cannot_be_written_is_a_target_error(tmp_path):
    with pytest.raises(TargetError, match="there is no directory"):
        cfagg.write(np.ones(3), tmp_path / "none" / "b.nc")
    (tmp_path / "d.nc").mkdir()
    with pytest.raises(TargetError, match="is a directory"):
        cfagg.write(np.ones(3), tmp_path / "d.nc")


def test_an_aggregation_that_cannot_be_read_is_refused_or_left_out_and_listed(parts):
    with netCDF4.Dataset(parts / "a.nca", "a") as file:
        file.createVariable("odd", "f4", ()).nca_array = "{]"
    with pytest.raises(ConventionError, match="odd"):
        cfagg.convert(parts / "a.nca", parts / "b.nc", to="CF-1.13")
    report = cfagg.convert(parts / "a.nca", parts / "b.nc", to="CF-1.13", on_loss="drop")
    assert [(loss.variable, loss.what) for loss in report.losses] == [("odd", "the variable")]
    assert report.variables == ("tas",)


def test_variables_are_chosen_with_what_they_refer_to(parts):
    with netCDF4.Dataset(parts / "a.nca", "a") as file:
        file.createVariable("other", "f4", ("lat",))
    cfagg.convert(parts / "a.nca", parts / "b.nc", to="CF-1.13", variables=["tas"])
    with netCDF4.Dataset(parts / "b.nc") as file:
        assert {"tas", "lat", "lat_bnds", "time", "crs"} <= set(file.variables)
        assert "other" not in file.variables


def test_a_report_says_all_as_data_and_as_html(samples):
    report = cfagg.convert(samples / "figure1.nca", samples / "report.nc", to="CF-1.13", on_loss="drop")
    document = json.loads(json.dumps(report.as_dict()))
    assert document["losses"][0]["partition"] == [0, 1]
    assert document["dialect"] == "CF-1.13"
    assert "23 losses" in repr(report)
    assert "part of a sub-array" in report._repr_html_()


@pytest.mark.parametrize("to", DIALECTS)
def test_fragments_whose_own_names_tell_another_order_of_dimensions_keep_their_values(tmp_path, to):
    values = np.arange(12, dtype="f4").reshape(4, 3)
    nca_files.fragment(tmp_path / "p0.nc", "tas", values[:1], ["time", "lat"], {})
    nca_files.fragment(tmp_path / "p1.nc", "tas", values[1:].T, ["lat", "time"], {})
    uris = [["p0.nc"], ["p1.nc"]]
    path = instruction_files.cf(tmp_path / "a.nc", "tas", "f4", {"time": 4, "lat": 3}, [[1, 3], [3]], uris)
    if to == "CFA-0.6.2":
        with pytest.raises(LossError, match=r"partition \[1, 0\]: order of dimensions \(lat time\) is lost"):
            cfagg.convert(path, tmp_path / "b.nc", to=to)
    cfagg.convert(path, tmp_path / "b.nc", to=to, on_loss="materialise" if to == "CFA-0.6.2" else "error")
    np.testing.assert_array_equal(cfagg.read(tmp_path / "b.nc")["tas"], values)


def test_relative_names_that_are_not_utf8_are_lost_where_they_are_no_uris(tmp_path):
    nca_files.fragment(tmp_path / "p.nc", "tas", np.arange(3.0), ["t"], {})
    (tmp_path / "p.nc").rename(tmp_path / "\udce9.nc")
    path = instruction_files.cf(tmp_path / "a.nc", "tas", "f8", {"t": 3}, [[3]], ["%E9.nc"])
    with pytest.raises(LossError, match=r"name of a file \('\\udce9\.nc'\) is lost: relative names are UTF-8"):
        cfagg.convert(path, tmp_path / "b.nc", to="CFA-0.6.2")
    for options in ({"relative_to": "/"}, {"on_loss": "materialise"}):
        cfagg.convert(path, tmp_path / "b.nc", to="CFA-0.6.2", overwrite=True, **options)
        assert cfagg.read(tmp_path / "b.nc")["tas"].values.tolist() == [0, 1, 2]


@pytest.mark.few(2)
@pytest.mark.parametrize(("dtype", "gap"), [("f4", np.nan), ("i4", netCDF4.default_fillvals["i4"])])
@pytest.mark.parametrize("to", ["NCA-0.1", "CFA-0.4", "CF-1.13"])
def test_missing_unique_values_of_arrays_without_a_missing_value_are_translated(tmp_path, dtype, gap, to):
    with netCDF4.Dataset(tmp_path / "a.nc", "w") as root:
        root.Conventions = "CF-1.13"
        instruction_files.dimensions(root, t=5, f_t=2)
        instruction_files.sizes(root, "m", [[2, 3]])
        root.createVariable("u", dtype, ["f_t"])[:] = [7, gap]
        instruction_files.aggregated(root, "x", dtype, ["t"], {"map": "m", "unique_values": "u"})
    cfagg.convert(tmp_path / "a.nc", tmp_path / "b.nc", to=to, on_loss="materialise")
    np.testing.assert_array_equal(cfagg.read(tmp_path / "b.nc")["x"], cfagg.read(tmp_path / "a.nc")["x"])
    if dtype == "f4" and to == "CF-1.13":
        cfagg.convert(tmp_path / "a.nc", tmp_path / "c.nc", to=to)
        np.testing.assert_array_equal(cfagg.read(tmp_path / "c.nc")["x"], [7, 7, np.nan, np.nan, np.nan])


def test_names_with_colons_come_back_from_uris_as_they_were(tmp_path):
    nca_files.fragment(tmp_path / "a:b.nc", "tas", np.arange(3.0), ["t"], {})
    path = instruction_files.cfa(tmp_path / "a.nc", "tas", "f8", {"t": 3}, [[3]], ["a:b.nc"])
    cfagg.convert(path, tmp_path / "b.nc", to="CF-1.13")
    assert list(cfagg.open_aggregation(tmp_path / "b.nc", "tas").partitions.files) == ["a:b.nc"]
    assert cfagg.read(tmp_path / "b.nc")["tas"].values.tolist() == [0, 1, 2]


@pytest.mark.few(4)
@pytest.mark.parametrize("to", DIALECTS)
@pytest.mark.parametrize("name", ["file:z.nc", "FILE:z.nc", "file:/z.nc"])
def test_a_name_that_begins_as_a_uri_does_is_written_as_a_path(tmp_path, to, name):
    (tmp_path / name).parent.mkdir(exist_ok=True)
    nca_files.fragment(tmp_path / name, "tas", np.arange(3.0), ["t"], {})
    cfagg.write(cfagg.read(tmp_path / name), tmp_path / "b.nc", to=to)
    assert list(cfagg.open_aggregation(tmp_path / "b.nc", "tas").partitions.files) == [f"./{name}"]
    assert cfagg.read(tmp_path / "b.nc")["tas"].values.tolist() == [0, 1, 2]


def test_references_and_fragments_whose_names_begin_as_uris_do_are_paths(tmp_path):
    tas = xr.DataArray(np.arange(3.0), dims="t", name="tas")
    cfagg.write(tas, tmp_path / "file:o.nc")
    assert cfagg.read(tmp_path / "file:o.nc")["tas"].values.tolist() == [0, 1, 2]
    (tmp_path / "file:o.nc.fragments").rename(tmp_path / "FILE:n")
    moved = (str(tmp_path / "file:o.nc.fragments"), str(tmp_path / "FILE:n"))
    cfagg.rebase(tmp_path / "file:o.nc", *moved, output=tmp_path / "b.nc")
    assert cfagg.read(tmp_path / "b.nc")["tas"].values.tolist() == [0, 1, 2]


@pytest.mark.few(3)
@pytest.mark.parametrize("to", ["NCA-0.1", "CFA-0.4", "CF-1.13"])
@pytest.mark.parametrize("fill", [None, -9.0])
def test_partitions_that_are_declared_missing_are_materialised(tmp_path, to, fill):
    nca_files.fragment(tmp_path / "p0.nc", "tas", np.arange(3.0), ["t"], {})
    attributes = {} if fill is None else {"_FillValue": fill}
    path = instruction_files.cfa(
        tmp_path / "a.nc", "tas", "f8", {"t": 6}, [[3, 3]], ["p0.nc", None], attributes=attributes
    )
    for source in (cfagg.read(path), cfagg.open_aggregation(path, "tas")):
        report = cfagg.write(source, tmp_path / "b.nc", to=to, on_loss="materialise", overwrite=True)
        assert (report.fragments, report.losses) == (1, ())
        expected = cfagg.read(path, missing="fill")["tas"].values
        np.testing.assert_array_equal(cfagg.read(tmp_path / "b.nc")["tas"].values, expected)


def test_a_file_that_is_gone_is_not_materialised_as_missing(tmp_path):
    path = instruction_files.cfa(tmp_path / "a.nc", "tas", "f8", {"t": 6}, [[3, 3]], ["gone.nc", None])
    made = aggregated(cfagg.open_aggregation(path, "tas"), open_reader(open_source(path), "tas", Access(path)))
    assert np.isnan(made.read((slice(3, 6),))).all()
    with pytest.raises(FragmentNotFoundError, match="gone"):
        made.read((slice(0, 3),))


@pytest.mark.parametrize(("dtype", "fragments"), [("f8", 1), ("i4", 2)])
def test_missing_unique_values_become_missing_fragments_where_these_can_be_read(tmp_path, dtype, fragments):
    with netCDF4.Dataset(tmp_path / "a.nc", "w") as root:
        root.Conventions = "CF-1.13"
        instruction_files.dimensions(root, t=5, f_t=2)
        instruction_files.sizes(root, "m", [[2, 3]])
        root.createVariable("u", dtype, ["f_t"])[0] = 7
        instruction_files.aggregated(root, "x", dtype, ["t"], {"map": "m", "unique_values": "u"})
    report = cfagg.convert(tmp_path / "a.nc", tmp_path / "b.nc", to="CFA-0.6.2", on_loss="materialise")
    assert report.fragments == fragments
    assert any("1 missing unique value is written as missing fragment" in n for n in report.notes) is (dtype == "f8")
    expected = cfagg.read(tmp_path / "a.nc")["x"]
    np.testing.assert_array_equal(cfagg.read(tmp_path / "b.nc", missing="fill")["x"], expected)


@pytest.mark.parametrize("to", DIALECTS)
def test_a_cf_role_of_numbers_marks_nothing(tmp_path, to):
    path = instruction_files.cfa(tmp_path / "a.nc", "tas", "f8", {"t": 3}, [[3]], [None], ["own"])
    with netCDF4.Dataset(path, "a") as root:
        root.createVariable("own", "f8", ["t"])[:] = range(3)
        root["own"].cf_role = [1.0, 2.0]
    cfagg.convert(path, tmp_path / "b.nc", to=to, on_loss="materialise")
    assert cfagg.read(tmp_path / "b.nc")["tas"].values.tolist() == [0, 1, 2]


@pytest.mark.parametrize(
    ("name", "write"),
    [
        ("test1.nc", lambda name: cfagg.write(cfagg.read("test1.nc"), name, overwrite=True)),
        ("test1.nc", lambda name: cfagg.write(cfagg.read("temperature.nca"), name, overwrite=True)),
        ("link.nc", lambda name: cfagg.write(cfagg.read("test1.nc"), name, overwrite=True)),
        ("test1.nc", lambda name: cfagg.write(cfagg.read("link.nc"), name, overwrite=True)),
        ("test2.nc", lambda name: cfagg.write(cfagg.read("temperature.nca").isel(time=slice(12, 48)), name,
                                              overwrite=True)),
        ("test1.nc", lambda name: cfagg.convert("temperature.nca", name, to="CF-1.13", overwrite=True)),
        ("test1.nc", lambda name: cfagg.aggregate("temperature.nca", output=name, overwrite=True)),
        ("test1.nc", lambda name: cfagg.rebase("temperature.nca", "test2.nc", "test2.nc", output=name, overwrite=True)),
        ("test1.nc", lambda name: cfagg.index("test1.nc", output=name, to="kerchunk", overwrite=True)),
        ("test1.nc", lambda name: cfagg.index("temperature.nca", output=name, overwrite=True)),
        ("temperature.nca", lambda name: cfagg.index("temperature.nca", output=name, overwrite=True)),
    ],
)  # fmt: skip
def test_a_file_is_never_replaced_by_what_refers_to_it(samples, tmp_path, monkeypatch, name, write):
    for one in ("test1.nc", "test2.nc", "temperature.nca"):
        shutil.copy(samples / one, tmp_path)
    monkeypatch.chdir(tmp_path)
    Path("link.nc").symlink_to("test1.nc")
    before = {one: one.read_bytes() for one in Path().iterdir()}
    with pytest.raises(TargetError, match="was not replaced: what is written refers to it"):
        write(name)
    assert {one: one.read_bytes() for one in Path().iterdir()} == before


@pytest.mark.parametrize(
    "write",
    [
        lambda: cfagg.aggregate(["outer.nc"], output="inner.nc", overwrite=True),
        lambda: cfagg.write(cfagg.aggregate(["outer.nc", "test1.nc"]), "inner.nc", overwrite=True),
    ],
)
def test_an_aggregation_file_is_not_replaced_by_what_refers_to_it_through_another_one(
    samples, tmp_path, monkeypatch, write
):
    shutil.copy(samples / "test1.nc", tmp_path)
    monkeypatch.chdir(tmp_path)
    cfagg.aggregate(["test1.nc"], output="inner.nc")
    cfagg.aggregate(["inner.nc"], output="outer.nc")
    expected = cfagg.read("outer.nc").load()
    with pytest.raises(TargetError, match="was not replaced: what is written refers to it"):
        write()
    assert cfagg.read("outer.nc").load().equals(expected)


@pytest.mark.parametrize("to", DIALECTS)
def test_dimensions_whose_names_have_blanks_are_losses_and_variables_keep_theirs(tmp_path, to):
    ds = xr.Dataset({"my var": ("x", np.arange(3.0)), "v": (("x", "a dim"), np.ones((3, 2)))})
    with pytest.raises(LossError, match=r"variable 'v': dimension \('a dim'\) is lost: names of dim"):
        cfagg.write(ds, tmp_path / "a.nc", to=to)
    report = cfagg.write(ds, tmp_path / "a.nc", to=to, on_loss="drop")
    assert [(loss.variable, loss.what) for loss in report.losses] == [("v", "dimension"), ("v", "the variable")]
    found = cfagg.read(tmp_path / "a.nc")
    assert {name: one.values.tolist() for name, one in found.data_vars.items()} == {"my var": [0, 1, 2]}


def test_an_aggregation_opened_by_a_relative_name_is_written_from_any_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "elsewhere").mkdir()
    shutil.copytree(sample("sst"), tmp_path / "sst")
    shutil.copy(sample("sst.nca"), tmp_path)
    monkeypatch.chdir(tmp_path)
    found = cfagg.open_aggregation("sst.nca", "surface_temperature")
    monkeypatch.chdir(tmp_path / "elsewhere")
    cfagg.write(found, tmp_path / "again.nca")
    again = cfagg.open_array(tmp_path / "again.nca", "surface_temperature")
    assert np.array_equal(again[0, 0], cfagg.open_array(sample("sst.nca"), "surface_temperature")[0, 0], equal_nan=True)
