"""The mutation tester itself: it sees what a test sees, and nothing else."""

from __future__ import annotations

import ast
import subprocess
import sys

import pytest

from tests.mutation import ROOT, mutants

SOURCE = """
def clip(value: int, most: int = 3) -> int:
    if value < 0:
        raise ValueError(f"{value + 1} is negative")
    return min(value, most)
"""


def test_every_kind_of_change_is_made_in_its_place_and_none_in_messages():
    found = {(m.line, m.before, m.after) for m in mutants("m.py", SOURCE)}
    assert found == {
        (2, "3", "4"),
        (3, "value < 0", "value <= 0"),
        (3, "value < 0", "False"),
        (3, "0", "1"),
        (4, 'raise ValueError(f"{value + 1} is negative")', "pass"),
        (5, "min", "max"),
    }


def test_every_mutant_is_another_program():
    trees = {ast.dump(ast.parse(mutant.source)) for mutant in mutants("m.py", SOURCE)}
    assert len(trees) == 6
    assert ast.dump(ast.parse(SOURCE)) not in trees


#: In a process without threads, since it forks.
TRIAL = """
import sys
from pathlib import Path
from tests.mutation import Bench, Mutant

bench = Bench(Path(sys.argv[1]), ["tests/readers/test_hdf5_tree.py"])
bench.limit = float(sys.argv[2])
path = "cfagg/readers/hdf5_tree.py"
source = (bench.folder / path).read_text()
assert source.count(sys.argv[3]) == 1
print(bench.attempt(Mutant(path, 0, *sys.argv[3:], source.replace(*sys.argv[3:]))))
assert (bench.folder / path).read_text() == source
"""


@pytest.mark.parametrize(
    ("before", "after", "limit", "result"),
    [
        ("if not row[-2]", "if not row[0]", 60, "killed"),
        ("#: Chunks of the largest", "#: Entries of the largest", 60, "survived"),
        ("rank = len(storage.chunks)", "while True: pass", 5, "timed out"),
    ],
    ids=["a change of meaning", "a change of a comment", "an endless loop"],
)
def test_an_attempt_says_what_the_tests_did_and_puts_the_module_back(tmp_path, before, after, limit, result):
    command = [sys.executable, "-c", TRIAL, str(tmp_path), str(limit), before, after]
    found = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True, timeout=600)
    assert found.stdout.split("\n")[0] == result
