"""Builds and appends killed at random moments, while a reader asks without pause."""

import subprocess
import sys

import pytest

pytestmark = pytest.mark.soak


@pytest.mark.parametrize("seed", range(4))
def test_after_fifty_kills_every_answer_is_right_or_refused(seed, tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "tests.accumulation.killing", tmp_path, str(seed), "50"], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.startswith("50 kills")
