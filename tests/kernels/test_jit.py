"""Kernels compile without the GIL and with a cache, and compute where there is no cache."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import cfagg.kernels
from cfagg.kernels.jit import jit
from tests.kernels import compiled

SOURCES = Path(cfagg.kernels.__file__).parent

#: Two kernels in two files, of which one calls the other.
CALLER = """
from cfagg.kernels.folder.callee import value
from cfagg.kernels.jit import jit

@jit
def double(x):
    return 2 * value(x)
"""
CALLEE = """
from cfagg.kernels.jit import jit

@jit
def value(x):
    return x + {}
"""
RUN = "from cfagg.kernels.caller import double; print(double(1), type(double._cache).__name__)"


@pytest.fixture
def tree(tmp_path):
    """A copy of the package with only the kernels of this test."""
    kernels = tmp_path / "site" / "cfagg" / "kernels"
    kernels.mkdir(parents=True)
    (kernels.parent / "__init__.py").touch()
    for name in ("__init__.py", "jit.py"):
        shutil.copy(SOURCES / name, kernels)
    (kernels / "caller.py").write_text(CALLER)
    (kernels / "folder").mkdir()
    (kernels / "folder" / "callee.py").write_text(CALLEE.format(1))
    return kernels


def run(tree: Path, code: str = RUN, **environment: str | None):
    """Run code in a new process that imports the copy."""
    env = {**os.environ, "PYTHONPATH": str(tree.parent.parent), "PYTHONDONTWRITEBYTECODE": "1"}
    unset = dict.fromkeys(("NUMBA_CACHE_DIR", "NUMBA_DISABLE_JIT", "XDG_CACHE_HOME"))
    for name, value in {**unset, **environment}.items():
        env.pop(name, None)
        if value is not None:
            env[name] = value
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=env, cwd=tree, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def unwritable(tree: Path) -> dict[str, str]:
    """Leave no place for a cache, in a way that also binds a superuser: files where directories would have to be."""
    (tree / "__pycache__").touch()
    home = tree.parent.parent / "home"
    home.touch()
    return {"HOME": str(home), "XDG_CACHE_HOME": str(home)}


@compiled
def test_options_hold_for_bare_and_for_called_decorators():
    @jit
    def bare(x):
        return x + 1

    @jit(fastmath=True)
    def called(x):
        return x + 1

    assert bare.targetoptions["nogil"]
    assert called.targetoptions["nogil"]
    assert called.targetoptions["fastmath"]
    assert (bare(1), called(1), called.py_func(1)) == (2, 2, 2)


@pytest.mark.full
def test_kernels_are_loaded_from_disk_until_they_or_what_they_call_change(tree, tmp_path):
    cache = tmp_path / "cache"
    assert run(tree, NUMBA_CACHE_DIR=str(cache)) == ["4", "_Cache"]
    assert list(cache.rglob("caller.double*.nbc"))
    code = RUN + "; print(sum(double.stats.cache_hits.values()), sum(double.stats.cache_misses.values()))"
    assert run(tree, code, NUMBA_CACHE_DIR=str(cache)) == ["4", "_Cache", "1", "0"]
    # But not where a callee in another file has changed.
    (tree / "folder" / "callee.py").write_text(CALLEE.format(10))
    assert run(tree, NUMBA_CACHE_DIR=str(cache))[0] == "22"


def test_kernels_compute_without_a_cache_where_no_directory_is_writable(tree):
    plain = "import numba\ndef f(x): return x\nnumba.njit(cache=True)(f)"
    place = unwritable(tree)
    (tree / "plain.py").write_text(plain)
    code = "try:\n    import cfagg.kernels.plain\nexcept RuntimeError as e:\n    print('locator' in str(e))\n" + RUN
    assert run(tree, code, **place) == ["True", "4", "NullCache"]


@pytest.mark.soak
def test_a_cache_directory_that_is_lost_after_import_does_not_fail_the_computation(tree, tmp_path):
    cache = tmp_path / "cache"
    code = (
        "import pathlib, shutil; from cfagg.kernels.caller import double\n"
        f"shutil.rmtree({str(cache)!r}); pathlib.Path({str(cache)!r}).touch()\n"
        "print(double(1))"
    )
    assert run(tree, code, NUMBA_CACHE_DIR=str(cache)) == ["4"]


@pytest.mark.full
def test_kernels_run_as_python_where_compilation_is_switched_off(tree):
    code = "from cfagg.kernels.caller import double; print(double(1), type(double).__name__)"
    assert run(tree, code, NUMBA_DISABLE_JIT="1") == ["4", "function"]


def test_no_other_module_of_the_package_takes_options_from_numba_itself():
    for path in SOURCES.glob("*.py"):
        called = re.findall(r"\b(?:njit|numba\.jit|vectorize|guvectorize)\b", path.read_text(encoding="utf-8"))
        assert bool(called) == (path.name == "jit.py"), path
