"""New Zarr stores: there whole or not at all, on this machine; tests of object stores are in tests/storage/remote."""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import zarr

from cfagg import convert
from cfagg.errors import AccessError, SourceNotFoundError, TargetError, TargetExistsError, UnsupportedError
from cfagg.writing.zarr.new_store import Stored, new_store


def documents(made: Path) -> dict[str, bytes]:
    return {p.relative_to(made).as_posix(): p.read_bytes() for p in made.rglob("zarr.json")}


def names(folder: Path) -> list[str]:
    return sorted(p.name for p in folder.iterdir())


@pytest.fixture
def source(tmp_path: Path) -> Path:
    made = tmp_path / "source.zarr"
    zarr.create_array(str(made), name="a/tas", data=np.arange(8), chunks=(4,))
    return made


def copy(source: Path, target: Path, *, overwrite: bool = False) -> None:
    with new_store(target, overwrite=overwrite) as place:
        for key in ("a/tas/c/0", "a/tas/c/1"):
            place.copy(key, Stored(str(source), f"{source}/{key}"))
        place.publish(documents(source))


def test_what_is_copied_and_published_is_a_store(source: Path, tmp_path: Path) -> None:
    target = tmp_path / "new.zarr"
    copy(source, target)
    assert zarr.open_group(target, mode="r")["a/tas"][:].tolist() == list(range(8))
    assert (target / "a/tas/c/1").read_bytes() == (source / "a/tas/c/1").read_bytes()
    assert names(tmp_path) == ["new.zarr", "source.zarr"]


def test_what_is_not_published_leaves_nothing(source: Path, tmp_path: Path) -> None:
    with new_store(tmp_path / "new.zarr") as place:
        place.put("a/tas/c/0", b"x")
        assert not (tmp_path / "new.zarr").exists()
    assert names(tmp_path) == ["source.zarr"]


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_an_error_leaves_nothing(source: Path, tmp_path: Path, error: type[BaseException]) -> None:
    def fail() -> None:
        with new_store(tmp_path / "new.zarr") as place:
            place.put("a/tas/c/0", b"x")
            raise error

    with pytest.raises(error):
        fail()
    assert names(tmp_path) == ["source.zarr"]


def test_a_store_that_is_there_is_replaced_only_if_asked(source: Path, tmp_path: Path) -> None:
    target = tmp_path / "new.zarr"
    zarr.create_group(target, attributes={"old": 1})
    with pytest.raises(TargetExistsError, match="overwrite=True"), new_store(target):
        pass
    with new_store(target, overwrite=True):
        assert zarr.open_group(target, mode="r").attrs["old"] == 1
    assert zarr.open_group(target, mode="r").attrs["old"] == 1
    copy(source, target, overwrite=True)
    assert list(zarr.open_group(target, mode="r")) == ["a"]


