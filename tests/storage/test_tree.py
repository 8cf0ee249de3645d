"""Files of a directory store, opened by key: what is judged, what is refused, and what it costs."""

from __future__ import annotations

import errno
import os
import resource
import socket
import sys
from pathlib import Path

import pytest

from cfagg.errors import AccessError, SourceError
from cfagg.storage import tree
from cfagg.storage.tree import listed, open_file, prefixes, read_file


@pytest.fixture(params=[True, False], ids=["openat2", "without"])
def opener(request, monkeypatch):
    """Open files as on Linux, and as where the system has no call for it and does not name open files."""
    if not request.param:
        monkeypatch.setattr(tree, "_LINUX", False)
    cached = tree._opener
    cached.cache_clear()
    tree._homes.clear()
    yield
    cached.cache_clear()
    tree._homes.clear()


@pytest.fixture
def store(tmp_path):
    (tmp_path / "s" / "a").mkdir(parents=True)
    (tmp_path / "s" / "a" / "0").write_bytes(b"0123456789")
    (tmp_path / "away").mkdir()
    (tmp_path / "away" / "0").write_bytes(b"secret")
    return tmp_path / "s"


def data(root, key, most=99, allow=()):
    found = read_file(str(root), f"{root}/{key}", most, allow)
    return found if found is None else found[0]


def opened():
    return len(list(Path("/dev/fd").iterdir()))


pytestmark = pytest.mark.usefixtures("opener")


def test_a_file_is_read_with_its_status(store):
    found = read_file(str(store), f"{store}/a/0", 10)
    assert found is not None
    assert found[0] == b"0123456789"
    assert found[1].st_ino == (store / "a/0").stat().st_ino


@pytest.mark.parametrize(("most", "length"), [(0, 1), (4, 5), (9, 10), (10, 10), (11, 10)])
def test_no_more_than_one_byte_beyond_the_most_is_read(store, most, length):
    assert data(store, "a/0", most) == b"0123456789"[:length]


@pytest.mark.parametrize("most", [7, 10, 99])
def test_what_the_system_gives_in_pieces_is_put_together(store, monkeypatch, most):
    pread = os.pread
    monkeypatch.setattr(os, "pread", lambda fd, size, offset: pread(fd, min(size, 3), offset))
    assert data(store, "a/0", most) == b"0123456789"[: most + 1]


def test_a_file_that_ends_while_it_is_read_gives_what_there_is(store, monkeypatch):
    monkeypatch.setattr(os, "pread", lambda fd, size, offset: b"0123"[offset : offset + size])
    assert data(store, "a/0") == b"0123"


def test_an_error_of_the_disk_names_the_file_and_closes_it(store, monkeypatch):
    def fails(*_):
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(os, "pread", fails)
    before = opened()
    with pytest.raises(SourceError, match=r"a/0 cannot be read: Input/output error"):
        data(store, "a/0")
    assert opened() == before


@pytest.mark.parametrize("key", ["b", "b/0", "a/1", "a/0/0"])
def test_what_is_not_there_is_none(store, key):
    assert data(store, key) is None


def test_a_name_that_no_file_can_have_is_refused(store):
    # A system call would take the name up to there.
    for key in ("a/0\0b", "a\0b"):
        with pytest.raises(SourceError, match=r"cannot be read: .*(NUL|null) (character|byte)"):
            data(store, key)


def test_a_directory_is_refused_and_closed(store):
    before = opened()
    with pytest.raises(SourceError, match=r"/a cannot be read: it is a directory, and only regular files are read"):
        data(store, "a")
    assert opened() == before


def test_a_fifo_is_refused_without_waiting(store):
    os.mkfifo(store / "fifo")
    with pytest.raises(SourceError, match="it is a FIFO, and only regular files are read"):
        data(store, "fifo")


def test_a_socket_is_refused(store, monkeypatch):
    monkeypatch.chdir(store)  # names of sockets are short
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("socket")
    with pytest.raises(SourceError, match="it is a socket or a device, and only regular files are read"):
        data(store, "socket")


def test_a_file_without_permission_says_so_and_is_no_socket(store, monkeypatch):
    def refuses(*_):
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(tree, "_plainly", refuses)
    monkeypatch.setattr(tree, "_opener", lambda: lambda path: -1)
    with pytest.raises(SourceError, match=r"a/0 cannot be read: Permission denied$"):
        data(store, "a/0")


