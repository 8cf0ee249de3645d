"""Files that libraries keep open: bounded, of the process that opened them, and given back under pressure."""

from __future__ import annotations

import errno
import os
from concurrent.futures import ThreadPoolExecutor
from unittest.mock import Mock

import pytest

from cfagg.formats.values import pool as pools
from cfagg.formats.values.locks import LIBRARY
from cfagg.formats.values.pool import Pool
from cfagg.storage import counters
from cfagg.storage import files as storage_files
from cfagg.storage.files import open_regular


class Library:
    """Opens files as a library does, and notes what it is asked to."""

    def __init__(self):
        self.opened, self.closed = [], []

    def open(self, handle):
        self.opened.append(os.path.basename(handle.key.path))  # noqa: PTH119
        return [self.opened[-1]]

    def close(self, opened):
        self.closed.append(opened[0])


@pytest.fixture
def library():
    return Library()


@pytest.fixture
def pool(library, monkeypatch):
    monkeypatch.setattr(LIBRARY, "pools", [])
    return Pool(library.open, library.close)


@pytest.fixture
def files(tmp_path):
    for k in range(6):
        (tmp_path / f"{k}").write_bytes(bytes([k]))
    return [open_regular(str(tmp_path / f"{k}")) for k in range(6)]


def test_a_file_is_opened_once_and_the_least_recently_used_is_closed_first(pool, library, files):
    pool.limit = 2
    before = counters.snapshot()
    assert pool.get(files[0]) is pool.get(files[0])
    assert (counters.snapshot() - before).files == 1
    pool.get(files[1])
    pool.get(files[0])
    pool.get(files[2])
    assert (library.opened, library.closed) == (["0", "1", "2"], ["1"])
    assert [pool.has(file) for file in files[:3]] == [True, False, True]


def test_a_child_opens_its_own_files_and_closes_none_of_its_parents(pool, library, files, monkeypatch):
    theirs = pool.get(files[0])
    parent = os.getpid()
    monkeypatch.setattr(os, "getpid", lambda: parent + 1)
    assert not pool.has(files[0])
    assert pool.get(files[0]) is not theirs
    pool.shrink(0)
    assert (library.opened, library.closed) == (["0", "0"], ["0"])
    # Kept, since a library closes what nobody refers to.
    assert [list(held.values()) for held in pool.inherited] == [[theirs]]
    assert not pool.has(files[0])
    assert len(pool.inherited) == 1


def test_pressure_in_a_child_closes_nothing_of_its_parent(pool, library, files, monkeypatch):
    for file in files:
        pool.get(file)
    monkeypatch.setattr(os, "getpid", lambda: -1)
    assert not pools._relieve()
    assert library.closed == []


def test_under_pressure_half_are_kept_from_now_on_but_never_the_last(pool, library, files):
    with LIBRARY.keeping_files():
        for file in files[:5]:
            pool.get(file)
        assert pools._relieve()
        assert (library.closed, pool.limit) == (["0", "1", "2"], 2)
        assert pools._relieve()
        assert (library.closed, pool.limit) == (["0", "1", "2", "3"], 1)
        assert not pools._relieve()
        assert pool.has(files[4])


def test_pressure_leaves_the_limit_of_who_holds_one_file_alone(pool, files):
    limit = pool.limit
    pool.get(files[0])
    assert not pools._relieve()
    assert pool.limit == limit


def test_of_a_file_that_was_replaced_the_old_one_is_closed(pool, library, files, tmp_path):
    pool.get(files[0])
    os.replace(tmp_path / "1", tmp_path / "0")  # noqa: PTH105
    with open_regular(str(tmp_path / "0")) as new:
        pool.get(new)
    assert library.closed == ["0"]
    assert len(pool.held) == 1


def test_a_file_that_is_written_while_it_is_opened_is_refused_and_closed(library, files, monkeypatch):
    monkeypatch.setattr(LIBRARY, "pools", [])

    def opens(handle):
        with open(handle.key.path, "ab") as file:  # noqa: PTH123
            file.write(b"more")
        return library.open(handle)

    pool = Pool(opens, library.close)
    with pytest.raises(OSError, match="written or replaced while it was opened"):
        pool.get(files[0])
    assert library.closed == ["0"]
    assert not pool.has(files[0])


def test_a_dropped_file_is_closed_once(pool, library, files):
    pool.get(files[0])
    pool.drop(files[0])
    pool.drop(files[0])
    pool.drop(files[1])
    assert library.closed == ["0"]


def test_shrinking_says_whether_it_closed_any(pool, library, files):
    for file in files[:3]:
        pool.get(file)
    assert not pool.shrink(3)
    assert pool.shrink(2)
    assert library.closed == ["0"]
    assert pool.shrink(-1)
    assert not pool.shrink(0)


