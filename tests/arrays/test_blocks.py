"""Cutting reads into blocks and reading them."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import cfagg.arrays.blocks
from cfagg.arrays.blocks import run, split
from cfagg.arrays.subarray import Fragment
from cfagg.cf.header import Header


def fragment(array, chunks, seen):
    def read(key):
        seen.append(array[tuple(key)].nbytes)
        return array[tuple(key)]

    return Fragment(Header("a.nc", "v", ("x",) * array.ndim, array.shape, array.dtype), chunks, read, "here")


def put(block, view):
    view[...] = block


@given(
    st.lists(st.integers(1, 20), min_size=1, max_size=3),
    st.lists(st.integers(1, 7), min_size=3, max_size=3),
    st.integers(16, 4000),
)
def test_blocks_together_are_the_whole_and_none_is_much_too_large(shape, chunks, limit):
    source = np.arange(np.prod(shape), dtype="i4").reshape(shape)
    out = np.full(shape, -1, "i4")
    seen = []
    before, cfagg.arrays.blocks.BLOCK_BYTES = cfagg.arrays.blocks.BLOCK_BYTES, limit
    try:
        whole = [range(n) for n in shape]
        feeds = [(d, False) for d in range(len(shape))]
        target = [slice(0, n, 1) for n in shape]
        for work in split(whole, feeds, target, fragment(source, tuple(chunks[: len(shape)]), seen), out, put):
            work()
    finally:
        cfagg.arrays.blocks.BLOCK_BYTES = before
    np.testing.assert_array_equal(out, source)
    assert sum(seen) == source.nbytes
    assert max(seen) <= max(limit * 3 // 2, 4 * int(np.prod(chunks[: len(shape)])))


def test_a_cut_falls_between_chunks(monkeypatch):
    monkeypatch.setattr(cfagg.arrays.blocks, "BLOCK_BYTES", 100)
    source = np.arange(60, dtype="i4")
    seen = []
    out = np.empty(60, "i4")
    for work in split([range(60)], [(0, False)], [slice(0, 60, 1)], fragment(source, (12,), seen), out, put):
        work()
    assert [n // 4 for n in seen] == [24, 24, 12]


def test_gaps_within_chunks_are_read_in_blocks_of_bounded_size(monkeypatch):
    monkeypatch.setattr(cfagg.arrays.blocks, "BLOCK_BYTES", 1600)
    monkeypatch.setattr("cfagg.arrays.subarray.GAP_BYTES", 0)
    source = np.arange(20 * 100, dtype="i4").reshape(20, 100)
    seen = []
    columns = np.array([0, 99])
    out = np.empty((20, 2), "i4")
    target = [slice(0, 20, 1), slice(0, 2, 1)]
    feeds = [(0, False), (1, False)]
    for work in split([range(20), columns], feeds, target, fragment(source, (1, 100), seen), out, put):
        work()
    np.testing.assert_array_equal(out, source[:, columns])
    assert seen == [1600] * 5


def test_the_first_error_stops_the_other_blocks_and_is_raised():
    done = []

    def blocks():
        for i in range(100_000):
            yield lambda i=i: work(i)

    def work(i):
        if i == 3:
            raise ValueError("three")
        done.append(i)
        time.sleep(0.0005)

    with pytest.raises(ValueError, match="three"):
        run(blocks(), 2**30, 3)
    assert len(done) < 90_000  # the others go on until this one has told


def test_an_error_of_the_drawing_of_blocks_is_raised_too():
    def blocks():
        yield lambda: None
        raise KeyError("drawn")

    with pytest.raises(KeyError, match="drawn"):
        run(blocks(), 2**30, 2)


def test_small_reads_and_one_worker_stay_in_the_thread_of_the_caller():
    threads = []
    run(iter([lambda: threads.append(threading.get_ident())]), 10, 4)
    run(iter([lambda: threads.append(threading.get_ident())]), 2**30, 1)
    assert set(threads) == {threading.get_ident()}


@pytest.mark.parametrize(("processors", "threads"), [(2, 2), (8, 8), (100, 8)])
def test_without_a_number_of_workers_no_more_than_eight_threads_read(monkeypatch, processors, threads):
    begun = []

    def pool(count, name):
        begun.append(count)
        return ThreadPoolExecutor(count, name)

    monkeypatch.setattr("cfagg.arrays.blocks.processors", lambda: processors)
    monkeypatch.setattr("concurrent.futures.ThreadPoolExecutor", pool)
    run(iter([lambda: None]), 2**30, None)
    run(iter([lambda: None]), 2**30, 12)
    assert begun == [threads, 12]


def test_small_partitions_are_not_spread_over_threads_unless_asked():
    threads = []

    def blocks():
        for _ in range(3):
            yield lambda: threads.append(threading.current_thread())

    run(blocks(), 2**24, None, partitions=2**10)
    assert threads == [threading.main_thread()] * 3
    run(blocks(), 2**24, 2, partitions=2**10)
    assert threading.main_thread() not in threads[3:]