@pytest.mark.parametrize("link", ["a/link", "link"])
def test_a_link_out_of_the_store_is_refused_and_closed(tmp_path, store, link):
    (store / link).symlink_to(tmp_path / "away" / "0")
    before = opened()
    with pytest.raises(AccessError, match=rf"outside the store {store}; .* --allow {tmp_path}/away;"):
        data(store, link)
    assert opened() == before


def test_a_folder_that_is_a_link_out_of_the_store_is_refused(tmp_path, store):
    (store / "b").symlink_to(tmp_path / "away")
    with pytest.raises(AccessError, match="outside the store"):
        data(store, "b/0")


def test_a_neighbour_whose_name_begins_like_the_store_is_outside(tmp_path, store):
    (tmp_path / "s2").mkdir()
    (tmp_path / "s2" / "0").write_bytes(b"secret")
    (store / "link").symlink_to(tmp_path / "s2" / "0")
    with pytest.raises(AccessError, match="outside the store"):
        data(store, "link")
    with pytest.raises(AccessError, match="outside the store"):
        data(store, "link", allow=[str(tmp_path / "s2" / "0x"), str(tmp_path / "awa")])


@pytest.mark.parametrize("allow", ["away", "away/0", "", "way"])
def test_a_link_is_followed_where_its_end_is_allowed(tmp_path, store, allow):
    (tmp_path / "way").symlink_to("away")
    (store / "link").symlink_to(tmp_path / "away" / "0")
    assert data(store, "link", allow=[str(tmp_path / "else"), str(tmp_path / allow)]) == b"secret"


def test_a_file_whose_name_says_that_another_was_removed_is_not_that_one(tmp_path, store):
    (tmp_path / "away" / "0 (deleted)").write_bytes(b"more")
    (store / "link").symlink_to(tmp_path / "away" / "0 (deleted)")
    with pytest.raises(AccessError, match="outside the store"):
        data(store, "link", allow=[str(tmp_path / "away" / "0")])
    assert data(store, "link", allow=[str(tmp_path / "away" / "0 (deleted)")]) == b"more"


def test_everything_may_be_allowed(tmp_path, store):
    (store / "link").symlink_to(tmp_path / "away" / "0")
    assert data(store, "link", allow=["/"]) == b"secret"


def test_an_empty_place_of_the_environment_allows_nothing(tmp_path, store, monkeypatch):
    (store / "link").symlink_to(tmp_path / "away" / "0")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CFAGG_ALLOW", os.pathsep)
    with pytest.raises(AccessError, match="outside the store"):
        data(store, "link")
    monkeypatch.setenv("CFAGG_ALLOW", f"{os.pathsep}{tmp_path / 'away'}")
    assert data(store, "link") == b"secret"


def test_a_store_may_be_a_link_itself_and_is_found_at_once_the_next_time(tmp_path, store, monkeypatch):
    (tmp_path / "link").symlink_to(store)
    assert data(tmp_path / "link", "a/0") == b"0123456789"
    assert tree._homes == {str(tmp_path / "link"): str(store)}
    asked = []
    real = tree._by_links
    monkeypatch.setattr(tree, "_by_links", lambda *given: asked.append(given) or real(*given))
    assert data(tmp_path / "link", "a/0") == b"0123456789"
    assert [given[1] for given in asked] == ([] if tree._LINUX else [f"{tmp_path}/link/a/0"])


def test_no_home_is_kept_of_a_store_that_is_no_link(store):
    (store / "link").symlink_to("a/0")
    assert data(store, "link") == b"0123456789"
    assert tree._homes == {}


def test_a_store_that_was_linked_elsewhere_since_is_read_where_it_is_now(tmp_path, store):
    (tmp_path / "t" / "a").mkdir(parents=True)
    (tmp_path / "t" / "a" / "0").write_bytes(b"other")
    (tmp_path / "link").symlink_to(store)
    assert data(tmp_path / "link", "a/0") == b"0123456789"
    (tmp_path / "link").unlink()
    (tmp_path / "link").symlink_to("t")
    assert data(tmp_path / "link", "a/0") == b"other"
    (tmp_path / "link").unlink()
    assert data(tmp_path / "link", "a/0") is None


