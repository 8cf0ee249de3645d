"""Rechunking in little memory: by way of other chunks where the source would be decoded many times."""

import math
import os
import subprocess
import sys

import netCDF4
import numpy as np
import pytest
import zarr
from hypothesis import given, settings
from hypothesis import strategies as st

from cfagg.arrays import reader
from cfagg.arrays.opening import open_any
from cfagg.conversion import convert, schedule
from cfagg.conversion.options import Options
from cfagg.conversion.plan import build_plan
from cfagg.conversion.scratch import FOLDER
from cfagg.errors import LimitError, TargetError
from cfagg.storage.access import Access
from tests.conversion import killing
from tests.durability.tracing import forked
from tests.effort import examples

icechunk = pytest.importorskip("icechunk")

N = 300

#: Converts rows to columns, and ends without a word while chunks on the way are written.
KILLED = f"""
import os, sys
from cfagg.conversion import convert, schedule
schedule._LEAST = 1
def stop(done, total):
    if done > total // 4:
        os._exit(9)
convert(sys.argv[1], sys.argv[2], overwrite=sys.argv[3] == "True", chunks={{"x": {N}, "y": 1}}, memory=60_000,
        workers=1, progress=stop)
"""


@pytest.fixture(scope="module")
def rows(tmp_path_factory):
    """A store of rows, and its values."""
    folder = tmp_path_factory.mktemp("rows")
    return _store(folder / "rows.zarr", (N, N), (1, N)), np.arange(N * N, dtype="f4").reshape(N, N)


def _store(path, shape, chunks):
    group = zarr.open_group(path, mode="w")
    array = group.create_array(
        "v", shape=shape, chunks=chunks, dtype="f4", dimension_names=["x", "y", "z"][: len(shape)]
    )
    array[...] = np.arange(math.prod(shape), dtype="f4").reshape(shape)
    return path


@pytest.fixture
def small_chunks(monkeypatch):
    """Chunks on the way may be small, as those of tests are."""
    monkeypatch.setattr(schedule, "_LEAST", 1)


def test_rows_become_columns_by_way_of_chunks_between(rows, tmp_path, small_chunks):
    path, values = rows
    seen = []
    report = convert(
        path,
        tmp_path / "out.zarr",
        chunks={"x": N, "y": 1},
        memory=60_000,
        workers=1,
        verify=True,
        progress=lambda done, total: seen.append((done, total)),
    )
    array = zarr.open_group(tmp_path / "out.zarr", mode="r")["v"]
    assert array.chunks == (N, 1)
    np.testing.assert_array_equal(array[:], values)
    # What was on the way is gone, and counts as work but not as what is stored.
    assert sorted(p.name for p in (tmp_path / "out.zarr").iterdir()) == ["v", "zarr.json"]
    assert [p.name for p in tmp_path.iterdir()] == ["out.zarr"]
    assert seen[-1] == (2 * values.nbytes, 2 * values.nbytes)
    assert (report.bytes, report.chunks) == (values.nbytes, N)
    assert report.stored == sum(p.stat().st_size for p in (tmp_path / "out.zarr" / "v" / "c").rglob("*") if p.is_file())


def test_chunks_on_the_way_are_written_though_they_hold_the_fill_value_alone(tmp_path, small_chunks):
    made = zarr.create_group(tmp_path / "a.zarr").create_array(
        "v", shape=(N, N), chunks=(1, N), dtype="f4", fill_value=0, dimension_names=("x", "y"),
        config={"write_empty_chunks": True},
    )  # fmt: skip
    made[...] = 0
    made[7, 7] = 1
    options = {"chunks": {"x": N, "y": 1}, "memory": 60_000, "workers": 1}
    assert convert(tmp_path / "a.zarr", tmp_path / "b.zarr", dry_run=True, **options).bytes_between
    convert(tmp_path / "a.zarr", tmp_path / "b.zarr", **options)
    np.testing.assert_array_equal(zarr.open_group(tmp_path / "b.zarr", mode="r")["v"][...], made[...])


def test_the_source_is_read_once_however_small_the_memory(rows, tmp_path, small_chunks, monkeypatch):
    path, _ = rows
    opened = []
    read = reader.Reader.read

    def noted(self, selection, out=None, **options):
        if type(self).__name__ == "ZarrReader":
            opened.append(math.prod(s.stop - s.start for s in selection))
        return read(self, selection, out, **options)

    monkeypatch.setattr(reader.Reader, "read", noted)
    convert(path, tmp_path / "out.zarr", chunks={"x": N, "y": 1}, memory=60_000, workers=1)
    assert sum(opened) == N * N


