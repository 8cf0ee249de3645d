"""How hard the tests try: what is left to the long runs is chosen as it is said."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from tests.costs import DAILY, affordable, listing, measured
from tests.effort import EFFORT

CODE = """
import pytest

@pytest.mark.few(3)
@pytest.mark.parametrize("x", range(20))
def test_many(x):
    pass

@pytest.mark.few(1)
@pytest.mark.parametrize("x", [1, *(pytest.param(n, marks=pytest.mark.full) for n in range(2, 20))])
def test_few_of_those_that_are_left(x):
    pass

@pytest.mark.parametrize("x", range(5))
def test_all(x):
    pass
"""


def collected(folder: Path, marks: str) -> list[str]:
    (folder / "test_it.py").write_text(CODE)
    (folder / "conftest.py").write_text("from tests.conftest import pytest_collection_modifyitems\n")
    options = ["-m", marks, "-p", "no:cacheprovider", "--rootdir", str(folder), "-c", os.devnull]
    env = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1]), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", *options, str(folder)]
    found = subprocess.run(command, env=env, capture_output=True, text=True, check=True)
    return [line for line in found.stdout.splitlines() if "::" in line]


#: Unmarked tests have no more parameters than this: those of 23 tests with more were a sixth of all that were run.
MOST = 50


def test_more_parameters_are_tried_every_day_only_where_a_mark_says_how_many(request: pytest.FixtureRequest) -> None:
    marks = ("few", "full", "soak")
    plain = [item for item in request.session.items if not any(item.get_closest_marker(name) for name in marks)]
    counts = Counter(item.nodeid.partition("[")[0] for item in plain)
    many = {name: number for name, number in counts.items() if number > MOST}
    assert not many, f"@pytest.mark.few(n) leaves all but n to `make test-all`; a large n tries all of them: {many}"


@pytest.mark.full
def test_a_few_parameters_run_every_day_and_the_others_in_long_runs(tmp_path: Path) -> None:
    daily, rest = collected(tmp_path, "not soak and not full"), collected(tmp_path, "full")
    assert sum("test_many" in line for line in daily) == 3
    assert sum("test_all" in line for line in daily) == 5
    assert [line for line in daily if "left" in line] == ["test_it.py::test_few_of_those_that_are_left[1]"]
    assert len(rest) == 17 + 18
    assert not set(daily) & set(rest)
    assert set(collected(tmp_path, "not soak")) == set(daily) | set(rest)


@pytest.mark.parametrize(
    ("cost", "number"), [(DAILY * 1.01, 0), (DAILY, 1), (DAILY / 2.5, 2), (DAILY / 100, 9), (0, 9)]
)
def test_every_day_a_test_tries_no_more_parameters_than_its_time_allows(cost: float, number: int) -> None:
    assert affordable(cost, 9) == number


def test_the_cost_of_a_test_is_the_mean_of_its_parameters_and_small_ones_are_not_listed() -> None:
    noted = [
        "0.2 tests/test_b.py::test_x[a b]",
        "0.4 tests/test_b.py::test_x[[c]",
        "0.1 tests/test_a.py::test_y",
        "0.001 z",
    ]
    assert listing(noted) == "0.100 tests/test_a.py::test_y\n0.300 tests/test_b.py::test_x\n"


def test_most_tests_that_are_listed_with_their_cost_are_there() -> None:
    names = set(measured())
    gone = {name for name in names if not (Path(__file__).parents[1] / name.partition("::")[0]).exists()}
    assert names
    assert len(gone) < len(names) / 10, f"measure again by `make costs`: {sorted(gone)}"


@pytest.mark.skipif(EFFORT >= 1, reason="the long runs draw numbers of the package too")
def test_examples_of_every_day_do_not_depend_on_numbers_of_the_package() -> None:
    providers = pytest.importorskip("hypothesis.internal.conjecture.providers")
    if not hasattr(providers, "_get_local_constants"):
        pytest.skip("this version of hypothesis draws no numbers of the package")
    assert not providers._get_local_constants()
