"""The place of a store that is written to, on this machine; tests of object stores are in tests/storage/remote."""

from __future__ import annotations

import errno
import os
import pickle
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from cfagg.errors import TargetError, UnsupportedError
from cfagg.writing.zarr import staged
from cfagg.writing.zarr.place import CLAIM, place_of
from tests.systems import needs_proc

_HOLD = """
import sys, time
from cfagg.writing.zarr.place import place_of
with place_of(sys.argv[1]).writer("appending") as claim:
    claim.record(b"intent")
    print("held", flush=True)
    time.sleep(600)
"""


def hold(store: str | Path, environment: dict[str, str] | None = None) -> subprocess.Popen[bytes]:
    """Start a process that is the writer of a store."""
    command = [sys.executable, "-c", _HOLD, str(store)]
    made = subprocess.Popen(command, stdout=subprocess.PIPE, env={**os.environ, **(environment or {})})
    assert made.stdout is not None
    assert made.stdout.readline() == b"held\n"
    return made


def test_what_is_put_is_read(tmp_path: Path) -> None:
    place = place_of(tmp_path)
    with place.writer("writing"):
        place.put("a/c/0/0", b"one")
        place.put("a/c/0/0", memoryview(b"two"))
        place.sync()
    found = place.read("a/c/0/0")
    assert found is not None
    assert found[0] == b"two"
    assert (tmp_path / "a/c/0/0").read_bytes() == b"two"
    assert sorted(p.name for p in tmp_path.rglob("*")) == ["0", "0", "a", "c"]


def test_a_swap_needs_the_state_that_was_read(tmp_path: Path) -> None:
    place = place_of(tmp_path)
    tag = place.swap("zarr.json", b"1", None)
    read = place.read("zarr.json")
    assert read is not None
    assert read[1] == tag
    tag = place.swap("zarr.json", b"2", tag)
    with pytest.raises(TargetError, match="by another process"):
        place.swap("zarr.json", b"3", read[1])
    with pytest.raises(TargetError, match="by another process"):
        place.swap("zarr.json", b"3", None)
    assert [p.read_bytes() for p in tmp_path.iterdir()] == [b"2"]


def test_deleting_removes_what_is_there_and_what_was_not_whole(tmp_path: Path) -> None:
    (tmp_path / "c").mkdir()
    (tmp_path / "c/0").write_bytes(b"")
    (tmp_path / "c/.0.part").write_bytes(b"")
    (tmp_path / "c/1").write_bytes(b"")
    place_of(tmp_path).delete(["c/0", "c/7", "d/0"])
    assert [p.name for p in (tmp_path / "c").iterdir()] == ["1"]


def test_a_second_writer_is_refused_and_the_next_is_not(tmp_path: Path) -> None:
    first, second = place_of(tmp_path), place_of(tmp_path)
    with first.writer("appending"), pytest.raises(TargetError, match="another process is appending there"):
        second.writer("appending").__enter__()
    with second.writer("appending") as claim:
        assert claim.left is None
    assert not (tmp_path / CLAIM).exists()


def test_the_lock_dies_with_its_process_and_what_it_recorded_is_left(tmp_path: Path) -> None:
    other = hold(tmp_path)
    with pytest.raises(TargetError, match="another process"), place_of(tmp_path).writer("appending"):
        pass
    other.send_signal(signal.SIGKILL)
    other.wait()
    with place_of(tmp_path).writer("appending") as claim:
        assert claim.left == b"intent"
        claim.forget()
    with place_of(tmp_path).writer("appending") as claim:
        assert claim.left is None


def test_nothing_is_written_through_a_link_out_of_the_store(tmp_path: Path) -> None:
    store, outside = tmp_path / "a.zarr", tmp_path / "outside"
    store.mkdir()
    outside.mkdir()
    (store / "tas").symlink_to(outside)
    (outside / "0").write_bytes(b"")
    for act in (lambda p: p.put("tas/0", b"x"), lambda p: p.put("tas/c/0", b"x"), lambda p: p.swap("tas/1", b"", None)):
        with pytest.raises(TargetError, match="a link out of the store"):
            act(place_of(store))
    place_of(store).delete(["tas/0"])
    assert (outside / "0").read_bytes() == b""
    assert list(outside.rglob("*")) == [outside / "0"]