def test_slabs_whose_chunks_are_read_into_their_places_take_most_of_the_memory(tmp_path):
    array = zarr.open_group(tmp_path / "a.zarr", mode="w").create_array(
        "v", shape=(8192, 8192), chunks=(1, 8192), dtype="f4", dimension_names=("x", "y")
    )
    options = Options.build(
        variables=None, zarr_format=3, chunks={"x": -1, "y": 16}, packing="keep", codec="zstd", level=None,
        missing="error",
    )  # fmt: skip
    path, memory = str(tmp_path / "a.zarr"), 32 << 20
    made = schedule.schedule(build_plan(open_any(path), Access(path), options, 1).arrays, memory, 2, None, 3)
    assert (made.threads, made.read, made.scratch) == (2, array.nbytes, array.nbytes)
    assert made.memory <= memory
    assert all(slabs.largest * 4 > 0.6 * memory / 2 for slabs in made.slabs)
    # What is on the way is read once too.
    assert made.slabs[1].extent(0)[1].stop % made.arrays[0].chunk_shape[1] == 0


def _values(path):
    """Return what the library of its format reads of `v`."""
    if path.suffix == ".nc":
        with netCDF4.Dataset(path) as file:
            return file["v"][:]
    store = icechunk.Repository.open(icechunk.local_filesystem_storage(str(path))).readonly_session("main").store
    return zarr.open_group(store, mode="r")["v"][:]


@pytest.mark.few(1)
@pytest.mark.parametrize("name", ["out.nc", "out.icechunk"])
@pytest.mark.parametrize("exists", [False, True])
def test_other_targets_read_the_source_once_too(rows, tmp_path, small_chunks, monkeypatch, name, exists):
    path, values = rows
    target, options = tmp_path / name, {"chunks": {"x": N, "y": 1}, "memory": 60_000, "workers": 1}
    if exists:
        convert(path, target)
    planned = convert(path, tmp_path / f"other-{name}", dry_run=True, **options)
    assert (planned.bytes_in, planned.bytes_between) == (values.nbytes, values.nbytes)
    opened, seen = [], []
    read = reader.Reader.read

    def noted(self, selection, out=None, **options):
        if type(self).__name__ == "ZarrReader":
            opened.append(math.prod(s.stop - s.start for s in selection))
        return read(self, selection, out, **options)

    monkeypatch.setattr(reader.Reader, "read", noted)
    report = convert(path, target, overwrite=exists, verify=True, progress=lambda *a: seen.append(a), **options)
    monkeypatch.undo()
    assert sum(opened) == N * N
    np.testing.assert_array_equal(_values(target), values)
    assert [p.name for p in tmp_path.iterdir()] == [name]
    assert (report.bytes, report.chunks) == (values.nbytes, N)
    assert (seen[0], seen[-1]) == ((0, 2 * values.nbytes), (2 * values.nbytes, 2 * values.nbytes))
    assert seen == sorted(seen)


@pytest.mark.parametrize("name", ["out.nc", "out.icechunk"])
def test_what_was_on_the_way_to_other_targets_is_removed_after_an_error(rows, tmp_path, small_chunks, name):
    path, _ = rows

    def lose(done, total):
        if done == total // 2:
            for chunk in tmp_path.rglob(f"{FOLDER}/*/c/1/1"):
                chunk.unlink()

    with pytest.raises(TargetError, match=r"the intermediate chunk \(1, 1\) is not there"):
        convert(path, tmp_path / name, chunks={"x": N, "y": 1}, memory=60_000, workers=1, progress=lose)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.few(1)
@pytest.mark.parametrize("name", ["out.nc", "out.icechunk"])
@pytest.mark.parametrize("exists", [False, True])
def test_what_a_killed_run_left_on_the_way_to_other_targets_is_removed_by_the_next(
    rows, tmp_path, small_chunks, name, exists
):
    path, values = rows
    if exists:
        convert(path, tmp_path / name)
    options = {"overwrite": exists, "chunks": {"x": N, "y": 1}, "memory": 60_000, "workers": 1}
    process = subprocess.run(
        [sys.executable, "-c", KILLED, str(path), str(tmp_path / name), str(exists)], capture_output=True, check=False
    )
    assert process.returncode == 9, process.stderr
    assert len(list(tmp_path.glob(f".{name}.*/file.scratch"))) == 1
    assert (tmp_path / name).exists() is exists
    convert(path, tmp_path / name, **options)
    assert [p.name for p in tmp_path.iterdir()] == [name]
    np.testing.assert_array_equal(_values(tmp_path / name), values)


def test_a_variable_in_one_piece_is_not_planned_to_be_read_again(tmp_path):
    with netCDF4.Dataset(tmp_path / "a.nc", "w") as file:
        file.createDimension("x", N)
        file.createDimension("y", N)
        file.createVariable("v", "f4", ("x", "y"), contiguous=True)[:] = 1
    planned = convert(tmp_path / "a.nc", tmp_path / "b.nc", chunks={"x": 1}, memory=60_000, dry_run=True)
    assert planned.bytes_in == N * N * 4


