"""The B+tree of the published software."""

from __future__ import annotations

import json

import numpy as np
import pytest
import zarr
from hypothesis import given, settings
from hypothesis import strategies as st

from cfagg.errors import ConventionError, SourceError
from cfagg.observations.cache import DEFAULT_BUDGET, set_cache_size
from cfagg.observations.indexes import btree, open_index, write_btree
from cfagg.observations.indexes.btree import NAME
from tests.effort import examples
from tests.observations.indexes.made import Counting, Store, cut, even, uneven, write
from tests.oracles import btree_pages


def rows_of(path):
    return zarr.open_array(path / NAME, mode="r")


@pytest.mark.few(1)
@pytest.mark.parametrize("n", [1, 255, 256, 257, 512, 70_000])
def test_pages_are_those_of_loading_a_tree_from_sorted_entries(tmp_path, n):
    entries = uneven(n)
    assert write_btree(tmp_path, cut(entries, n // 3, n // 2)) == n
    pages, root = btree_pages([tuple(map(int, e)) for e in zip(*entries, strict=True)], 256)
    found = rows_of(tmp_path)
    assert found.shape == (10866, 772)
    assert found[: len(pages)].tolist() == pages
    assert not found[len(pages) :].any()
    assert dict(found.attrs) == {
        "_ARRAY_DIMENSIONS": ["pages", "payloads"], "root_page_id": root, "number_of_rows": len(pages),
        "page_size": 256, "max_entries": 256, "chunk_sizes": 2**26,
    }  # fmt: skip


@settings(max_examples=examples(40))
@given(st.integers(1, 700), st.integers(4, 9), st.integers(1, 5))
def test_trees_of_any_height_are_loaded_alike(tmp_path_factory, n, room, pieces):
    entries = uneven(n)
    folder = tmp_path_factory.mktemp("tree")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(btree, "PAGE", room)
        patch.setattr(btree, "_CHUNK", {2: 3})
        write_btree(folder, cut(entries, *np.linspace(0, n, pieces + 1, dtype=int)[1:-1]))
    pages, root = btree_pages([tuple(map(int, e)) for e in zip(*entries, strict=True)], room)
    found = rows_of(folder)
    assert found[: len(pages)].tolist() == pages
    assert found.shape[0] == max(3, len(pages))
    assert found.attrs["root_page_id"] == root


def test_the_array_is_laid_out_as_the_published_software_does(tmp_path):
    write_btree(tmp_path, cut(uneven(300)))
    document = json.loads((tmp_path / NAME / ".zarray").read_text())
    compressor = {"id": "blosc", "cname": "lz4", "clevel": 5, "shuffle": 1, "blocksize": 0}
    assert document == {
        "zarr_format": 2, "shape": [10866, 772], "chunks": [10866, 772], "dtype": "<i8", "order": "C",
        "fill_value": 0, "filters": None, "compressor": compressor,
    }  # fmt: skip


def changed(path, n, page, place, value, room=256):
    """A tree with one number of one page changed, counted from 1."""
    store = write(path, "btree", even(n))
    array = zarr.open_array(path / NAME, mode="r+")
    array[page - 1, place] = value
    return store


def test_a_node_that_leads_nowhere_is_named(tmp_path):
    store = changed(tmp_path, 1000, 6, 5, 20_000)
    with pytest.raises(ConventionError, match="leads to page 20,000 of 10,866"):
        open_index(store, "btree").find(300, 301)


def test_nodes_that_lead_in_a_circle_are_refused(tmp_path):
    store = changed(tmp_path, 1000, 6, 5, 6)
    with pytest.raises(ConventionError, match="its nodes form a circle"):
        open_index(store, "btree").find(300, 301)


def test_leaves_that_lead_in_a_circle_are_refused(tmp_path):
    store = changed(tmp_path, 1000, 3, 3, 2)
    assert "entry 512 is wrong" in str(open_index(store, "btree").validate(full=True)[0])


def test_leaves_that_end_before_the_last_one_are_refused(tmp_path):
    # The second leaf leads to none, though the tree has four.
    index = open_index(changed(tmp_path, 1000, 3, 3, 0), "btree")
    with pytest.raises(ConventionError, match="do not agree"):
        index.find(512, 513)


def test_leaves_that_lead_to_a_node_or_in_a_circle_are_not_counted(tmp_path):
    for right, said in ((6, "a leaf has a node at its right"), (2, "its leaves form a circle")):
        index = open_index(changed(tmp_path / str(right), 1000, 3, 3, right), "btree")
        with pytest.raises(ConventionError, match=said):
            assert index.entries


def test_all_entries_are_looked_for_from_the_root_and_some_in_a_sample(tmp_path):
    index = open_index(changed(tmp_path / "node", 1000, 6, 4, 100), "btree")
    assert ["do not agree" in str(found) for found in index.validate(full=True)] == [True]
    index = open_index(changed(tmp_path / "leaf", 1000, 3, 3 * 40 + 6, 999_999), "btree")
    assert ["is wrong" in str(found) for found in index.validate()] == [True]


def test_an_empty_tree_is_refused_for_a_store_with_rows(tmp_path):
    write_btree(tmp_path, [])
    with pytest.raises(ConventionError, match="no entries for 5 rows"):
        open_index(Store(tmp_path, 5), "btree")


def test_an_empty_tree_is_one_page(tmp_path):
    assert write_btree(tmp_path, []) == 0
    found = rows_of(tmp_path)
    assert (found.attrs["root_page_id"], found.attrs["number_of_rows"]) == (1, 1)
    assert open_index(Store(tmp_path, 0), "btree").find(0, 9) == (0, 0)


def test_a_page_is_read_once(tmp_path):
    store = write(tmp_path, "btree", even(1000))
    store.source = Counting(tmp_path)
    index = open_index(store, "btree")
    assert index.find(300, 301) == (300, 301)
    set_cache_size(0)
    try:
        before = store.source.calls
        assert index.find(305, 306) == (305, 306)
        assert store.source.calls == before
    finally:
        set_cache_size(DEFAULT_BUDGET)


def test_keys_that_do_not_agree_with_leaves_are_refused(tmp_path):
    # The node says that the second leaf begins at 200; it does at 256.
    store = changed(tmp_path, 1000, 6, 4, 200)
    with pytest.raises(ConventionError, match="do not agree"):
        open_index(store, "btree").find(210, 220)


@pytest.mark.few(1)
@pytest.mark.parametrize("place", [4, 5, 6])
def test_an_entry_that_lies_is_named(tmp_path, place):
    store = changed(tmp_path, 1000, 3, 3 * 40 + place, 999_999)
    index = open_index(store, "btree")
    assert "is wrong" in str(index.validate(full=True)[0])
    with pytest.raises(ConventionError, match="is wrong"):
        index.find(256 + 38, 256 + 41)


def test_a_page_of_too_many_entries_is_refused(tmp_path):
    store = changed(tmp_path, 1000, 3, 1, 257)
    with pytest.raises(ConventionError, match="page 3 begins with"):
        open_index(store, "btree").find(300, 301)


def test_an_array_without_a_root_is_refused(tmp_path):
    zarr.create_array(tmp_path, name=NAME, data=np.zeros((5, 772), "i8"), zarr_format=2)
    with pytest.raises(SourceError, match="root_page_id None"):
        open_index(Store(tmp_path, 5), "btree")


def test_a_tree_of_other_rows_is_refused(tmp_path):
    write(tmp_path, "btree", even(1000))
    with pytest.raises(ConventionError, match="do not cover 1,001 rows"):
        open_index(Store(tmp_path, 1001), "btree")


def test_a_last_leaf_without_entries_is_refused(tmp_path):
    store = changed(tmp_path, 1000, 5, 1, 0)
    with pytest.raises(ConventionError, match="first and last leaf is empty"):
        open_index(store, "btree")
