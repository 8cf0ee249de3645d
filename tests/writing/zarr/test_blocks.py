"""Arrays of Dask in new stores, with a chunk for each block, whatever its length turns out to be."""

from __future__ import annotations

import contextlib
import math
import os
import pickle
import subprocess
import sys
import threading
import time
from pathlib import Path

import dask
import dask.array as da
import numpy as np
import pytest
import xarray as xr
import zarr
from distributed import Client, LocalCluster
from hypothesis import given, settings
from hypothesis import strategies as st

import cfagg
from cfagg.errors import ConformError, LimitError, OptionError, TargetExistsError, UnsupportedError
from cfagg.writing.zarr.blocks import Blocks, has_unknown, move_all, write_blocks
from tests.effort import examples
from tests.killing import PATIENCE

PLAIN = {"array.rectilinear_chunks": True}

#: Half of a pair of surrogates, which is no character.
HALF = da.from_array(np.array(["\udc80"], object), chunks=1)


def found(store: Path | str, name: str = "x"):
    with zarr.config.set(PLAIN):
        return zarr.open_group(str(store), mode="r")[name][...]


@given(
    values=st.lists(st.integers(0, 9), min_size=1, max_size=40),
    chunk=st.integers(1, 9),
    least=st.integers(0, 10),
)
@settings(max_examples=examples(100), deadline=None)
def test_a_filter_leaves_what_numpy_selects_with_an_edge_for_each_block(values, chunk, least, tmp_path_factory):
    store = tmp_path_factory.mktemp("blocks") / "out.zarr"
    array = np.array(values, "i2")
    lazy = da.from_array(array, chunks=chunk)
    kept = lazy[lazy >= least]
    write_blocks({"x": Blocks(kept, ("n",))}, store)
    np.testing.assert_array_equal(found(store), array[array >= least])
    counts = [int((array[i : i + chunk] >= least).sum()) for i in range(0, len(array), chunk)]
    assert cfagg.open_array(store, "x").chunks == (tuple(n for n in counts if n) or (0,),)
    assert sorted(p.name for p in (store / "x").iterdir()) == (["c", "zarr.json"] if sum(counts) else ["zarr.json"])


def test_rows_of_unknown_number_keep_the_chunks_of_other_dimensions(tmp_path):
    array = np.arange(60.0).reshape(12, 5)
    lazy = da.from_array(array, chunks=(4, 3))
    write_blocks({"x": Blocks(lazy[lazy[:, 0] % 2 == 0][:, ::2], ("n", "m"))}, tmp_path / "out.zarr")
    np.testing.assert_array_equal(found(tmp_path / "out.zarr"), array[array[:, 0] % 2 == 0][:, ::2])
    assert cfagg.open_array(tmp_path / "out.zarr", "x").chunks == ((2, 2, 2), (2, 1))


@given(
    chunks=st.tuples(*[st.lists(st.integers(0, 4), min_size=1, max_size=4).map(tuple)] * 2),
    kind=st.sampled_from(["f4", "i8", ">i2", "?", "U3"]),
)
@settings(max_examples=examples(60), deadline=None)
def test_blocks_of_known_lengths_stay_chunks(chunks, kind, tmp_path_factory):
    store = tmp_path_factory.mktemp("blocks") / "out.zarr"
    shape = tuple(map(sum, chunks))
    array = np.arange(math.prod(shape)).reshape(shape).astype(kind)
    write_blocks({"x": Blocks(da.from_array(array, chunks=chunks), ("n", "m"), {"units": "K"})}, store)
    np.testing.assert_array_equal(found(store), array)
    if all(shape) and kind != "U3":  # chunks of text are not decoded one by one
        assert cfagg.open_array(store, "x").chunks == tuple(tuple(n for n in sizes if n) for sizes in chunks)
    with zarr.config.set(PLAIN):
        assert xr.open_zarr(store).x.attrs == {"units": "K"}


def test_equal_blocks_make_a_regular_grid_that_every_reader_knows(tmp_path):
    report = write_blocks({"x": Blocks(da.arange(10, chunks=4), ("n",))}, tmp_path / "out.zarr")
    assert zarr.open_group(tmp_path / "out.zarr", mode="r")["x"].chunks == (4,)
    assert (report.chunks, report.notes) == (3, ())


