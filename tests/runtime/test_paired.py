"""Two files of which the second is of use with the first alone: what a killed process left is finished or removed."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import pytest

from cfagg.errors import TargetError
from cfagg.runtime.paired import PairedFile
from cfagg.runtime.staging import lock


@pytest.fixture
def first(tmp_path) -> Path:
    """The first file; the second holds the same bytes."""
    path = tmp_path / "a.nc"
    path.write_bytes(b"old")
    path.with_name("a.nc.index").write_bytes(b"old")
    return path


def pair(first: Path) -> PairedFile:
    return PairedFile(
        first, Path(f"{first}.index"), lambda made: made.read_bytes() == first.read_bytes(), "working on it"
    )


def contents(first: Path) -> dict[str, bytes]:
    return {p.name: b"" if p.is_dir() else p.read_bytes() for p in first.parent.iterdir()}


def left(first: Path, second: bytes | None) -> None:
    """Leave what a process leaves that was killed after it had written the second file aside."""
    work = first.with_name(".a.nc.cfagg-partial")
    (work / "beside").mkdir(parents=True)
    (work / "lock").touch()
    if second is not None:
        (work / "beside" / "file").write_bytes(second)


def test_both_are_replaced_and_nothing_else_is_left(first):
    with pair(first) as two:
        two.prepare(b"new")
        first.write_bytes(b"new")
        two.publish()
    assert contents(first) == {"a.nc": b"new", "a.nc.index": b"new"}


def test_without_a_second_one_that_of_the_former_goes(first):
    with pair(first) as two:
        first.write_bytes(b"new")
        two.publish()
    assert contents(first) == {"a.nc": b"new"}


def interrupted(first: Path, new: bytes) -> None:
    """Fail when the second file has been written aside, and the first one is this."""
    with suppress(KeyError), pair(first) as two:
        two.prepare(b"new")
        first.write_bytes(new)
        raise KeyError


def test_an_error_before_the_first_one_is_replaced_leaves_both(first):
    interrupted(first, b"old")
    assert contents(first) == {"a.nc": b"old", "a.nc.index": b"old"}


def test_an_error_between_the_two_is_mended_by_the_next_run(first):
    interrupted(first, b"new")
    assert contents(first).keys() == {"a.nc", "a.nc.index", ".a.nc.cfagg-partial"}
    with pytest.raises(KeyError), pair(first):
        raise KeyError
    assert contents(first) == {"a.nc": b"new", "a.nc.index": b"new"}


@pytest.mark.parametrize(("second", "found"), [(b"new", b"new"), (b"torn", b"old"), (None, b"old")])
def test_what_a_killed_process_left_is_put_in_place_if_it_belongs_to_the_first_one(first, second, found):
    first.write_bytes(b"new")
    left(first, second)
    with pytest.raises(KeyError), pair(first):
        raise KeyError
    assert contents(first) == {"a.nc": b"new", "a.nc.index": found}


def test_while_it_is_held_another_is_refused(first):
    left(first, None)
    held, _ = lock(first.with_name(".a.nc.cfagg-partial") / "lock")
    with held, pytest.raises(TargetError, match="another process is working on it"), pair(first):
        pass


def test_a_directory_of_somebody_else_is_not_touched(first):
    work = first.with_name(".a.nc.cfagg-partial")
    work.mkdir()
    (work / "mine").write_bytes(b"x")
    with pytest.raises(TargetError, match="was not made by cfagg"), pair(first):
        pass
    assert (work / "mine").read_bytes() == b"x"
