"""Stores that are mount points, directories that let nothing be made, and disks without room."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from tests.durability.faults import names_of_work
from tests.durability.places import ALL_RUNS, RUNS, WITHIN

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux has capabilities and such mounts")


@pytest.fixture(scope="session")
def found(everyday):
    return {(f["kind"], f["name"]): f for f in everyday["places"]}


def check_new(found):
    assert (found["status"], found["state"], found["litter"]) == (0, "new", []), found


def check_refused(found):
    assert (found["status"], found["state"], found["litter"]) == (2, "old", []), found
    (line,) = [line for line in found["said"].splitlines() if "error: " in line]
    assert "Permission denied" in line
    assert ".cfagg-" not in line


def check_full(found):
    assert (found["status"], found["state"]) == (2, "old"), found
    said = [line for line in found["said"].splitlines() if not line.startswith("note")]
    (line,) = [line for line in said if "error: " in line]
    assert any(why in line for why in ("File too large", "HDF error", "No space left"))
    assert "/out/" in line
    assert names_of_work(found["said"]) == []


@pytest.mark.parametrize(("kind", "name"), [(kind, name) for kind in ("bind", "tmpfs") for name in RUNS[kind]])
def test_a_store_that_is_a_mount_point_is_replaced_and_accumulated(found, kind, name):
    if "skipped" in found[kind, name]:
        pytest.skip(found[kind, name]["skipped"])
    check_new(found[kind, name])


@pytest.mark.parametrize("name", [n for n in RUNS["unwritable"] if n in WITHIN])
def test_a_store_whose_directory_cannot_be_written_is_replaced_and_accumulated(found, name):
    check_new(found["unwritable", name])


@pytest.mark.parametrize("name", [n for n in RUNS["unwritable"] if n not in WITHIN])
def test_what_stands_in_a_directory_that_cannot_be_written_stays_and_one_sentence_says_why(found, name):
    check_refused(found["unwritable", name])


@pytest.mark.parametrize("name", RUNS["full"])
def test_without_room_the_old_state_stays_and_one_sentence_names_the_target_only(found, name):
    check_full(found["full", name])


@pytest.mark.soak
@pytest.mark.parametrize("kind", ALL_RUNS)
def test_every_writer_in_places_of_this_kind(tmp_path, kind):
    done = subprocess.run(
        [sys.executable, "-m", "tests.durability.places", tmp_path, kind], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    told = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    assert [one["name"] for one in told] == list(ALL_RUNS[kind])
    if "skipped" in told[0]:
        pytest.skip(told[0]["skipped"])
    for one in told:
        if kind == "full":
            check_full(one)
        elif kind == "unwritable" and one["name"] not in WITHIN:
            check_refused(one)
        else:
            check_new(one)
