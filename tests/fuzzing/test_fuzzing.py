"""Some changed inputs for each parser, and whether the fuzzers themselves notice what they are there for."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fuzzing import running
from tests.fuzzing.changing import change
from tests.fuzzing.running import Process
from tests.fuzzing.target import TABLE, table, target

#: Inputs for each parser.
COUNT = 30


@pytest.fixture(scope="module")
def process() -> Iterator[Process]:
    with Process() as started:
        yield started


@pytest.mark.few(12)
@pytest.mark.parametrize("name", [name for name, one in table().items() if not one.pending and not one.trial])
def test_nothing_but_our_errors_comes_out_of(process: Process, name: str) -> None:
    assert [str(f) for f in process.fuzz(name, max(int(COUNT * table()[name].share), 8))] == []


def test_what_a_worker_writes_goes_with_the_process_that_started_it(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[str] = []

    def placed(*args: object, **options: object) -> object:
        made.append(options["env"]["TMPDIR"])  # type: ignore[index]
        raise InterruptedError

    monkeypatch.setattr("subprocess.Popen", placed)
    with Process() as started:
        with pytest.raises(InterruptedError):
            started.fuzz("trial", 1)
        (Path(made[0]) / "left by a worker that was killed").touch()
    assert not Path(made[0]).exists()


@pytest.mark.full
def test_what_other_exceptions_crashes_and_hangs_there_are_is_noticed(
    process: Process, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(running, "SECONDS", 0.3)
    monkeypatch.setattr(running, "WAIT", 3.0)
    found = {f.input: (f.kind, f.where) for f in process.fuzz("trial", 8)}
    assert [found[f"0:{n}"][0] for n in (1, 2, 3, 4, 5)] == [
        "KeyError", "SIGSEGV", "more than 0.3 s", "waits more than 3 s", "MemoryError",
    ]  # fmt: skip
    assert set(found) == {f"0:{n}" for n in (1, 2, 3, 4, 5)}


@pytest.mark.soak
def test_a_worker_that_computes_does_not_wait_however_little_it_gets_to_do(
    process: Process, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(running, "SECONDS", 1.0)
    monkeypatch.setattr(running, "WAIT", 0.3)
    assert [f.kind for f in process.fuzz("trial", 1, start=3)] == ["more than 1 s"]


def test_an_input_is_the_same_whenever_it_is_made() -> None:
    one = table()["cell_methods"]
    assert [one.input(3, n) for n in range(50)] == [one.input(3, n) for n in range(50)]
    assert len({one.input(3, n) for n in range(50)}) > 40


@pytest.mark.parametrize("seed", [b"abcdefgh", "time: mean", {"a": [1, 2, {"b": "c"}]}])
def test_changes_keep_the_kind_of_input_and_leave_the_seed_as_it_is(seed: object) -> None:
    from copy import deepcopy
    from random import Random

    before = deepcopy(seed)
    made = [change([seed], Random(n)) for n in range(300)]
    assert {type(m) for m in made} == {type(seed)}
    assert seed == before
    assert sum(m != seed for m in made) > 250


def test_a_name_can_be_taken_once() -> None:
    with pytest.raises(ValueError, match="twice"):
        target("trial", seeds=list)(print)
    assert "trial" in TABLE
