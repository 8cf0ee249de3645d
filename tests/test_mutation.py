"""The mutation tester itself: it sees what a test sees, and nothing else."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from tests.mutation.changes import mutants
from tests.mutation.equivalents import EQUIVALENTS
from tests.mutation.groups import GROUPS
from tests.mutation.log import Log

ROOT = Path(__file__).parents[1]

SOURCE = """
def clip(value: int, most: int = 3) -> int:
    if value < 0 or not value:
        raise ValueError(
            f"{value + 1} is negative"
        )
    note(value)
    return min(value, most)
"""


def test_every_kind_of_change_is_made_in_its_place_and_none_in_messages():
    found = {(m.line, m.before, m.after) for m in mutants("m.py", SOURCE)}
    assert found == {
        (2, "3", "4"),
        (3, "value < 0", "value <= 0"),
        (3, "value < 0 or not value", "value < 0 and (not value)"),
        (3, "value < 0 or not value", "value < 0"),
        (3, "value < 0 or not value", "not value"),
        (3, "value < 0 or not value", "False"),
        (3, "not value", "value"),
        (3, "0", "1"),
        (4, 'raise ValueError( f"{value + 1} is negative" )', "pass"),
        (7, "note(value)", "pass"),
        (8, "min", "max"),
    }


def test_every_mutant_is_another_program_with_the_same_lines():
    trees = {ast.dump(ast.parse(mutant.source)) for mutant in mutants("m.py", SOURCE)}
    assert len(trees) == 11
    assert ast.dump(ast.parse(SOURCE)) not in trees
    assert {mutant.source.count("\n") for mutant in mutants("m.py", SOURCE)} == {SOURCE.count("\n")}


def test_a_mutant_is_found_again_after_an_edit_elsewhere():
    later = mutants("m.py", "import os\n" + SOURCE)
    assert [m.key for m in later] == [m.key for m in mutants("m.py", SOURCE)]
    assert len({m.key for m in later}) == len(later)


def test_what_runs_on_import_is_told_from_what_a_call_runs():
    assert [m.before for m in mutants("m.py", SOURCE) if not m.inside] == ["3"]


def test_a_log_gives_back_the_last_result_of_each_mutant(tmp_path):
    first, second = mutants("m.py", SOURCE)[:2]
    log = Log(tmp_path / "made" / "log")
    log.add(first, "survived")
    log.add(second, "killed")
    log.add(first, "killed")
    assert Log(log.path).results == {first.key: "killed", second.key: "killed"}


def test_modules_and_tests_of_the_groups_exist():
    for group in GROUPS.values():
        assert [path for path in (*group.modules, *group.tests) if not (ROOT / path).exists()] == []


@pytest.mark.soak
def test_what_is_explained_is_a_mutant_of_today():
    for path, explained in EQUIVALENTS.items():
        known = {(m.text, m.before, m.after) for m in mutants(path, (ROOT / path).read_text())}
        assert set(explained) <= known


#: In a process without threads, since it forks.
TRIAL = """
import sys
from pathlib import Path
import pytest
from tests.mutation.bench import Bench
from tests.mutation.changes import mutants

path = "halved.py"
source = Path(path).read_text()

def use(bench):
    for mutant in mutants(path, source):
        print(mutant.line, mutant.after, bench.attempt(mutant), file=sys.__stderr__)
    assert Path(path).read_text() == source

bench = Bench([path], use, margin=0)
pytest.main(["-q", "-p", "no:cacheprovider", "--basetemp=temporary", "test_halved.py"], plugins=[bench])
"""

HALVED = """
def halved(value):
    count = 0
    while value >= 2:
        value, count = value // 2, count + 1
    if count > 9:
        count = 9
    return count

def unused():
    return True
"""

NOTICING = """
from halved import halved

def test_halved():
    assert halved(8) == 3
"""


@pytest.mark.soak
def test_an_attempt_says_what_the_tests_did_and_puts_the_module_back(tmp_path):
    (tmp_path / "halved.py").write_text(HALVED)
    (tmp_path / "test_halved.py").write_text(NOTICING)
    found = subprocess.run(
        [sys.executable, "-c", TRIAL], cwd=tmp_path, env={"PYTHONPATH": f"{tmp_path}:{ROOT}"},
        capture_output=True, text=True, check=True, timeout=600,
    )  # fmt: skip
    assert found.stderr.splitlines() == [
        "3 1 killed",
        "4 value > 2 killed",
        "4 3 killed",
        "5 value * 2 timed out",
        "5 3 killed",
        "5 count - 1 killed",
        "5 2 killed",
        "6 False survived",
        "6 count >= 9 survived",
        "6 10 survived",
        "7 10 not run",
        "11 False not run",
    ]
