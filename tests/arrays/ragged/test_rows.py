"""Rows of different lengths: written with edges between rows, and read row by row, in batches and shuffled."""

from __future__ import annotations

import json
import pickle
import subprocess
from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr
from hypothesis import given, settings
from hypothesis import strategies as st

import cfagg
from cfagg.arrays.ragged import batch as batches
from cfagg.arrays.ragged import rows as reading
from cfagg.errors import (
    ConformError,
    ConventionError,
    LimitError,
    OptionError,
    SelectionError,
    SourceError,
    UnsupportedError,
)
from tests.benchmarks.peers import peer_python
from tests.effort import examples

sparse = pytest.importorskip("scipy.sparse")


def matrix(rows: int = 40, columns: int = 9, seed: int = 0, density: float = 0.3) -> Any:
    return sparse.random_array((rows, columns), density=density, format="csr", rng=seed, dtype=np.float32)


@pytest.fixture
def store(tmp_path: Path) -> Path:
    made = tmp_path / "rows.zarr"
    names = np.array([f"row {n}" for n in range(40)])
    cfagg.write_rows(matrix(), made, labels={"kind": np.arange(40) % 3, "name": names}, chunk=64)
    return made


@given(
    seed=st.integers(0, 1000), rows=st.integers(0, 30), density=st.floats(0, 1), chunk=st.integers(1, 200),
    picked=st.lists(st.integers(-30, 29), max_size=12), blocks=st.integers(1, 4),
)  # fmt: skip
@settings(max_examples=examples(150), deadline=None)
def test_any_rows_are_those_of_scipy(seed, rows, density, chunk, picked, blocks, tmp_path_factory):
    made = tmp_path_factory.mktemp("rows") / "a.zarr"
    given_rows = matrix(rows, 7, seed, density)
    cuts = np.linspace(0, rows, blocks + 1).astype(int)
    cfagg.write_rows((given_rows[a:b] for a, b in pairwise(cuts)), made, chunk=chunk)
    found = cfagg.open_rows(made)
    assert found.shape == given_rows.shape
    index = [n for n in picked if -rows <= n < rows]
    dense = given_rows.toarray()
    np.testing.assert_array_equal(found[index].to_dense(), dense[np.array(index, int)])
    np.testing.assert_array_equal(found[::-2].to_scipy().toarray(), dense[::-2])
    np.testing.assert_array_equal([r.data.sum() for r in found], dense.sum(axis=1, dtype="f4")) if rows else None
    edges = np.cumsum([0, *cfagg.open_array(made, "data").chunks[0]])
    assert np.isin(edges, found.indptr).all()


