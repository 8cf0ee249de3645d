"""An interrupted scan: it ends at once, and leaves neither files nor processes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.aggregation.months import months

SCRIPT = """
import sys, time
from cfagg.aggregation import headers, scanning
scanning._FIRST, scanning._WORTH = 1, 0
from cfagg.cli.main import main
sys.exit(main())
"""


def children_of(number: int) -> list[int]:
    try:
        found = [Path(f"/proc/{number}/task/{t}/children").read_text() for t in os.listdir(f"/proc/{number}/task")]  # noqa: PTH208
    except OSError:
        return []
    return [int(n) for text in found for n in text.split()]


@pytest.mark.full
def test_an_interrupt_ends_all_processes_and_writes_nothing(tmp_path: Path) -> None:
    names = months(tmp_path / "in", 12)
    command = [sys.executable, "-c", SCRIPT, "aggregate", *names, "-o", str(tmp_path / "out.nc"), "--workers", "2"]

    def heard() -> None:
        signal.signal(signal.SIGINT, signal.default_int_handler)

    until, workers = time.monotonic() + 600, list[int]()
    for _ in range(5):  # on a busy machine it may be done before its processes are seen
        running = subprocess.Popen(
            command, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True, preexec_fn=heard,
            env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
        )  # fmt: skip
        while not workers and running.poll() is None and time.monotonic() < until:
            workers = children_of(running.pid)
        running.send_signal(signal.SIGINT)
        _, said = running.communicate(timeout=600)
        if running.returncode:
            break
        for path in tmp_path.glob("out.nc*"):
            path.unlink()
    assert workers
    assert (running.returncode, "interrupted" in said) == (130, True), said
    # One that was just being started ends by itself once nobody asks it for anything.
    while any(Path(f"/proc/{n}").exists() for n in workers) and time.monotonic() < until:
        time.sleep(0.01)
    assert [n for n in workers if Path(f"/proc/{n}").exists()] == []
    assert sorted(p.name for p in tmp_path.iterdir()) == ["in"]