def test_two_names_of_a_store_have_one_lock(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").symlink_to("a")
    with place_of(tmp_path / "a").writer("w"), pytest.raises(TargetError), place_of(tmp_path / "b").writer("w"):
        pass


def test_a_place_is_sent_to_other_processes(tmp_path: Path) -> None:
    place = pickle.loads(pickle.dumps(place_of(tmp_path)))
    place.put("c/0", b"x")
    assert (tmp_path / "c/0").read_bytes() == b"x"


def test_web_servers_are_not_written_to() -> None:
    with pytest.raises(UnsupportedError, match="cannot be written to"):
        place_of("https://localhost/a.zarr")


def test_a_lock_costs_little(tmp_path: Path) -> None:
    place, begin = place_of(tmp_path), time.process_time()
    for _ in range(20):
        with place.writer("w"):
            pass
    assert time.process_time() - begin < 1


def test_what_is_staged_takes_its_place_when_it_is_on_disk(tmp_path: Path) -> None:
    place = place_of(tmp_path)
    place.put("c/0", b"former")
    with place.writer("writing"):
        place.stage("c/0", b"new")
        assert (tmp_path / "c/0").read_bytes() == b"former"
        place.sync()
        assert (tmp_path / "c/0").read_bytes() == b"new"
        place.stage("c/0", b"never")
    assert (tmp_path / "c/0").read_bytes() == b"new"
    assert [p.name for p in (tmp_path / "c").iterdir()] == ["0"]


def test_several_are_swapped_or_none(tmp_path: Path) -> None:
    place = place_of(tmp_path)
    tags = place.swap_all([("a", b"1", None), ("b", b"1", None)])
    with pytest.raises(TargetError, match="by another process"):
        place.swap_all([("a", b"2", tags[0]), ("b", b"2", None)])
    assert {p.name: p.read_bytes() for p in tmp_path.iterdir()} == {"a": b"1", "b": b"1"}
    place.swap_all([("a", b"2", tags[0]), ("b", b"2", tags[1])])
    assert {p.name: p.read_bytes() for p in tmp_path.iterdir()} == {"a": b"2", "b": b"2"}


def test_nothing_is_renamed_before_it_is_on_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place, done = place_of(tmp_path), []
    place.put("c/0", b"former")
    place.sync()
    monkeypatch.setattr(staged, "sync_file", lambda file: done.append("data"))
    monkeypatch.setattr(staged, "sync_directory", lambda path: done.append("names"))
    replace = Path.replace

    def renamed(self: Path, target: Any) -> Any:
        done.append("rename")
        return replace(self, target)

    monkeypatch.setattr(Path, "replace", renamed)
    place.stage("c/0", b"new")
    place.stage("c/1", b"new")
    place.sync()
    assert done == ["data", "data", "rename", "rename", "names"]
    done.clear()
    place.stage("c/0", b"newer")
    place.swap_all([("a", b"1", None), ("b", b"1", None), ("last", b"1", None)])
    assert done == ["data"] * 4 + ["rename", "names"] + ["rename", "rename", "names"] + ["rename", "names"]


@needs_proc
def test_a_record_is_on_disk_with_its_folder_before_anything_is_done(tmp_path: Path, monkeypatch) -> None:
    synced: list[Path] = []
    monkeypatch.setattr(os, "fsync", lambda file: synced.append(Path(f"/proc/self/fd/{file}").readlink()))
    with place_of(tmp_path).writer("appending") as claim:
        claim.record(b"intent")
        folder = tmp_path / CLAIM
        assert synced == [folder / ".intent.part", folder, tmp_path]
        claim.forget()


@pytest.mark.parametrize("whole", [True, False])
def test_the_names_of_new_folders_are_forced_to_disk_however_many(tmp_path, monkeypatch, whole: bool) -> None:
    synced: list[str] = []
    monkeypatch.setattr(staged, "_EACH", 1)
    monkeypatch.setattr(staged, "sync_file_system", lambda store: synced.append("all") or whole)
    monkeypatch.setattr(staged, "sync_directory", lambda path: synced.append(os.path.relpath(path, tmp_path)))
    place = place_of(tmp_path)
    for number in range(2):
        place.put(f"v/c/{number}", b"new", new=True)
    place.sync()
    # Once for the data of both, and once for the names in each folder.
    assert synced == ["all", "all", *([] if whole else ["v/c", "v", "."])]


def test_what_is_staged_is_dropped_where_something_else_is_not_as_it_was(tmp_path: Path) -> None:
    place = place_of(tmp_path)
    place.stage("c/0", b"new")
    with pytest.raises(TargetError, match="written by another process"):
        place.swap_all([("zarr.json", b"new", (1, 2, 3))])
    assert [p.name for p in tmp_path.rglob("*") if p.is_file()] == []


def test_a_full_disk_leaves_nothing_beside_the_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = place_of(tmp_path)
    place.put("c/0", b"former")

    def full(file: Any, data: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(staged, "write_all", full)
    for act in (
        lambda: place.put("c/0", b"x"),
        lambda: place.swap("c/1", b"x", None),
        lambda: place.stage("c/0", b"x"),
    ):
        with pytest.raises(TargetError, match="free some space"), place.writer("writing"):
            act()
    assert {p.name: p.read_bytes() for p in (tmp_path / "c").iterdir()} == {"0": b"former"}


def test_objects_staged_together_are_none_where_one_cannot_be_written(tmp_path: Path) -> None:
    place = place_of(tmp_path)
    place.put("a/0", b"old")
    (tmp_path / "b").write_bytes(b"a file")
    with pytest.raises(TargetError, match="b/0 cannot be written"):
        place.stage_all({"a/0": b"new", "a/1": b"new", "b/0": b"new"})
    assert {p.name: p.read_bytes() for p in (tmp_path / "a").iterdir()} == {"0": b"old"}
    place.stage_all({"a/0": b"new", "c/1": b"new"})
    place.sync()
    assert {p.read_bytes() for p in tmp_path.glob("[ac]/*")} == {b"new"}
