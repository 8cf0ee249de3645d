"""Rows that are computed later, by functions or by Dask, each piece written by the task that has it."""

from __future__ import annotations

import json
import os
import pathlib
import signal
from functools import partial
from itertools import pairwise

import dask
import dask.array as da
import dask.bag
import numpy as np
import pytest
import zarr
from dask.core import flatten
from distributed import Client, LocalCluster
from hypothesis import given, settings
from hypothesis import strategies as st

import cfagg
from cfagg.errors import ConformError, OptionError, UnsupportedError
from cfagg.writing.zarr.new_store import NewPlace
from tests.effort import examples

sparse = pytest.importorskip("scipy.sparse")

MASKED = da.ma.masked_equal(da.arange(3, chunks=2), 1)


def matrix(rows, seed=0, density=0.3):
    return sparse.random_array((rows, 7), density=density, format="csr", rng=seed, dtype=np.float32)


def stored(store):
    """Return the matrix of a store by zarr-python and scipy alone."""
    with zarr.config.set({"array.rectilinear_chunks": True}):
        group = zarr.open_group(str(store), mode="r")
        parts = tuple(group[name][...] for name in ("data", "indices", "indptr"))
        return sparse.csr_array(parts, shape=tuple(group.attrs["shape"]))


def same(one, other):
    return one.shape == other.shape and all(
        np.array_equal(getattr(one, name), getattr(other, name)) for name in ("data", "indices", "indptr")
    )


def lengths_of(block, most):
    """Return the lengths of chunks of whole rows, as many as fit, or of one that is longer."""
    edges = [0]
    for begin, end in pairwise(block.indptr.tolist()):
        if end - edges[-1] > max(most, 1) and begin > edges[-1]:
            edges.append(begin)
    return np.diff([*edges, block.nnz] if block.nnz > edges[-1] else edges).tolist()


