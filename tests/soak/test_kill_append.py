"""Appends killed at random moments, while a reader asks without pause."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest


def killed(folder: Path, seed: int, kills: int, kind: str) -> None:
    # A process of its own forks before any thread is started.
    command = [sys.executable, "-m", "tests.writing.zarr.killing", str(folder), str(seed), str(kills), kind]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.startswith(f"{kills} kills")


@pytest.mark.soak
@pytest.mark.parametrize("kind", ["regular", "rectilinear", "v2"])
def test_after_two_hundred_kills_readers_have_seen_whole_appends_only(kind: str, tmp_path: Path) -> None:
    killed(tmp_path, 7, 200, kind)


@pytest.mark.full
@pytest.mark.parametrize("kind", ["regular", "rectilinear"])
def test_after_twenty_kills_readers_have_seen_whole_appends_only(kind: str, tmp_path: Path) -> None:
    killed(tmp_path, 3, 20, kind)
