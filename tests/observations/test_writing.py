"""Stores written from sorted rows."""

import json

import numpy as np
import pytest
import zarr
from hypothesis import given, settings
from hypothesis import strategies as st

from cfagg.errors import ConventionError, LimitError, TargetError, TargetExistsError
from cfagg.observations.layouts import INNER_ROWS, DataLayout
from cfagg.observations.store import open_store
from cfagg.observations.writing import EntryFile, StoreWriter
from tests import oracles
from tests.effort import examples
from tests.observations.builds import contents
from tests.strategies import observation_rows


def some_rows(n=5000, variables=2):
    chance = np.random.default_rng(n)
    rows = np.empty((n, 4 + variables), "f4")
    rows[:, 0], rows[:, 1] = 18262, np.sort(chance.integers(0, 3000, n))
    rows[:, 2:] = chance.uniform(0, 90, (n, 2 + variables)).round(1)
    return oracles.sorted_rows(rows)


def write(path, rows, cuts=(), **options):
    with StoreWriter(path, [f"v{j}" for j in range(rows.shape[1] - 4)], **options) as writer:
        for part in np.split(rows, cuts):
            writer.append(part)
        return writer.finish()


@pytest.mark.few(4)
@pytest.mark.parametrize("form", ["zarr2", "cfagg"])
@pytest.mark.parametrize("rows_per_chunk", [None, 1, 999, 5000, 2 * INNER_ROWS])
def test_zarr_reads_what_was_written(tmp_path, form, rows_per_chunk):
    rows = some_rows(900 if rows_per_chunk == 1 else 5000)
    write(tmp_path / "a.zarr", rows, [7, 7, 500], format=form, rows_per_chunk=rows_per_chunk)
    data = zarr.open_group(tmp_path / "a.zarr", mode="r")["data"]
    assert data[:].tobytes() == rows.tobytes()
    chunk = data.shards[0] if form == "cfagg" else data.chunks[0]
    assert chunk == DataLayout.choose(form, len(rows), 6, rows_per_chunk).chunk


@pytest.mark.parametrize("form", ["zarr2", "cfagg"])
def test_how_rows_are_handed_over_changes_nothing(tmp_path, form):
    rows = some_rows()
    attributes = {"uuid": "a"}
    for name, cuts, threads in (("a", [], 1), ("b", [1, 2, 3000], 3)):
        with StoreWriter(tmp_path / name, ["x", "y"], format=form, rows_per_chunk=700, threads=threads) as writer:
            for part in np.split(rows, cuts):
                writer.append(part)
            writer.finish(attributes)
    assert contents(tmp_path / "a") == contents(tmp_path / "b")


@pytest.mark.parametrize("form", ["zarr2", "cfagg"])
@pytest.mark.parametrize("kind", ["bisect", "btree"])
def test_a_written_store_opens_with_index_and_statistics(tmp_path, form, kind):
    rows = some_rows()
    store = open_store(write(tmp_path / "a.zarr", rows, [100], format=form, date_indexing=kind))
    assert store.index().kind == "pages"
    for found in (None, kind):
        index = store.index(found)
        assert not index.validate(full=True)
        lo, hi = 18262 * 86400 + 100, 18262 * 86400 + 900
        assert index.find(lo, hi) == tuple(np.searchsorted(rows[:, 1], [100, 900]).tolist())
    mean, low, high, _, nan = oracles.column_statistics(rows[:, 5])
    assert [store.statistics[k][1] for k in ("mean", "minimum", "maximum", "nan_count")] == [mean, low, high, nan]


def test_metadata_are_those_of_the_published_software(tmp_path):
    path = write(tmp_path / "a.zarr", some_rows())
    assert json.loads((path / "data" / ".zarray").read_text()) == {
        "chunks": [len(some_rows()), 6], "shape": [len(some_rows()), 6], "dtype": "<f4", "fill_value": 0.0,
        "filters": None, "order": "C", "zarr_format": 2,
        "compressor": {"blocksize": 0, "clevel": 3, "cname": "zstd", "id": "blosc", "shuffle": 2},
    }  # fmt: skip
    assert not (path / "data" / ".zattrs").exists()
    assert not (path / ".zmetadata").exists()
    assert json.loads((path / "mean" / ".zattrs").read_text()) == {"_ARRAY_DIMENSIONS": ["variable"]}


