"""Opening files: regular ones only, never waiting, and known by what was opened."""

from __future__ import annotations

import errno
import fcntl
import os
import pathlib
import shutil
import socket
import stat
import sys
import threading

import numpy as np
import pytest

import cfagg
from cfagg.errors import AccessError, FragmentReadError, SourceError
from cfagg.storage import counters, files
from cfagg.storage.directory import Directory
from cfagg.storage.files import Context, close_read, look, open_regular


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "a.nc"
    path.write_bytes(bytes(range(100)))
    return path


def test_bytes_are_those_of_the_file(file):
    with open_regular(str(file)) as handle:
        assert handle.some(10, 95) == bytes(range(95, 100))
        assert handle.exactly(4, 7) == bytes(range(7, 11))
        buffer = np.empty(5, np.uint8)
        handle.fill(buffer, 50)
        assert buffer.tolist() == [50, 51, 52, 53, 54]


def test_bytes_behind_the_end_are_an_error_and_take_no_memory(file):
    with open_regular(str(file)) as handle:
        for size in (101, 2**62):
            with pytest.raises(SourceError, match="truncated"):
                handle.exactly(size, 0)
        with pytest.raises(SourceError, match="truncated"):
            handle.fill(np.empty(5, np.uint8), 98)


def test_the_identity_is_that_of_the_open_file(file):
    found = file.stat()
    with open_regular(str(file)) as handle:
        assert handle.key[1:] == (found.st_dev, found.st_ino, 100, found.st_mtime_ns, found.st_ctime_ns)
        assert handle.key == look(str(file))


def fifo(path):
    os.mkfifo(path)


def listening(path):
    server = socket.socket(socket.AF_UNIX)
    server.bind(str(path))
    server.close()


def device(path):
    path.symlink_to("/dev/zero")


def folder(path):
    path.mkdir()


@pytest.mark.parametrize(
    ("make", "kind"), [(fifo, "a FIFO"), (listening, "a socket"), (device, "a device"), (folder, "a directory")]
)
def test_what_is_no_regular_file_is_refused_at_once(tmp_path, monkeypatch, make, kind):
    monkeypatch.chdir(tmp_path)  # names of sockets are short
    make(pathlib.Path("a.nc"))
    before = len(list(pathlib.Path("/dev/fd").iterdir()))
    with pytest.raises(SourceError, match=rf"a\.nc is {kind}; only regular files are read"):
        open_regular("a.nc")
    assert len(list(pathlib.Path("/dev/fd").iterdir())) <= before


def test_what_is_not_there_is_missing(tmp_path, file):
    for path in (tmp_path / "gone.nc", file / "below.nc"):
        with pytest.raises(SourceError, match="there is no file"):
            open_regular(str(path))


def test_errors_are_those_of_the_context(tmp_path):
    (tmp_path / "a").mkdir()
    with pytest.raises(FragmentReadError, match=r"partition 7: .* is a directory"):
        open_regular(str(tmp_path / "a"), Context("partition 7"))


def test_the_real_path_is_that_of_what_was_opened(tmp_path, file):
    (tmp_path / "link.nc").symlink_to(file)
    with open_regular(str(tmp_path / "link.nc")) as handle:
        assert handle.real == str(file)
        assert handle.key.path == str(tmp_path / "link.nc")


def test_a_file_that_is_removed_while_it_is_opened_keeps_its_path(file, monkeypatch):
    fstat = os.fstat

    def removes(fd):
        file.unlink(missing_ok=True)
        return fstat(fd)

    monkeypatch.setattr(os, "fstat", removes)
    with open_regular(str(file)) as handle:
        assert handle.real == str(file)


def test_without_names_of_open_files_the_path_is_resolved_and_compared(tmp_path, file, monkeypatch):
    monkeypatch.setattr(files, "_HAS_PROC", False)
    other = tmp_path / "other.nc"
    other.write_bytes(b"x")
    (tmp_path / "link.nc").symlink_to(file)
    with open_regular(str(tmp_path / "link.nc")) as handle:
        assert (handle.real, handle.library_path) == (str(file), str(file))
        assert handle.is_unchanged()
    realpath = os.path.realpath

    def swaps(path):
        os.replace(other, file)  # noqa: PTH105
        return realpath(path)

    monkeypatch.setattr(os.path, "realpath", swaps)
    with pytest.raises(SourceError, match="it was replaced while"):
        open_regular(str(file))


def test_a_library_opens_what_was_opened_whatever_the_name_means_now(tmp_path, file):
    with open_regular(str(file)) as handle:
        (tmp_path / "other.nc").write_bytes(b"other")
        os.replace(tmp_path / "other.nc", file)  # noqa: PTH105
        assert pathlib.Path(handle.library_path).read_bytes() == bytes(range(100))


def test_a_file_that_was_written_to_is_seen_to_be_changed(file):
    with open_regular(str(file)) as handle:
        assert handle.is_unchanged()
        file.write_bytes(b"x")
        assert not handle.is_unchanged()


def test_a_file_that_was_written_to_at_the_same_size_is_seen_to_be_changed(file):
    os.utime(file, ns=(1, 1))
    with open_regular(str(file)) as handle:
        file.write_bytes(bytes(100))
        assert not handle.is_unchanged()