@given(
    size=st.integers(1, 17), chunk=st.integers(1, 300), memory=st.integers(1, 2000), shuffle=st.booleans(),
    last=st.booleans(),
)  # fmt: skip
@settings(max_examples=examples(100), deadline=None)
def test_batches_have_every_row_once_with_its_labels(size, chunk, memory, shuffle, last, tmp_path_factory):
    made = tmp_path_factory.mktemp("rows") / "a.zarr"
    dense = matrix().toarray()
    cfagg.write_rows(matrix(), made, labels={"kind": np.arange(40) * 2}, chunk=chunk)
    batches = list(cfagg.open_rows(made).batches(size, shuffle=shuffle, seed=1, memory=memory, last=last))
    assert [len(b) for b in batches] == [size] * (40 // size) + [40 % size] * (last and 40 % size > 0)
    numbers = np.concatenate([b.numbers for b in batches]) if batches else np.zeros(0, int)
    assert len(set(numbers.tolist())) == len(numbers)
    assert shuffle or numbers.tolist() == list(range(len(numbers)))
    for batch in batches:
        np.testing.assert_array_equal(batch.to_dense(), dense[batch.numbers])
        np.testing.assert_array_equal(batch.labels["kind"], batch.numbers * 2)


def test_a_seed_gives_an_order_and_another_seed_another(store):
    rows = cfagg.open_rows(store)
    first, again, other = (
        np.concatenate([b.numbers for b in rows.batches(7, shuffle=True, seed=s)]).tolist() for s in (1, 1, 2)
    )
    assert first == again != other
    assert sorted(first) == list(range(40))


def test_a_batch_takes_one_call_of_the_kernel_and_each_chunk_is_read_once(store, monkeypatch):
    calls, spans = [], []
    gather, read = batches.gather_rows, reading._read_spans
    monkeypatch.setattr(batches, "gather_rows", lambda *args: (calls.append(1), gather(*args))[1])

    def count(reader, first, stop):
        found = read(reader, first, stop)
        spans.append(len(found[0]))
        return found

    monkeypatch.setattr(reading, "_read_spans", count)
    rows = cfagg.open_rows(store)
    assert len(rows[[3, 39, 3, 0]]) == 4
    assert len(calls) == 1
    spans.clear()
    calls.clear()
    assert sum(1 for _ in rows.batches(10, shuffle=True, seed=0)) == 4
    assert len(calls) == 4
    assert sum(spans) == 2 * matrix().nnz


@pytest.mark.parametrize(("theirs", "most"), [(False, 1), (True, 2)])
def test_all_rows_in_any_order_read_a_chunk_once_or_where_it_cuts_rows_twice(theirs, most, tmp_path, monkeypatch):
    expected, made = matrix(200, 20), tmp_path / "a.zarr"
    if theirs:
        group = zarr.open_group(str(made), mode="w")
        group.attrs.update({"encoding-type": "csr_matrix", "shape": list(expected.shape)})
        for name, chunk in (("data", 37), ("indices", 23), ("indptr", 300)):
            group.create_array(name, data=getattr(expected, name), chunks=(chunk,))
    else:
        cfagg.write_rows(expected, made, chunk=128)
    rows = cfagg.open_rows(made)
    reads: Counter[tuple[str, int]] = Counter()
    kind = type(rows._readers[0])
    fill = kind.fill_by

    def count(self, plan, out):
        reads.update((self.label, int(cell)) for cell in plan.axes[0].cell)
        return fill(self, plan, out)

    monkeypatch.setattr(kind, "fill_by", count)
    found = np.zeros(expected.shape, "f4")
    for batch in rows.batches(7, shuffle=True, seed=3, memory=1000):
        found[batch.numbers] = batch.to_dense()
    np.testing.assert_array_equal(found, expected.toarray())
    assert max(reads.values()) == most
    assert len(reads) == sum(reader.grid.size for reader in rows._readers)


def test_row_by_row_values_columns_and_labels_come_together(store):
    rows, expected = cfagg.open_rows(store), matrix()
    assert rows.labels["name"].tolist() == [f"row {n}" for n in range(40)]
    for row in rows:
        a, b = expected.indptr[row.number : row.number + 2]
        assert (row.data.tolist(), row.indices.tolist()) == (
            expected.data[a:b].tolist(),
            expected.indices[a:b].tolist(),
        )
    assert rows[5].labels["name"].tolist() == ["row 5"]
    mask = np.arange(40) % 7 == 0
    np.testing.assert_array_equal(rows[mask].numbers, np.flatnonzero(mask))


def test_rows_can_be_pickled(store):
    rows = pickle.loads(pickle.dumps(cfagg.open_rows(store)))
    np.testing.assert_array_equal(rows[3].to_dense()[0], matrix().toarray()[3])


def test_rows_without_columns_are_lists_of_values(tmp_path):
    report = cfagg.write_rows((np.arange(6), np.array([0, 0, 4, 6])), tmp_path / "a.zarr")
    rows = cfagg.open_rows(tmp_path / "a.zarr")
    assert [r.data.tolist() for r in rows] == [[], [0, 1, 2, 3], [4, 5]]
    assert (rows.shape, rows[0].indices, report.variables) == ((3, None), None, ("data", "indptr"))
    with pytest.raises(UnsupportedError, match="have no columns"):
        rows[0].to_dense()
    with pytest.raises(OptionError, match="these rows have no columns"):
        cfagg.write_rows((np.arange(6), np.array([0, 6])), tmp_path / "b.zarr", columns=3)
    assert [p.name for p in tmp_path.iterdir()] == ["a.zarr"]


def test_a_matrix_with_chunks_of_any_edges_is_read_as_anndata_writes_it(tmp_path):
    """The layout of anndata: a group with encoding-type csr_matrix, and regular chunks that cut rows."""
    expected = matrix()
    group = zarr.open_group(str(tmp_path / "a.zarr"), mode="w").create_group("X")
    group.attrs.update({"encoding-type": "csr_matrix", "encoding-version": "0.1.0", "shape": list(expected.shape)})
    for name, chunk in (("data", 7), ("indices", 5), ("indptr", 11)):
        values = getattr(expected, name)
        group.create_array(name, data=values, chunks=(chunk,))
    rows = cfagg.open_rows(tmp_path / "a.zarr", group="X")
    np.testing.assert_array_equal(rows[:].to_dense(), expected.toarray())
    np.testing.assert_array_equal(rows[[39, 1]].to_dense(), expected.toarray()[[39, 1]])
    numbers = [b.numbers for b in rows.batches(9, shuffle=True, memory=100)]
    assert sorted(np.concatenate(numbers)) == list(range(40))


def test_zarr_and_scipy_read_what_was_written(store):
    with zarr.config.set({"array.rectilinear_chunks": True}):
        group = zarr.open_group(str(store), mode="r")
        parts = tuple(group[name][...] for name in ("data", "indices", "indptr"))
    shape = tuple(group.attrs["shape"])
    np.testing.assert_array_equal(sparse.csr_array(parts, shape=shape).toarray(), matrix().toarray())
    assert group.attrs["encoding-type"] == "csr_matrix"


@pytest.mark.full
def test_anndata_reads_what_was_written_and_what_it_writes_is_read(store, tmp_path):
    script = Path(__file__).with_name("anndata_probe.py")
    command = [peer_python("anndata", install=True), script, store, tmp_path / "theirs.zarr"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=script.parent)
    found, expected = json.loads(done.stdout.splitlines()[-1]), matrix().toarray()
    assert found == {"all": expected.tolist(), "some": expected[[1, 7, 30]].tolist()}
    np.testing.assert_array_equal(cfagg.open_rows(tmp_path / "theirs.zarr", group="X")[::3].to_dense(), expected[::3])


@pytest.mark.few(5)
@pytest.mark.parametrize(
    "key", [40, -41, [0, 40], [0.5], "a", np.ones(3, bool), [[1, 2], [3]], slice(None, None, 0), slice("a"), True, None]
)
def test_rows_that_are_not_there_are_refused(key, store):
    with pytest.raises(SelectionError):
        cfagg.open_rows(store)[key]


@pytest.mark.parametrize(
    ("rows", "labels"),
    [
        ((np.ma.masked_greater(np.arange(4.0), 2), np.array([0, 4])), {}),
        ((np.arange(2.0), np.ma.masked_greater(np.arange(2), 0), np.array([0, 2])), {}),
        ((np.arange(4.0), np.array([0, 1, 4])), {"kind": np.ma.masked_greater(np.arange(2), 0)}),
    ],
)
def test_a_mask_is_never_left_out(rows, labels, tmp_path):
    with pytest.raises(ConformError, match="are masked, but chunks have no mask"):
        cfagg.write_rows(rows, tmp_path / "a.zarr", labels=labels)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("count", [0, 1, 3])
def test_rows_without_any_value_may_be_lists(count, tmp_path):
    cfagg.write_rows(([], [], [0] * (count + 1)), tmp_path / "a.zarr", columns=2)
    rows = cfagg.open_rows(tmp_path / "a.zarr")
    assert rows[:].to_dense().tolist() == [[0, 0]] * count
    assert (list(rows.batches(2, shuffle=True)) != []) == (count > 0)


def test_the_group_and_the_seed_have_to_be_such(store):
    with pytest.raises(OptionError, match="group: found an object of type int"):
        cfagg.open_rows(store, group=3)
    with pytest.raises(OptionError, match="seed: found an object of type str"):
        next(cfagg.open_rows(store).batches(2, shuffle=True, seed="a"))


def changed(store: Path, name: str, values: Any) -> None:
    group = zarr.open_group(str(store), mode="a")
    del group[name]
    group.create_array(name, data=np.asarray(values))


@pytest.mark.parametrize(
    ("indptr", "text"),
    [
        ([0, 3, 2, 4], "indptr falls at row 1"),
        ([1, 4], "goes from 1 to 4, expected 0 to 4"),
        ([0, 5], "goes from 0 to 5, expected 0 to 4"),
        ([0.0, 4.0], "expected one dimension of integers"),
        ([[0, 4]], "expected one dimension of integers"),
    ],
)
def test_where_rows_begin_has_to_fit_the_values(indptr, text, tmp_path):
    cfagg.write_rows((np.arange(4.0), np.array([0, 1, 4])), tmp_path / "a.zarr")
    changed(tmp_path / "a.zarr", "indptr", indptr)
    with pytest.raises(ConventionError, match=text):
        cfagg.open_rows(tmp_path / "a.zarr")


def test_each_value_has_a_column(tmp_path):
    cfagg.write_rows((np.arange(4.0), np.arange(4), np.array([0, 1, 4])), tmp_path / "a.zarr")
    changed(tmp_path / "a.zarr", "indices", [0, 1, 2])
    with pytest.raises(ConventionError, match="there are 3 indices for 4 values"):
        cfagg.open_rows(tmp_path / "a.zarr")


def test_blocks_have_as_many_columns_as_the_first(tmp_path):
    with pytest.raises(ConformError, match=r"in 5 columns, and block 0 .* in 9 columns; give all the same"):
        cfagg.write_rows([matrix(3, 9), matrix(3, 5)], tmp_path / "a.zarr")


def test_a_claim_of_very_many_rows_takes_no_memory(tmp_path):
    group = zarr.open_group(str(tmp_path / "a.zarr"), mode="w")
    group.create_array("data", shape=(10**15,), chunks=(10**6,), dtype="f8")
    group.create_array("indptr", shape=(2**28,), chunks=(2**20,), dtype="i8")
    with pytest.raises(ConventionError, match="indptr goes from 0 to 0, expected 0 to 1,000,000,000,000,000"):
        cfagg.open_rows(tmp_path / "a.zarr")
    del group["indptr"]
    group.create_array("indptr", shape=(2**28 + 1,), chunks=(2**20,), dtype="i8")
    with pytest.raises(LimitError, match=r"indptr has 268,435,457 elements"):
        cfagg.open_rows(tmp_path / "a.zarr")


def test_a_row_that_claims_more_than_memory_is_an_error(tmp_path):
    group = zarr.open_group(str(tmp_path / "a.zarr"), mode="w")
    group.create_array("data", shape=(2**60,), chunks=(10**6,), dtype="f8")
    group.create_array("indptr", data=np.array([0, 2**60]))
    with pytest.raises(LimitError, match="the rows touch more than"):
        cfagg.open_rows(tmp_path / "a.zarr")[0]
    with pytest.raises(LimitError, match="write them in larger ones"):
        next(iter(cfagg.open_rows(tmp_path / "a.zarr")))
    group.create_array("data", shape=(2**60,), chunks=(2**50,), dtype="f8", overwrite=True)
    with pytest.raises(LimitError, match="do not fit into memory"):
        cfagg.open_rows(tmp_path / "a.zarr")[0]


def test_columns_outside_the_matrix_are_found_where_one_is_made(tmp_path):
    cfagg.write_rows((np.arange(2.0), np.array([0, 1]), np.array([0, 1, 2])), tmp_path / "a.zarr")
    changed(tmp_path / "a.zarr", "indices", [0, 5])
    rows = cfagg.open_rows(tmp_path / "a.zarr")
    with pytest.raises(ConventionError, match="row 1 has column 5, expected 0 to 1"):
        rows[:].to_scipy()


def test_a_shape_that_does_not_fit_and_matrices_by_columns_are_refused(store):
    document = json.loads((store / "zarr.json").read_text())
    for attributes, error, text in (
        ({"shape": [3, 9]}, ConventionError, r"the attribute shape is \[3, 9\], expected \[40, columns\]"),
        ({"encoding-type": "csc_matrix"}, UnsupportedError, "a matrix by columns"),
    ):
        (store / "zarr.json").write_text(json.dumps({**document, "attributes": attributes}))
        with pytest.raises(error, match=text):
            cfagg.open_rows(store)


@pytest.mark.parametrize("shape", [[40, 2**70], [[40], [1, 2]], [40, "9"], [40, -1], [40, True], [40], "ab", {"a": 9}])
def test_a_shape_that_is_none_is_refused(shape, store):
    document = json.loads((store / "zarr.json").read_text())
    (store / "zarr.json").write_text(json.dumps({**document, "attributes": {"shape": shape}}))
    with pytest.raises(ConventionError, match=r"the attribute shape is .*, expected \[40, columns\]"):
        cfagg.open_rows(store)


def test_a_claim_of_very_many_columns_takes_no_memory(store):
    document = json.loads((store / "zarr.json").read_text())
    (store / "zarr.json").write_text(json.dumps({**document, "attributes": {"shape": [40, 2**55]}}))
    batch = cfagg.open_rows(store)[:2]
    with pytest.raises(LimitError, match=r"a matrix of 2 × 36,028,797,018,963,968 does not fit into memory"):
        batch.to_dense()
    assert batch.to_scipy().nnz == len(batch.data)


def test_a_store_without_rows_says_what_it_lacks(tmp_path):
    zarr.create_array(str(tmp_path / "a.zarr"), name="x", data=np.arange(3))
    with pytest.raises(SourceError, match="it has no array 'data'"):
        cfagg.open_rows(tmp_path / "a.zarr")


@pytest.mark.parametrize(
    ("rows", "options", "error", "text"),
    [
        ((np.arange(3.0), np.array([0, 2])), {}, ConformError, "indptr should rise from 0 to 3"),
        ((np.arange(2.0), np.array([0, 2, 1, 2])), {}, ConformError, "indptr should rise"),
        ((np.arange(2.0), np.array([0]), np.array([0, 2])), {}, ConformError, "2 values have columns of shape"),
        ((np.arange(2.0), np.array([0, -1]), np.array([0, 2])), {}, ConformError, "column -1 is negative"),
        ((np.arange(2.0), np.array([0, 4]), np.array([0, 2])), {"columns": 4}, ConformError, "column 4 is used"),
        ((np.arange(2.0), np.array([0, 2])), {"labels": {"a": [1, 2]}}, ConformError, "2 values for 1 rows"),
        ((np.arange(2.0), np.array([0, 2])), {"labels": {"data": [1]}}, OptionError, "cannot be the name"),
        (
            (np.arange(2.0), np.array([0, 2])),
            {"labels": {"a": [[1]]}},
            OptionError,
            "expected one number or text for each row",
        ),
        ((np.arange(2.0), np.array([0, 2])), {"chunk": 0}, OptionError, "chunk=0"),
        ([(np.ones(1), np.array([0, 1])), (np.ones(1, "f4"), np.array([0, 1]))], {}, ConformError, "give all the same"),
        ((np.arange(2.0), np.array([0, 1])), {"labels": {1: [2], "1": [3]}}, OptionError, "two have the name '1'"),
        ((np.arange(2.0), np.array([0, 2])), {"labels": {"a\\b": [1]}}, OptionError, "cannot be the name"),
        ((np.arange(2.0), np.array([0, 2])), {"labels": {"a": [[1], 2]}}, ConformError, "'a' are not an array"),
        (([[1], [2, 3]], [0, 2]), {}, ConformError, "block 0: values are not an array"),
        (sparse.csr_array(np.arange(3)), {}, OptionError, "block 0 has 1 dimensions; expected a matrix"),
        (([1.0], np.array([2**63], "u8"), [0, 1]), {}, LimitError, "9223372036854775809 columns"),
        (([], [], [0]), {"columns": -1}, LimitError, "-1 columns; expected from 0"),
        ([], {}, OptionError, "there is no block"),
        (["a"], {}, OptionError, "block 0 is of type str"),
        (5, {}, OptionError, "an object of type int"),
        ((np.array(["a"]), np.array([0, 1])), {}, UnsupportedError, "expected numbers"),
    ],
)
def test_what_does_not_fit_together_is_refused_and_nothing_is_left(rows, options, error, text, tmp_path):
    with pytest.raises(error, match=text):
        cfagg.write_rows(rows, tmp_path / "a.zarr", **options)
    assert list(tmp_path.iterdir()) == []


def test_a_row_larger_than_a_chunk_may_be_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("cfagg.conventions.limits.MAX_CHUNK", 100)
    with pytest.raises(LimitError, match="a row or chunk of 160 bytes"):
        cfagg.write_rows((np.arange(20.0), np.array([0, 20])), tmp_path / "a.zarr")


@pytest.mark.parametrize("size", [0, -1])
def test_a_batch_has_a_row(size, store):
    with pytest.raises(OptionError, match="1 row at least"):
        next(cfagg.open_rows(store).batches(size))
