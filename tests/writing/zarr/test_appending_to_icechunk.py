"""Appending to Icechunk repositories; icechunk, zarr-python and xarray read what is there afterwards."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import dask.array as da
import numpy as np
import pytest
import xarray as xr
import zarr
from hypothesis import given, settings
from hypothesis import strategies as st

import cfagg
from cfagg.errors import (
    AccessError,
    ConformError,
    FragmentReadError,
    LossError,
    SourceError,
    TargetError,
    UnsupportedError,
)
from cfagg.writing.zarr import chunk_writing
from tests.effort import examples
from tests.writing.zarr.test_appending import series

icechunk = pytest.importorskip("icechunk")

pytestmark = pytest.mark.filterwarnings("ignore:.*rectilinear.*:FutureWarning")

#: Appends one step to a repository, and waits once its chunks are written and nothing is committed.
SLOWLY = """
import sys, time
from cfagg.writing.zarr import session_place
def slowly(self, writes):
    print("!", end="", flush=True)
    time.sleep(600)
session_place.SessionPlace.swap_all = slowly
import cfagg
from tests.writing.zarr.test_appending import series
cfagg.append(sys.argv[1], series(5, 1), "time")
"""


def opened(path: Path) -> Any:
    icechunk.set_logs_filter("error")
    return icechunk.Repository.open(icechunk.local_filesystem_storage(str(path)))


def commits(path: Path) -> int:
    """Return the number of commits of the branch, without the empty first one."""
    return len(list(opened(path).ancestry(branch="main"))) - 1


def read(path: Path, group: str | None = None) -> xr.Dataset:
    store = opened(path).readonly_session("main").store
    with zarr.config.set({"array.rectilinear_chunks": True}):
        return xr.open_zarr(store, consolidated=False, group=group, chunks=None).load()


def written(path: Path, dataset: xr.Dataset, chunk: int = 4, group: str | None = None, **codecs: Any) -> Path:
    """Return a repository that xarray has written."""
    icechunk.set_logs_filter("error")
    repository = icechunk.Repository.open_or_create(icechunk.local_filesystem_storage(str(path)))
    session = repository.writable_session("main")
    encoding = {"tas": {"chunks": (chunk, 2), **codecs}, "time": {"units": "days since 2000-01-01", "dtype": "int64"}}
    dataset.to_zarr(session.store, encoding=encoding, consolidated=False, mode="a", group=group)  # type: ignore[call-overload]
    session.commit("written")
    return path


@settings(max_examples=examples(20), deadline=None)
@given(st.integers(0, 9), st.integers(1, 5), st.lists(st.integers(0, 7), min_size=1, max_size=4), st.booleans())
def test_increments_of_any_length_are_what_xarray_reads(
    tmp_path_factory: pytest.TempPathFactory, first: int, chunk: int, counts: list[int], is_sharded: bool
) -> None:
    codecs = {"shards": (chunk * 2, 4)} if is_sharded else {}
    path = written(tmp_path_factory.mktemp("a") / "a.icechunk", series(0, first), chunk, **codecs)
    stop = first
    for n in counts:
        report = cfagg.append(path, series(stop, n), "time")
        assert (report.start, report.stop) == (stop, stop + n)
        stop += n
    xr.testing.assert_identical(read(path), series(0, stop))
    assert commits(path) == 1 + sum(n > 0 for n in counts)


def test_each_increment_is_one_edge_of_a_rectilinear_grid(tmp_path: Path) -> None:
    parts = [series(0, 2)["tas"].values, series(2, 5)["tas"].values]
    path = tmp_path / "a.icechunk"
    session = icechunk.Repository.create(icechunk.local_filesystem_storage(str(path))).writable_session("main")
    with zarr.config.set({"array.rectilinear_chunks": True}):
        group = zarr.create_group(session.store)
        made = group.create_array("tas", shape=(7, 3), chunks=[[2, 5], [3]], dtype="f4", dimension_names=("time", "x"))
        made[...] = np.concatenate(parts)
        session.commit("written")
    for start, n in ((7, 3), (10, 3), (13, 1)):
        cfagg.append(path, {"tas": series(start, n)["tas"].values}, "time")
    assert cfagg.open_array(path, "tas").chunks == ((2, 5, 3, 3, 1), (3,))
    np.testing.assert_array_equal(read(path).tas.values, series(0, 14).tas.values)


def test_a_session_that_is_open_reads_what_there_was(tmp_path: Path) -> None:
    path = written(tmp_path / "a.icechunk", series(0, 5))
    before = xr.open_zarr(opened(path).readonly_session("main").store, consolidated=False, chunks=None)
    ours = cfagg.read(path)
    cfagg.append(path, series(5, 3), "time")
    xr.testing.assert_identical(before.load(), series(0, 5))
    xr.testing.assert_equal(ours.load(), series(0, 5))
    xr.testing.assert_identical(read(path), series(0, 8))


def test_a_group_grows_and_others_stay(tmp_path: Path) -> None:
    path = written(tmp_path / "a.icechunk", series(0, 5), group="a")
    written(path, series(0, 2), group="b")
    cfagg.append(path, series(5, 3), "time", group="a")
    xr.testing.assert_identical(read(path, "a"), series(0, 8))
    xr.testing.assert_identical(read(path, "b"), series(0, 2))


def test_a_repository_that_is_one_array_grows(tmp_path: Path) -> None:
    path = tmp_path / "a.icechunk"
    session = icechunk.Repository.create(icechunk.local_filesystem_storage(str(path))).writable_session("main")
    zarr.create_array(session.store, data=np.arange(3), chunks=(2,), dimension_names=("time",))
    session.commit("written")
    cfagg.append(path, {"": np.arange(3, 9)}, "time")
    np.testing.assert_array_equal(zarr.open_array(opened(path).readonly_session("main").store), np.arange(9))


def test_arrays_that_would_be_left_behind_are_named(tmp_path: Path) -> None:
    path = written(tmp_path / "a.icechunk", series(0, 5))
    written(path, series(0, 5), group="b")
    with pytest.raises(UnsupportedError, match="'b/tas', 'b/time' in groups below"):
        cfagg.append(path, series(5, 1), "time")
    assert commits(path) == 2


def test_sums_of_an_array_are_not_left_behind(tmp_path: Path) -> None:
    path = written(tmp_path / "a.icechunk", series(0, 5))
    session = opened(path).writable_session("main")
    sums = zarr.open_group(session.store).create_group("tas_sums", attributes={"_ACCUMULATION_GROUP": {}})
    sums.create_array("x_time", shape=(5,), dtype="f8", dimension_names=("time",))
    session.commit("sums")
    with pytest.raises(UnsupportedError, match="'tas_sums/x_time' in groups below"):
        cfagg.append(path, series(5, 1), "time")


def test_no_consolidated_metadata_are_written(tmp_path: Path) -> None:
    path = written(tmp_path / "a.icechunk", series(0, 5))
    report = cfagg.append(path, series(5, 1), "time")
    assert report.notes == ()
    assert zarr.open_group(opened(path).readonly_session("main").store, mode="r").metadata.consolidated_metadata is None


def test_texts_and_variables_that_do_not_grow_are_compared(tmp_path: Path) -> None:
    whole = series(0, 5).assign(name=("time", list("abcde")), place=("x", ["u", "v", "Ålesund"]))
    path = written(tmp_path / "a.icechunk", whole)
    more = series(5, 1).assign(name=("time", ["f"]), place=("x", ["u", "v", "Ålesund"]))
    cfagg.append(path, more, "time")
    assert read(path).name.values.tolist() == list("abcdef")
    with pytest.raises(ConformError, match="'place' does not grow, but has other values"):
        cfagg.append(path, more.assign(place=("x", ["u", "v", "w"])).assign(time=more.time + 10**12), "time")
    with pytest.raises(LossError):
        cfagg.append(path, series(6, 1).assign(name=("time", ["g"]), more=("time", [1])), "time")
    assert commits(path) == 2


def test_the_order_of_the_coordinate_is_that_of_the_branch(tmp_path: Path) -> None:
    path = written(tmp_path / "a.icechunk", series(0, 5))
    with pytest.raises(ConformError, match="they overlap the existing ones"):
        cfagg.append(path, series(4, 2), "time")
    cfagg.append(path, series(4, 2), "time", any_order=True)
    xr.testing.assert_identical(read(path), xr.concat([series(0, 5), series(4, 2)], "time"))


def test_a_call_that_fails_leaves_the_branch_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = written(tmp_path / "a.icechunk", series(0, 5))
    whole = chunk_writing.put_objects
    done = []

    def fails(*args: Any) -> Any:
        done.append(1)
        if len(done) > 1:
            raise OSError(28, "No space left on device")
        return whole(*args)

    monkeypatch.setattr("cfagg.writing.zarr.appending.put_objects", fails)
    with pytest.raises(TargetError, match="No space left on device"):
        cfagg.append(path, series(5, 3), "time")
    assert commits(path) == 1
    xr.testing.assert_identical(read(path), series(0, 5))
    monkeypatch.undo()
    cfagg.append(path, series(5, 3), "time")
    xr.testing.assert_identical(read(path), series(0, 8))


def test_of_two_commits_the_second_is_refused(tmp_path: Path) -> None:
    path = written(tmp_path / "a.icechunk", series(0, 5))

    def meanwhile(block: Any) -> Any:
        session = opened(path).writable_session("main")
        zarr.open_group(session.store).attrs["by"] = "another"
        session.commit("meanwhile")
        return block

    slow = da.from_array(series(5, 1).tas.values).map_blocks(meanwhile, meta=np.empty((0, 0), "f4"))
    more = series(5, 1).assign(tas=(("time", "x"), slow, {"units": "K"}))
    with pytest.raises(TargetError, match="another process has made a commit meanwhile, so nothing was appended"):
        cfagg.append(path, more, "time")
    xr.testing.assert_equal(read(path), series(0, 5))
    assert read(path).attrs == {"by": "another"}


def test_a_second_writer_is_refused_and_a_killed_one_leaves_nothing(tmp_path: Path) -> None:
    path = written(tmp_path / "a.icechunk", series(0, 5))
    command = [sys.executable, "-c", SLOWLY, str(path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, cwd=Path(__file__).parents[3]) as process:
        assert process.stdout is not None
        assert process.stdout.read(1) == b"!"
        with pytest.raises(TargetError, match="another process is appending there"):
            cfagg.append(path, series(5, 1), "time")
        os.kill(process.pid, signal.SIGKILL)
    xr.testing.assert_identical(read(path), series(0, 5))
    cfagg.append(path, series(5, 1), "time")
    xr.testing.assert_identical(read(path), series(0, 6))
    assert not (path / ".cfagg-append").exists()


def test_a_last_chunk_in_another_file_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "chunk").write_bytes(np.arange(3, dtype="f4").tobytes())
    config = icechunk.RepositoryConfig.default()
    at = f"file://{tmp_path}/"
    config.set_virtual_chunk_container(
        icechunk.VirtualChunkContainer(at, icechunk.local_filesystem_store(str(tmp_path)))
    )
    repository = icechunk.Repository.create(icechunk.local_filesystem_storage(str(tmp_path / "a.icechunk")), config)
    session = repository.writable_session("main")
    zarr.create_array(
        session.store, name="v", shape=(2,), chunks=(3,), dtype="f4", compressors=None, dimension_names=("time",)
    )
    session.store.set_virtual_ref("v/c/0", f"{at}chunk", offset=0, length=12)
    session.commit("virtual")
    with pytest.raises(FragmentReadError, match="virtual chunks, which are in other files, are not read"):
        cfagg.append(tmp_path / "a.icechunk", {"v": np.ones(2, "f4")}, "time")
    assert commits(tmp_path / "a.icechunk") == 1


def test_a_repository_with_links_is_refused(tmp_path: Path) -> None:
    path = written(tmp_path / "a.icechunk", series(0, 5))
    (path / "chunks").rename(tmp_path / "elsewhere") if (path / "chunks").exists() else (tmp_path / "elsewhere").mkdir()
    (path / "chunks").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(AccessError, match="is a link within an Icechunk repository"):
        cfagg.append(path, series(5, 1), "time")


def test_an_empty_repository_has_no_group_to_append_to(tmp_path: Path) -> None:
    icechunk.Repository.create(icechunk.local_filesystem_storage(str(tmp_path / "a.icechunk")))
    with pytest.raises(SourceError, match="has no Zarr group"):
        cfagg.append(tmp_path / "a.icechunk", series(0, 1), "time")
