"""Tasks that other processes do."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from cfagg.runtime import processes
from cfagg.runtime.processes import Died, run_processes
from tests.systems import proc


def doubled(number: int) -> int:
    print("what is printed is no answer")
    return 2 * number


def failing(number: int) -> int:
    raise ValueError(f"{number} is wrong")


def dying(number: int) -> int:
    if number == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    return number


def cut(number: int) -> bytes:
    """End this process while it sends the result of the first task."""

    def send(stream: Any, data: bytes) -> None:
        stream.write(len(data).to_bytes(8, "little") + data[: len(data) // 2])
        stream.flush()
        os.kill(os.getpid(), signal.SIGKILL)

    if number == 0:
        processes._send = send
    return bytes(100_000)


def sleeping(seconds: float) -> float:
    time.sleep(seconds)
    return seconds


def children() -> set[int]:
    """Return the processes that this one has started and that live."""
    found: set[int] = set()
    for task in proc("self/task").iterdir():
        with suppress(OSError):  # a thread that has just ended
            found |= {int(n) for n in (task / "children").read_text().split()}
    return found


def test_results_come_from_other_processes() -> None:
    assert sorted(run_processes(doubled, iter(range(5)), 2)) == [0, 2, 4, 6, 8]


def test_an_error_of_a_task_is_raised_and_nothing_is_left() -> None:
    before = children()
    with pytest.raises(ValueError, match="3 is wrong"):
        list(run_processes(failing, iter([3]), 1))
    assert children() <= before


def test_a_process_that_ends_while_it_sends_a_result_is_told_of_and_replaced() -> None:
    found: list[Any] = list(run_processes(cut, iter(range(2)), 1))
    assert isinstance(found[0], Died)
    assert (found[0].task, found[1:]) == (0, [bytes(100_000)])


def test_a_process_that_is_killed_is_told_of_and_replaced() -> None:
    found: list[Any] = list(run_processes(dying, iter(range(4)), 1))
    assert [r.task for r in found if isinstance(r, Died)] == [1]
    assert [r for r in found if not isinstance(r, Died)] == [0, 2, 3]


def test_processes_end_when_nobody_wants_more() -> None:
    before, results = children(), run_processes(sleeping, iter([0.0, 60.0, 60.0]), 2)
    assert next(results) == 0
    results.close()
    assert children() <= before


SCRIPT = """
import sys
from cfagg.runtime.processes import run_processes
from tests.runtime.test_processes import doubled
print(sorted(run_processes(doubled, iter([1, 2]), 2)))
"""


def test_a_script_needs_no_guard_of_its_main_module(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    root = str(Path(__file__).parents[2])
    done = subprocess.run(
        [sys.executable, script], env={**os.environ, "PYTHONPATH": root}, capture_output=True, text=True
    )
    assert done.stdout == "[2, 4]\n"
