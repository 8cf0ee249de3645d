"""What kills, errors and power losses leave of each writer: a sample of it here, all of it in `make soak`."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from tests.durability.faults import UNABLE
from tests.durability.writers import WRITERS

#: Of each writer so many kills, errors and moments of power loss; in `make soak`, as many as are promised.
FEW, MANY = (2, 2, 4), (200, 102, 120)

#: Writers that stand for the others in the short run: a directory and a file.
SHORT = ("convert --overwrite", "report")


def torment(folder, name, counts):
    """Run the harness in a process of its own, which forks before any thread is started, and return what it printed."""
    options = [f"--{what}={n}" for what, n in zip(("kills", "errors", "losses"), counts, strict=True)]
    done = subprocess.run(
        [sys.executable, "-m", "tests.durability.faults", folder, name, *options], capture_output=True, text=True
    )
    skip_without_strace(done)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def skip_without_strace(done):
    if done.returncode == UNABLE:
        pytest.skip(f"no faults can be injected: {done.stdout}")


@pytest.mark.parametrize("name", SHORT)
def test_a_writer_leaves_the_old_state_or_the_new_one_and_is_finished(tmp_path, name):
    told = torment(tmp_path, name, FEW)
    found = re.search(r"(\d+) kills, +(\d+) errors, +(\d+) power losses, 0 finds", told)
    assert found is not None
    kills, errors, losses = map(int, found.groups())
    assert kills >= FEW[0]
    assert errors >= FEW[1]
    assert losses > 0


@pytest.mark.soak
@pytest.mark.parametrize("name", WRITERS)
def test_a_writer_leaves_the_old_state_or_the_new_one_whatever_happens(tmp_path, name):
    print(torment(tmp_path, name, MANY))


def test_the_harness_finds_a_store_that_was_put_in_place_before_its_data_were_on_disk(tmp_path):
    code = (
        "import sys\nfrom cfagg.runtime import publishing, staging\n"
        "staging.sync_tree = publishing.sync_tree = lambda path: None\n"
        "from tests.durability.faults import main\nsys.exit(main(sys.argv[1:]))\n"
    )
    options = ["convert --overwrite", "--kills=0", "--errors=0", "--losses=16"]
    done = subprocess.run([sys.executable, "-c", code, tmp_path, *options], capture_output=True, text=True)
    skip_without_strace(done)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "power loss after call" in done.stdout
