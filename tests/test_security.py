"""Each guarantee about security and each promise of compatibility names tests, and all of these exist."""

from __future__ import annotations

import ast
import functools
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / ".github" / "SECURITY.md").read_text(encoding="utf-8")
CONTRIBUTING = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
NAMED = re.findall(r"^    - (.*)$", PAGE, flags=re.MULTILINE)


def promises(page: str, heading: str) -> list[str]:
    """Return the items of the lists below a heading."""
    section = page.split(f"\n## {heading}\n")[1].split("\n## ", maxsplit=1)[0]
    return re.split(r"^- ", section, flags=re.MULTILINE)[1:]


@functools.cache
def functions(path: Path) -> dict[str, str]:
    """Return the functions of a module by name, with their decorators."""
    body = ast.parse(path.read_text(encoding="utf-8")).body
    return {n.name: " ".join(map(ast.unparse, n.decorator_list)) for n in body if isinstance(n, ast.FunctionDef)}


@pytest.mark.parametrize(
    "items", [promises(PAGE, "Guarantees"), promises(CONTRIBUTING, "Versions and compatibility")], ids=["safe", "same"]
)
def test_no_promise_is_without_a_test(items: list[str]) -> None:
    assert items
    assert [i.splitlines()[0] for i in items if not re.search(r"`tests/\S+::\w+`", i)] == []


@pytest.mark.few(1000)
@pytest.mark.parametrize("named", [*NAMED, *re.findall(r"`tests/\S+::\w+`", CONTRIBUTING)])
def test_a_test_that_is_named_for_a_guarantee_exists_and_is_run_every_day(named: str) -> None:
    found = re.fullmatch(r"`(tests/[\w/]+\.py)::(test_\w+)`", named)
    assert found, named
    assert found[2] in functions(ROOT / found[1])
    assert not re.search(r"mark\.(soak|xfail|skip\b)", functions(ROOT / found[1])[found[2]])


def test_no_test_is_named_twice() -> None:
    assert len(NAMED) == len(set(NAMED))
