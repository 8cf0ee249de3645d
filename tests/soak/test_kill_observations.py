"""Builds of observations killed at random moments, while a reader opens the store without pause."""

import subprocess
import sys

import pytest

pytestmark = pytest.mark.soak


@pytest.mark.parametrize("seed", range(4))
def test_after_fifty_kills_the_store_is_whole_or_not_there(seed, tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "tests.observations.killing", tmp_path, str(seed), "50"], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.startswith("50 kills")
