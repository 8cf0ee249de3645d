"""Index pages: what they take, and that they are never believed where they are not right."""

from __future__ import annotations

import json
import pickle
import shutil
import subprocess
import sys
import zlib
from pathlib import Path

import numpy as np
import pytest
import zarr

from cfagg.errors import ConventionError, FragmentReadError, SourceError, StaleError, StaleIndexWarning
from cfagg.observations.indexes import open_index, pages, write_bisect, write_pages
from cfagg.observations.indexes.pages import PagesIndex
from cfagg.observations.indexes.pages_writing import NAME
from tests.observations.indexes.made import Counting, Store, cut, even, uneven, write


def files(path):
    """All files of the pages with their bytes."""
    return {p.relative_to(path): p.read_bytes() for p in (path / NAME).rglob("*") if p.is_file()}


def stored_pages(path):
    return next(p for p in (path / NAME).rglob("0") if "pages_" in str(p.relative_to(path / NAME)))


def test_the_bytes_do_not_depend_on_how_entries_come(tmp_path):
    entries = tuple(np.concatenate([a, b]) for a, b in zip(even(9000), even(100), strict=True))
    epoch = np.cumsum(np.where(np.arange(9100) % 700, 1, 90))
    entries = (epoch, np.arange(9100), np.ones(9100, np.int64))
    write(tmp_path / "a", "pages", entries, pieces=1)
    write(tmp_path / "b", "pages", entries, pieces=5)
    write_pages(tmp_path / "c", cut(entries, *range(1, 300)), identity="rows as they are")
    assert files(tmp_path / "a") == files(tmp_path / "b") == files(tmp_path / "c")


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_pages_are_a_plain_group_of_arrays(tmp_path, zarr_format):
    write(tmp_path, "pages", uneven(10_000), zarr_format)
    group = zarr.open_group(tmp_path, mode="r")[NAME]
    assert group.attrs["format"] == "cfagg index pages 1"
    assert group.attrs["entries"] == 10_000
    directory = group[f"directory_{group.attrs['directory_crc32']:08x}"]
    assert directory.shape == (2, 4)
    raw = group[group.attrs["name"]][:]
    assert raw.dtype == np.uint8
    assert raw.tobytes() == stored_pages(tmp_path).read_bytes()
    assert directory[1, -1] == len(raw)


def test_entries_that_go_on_in_equal_steps_take_one_page(tmp_path):
    store = write(tmp_path, "pages", even(100_000, 60, 3))
    assert sum(len(raw) for raw in files(tmp_path).values()) < 3000
    assert open_index(store).find(60 * 99_998, 60 * 99_999) == (3 * 99_998, 3 * 99_999)


def test_irregular_entries_take_few_bits(tmp_path):
    rng = np.random.default_rng(0)
    epoch, length = np.cumsum(rng.integers(0, 16, 100_000)), rng.integers(1, 9, 100_000)
    write(tmp_path, "pages", (epoch, np.cumsum(length) - length, length))
    # Four bits of a step and three of a length.
    assert stored_pages(tmp_path).stat().st_size * 8 / 100_000 < 7.5


def test_a_window_reads_two_pages_at_most(tmp_path):
    store = write(tmp_path, "pages", uneven(200_000))
    index = open_index(store)
    index._source = Counting(tmp_path)
    index.find(2_000_000, 2_010_800)
    assert index._source.calls <= 2
    assert index._source.count < 2 * 4096 * 9 / 8 + 2000


def test_many_windows_are_read_in_few_calls(tmp_path):
    entries = uneven(200_000)
    index = open_index(write(tmp_path, "pages", entries))
    index._source = Counting(tmp_path)
    lo = np.arange(0, entries[0][-1], 500)
    index.find_many(lo, lo + 900)
    assert index._source.calls <= 2


def test_the_same_is_found_with_and_without_a_compiler(tmp_path, monkeypatch):
    entries = uneven(20_000)
    store = write(tmp_path, "pages", entries)
    asked = np.random.default_rng(0).integers(0, entries[0][-1], (200, 2))
    found = []
    for many in (10**9, 0):
        for name in ("_MANY", "_SOME"):
            monkeypatch.setattr(pages, name, many)
        monkeypatch.setattr(pages, "_compiled", None)
        index = open_index(store)
        found += [index.find_many(*asked.T).tolist(), [list(index.find(a, b)) for a, b in asked.tolist()]]
        assert (pages._compiled is None) == (many > 0)
    assert found[1:] == found[:-1]


@pytest.mark.full
def test_a_compiler_is_loaded_for_many_look_ups(tmp_path):
    write(tmp_path, "pages", uneven(20_000))
    code = f"""
import sys
from cfagg.observations.indexes import open_index, pages
from tests.observations.indexes.made import Store
index = open_index(Store({str(tmp_path)!r}, {int(uneven(20_000)[2].sum())}))
found = {{index.find(100, 200) for _ in range(300)}}
assert "numba" not in sys.modules
pages._MANY = 400
found |= {{index.find(100, 200) for _ in range(300)}}
assert "numba" in sys.modules
assert len(found) == 1
"""
    subprocess.run([sys.executable, "-c", code], check=True, cwd=Path(__file__).parents[3])