def test_a_directory_that_is_no_store_is_never_replaced(tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    (tmp_path / "home/letter").write_text("x")
    with pytest.raises(TargetError, match="is not a Zarr store"), new_store(tmp_path / "home", overwrite=True):
        pass


def test_two_do_not_write_one_store(tmp_path: Path) -> None:
    with (
        new_store(tmp_path / "new.zarr"),
        pytest.raises(TargetError, match=r"another process is writing /.*new\.zarr;"),
        new_store(tmp_path / "new.zarr"),
    ):
        pass


def test_workers_write_through_pickled_keys_and_nothing_half_is_published(source: Path, tmp_path: Path) -> None:
    target = tmp_path / "new.zarr"
    with new_store(target) as place:
        keys = pickle.loads(pickle.dumps(place.keys))
        with pytest.raises(TypeError):
            keys.put("a/tas/c/0", object())
        keys.put("a/tas/c/9", b"first")
        keys.put("a/tas/c/9", b"second")
        keys.move("a/tas/c/9", "a/tas/c/10")
        keys.put("__aside/11", b"gone")
        keys.end("__aside")
        with pytest.raises(FileNotFoundError):
            keys.put("a/tas/c/12", b"late")
        place.publish(documents(source))
    assert not (target / "__aside").exists()
    assert {p.name: p.read_bytes() for p in (target / "a/tas/c").iterdir()} == {"10": b"second"}


def test_what_is_not_there_is_not_copied(source: Path, tmp_path: Path) -> None:
    with new_store(tmp_path / "new.zarr") as place:
        assert place.copy("a/tas/c/7", Stored(str(source), f"{source}/a/tas/c/7")) is None
        assert (
            place.copy("a/tas/c/0", Stored(str(source), f"{source}/a/tas/c/0")) == (source / "a/tas/c/0").stat().st_size
        )


def test_links_out_of_a_source_are_refused(source: Path, tmp_path: Path) -> None:
    (tmp_path / "secret").write_bytes(b"secret")
    (source / "a/tas/c/2").symlink_to(tmp_path / "secret")
    there = Stored(str(source), f"{source}/a/tas/c/2")
    with new_store(tmp_path / "new.zarr") as place:
        with pytest.raises(AccessError, match="outside the store"):
            place.copy("a/tas/c/2", there)
        assert place.copy("a/tas/c/2", there._replace(allow=(str(tmp_path),))) == 6


@pytest.mark.parametrize("target", ["https://a.org/x.zarr", "file:///x.zarr"])
def test_targets_that_cannot_be_written_are_refused(target: str) -> None:
    with pytest.raises((UnsupportedError, TargetError, SourceNotFoundError, ValueError)), new_store(target):
        pass


def test_a_killed_run_leaves_no_store_and_the_next_one_finishes(source: Path, tmp_path: Path) -> None:
    target = tmp_path / "new.zarr"
    code = (
        "import os, signal, sys\n"
        "from cfagg.writing.zarr.new_store import new_store\n"
        "with new_store(sys.argv[1]) as place:\n"
        "    place.put('a/tas/c/0', b'x' * 100)\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    done = subprocess.run([sys.executable, "-c", code, str(target)], check=False)
    assert done.returncode == -signal.SIGKILL
    assert not target.exists()
    copy(source, target)
    assert zarr.open_group(target, mode="r")["a/tas"][:].tolist() == list(range(8))
    assert names(tmp_path) == ["new.zarr", "source.zarr"]


def test_a_worker_that_is_late_makes_nothing_anew(tmp_path: Path) -> None:
    with new_store(tmp_path / "new.zarr") as place:
        keys, once = place.keys, place.once
    for late in (keys, once):
        with pytest.raises(FileNotFoundError):
            late.put("tas/c/0/0", b"x")
    assert names(tmp_path) == []


def test_names_that_a_file_system_takes_for_one_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lexists = os.path.lexists

    def as_on_a_mac(path: str | os.PathLike[str]) -> bool:
        one = Path(path)
        return lexists(path) or (
            one.parent.is_dir() and one.name.casefold() in {p.name.casefold() for p in one.parent.iterdir()}
        )

    def write(target: Path) -> None:
        with new_store(target) as place:
            for key in ("a/T/v/c/0", "a/t/v/c/0"):
                place.put(key, b"x")
            place.publish({"a/T/v/zarr.json": b"{}", "a/t/v/zarr.json": b"{}", "zarr.json": b"{}"})

    write(tmp_path / "linux.zarr")
    assert names(tmp_path / "linux.zarr" / "a") == ["T", "t"]
    monkeypatch.setattr(os.path, "lexists", as_on_a_mac)
    with pytest.raises(TargetError, match=r"mac\.zarr cannot be written: its file system takes the names 'a/T' and"):
        write(tmp_path / "mac.zarr")
    for name in "Tt":
        zarr.create_array(str(tmp_path / "s.zarr"), name=name, data=np.zeros(2), dimension_names=["x"])
    with pytest.raises(TargetError, match="takes the names 'T' and 't' for one"):
        convert(tmp_path / "s.zarr", tmp_path / "mac.zarr")
    assert names(tmp_path) == ["linux.zarr", "s.zarr"]
