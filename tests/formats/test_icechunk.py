"""Icechunk repositories as sources; zarr-python and icechunk write them."""

from __future__ import annotations

import pickle

import netCDF4
import numpy as np
import pytest
import xarray as xr
import zarr

import cfagg
from cfagg.errors import AccessError, FragmentReadError, SourceError
from cfagg.formats.icechunk import _credentials, storage_of
from cfagg.storage.urls import a_place

icechunk = pytest.importorskip("icechunk")

VALUES = np.random.default_rng(0).normal(size=(7, 6)).astype("f4")


@pytest.fixture
def repository(tmp_path):
    """A repository with two commits, the second of which changes values."""
    icechunk.set_logs_filter("error")
    made = icechunk.Repository.create(icechunk.local_filesystem_storage(str(tmp_path / "r")))
    session = made.writable_session("main")
    root = zarr.create_group(session.store, attributes={"title": "t"})
    root.create_array("v", data=VALUES + 1, chunks=(3, 4), dimension_names=("y", "x"), attributes={"units": "K"})
    root.create_group("g").create_array("s", shape=(2,), dtype=str)[:] = np.array(["a", "Kiel"], object)
    session.commit("first")
    session = made.writable_session("main")
    zarr.open_group(session.store)["v"][...] = VALUES
    session.commit("second")
    return tmp_path / "r"


def test_the_last_commit_of_the_branch_is_read_lazily(repository):
    with cfagg.read(repository) as found:
        assert (found.attrs, found.v.attrs) == ({"title": "t"}, {"units": "K"})
        np.testing.assert_array_equal(found.v[::2, -1:0:-2].values, VALUES[::2, -1:0:-2])
    with xr.open_dataset(repository, engine="cfagg", chunks={}) as found:
        assert found.v.chunks == ((3, 3, 1), (4, 2))


def test_an_array_of_it_has_its_chunks_and_can_be_sent_to_other_processes(repository):
    found = cfagg.open_array(repository, "v")
    assert found.chunks == ((3, 3, 1), (4, 2))
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(found))[1:5], VALUES[1:5])
    assert cfagg.open_array(repository, "g/s")[...].tolist() == ["a", "Kiel"]


def test_a_commit_that_comes_later_does_not_mix_with_what_is_open(repository):
    found = cfagg.open_array(repository, "v")
    session = icechunk.Repository.open(icechunk.local_filesystem_storage(str(repository))).writable_session("main")
    zarr.open_group(session.store)["v"][...] = 0
    session.commit("third")
    np.testing.assert_array_equal(found[...], VALUES)
    assert not cfagg.open_array(repository, "v")[...].any()


def test_virtual_chunks_are_not_read(tmp_path):
    with netCDF4.Dataset(tmp_path / "a.nc", "w") as file:
        file.createDimension("y", 20)
        file.createDimension("x", 4000)
        made = file.createVariable("v", "f4", ("y", "x"), zlib=True, chunksizes=(2, 2000))
        made[...] = np.random.default_rng(0).normal(size=(20, 4000))
    cfagg.index(tmp_path / "a.nc", output=tmp_path / "r", to="icechunk")
    with pytest.raises(FragmentReadError, match="virtual chunks"):
        cfagg.open_array(tmp_path / "r", "v")[...]


@pytest.mark.parametrize(
    "job",
    [cfagg.check, cfagg.aggregate, lambda place: cfagg.accumulate(place, "v", dims=("y",))],
    ids=["check", "aggregate", "accumulate"],
)
def test_jobs_that_take_no_repository_say_that_it_is_one(repository, job):
    with pytest.raises(SourceError, match=r"r is an Icechunk repository, not a Zarr store; convert it to one with"):
        job(repository)


def test_a_link_within_a_repository_is_refused(repository, tmp_path):
    snapshot = next((repository / "snapshots").iterdir())
    snapshot.rename(tmp_path / "elsewhere")
    snapshot.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(AccessError, match="is a link within an Icechunk repository"):
        cfagg.read(repository)


def test_a_damaged_repository_is_an_error_that_says_so(repository):
    for path in [*repository.glob("repo"), *(repository / "snapshots").iterdir(), *repository.glob("refs/*/*")]:
        if path.is_file():
            path.write_bytes(b"x")
    with pytest.raises(SourceError, match="Icechunk reports"):
        cfagg.read(repository)


def test_a_repository_without_chunks_is_read(tmp_path):
    made = icechunk.Repository.create(icechunk.local_filesystem_storage(str(tmp_path / "r")))
    session = made.writable_session("main")
    zarr.create_group(session.store).create_array("v", shape=(0,), dtype="i4", dimension_names=("x",))
    session.commit("empty")
    assert cfagg.read(tmp_path / "r").v.shape == (0,)


@pytest.fixture
def _keys(monkeypatch):
    for name in ("access_key_id", "secret_access_key"):
        monkeypatch.setenv(f"AWS_{name.upper()}", name)


@pytest.mark.usefixtures("_keys")
def test_keys_can_be_those_of_the_environment_by_name():
    made = _credentials(a_place("s3://box/r"), {"credentials": "environment"})
    assert made["get_credentials"]().access_key_id == "access_key_id"


def test_credentials_that_are_no_function_are_refused():
    with pytest.raises(SourceError, match="neither a function nor 'environment'"):
        storage_of(a_place("s3://box/r", {"credentials": "profile"}))


@pytest.mark.parametrize("value", [0, "5", float("nan")])
def test_a_time_limit_that_is_none_is_refused(value):
    with pytest.raises(SourceError, match="a timeout that is not a number of seconds above 0"):
        storage_of(a_place("s3://box/r", {"timeout": value}))