def test_pages_of_other_rows_are_stale(tmp_path):
    write(tmp_path, "pages", even(10))
    with pytest.raises(StaleError, match="10 rows, but the store has changed"):
        PagesIndex(Store(tmp_path, 10, "other rows"))
    with pytest.raises(StaleError, match="rebuild them with build_pages"):
        PagesIndex(Store(tmp_path, 11))


def test_stale_pages_are_passed_over_with_a_warning(tmp_path):
    write(tmp_path, "pages", even(10))
    store = write(tmp_path, "bisect", even(10), identity="rows written since")
    with pytest.warns(StaleIndexWarning, match="until then the slower index"):
        assert open_index(store).kind == "bisect"


def test_a_store_with_nothing_but_stale_pages_does_not_open(tmp_path):
    write(tmp_path, "pages", even(10))
    with pytest.raises(StaleError):
        open_index(Store(tmp_path, 10, "other rows"))


@pytest.mark.parametrize("where", [0, 8, 16, 24, 48, 70, 100, 3000, -1])
def test_a_changed_byte_is_noticed(tmp_path, where):
    store = write(tmp_path, "pages", uneven(4000))
    path = stored_pages(tmp_path)
    raw = bytearray(path.read_bytes())
    raw[where] ^= 4
    path.write_bytes(raw)
    index = open_index(store)
    for ask in (
        lambda: index.find(100, 200),
        lambda: index.find_many([100], [200]),
        lambda: index.entries_between(100, 200),
    ):
        with pytest.raises(FragmentReadError, match=f"{NAME} is damaged: page 0"):
            ask()
    assert index.validate()


@pytest.mark.parametrize("row", [0, 1], ids=["firsts", "offsets"])
@pytest.mark.parametrize("place", range(1, 7))
def test_a_directory_that_is_not_in_order_is_refused_wherever_that_is(tmp_path, monkeypatch, place, row):
    # It is looked at in slabs, and whatever stands at the edge of one belongs to two of them.
    monkeypatch.setattr(pages, "_SLAB", 2)
    store = write(tmp_path, "pages", uneven(25_000))
    assert open_index(store)._directory.firsts.size == 7
    old = next((tmp_path / NAME).glob("directory_*"))
    table = np.frombuffer((old / "0.0").read_bytes(), "<i8").reshape(2, -1).copy()
    table[row, place] += 4 if row else -(10**9)
    crc = zlib.crc32(table.tobytes())
    old.rename(old.with_name(f"directory_{crc:08x}")).joinpath("0.0").write_bytes(table.tobytes())
    attributes = tmp_path / NAME / ".zattrs"
    attributes.write_text(json.dumps(json.loads(attributes.read_text()) | {"directory_crc32": crc}))
    with pytest.raises(FragmentReadError, match="its directory is not in order"):
        open_index(store)


@pytest.mark.parametrize("name", ["directory", "pages"])
def test_a_truncated_file_is_noticed_on_opening(tmp_path, name):
    store = write(tmp_path, "pages", uneven(4000))
    path = stored_pages(tmp_path) if name == "pages" else next((tmp_path / NAME).glob("directory_*/0.0"))
    path.write_bytes(path.read_bytes()[:-8])
    said = "its pages do not have the" if name == "pages" else "its directory does not have the 32 bytes of 1 pages"
    with pytest.raises(FragmentReadError, match=f"{NAME} is damaged: {said}"):
        open_index(store)


def lying(path, page):
    """Put other words into the first page, with a right checksum."""
    raw = stored_pages(path).read_bytes()
    words = np.frombuffer(raw, "<i8").copy()
    for place, value in page.items():
        words[place] = value
    words[0] = zlib.crc32(words[1:].tobytes())
    stored_pages(path).write_bytes(words.tobytes())


def test_a_page_that_does_not_begin_as_the_directory_says_is_refused(tmp_path):
    store = write(tmp_path, "pages", even(100))
    lying(tmp_path, {1: 10})
    index = open_index(store)
    for ask in (lambda: index.find(20, 50), lambda: index.find_many([20], [50])):
        with pytest.raises(FragmentReadError, match=r"page 0 .*does not have the bytes that were written"):
            ask()


def test_pages_that_lead_beyond_the_rows_are_refused(tmp_path):
    store = write(tmp_path, "pages", even(100))
    lying(tmp_path, {2: 50, 8: 150})
    index = open_index(store)
    for ask in (lambda: index.find(0, 99), lambda: index.find_many([0], [99])):
        with pytest.raises(FragmentReadError, match="rows 0 to 149 of 100"):
            ask()
    assert "page 0" in str(index.validate()[0])
    assert "entry 0 is wrong" in str(index.validate(full=True)[0])