@pytest.mark.parametrize(("limit", "kept"), [(3, 3), (1, 1), (0, 1), (-5, 1)])
def test_at_least_one_is_kept(pool, files, limit, kept):
    for file in files[:4]:
        pool.get(file)
    pool.limit = limit
    assert (pool.limit, len(pool.held)) == (kept, kept)
    pool.get(files[5])
    assert len(pool.held) == kept


@pytest.mark.parametrize(("share", "limit"), [(128, 64), (64, 32), (4, 2), (5, 2), (2, 2), (1, 2)])
def test_a_library_keeps_half_of_the_share_and_at_least_two(pool, monkeypatch, share, limit):
    monkeypatch.setattr(pools, "share_of_open_files", lambda: share)
    assert pool.limit == limit


@pytest.mark.parametrize("error", [OSError(errno.EMFILE, "too many"), OSError(errno.ENFILE, "too many")])
def test_where_all_files_are_taken_others_are_given_back_as_long_as_there_are_some(files, monkeypatch, error):
    monkeypatch.setattr(LIBRARY, "pools", [])
    given = [True, True]
    monkeypatch.setattr(pools, "relieve", lambda: bool(given and given.pop()))

    def opens(handle):
        if given:
            raise error
        return handle

    assert Pool(opens, id).get(files[0]) is files[0]

    def fails(handle):
        raise error

    with pytest.raises(OSError, match="too many"):
        Pool(fails, id).get(files[0])


def test_another_error_gives_nothing_back(files, monkeypatch):
    monkeypatch.setattr(LIBRARY, "pools", [])

    def never():
        raise AssertionError

    monkeypatch.setattr(pools, "relieve", never)
    for error in (OSError(errno.EIO, "disk"), RuntimeError("disk")):

        def opens(handle, error=error):
            raise error

        with pytest.raises(type(error), match="disk"):
            Pool(opens, id).get(files[0])


def test_an_error_without_a_number_is_that_of_too_many_files_where_no_more_can_be_opened(files, monkeypatch):
    before = set(os.listdir("/dev/fd"))  # noqa: PTH208
    assert not pools._is_exhausted(RuntimeError(), files[0])
    real, left = os.dup, [0, 1]

    def dup(fd):
        if not left:
            raise OSError(errno.EMFILE, "too many")
        left.pop()
        return real(fd)

    monkeypatch.setattr(os, "dup", dup)
    assert pools._is_exhausted(RuntimeError(), files[0])
    left.extend(range(3))
    assert not pools._is_exhausted(RuntimeError(), files[0])
    assert left == []
    assert set(os.listdir("/dev/fd")) <= before  # noqa: PTH208


def test_all_pools_are_limited_closed_and_counted(pool, library, files, monkeypatch):
    from cfagg.storage.handles import Handles

    mine = Handles(9)
    monkeypatch.setattr(pools, "handles", mine)
    with LIBRARY.keeping_files():
        for file in files[:4]:
            pool.get(file)
            mine.get(file.key.path)
        assert pools.open_files() == 8
        pools.set_open_files(3)
        assert (mine.limit, pool.limit, pools.open_files()) == (3, 3, 6)
        pools.close_files()
    assert pools.open_files() == 0
    assert library.closed == ["0", "1", "2", "3"]


def test_files_are_closed_where_the_lock_is_released_or_the_last_block_that_keeps_them_ends(pool, library, files):
    with LIBRARY:
        pool.get(files[0])
        with LIBRARY:
            pass
        assert pool.has(files[0])
    assert library.closed == ["0"]
    with LIBRARY.keeping_files():
        with LIBRARY.keeping_files(), LIBRARY:
            pool.get(files[1])
        assert pool.has(files[1])
    assert library.closed == ["0", "1"]


def test_a_block_of_one_thread_keeps_the_files_of_all(pool, library, files):
    def read():
        with LIBRARY:
            pool.get(files[0])

    with LIBRARY.keeping_files():
        with ThreadPoolExecutor(1) as threads:
            threads.submit(read).result()
        assert pool.has(files[0])
    assert library.closed == ["0"]


def test_the_lock_is_released_where_closing_a_file_fails(pool, library, files):
    pool.closes = Mock(side_effect=ZeroDivisionError)
    with pytest.raises(ZeroDivisionError), LIBRARY:
        pool.get(files[0])
    pool.held.clear()

    def enter():
        with LIBRARY:
            return True

    with ThreadPoolExecutor(1) as threads:
        assert threads.submit(enter).result(timeout=60)


def test_libraries_are_asked_where_the_process_has_too_many_open_files():
    assert pools._relieve in storage_files._relief
