"""A process that has collected the tests of a group once, and tries one mutant after another in children of its own.

It runs in a copy of the tree, so that the tree may be edited meanwhile.  A first child runs every test unchanged and
notes which lines each one runs and what it costs; a mutant is then shown only to the tests that run its lines, the
cheapest first, until one fails.  The functions of a mutant replace those that are loaded; what runs on import (and what
Numba compiles) is tried in a fresh process instead.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import os
import pickle
import resource
import signal
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from types import CodeType, FunctionType
from typing import NamedTuple

import pytest
from hypothesis import Phase, settings

from tests.mutation.changes import Mutant

#: Seconds without any use of the processor after which a child is taken to wait for ever.
_STILL = 45.0

_TOOL = sys.monitoring.COVERAGE_ID


class Seen(NamedTuple):
    """What a test did unchanged: its seconds of processor, and the lines that it ran of each module."""

    seconds: float
    lines: dict[str, set[int]]


class Bench:
    """A plugin of pytest which, in place of running the tests, hands itself to a function.

    Parameters
    ----------
    paths : list of str
        The modules that are mutated, relative to the folder.
    use : callable
        Gets the bench once the tests are collected and measured.
    budget : float
        Most seconds of tests for one mutant; a test that needs more by itself is left out.
    margin : float
        Seconds of processor that a mutant may use beyond four times what its tests need.
    shared : tuple of str
        What is slow to import and never mutated: imported once, before the processes part.
    """

    def __init__(
        self,
        paths: list[str],
        use: Callable[[Bench], None],
        budget: float = 30.0,
        margin: float = 10.0,
        shared: tuple[str, ...] = (),
    ) -> None:
        self.folder = Path.cwd()
        self.paths, self.use, self.budget, self.margin, self.shared = paths, use, budget, margin, shared
        self.seen: dict[str, Seen] = {}
        self.failing: list[str] = []
        # Compiled code is taken by the second in which its source was written, and so each change gets a later one.
        self._second = int(time.time())

    def pytest_configure(self, config: pytest.Config) -> None:
        """Have Hypothesis stop at the first failure that it finds; conftest has loaded the profile by now."""
        known = settings.get_current_profile_name()
        phases = [Phase.explicit, Phase.generate]
        settings.register_profile("mutation", settings.get_profile(known), phases=phases, derandomize=True)
        settings.load_profile("mutation")

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Measure the tests, and hand over."""
        self.session = session
        self._items = {item.nodeid: item for item in session.items}
        for name in self.shared:
            with contextlib.suppress(ImportError):
                importlib.import_module(name)
        self._measure()
        self._functions: dict[str, list[FunctionType]] = defaultdict(list)
        names = {str(self.folder / path): path for path in self.paths}
        # What is frozen is not listed.
        gc.unfreeze()
        for one in gc.get_objects():
            if type(one) is FunctionType and one.__code__.co_filename in names:
                self._functions[names[one.__code__.co_filename]].append(one)
        if missing := sorted(set(self.paths) & set(self._ran()) - set(self._functions)):
            raise SystemExit(f"no functions were found of {', '.join(missing)}")
        gc.freeze()
        self.use(self)
        return True

    def _ran(self) -> Iterator[str]:
        """Give the modules of which tests ran lines."""
        for seen in self.seen.values():
            yield from seen.lines

    def _measure(self) -> None:
        """Run every test unchanged in a child, noting its lines and costs; import here what the tests imported."""
        notes = self.folder / "notes.pickle"

        def child() -> int:
            seen, failing, used = {}, [], set(sys.modules)
            for nodeid, item in self._items.items():
                before, failed = _cpu(), self.session.testsfailed
                with _lines(self.folder, set(self.paths)) as lines, _at_most(self.budget):
                    item.ihook.pytest_runtest_protocol(item=item, nextitem=_next(self._items, nodeid))
                seen[nodeid] = Seen(_cpu() - before, lines)
                if self.session.testsfailed > failed:
                    failing.append(nodeid)
            imported = [name for name in sys.modules if name not in used and name.startswith("cfagg.")]
            notes.write_bytes(pickle.dumps((seen, failing, imported)))
            return 0

        ended = self._fork(child, 3600)
        if ended != "survived":
            raise SystemExit(f"measuring the tests: {ended}\n{self.output()[-3000:]}")
        self.seen, self.failing, imported = pickle.loads(notes.read_bytes())
        for nodeid in self.failing:
            self.seen.pop(nodeid)
        for name in imported:
            with contextlib.suppress(ImportError):
                importlib.import_module(name)

    def tests(self, mutant: Mutant) -> list[str]:
        """Return the tests that run lines of a mutant, the cheapest first, as many as the budget allows."""
        lines = set(range(mutant.first, mutant.last + 1))
        found = []
        for nodeid, seen in self.seen.items():
            ran = seen.lines.get(mutant.path)
            if ran and (not mutant.inside or ran & lines):
                found.append((seen.seconds, nodeid))
        found.sort()
        chosen, total = [], 0.0
        for seconds, nodeid in found:
            total += seconds
            if chosen and total > self.budget:
                break
            chosen.append(nodeid)
        return chosen

    def attempt(self, mutant: Mutant) -> str:
        """Run the tests with a mutant, and put the module back; return killed, survived, timed out or not run."""
        chosen = self.tests(mutant)
        if not chosen:
            return "not run"
        seconds = sum(self.seen[nodeid].seconds for nodeid in chosen)
        before = (self.folder / mutant.path).read_text()
        # On disk, too, for modules that are imported late and for processes that tests start.
        self._write(mutant.path, mutant.source)
        try:
            if mutant.inside and "jit" not in self._outer(mutant):
                return self._fork(lambda: self._patched(mutant, chosen), 4 * seconds + self.margin)
            return self._fork(lambda: self._fresh(chosen), 4 * seconds + 4 * self.margin)
        finally:
            self._write(mutant.path, before)

    def output(self) -> str:
        """Return what the last child wrote."""
        return (self.folder / "output").read_text(errors="replace")

    def _outer(self, mutant: Mutant) -> str:
        """Say "jit" where the function of a mutant is compiled by Numba, and nothing otherwise."""
        if os.environ.get("NUMBA_DISABLE_JIT"):
            return ""
        for one in self._functions[mutant.path]:
            first = one.__code__.co_firstlineno
            last = max((line for _, _, line in one.__code__.co_lines() if line), default=first)
            if first <= mutant.line <= last and hasattr(one.__globals__.get(one.__name__), "py_func"):
                return "jit"
        return ""

    def _patched(self, mutant: Mutant, chosen: list[str]) -> int:
        """Replace the code of the functions that are loaded, and run the tests."""
        module = compile(mutant.source, str(self.folder / mutant.path), "exec", dont_inherit=True)
        new = {(code.co_qualname, code.co_firstlineno): code for code in _codes(module)}
        for function in self._functions[mutant.path]:
            old = function.__code__
            code = new.get((old.co_qualname, old.co_firstlineno))
            if code is None or len(code.co_freevars) != len(old.co_freevars):
                return self._fresh(chosen)
            if code != old:
                function.__code__ = code
        items = {nodeid: self._items[nodeid] for nodeid in chosen}
        for nodeid, item in items.items():
            item.ihook.pytest_runtest_protocol(item=item, nextitem=_next(items, nodeid))
            if self.session.testsfailed:
                return 1
        return 0

    def _fresh(self, chosen: list[str]) -> int:
        """Run the tests in a new interpreter."""
        (self.folder / "chosen").write_text("\n".join(chosen))
        options = ["-x", "-q", "--tb=short", "-p", "no:cacheprovider", f"--basetemp={self.folder / 'temporary'}"]
        os.execv(sys.executable, [sys.executable, "-m", "pytest", *options, f"@{self.folder / 'chosen'}"])

    def _write(self, path: str, source: str) -> None:
        self._second += 2
        (self.folder / path).write_text(source)
        os.utime(self.folder / path, (self._second, self._second))

    def _fork(self, work: Callable[[], int], limit: float) -> str:
        """Do work in a child that leads a group of its own, within seconds of processor."""
        gc.collect()
        child = os.fork()
        if not child:
            status = 70
            try:
                os.setsid()
                resource.setrlimit(resource.RLIMIT_AS, (12 * 2**30, 12 * 2**30))
                resource.setrlimit(resource.RLIMIT_CPU, (int(limit) + 1, int(limit) + 6))
                output = os.open(self.folder / "output", os.O_CREAT | os.O_TRUNC | os.O_WRONLY, 0o600)
                os.dup2(output, 1)
                os.dup2(output, 2)
                status = work()
            finally:
                os._exit(status)
        status, still, used = 0, time.monotonic(), -1
        while True:
            done, status = os.waitpid(child, os.WNOHANG)
            if done:
                break
            # A busy machine makes everything slow; only who uses no processor and does not want it either waits.
            now, state = _ticks(child)
            if now != used or state == "R":
                used, still = now, time.monotonic()
            if time.monotonic() - still > _STILL:
                status = -1
                break
            time.sleep(0.02)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child, signal.SIGKILL)
        if status == -1:
            os.waitpid(child, 0)
            return "timed out"
        if os.WIFSIGNALED(status) and os.WTERMSIG(status) in (signal.SIGXCPU, signal.SIGKILL):
            return "timed out"
        return "survived" if status == 0 else "killed"


