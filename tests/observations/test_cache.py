"""The cache of decoded blocks."""

from __future__ import annotations

import os
import threading

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cfagg.errors import CfaggError
from cfagg.observations.cache import BlockCache, Loading, set_cache_size, shared_cache
from tests.effort import examples


def block(size: int, value: int = 0) -> np.ndarray:
    return np.full(size, value, np.uint8)


def put(cache: BlockCache, key, size: int) -> None:
    _, mine, loading = cache.claim([key])
    if mine:
        cache.settle(loading, [key], {key: block(size)})


@given(
    budget=st.integers(0, 40),
    steps=st.lists(st.tuples(st.integers(0, 9), st.integers(1, 12)), max_size=40),
)
@settings(max_examples=examples(50))
def test_the_most_recently_used_blocks_that_fit_are_kept(budget, steps):
    cache = BlockCache(budget)
    model: dict[int, int] = {}  # the oldest first
    for key, size in steps:
        assert (cache.claim([]), cache.used) == (([], [], None), sum(model.values()))
        known = model.pop(key, None)
        put(cache, key, size)
        if known is not None:
            model[key] = known
        elif 2 * size <= budget:
            model[key] = size
            while sum(model.values()) > budget:
                del model[next(iter(model))]
    held, mine, _ = cache.claim(list(range(10)))
    assert sorted(set(range(10)) - set(mine)) == sorted(model)
    assert all(isinstance(held[i], Loading) for i in mine)
    assert cache.used <= budget


def test_a_cache_of_no_bytes_keeps_nothing():
    cache = BlockCache(0)
    put(cache, "a", 1)
    assert (len(cache), cache.used) == (0, 0)


def test_what_another_thread_loads_is_waited_for():
    cache = BlockCache(100)
    _, mine, loading = cache.claim(["a", "b"])
    assert mine == [0, 1]
    held, others, own = cache.claim(["b"])
    assert (others, own) == ([], None)
    seen = []
    waiter = threading.Thread(target=lambda: (held[0].done.wait(600), seen.append(held[0].found["b"][0])))
    waiter.start()
    cache.settle(loading, ["a", "b"], {"a": block(3), "b": block(3, 7)})
    waiter.join()
    assert seen == [7]


def test_after_a_failure_the_next_one_loads():
    cache = BlockCache(100)
    _, _, loading = cache.claim(["a"])
    cache.settle(loading, ["a"], {})
    assert loading.done.is_set()
    assert cache.claim(["a"])[1] == [0]


def test_a_smaller_budget_drops_the_oldest():
    cache = BlockCache(100)
    for key in "abcd":
        put(cache, key, 20)
    cache.claim(["a"])
    cache.resize(45)
    assert cache.claim(list("abcd"))[1] == [1, 2]
    cache.clear()
    assert cache.used == 0


def test_the_size_of_the_shared_cache_can_be_set():
    before = shared_cache.budget
    try:
        set_cache_size(1000)
        assert shared_cache.budget == 1000
    finally:
        set_cache_size(before)


@pytest.mark.parametrize("size", [-1, 1.5, "1GB", True, None])
def test_a_size_that_is_none_is_refused(size):
    with pytest.raises(CfaggError, match="number of bytes"):
        set_cache_size(size)


def test_a_forked_process_has_what_its_parent_had_and_loads_what_was_being_loaded():
    cache = BlockCache(100)
    put(cache, "kept", 10)
    cache.claim(["being loaded"])
    child = os.fork()
    if not child:
        held, mine, _ = cache.claim(["kept", "being loaded"])
        os._exit(0 if mine == [1] and held[0].size == 10 else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert cache.claim(["being loaded"])[1] == []
