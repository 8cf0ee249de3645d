"""Opening files: regular ones only, never waiting, and known by what was opened."""

from __future__ import annotations

import os
import pathlib
import socket
import stat
import threading

import numpy as np
import pytest

from cfagg.errors import FragmentReadError, SourceError
from cfagg.storage import files
from cfagg.storage.files import Context, look, open_regular


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
    before = len(list(pathlib.Path("/proc/self/fd").iterdir()))
    with pytest.raises(SourceError, match=rf"a\.nc is {kind}; only regular files are read"):
        open_regular("a.nc")
    assert len(list(pathlib.Path("/proc/self/fd").iterdir())) == before


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
    with pytest.raises(SourceError, match="another file took its place"):
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
    thread.join(10)
    assert failed