def _next(items: dict[str, pytest.Item], nodeid: str) -> pytest.Item | None:
    names = list(items)
    k = names.index(nodeid) + 1
    return items[names[k]] if k < len(names) else None


def _codes(code: CodeType) -> Iterator[CodeType]:
    for one in code.co_consts:
        if isinstance(one, CodeType):
            yield one
            yield from _codes(one)


@contextlib.contextmanager
def _lines(folder: Path, paths: set[str]) -> Iterator[dict[str, set[int]]]:
    """Collect the lines of modules that run."""
    found: dict[str, set[int]] = {}
    names = {str(folder / path): path for path in paths}

    def line(code: CodeType, number: int) -> object:
        path = names.get(code.co_filename)
        if path is not None:
            found.setdefault(path, set()).add(number)
        return sys.monitoring.DISABLE

    sys.monitoring.use_tool_id(_TOOL, "mutation")
    try:
        sys.monitoring.register_callback(_TOOL, sys.monitoring.events.LINE, line)
        sys.monitoring.restart_events()
        sys.monitoring.set_events(_TOOL, sys.monitoring.events.LINE)
        yield found
    finally:
        sys.monitoring.set_events(_TOOL, 0)
        sys.monitoring.free_tool_id(_TOOL)


@contextlib.contextmanager
def _at_most(seconds: float) -> Iterator[None]:
    """Have what runs fail after seconds of processor: kernels that go through millions of values as plain Python."""

    def stop(*_: object) -> None:
        raise TimeoutError(f"it runs longer than {seconds:g} s")

    signal.signal(signal.SIGVTALRM, stop)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)


def _cpu() -> float:
    """Return the seconds of processor that this process and its children have used."""
    return sum(sum(resource.getrusage(who)[:2]) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))


def _ticks(process: int) -> tuple[int, str]:
    """Return the use of the processor of a process, and its state."""
    fields = Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()
    return int(fields[11]) + int(fields[12]) + int(fields[13]) + int(fields[14]), fields[0]