@settings(max_examples=examples(80), deadline=None)
@given(data=st.data())
def test_any_chunks_become_any_others_in_little_memory(tmp_path_factory, data):
    folder = tmp_path_factory.mktemp("any")
    shape = data.draw(st.lists(st.integers(1, 24), min_size=1, max_size=3))
    chunks = [data.draw(st.integers(1, n)) for n in shape]
    wanted = {d: data.draw(st.integers(1, n)) for d, n in zip("xyz", shape, strict=False)}
    path = _store(folder / "a.zarr", tuple(shape), tuple(chunks))
    least = math.prod(wanted.values()) * 4 * 3
    form = data.draw(st.sampled_from([2, 3]))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(schedule, "_LEAST", 1)
        patch.setattr(schedule, "_MOST_READS", 1.0)
        memory = least + data.draw(st.integers(0, 2000))
        convert(path, folder / "b.zarr", chunks=wanted, memory=memory, workers=2, zarr_format=form)
    found = zarr.open_group(folder / "b.zarr", mode="r")["v"]
    assert found.chunks == tuple(wanted.values())
    np.testing.assert_array_equal(found[...], np.arange(math.prod(shape), dtype="f4").reshape(shape))


def _work(path, target, **options):
    schedule._LEAST = 1
    convert(path, target, chunks={"x": N, "y": 1}, memory=60_000, workers=1, **options)


@pytest.mark.few(1)
@pytest.mark.parametrize("share", [0.3, 0.8])
def test_a_run_that_is_killed_on_the_way_is_finished_with_other_memory(rows, tmp_path, small_chunks, share):
    path, values = rows

    def stop(done, total):
        if done > share * total:
            os._exit(9)

    process = forked(lambda: _work(path, tmp_path / "out.zarr", progress=stop))
    assert os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]) == 9
    assert not killing.opens(tmp_path / ".out.zarr.cfagg-partial" / "store")
    report = convert(path, tmp_path / "out.zarr", chunks={"x": N, "y": 1}, memory="1MiB", workers=2, resume=True)
    assert report.resumed > 0
    np.testing.assert_array_equal(zarr.open_group(tmp_path / "out.zarr", mode="r")["v"][:], values)
    assert [p.name for p in tmp_path.iterdir()] == ["out.zarr"]


@pytest.mark.few(1)
@pytest.mark.parametrize(("size", "said"), [(None, "is not there"), (100, "has 100 bytes")])
def test_a_chunk_that_is_lost_or_cut_off_on_the_way_is_an_error(rows, tmp_path, small_chunks, size, said):
    path, values = rows

    def lose(done, total):
        if done == total // 2:
            for chunk in (tmp_path / ".out.zarr.cfagg-partial" / "store" / FOLDER).rglob("c/1/1"):
                chunk.unlink() if size is None else os.truncate(chunk, size)

    with pytest.raises(TargetError, match=rf"the intermediate chunk \(1, 1\) {said}"):
        convert(path, tmp_path / "out.zarr", chunks={"x": N, "y": 1}, memory=60_000, workers=1, progress=lose)
    assert not (tmp_path / "out.zarr").exists()
    convert(path, tmp_path / "out.zarr", chunks={"x": N, "y": 1}, memory=60_000, workers=1, resume=True)
    np.testing.assert_array_equal(zarr.open_group(tmp_path / "out.zarr", mode="r")["v"][:], values)


def test_too_many_chunks_on_the_way_are_refused_before_anything_is_written(rows, tmp_path, small_chunks, monkeypatch):
    path, _ = rows
    monkeypatch.setattr(schedule, "MAX_CHUNKS", 10)
    with pytest.raises(LimitError, match=r"on the way to its chunks there would be .* give more memory"):
        convert(path, tmp_path / "out.zarr", chunks={"x": N, "y": 1}, memory=60_000, workers=1)
    assert not list(tmp_path.iterdir())


def test_chunks_on_the_way_are_never_larger_than_memory(tmp_path, small_chunks):
    path = _store(tmp_path / "a.zarr", (1, 100), (1, 100))
    # A chunk of the target fits, and none that is ten times as long.
    convert(path, tmp_path / "b.zarr", chunks={"y": 1}, memory=12, workers=2)
    np.testing.assert_array_equal(zarr.open_group(tmp_path / "b.zarr", mode="r")["v"][0], np.arange(100, dtype="f4"))


def test_where_memory_suffices_nothing_goes_by_way_of_other_chunks(rows, tmp_path):
    path, values = rows
    seen = []
    convert(path, tmp_path / "out.zarr", chunks={"x": N, "y": 1}, progress=lambda *a: seen.append(a))
    assert seen[-1] == (values.nbytes, values.nbytes)