@pytest.mark.parametrize(
    "change",
    [
        {"format": "cfagg index pages 99"}, {"entries": -1}, {"pages": "many"}, {"first": None},
        {"name": "../../elsewhere"}, {"identity": 3}, {"pages": 0}, {"directory_crc32": 1.5},
    ],
    ids=str,
)  # fmt: skip
def test_attributes_that_are_not_understood_are_refused(tmp_path, change):
    store = write(tmp_path, "pages", even(100))
    path = tmp_path / NAME / ".zattrs"
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    with pytest.raises(SourceError, match="rebuild them"):
        open_index(store)


def test_a_store_without_pages_says_how_to_make_them(tmp_path):
    write_bisect(tmp_path, cut(even(5)))
    with pytest.raises(SourceError, match=r"build_pages \(cfagg obs index\)"):
        PagesIndex(Store(tmp_path, 5))


def test_pages_written_again_do_not_disturb_who_has_the_old_open(tmp_path):
    store = write(tmp_path, "pages", uneven(9000))
    old = open_index(store)
    expected = old.find(100, 90_000)
    sent = pickle.dumps(old)
    entries = uneven(9000, seed=1)
    write_pages(tmp_path, cut(entries), identity=store.identity)
    old._cached = {}
    assert old.find(100, 90_000) == expected
    with pytest.raises(StaleError, match="rewritten since it was opened"):
        pickle.loads(sent)
    # A source that has the old file open does not take it for the new one.
    store.rows = int(entries[2].sum())
    assert open_index(store).find(int(entries[0][5]), int(entries[0][6])) == (entries[1][5], entries[1][6])


@pytest.mark.parametrize(
    "entries",
    [
        ([10, 5], [0, 1], [1, 1]), ([10, 20], [0, 2], [1, 1]), ([10, 20], [0, 1], [1, 0]), ([10, 20], [1, 2], [1, 1]),
        ([10, 20], [0, 1], [1, 5]), ([10], [0], [1]),
    ],
    ids=["epochs fall", "a gap of rows", "no rows", "not from the first row", "beyond the rows", "too few rows"],
)  # fmt: skip
def test_entries_that_are_no_index_leave_what_was_there(tmp_path, entries):
    store = write(tmp_path, "pages", even(2))
    before = files(tmp_path)
    with pytest.raises(ConventionError, match="index_pages"):
        write_pages(tmp_path, cut(entries), identity=store.identity, rows=2)
    assert files(tmp_path) == before
    assert sorted(p.name for p in tmp_path.iterdir()) == [".zgroup", NAME]


def test_a_copy_of_a_store_keeps_its_pages(tmp_path):
    write(tmp_path / "a", "pages", even(10))
    shutil.copytree(tmp_path / "a", tmp_path / "b")
    assert open_index(Store(tmp_path / "b", 10)).find(3, 5) == (3, 5)


def test_pages_of_many_windows_are_read_once(tmp_path):
    entries = uneven(1_200_000)
    store = write(tmp_path, "pages", entries)
    store.source = Counting(tmp_path)
    index = open_index(store)
    asked = entries[0][:: pages.PAGE // 2].tolist()
    assert len(asked) > 500
    first = [index.find(epoch, epoch + 5) for epoch in asked]
    read = store.source.calls
    assert [index.find(epoch, epoch + 5) for epoch in asked] == first
    assert store.source.calls == read


def test_pages_that_are_kept_take_no_more_memory_than_allowed(tmp_path, monkeypatch):
    monkeypatch.setattr(pages, "_CACHED", 2**16)
    entries = uneven(200_000)
    index = open_index(write(tmp_path, "pages", entries))
    most = 0
    for i in range(0, 200_000, 1000):
        assert index.find(int(entries[0][i]), int(entries[0][i]) + 1)[0] == entries[1][i]
        held = sum(8 * len(head) if words is None else words.nbytes for head, words in index._cached.values())
        most = max(most, held + sum(part.nbytes for part in index._parts.values()))
    assert 2**14 < most <= 2**16


def test_a_window_that_is_looked_up_again_unpacks_nothing(tmp_path, monkeypatch):
    unpacked, unpack = [], pages.unpack_page
    monkeypatch.setattr(pages, "unpack_page", lambda *given: unpacked.append(given) or unpack(*given))
    monkeypatch.setattr(pages, "_SOME", 10**9)
    monkeypatch.setattr(pages, "_compiled", None)
    entries = uneven(20_000)
    index = open_index(write(tmp_path, "pages", entries))
    asked = entries[0][::300].tolist()
    first = [index.find(epoch, epoch + 99) for epoch in asked]
    once = len(unpacked)
    assert 0 < once <= 20_000 // 512 + 1
    assert [index.find(epoch, epoch + 99) for epoch in asked] == first
    assert len(unpacked) == once
