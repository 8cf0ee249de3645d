"""The table of the published software."""

from __future__ import annotations

import json

import numpy as np
import pytest
import zarr

from cfagg.errors import ConventionError, FragmentReadError, SourceError
from cfagg.observations.cache import DEFAULT_BUDGET, set_cache_size
from cfagg.observations.indexes import bisect, open_index, table, write_bisect
from cfagg.observations.indexes.bisect import NAME
from tests.observations.indexes.made import Counting, Store, cut, even, uneven, write
from tests.oracles import rows_between


def test_the_table_is_laid_out_as_the_published_software_does(tmp_path):
    entries = uneven(700)
    assert write_bisect(tmp_path, cut(entries, 10, 300)) == 700
    document = json.loads((tmp_path / NAME / ".zarray").read_text())
    compressor = {"id": "blosc", "cname": "lz4", "clevel": 5, "shuffle": 1, "blocksize": 0}
    assert document == {
        "zarr_format": 2, "shape": [700, 3], "chunks": [2796202, 3], "dtype": "<i8", "order": "C", "fill_value": 0,
        "filters": None, "compressor": compressor,
    }  # fmt: skip
    assert sorted(p.name for p in (tmp_path / NAME).iterdir()) == [".zarray", ".zattrs", "0.0"]
    assert (zarr.open_array(tmp_path / NAME, mode="r")[:] == np.stack(entries, axis=1)).all()


def test_a_table_of_zarr_v3_is_read_by_zarr(tmp_path):
    entries = uneven(700)
    write_bisect(tmp_path, cut(entries), zarr_format=3)
    array = zarr.open_array(tmp_path / NAME, mode="r")
    assert array.metadata.dimension_names == ("entry", "column")
    assert (array[:] == np.stack(entries, axis=1)).all()


def test_a_search_reads_little_of_a_large_chunk(tmp_path):
    entries = uneven(1_000_000)
    store = write(tmp_path, "bisect", entries)
    store.source = Counting(tmp_path)
    index = open_index(store, "bisect")
    epoch = int(entries[0][345_678])
    assert index.find(epoch, epoch + 1) == (entries[1][345_678], entries[1][345_679])
    assert 0 < store.source.count < (tmp_path / NAME / "0.0").stat().st_size / 3


def test_a_window_near_an_earlier_one_reads_nothing(tmp_path):
    entries = uneven(100_000)
    store = write(tmp_path, "bisect", entries)
    store.source = Counting(tmp_path)
    index = open_index(store, "bisect")
    set_cache_size(0)
    try:
        assert index.find(1_000_000, 1_001_000) == tuple(rows_between(*entries, 1_000_000, 1_001_000))
        before = store.source.calls
        for at in range(999_000, 1_002_000, 100):
            assert index.find(at, at + 1000) == tuple(rows_between(*entries, at, at + 1000))
        assert store.source.calls == before
    finally:
        set_cache_size(DEFAULT_BUDGET)


def test_blocks_that_are_kept_stay_within_their_room(tmp_path, monkeypatch):
    monkeypatch.setattr(bisect, "_BLOCK", 64)
    monkeypatch.setattr(table, "_CACHED", 10_000)
    monkeypatch.setattr(bisect, "_PROBES", 3)
    entries = uneven(5000)
    index = open_index(write(tmp_path, "bisect", entries), "bisect")
    for at in np.random.default_rng(1).integers(-50, entries[0][-1] + 50, 300).tolist():
        assert index.find(at, at + 99) == tuple(rows_between(*entries, at, at + 99))
        assert sum(b.epochs.nbytes + b.starts.nbytes + table._EACH for b in index._cached.values()) <= 10_000
        assert len(index._probes) <= 3


@pytest.mark.few(1)
@pytest.mark.parametrize("step", [2**18, 2**33, 2**40])
@pytest.mark.parametrize("length", [2**18, 2**21])
def test_epochs_and_rows_beyond_32_bits_are_found(tmp_path, step, length):
    number = np.arange(17_000)
    entries = number * step - 2**43, number * length, np.full(17_000, length)
    index = open_index(write(tmp_path, "bisect", entries), "bisect")
    for i in (0, 1, 4096, 8191, 8192, 8193, 16_383, 16_384, 16_999):
        for lo in (-1, 0, 1):
            at = int(entries[0][i]) + lo
            expected = tuple(rows_between(*entries, at, at + step))
            assert index.find(at, at + step) == expected
            assert index.find_many([at], [at + step]).tolist() == [list(expected)]


