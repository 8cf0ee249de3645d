"""Many sources, several at a time."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest

from cfagg.checking import parallel
from cfagg.checking.options import Options
from cfagg.checking.parallel import Job, check_many, processes
from tests.checking.samples import BROKEN, CLEAN, written


class Killer(os.PathLike):
    """A source that ends the process that looks at it, as a crash of a library does."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.home = os.getpid()

    def __fspath__(self) -> str:
        if os.getpid() != self.home:
            os.kill(os.getpid(), signal.SIGKILL)
        return self.path


# Libraries that other tests have loaded into this process may have threads of their own; the command has none.
pytestmark = pytest.mark.filterwarnings("ignore:This process.*is multi-threaded:DeprecationWarning")


@pytest.fixture
def sources(tmp_path: Path) -> list[str]:
    paths = written(tmp_path, broken=BROKEN, clean=CLEAN)
    return [paths["clean"], paths["broken"], str(tmp_path / "none.nc"), paths["clean"]] * 8


@pytest.mark.full
def test_objects_in_memory_are_checked_among_files(sources):
    # A generator cannot be sent to another process.
    jobs = [Job(s, Options()) for s in (sources[0], (n for n in ()), sources[1])]
    results = list(check_many(jobs, jobs=2, fork=True))
    assert [r.ok for r in results] == [True, False, False]
    assert results[1].source == "generator object"


@pytest.mark.few(1)
@pytest.mark.parametrize("fork", [True, False])
def test_results_are_those_of_one_process_and_in_order(sources, fork):
    alone = list(check_many([Job(s, Options()) for s in sources]))
    together = list(check_many([Job(s, Options()) for s in sources], jobs=2, fork=fork))
    assert together == alone
    assert [c.source for c in together] == sources


@pytest.mark.full
def test_sources_are_taken_only_as_they_are_needed(sources):
    taken = 0

    def jobs():
        nonlocal taken
        for source in sources * 50:
            taken += 1
            yield Job(source, Options())

    results = check_many(jobs(), jobs=2, fork=True)
    next(results)
    assert taken < 20
    results.close()


def test_a_source_that_crashes_its_process_is_told_and_the_others_are_checked(sources, monkeypatch):
    monkeypatch.setattr(parallel, "_AHEAD", 1)  # each that was under way gets a process of its own
    jobs = [Job(s, Options()) for s in sources[:12]]
    results = list(check_many([*jobs[:6], Job(Killer("deadly.nc"), Options()), *jobs[6:]], jobs=2, fork=True))
    assert results[6].source == "deadly.nc"
    assert "crashed" in results[6].failure
    assert results[6].findings[0].code == "INT003"
    assert [*results[:6], *results[7:]] == list(check_many(jobs))


def test_as_many_processes_are_used_as_are_wanted_or_there_are_processors():
    assert processes(3) == 3
    assert processes() == (len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count())


def pids(given: list[Job], **how: object) -> set[int]:
    """Return the processes that a source was looked at by."""
    return {int(c.source.rpartition("-")[2]) for c in check_many(given, jobs=2, fork=True, count=len(given), **how)}


class Slow(os.PathLike):
    """A source whose name tells the process that looks at it, after a while."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds

    def __fspath__(self) -> str:
        time.sleep(self.seconds)
        return f"no-such-file-{os.getpid()}"


def test_few_small_sources_need_no_other_process(monkeypatch):
    monkeypatch.setattr(parallel, "_WORTH", 600.0)  # on a busy machine even these may take seconds
    assert pids([Job(Slow(0), Options())] * 10, patient=True) == {os.getpid()}


@pytest.mark.soak
def test_others_take_part_where_there_is_enough_to_do():
    found = pids([Job(Slow(0.05), Options())] * 30, patient=True)
    assert os.getpid() in found
    assert len(found) == 3


def test_one_source_needs_no_other_process_whatever_it_costs():
    assert pids([Job(Slow(0.3), Options())], patient=True) == {os.getpid()}


def test_one_source_needs_no_other_process_even_where_haste_is_asked_for():
    assert pids([Job(Slow(0), Options())], patient=False) == {os.getpid()}


@pytest.mark.parametrize(
    ("spent", "left", "expected"),
    [
        ([0.4], 99, 1),  # the first one has loaded the rules
        ([0.4, 0.005], 98, 0),
        ([0.4, 0.05], 98, 9),
        ([0.4, 0.01, 0.03], 100, 4),
        ([3.0], 2, 12),  # no loading takes so long
    ],
)
def test_processes_are_as_many_as_the_work_that_is_left_is_worth(spent, left, expected):
    assert parallel._worth(spent, left) == expected
