"""What kills, errors and power losses leave of each writer: a sample of it here, all of it in `make soak`."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.durability.everyday import FEW, FORGOTTEN, SHORT
from tests.durability.faults import UNABLE
from tests.durability.writers import WRITERS

#: Of each writer so many kills, errors and moments of power loss in `make soak`.
MANY = (200, 102, 120)


@pytest.fixture(scope="session")
def injected(everyday):
    if "skipped" in everyday:
        pytest.skip(f"no faults can be injected: {everyday['skipped']}")
    return everyday


@pytest.mark.parametrize("name", SHORT)
def test_a_writer_leaves_the_old_state_or_the_new_one_and_is_finished(injected, name):
    kills, errors, losses, finds = injected["faults"][name]
    assert finds == []
    assert kills >= FEW[0]
    assert errors >= FEW[1]
    assert losses >= FEW[2]


def test_where_directories_are_not_exchanged_a_run_killed_between_renames_keeps_the_old_store(
    injected,
):
    assert injected["network"] == []


@pytest.mark.parametrize("what", FORGOTTEN)
def test_the_harness_finds_a_store_that_is_not_forced_to_disk(injected, what):
    assert "power loss after call" in injected["forgetful"][what]


@pytest.mark.soak
@pytest.mark.parametrize("name", WRITERS)
def test_a_writer_leaves_the_old_state_or_the_new_one_whatever_happens(tmp_path, name):
    # A process of its own forks before any thread is started.
    options = [f"--{what}={n}" for what, n in zip(("kills", "errors", "losses"), MANY, strict=True)]
    done = subprocess.run(
        [sys.executable, "-m", "tests.durability.faults", tmp_path, name, *options], capture_output=True, text=True
    )
    if done.returncode == UNABLE:
        pytest.skip(f"no faults can be injected: {done.stdout}")
    assert done.returncode == 0, done.stdout + done.stderr
