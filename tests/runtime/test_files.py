"""Files that are there whole or not at all, of a directory that is being built."""

import errno
import fcntl
import os
import pathlib
import subprocess
import sys

import pytest

from cfagg.runtime import publishing
from cfagg.runtime.files import NewFolder, write_new, write_whole, written_aside


@pytest.mark.parametrize("data", [b"new", memoryview(b"new"), b""])
def test_a_file_takes_the_place_of_another_and_leaves_nothing_beside_it(tmp_path, data):
    (tmp_path / "zarr.json").write_bytes(b"old and longer")
    write_whole(tmp_path / "zarr.json", data)
    assert {p.name: p.read_bytes() for p in tmp_path.iterdir()} == {"zarr.json": bytes(data)}


def test_what_cannot_be_put_in_place_is_removed_and_the_old_file_stays(tmp_path, monkeypatch):
    (tmp_path / "zarr.json").write_bytes(b"old")

    def full(*_):
        raise OSError(28, "no space left")

    monkeypatch.setattr(pathlib.Path, "replace", full)
    with pytest.raises(OSError, match="no space"):
        write_whole(tmp_path / "zarr.json", b"new")
    assert {p.name: p.read_bytes() for p in tmp_path.iterdir()} == {"zarr.json": b"old"}


def test_a_link_is_replaced_and_one_in_the_place_of_the_part_is_not_followed(tmp_path):
    other = tmp_path / "other"
    other.write_bytes(b"other")
    (tmp_path / "zarr.json").symlink_to(other)
    write_whole(tmp_path / "zarr.json", b"new")
    assert not (tmp_path / "zarr.json").is_symlink()
    (tmp_path / ".zarr.json.part").symlink_to(other)
    with pytest.raises(OSError, match="it is a link"):
        write_whole(tmp_path / "zarr.json", b"newer")
    assert other.read_bytes() == b"other"
    assert (tmp_path / "zarr.json").read_bytes() == b"new"


def test_what_a_killed_process_left_of_a_file_is_taken_by_the_next(tmp_path):
    code = f"""
import os, pathlib
from cfagg.runtime.files import write_whole
pathlib.Path.replace = lambda *_: os._exit(9)
write_whole(pathlib.Path({str(tmp_path)!r}) / "zarr.json", b"old and longer")
"""
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 9
    assert len(list(tmp_path.iterdir())) == 1
    write_whole(tmp_path / "zarr.json", b"new")
    assert [(p.name, p.read_bytes()) for p in tmp_path.iterdir()] == [("zarr.json", b"new")]


@pytest.mark.parametrize("data", [b"new", memoryview(b"new"), b""])
def test_a_new_file_is_written_where_it_stands(tmp_path, data, monkeypatch):
    monkeypatch.setattr(pathlib.Path, "replace", None)
    write_new(f"{tmp_path}/0", data)
    assert {p.name: p.read_bytes() for p in tmp_path.iterdir()} == {"0": bytes(data)}


def test_what_is_there_is_replaced_by_a_new_file_and_not_written_into(tmp_path):
    other = tmp_path / "other"
    other.write_bytes(b"other")
    (tmp_path / "link").symlink_to(other)
    (tmp_path / "same").hardlink_to(other)
    for name in ("link", "same"):
        write_new(f"{tmp_path}/{name}", b"new")
        assert (tmp_path / name).read_bytes() == b"new"
    assert other.read_bytes() == b"other"


def test_a_new_file_that_cannot_be_written_is_removed(tmp_path, monkeypatch):
    def full(*_):
        raise OSError(28, "no space left")

    monkeypatch.setattr(os, "write", full)
    with pytest.raises(OSError, match="no space"):
        write_new(f"{tmp_path}/0", b"new")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("system", ["knows", "lacks"])
def test_what_another_process_writes_meanwhile_is_not_replaced_by_a_new_file(tmp_path, monkeypatch, system):
    if system == "lacks":
        monkeypatch.setattr(publishing, "_rename", lambda *_, **__: False)

    def write():
        with written_aside(tmp_path / "a.nc", create=True) as made:
            made.write_bytes(b"ours")
            (tmp_path / "a.nc").write_bytes(b"theirs")

    with pytest.raises(FileExistsError):
        write()
    assert {p.name: p.read_bytes() for p in tmp_path.iterdir()} == {"a.nc": b"theirs"}
    with written_aside(tmp_path / "b.nc", create=True) as made:
        made.write_bytes(b"ours")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.nc", "b.nc"]


def test_a_directory_that_cannot_be_locked_is_removed_and_the_reason_is_told(tmp_path, monkeypatch):
    def refuse(*_):
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(fcntl, "flock", refuse)
    with pytest.raises(OSError, match="Input/output error"):
        NewFolder(tmp_path / "a.nc")
    assert list(tmp_path.iterdir()) == []
