"""Modules by the names that the documentation taught before."""

import subprocess
import sys

import pytest

from cfagg import __version__
from cfagg._moved import MOVED, MOVED_IN


@pytest.mark.parametrize(
    ("line", "now"),
    [
        ("from cfagg.checking.findings import Hit as found", "Hit"),
        ("from cfagg.checking.rule import Rule as found", "Rule"),
        ("from cfagg.checking.versions import Version as found", "Version"),
        ("import cfagg.checking.findings; found = cfagg.checking.findings.NotApplicable", "NotApplicable"),
    ],
)
def test_a_moved_name_is_what_it_was_and_warns_who_imports_it(line, now):
    code = (
        f"import warnings; warnings.simplefilter('error')\ntry:\n    {line}\nexcept DeprecationWarning as e: print(e)\n"
    )
    code += f"warnings.simplefilter('ignore')\n{line}\nimport cfagg.findings; print(found is cfagg.findings.{now})"
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split("\n")
    assert said[0].endswith("is now cfagg.findings; import that")
    assert said[1] == "True"


def test_nothing_in_the_package_has_a_name_that_was_moved():
    from importlib.util import find_spec

    assert all(find_spec(new).origin for new in MOVED.values())
    assert all(find_spec(old).origin is None for old in MOVED)


def numbers(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")[:2]))


def test_a_moved_name_is_gone_in_the_minor_version_after_the_one_in_which_it_moved():
    assert [v for v in MOVED_IN if numbers(v) < numbers(__version__)] == []


def test_no_name_moves_twice():
    assert sum(map(len, MOVED_IN.values())) == len(MOVED)


def test_other_modules_are_missing_as_ever():
    with pytest.raises(ModuleNotFoundError):
        import cfagg.checking.nothing  # noqa: F401