def test_a_file_whose_name_ends_as_the_system_marks_removed_ones_keeps_it(tmp_path):
    path = tmp_path / "a.nc (deleted)"
    path.write_bytes(b"x")
    with open_regular(str(path)) as handle:
        assert handle.real == str(path)


def test_a_handle_closes_its_file_when_nobody_refers_to_it(file):
    handle = open_regular(str(file))
    fd = handle.fd
    del handle
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(fd)


def test_a_closed_handle_reads_nothing(file):
    handle = open_regular(str(file))
    handle.close()
    handle.close()
    assert not handle.is_open
    with pytest.raises(ValueError, match="closed"):
        handle.some(1, 0)


def test_programs_that_are_started_do_not_inherit_the_file(file):
    with open_regular(str(file)) as handle:
        assert not os.get_inheritable(handle.fd)


def test_a_fifo_that_takes_the_place_of_a_file_is_not_waited_for(tmp_path):
    """What was looked at may be another thing when it is opened: opening looks again."""
    path = tmp_path / "a.nc"
    path.touch()
    assert stat.S_ISREG(path.stat().st_mode)
    path.unlink()
    os.mkfifo(path)
    failed: list[Exception] = []

    def opens():
        try:
            open_regular(str(path))
        except SourceError as error:
            failed.append(error)

    thread = threading.Thread(target=opens, daemon=True)
    thread.start()
    thread.join(300)
    assert failed


def test_what_the_system_gives_in_pieces_is_put_together(file, monkeypatch):
    pread, preadv = os.pread, os.preadv
    monkeypatch.setattr(os, "pread", lambda fd, size, offset: pread(fd, min(size, 3), offset))
    monkeypatch.setattr(os, "preadv", lambda fd, buffers, offset: preadv(fd, [buffers[0][:3]], offset))
    with open_regular(str(file)) as handle:
        assert handle.exactly(10, 7) == bytes(range(7, 17))
        buffer = np.empty(10, np.uint8)
        handle.fill(buffer, 90)
        assert bytes(buffer) == bytes(range(90, 100))


def test_a_file_that_was_cut_off_since_it_was_opened_is_truncated(file):
    with open_regular(str(file)) as handle:
        os.truncate(file, 50)
        with pytest.raises(SourceError, match="truncated: it ends before byte 60"):
            handle.exactly(20, 40)
        with pytest.raises(SourceError, match="truncated: it ends before byte 60"):
            handle.fill(np.empty(20, np.uint8), 40)


def test_an_error_of_the_disk_names_the_file(file, monkeypatch):
    def fails(*_):
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(os, "pread", fails)
    monkeypatch.setattr(os, "preadv", fails)
    with open_regular(str(file)) as handle:
        for read in (handle.some, handle.exactly):
            with pytest.raises(SourceError, match=r"a\.nc cannot be read: Input/output error"):
                read(4, 0)
        with pytest.raises(SourceError, match=r"a\.nc cannot be read: Input/output error"):
            handle.fill(np.empty(4, np.uint8), 0)


def test_bytes_up_to_the_end_are_no_error_and_are_counted(file):
    with open_regular(str(file)) as handle:
        before = counters.snapshot()
        assert handle.exactly(100, 0) == bytes(range(100))
        handle.fill(np.empty(5, np.uint8), 95)
        assert (counters.snapshot() - before).bytes == 105


def test_a_closed_handle_closes_nothing_that_came_later(file):
    handle = open_regular(str(file))
    fd = handle.fd
    handle.close()
    later = os.open(file, os.O_RDONLY)
    assert later == fd
    handle.close()
    del handle
    assert os.pread(later, 1, 5) == b"\5"
    os.close(later)


def test_everyone_gives_files_back_under_pressure_whoever_did_first(monkeypatch):
    asked = []
    monkeypatch.setattr(files, "_relief", [])
    assert not files.relieve()
    for name, closes in (("a", True), ("b", False)):
        files.on_pressure(lambda name=name, closes=closes: (asked.append(name), closes)[1])
    assert files.relieve()
    assert asked == ["a", "b"]


def test_only_what_is_surely_not_there_is_absent(tmp_path, file):
    assert files.absent(str(tmp_path / "gone"))
    assert files.absent(str(file / "below"))
    assert not files.absent(str(file))
    assert not files.absent("a\0b")
    (tmp_path / "loop").symlink_to("loop")
    assert not files.absent(str(tmp_path / "loop"))


def test_names_that_no_file_can_have_are_errors_of_the_context():
    for name in ("a\0b", "\ud800"):
        for opens in (open_regular, look):
            with pytest.raises(SourceError, match="is not a file name"):
                opens(name)


def test_a_file_that_a_library_has_open_is_admitted_until_it_is_closed_and_never_read():
    lent = files.Borrowed("theirs.nc")
    assert lent.is_open
    assert (lent.key.path, lent.real) == ("theirs.nc", "theirs.nc")
    for asks in (lambda: lent.some(1, 0), lambda: lent.fill(np.empty(1, np.uint8), 0)):
        with pytest.raises(ValueError, match="closed"):
            asks()
    lent.close()
    assert not lent.is_open