def test_unequal_blocks_are_noted_with_who_reads_them(tmp_path):
    report = write_blocks({"x": Blocks(da.ones(5, chunks=((1, 4),)), ("n",))}, tmp_path / "out.zarr")
    assert "variable 'x' has chunks of unequal sizes" in report.notes[0]


def test_an_array_without_dimensions_is_one_chunk(tmp_path):
    write_blocks({"x": Blocks(da.from_array(np.array(3.5)))}, tmp_path / "out.zarr")
    assert found(tmp_path / "out.zarr") == 3.5


def test_columns_of_one_table_are_computed_and_written_together(tmp_path):
    read = []

    def once(block):
        read.append(len(block))
        return block

    table = da.from_array(np.arange(24.0).reshape(12, 2), chunks=(5, 2)).map_blocks(
        once, dtype="f8", meta=np.empty((0, 0))
    )
    kept = table[:, 0] > 6
    with dask.config.set(scheduler="sync"):
        write_blocks({n: Blocks(table[:, k][kept], ("row",)) for k, n in enumerate("ab")}, tmp_path / "out.zarr")
    assert sum(read) == 12
    np.testing.assert_array_equal(found(tmp_path / "out.zarr", "b"), np.arange(9.0, 24, 2))


def test_dimensions_of_one_name_must_end_at_one_length(tmp_path):
    x = da.arange(10, chunks=3)
    with pytest.raises(ConformError, match=r"dimension 'n' has length 4 in variable 'a' and 3 in 'b'"):
        write_blocks({"a": Blocks(x[x < 4], ("n",)), "b": Blocks(x[x < 3], ("n",))}, tmp_path / "out.zarr")
    assert list(tmp_path.iterdir()) == []


def wrong(chunks):
    return da.map_blocks(
        lambda b, block_id=None: b[: 1 + sum(block_id)], da.ones((4, 4), chunks=2), chunks=chunks, dtype="f8"
    )


def test_blocks_that_do_not_fit_beside_each_other_are_refused(tmp_path):
    with pytest.raises(ConformError, match=r"'x': blocks 0 along dimension 0 have from 1 to 2 elements"):
        write_blocks({"x": Blocks(wrong(((math.nan,) * 2, (2, 2))))}, tmp_path / "out.zarr")
    assert list(tmp_path.iterdir()) == []


def test_a_block_of_another_length_than_dask_says_is_refused(tmp_path):
    cut = da.map_blocks(lambda b: b[1:], da.ones(6, chunks=((2, 1, 3),)), dtype="f8", meta=np.empty(0))
    with pytest.raises(ConformError, match=r"block 0 along dimension 'n' has 1 elements, but Dask says 2"):
        write_blocks({"x": Blocks(cut, ("n",))}, tmp_path / "out.zarr")


@pytest.mark.parametrize(
    ("array", "error", "text"),
    [
        (da.ones(4).map_blocks(lambda b: b.astype("i4"), dtype="f8"), ConformError, "type int32, but Dask says f"),
        (da.from_array(np.array(["a", None], object), chunks=2), ConformError, "of type NoneType; only text is"),
        (da.ma.masked_greater(da.ones(3), 0), ConformError, "is masked"),
        (da.from_array(np.zeros(2, "M8[s]")), UnsupportedError, "give it units such as"),
        (da.from_array(np.zeros(2, "c8")), UnsupportedError, "cannot be described in Zarr v3"),
    ],
)  # fmt: skip
def test_what_no_chunk_can_be_is_refused_and_nothing_is_left(array, error, text, tmp_path):
    with pytest.raises(error, match=text):
        write_blocks({"x": Blocks(array)}, tmp_path / "out.zarr")
    assert list(tmp_path.iterdir()) == []


def test_a_block_larger_than_a_chunk_may_be_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("cfagg.conventions.limits.MAX_CHUNK", 100)
    with pytest.raises(LimitError, match=r"'x', block \(0,\) has 104 bytes"):
        write_blocks({"x": Blocks(da.ones(13))}, tmp_path / "out.zarr")


@pytest.mark.parametrize("name", ["", "a/b", ".x", "__x", "zarr.json", "a\\b", "a\0b", "a\udc80"])
def test_a_name_that_zarr_does_not_have_is_refused(name, tmp_path):
    with pytest.raises(OptionError, match="cannot be the name of an array"):
        write_blocks({name: Blocks(da.ones(3))}, tmp_path / "out.zarr")


