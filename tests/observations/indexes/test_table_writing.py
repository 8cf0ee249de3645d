"""Tables that are written aside and get their name when they are whole."""

from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress

import numpy as np
import pytest

from cfagg.errors import ConventionError, TargetError
from cfagg.observations.indexes import open_index, pages_writing, table, write_bisect, write_btree, write_pages
from tests.observations.indexes.made import cut, even, uneven, write

WRITERS = {"bisect": write_bisect, "btree": write_btree, "pages": lambda path, e: write_pages(path, e, identity="")}


def interrupted(entries):
    """Entries of which the second block never comes."""
    yield from cut(entries)
    raise KeyboardInterrupt


@pytest.mark.parametrize("kind", WRITERS)
def test_an_interrupted_write_leaves_nothing(tmp_path, kind):
    with pytest.raises(KeyboardInterrupt):
        WRITERS[kind](tmp_path, interrupted(uneven(9000)))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("kind", WRITERS)
def test_an_interrupted_write_leaves_what_was_there(tmp_path, kind):
    store = write(tmp_path, kind, uneven(100))
    expected = open_index(store, kind).find(50, 500)
    with pytest.raises(KeyboardInterrupt):
        WRITERS[kind](tmp_path, interrupted(even(9000)))
    assert open_index(store, kind).find(50, 500) == expected


@pytest.mark.parametrize("kind", WRITERS)
def test_an_index_is_replaced(tmp_path, kind):
    write(tmp_path, kind, uneven(100))
    store = write(tmp_path, kind, even(50))
    assert open_index(store, kind).entries == 50
    assert len(list(tmp_path.iterdir())) == 2


@pytest.mark.few(1)
@pytest.mark.parametrize("kind", WRITERS)
def test_the_same_entries_always_give_the_same_bytes(tmp_path, kind):
    # Enough blocks of Blosc in a chunk for its threads to overtake each other.
    entries = uneven(300_000)
    for name, pieces in (("a", 1), ("b", 7), ("c", 1)):
        write(tmp_path / name, kind, entries, pieces=pieces)
    files = [{p.relative_to(f): p.read_bytes() for p in f.rglob("*") if p.is_file()} for f in tmp_path.iterdir()]
    assert len(files) == 3
    assert files[0] == files[1] == files[2]


@pytest.mark.parametrize("kind", ["bisect", "btree"])
def test_two_entries_of_one_epoch_are_refused(tmp_path, kind):
    with pytest.raises(ConventionError, match="entry 1 is wrong"):
        WRITERS[kind](tmp_path, cut((np.array([5, 5]), np.array([0, 1]), np.array([1, 1]))))


@pytest.mark.parametrize("kind", WRITERS)
def test_a_place_that_cannot_be_written_is_named(tmp_path, kind):
    (tmp_path / "file").write_text("")
    with pytest.raises(TargetError, match="file"):
        WRITERS[kind](tmp_path / "file", cut(even(5)))


@pytest.mark.parametrize("kind", WRITERS)
def test_a_full_disk_is_an_error_and_leaves_nothing(tmp_path, kind, monkeypatch):
    name = {"bisect": "date_index_ranges", "btree": "date_index_btree", "pages": "index_pages"}[kind]
    made = table.aside

    @contextmanager
    def with_a_full_device(group, target):
        with made(group, target) as path:
            inside = path / ("pages" if kind == "pages" else "")
            inside.mkdir(exist_ok=True)
            (inside / ("0" if kind == "pages" else "0.0")).symlink_to("/dev/full")
            yield path

    for module in (table, pages_writing):
        monkeypatch.setattr(module, "aside", with_a_full_device)
    with pytest.raises(TargetError, match=rf"{name}.*(No space|File exists)"):
        WRITERS[kind](tmp_path, cut(uneven(200_000)))
    assert not (tmp_path / name).exists()


def test_what_a_killed_process_left_is_removed(tmp_path):
    code = f"""
import os
from cfagg.observations.indexes.table import aside
with aside({str(tmp_path)!r}, "index_pages"):
    os._exit(0)
"""
    subprocess.run([sys.executable, "-c", code], check=True)
    assert len(list(tmp_path.glob(".index_pages.cfagg-new-*"))) == 1
    with suppress(RuntimeError), table.aside(tmp_path, "index_pages"):
        raise RuntimeError
    assert list(tmp_path.iterdir()) == []


def test_what_a_living_process_writes_is_left(tmp_path):
    with suppress(RuntimeError), table.aside(tmp_path, "index_pages") as living:
        with suppress(RuntimeError), table.aside(tmp_path, "index_pages"):
            raise RuntimeError
        assert list(tmp_path.glob(".index_pages*")) == [living.parent]
        raise RuntimeError
    assert list(tmp_path.iterdir()) == []


@pytest.mark.few(1)
@pytest.mark.parametrize("kind", WRITERS)
def test_writers_at_the_same_time_do_not_disturb_each_other(tmp_path, kind):
    entries = uneven(3000)
    with ThreadPoolExecutor(4) as pool:
        stores = list(pool.map(lambda i: write(tmp_path, kind, entries, identity=""), range(8)))
    assert open_index(stores[0], kind).validate(full=True) == []
    assert len(list(tmp_path.iterdir())) == 2
