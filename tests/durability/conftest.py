"""What the everyday tests share: one process does all that needs a process of its own, and they look at what came."""

import fcntl
import json
import os
import subprocess
import sys

import pytest


@pytest.fixture(scope="session")
def everyday(tmp_path_factory):
    """Return what came of everything that is tried every day; processes of one session do it once."""
    home = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        home = home.parent
    kept = home / "everyday.json"
    with (home / "everyday.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not kept.exists():
            folder = tmp_path_factory.mktemp("everyday")
            done = subprocess.run(
                [sys.executable, "-m", "tests.durability.everyday", folder], capture_output=True, text=True
            )
            assert done.returncode == 0, done.stdout + done.stderr
            kept.write_text(done.stdout.rpartition("\neveryday ")[2])
    return json.loads(kept.read_text())
