"""Rows read back from every form of store, and from damaged ones."""

from __future__ import annotations

import multiprocessing
import pickle
import struct
import threading
import time
import tracemalloc
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numcodecs
import numpy as np
import pytest
import zarr
from hypothesis import given, settings
from hypothesis import strategies as st

from cfagg.errors import FragmentReadError, SelectionError
from cfagg.observations import rows as rows_module
from cfagg.observations.cache import BlockCache
from cfagg.storage.local import LocalSource
from tests.effort import examples
from tests.observations.written import FORMS, Counting, rows_of, values, write_array

VALUES = values()


@pytest.fixture(scope="module")
def stores(tmp_path_factory):
    """One store of each form with the same values."""
    top = tmp_path_factory.mktemp("forms")
    for form in FORMS:
        write_array(top / form, form, VALUES)
    return top


@pytest.fixture(scope="module")
def opened(stores):
    return {form: rows_of(stores / form) for form in FORMS}


def same(found, expected) -> bool:
    return found.dtype == expected.dtype and np.array_equal(found.view("u4"), np.ascontiguousarray(expected).view("u4"))


def objects(store: Path) -> list[Path]:
    """The stored chunks of the rows, the first one first."""
    return sorted(p for p in (store / "data").rglob("*") if p.is_file() and p.name[0] not in ".z")


@pytest.mark.few(6)
@pytest.mark.parametrize("form", FORMS)
def test_the_whole_array_is_read_bit_by_bit(opened, form):
    assert same(opened[form].read(0, 1000), VALUES)


@given(
    form=st.sampled_from(sorted(FORMS)),
    bounds=st.lists(st.integers(0, 1000), min_size=2, max_size=2).map(sorted),
    columns=st.none()
    | st.lists(st.integers(0, 6), max_size=9)
    | st.builds(
        slice, st.none() | st.integers(-9, 9), st.none() | st.integers(-9, 9), st.sampled_from([None, 1, 2, -1])
    ),
)
@settings(max_examples=examples(50))
def test_any_rows_and_columns_are_those_of_the_array(opened, form, bounds, columns):
    start, stop = bounds
    found = opened[form].read(start, stop, columns)
    expected = VALUES[start:stop] if columns is None else VALUES[start:stop][:, columns]
    assert same(found, expected)
    assert found.flags.c_contiguous
    assert found.flags.writeable


@given(ranges=st.lists(st.lists(st.integers(0, 1000), min_size=2, max_size=2).map(sorted), max_size=8))
@settings(max_examples=examples(20))
def test_many_ranges_are_read_as_one_by_one(opened, ranges):
    for form in ("small blocks", "shards", "columns", "big-endian"):
        found = opened[form].read_many(np.array(ranges, np.int64).reshape(-1, 2))
        assert len(found) == len(ranges)
        assert all(same(part, VALUES[a:b]) for part, (a, b) in zip(found, ranges, strict=True))
    assert [p.shape[1] for p in opened["shards"].read_many(ranges, [3, 1])] == [2] * len(ranges)


@pytest.mark.parametrize("form", FORMS)
def test_rows_that_are_not_stored_are_the_fill_value(tmp_path, form):
    present = slice(310, 330)
    write_array(tmp_path / "s", form, VALUES, present=present)
    expected = np.full_like(VALUES, 0.5)
    expected[present] = VALUES[present]
    assert same(rows_of(tmp_path / "s").read(0, 1000), expected)


def test_a_chunk_that_is_not_stored_takes_no_memory_for_rows_beyond_the_array(tmp_path):
    zarr.create_array(
        tmp_path / "s", name="data", shape=(60, 3), chunks=(2**31, 3), dtype="i8", fill_value=7, zarr_format=2
    )
    tracemalloc.start()
    try:
        assert (rows_of(tmp_path / "s").read(5, 60) == np.full((55, 3), 7)).all()
        assert tracemalloc.get_traced_memory()[1] < 2**20
    finally:
        tracemalloc.stop()