def test_a_table_that_changes_while_it_is_searched_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(bisect, "_BLOCK", 64)
    before, after = even(640, step=10), (np.append(np.arange(639), 6390), *even(640)[1:])
    index = open_index(write(tmp_path / "before", "bisect", before), "bisect")
    # The first epochs of blocks are known from now on.
    assert index.find(3195, 3205) == (320, 321)
    monkeypatch.setattr(index, "_table", open_index(write(tmp_path / "after", "bisect", after), "bisect")._table)
    index._cached.clear()
    for ask in (lambda: index.find(3250, 3260), lambda: index.find_many([3250], [3260])):
        with pytest.raises(ConventionError, match=r"epoch 3250 is looked for: .* build the index again"):
            ask()


@pytest.mark.few(2)
@pytest.mark.parametrize(
    ("row", "value"),
    [(500, (0, 0, 0)), (500, (10**9, 500, 1)), (500, (500, 501, 1)), (500, (500, 500, 7)), (500, (500, 500, -1))],
    ids=["zeros", "epoch", "start", "length", "negative"],
)
def test_an_entry_that_lies_is_named(tmp_path, row, value):
    store = write(tmp_path, "bisect", even(1000))
    array = zarr.open_array(tmp_path / NAME, mode="r+")
    array[row] = value
    index = open_index(store, "bisect")
    problems = index.validate(full=True)
    assert len(problems) == 1
    assert "entry 500 is wrong" in str(problems[0]) or "entry 501 is wrong" in str(problems[0])
    # A search that comes by finds it, too.
    with pytest.raises(ConventionError, match="entry"):
        index.find_many(np.arange(480, 520), np.arange(481, 521))


def test_a_table_of_other_rows_is_refused(tmp_path):
    write(tmp_path, "bisect", even(1000))
    with pytest.raises(ConventionError, match="do not cover 999 rows"):
        open_index(Store(tmp_path, 999), "bisect")


def test_an_empty_table_is_refused_for_a_store_with_rows(tmp_path):
    write(tmp_path, "bisect", even(0))
    assert open_index(Store(tmp_path, 0), "bisect").find(0, 9) == (0, 0)
    with pytest.raises(ConventionError, match="no entries for 5 rows"):
        open_index(Store(tmp_path, 5), "bisect")


def test_a_table_of_other_columns_is_refused(tmp_path):
    zarr.create_array(tmp_path, name=NAME, data=np.zeros((5, 2), "i8"), zarr_format=2)
    with pytest.raises(SourceError, match="2 columns"):
        open_index(Store(tmp_path, 5), "bisect")


def test_a_table_that_is_no_integers_is_refused(tmp_path):
    zarr.create_array(tmp_path, name=NAME, data=np.zeros((5, 3), "f8"), zarr_format=2)
    with pytest.raises(SourceError, match="expected a table of int64"):
        open_index(Store(tmp_path, 5), "bisect")


def test_a_truncated_chunk_is_named(tmp_path):
    store = write(tmp_path, "bisect", uneven(5000))
    chunk = tmp_path / NAME / "0.0"
    chunk.write_bytes(chunk.read_bytes()[:-100])
    with pytest.raises(FragmentReadError, match="date_index_ranges"):
        open_index(store, "bisect")


@pytest.mark.few(2)
@pytest.mark.parametrize(
    ("first", "shift", "said"),
    [
        (0, 5, "the entry of row 5 of 1,000: entries do not agree"),
        (192, -1000, "the entry of row -808 of 1,000: entries do not agree"),
        (192, 808, "the entry of row 1,000 of 1,000: entries do not agree"),
        (192, 750, "the entry of row 942: its entries end at row 1,007 of 1,000"),
    ],
)
def test_a_block_whose_rows_are_not_those_of_the_store_is_refused(tmp_path, monkeypatch, first, shift, said):
    monkeypatch.setattr(bisect, "_BLOCK", 64)
    index = open_index(write(tmp_path, "bisect", even(1000)), "bisect")
    # Its ends were looked at when it was opened; the middle is where it is read.
    table = zarr.open_array(tmp_path / NAME, mode="r")[:]
    table[first : first + 65, 1] += shift
    monkeypatch.setattr(type(index._table), "read", lambda self, start, stop: table[start:stop])
    with pytest.raises(ConventionError, match=said):
        index.find(first + 30, first + 31)