@pytest.mark.parametrize(
    ("given", "error", "text"),
    [
        ({3: da.ones(2), "3": da.zeros(2)}, OptionError, "two have the name '3'"),
        ({"x": (3, da.ones(2))}, OptionError, "'x': dimensions: found an object of type int"),
        ({"x": ((1,), da.ones(2))}, OptionError, "'x': dimensions: found an object of type int"),
        ({"x": ("n", da.ones((2, 2)))}, OptionError, "has 2 dimensions, but their names are"),
        ({"x": (("n", "n"), da.ones((2, 2)))}, OptionError, "has 2 dimensions, but their names are"),
        (
            {"x": ("n", da.from_array(np.array(["\udc80"], object), chunks=1))},
            ConformError,
            r"'\\udc80' is not valid Unicode text",
        ),
    ],
)
def test_a_mapping_that_says_no_arrays_is_refused(given, error, text, tmp_path):
    with pytest.raises(error, match=text):
        cfagg.write(given, tmp_path / "out.zarr")
    assert list(tmp_path.iterdir()) == []


def test_attributes_that_json_cannot_say_are_found_before_anything_is_computed(tmp_path):
    x = da.ones(3).map_blocks(lambda b: 1 / 0, dtype="f8", meta=np.empty(0))
    with pytest.raises(UnsupportedError, match="variable 'x' cannot be described"):
        cfagg.write({"x": ("n", x, {"made by": object()})}, tmp_path / "out.zarr")
    with pytest.raises(UnsupportedError, match="variable 'x' cannot be described"):
        cfagg.write(xr.Dataset({"x": ("n", x, {"made by": object()})}), tmp_path / "out.zarr")
    with pytest.raises(UnsupportedError, match="attributes of the dataset"):
        cfagg.write(xr.Dataset({"x": ("n", x)}, attrs={"made by": object()}), tmp_path / "out.zarr")


@pytest.mark.parametrize("function", [np.sum, lambda b: b[:, None]])
def test_a_block_with_other_dimensions_than_dask_says_is_refused(function, tmp_path):
    x = da.arange(10, chunks=4)
    made = x[x > 3].map_blocks(function, dtype="i8", meta=np.empty(0, int))
    with pytest.raises(ConformError, match="but Dask says 1; correct the function"):
        cfagg.write({"x": ("n", made)}, tmp_path / "out.zarr")


def test_a_store_that_is_there_is_replaced_only_if_asked(tmp_path):
    store = tmp_path / "out.zarr"
    write_blocks({"x": Blocks(da.ones(3))}, store)
    with pytest.raises(TargetExistsError):
        write_blocks({"x": Blocks(da.zeros(3))}, store)
    write_blocks({"x": Blocks(da.zeros(3))}, store, overwrite=True)
    assert found(store).tolist() == [0, 0, 0]


def test_an_error_of_the_users_function_is_theirs_and_leaves_nothing(tmp_path):
    def fail(block):
        if block[0]:
            raise KeyError("mine")
        return block

    with pytest.raises(KeyError, match="mine"):
        write_blocks(
            {"x": Blocks(da.arange(6, chunks=2).map_blocks(fail, meta=np.empty(0, int)))}, tmp_path / "out.zarr"
        )
    assert list(tmp_path.iterdir()) == []


def test_a_task_that_is_done_again_with_another_result_does_not_replace_the_first(tmp_path):
    """A scheduler that has lost a worker does its tasks again, and that worker may go on writing."""
    from cfagg.formats.zarr.written_codecs import Codec
    from cfagg.writing.zarr.blocks import _Plan
    from cfagg.writing.zarr.new_store import new_store

    done = []

    def other(block):
        done.append(0)
        return np.full(len(done), 7)

    x = da.arange(2, chunks=1).map_blocks(other, chunks=((math.nan,) * 2,), meta=np.empty(0, int))
    plan = _Plan.of("x", Blocks(x), Codec("none"))
    with new_store(tmp_path / "out.zarr") as place, dask.config.set(scheduler="sync"):
        first = plan.tasks(place.keys).compute()
        again = plan.tasks(place.keys).compute()
        assert (sorted(first[:, 0]), sorted(again[:, 0])) == ([1, 2], [3, 4])
        plan.settle(place.keys, first, plan.lengths(first))
        sizes = [(tmp_path / f".out.zarr.cfagg-partial/store/x/c/{k}").stat().st_size for k in range(2)]
        assert sizes == (8 * first[:, 0]).tolist()