@pytest.mark.few(6)
@pytest.mark.parametrize("shuffle", [0, 1, 2])
@pytest.mark.parametrize("codec", ["lz4", "lz4hc", "blosclz", "zlib", "zstd"])
def test_blocks_of_every_codec_and_shuffle_are_decoded_alone(tmp_path, codec, shuffle):
    # Large enough that codecs which split blocks into streams by byte make several blocks, the last one shorter.
    many = values(20001)
    group = zarr.create_group(tmp_path / "s", zarr_format=2)
    packing = numcodecs.Blosc(codec, 1, shuffle, 2**16)
    group.create_array("data", data=many, chunks=(20001, 7), compressors=packing)
    for rows in (rows_of(tmp_path / "s", cached=False) for _ in range(2)):
        for start, stop in ((0, 20001), (20000, 20001), (3000, 3001), (9000, 9900), (18720, 20000)):
            assert same(rows.read(start, stop), many[start:stop])
    stored = objects(tmp_path / "s")[0].read_bytes()
    assert struct.unpack("<I", stored[8:12])[0] < many.nbytes


def test_blocks_may_be_stored_in_any_order(tmp_path):
    # As threads finish them, where Blosc packs with several.
    write_array(tmp_path / "s", "small blocks", VALUES)
    path = objects(tmp_path / "s")[0]
    stored = path.read_bytes()
    starts = np.frombuffer(stored, "<i4", -(-8400 // 1024), 16)
    blocks = [stored[a:b] for a, b in zip(starts, [*starts[1:], len(stored)], strict=True)]
    order = np.random.default_rng(0).permutation(len(blocks))
    moved = np.empty_like(starts)
    moved[order] = starts[0] + np.cumsum([0, *(len(blocks[i]) for i in order)])[:-1]
    path.write_bytes(stored[:16] + moved.tobytes() + b"".join(blocks[i] for i in order))
    assert same(zarr.open_array(tmp_path / "s" / "data", mode="r")[:300], VALUES[:300])
    assert same(rows_of(tmp_path / "s").read(0, 300), VALUES[:300])
    assert same(rows_of(tmp_path / "s").read(111, 190), VALUES[111:190])


def test_what_is_read_belongs_to_the_caller(opened):
    first = opened["published"].read(10, 20)
    first[...] = -1
    assert same(opened["published"].read(10, 20), VALUES[10:20])


def test_an_array_of_one_dimension_is_read_as_one(tmp_path):
    zarr.create_group(tmp_path / "s", zarr_format=2).create_array("data", data=np.arange(10.0), chunks=(4,))
    rows = rows_of(tmp_path / "s")
    assert rows.read(3, 9).tolist() == [3, 4, 5, 6, 7, 8]
    with pytest.raises(SelectionError, match="no columns"):
        rows.read(0, 1, [0])


def test_an_array_of_no_rows_is_read(tmp_path):
    write_array(tmp_path / "s", "published", VALUES[:0])
    rows = rows_of(tmp_path / "s")
    assert rows.read(0, 0).shape == (0, 7)
    assert len(rows) == 0


# ---- what is asked for ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("bounds", [(-1, 3), (5, 4), (0, 1001), (1001, 1001), (0.0, 1), (None, 3), ("0", 1)])
def test_rows_that_are_not_there_are_refused(opened, bounds):
    with pytest.raises(SelectionError):
        opened["published"].read(*bounds)


@pytest.mark.parametrize("columns", [[7], [-1], [[0]], [0.5], ["t"], 3])
def test_columns_that_are_not_there_are_refused(opened, columns):
    with pytest.raises(SelectionError, match="columns"):
        opened["published"].read(0, 3, columns)


def test_ranges_of_another_form_are_refused(opened):
    with pytest.raises(SelectionError, match=r"shape \(m, 2\)"):
        opened["published"].read_many([1, 2, 3])


def test_numpy_integers_select_rows(opened):
    assert same(opened["published"].read(np.int32(3), np.uint64(5)), VALUES[3:5])


# ---- only what is needed ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", ["small blocks", "v3 blosc", "shards", "uncompressed", "uncompressed shards"])
def test_few_rows_need_a_small_part_of_a_chunk(stores, form):
    source = Counting(stores / form)
    rows = rows_of(stores / form, source=source, cached=False)
    rows.read(0, 1)
    before = source.bytes
    assert same(rows.read(150, 160), VALUES[150:160])
    whole = objects(stores / form)[0].stat().st_size
    assert 0 < source.bytes - before < whole / 2


def test_neighbouring_blocks_are_read_by_one_call(stores):
    source = Counting(stores / "small blocks")
    rows = rows_of(stores / "small blocks", source=source, cached=False)
    rows.read(0, 1)
    before = source.calls
    rows.read(20, 250)
    assert source.calls - before == 1


def test_rows_read_twice_are_decoded_once(stores):
    source = Counting(stores / "small blocks")
    rows = rows_of(stores / "small blocks", source=source, cache=BlockCache(2**20))
    rows.read(100, 200)
    before = source.calls
    assert same(rows.read(110, 190), VALUES[110:190])
    assert source.calls == before


def test_threads_that_read_the_same_rows_decode_each_block_once(stores):
    source = Counting(stores / "small blocks")
    rows = rows_of(stores / "small blocks", source=source, cache=BlockCache(2**20))
    rows.read(0, 1)
    rows.read(300, 301)
    start = threading.Barrier(8)

    def read(_):
        start.wait()
        return rows.read(50, 550)

    before = source.bytes
    with ThreadPoolExecutor(8) as pool:
        assert all(same(found, VALUES[50:550]) for found in pool.map(read, range(8)))
    assert source.bytes - before <= sum(p.stat().st_size for p in objects(stores / "small blocks")[:2])


def test_rows_read_ahead_are_in_the_cache(stores):
    source = Counting(stores / "small blocks")
    cache = BlockCache(2**20)
    rows = rows_of(stores / "small blocks", source=source, cache=cache)
    rows.prefetch([[100, 200], [400, 500]])
    assert same(rows.read(100, 200), VALUES[100:200])
    assert same(rows.read(400, 500), VALUES[400:500])
    once = source.bytes
    rows.read_many([[100, 200], [400, 500]])
    assert source.bytes == once


def test_reading_ahead_stays_within_half_of_the_cache(stores):
    cache = BlockCache(2**14)
    rows = rows_of(stores / "small blocks", cache=cache)
    rows.prefetch([[0, 10], [0, 1000], [10, 20]])
    deadline = time.monotonic() + 600
    while len(cache) == 0 and time.monotonic() < deadline:
        time.sleep(0.01)
    time.sleep(0.05)
    assert 0 < cache.used <= 2**13


def test_reading_ahead_does_not_queue_without_end(stores, monkeypatch):
    hold = threading.Event()
    slow = rows_of(stores / "small blocks", cache=BlockCache(2**24))
    monkeypatch.setattr(slow._reader, "fill", lambda *_: hold.wait(600))
    try:
        for _ in range(2000):
            slow.prefetch([[0, 10]])
        queued = rows_module._pools["ahead"]._work_queue.qsize()
    finally:
        hold.set()
    assert 0 < queued <= rows_module._QUEUE


def test_reading_ahead_says_nothing_of_damage_and_reading_does(tmp_path):
    write_array(tmp_path / "s", "small blocks", VALUES)
    rows = rows_of(tmp_path / "s", cache=BlockCache(2**20))
    objects(tmp_path / "s")[0].write_bytes(b"")
    rows.prefetch([[0, 10]])
    with pytest.raises(FragmentReadError, match=r"chunk data/0\.0"):
        rows.read(0, 10)


# ---- other processes --------------------------------------------------------------------------------------------


def _sum_of(rows, start, stop):
    return float(np.nansum(rows.read(start, stop), dtype="f8"))


@pytest.mark.parametrize("form", ["small blocks", "shards", "zarr-python"])
def test_rows_pickle(opened, form):
    again = pickle.loads(pickle.dumps(opened[form]))
    assert same(again.read(123, 456), VALUES[123:456])


@pytest.mark.few(1)
@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_rows_are_read_in_worker_processes(opened, method):
    rows = opened["small blocks"]
    rows.read_many([[0, 500], [500, 1000]])
    ranges = [(i * 100, i * 100 + 150) for i in range(8)]
    with multiprocessing.get_context(method).Pool(2) as pool:
        found = pool.starmap(_sum_of, [(rows, a, b) for a, b in ranges])
    assert found == [float(np.nansum(VALUES[a:b], dtype="f8")) for a, b in ranges]


def _read_forked(rows, queue):
    rows.prefetch([[600, 700]])
    queue.put(all(same(part, VALUES[a : a + 90]) for a, part in ((a, rows.read(a, a + 90)) for a in range(0, 900, 50))))


def test_a_process_forked_while_threads_read_does_not_wait_for_them(stores):
    context = multiprocessing.get_context("fork")
    rows = rows_of(stores / "small blocks", cache=BlockCache(2**14))
    stop = threading.Event()

    def busy():
        while not stop.is_set():
            rows.read(0, 1000)

    threads = [threading.Thread(target=busy) for _ in range(2)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(3):
            queue = context.SimpleQueue()
            child = context.Process(target=_read_forked, args=(rows, queue))
            child.start()
            child.join(600)
            assert child.exitcode == 0
            assert queue.get()
    finally:
        stop.set()
        for thread in threads:
            thread.join()


# ---- damage -----------------------------------------------------------------------------------------------------


@pytest.mark.few(8)
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("left", [0, 10, 0.5, -1])
def test_a_truncated_chunk_is_named(tmp_path, form, left):
    write_array(tmp_path / "s", form, VALUES)
    damaged = objects(tmp_path / "s")[0]
    stored = damaged.read_bytes()
    damaged.write_bytes(stored[: int(left * len(stored)) if left == 0.5 else left])
    with pytest.raises(FragmentReadError) as raised:
        rows_of(tmp_path / "s").read(0, 1000)
    assert str(damaged.relative_to(tmp_path / "s")) in str(raised.value)


@given(
    form=st.sampled_from(["small blocks", "published", "stored by blosc", "shards"]),
    where=st.integers(0, 63) | st.integers(-600, -1),
    byte=st.integers(0, 255),
)
@settings(max_examples=examples(50))
def test_a_garbled_chunk_is_told_or_decodes_to_as_many_rows(tmp_path_factory, form, where, byte):
    store = tmp_path_factory.mktemp("garbled") / "s"
    write_array(store, form, VALUES[:250])
    path = objects(store)[0]
    stored = bytearray(path.read_bytes())
    stored[where % len(stored)] = byte
    path.write_bytes(stored)
    told = ""
    try:
        found = rows_of(store).read(0, 250)
    except FragmentReadError as error:
        told = str(error)
    assert str(path.relative_to(store)) in told if told else found.shape == (250, 7)


@pytest.mark.parametrize(
    ("offset", "value", "message"),
    [
        (4, 8399, "decodes to 8,399 bytes, expected 8,400"),
        (8, 0, "blocks of 0 bytes"),
        (8, 1, "blocks of 1 bytes"),
        (12, 10**6, "its header says 1,000,000"),
        (16, 10**6, "are outside of it"),
        (16, 4, "are outside of it"),
        (16, 2**32 - 1, "are outside of it"),
    ],
)
def test_a_blosc_header_that_lies_is_told(tmp_path, offset, value, message):
    write_array(tmp_path / "s", "small blocks", VALUES)
    path = objects(tmp_path / "s")[0]
    stored = bytearray(path.read_bytes())
    stored[offset : offset + 4] = struct.pack("<I", value)
    path.write_bytes(stored)
    with pytest.raises(FragmentReadError, match=message):
        rows_of(tmp_path / "s").read(0, 10)


def test_a_shard_whose_index_leads_out_of_it_is_told(tmp_path):
    write_array(tmp_path / "s", "shards", VALUES)
    path = objects(tmp_path / "s")[0]
    stored = path.read_bytes()
    import google_crc32c

    index = bytearray(stored[-(8 * 16 + 4) : -4])
    index[0:8] = struct.pack("<Q", len(stored))
    path.write_bytes(stored[: -(8 * 16 + 4)] + index + google_crc32c.value(bytes(index)).to_bytes(4, "little"))
    with pytest.raises(FragmentReadError, match=r"data/c/0/0.*puts chunk 0"):
        rows_of(tmp_path / "s").read(0, 10)


class Short(LocalSource):
    """A file system that gives too little of large pieces."""

    def read_range(self, key, start, count):
        return super().read_range(key, start, count)[: 500 if count > 1000 else count]


@pytest.mark.parametrize("form", ["small blocks", "shards", "uncompressed", "gzip"])
def test_bytes_that_do_not_arrive_are_told(stores, form):
    rows = rows_of(stores / form, source=Short(stores / form))
    with pytest.raises(FragmentReadError, match="it ends before byte"):
        rows.read(0, 1000)


def test_damage_elsewhere_does_not_hinder(tmp_path):
    write_array(tmp_path / "s", "small blocks", VALUES)
    path = objects(tmp_path / "s")[1]
    path.write_bytes(path.read_bytes()[:50])
    assert same(rows_of(tmp_path / "s").read(0, 300), VALUES[:300])


def test_a_chunk_that_was_damaged_is_read_once_it_is_whole_again(tmp_path):
    write_array(tmp_path / "s", "small blocks", VALUES)
    path = objects(tmp_path / "s")[0]
    whole = path.read_bytes()
    path.write_bytes(whole[:100])
    with pytest.raises(FragmentReadError):
        rows_of(tmp_path / "s").read(0, 10)
    path.write_bytes(whole)
    assert same(rows_of(tmp_path / "s").read(0, 10), VALUES[:10])
