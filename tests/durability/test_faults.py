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


@pytest.mark.full
def test_the_harness_finds_any_file_or_folder_that_an_append_does_not_force_to_disk(tmp_path):
    # Each of another kind: what is recorded, a chunk, names of chunks, a document, its name, and what publishes all.
    kinds = ("/.cfagg-append", "/tas/c/5/0/0", "/tas/c", "/tas/.zarr.json.part", "/tas", "/a.zarr")
    script = (
        "import pathlib, random, sys\n"
        "from tests.durability import faults, powerloss, tracing\n"
        "from tests.durability.writers import WRITERS\n"
        "if reason := tracing.works():\n"
        f"    print(reason); sys.exit({UNABLE})\n"
        "stand = faults.Stand(WRITERS['append'], pathlib.Path(sys.argv[1]))\n"
        "disk = stand.record()\n"
        "synced = {c[1][0][2].decode(): i for i, c in enumerate(powerloss.calls(stand.recorded)) if c[0] == b'fsync'}\n"
        "for kind in sys.argv[2:]:\n"
        "    numbers = [i for path, i in synced.items() if path.endswith(kind)]\n"
        "    assert len(numbers) == 1, (kind, synced)\n"
        # Which calls an append makes one after the other differs from run to run, and so does how many losses show it.
        "    tries = (stand.lose_power(disk, random.Random(seed), 120, frozenset(numbers)) for seed in range(10))\n"
        "    assert any(map(any, tries)), kind\n"
    )
    done = subprocess.run([sys.executable, "-c", script, tmp_path, *kinds], capture_output=True, text=True)
    if done.returncode == UNABLE:
        pytest.skip(f"no faults can be injected: {done.stdout}")
    assert done.returncode == 0, done.stdout + done.stderr


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