def test_a_task_that_is_done_again_with_other_values_does_not_replace_the_first(tmp_path):
    """The values of two variables fit together only if they are of one computation."""
    from cfagg.formats.zarr.written_codecs import Codec
    from cfagg.writing.zarr.blocks import _Plan
    from cfagg.writing.zarr.new_store import new_store

    done = []

    def other(block):
        done.append(0)
        return np.full(3, len(done), "u1")

    x = da.zeros(2, chunks=1, dtype="u1").map_blocks(other, chunks=((math.nan,) * 2,), meta=np.empty(0, "u1"))
    plan = _Plan.of("x", Blocks(x), Codec("none"))
    with new_store(tmp_path / "out.zarr") as place, dask.config.set(scheduler="sync"):
        first = plan.tasks(place.keys).compute()
        plan.tasks(place.keys).compute()
        plan.settle(place.keys, first, plan.lengths(first))
        stored = [(tmp_path / f".out.zarr.cfagg-partial/store/x/c/{k}").read_bytes() for k in range(2)]
    assert sorted(stored) == [b"\1\1\1", b"\2\2\2"]


def test_a_store_is_written_again_though_a_cache_has_what_its_tasks_returned(tmp_path, monkeypatch):
    cache = {}
    compute = dask.compute
    monkeypatch.setattr(dask, "compute", lambda *arrays: tuple(cache.setdefault(a.name, compute(a)[0]) for a in arrays))
    x = da.arange(9, chunks=2)
    for _ in range(2):
        cfagg.write({"x": ("n", x[x > 2])}, tmp_path / "out.zarr", overwrite=True)
        assert found(tmp_path / "out.zarr").tolist() == [3, 4, 5, 6, 7, 8]


def test_a_fill_value_among_the_attributes_is_missing_to_xarray(tmp_path):
    x = da.arange(9, chunks=2)
    cfagg.write({"x": ("n", x[x > 2], {"_FillValue": 4})}, tmp_path / "out.zarr")
    with zarr.config.set(PLAIN), xr.open_zarr(tmp_path / "out.zarr") as ds:
        np.testing.assert_array_equal(ds.x.values, [3, np.nan, 5, 6, 7, 8])


def test_what_was_done_again_is_not_left_in_the_store(tmp_path, monkeypatch):
    """As after a worker is lost that had written its block: what another one made of it may differ."""
    done = []

    def other(block):
        done.append(0)
        return np.full(len(done), 7)

    compute = dask.compute
    monkeypatch.setattr(dask, "compute", lambda *arrays: (compute(*arrays), compute(*arrays))[1])
    x = da.arange(2, chunks=1).map_blocks(other, chunks=((math.nan,) * 2,), meta=np.empty(0, int))
    with dask.config.set(scheduler="sync"):
        cfagg.write({"x": ("n", x)}, tmp_path / "out.zarr")
    assert found(tmp_path / "out.zarr").tolist() == [7] * 7
    files = sorted(p.relative_to(tmp_path / "out.zarr").as_posix() for p in tmp_path.rglob("*") if p.is_file())
    assert files == ["x/c/0", "x/c/1", "x/zarr.json", "zarr.json"]


def test_unknown_lengths_are_seen():
    x = da.arange(6, chunks=3)
    assert [has_unknown(a) for a in (x, x[x > 2], np.arange(3), None)] == [False, True, False, False]


def slow_filter(block):
    time.sleep(0.02)
    return block[block % 3 == 0]


@pytest.mark.full
def test_processes_of_a_cluster_write_blocks_and_one_that_is_killed_changes_nothing(tmp_path):
    with (
        LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None) as cluster,
        Client(cluster, set_as_default=False) as client,
    ):
        x = da.arange(3000, chunks=30).map_blocks(slow_filter, chunks=((math.nan,) * 100,), meta=np.empty(0, int))
        first = next(iter(cluster.workers.values()))
        threading.Timer(0.5, lambda: os.kill(first.process.process.pid, 9)).start()
        write_blocks({"x": Blocks(x, ("n",))}, tmp_path / "out.zarr", client=client)
    np.testing.assert_array_equal(found(tmp_path / "out.zarr"), np.arange(0, 3000, 3))
    assert len(list((tmp_path / "out.zarr/x/c").iterdir())) == 100


SAME_MODULES = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}


