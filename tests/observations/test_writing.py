"""Stores written from sorted rows."""

import json

import numpy as np
import pytest
import zarr
from hypothesis import given, settings
from hypothesis import strategies as st

from cfagg.errors import ConventionError, LimitError, TargetExistsError
from cfagg.kernels.lookup import entries_of_rows
from cfagg.observations.layouts import INNER_ROWS, DataLayout
from cfagg.observations.store import open_store
from cfagg.observations.writing import EntryFile, check_variables
from tests import oracles
from tests.effort import examples
from tests.observations.builds import contents
from tests.observations.written import write_rows
from tests.strategies import observation_rows


def some_rows(n=5000, variables=2):
    chance = np.random.default_rng(n)
    rows = np.empty((n, 4 + variables), "f4")
    rows[:, 0], rows[:, 1] = 18262, np.sort(chance.integers(0, 3000, n))
    rows[:, 2:] = chance.uniform(0, 90, (n, 2 + variables)).round(1)
    return oracles.sorted_rows(rows)


def write(path, rows, **options):
    return write_rows(path, [f"v{j}" for j in range(rows.shape[1] - 4)], rows, **options)


@pytest.mark.few(1)
@pytest.mark.parametrize("form", ["zarr2", "cfagg"])
@pytest.mark.parametrize("rows_per_chunk", [None, 1, 999, 5000, 2 * INNER_ROWS])
def test_zarr_reads_what_was_written(tmp_path, form, rows_per_chunk):
    rows = some_rows(900 if rows_per_chunk == 1 else 5000)
    write(tmp_path / "a.zarr", rows, format=form, rows_per_chunk=rows_per_chunk)
    data = zarr.open_group(tmp_path / "a.zarr", mode="r")["data"]
    assert data[:].tobytes() == rows.tobytes()
    chunk = data.shards[0] if form == "cfagg" else data.chunks[0]
    assert chunk == DataLayout.choose(form, len(rows), 6, rows_per_chunk).chunk


@pytest.mark.parametrize("form", ["zarr2", "cfagg"])
@pytest.mark.parametrize("kind", ["bisect", "btree"])
def test_a_written_store_opens_with_index_and_statistics(tmp_path, form, kind):
    rows = some_rows()
    store = open_store(write(tmp_path / "a.zarr", rows, format=form, date_indexing=kind))
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


def test_attributes_can_be_given(tmp_path):
    store = open_store(write_rows(tmp_path / "a.zarr", ["x", "y"], some_rows(), {"description": "Buoys"}))
    assert store.attributes.all["description"] == "Buoys"


def test_a_store_may_have_no_rows_and_no_variables(tmp_path):
    for form in ("zarr2", "cfagg"):
        store = open_store(write(tmp_path / form, np.empty((0, 4), "f4"), format=form))
        assert (store.rows, store.variables, store.span) == (0, (), None)


@pytest.mark.parametrize(
    ("options", "error", "said"),
    [
        ({"format": "zarr4"}, ConventionError, "zarr4"),
        ({"rows_per_chunk": 0}, ConventionError, "1 or more"),
        ({"rows_per_chunk": 2**30}, LimitError, "smaller rows_per_chunk"),
    ],
)
def test_what_no_store_has_is_refused(tmp_path, options, error, said):
    with pytest.raises(error, match=said):
        write(tmp_path / "a.zarr", some_rows(9), **options)
    assert list(tmp_path.iterdir()) == []


def test_a_store_is_replaced_only_if_asked_for_and_when_the_new_one_is_whole(tmp_path):
    path = write(tmp_path / "a.zarr", some_rows())
    before = contents(path)
    with pytest.raises(TargetExistsError):
        write(path, some_rows(9))
    with pytest.raises(LimitError):
        write(path, some_rows(9), overwrite=True, rows_per_chunk=2**30)
    assert contents(path) == before
    write(path, some_rows(9), overwrite=True)
    assert open_store(path).rows == len(some_rows(9))
    assert [p.name for p in tmp_path.iterdir()] == ["a.zarr"]


@pytest.mark.parametrize(("names", "said"), [(["a", "a"], "'a' twice"), (["__date"], "__date")])
def test_names_that_no_store_has_are_refused(names, said):
    with pytest.raises(ConventionError, match=said):
        check_variables(names)


@settings(max_examples=examples(50))
@given(observation_rows(), st.data())
def test_entries_are_the_same_whatever_the_blocks(tmp_path_factory, rows, data):
    rows = oracles.sorted_rows(rows)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(rows)), max_size=5)))
    file = EntryFile(tmp_path_factory.mktemp("entries") / "entries")
    start = 0
    for part in np.split(rows, cuts):
        file.put(*entries_of_rows(part, start))
        start += len(part)
    file.close()
    epochs = rows[:, 0].astype("i8") * 86400 + rows[:, 1].astype("i8")
    found = [e for block in file.blocks(2) for e in zip(*(c.tolist() for c in block), strict=True)]
    values, first, counts = np.unique(epochs, return_index=True, return_counts=True)
    assert found == list(zip(values.tolist(), first.tolist(), counts.tolist(), strict=True))
    assert file.ends == (None if not len(rows) else (epochs[0], epochs[-1]))
