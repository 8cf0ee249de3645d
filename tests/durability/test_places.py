"""Stores that are mount points, directories that let nothing be made, and disks without room."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys

import pytest

from tests.durability.faults import names_of_work
from tests.durability.places import RUNS

#: Writers that replace what stands within a store; the others make something beside it.
WITHIN = RUNS["unwritable"][:4]


def outcomes(folder, *kinds, before=()):
    """Run the writers, and return what came of each."""
    done = subprocess.run(
        [*before, sys.executable, "-m", "tests.durability.places", folder, *kinds], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    found = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    return {(f["kind"], f["name"]): f for f in found}


@pytest.fixture(scope="module")
def mounted(tmp_path_factory):
    unshare = shutil.which("unshare")
    alone = [unshare or "unshare", "--mount", *(["--map-root-user"] if os.geteuid() else [])]
    if (
        unshare is None
        or subprocess.run([*alone, "mount", "-t", "tmpfs", "none", "/mnt"], capture_output=True).returncode
    ):
        pytest.skip("nothing can be mounted here (unshare --mount)")
    return outcomes(tmp_path_factory.mktemp("mounted"), "bind", "tmpfs", before=alone)


@pytest.fixture(scope="module")
def unwritable(tmp_path_factory):
    if sys.platform != "linux":
        pytest.skip("only Linux has capabilities")
    return outcomes(tmp_path_factory.mktemp("unwritable"), "unwritable", "full")


@pytest.mark.parametrize(("kind", "name"), [(kind, name) for kind in ("bind", "tmpfs") for name in RUNS[kind]])
def test_a_store_that_is_a_mount_point_is_replaced_and_accumulated(mounted, kind, name):
    found = mounted[kind, name]
    assert (found["status"], found["state"], found["litter"]) == (0, "new", []), found


@pytest.mark.parametrize("name", WITHIN)
def test_a_store_whose_directory_cannot_be_written_is_replaced_and_accumulated(unwritable, name):
    found = unwritable["unwritable", name]
    assert (found["status"], found["state"], found["litter"]) == (0, "new", []), found


@pytest.mark.parametrize("name", [n for n in RUNS["unwritable"] if n not in WITHIN])
def test_what_stands_in_a_directory_that_cannot_be_written_stays_and_one_sentence_says_why(unwritable, name):
    found = unwritable["unwritable", name]
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


@pytest.mark.parametrize("name", RUNS["full"])
def test_without_room_the_old_state_stays_and_one_sentence_names_the_target_only(unwritable, name):
    check_full(unwritable["full", name])


@pytest.mark.soak
def test_without_room_no_writer_replaces_anything_or_shows_names_of_its_own(tmp_path):
    found = outcomes(tmp_path / "full", "all full")
    assert len(found) == len(RUNS["all full"])
    for one in found.values():
        check_full(one)
