"""Who may import whom: the table of docs/architecture.md, checked in the source without running it."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterable
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

import cfagg

ROOT = Path(__file__).parents[1]

#: Room -> level: a room imports rooms of strictly lower levels only.
LEVELS = {
    "demo": 10, "__main__": 10, "cli": 9, "api": 8,
    "conversion": 7, "aggregation": 7, "accumulation": 7, "observations": 7, "checking": 7,
    "writing": 6,
    "labelled": 5, "arrays": 4, "formats": 3, "conventions": 2, "cf": 2, "runtime": 2, "storage": 1, "display": 1,
    "kernels": 0, "model": 0, "findings": 0, "errors": 0, "_version": 0, "_moved": 0,
}  # fmt: skip

#: What rooms of the lowest level may import of each other.
GROUND = {("kernels", "errors"), ("model", "errors"), ("findings", "errors"), ("findings", "model")}

#: Room -> packages of others that it may import.
OTHERS = {
    "kernels": {"numpy", "numba", "llvmlite"},  # llvmlite is Numba's own code generator
    "conventions": {"numpy", "jsonschema"},
    "model": {"numpy"},
    "findings": {"numpy"},
    "errors": set(),
    "storage": {"numpy", "botocore", "obstore"},
    "runtime": {"distributed", "rich"},
}

#: What opens files or connections; a convention only sees attributes.
OPENERS = {"glob", "http", "io", "pathlib", "shutil", "socket", "subprocess", "tempfile", "urllib.request"}

FOLDERS = ("cfagg", "kernels", "conventions")

#: Every module once; cfagg/ also links to the other two folders and to the sample data.
SOURCES = sorted({p.resolve() for f in FOLDERS for p in (ROOT / f).rglob("*.py") if "sample_data" not in p.parts})


def is_module(name: str) -> bool:
    """Tell whether a dotted name below ``cfagg`` is that of a module, or of a member of the package itself."""
    if not name.startswith("cfagg."):
        return False
    path = ROOT / name.replace(".", "/")
    return name.count(".") == 1 or path.is_dir() or path.with_suffix(".py").is_file()


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


@cache
def facts(path: Path) -> tuple[list[tuple[int, str]], list[tuple[int, str, list[object]]], list[tuple[str, str]]]:
    """Return imports by line and full name, calls by line, name of what is called and constants, and long functions.

    To read all modules takes seconds, and so each process does it once.
    """
    found, calls = [], []
    tree = ast.parse(_text(path))
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found += [(node.lineno, alias.name) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = "." * node.level + (node.module or "")
            found += [
                (node.lineno, f"{base}.{alias.name}" if is_module(f"{base}.{alias.name}") else base)
                for alias in node.names
            ]
        elif isinstance(node, ast.Call):
            called = getattr(node.func, "id", getattr(node.func, "attr", ""))
            calls.append((node.lineno, called, [a.value for a in node.args if isinstance(a, ast.Constant)]))
    return found, calls, long_functions(tree)


def imports(path: Path) -> list[tuple[int, str]]:
    """Return line and full name of every import, inside functions too."""
    return facts(path)[0]


def within(module: str, packages: set[str]) -> bool:
    return any(module == p or module.startswith(p + ".") for p in packages)


def test_the_source_folders_are_found() -> None:
    names = {name_of(p) for p in SOURCES}
    assert {"cfagg/model/grid.py", "kernels/__init__.py", "conventions/__init__.py"} <= names


def room_of(module: str) -> str:
    """Return the room of a module of the package, by its full name; the package itself stands above all rooms."""
    return [*module.split("."), ""][1]


def modules_of(room: str) -> list[Path]:
    return [p for p in SOURCES if room_of(module_of(p)) == room]


def test_every_module_is_in_a_room() -> None:
    assert {room_of(module_of(p)) for p in SOURCES} - {""} == set(LEVELS)


def test_a_room_imports_rooms_of_lower_levels_only() -> None:
    wrong = [
        f"{name_of(p)}:{line} imports {module}"
        for room in LEVELS
        for p in modules_of(room)
        for line, module in imports(p)
        if within(module, {"cfagg"})
        and (there := room_of(module)) != room
        and not (there and (LEVELS[there] < LEVELS[room] or (room, there) in GROUND))
    ]
    assert not wrong, "\n".join(wrong)


def test_a_low_room_imports_few_packages() -> None:
    wrong = [
        f"{name_of(p)}:{line} imports {module}"
        for room in OTHERS
        for p in modules_of(room)
        for line, module in imports(p)
        if module.split(".")[0] not in sys.stdlib_module_names and not within(module, {"cfagg", *OTHERS[room]})
    ]
    assert not wrong, "\n".join(wrong)


@cache
def module_of(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    parts = parts if parts[0] == "cfagg" else ("cfagg", *parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def test_no_module_imports_itself_by_way_of_others() -> None:
    """Imports inside functions and for types alone count as any other."""
    modules = {module_of(p): p for p in SOURCES}
    graph = {name: {m for _, m in imports(path) if m in modules and m != name} for name, path in modules.items()}
    assert sum(map(len, graph.values())) > len(graph)
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail(" imports ".join(reversed(error.args[1])))


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


def naming(words: Iterable[str]) -> list[Path]:
    """Return the modules in which one of the words stands at all: no others can name a library so called."""
    return [p for p in SOURCES if any(word in _text(p) for word in words)]


@cache
def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def test_only_the_udunits_module_imports_cfunits() -> None:
    users = {name_of(p) for p in SOURCES for _, module in imports(p) if within(module, {"cfunits", "cf_units"})}
    assert users == {"cfagg/cf/udunits.py"}


def test_only_the_command_line_and_the_demo_import_the_command_line() -> None:
    users = {name_of(p) for p in SOURCES for _, module in imports(p) if within(module, {"cfagg.cli"})}
    assert {u for u in users if not u.startswith("cfagg/cli/")} <= {"cfagg/__main__.py", "cfagg/demo.py"}


def test_jobs_read_chunks_of_zarr_by_the_reader_alone() -> None:
    readers = {"read_box", "read_chunk"}
    users = {name_of(p) for p in SOURCES for _, called, _ in facts(p)[1] if called in readers}
    assert users == {"cfagg/arrays/chunked.py", "cfagg/formats/zarr/chunks.py"}


def test_file_content_is_never_evaluated() -> None:
    banned, formats = {"eval", "exec", "literal_eval"}, {"marshal", "shelve"}
    wrong = []
    for path in SOURCES:
        wrong += [f"{name_of(path)}:{line} imports {m}" for line, m in imports(path) if within(m, formats)]
        wrong += [f"{name_of(path)}:{line} calls {called}" for line, called, _ in facts(path)[1] if called in banned]
    assert not wrong, "\n".join(wrong)


#: More parameters are those of public names alone: what several functions need together is one frozen object.
MOST_PARAMETERS = 12

#: Functions below no public name whose parameters are the words of others.
TAKEN_OVER = {("cfagg/labelled/engine.py", "open_dataset"): "xarray calls it by these names"}


def is_kernel(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Tell whether Numba compiles it: only what is an argument of its own leaves no code behind where it is None."""
    return any(ast.unparse(d).split("(")[0] == "jit" for d in function.decorator_list)


def long_functions(tree: ast.Module) -> list[tuple[str, str]]:
    """Return functions of too many parameters that are no kernels, each behind the outermost name around it."""
    found = []
    for top in tree.body:
        for node in ast.walk(top):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                names = [a.arg for a in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)]
                if len([n for n in names if n not in ("self", "cls")]) > MOST_PARAMETERS and not is_kernel(node):
                    found.append((getattr(top, "name", ""), node.name))
    return found


def test_only_public_functions_have_many_parameters() -> None:
    public = set(cfagg.__all__)
    long = {(name_of(p), *names) for p in SOURCES for names in facts(p)[2]}
    assert {function for _, _, function in long} >= {"aggregate", "convert"}  # what is looked for is found
    inner = {(path, function) for path, top, function in long if top not in public}
    assert inner == set(TAKEN_OVER), f"hand on a small frozen dataclass instead: {sorted(inner - set(TAKEN_OVER))}"
