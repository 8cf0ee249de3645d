"""The model of a disk that loses its power: what it says may be lost, and what it says is safe."""

from __future__ import annotations

import os
import random

import pytest

from tests.durability import powerloss, tracing

pytestmark = pytest.mark.skipif(tracing.STRACE is None, reason="strace is not installed")


def images(folder, work):
    """Record what `work` does in a directory, and return the trees that a power loss after it may leave."""
    out, log = folder / "out", folder / "log"
    disk = powerloss.Disk(out)
    outcome = tracing.run(work, log, trace=tracing.RECORDED, record=True)
    assert outcome.status == 0, outcome.said
    for call in powerloss.calls(log):
        disk.follow(*call)
    return [
        {name: content for name, (_, content) in image.files.items()} for image in disk.images(random.Random(0), 40)
    ]


@pytest.fixture
def out(tmp_path):
    folder = tmp_path / "out"
    folder.mkdir()
    (folder / "a").write_bytes(b"old")
    return folder


def test_what_was_never_synced_may_be_lost_torn_or_there(tmp_path, out):
    found = images(tmp_path, lambda: (out / "b").write_bytes(b"data") and 0)
    assert {"a": b"old"} in found
    assert {"a": b"old", "b": b""} in found
    assert {"a": b"old", "b": b"data"} in found
    assert {"a": b"old", "b": b"da"} in found


def test_a_rename_without_a_sync_may_lose_the_old_and_the_new(tmp_path, out):
    def work():
        (out / "b").write_bytes(b"new")
        (out / "b").rename(out / "a")

    found = images(tmp_path, work)
    assert {"a": b"old"} in found
    assert {"a": b""} in found


def test_a_synced_file_and_directory_are_safe(tmp_path, out):
    def work():
        with (out / "b").open("wb") as file:
            file.write(b"new")
            file.flush()
            os.fsync(file.fileno())
        (out / "b").rename(out / "a")
        handle = os.open(out, os.O_RDONLY)
        os.fsync(handle)

    assert all(image == {"a": b"new"} for image in images(tmp_path, work))


def test_what_the_process_sees_is_what_the_model_says(tmp_path, out):
    """Every way of writing that cfagg and its libraries use, compared with the files themselves."""

    def work():
        import shutil

        (out / "d").mkdir()
        with (out / "d" / "x").open("wb") as file:
            file.write(b"0123456789")
            file.seek(3)
            file.write(b"abc")
            file.truncate(8)
        with (out / "d" / "x").open("ab") as file:
            file.write(b"end")
        handle = os.open(out / "d" / "y", os.O_RDWR | os.O_CREAT)
        os.pwrite(handle, b"zz", 4)
        os.ftruncate(handle, 9)
        os.link(out / "d" / "x", out / "linked")
        shutil.copyfile(out / "d" / "x", out / "copied")
        shutil.copytree(out / "d", out / "e")
        shutil.rmtree(out / "d")
        (out / "e").rename(out / "f")
        os.sync()

    out_ = tmp_path / "log"
    disk = powerloss.Disk(out)
    assert tracing.run(work, out_, trace=tracing.RECORDED, record=True).status == 0
    for call in powerloss.calls(out_):
        disk.follow(*call)
    image = powerloss.Image(disk, {n.number: dict(n.entries) for n in disk._walk(disk.top)}, "any", random.Random(0))
    names = {str(p.relative_to(out)) for p in out.rglob("*") if p.is_file()}
    assert set(image.files) == names == {"a", "linked", "copied", "f/x", "f/y"}
    for name, (inode, _) in image.files.items():
        assert inode.data == (out / name).read_bytes(), name
