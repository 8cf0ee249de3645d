"""Conversions to Icechunk; icechunk and zarr-python say what is in the repository."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
import xarray as xr
import zarr

import cfagg
from cfagg.cli.main import main
from cfagg.errors import LossError, OptionError, TargetError, TargetExistsError, UnsupportedError
from tests.conversion.conftest import write_aggregation, write_fragment

icechunk = pytest.importorskip("icechunk")

#: Converts, and waits when everything is written and nothing committed.
SLOWLY = """
import sys, time, cfagg
def slowly(done, total):
    if done == total:
        print("!", end="", flush=True)
        time.sleep(600)
cfagg.convert(sys.argv[1], sys.argv[2], to="icechunk", overwrite=True, chunks={"time": 1}, progress=slowly)
"""


def repository(path):
    """Return a repository in a directory."""
    icechunk.set_logs_filter("error")
    return icechunk.Repository.open(icechunk.local_filesystem_storage(str(path)))


def group(path, **where):
    """Return what a branch, or a snapshot, holds."""
    return zarr.open_group(repository(path).readonly_session(**(where or {"branch": "main"})).store, mode="r")


def test_all_values_are_in_one_commit_of_a_new_repository(floats, tmp_path):
    report = cfagg.convert(floats[0], tmp_path / "a.icechunk", verify=True)
    assert (report.dialects, report.verified) == (("NCA-0.1",), True)
    np.testing.assert_array_equal(group(tmp_path / "a.icechunk")["tas"][...], floats[1])
    assert len(list(repository(tmp_path / "a.icechunk").ancestry(branch="main"))) == 2  # the first one is empty
    assert repository(tmp_path / "a.icechunk").readonly_session("main").all_virtual_chunk_locations() == []
    assert list(tmp_path.glob(".a*")) == []


def test_types_groups_scalars_and_empty_arrays_are_those_of_the_source(tmp_path):
    root = zarr.open_group(str(tmp_path / "a.zarr"), mode="w", attributes={"title": "t"})
    inner = root.create_group("deep").create_group("est", attributes={"n": 1})
    data = {
        "s": np.array(["a", "", "Ålesund"], object),
        "half": np.array([1, 2, 0.1], "f2"),
        "flag": np.array([True, False]),
        "empty": np.zeros((0, 3), "i4"),
        "scalar": np.array(7, "u8"),
    }
    for name, values in data.items():
        dtype = zarr.core.dtype.VariableLengthUTF8() if values.dtype.kind == "O" else values.dtype
        made = inner.create_array(name, shape=values.shape, dtype=dtype, attributes={"long_name": name})
        made[...] = values
    cfagg.convert(tmp_path / "a.zarr", tmp_path / "b", to="icechunk")
    found = group(tmp_path / "b")
    assert dict(found.attrs) == {"title": "t"}
    assert dict(found["deep/est"].attrs) == {"n": 1}
    for name, values in data.items():
        assert found["deep/est"][name].shape == values.shape
        np.testing.assert_array_equal(found["deep/est"][name][...], values)


def test_xarray_reads_the_same_of_the_source_and_the_repository(tmp_path):
    ds = xr.Dataset({"a": ("x", [1.0, np.nan])}, {"x": [10, 20]}, {"Conventions": "CF-1.8"})
    ds.to_zarr(tmp_path / "a.zarr")
    cfagg.convert(tmp_path / "a.zarr", tmp_path / "a.icechunk")
    store = repository(tmp_path / "a.icechunk").readonly_session("main").store
    with xr.open_dataset(tmp_path / "a.zarr", engine="zarr") as first:
        xr.testing.assert_identical(first, xr.open_dataset(store, engine="zarr", consolidated=False))


def test_chunks_of_unequal_sizes_and_shards_are_written(tmp_path):
    path = write_aggregation(tmp_path / "a.nca", [2, 5, 1])
    data = np.random.default_rng(0).normal(size=(8, 4, 6)).astype("f4")
    for k, (a, b) in enumerate([(0, 2), (2, 7), (7, 8)]):
        write_fragment(tmp_path / f"part{k}.nc", data[a:b])
    cfagg.convert(path, tmp_path / "a.icechunk", chunks="partitions")
    with zarr.config.set({"array.rectilinear_chunks": True}):
        np.testing.assert_array_equal(group(tmp_path / "a.icechunk")["tas"][...], data)
    cfagg.convert(path, tmp_path / "b.icechunk", chunks={"time": 2}, shards={"time": 8})
    found = group(tmp_path / "b.icechunk")["tas"]
    assert (found.chunks, found.shards) == ((2, 4, 6), (8, 4, 6))
    np.testing.assert_array_equal(found[...], data)


def test_a_repository_that_is_there_gets_a_commit_only_when_asked_and_keeps_its_history(floats, tmp_path):
    made = icechunk.Repository.create(icechunk.local_filesystem_storage(str(tmp_path / "r")))
    session = made.writable_session("main")
    zarr.create_group(session.store).create_array("old", data=np.arange(3))
    before = session.commit("old")
    with pytest.raises(TargetExistsError, match="--overwrite"):
        cfagg.convert(floats[0], tmp_path / "r", to="icechunk")
    assert set(group(tmp_path / "r")) == {"old"}
    cfagg.convert(floats[0], tmp_path / "r", to="icechunk", overwrite=True)
    assert set(group(tmp_path / "r")) == {"time", "time_bnds", "lat", "lon", "tas"}
    np.testing.assert_array_equal(group(tmp_path / "r")["tas"][...], floats[1])
    assert group(tmp_path / "r", snapshot_id=before)["old"][...].tolist() == [0, 1, 2]


@pytest.mark.few(1)
@pytest.mark.parametrize("exists", [True, False])
def test_a_run_that_is_killed_before_its_commit_leaves_the_branch_as_it_was(floats, tmp_path, exists):
    if exists:
        cfagg.convert(floats[0], tmp_path / "r", to="icechunk", variables=["lat"])
        before = repository(tmp_path / "r").lookup_branch("main")
    with subprocess.Popen([sys.executable, "-c", SLOWLY, floats[0], tmp_path / "r"], stdout=subprocess.PIPE) as process:
        assert process.stdout.read(1) == b"!"
        process.kill()
    if exists:
        assert repository(tmp_path / "r").lookup_branch("main") == before
        assert set(group(tmp_path / "r")) == {"lat"}
    else:
        assert not (tmp_path / "r").exists()
    cfagg.convert(floats[0], tmp_path / "r", to="icechunk", overwrite=True)
    np.testing.assert_array_equal(group(tmp_path / "r")["tas"][...], floats[1])
    assert list(tmp_path.glob(".r*")) == []


def test_attributes_that_are_no_json_are_losses(tmp_path):
    root = zarr.open_group(str(tmp_path / "a.zarr"), mode="w")
    root.create_array("v", data=np.arange(3), attributes={"missing": float("nan"), "units": "K"})
    with pytest.raises(LossError, match="attribute 'missing'"):
        cfagg.convert(tmp_path / "a.zarr", tmp_path / "a.icechunk")
    assert not (tmp_path / "a.icechunk").exists()
    report = cfagg.convert(tmp_path / "a.zarr", tmp_path / "a.icechunk", on_loss="drop")
    assert [loss.what for loss in report.losses] == ["attribute 'missing'"]
    assert dict(group(tmp_path / "a.icechunk")["v"].attrs) == {"units": "K"}


def test_reals_that_json_lacks_within_a_mapping_are_losses_too(tmp_path):
    root = zarr.open_group(
        str(tmp_path / "a.zarr"), mode="w", attributes={"range": {"of": [0.0, float("inf")]}, "n": 1}
    )
    root.create_array("v", data=np.arange(3))
    (note,) = cfagg.convert(tmp_path / "a.zarr", tmp_path / "b.zarr").notes
    assert "(/: range)" in note
    report = cfagg.convert(tmp_path / "a.zarr", tmp_path / "a.icechunk", on_loss="drop")
    assert [(loss.variable, loss.what) for loss in report.losses] == [("/", "attribute 'range'")]
    assert dict(group(tmp_path / "a.icechunk").attrs) == {"n": 1}


def test_what_is_no_repository_is_never_replaced(floats, tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "file").write_text("x")
    with pytest.raises(TargetExistsError, match="not an Icechunk repository"):
        cfagg.convert(floats[0], tmp_path / "mine", to="icechunk", overwrite=True)
    assert (tmp_path / "mine" / "file").read_text() == "x"


def test_a_target_within_a_store_that_is_the_source_is_refused(tmp_path):
    zarr.open_group(str(tmp_path / "a.zarr"), mode="w").create_array("v", data=np.arange(3))
    with pytest.raises(TargetError, match="or is within it"):
        cfagg.convert(tmp_path / "a.zarr", tmp_path / "a.zarr" / "b.icechunk")
    assert not (tmp_path / "a.zarr" / "b.icechunk").exists()


def test_a_target_that_holds_the_source_or_has_no_directory_is_refused(floats, tmp_path):
    with pytest.raises(TargetError, match="is the source, holds it"):
        cfagg.convert(floats[0], tmp_path, to="icechunk", overwrite=True)
    with pytest.raises(TargetError, match="no directory"):
        cfagg.convert(floats[0], tmp_path / "gone" / "a.icechunk")


@pytest.mark.parametrize("option", [{"zarr_format": 2}, {"relative_to": "/"}])
def test_options_that_say_nothing_to_a_repository_are_refused(floats, tmp_path, option):
    with pytest.raises(OptionError, match=f"leave out {next(iter(option))}="):
        cfagg.convert(floats[0], tmp_path / "a.icechunk", **option)


@pytest.mark.parametrize("url", ["gs://bucket/a.icechunk", "https://example.org/a.icechunk", "s3://bucket"])
def test_a_url_of_another_kind_is_refused(floats, url):
    with pytest.raises(UnsupportedError, match="below s3://bucket/path"):
        cfagg.convert(floats[0], url, to="icechunk")


def test_a_repository_without_any_commit_of_somebody_is_taken(floats, tmp_path):
    icechunk.Repository.create(icechunk.local_filesystem_storage(str(tmp_path / "r")))
    report = cfagg.convert(floats[0], tmp_path / "r", to="icechunk", resume=True)
    assert "written from the beginning" in " ".join(report.notes)
    np.testing.assert_array_equal(group(tmp_path / "r")["tas"][...], floats[1])


def test_the_command_writes_the_repository_its_name_says(floats, tmp_path, capsys):
    assert main(["convert", str(floats[0]), str(tmp_path / "a.icechunk"), "--variable", "tas"]) == 0
    assert "a.icechunk" in capsys.readouterr().out
    np.testing.assert_array_equal(group(tmp_path / "a.icechunk")["tas"][...], floats[1])


def test_a_dry_run_counts_and_writes_nothing(floats, tmp_path):
    found = cfagg.convert(floats[0], tmp_path / "out.icechunk", dry_run=True, chunks={"time": 3})
    assert found.bytes_out == found.bytes_in == floats[1].nbytes + 8 * (12 + 24 + 4 + 6)
    assert list(tmp_path.glob("*out*")) == []
    assert found.chunks == cfagg.convert(floats[0], found.target, chunks={"time": 3}).chunks


@pytest.mark.parametrize("empty", [True, False])
def test_a_directory_that_another_process_writes_meanwhile_stays(tmp_path, empty):
    target = tmp_path / "b.icechunk"
    xr.Dataset({"v": ("x", [1.0, 2.0])}).to_netcdf(tmp_path / "a.nc")
    if empty:
        target.mkdir()

    def overtaken(*_):
        target.mkdir(exist_ok=True)
        (target / "theirs").touch()

    with pytest.raises(TargetExistsError, match="meanwhile written by another process"):
        cfagg.convert(tmp_path / "a.nc", target, progress=overtaken)
    assert sorted(p.name for p in tmp_path.rglob("*")) == ["a.nc", "b.icechunk", "theirs"]
