"""Indexes of a small store of the published software, and the same entries written here."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import zarr

from cfagg.observations.indexes import build_pages, open_index, write_bisect, write_btree
from cfagg.observations.store import open_store

PUBLISHED = Path(__file__).parents[1] / "published"

CASES = [("bisect", "date_index_ranges", write_bisect), ("btree", "date_index_btree", write_btree)]


@pytest.mark.few(1)
@pytest.mark.parametrize(("kind", "name", "write"), CASES)
def test_the_same_entries_give_the_same_array(tmp_path, kind, name, write):
    theirs = PUBLISHED / f"{kind}.zarr"
    write(tmp_path, open_index(open_store(theirs), kind).blocks())
    found, expected = (zarr.open_array(path / name, mode="r") for path in (tmp_path, theirs))
    assert (found[:] == expected[:]).all()
    assert found.attrs.get("root_page_id") == expected.attrs.get("root_page_id")
    documents = [json.loads((path / name / ".zarray").read_text()) for path in (tmp_path, theirs)]
    assert documents[0] == documents[1]


@pytest.mark.parametrize("kind", ["bisect", "btree"])
def test_pages_made_of_theirs_are_those_made_of_the_rows(tmp_path, kind):
    made = []
    for made_of in (kind, "data"):
        shutil.copytree(PUBLISHED / f"{kind}.zarr", tmp_path / made_of)
        store = open_store(tmp_path / made_of)
        build_pages(store, made_of)
        folder = tmp_path / made_of / "index_pages"
        made.append({p.relative_to(folder): p.read_bytes() for p in folder.rglob("*") if p.is_file()})
    assert made[0] == made[1]
    index = open_index(store)
    assert index.kind == "pages"
    lo = np.random.default_rng(0).integers(index.first - 9999, index.last + 9999, 200)
    assert (index.find_many(lo, lo + 9999) == open_index(store, kind).find_many(lo, lo + 9999)).all()
