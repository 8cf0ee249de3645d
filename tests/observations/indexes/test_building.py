"""Making pages of what a store has, and entries of rows."""

from __future__ import annotations

import numpy as np
import pytest
import zarr
from hypothesis import given, settings
from hypothesis import strategies as st

from cfagg.errors import ConventionError, SourceError, TargetError
from cfagg.observations.indexes import build_pages, entries_of_blocks, joined, open_index
from tests import strategies as s
from tests.effort import examples
from tests.observations.indexes.made import Store, cut, even, uneven, write
from tests.observations.indexes.test_pages import files


class Table:
    """Rows in memory."""

    def __init__(self, rows) -> None:
        self.rows = rows

    def read(self, start, stop, columns=None, out=None):
        return self.rows[start:stop, columns]


def rows_of(entries):
    """Rows of observations with these entries."""
    epoch = np.repeat(entries[0], entries[2])
    return np.stack([epoch // 86400, epoch % 86400, epoch * 0], axis=1).astype("f4")


@pytest.mark.few(2)
@pytest.mark.parametrize("zarr_format", [2, 3])
@pytest.mark.parametrize("kind", ["bisect", "btree", "data"])
def test_pages_are_the_same_from_any_index_and_from_rows(tmp_path, kind, zarr_format):
    entries = uneven(5000)
    write(tmp_path / "expected", "pages", entries, zarr_format)
    for name in ("bisect", "btree"):
        store = write(tmp_path / "store", name, entries, zarr_format)
    store.data = Table(rows_of(entries))
    assert build_pages(store, kind) == 5000
    assert files(tmp_path / "store") == files(tmp_path / "expected")


def test_rows_are_read_where_there_is_no_index(tmp_path):
    entries = uneven(50)
    (tmp_path / ".zgroup").write_text("{}")
    store = Store(tmp_path, int(entries[2].sum()))
    store.data = Table(rows_of(entries))
    assert build_pages(store) == 50
    assert open_index(store).validate(full=True) == []


def test_rows_out_of_order_are_named(tmp_path):
    entries = even(50)
    entries[0][30] = 3
    (tmp_path / ".zgroup").write_text("{}")
    store = Store(tmp_path, 50)
    store.data = Table(rows_of(entries))
    with pytest.raises(ConventionError, match="entry 30 is wrong: it has epoch 3"):
        build_pages(store, "data")


def test_an_index_that_lies_makes_no_pages(tmp_path):
    store = write(tmp_path, "bisect", even(1000))
    zarr.open_array(tmp_path / "date_index_ranges", mode="r+")[500] = (500, 500, 3)
    with pytest.raises(ConventionError, match="entry 501 is wrong"):
        build_pages(store)
    assert not (tmp_path / "index_pages").exists()


def test_pages_are_made_again_where_rows_were_written_since(tmp_path):
    write(tmp_path, "pages", even(10))
    store = write(tmp_path, "bisect", even(20), identity="rows written since")
    assert build_pages(store) == 20
    assert open_index(store).kind == "pages"


def test_a_store_that_is_no_directory_is_refused():
    class Remote:
        path, rows, identity = "https://example.org/a.zarr", 5, ""

    with pytest.raises(TargetError, match="not a directory of this machine"):
        build_pages(Remote())


def test_a_directory_that_is_no_store_is_refused(tmp_path):
    with pytest.raises(SourceError, match=r"neither \.zgroup nor zarr\.json"):
        build_pages(Store(tmp_path, 5))


@settings(max_examples=examples(40))
@given(s.index_entries(most=60, distinct=True), st.data())
def test_entries_of_blocks_do_not_depend_on_the_blocks(entries, data):
    entries = entries[0] % 10**9, entries[1], np.minimum(entries[2], 4)
    epoch, length = np.unique(np.repeat(entries[0], entries[2]), return_counts=True)
    rows = rows_of((epoch, None, length))
    places = sorted(data.draw(st.lists(st.integers(0, len(rows)), max_size=6)))
    found = list(entries_of_blocks(np.split(rows, places)))
    expected = (epoch, np.cumsum(length) - length, length)
    for i, column in enumerate(expected):
        assert [x for block in found for x in block[i].tolist()] == column.tolist()


@settings(max_examples=examples(40))
@given(st.lists(st.integers(0, 3), max_size=12), st.data())
def test_joining_leaves_no_epoch_twice_at_ends_of_blocks(epochs, data):
    epochs = np.sort(np.array(epochs, np.int64))
    places = sorted(data.draw(st.lists(st.integers(0, len(epochs)), max_size=4)))
    runs, at = [], 0
    for part in np.split(epochs, places):
        values, start, count = np.unique(part, return_index=True, return_counts=True)
        runs.append((values, start + at, count))
        at += len(part)
    found = list(joined(runs))
    values, start, count = np.unique(epochs, return_index=True, return_counts=True)
    for i, column in enumerate((values, start, count)):
        assert [x for block in found for x in block[i].tolist()] == column.tolist()
    assert cut((values, start, count))