def _dask(*command):
    return subprocess.Popen(
        [sys.executable, "-m", f"distributed.cli.{command[0]}", *command[1:], "--no-dashboard"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=SAME_MODULES,
    )


@pytest.mark.full
def test_workers_over_tcp_write_blocks_and_the_other_finishes_for_one_that_is_killed(tmp_path):
    told = str(tmp_path / "scheduler.json")
    running = [_dask("dask_scheduler", "--port", "0", "--scheduler-file", told)]
    running += [_dask("dask_worker", "--scheduler-file", told, "--nthreads", "1", "--no-nanny") for _ in range(2)]
    try:
        deadline = time.monotonic() + 600
        while not (tmp_path / "scheduler.json").exists() and time.monotonic() < deadline:
            time.sleep(0.05)
        with Client(scheduler_file=told, set_as_default=False, timeout="600s") as client:
            client.wait_for_workers(2, timeout=600)
            x = da.arange(3000, chunks=30).map_blocks(slow_filter, chunks=((math.nan,) * 100,), meta=np.empty(0, int))
            threading.Timer(0.5, running[1].kill).start()
            report = write_blocks({"x": Blocks(x, ("n",))}, tmp_path / "out.zarr", client=client)
    finally:
        for process in running:
            process.kill()
            process.wait()
    assert running[1].returncode == -9
    np.testing.assert_array_equal(found(tmp_path / "out.zarr"), np.arange(0, 3000, 3))
    assert report.chunks == 100


def test_a_run_after_one_that_was_killed_begins_anew_says_so_and_takes_nothing_of_its_late_tasks(tmp_path):
    told = tmp_path / "keys"
    killed = f"""if True:
        import os, pathlib, pickle, signal
        from cfagg.writing.zarr.new_store import new_store
        with new_store({str(tmp_path / "out.zarr")!r}) as place:
            place.keys.put("x/c/0", b"late")
            pathlib.Path({str(told)!r}).write_bytes(pickle.dumps(place.keys))
            os.kill(os.getpid(), signal.SIGKILL)
    """
    assert subprocess.run([sys.executable, "-c", killed], env=SAME_MODULES, check=False).returncode == -9
    keys, reached = pickle.loads(told.read_bytes()), []

    def late(block):
        with contextlib.suppress(OSError):
            keys.put("x/c/0", b"late")
            reached.append(block)
        return block

    array = da.arange(6, chunks=3)
    with dask.config.set(scheduler="sync"):
        report = write_blocks(
            {"x": Blocks(array), "y": Blocks(array.map_blocks(late, meta=np.empty(0, int)))}, tmp_path / "out.zarr"
        )
        again = write_blocks({"x": Blocks(array)}, tmp_path / "other.zarr")
    assert any("killed" in note for note in report.notes)
    assert not again.notes
    assert not reached
    np.testing.assert_array_equal(found(tmp_path / "out.zarr"), np.arange(6))
    assert sorted(p.name for p in tmp_path.iterdir()) == ["keys", "other.zarr", "out.zarr"]


@pytest.mark.full
def test_after_a_killed_client_the_same_call_writes_all_while_its_workers_go_on(tmp_path):
    told, target = tmp_path / "scheduler.json", tmp_path / "out.zarr"
    call = f"""if True:
        from distributed import Client
        from tests.writing.zarr.test_blocks import unequal_blocks, write_blocks
        with Client(scheduler_file={str(told)!r}) as client:
            write_blocks(unequal_blocks(), {str(target)!r}, client=client)
    """
    running = [_dask("dask_scheduler", "--port", "0", "--scheduler-file", str(told))]
    running += [_dask("dask_worker", "--scheduler-file", str(told), "--nthreads", "1", "--no-nanny") for _ in range(2)]
    try:
        waited(told.exists)
        with Client(scheduler_file=str(told), set_as_default=False) as client:
            client.wait_for_workers(2, timeout=PATIENCE)
            killed = subprocess.Popen([sys.executable, "-c", call], env=SAME_MODULES)
            written = tmp_path / ".out.zarr.cfagg-partial/store/__blocks/x"
            waited(lambda: written.is_dir() and any(written.iterdir()))
            killed.kill()
            killed.wait()
            report = write_blocks(unequal_blocks(), target, client=client)
    finally:
        for process in running:
            process.kill()
            process.wait()
    assert killed.returncode == -9
    assert any("killed" in note for note in report.notes)
    np.testing.assert_array_equal(found(target), np.arange(0, 3000, 3))
    assert report.chunks == 100
    assert sorted(p.name for p in tmp_path.iterdir()) == ["out.zarr", "scheduler.json"]


def unequal_blocks():
    """Return blocks whose lengths nobody knows, a few seconds of work for two workers."""
    x = da.arange(3000, chunks=30).map_blocks(slower_filter, chunks=((math.nan,) * 100,), meta=np.empty(0, int))
    return {"x": Blocks(x, ("n",))}


def slower_filter(block):
    time.sleep(0.1)
    return block[block % 3 == 0]


def waited(true):
    """Wait until something is so."""
    end = time.monotonic() + PATIENCE
    while not true():
        assert time.monotonic() < end
        time.sleep(0.02)


def test_write_takes_an_array_of_unknown_lengths_as_it_is(tmp_path):
    x = da.arange(10, chunks=4)
    report = cfagg.write(x[x > 5], tmp_path / "a.zarr")
    assert (report.variables, report.chunks) == (("data",), 2)
    assert cfagg.read(tmp_path / "a.zarr").data.values.tolist() == [6, 7, 8, 9]


def test_write_takes_columns_as_a_mapping_with_dimensions_and_attributes(tmp_path):
    x = da.arange(10, chunks=4)
    columns = {
        "time": (("time",), x[x > 5], {"units": "days since 2000-01-01"}),
        "tas": ("time", x[x > 5] * 2.0),
        "x": np.arange(3),
    }
    cfagg.write(columns, tmp_path / "a.zarr")
    ds = cfagg.read(tmp_path / "a.zarr", chunks={})
    assert ds.tas.sel(time="2000-01-08").values == 14
    assert (ds.tas.chunks, ds.x.dims) == (((2, 2),), ("x_dim_0",))


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"x": [1, 2]}, "'x': an object of type list cannot be written in a mapping"),
        ({"x": (("a", "b"), da.ones(3))}, "'x' has 1 dimensions, but their names are"),
        ({"x": (("a",), da.ones(3), 5)}, "x: found an object of type int; expected attributes"),
    ],
)
def test_what_is_no_array_in_a_mapping_is_refused(given, text, tmp_path):
    with pytest.raises(OptionError, match=text):
        cfagg.write(given, tmp_path / "a.zarr")
    assert list(tmp_path.iterdir()) == []


