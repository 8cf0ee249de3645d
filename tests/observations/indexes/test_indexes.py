"""What all kinds of indexes have in common."""

from __future__ import annotations

import pickle
import tempfile
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cfagg.observations.indexes import bisect, btree, open_index, pages_writing, table
from cfagg.observations.indexes.protocol import Index
from tests import strategies as s
from tests.effort import examples
from tests.observations.indexes.made import uneven, write
from tests.oracles import rows_between

KINDS = ("pages", "bisect", "btree")


@pytest.fixture(scope="module", autouse=True)
def _small():
    """Let small examples have many chunks, pages and levels."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bisect, "_CHUNK", {2: 100, 3: 64})
        patch.setattr(bisect, "_BLOCK", 16)
        patch.setattr(table, "_CACHED", 5 * (table._EACH + 136))
        patch.setattr(bisect, "_PROBES", 7)
        patch.setattr(btree, "PAGE", 5)
        patch.setattr(btree, "_CHUNK", {2: 7, 3: 11})
        patch.setattr(pages_writing, "PAGE", 64)
        yield


@pytest.mark.few(1)
@settings(max_examples=examples(40))
@given(s.index_entries(most=600), st.data())
@pytest.mark.parametrize("kind", KINDS)
def test_windows_are_those_of_a_scan(kind, entries, data):
    if kind != "pages":
        entries = data.draw(s.index_entries(most=600, distinct=True))
    lo, hi = data.draw(s.intervals(entries[0]))
    zarr_format, pieces = data.draw(st.sampled_from([2, 3])), data.draw(st.integers(1, 4))
    with tempfile.TemporaryDirectory() as folder:
        index = open_index(write(folder, kind, entries, zarr_format, pieces), kind)
        expected = [list(rows_between(*entries, a, b)) for a, b in zip(lo.tolist(), hi.tolist(), strict=True)]
        assert index.find_many(lo, hi).tolist() == expected
        assert [list(index.find(a, b)) for a, b in zip(lo.tolist(), hi.tolist(), strict=True)] == expected


@pytest.mark.few(1)
@settings(max_examples=examples(20))
@given(s.index_entries(most=600, distinct=True), st.data())
@pytest.mark.parametrize("kind", KINDS)
def test_entries_come_back(kind, entries, data):
    lo, hi = data.draw(s.intervals(entries[0]))
    with tempfile.TemporaryDirectory() as folder:
        index = open_index(write(folder, kind, entries, data.draw(st.sampled_from([2, 3]))), kind)
        for a, b in zip(lo.tolist(), hi.tolist(), strict=True):
            keep = (entries[0] >= a) & (entries[0] < b)
            found = index.entries_between(a, b)
            assert [c.tolist() for c in found] == [c[keep].tolist() for c in entries]
        blocks = list(index.blocks())
        for i, column in enumerate(entries):
            assert [x for block in blocks for x in block[i].tolist()] == column.tolist()
        ends = (entries[0][0], entries[0][-1]) if len(entries[0]) else (None, None)
        assert (index.first, index.last) == ends
        assert (index.kind, index.entries, index.rows) == (kind, len(entries[0]), entries[2].sum())
        assert index.validate() == index.validate(full=True) == []


@pytest.mark.parametrize("kind", KINDS)
def test_an_index_pickles(kind, tmp_path):
    index = open_index(write(tmp_path, kind, uneven(300)), kind)
    again = pickle.loads(pickle.dumps(index))
    assert isinstance(again, Index)
    assert again.find(500, 900) == index.find(500, 900)
    assert again.entries == 300


@pytest.mark.few(1)
@pytest.mark.parametrize("kind", KINDS)
def test_threads_may_ask_together(kind, tmp_path):
    index = open_index(write(tmp_path, kind, uneven(2000)), kind)
    asked = np.random.default_rng(0).integers(0, 50_000, (400, 2)).tolist()
    expected = [index.find(a, b) for a, b in asked]
    fresh = pickle.loads(pickle.dumps(index))
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(lambda pair: fresh.find(*pair), asked)) == expected


@pytest.mark.parametrize("kind", KINDS)
def test_numbers_of_numpy_and_ends_beyond_all_dates_are_taken(kind, tmp_path):
    entries = uneven(50)
    index = open_index(write(tmp_path, kind, entries), kind)
    rows = int(entries[2].sum())
    assert index.find(np.int64(-5), np.int32(2**30)) == (0, rows)
    assert index.find(-(2**80), 2**80) == (0, rows)
    assert index.find_many([-(2**62)], [2**62]).tolist() == [[0, rows]]
    assert index.find_many([], []).shape == (0, 2)


@pytest.mark.parametrize("kind", KINDS)
def test_ends_that_are_no_integers_are_refused(kind, tmp_path):
    index = open_index(write(tmp_path, kind, uneven(5)), kind)
    with pytest.raises(ValueError, match="columns of integers, found float64"):
        index.find_many([1.5], [2.5])
    with pytest.raises(ValueError, match="2 starts and 1 ends"):
        index.find_many([1, 2], [3])
