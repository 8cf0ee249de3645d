"""Who may import whom: the table of docs/architecture.md, checked in the source without running it."""

from __future__ import annotations

import ast
import sys
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

#: Folder or module -> packages it may import besides the standard library.
ALLOWED = {
    "kernels": {"numpy", "numba", "llvmlite", "cfagg.kernels"},  # llvmlite is Numba's own code generator
    "conventions": {"numpy", "jsonschema", "cfagg.model", "cfagg.errors", "cfagg.conventions"},
    "cfagg/model.py": {"numpy", "cfagg.errors"},
    "cfagg/errors.py": set(),
    "cfagg/arguments.py": {"cfagg.errors"},
    "cfagg/storage": {"numpy", "cfagg.arguments", "cfagg.errors", "cfagg.model", "cfagg.storage"},
    "cfagg/runtime": {"cfagg.errors", "cfagg.runtime", "distributed"},
}

#: What opens files or connections; a convention only sees attributes.
OPENERS = {"glob", "http", "io", "pathlib", "shutil", "socket", "subprocess", "tempfile", "urllib.request"}

FOLDERS = ("cfagg", "kernels", "conventions")

#: Every module once; cfagg/ also links to the other two folders and to the sample data.
SOURCES = sorted({p.resolve() for f in FOLDERS for p in (ROOT / f).rglob("*.py") if "sample_data" not in p.parts})


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


@cache
def facts(path: Path) -> tuple[list[tuple[int, str]], list[tuple[int, str, list[object]]]]:
    """Return every import, by line and full name, and every call, by line, name of what is called and constants."""
    found, calls = [], []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found += [(node.lineno, alias.name) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = "." * node.level + (node.module or "")
            found += [(node.lineno, f"{base}.{alias.name}" if base == "cfagg" else base) for alias in node.names]
        elif isinstance(node, ast.Call):
            called = getattr(node.func, "id", getattr(node.func, "attr", ""))
            calls.append((node.lineno, called, [a.value for a in node.args if isinstance(a, ast.Constant)]))
    return found, calls


def imports(path: Path) -> list[tuple[int, str]]:
    """Return line and full name of every import, inside functions too."""
    return facts(path)[0]


def within(module: str, packages: set[str]) -> bool:
    return any(module == p or module.startswith(p + ".") for p in packages)


def test_the_source_folders_are_found() -> None:
    names = {name_of(p) for p in SOURCES}
    assert {"cfagg/model.py", "kernels/__init__.py", "conventions/__init__.py"} <= names


@pytest.mark.parametrize("layer", ALLOWED)
def test_a_layer_imports_only_what_its_row_allows(layer: str) -> None:
    paths = [p for p in SOURCES if name_of(p) == layer or name_of(p).startswith(layer + "/")]
    wrong = [
        f"{name_of(p)}:{line} imports {module}"
        for p in paths
        for line, module in imports(p)
        if module.split(".")[0] not in sys.stdlib_module_names and not within(module, ALLOWED[layer])
    ]
    assert paths
    assert not wrong, "\n".join(wrong)


def test_conventions_open_no_file() -> None:
    wrong = []
    for path in SOURCES:
        if not name_of(path).startswith("conventions/"):
            continue
        wrong += [f"{name_of(path)}:{line} imports {m}" for line, m in imports(path) if within(m, OPENERS)]
        wrong += [f"{name_of(path)}:{line} opens a file" for line, called, _ in facts(path)[1] if called == "open"]
    assert not wrong, "\n".join(wrong)


def test_modules_are_imported_by_absolute_name() -> None:
    wrong = [
        f"{name_of(p)}:{line} imports {module}"
        for p in SOURCES
        for line, module in imports(p)
        if module.startswith(".") or module.split(".")[0] in {"kernels", "conventions", "sample_data", "tests"}
    ]
    assert not wrong, "\n".join(wrong)


def test_only_the_udunits_module_imports_cfunits() -> None:
    users = {name_of(p) for p in SOURCES for _, module in imports(p) if within(module, {"cfunits", "cf_units"})}
    assert users == {"cfagg/cf/udunits.py"}


def test_only_the_command_line_and_the_demo_import_the_command_line() -> None:
    users = {name_of(p) for p in SOURCES for _, module in imports(p) if within(module, {"cfagg.cli"})}
    assert {u for u in users if not u.startswith("cfagg/cli/")} <= {"cfagg/__main__.py", "cfagg/demo.py"}


def test_file_content_is_never_evaluated() -> None:
    banned, formats = {"eval", "exec", "literal_eval"}, {"marshal", "shelve"}
    wrong = []
    for path in SOURCES:
        wrong += [f"{name_of(path)}:{line} imports {m}" for line, m in imports(path) if within(m, formats)]
        wrong += [f"{name_of(path)}:{line} calls {called}" for line, called, _ in facts(path)[1] if called in banned]
    assert not wrong, "\n".join(wrong)