def test_without_names_of_open_files_a_link_in_the_place_of_a_file_is_a_change(tmp_path, file, monkeypatch):
    monkeypatch.setattr(files, "_HAS_PROC", False)
    with open_regular(str(file)) as handle:
        file.rename(tmp_path / "b.nc")
        file.symlink_to("b.nc")
        assert not handle.is_unchanged()


def test_what_a_library_says_of_an_open_file_names_the_file(tmp_path):
    (tmp_path / "a.nc").write_bytes(b"x")
    with open_regular(str(tmp_path / "a.nc")) as handle:
        assert handle.said(OSError(f"no HDF5: {handle.library_path}")) == f"no HDF5: {tmp_path / 'a.nc'}"


def test_a_file_that_is_not_opened_to_the_end_is_closed(file, monkeypatch):
    def fails(*_):
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(files, "_real_path", fails)
    before = len(list(pathlib.Path("/dev/fd").iterdir()))
    with pytest.raises(SourceError, match=r"a\.nc cannot be opened: Input/output error"):
        open_regular(str(file))
    assert len(list(pathlib.Path("/dev/fd").iterdir())) <= before


def test_a_file_is_closed_behind_its_block(file):
    with open_regular(str(file)) as handle:
        assert handle.is_open
    assert not handle.is_open


def test_looking_at_what_is_not_there_says_so(file):
    for path in (file / "below.nc", file.with_name("gone.nc")):
        with pytest.raises(SourceError, match="there is no file"):
            look(str(path))


def test_closing_what_was_only_read_never_fails():
    close_read(10**6)


@pytest.mark.parametrize("code", [errno.EMFILE, errno.ENFILE])
def test_where_all_files_are_taken_others_are_given_back_as_long_as_there_are_some(file, monkeypatch, code):
    given = [True, True]
    real = os.open

    def opens(path, flags):
        if given:
            raise OSError(code, "Too many open files")
        return real(path, flags)

    monkeypatch.setattr(files, "relieve", lambda: bool(given and given.pop()))
    with monkeypatch.context() as patched:
        patched.setattr(os, "open", opens)
        with open_regular(str(file)) as handle:
            assert handle.key.size == 100
        given.append(True)
        patched.setattr(files, "relieve", lambda: False)
        with pytest.raises(SourceError, match="cannot be opened: Too many open files"):
            open_regular(str(file))


def test_a_file_that_is_locked_is_not_called_damaged(tmp_path):
    path = tmp_path / "a.nc"
    shutil.copy(cfagg.demo.sample("test1.nc"), path)
    with path.open("rb") as writer:
        fcntl.flock(writer, fcntl.LOCK_EX)
        with pytest.raises(SourceError, match=r"a\.nc cannot be opened: it is locked, probably because it is being"):
            cfagg.show(path)
    assert "tas" in str(cfagg.show(path))


def test_a_file_that_was_replaced_while_it_was_opened_is_not_called_damaged(tmp_path):
    (tmp_path / "a.nc").write_bytes(b"\x89HDF")
    with open_regular(str(tmp_path / "a.nc")) as handle:
        (tmp_path / "a.nc").unlink()
        said = handle.failed(OSError("can't retrieve real path for file"))
    assert said == f"{tmp_path}/a.nc cannot be opened: it was replaced or removed meanwhile; open it again"


@pytest.mark.parametrize("code", [errno.ENOLCK, errno.EOPNOTSUPP])
def test_a_file_system_without_locks_is_named_and_what_opens_its_files(tmp_path, monkeypatch, code):
    def none(*_):
        raise OSError(code, os.strerror(code))

    (tmp_path / "a.nc").write_bytes(b"\x89HDF")
    with open_regular(str(tmp_path / "a.nc")) as handle:
        assert "a.nc is damaged or not netCDF; the library reports: HDF error" in handle.failed(OSError("HDF error"))
        monkeypatch.setattr(fcntl, "flock", none)
        said = handle.failed(OSError("HDF error"))
    assert "damaged" not in said
    assert "does not support locks" in said
    assert "HDF5_USE_FILE_LOCKING=FALSE" in said


@pytest.mark.skipif(sys.platform != "linux", reason="other systems do not reveal which directory was opened")
def test_nothing_is_read_through_a_link_to_a_directory_or_in_it(tmp_path):
    home = pathlib.Path(os.path.realpath(tmp_path))
    (home / "real" / "deep").mkdir(parents=True)
    (home / "real" / "deep" / "a.nc").write_bytes(b"12345678")
    (home / "real" / "deep" / "b.nc").symlink_to("a.nc")
    (home / "link").symlink_to("real")
    found = (home / "real" / "deep" / "a.nc").stat()
    state = (found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_ino)
    with Directory(str(home / "real" / "deep")) as there:
        assert there.read("a.nc", state, [(2, 3)]) == [b"45"]
        assert there.read("b.nc", state, [(2, 3)]) is None
    for path in ("link", "link/deep"):
        with pytest.raises(AccessError):
            Directory(str(home / path))