@given(
    seed=st.integers(0, 1000), rows=st.lists(st.integers(0, 9), min_size=1, max_size=6), density=st.floats(0, 1),
    chunk=st.integers(1, 100), form=st.sampled_from(["functions", "delayed", "bag", "generator"]),
)  # fmt: skip
@settings(max_examples=examples(40), deadline=None)
def test_any_pieces_become_the_matrix_that_scipy_makes_of_them(seed, rows, density, chunk, form, tmp_path_factory):
    made = tmp_path_factory.mktemp("rows") / "a.zarr"
    pieces = [partial(matrix, n, seed + k, density) for k, n in enumerate(rows)]
    match form:
        case "delayed":
            pieces = [dask.delayed(piece)() for piece in pieces]
        case "bag":
            pieces = dask.bag.from_sequence(pieces, npartitions=2).map(lambda piece: piece())
        case "generator":
            pieces = (piece for piece in pieces)
    with dask.config.set(scheduler="sync"):
        cfagg.write_rows(pieces, made, chunk=chunk)
    expected = sparse.vstack([matrix(n, seed + k, density) for k, n in enumerate(rows)], format="csr")
    assert same(stored(made), expected)
    lengths = [n for k, rows_of in enumerate(rows) for n in lengths_of(matrix(rows_of, seed + k, density), chunk // 4)]
    assert [n for n in cfagg.open_array(made, "data").chunks[0] if n] == lengths
    kept = {p.relative_to(made).parts[0] for p in made.rglob("*") if p.is_file()}
    assert kept == {"data", "indices", "indptr", "zarr.json"}


def test_an_array_of_filtered_sparse_blocks_is_written_with_its_filtered_labels(tmp_path):
    whole, kept = matrix(30), np.arange(30) % 3 > 0
    array = da.from_array(whole.toarray(), chunks=(8, 7)).map_blocks(sparse.csr_array)
    where, numbers = (da.from_array(a, chunks=8) for a in (kept, np.arange(30)))
    cfagg.write_rows(array[where], tmp_path / "a.zarr", labels={"number": numbers[where]})
    assert same(stored(tmp_path / "a.zarr"), whole[kept])
    assert cfagg.open_rows(tmp_path / "a.zarr")[:].labels["number"].tolist() == np.flatnonzero(kept).tolist()


def test_a_piece_may_give_several_blocks_or_none_and_rows_without_columns(tmp_path):
    pieces = [list, lambda: [(np.arange(3.0), [0, 1, 3]), (np.arange(2.0), [0, 0, 2])], lambda: ([9.0], [0, 1])]
    report = cfagg.write_rows(pieces, tmp_path / "a.zarr", chunk=8)
    rows = [row.data.tolist() for row in cfagg.open_rows(tmp_path / "a.zarr")]
    assert rows == [[0], [1, 2], [], [0, 1], [9]]
    assert report.chunks == 5  # four of values, and one of edges


def test_a_chunk_takes_as_many_rows_as_fit_and_a_longer_row_is_alone(tmp_path):
    lengths = [1, 2, 9, 0, 1, 1, 3]
    cfagg.write_rows([lambda: (np.arange(17.0), np.cumsum([0, *lengths]))], tmp_path / "a.zarr", chunk=3 * 8)
    assert cfagg.open_array(tmp_path / "a.zarr", "data").chunks == ((3, 9, 2, 3),)


def test_there_are_as_many_columns_as_any_piece_uses(tmp_path):
    cfagg.write_rows([partial(tuple, ([1.0], [n], [0, 1])) for n in (2, 5, 3)], tmp_path / "a.zarr")
    assert cfagg.open_rows(tmp_path / "a.zarr").shape == (3, 6)


def test_what_two_pieces_need_is_computed_once(tmp_path):
    done = []
    base = dask.delayed(lambda: (done.append(0), matrix(20))[1])()
    cfagg.write_rows([base[:4], base[4:]], tmp_path / "a.zarr")
    assert (len(done), same(stored(tmp_path / "a.zarr"), matrix(20))) == (1, True)


def test_a_task_that_is_done_again_with_other_values_does_not_replace_the_first(tmp_path, monkeypatch):
    """As by a worker given up for lost: values and columns fit together only if they are of one computation."""
    done = []

    def other():
        done.append(0)
        return sparse.csr_array(np.full((2, 3), len(done), "u1"))

    compute = dask.compute
    monkeypatch.setattr(dask, "compute", lambda *tasks: (compute(*tasks), compute(*tasks))[0])
    with dask.config.set(scheduler="sync"):
        cfagg.write_rows([other], tmp_path / "a.zarr")
    assert (len(done), stored(tmp_path / "a.zarr").toarray().tolist()) == (2, [[1] * 3] * 2)
    assert not [p for p in tmp_path.rglob("*") if "__blocks" in p.parts]


LATER = pytest.mark.parametrize(
    "rows", [[partial(matrix, 3)], {"x": da.arange(5, chunks=2)[da.arange(5, chunks=2) > 1]}]
)


def written(rows, target):
    (cfagg.write if isinstance(rows, dict) else cfagg.write_rows)(rows, target)


@LATER
def test_no_two_writes_have_tasks_of_one_name(rows, tmp_path, monkeypatch):
    """What a cluster still holds of the first, it would take for the second, which would not be written."""
    names, compute = [], dask.compute

    def seen(*tasks):
        names.append(set(flatten([task.__dask_keys__() for task in tasks])))
        return compute(*tasks)

    monkeypatch.setattr(dask, "compute", seen)
    written(rows, tmp_path / "a.zarr")
    written(rows, tmp_path / "b.zarr")
    assert names[0].isdisjoint(names[1])


@LATER
def test_a_task_that_comes_late_leaves_nothing_in_the_store(rows, tmp_path, monkeypatch):
    """As a worker that was given up for lost, while edges, labels and documents are written."""
    publish = NewPlace.publish

    def late(place, documents):
        with pytest.raises(FileNotFoundError):
            place.keys.put("__blocks/data/0-0-0-late", b"late")
        publish(place, documents)

    monkeypatch.setattr(NewPlace, "publish", late)
    written(rows, tmp_path / "a.zarr")
    assert not list((tmp_path / "a.zarr").glob("__*"))
    assert len(list(tmp_path.iterdir())) == 1


@pytest.mark.parametrize(
    ("rows", "options", "error", "text"),
    [
        ([lambda: matrix(3), matrix(3)], {}, OptionError, "number 1 is of type csr_array, but those before"),
        ([matrix(3), lambda: matrix(3)], {}, OptionError, "block 1 is computed later .*; give one kind"),
        ([lambda: lambda: 3], {}, OptionError, "item 0: an object of type function"),
        ([lambda: [dask.delayed(3)]], {}, OptionError, "item 0 gives what is computed later"),
        ([lambda: 3], {}, OptionError, "item 0: an object of type int; expected a matrix"),
        (da.ones((4, 4), chunks=2), {}, OptionError, r"rows: \(2, 2\) blocks of Dask; expected whole rows"),
        ([lambda: (["a"], [0, 1])], {}, UnsupportedError, "block 0: data are of type <U1; expected numbers"),
        ([partial(matrix, 3), lambda: ([1], [0, 1])], {}, ConformError, "item 1: block 0 has data .*; give all"),
        ([lambda: ([1], [0, 2])], {}, ConformError, "item 0: block 0: indptr should rise from 0 to 1"),
        ([list, list], {}, OptionError, "there is no block of rows"),
        ([partial(matrix, 3)], {"labels": {"a": [1]}}, ConformError, "1 values for 3 rows"),
        ([partial(matrix, 3)], {"workers": 2}, OptionError, "workers=2: they are threads of this process"),
        (matrix(3), {"labels": {"a": MASKED}}, ConformError, "labels: 'a' are masked"),
        ([lambda: (MASKED, [0, 3])], {}, ConformError, "item 0: block 0: values are masked"),
        (matrix(3), {"client": "tcp://127.0.0.1:9"}, OptionError, "client= is for rows that are computed later"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_refused_and_nothing_is_left(rows, options, error, text, tmp_path):
    with pytest.raises(error, match=text):
        cfagg.write_rows(rows, tmp_path / "a.zarr", **options)
    assert list(tmp_path.iterdir()) == []


def test_an_error_of_a_users_function_is_theirs_and_leaves_nothing(tmp_path):
    with pytest.raises(ZeroDivisionError):
        cfagg.write_rows([partial(matrix, 3), lambda: 1 // 0], tmp_path / "a.zarr")
    assert list(tmp_path.iterdir()) == []


def ending_once(mark, rows, seed):
    """Return rows, but end the process the first time."""
    try:
        pathlib.Path(mark).touch(exist_ok=False)
    except FileExistsError:
        return matrix(rows, seed)
    os.kill(os.getpid(), signal.SIGKILL)
    return None


@pytest.mark.full
def test_processes_of_a_cluster_write_rows_and_others_finish_for_one_that_is_killed(tmp_path):
    pieces = [partial(matrix, 40, seed) for seed in range(20)]
    pieces[7] = partial(ending_once, tmp_path / "ended", 40, 7)
    with (
        LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None) as cluster,
        Client(cluster, set_as_default=False) as client,
    ):
        before = {w.process.pid for w in cluster.workers.values()}
        cfagg.write_rows(pieces, tmp_path / "a.zarr", chunk=64, client=client)
        after = {w.process.pid for w in cluster.workers.values()}
        assert (tmp_path / "ended").exists()
        assert before != after
        delayed = [dask.delayed(matrix)(40, seed) for seed in range(20)]
        labels = {"seed": np.repeat(np.arange(20), 40)}
        cfagg.write_rows(delayed, tmp_path / "b.zarr", chunk=64, labels=labels, client=cluster.scheduler_address)
        with pytest.raises(ZeroDivisionError):
            cfagg.write_rows([*pieces, lambda: 1 // 0], tmp_path / "c.zarr", client=client)
    expected = sparse.vstack([matrix(40, seed) for seed in range(20)], format="csr")
    assert same(stored(tmp_path / "a.zarr"), expected)
    assert same(stored(tmp_path / "b.zarr"), expected)
    starts = np.cumsum([0, *cfagg.open_array(tmp_path / "a.zarr", "data").chunks[0]])
    assert set(starts) <= set(expected.indptr)
    rows = cfagg.open_rows(tmp_path / "b.zarr")
    assert rows[[45, 799]].labels["seed"].tolist() == [1, 19]
    assert json.loads((tmp_path / "a.zarr/zarr.json").read_text())["attributes"]["encoding-type"] == "csr_matrix"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.zarr", "b.zarr", "ended"]
    assert all(a <= b for a, b in pairwise(rows[:].indptr))
