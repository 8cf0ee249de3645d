"""Which objects a listing finds: those that zarr-python has written, or none where the listing is not sure."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr
from hypothesis import given
from hypothesis import strategies as st

from cfagg.formats.zarr.metadata import open_array
from cfagg.formats.zarr.stored import stored_few

KEYS: list[dict[str, Any]] = [
    {"zarr_format": version, "chunk_key_encoding": {"name": name, "separator": separator}}
    for version, name in [(2, "v2"), (3, "v2"), (3, "default")]
    for separator in "./"
]


@given(st.data())
def test_all_chunks_that_zarr_python_wrote_are_found(tmp_path_factory: Any, data: st.DataObject) -> None:
    folder = tmp_path_factory.mktemp("any")
    chunks = data.draw(st.lists(st.integers(1, 12), min_size=1, max_size=3).map(tuple))
    path = data.draw(st.sampled_from(["", "tas", "a/täs"]))
    options = dict(data.draw(st.sampled_from(KEYS)))
    if options["zarr_format"] == 3 and data.draw(st.booleans()):
        options["shards"] = (2,) * len(chunks)
        shape = tuple(2 * n for n in chunks)
    else:
        shape = chunks
    made = zarr.create_array(
        str(folder), name=path or None, shape=shape, chunks=(1,) * len(shape), dtype="i2", **options
    )
    cells = data.draw(st.sets(st.tuples(*(st.integers(0, n - 1) for n in shape)), max_size=6))
    for cell in cells:
        made[cell] = 1
    each = 2 if "shards" in options else 1
    found = stored_few(open_array(folder, path), 100)
    assert found is not None
    assert sorted(map(tuple, found.tolist())) == sorted({tuple(n // each for n in cell) for cell in cells})


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = zarr.create_array(str(tmp_path / "a.zarr"), name="tas", shape=(9, 9), chunks=(1, 1), dtype="i2")
    made[2, 3] = made[2, 4] = made[7, 0] = 1
    return tmp_path / "a.zarr/tas"


def found(folder: Path, most: int = 100) -> Any:
    return stored_few(open_array(folder.parent, "tas"), most)


def test_more_than_few_are_not_listed(folder: Path) -> None:
    assert len(found(folder, 8)) == 3
    assert found(folder, 2) is None


def linked(path: Path) -> None:
    path.rename(path.parents[2] / "elsewhere")
    path.symlink_to(path.parents[2] / "elsewhere")


ODD: dict[str, Callable[[Path], Any]] = {
    "a chunk that is a link": lambda tas: linked(tas / "c/2/3"),
    "a directory that is a link": lambda tas: linked(tas / "c/2"),
    "all chunks behind a link": lambda tas: linked(tas / "c"),
    "a directory in the place of a chunk": lambda tas: (tas / "c/5/5").mkdir(parents=True),
    "a file in the place of a directory": lambda tas: (tas / "c/5").touch(),
    "an index in other digits": lambda tas: (tas / "c/2/٤").touch(),
    "an index with a zero before": lambda tas: (tas / "c/2/05").touch(),
    "a name in capitals": lambda tas: (tas / "c").rename(tas / "C"),
    "an index beyond all": lambda tas: (tas / "c/2" / ("9" * 30)).touch(),
    "a name that is no text": lambda tas: (tas / "c/2/\udcff").touch(),
}


@pytest.mark.parametrize("odd", ODD)
def test_a_listing_with_anything_odd_does_not_count(folder: Path, odd: str) -> None:
    assert found(folder) is not None
    ODD[odd](folder)
    assert found(folder) is None


def test_an_array_that_is_gone_or_lies_behind_a_link_is_not_listed(folder: Path) -> None:
    array = open_array(folder.parent, "tas")
    linked(folder)
    assert stored_few(array, 100) is None
    shutil.rmtree(folder.parent)
    assert stored_few(array, 100) is None


def test_an_array_of_which_nothing_is_stored_has_no_objects(tmp_path: Path) -> None:
    zarr.create_array(str(tmp_path), name="tas", shape=(5, 6, 7), chunks=(1, 1, 1), dtype="i2")
    assert np.array_equal(stored_few(open_array(tmp_path, "tas"), 0), np.empty((0, 3)))