def test_attributes_and_statistics_can_be_given(tmp_path):
    with StoreWriter(tmp_path / "a.zarr", ["x", "y"], sidecar=False) as writer:
        writer.append(some_rows())
        writer.finish({"description": "Buoys"}, {"mean": np.array([1.0, 2.0])})
    store = open_store(tmp_path / "a.zarr")
    assert store.attributes.all["description"] == "Buoys"
    assert {k: v.tolist() for k, v in store.statistics.items()} == {"mean": [1.0, 2.0]}
    assert not (tmp_path / "a.zarr" / "index_pages").exists()


def test_a_store_may_have_no_rows_and_no_variables(tmp_path):
    for form in ("zarr2", "cfagg"):
        store = open_store(write(tmp_path / form, np.empty((0, 4), "f4"), format=form))
        assert (store.rows, store.variables, store.span) == (0, (), None)


@pytest.mark.parametrize("cuts", [[], [10], [11]])
def test_rows_out_of_order_are_refused(tmp_path, cuts):
    rows = some_rows()
    rows[[10, 11]] = rows[[11, 10]]
    with pytest.raises(ConventionError, match=r"row 11 .* is not after the row before it"):
        write(tmp_path / "a.zarr", rows, cuts)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("rows", [np.zeros((3, 5), "f4"), np.zeros((3, 6), "f8"), np.zeros(6, "f4")])
def test_rows_of_another_form_are_refused(tmp_path, rows):
    with StoreWriter(tmp_path / "a.zarr", ["x", "y"]) as writer, pytest.raises(ConventionError, match=r"\(rows, 6\)"):
        writer.append(rows)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("options", "error", "said"),
    [
        ({"variables": ["a", "a"]}, ConventionError, "'a' twice"),
        ({"variables": ["__date"]}, ConventionError, "__date"),
        ({"format": "zarr4"}, ConventionError, "zarr4"),
        ({"rows_per_chunk": 0}, ConventionError, "1 or more"),
        ({"rows_per_chunk": 2**30}, LimitError, "smaller rows_per_chunk"),
        ({"date_indexing": "hash"}, ConventionError, "bisect or btree"),
    ],
)
def test_what_no_store_has_is_refused(tmp_path, options, error, said):
    with pytest.raises(error, match=said):
        StoreWriter(tmp_path / "a.zarr", **({"variables": ["a"]} | options))
    assert list(tmp_path.iterdir()) == []


def test_a_store_is_replaced_only_if_asked_for_and_when_the_new_one_is_whole(tmp_path):
    path = write(tmp_path / "a.zarr", some_rows())
    before = contents(path)
    with pytest.raises(TargetExistsError):
        write(path, some_rows(9))
    with StoreWriter(path, ["x", "y"], overwrite=True) as writer:
        writer.append(some_rows(9))
        assert contents(path) == before
        writer.finish()
    assert open_store(path).rows == len(some_rows(9))
    assert [p.name for p in tmp_path.iterdir()] == ["a.zarr"]


def test_two_writers_of_one_store_do_not_meet(tmp_path):
    with StoreWriter(tmp_path / "a.zarr", ["x"]), pytest.raises(TargetError, match="another process"):
        StoreWriter(tmp_path / "a.zarr", ["x"])


@settings(max_examples=examples(50))
@given(observation_rows(), st.data())
def test_entries_are_the_same_whatever_the_blocks(tmp_path_factory, rows, data):
    rows = oracles.sorted_rows(rows)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(rows)), max_size=5)))
    file = EntryFile(tmp_path_factory.mktemp("entries") / "entries")
    start = 0
    for part in np.split(rows, cuts):
        file.add(part, start)
        start += len(part)
    file.close()
    epochs = rows[:, 0].astype("i8") * 86400 + rows[:, 1].astype("i8")
    found = [e for block in file.blocks(2) for e in zip(*(c.tolist() for c in block), strict=True)]
    values, first, counts = np.unique(epochs, return_index=True, return_counts=True)
    assert found == list(zip(values.tolist(), first.tolist(), counts.tolist(), strict=True))
    assert file.ends == (None if not len(rows) else (epochs[0], epochs[-1]))
