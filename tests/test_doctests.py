"""Every example in a docstring runs; modules are found by name, since two folders are installed inside cfagg."""

from __future__ import annotations

import doctest
import importlib
import importlib.util
import inspect
import pkgutil
from collections.abc import Iterable
from pathlib import Path

import pytest

import cfagg

MODULES = sorted(
    ["cfagg", *(m.name for m in pkgutil.walk_packages(cfagg.__path__, "cfagg.") if not m.name.endswith(".__main__"))]
)


def test_all_folders_are_walked() -> None:
    assert {"cfagg.kernels", "cfagg.conventions", "cfagg.cf", "cfagg.model"} <= set(MODULES)


def _examples(names: Iterable[str]) -> list[str]:
    """Return the modules that have any: with a test for each of the others, the suite would take seconds longer."""
    found = (importlib.util.find_spec(name) for name in names)
    return [one.name for one in found if one and one.origin and ">>>" in Path(one.origin).read_text()]


@pytest.mark.few(80)
@pytest.mark.parametrize("name", _examples(MODULES))
def test_examples_of_the_module_run(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    result = doctest.testmod(importlib.import_module(name), optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
    assert result.failed == 0


@pytest.mark.parametrize("name", [n for n in cfagg.__all__ if n[0].islower()])
def test_a_public_function_shows_an_example(name: str) -> None:
    home = importlib.import_module(cfagg._HOMES[name])
    assert ">>>" in (inspect.getdoc(getattr(home, name)) or "")