def test_unknown_lengths_are_refused_where_they_cannot_be_written(tmp_path):
    x = da.arange(10, chunks=4)
    with pytest.raises(OptionError, match="only a Zarr store takes"):
        cfagg.write(x[x > 5], tmp_path / "a.nc")


def test_columns_of_a_dataframe_are_written_as_its_partitions_are(tmp_path):
    frames = pytest.importorskip("dask.dataframe")
    import pandas as pd

    table = frames.from_pandas(pd.DataFrame({"kind": list("abcabcabca"), "tas": np.arange(10.0)}), npartitions=3)
    kept = table[table.tas % 4 != 1]
    cfagg.write(
        {"tas": ("row", kept.tas.to_dask_array()), "kind": ("row", kept.kind.astype(object).to_dask_array())},
        tmp_path / "a.zarr",
    )
    ds = cfagg.read(tmp_path / "a.zarr")
    expected = kept.compute()
    assert (ds.tas.values.tolist(), ds.kind.values.tolist()) == (expected.tas.tolist(), expected.kind.tolist())


def test_a_store_of_blocks_grows_by_an_edge(tmp_path):
    x = da.arange(10, chunks=4)
    cfagg.write({"x": ("n", x[x % 3 > 0])}, tmp_path / "a.zarr")
    cfagg.append(tmp_path / "a.zarr", {"x": np.array([20, 21])}, "n")
    found = cfagg.open_array(tmp_path / "a.zarr", "x")
    assert (found.chunks, found[-3:].tolist()) == (((2, 3, 1, 2),), [8, 20, 21])


def test_few_blocks_are_renamed_ahead_of_those_that_are_done():
    lock, drawn, done, ahead = threading.Lock(), 0, 0, 0

    class Keys:
        def move(self, old, new):
            nonlocal done
            with lock:
                done += 1

    def moves():
        nonlocal drawn, ahead
        for k in range(2000):
            drawn += 1
            ahead = max(ahead, drawn - done)
            yield f"old/{k}", f"new/{k}"

    move_all(Keys(), moves())
    assert done == 2000
    assert ahead <= 32
