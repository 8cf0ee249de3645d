"""Mutation testing by hand: change the source in one place, and see whether a test notices.

python -m tests.mutation GROUP… [--count N] [--seed S] [--only MODULE]

The tree is copied to a temporary folder.  There, up to N mutants of each group are tried one after another, chosen by
the seed, each in a process of its own with limits of time and memory, which runs the tests of `GROUPS` until one fails.
What survives is printed with its file, its line and the change.  The status is 1 where a mutant survived.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import copy
import importlib
import os
import resource
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import NamedTuple

ROOT = Path(__file__).parents[1]

#: The modules of each group, and the tests that are to notice what changes there.
GROUPS: dict[str, tuple[list[str], list[str]]] = {
    "kernels": (
        [
            "kernels/projection.py",
            "kernels/gather.py",
            "kernels/hyperslab.py",
            "kernels/cumulative.py",
            "kernels/cumulative_plain.py",
            "kernels/cumulative_mask.py",
            "kernels/cumulative_layout.py",
        ],
        [
            "tests/kernels/test_projection.py",
            "tests/kernels/test_gather.py",
            "tests/kernels/test_hyperslab.py",
            "tests/kernels/test_cumulative.py",
            "tests/kernels/test_cumulative_numerics.py",
        ],
    ),
    "lookup": (
        [
            "kernels/lookup.py",
            "cfagg/observations/indexes/bisect.py",
            "cfagg/observations/indexes/table.py",
            "cfagg/observations/indexes/pages.py",
            "cfagg/observations/indexes/pages_directory.py",
        ],
        ["tests/kernels/test_lookup.py", "tests/observations/indexes"],
    ),
    "cf": (
        [f"cfagg/cf/{name}.py" for name in ("missing", "valid", "packing", "roles", "datetimes", "apply")],
        ["tests/cf"],
    ),
    "readers": (
        [f"cfagg/readers/{name}.py" for name in ("filters", "hdf5_tree", "hdf5_chunks", "pool")]
        + ["cfagg/formats/codecs.py"],
        ["tests/readers", "tests/storage/test_handles.py"],
    ),
    "storage": (
        [f"cfagg/storage/{name}.py" for name in ("files", "gate", "handles", "tree")],
        ["tests/storage", "tests/test_access.py"],
    ),
    "access": (["cfagg/access.py"], ["tests/test_access.py", "tests/test_fragments.py"]),
    "sums": (
        ["cfagg/accumulation/proof.py", "cfagg/accumulation/outliers.py"],
        ["tests/accumulation/test_proof.py", "tests/accumulation/test_outliers.py"],
    ),
}

#: Groups whose kernels run as plain Python, since compiling each mutant takes longer than running it.
_PLAIN = {"kernels"}

#: Slow to import, never mutated and without threads: imported once, before the processes part.
_SHARED = ("pytest", "numpy", "netCDF4", "h5py", "numba", "hypothesis", "zarr", "cftime", "cf_units")

_COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In,
}  # fmt: skip
_ARITHMETIC: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.FloorDiv, ast.FloorDiv: ast.Mult, ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd, ast.LShift: ast.RShift, ast.RShift: ast.LShift,
}  # fmt: skip
_NAMES = {"min": "max", "max": "min", "any": "all", "all": "any", "minimum": "maximum", "maximum": "minimum"}


class Mutant(NamedTuple):
    """A change in one place of a module."""

    path: str
    line: int
    before: str
    after: str
    source: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.before}  ->  {self.after}"


def mutants(path: str, source: str) -> list[Mutant]:
    """Return every mutant of a module, in the order of its lines."""
    data = source.encode()
    starts = [0]
    for line in data.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    found = {}
    for node, new in _changes(ast.parse(source)):
        first = starts[node.lineno - 1] + node.col_offset
        last = starts[(node.end_lineno or 0) - 1] + (node.end_col_offset or 0)
        after = new if isinstance(new, str) else ast.unparse(new)
        # In brackets, since what was on several lines could end a statement otherwise.
        text = after if isinstance(node, ast.stmt) else f"({after})"
        changed = (data[:first] + text.encode() + data[last:]).decode()
        with contextlib.suppress(SyntaxError):
            compile(changed, path, "exec")
            before = " ".join(data[first:last].decode().split())
            found[changed] = Mutant(path, node.lineno, before, after, changed)
    return sorted(found.values(), key=lambda mutant: mutant.line)


def _changes(tree: ast.Module) -> Iterator[tuple[ast.expr | ast.stmt, ast.AST | str]]:
    """Give nodes and what each could be instead; types, decorators and the texts of messages stay as they are."""
    waiting: list[ast.AST] = [tree]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.JoinedStr):
            continue
        aside: list[ast.AST | None] = []
        if isinstance(node, ast.FunctionDef):
            aside = [*node.decorator_list, node.returns]
        elif isinstance(node, ast.arg | ast.AnnAssign):
            aside = [node.annotation]
        elif isinstance(node, ast.Raise):
            yield node, "pass"
            aside = [node.exc, node.cause]
        elif isinstance(node, ast.If) and _guards(node.test):
            # The text of `TYPE_CHECKING` blocks does not run.
            if all(isinstance(one, ast.Raise | ast.Return | ast.Continue) for one in node.body):
                yield node.test, "False"
        elif isinstance(node, ast.If):
            continue
        yield from _replaced(node)
        waiting.extend(child for child in ast.iter_child_nodes(node) if child not in aside)


def _guards(test: ast.expr) -> bool:
    return not (isinstance(test, ast.Name) and test.id == "TYPE_CHECKING")


def _replaced(node: ast.AST) -> Iterator[tuple[ast.expr, ast.AST]]:
    new = copy.deepcopy(node)
    if isinstance(node, ast.Compare) and isinstance(new, ast.Compare):
        for k, operator in enumerate(node.ops):
            new = copy.deepcopy(node)
            new.ops[k] = _COMPARISONS[type(operator)]()
            yield node, new
    elif isinstance(node, ast.BinOp) and isinstance(new, ast.BinOp) and type(node.op) in _ARITHMETIC:
        new.op = _ARITHMETIC[type(node.op)]()
        yield node, new
    elif isinstance(node, ast.BoolOp) and isinstance(new, ast.BoolOp):
        new.op = ast.Or() if isinstance(node.op, ast.And) else ast.And()
        yield node, new
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not | ast.USub):
        yield node, node.operand
    elif isinstance(node, ast.Constant) and isinstance(node.value, bool):
        yield node, ast.Constant(not node.value)
    elif isinstance(node, ast.Constant) and isinstance(node.value, int):
        yield node, ast.Constant(node.value + 1)
    elif isinstance(node, ast.Name) and node.id in _NAMES:
        yield node, ast.Name(_NAMES[node.id])
    elif isinstance(node, ast.Attribute) and isinstance(new, ast.Attribute) and node.attr in _NAMES:
        new.attr = _NAMES[node.attr]
        yield node, new


class Bench:
    """A copy of the tree, in which mutants are tried.

    Parameters
    ----------
    folder : Path
        Where the copy is; it has to be empty.
    tests : list of str
        Test files and folders, relative to the root.
    """

    def __init__(self, folder: Path, tests: list[str]) -> None:
        self.folder, self.tests, self.limit = folder, tests, 600.0
        aside = shutil.ignore_patterns(".*", "__pycache__", "docs", "site", "build", "dist")
        shutil.copytree(ROOT, folder, symlinks=True, dirs_exist_ok=True, ignore=aside)
        # Compiled code is taken by the second in which its source was written, and so each change gets a later one.
        self._second = int(time.time())

    def write(self, path: str, source: str) -> None:
        """Write a module, as of a later second than all that was written before."""
        self._second += 2
        (self.folder / path).write_text(source)
        os.utime(self.folder / path, (self._second, self._second))

    def measure(self) -> float:
        """Run the tests unchanged, twice, since the first compiles; return the seconds of CPU, and set the limit."""
        for _ in range(2):
            before = _used()
            if self.run() != "survived":
                output = (self.folder / "output").read_text()
                raise SystemExit(f"the tests fail without a change: {output[-3000:]}")
            took = _used() - before
        self.limit = 4 * took + 10
        return took

    def attempt(self, mutant: Mutant) -> str:
        """Run the tests with a mutant, and put the module back; return killed, survived or timed out."""
        before = (self.folder / mutant.path).read_text()
        self.write(mutant.path, mutant.source)
        try:
            return self.run()
        finally:
            self.write(mutant.path, before)

    def run(self) -> str:
        """Run the tests in a new process."""
        child = os.fork()
        if not child:
            self._child()
        # The CPU time is limited by the system; this is for what waits without end, on a machine that may be busy.
        end = time.monotonic() + 5 * self.limit
        while time.monotonic() < end:
            done, status = os.waitpid(child, os.WNOHANG)
            if done:
                if os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGXCPU:
                    return "timed out"
                return "survived" if status == 0 else "killed"
            time.sleep(0.02)
        # The child leads a group of its own: what it has started ends with it.
        os.killpg(child, signal.SIGKILL)
        os.waitpid(child, 0)
        return "timed out"

    def _child(self) -> None:
        os.setsid()
        resource.setrlimit(resource.RLIMIT_AS, (12 * 2**30, 12 * 2**30))
        resource.setrlimit(resource.RLIMIT_CPU, (int(self.limit), int(self.limit) + 5))
        output = os.open(self.folder / "output", os.O_CREAT | os.O_TRUNC | os.O_WRONLY, 0o600)
        os.dup2(output, 1)
        os.dup2(output, 2)
        status = 70
        try:
            os.chdir(self.folder)
            sys.path.insert(0, str(self.folder))
            os.environ["PYTHONPATH"] = str(self.folder)
            for name in [name for name in sys.modules if name.split(".")[0] in ("cfagg", "tests")]:
                del sys.modules[name]
            import pytest

            options = ["-x", "-q", "--tb=short", "-p", "no:cacheprovider", f"--basetemp={self.folder / 'temporary'}"]
            status = int(pytest.main([*options, *self.tests]))
        finally:
            sys.stdout.flush()
            os._exit(status)


def _used() -> float:
    """Return the seconds of CPU that children have used."""
    found = resource.getrusage(resource.RUSAGE_CHILDREN)
    return found.ru_utime + found.ru_stime


def main() -> int:
    """Try mutants of the groups that the command names."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutation", allow_abbrev=False)
    parser.add_argument("groups", nargs="+", choices=list(GROUPS))
    parser.add_argument("--count", type=int, default=40, help="most mutants of each group")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default="", help="only modules whose path holds this text")
    args = parser.parse_args()
    # The same examples each time: otherwise whether a mutant dies is left to chance.
    os.environ["CI"] = "1"
    if _PLAIN.issuperset(args.groups):
        os.environ["NUMBA_DISABLE_JIT"] = "1"
    for name in _SHARED:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    survived = 0
    for group in args.groups:
        modules, tests = GROUPS[group]
        every = [m for path in modules if args.only in path for m in mutants(path, (ROOT / path).read_text())]
        chosen = Random(args.seed).sample(every, min(args.count, len(every)))
        with tempfile.TemporaryDirectory() as folder:
            bench = Bench(Path(folder), tests)
            print(f"{group}: {len(chosen)} of {len(every)} mutants, {bench.measure():.1f} s for the tests", flush=True)
            results: Counter[str] = Counter()
            for mutant in chosen:
                result = bench.attempt(mutant)
                results[result] += 1
                if result != "killed":
                    print(f"  {result}: {mutant}", flush=True)
        print(f"{group}, seed {args.seed}: " + ", ".join(f"{n} {result}" for result, n in sorted(results.items())))
        survived += results["survived"]
    return 1 if survived else 0


if __name__ == "__main__":
    sys.exit(main())