def test_homes_are_kept_of_so_many_stores_only(tmp_path, store, monkeypatch):
    monkeypatch.setattr(tree, "_ROOTS", 3)
    most = 0
    for k in range(8):
        (tmp_path / f"link{k}").symlink_to(store)
        assert data(tmp_path / f"link{k}", "a/0") == b"0123456789"
        most = max(most, len(tree._homes))
    assert most == 3


@pytest.mark.parametrize("link", ["a/1", "b"])
def test_a_link_to_nothing_is_no_absent_file(store, link):
    (store / link).symlink_to("nowhere")
    with pytest.raises(SourceError, match=rf"{link} is a broken link to 'nowhere'"):
        data(store, link if "/" in link else f"{link}/0")


def test_a_file_that_is_not_there_beside_links_that_lead_somewhere_is_none(store):
    (store / "b").symlink_to("a")
    assert data(store, "b/1") is None


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs the names of open files")
def test_what_was_opened_is_judged_not_what_the_name_means_later(tmp_path, store, monkeypatch):
    (store / "link").symlink_to(tmp_path / "away" / "0")
    plainly = tree._plainly

    def swaps(path):
        fd = plainly(path)
        (store / "link").unlink()
        (store / "link").symlink_to("a/0")
        return fd

    monkeypatch.setattr(tree, "_plainly", swaps)
    with pytest.raises((AccessError, SourceError), match=r"outside the store|it was replaced while"):
        data(store, "link")


def test_only_directories_of_the_store_are_listed(tmp_path, store):
    assert listed(str(store), f"{store}/a") == f"{store}/a"
    assert listed(str(store), str(store)) == str(store)
    assert listed(str(store), f"{store}/a/0") is None
    assert listed(str(store), f"{store}/b") is None
    (store / "b").symlink_to(tmp_path / "away")
    with pytest.raises(AccessError, match="outside the store"):
        listed(str(store), f"{store}/b")
    assert listed(str(store), f"{store}/b", [str(tmp_path / "away")]) == f"{store}/b"


def test_a_directory_above_the_store_is_outside(tmp_path, store):
    (store / "b").symlink_to(tmp_path)
    with pytest.raises(AccessError, match="outside the store"):
        listed(str(store), f"{store}/b")


def test_places_are_absolute_and_none_is_empty(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert prefixes("a") == prefixes(["a"]) == prefixes(tmp_path / "a") == (f"{tmp_path}/a",)
    assert prefixes([tmp_path, "b"]) == (str(tmp_path), f"{tmp_path}/b")
    assert prefixes(()) == ()
    for empty in ("", ["a", ""]):
        with pytest.raises(AccessError, match="an empty prefix"):
            prefixes(empty)


def test_programs_that_are_started_do_not_inherit_the_file(store):
    (store / "link").symlink_to("a/0")
    for key in ("a/0", "link"):
        found = open_file(str(store), f"{store}/{key}")
        assert found is not None
        try:
            assert not os.get_inheritable(found[0])
        finally:
            os.close(found[0])


def test_where_all_files_are_taken_those_that_are_kept_for_later_are_closed(store, monkeypatch):
    (store / "link").symlink_to("a/0")
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    kept: list[int] = []

    def relieve():
        if kept:
            os.close(kept.pop())
            return True
        return False

    monkeypatch.setattr(tree, "relieve", relieve)
    # Other tests of this process may have left files open.
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(int(p.name) for p in Path("/dev/fd").iterdir()) + 16, hard))
    try:
        try:
            while True:
                kept.append(os.open("/dev/null", os.O_RDONLY))
        except OSError:
            assert data(store, "link") == b"0123456789"
            before = len(kept)
            kept.append(os.open("/dev/null", os.O_RDONLY))
        assert before > 0
        others, kept = kept, []
        with pytest.raises(SourceError, match="Too many open files"):
            data(store, "link")
        for fd in others:
            os.close(fd)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_a_file_without_links_is_opened_by_one_call_where_there_is_one(store, monkeypatch):
    asked = []
    real = tree._by_links
    monkeypatch.setattr(tree, "_by_links", lambda *given: asked.append(given[1]) or real(*given))
    assert data(store, "a/0") == b"0123456789"
    assert data(store, "a/1") is None
    assert asked == ([] if tree._LINUX else [f"{store}/a/0", f"{store}/a/1"])
