"""Directories that are watched: quiet only while nothing in them changed."""

import mmap
import os
import pathlib
import shutil
import subprocess
import sys

import numpy as np
import pytest

from cfagg.zarrs import watching
from cfagg.zarrs.watching import Watch

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells of changes in this way")


@pytest.fixture
def tree(tmp_path):
    top = tmp_path / "tas"
    for i in range(3):
        (top / "c" / str(i)).mkdir(parents=True)
        (top / "c" / str(i) / "0").write_bytes(b"12345678")
    (top / "zarr.json").write_text("{}")
    return top


@pytest.fixture
def watch(tree):
    found = Watch([str(tree)])
    if not found.arm():
        pytest.skip("the file system of the temporary directory does not tell of changes")
    found.trust()
    return found


def in_place(chunk):
    with chunk.open("r+b") as file:
        file.write(b"8")


def unbuffered(chunk):
    # Told before the call returns, not when the file is closed.
    handle = os.open(chunk, os.O_WRONLY)
    os.write(handle, b"7")
    os.set_inheritable(handle, False)


def mapped(chunk):
    with chunk.open("r+b") as file, mmap.mmap(file.fileno(), 0) as memory:
        memory[0:1] = b"9"


def by_rename(chunk):
    chunk.with_name("new").write_bytes(b"87654321")
    chunk.with_name("new").rename(chunk)


def by_a_process(chunk):
    subprocess.run([sys.executable, "-c", "import sys; open(sys.argv[1], 'r+b').write(b'1')", chunk], check=True)


CHANGES = {
    "written in place": in_place,
    "not closed yet": unbuffered,
    "through a memory map": mapped,
    "by renaming": by_rename,
    "by another process": by_a_process,
    "truncated": lambda chunk: os.truncate(chunk, 4),
    "removed": lambda chunk: chunk.unlink(),
    "made": lambda chunk: chunk.with_name("1").write_bytes(b""),
    "touched": lambda chunk: os.utime(chunk, (1, 1)),
    "a new directory": lambda chunk: (chunk.parents[1] / "7").mkdir(),
    "a directory moved away": lambda chunk: chunk.parent.rename(chunk.parents[3] / "away"),
    "the top moved away": lambda chunk: chunk.parents[2].rename(chunk.parents[3] / "away"),
    "the top removed": lambda chunk: shutil.rmtree(chunk.parents[2]),
    "metadata": lambda chunk: (chunk.parents[2] / "zarr.json").write_text("[]"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_is_told_at_once(tree, watch, change):
    assert watch.quiet()
    assert watch.quiet()
    CHANGES[change](tree / "c" / "1" / "0")
    assert not watch.quiet()
    assert not watch.quiet()


def test_reading_is_no_change(tree, watch):
    for file in tree.rglob("0"):
        if file.is_file():
            np.fromfile(file, "u1")
    assert watch.quiet()


def test_what_changed_before_it_was_trusted_is_told(tree):
    watch = Watch([str(tree)])
    assert watch.arm()
    in_place(tree / "c" / "2" / "0")
    watch.trust()
    assert not watch.quiet()


def test_it_is_not_quiet_before_it_is_trusted(tree):
    watch = Watch([str(tree)])
    assert not watch.quiet()
    assert watch.arm()
    assert not watch.quiet()


def test_another_directory_in_its_place_is_told(tree, watch):
    # Nothing happens in the directories that are watched, but above them.
    above = tree.parent
    other = above.with_name(above.name + "-other")
    shutil.copytree(above, other)
    above.rename(above.with_name(above.name + "-old"))
    other.rename(above)
    assert not watch.quiet()


def test_armed_anew_it_is_quiet_again(tree, watch):
    in_place(tree / "c" / "0" / "0")
    assert not watch.quiet()
    assert watch.arm()
    watch.trust()
    assert watch.quiet()


def test_directories_below_a_single_one_do_not_matter(tree):
    watch = Watch([], [str(tree)])
    assert watch.arm()
    watch.trust()
    in_place(tree / "c" / "0" / "0")
    assert watch.quiet()
    (tree / "zarr.json").write_text("[]")
    assert not watch.quiet()


def link(tree):
    os.link(tree / "c" / "0" / "0", tree.parent / "second name")


def symbolic(tree):
    (tree / "c" / "0" / "0").rename(tree.parent / "elsewhere")
    (tree / "c" / "0" / "0").symlink_to(tree.parent / "elsewhere")


def symbolic_folder(tree):
    (tree / "c" / "0").rename(tree.parent / "elsewhere")
    (tree / "c" / "0").symlink_to(tree.parent / "elsewhere")


@pytest.mark.parametrize("unusual", [link, symbolic, symbolic_folder])
def test_files_that_can_be_written_from_elsewhere_are_not_watched(tree, unusual):
    unusual(tree)
    watch = Watch([str(tree)])
    assert not watch.arm()
    watch.trust()
    assert not watch.quiet()


def test_a_file_system_of_another_machine_is_not_watched(tree, monkeypatch):
    monkeypatch.setattr(watching, "_LOCAL", frozenset({"nfs4"}))
    assert not Watch([str(tree)]).arm()


def test_too_many_directories_are_not_watched(tree, monkeypatch):
    monkeypatch.setattr(watching, "_MOST", 3)
    assert not Watch([str(tree)]).arm()


def test_quiet_does_not_count_for_ever(tree, monkeypatch):
    monkeypatch.setattr(watching, "_TRUSTED", 0.0)
    watch = Watch([str(tree)])
    assert watch.arm()
    watch.trust()
    assert not watch.quiet()


@pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork:DeprecationWarning")
def test_a_forked_process_takes_nothing_from_its_parent(tree, watch):
    in_place(tree / "c" / "0" / "0")
    child = os.fork()
    if not child:
        os._exit(int(watch.quiet() or watch.arm()))
    assert os.waitpid(child, 0)[1] == 0
    assert not watch.quiet()


def test_nothing_is_left_open(tree):
    before = len(list(pathlib.Path("/proc/self/fd").iterdir()))
    for _ in range(5):
        watch = Watch([str(tree)])
        assert watch.arm()
        assert watch.arm()
    del watch
    assert len(list(pathlib.Path("/proc/self/fd").iterdir())) == before
