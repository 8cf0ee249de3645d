"""Writers whose store is a mount point, stands in a directory that cannot be written, or finds no room for files.

Run as a program: ``python -m tests.durability.places FOLDER KIND…``.  It prints a JSON object for each run.
"""

from __future__ import annotations

import ctypes
import json
import os
import pathlib
import resource
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

from tests.durability import tracing, writers
from tests.effort import EFFORT

#: Kinds of places, and the writers that are run there every day; the others are run in `make soak`.
RUNS: dict[str, tuple[str, ...]] = {
    "bind": ("convert --overwrite",),
    "tmpfs": ("accumulate",),
    "unwritable": ("convert --overwrite", "accumulate --append", "convert", "report"),
    "full": ("convert", "report"),
}
if EFFORT >= 1:  # as many as `make test-all` has time for
    RUNS = {
        "bind": ("convert --overwrite", "accumulate"),
        "tmpfs": ("convert --overwrite", "accumulate"),
        "unwritable": ("convert --overwrite", "accumulate", "accumulate --append", "convert", "fix netcdf", "report"),
        "full": ("convert", "export netcdf", "report"),
    }

#: The writers that `make soak` runs in each kind of place.
ALL_RUNS: dict[str, tuple[str, ...]] = {
    "bind": ("convert --overwrite", "obs append", "accumulate"),
    "tmpfs": ("convert --overwrite", "obs append", "accumulate"),
    "unwritable": (
        "convert --overwrite", "obs append", "accumulate", "accumulate --append",
        "convert", "obs create", "fix netcdf", "fix zarr", "report",
    ),
    "full": tuple(name for name, writer in writers.WRITERS.items() if not writer.lacks),
}  # fmt: skip

#: Writers that replace what stands within a store; the others make something beside it.
WITHIN = frozenset({"convert --overwrite", "obs append", "accumulate", "accumulate --append"})


def prepare(folder: pathlib.Path, name: str) -> None:
    """Make what a writer starts from."""
    folder.mkdir()
    if name == "accumulate":
        writers.prepare_array(folder, writers.STEPS, 3)
    else:
        writers.WRITERS[name].prepare(folder)


def alone() -> None:
    """Let this process see mounts of its own, which nobody else sees; without rights, as the root of nobody else."""
    user, group = os.geteuid(), os.getegid()
    os.unshare(os.CLONE_NEWNS | (os.CLONE_NEWUSER if user else 0))
    if user:
        pathlib.Path("/proc/self/setgroups").write_text("deny")
        pathlib.Path("/proc/self/uid_map").write_text(f"0 {user} 1")
        pathlib.Path("/proc/self/gid_map").write_text(f"0 {group} 1")
    subprocess.run(["mount", "--make-rprivate", "/"], check=True)


def mounts() -> str | None:
    """Return why nothing can be mounted here, `None` if something can."""
    if not hasattr(os, "unshare"):
        return "this system has no mounts of single processes"

    def work() -> None:
        alone()
        subprocess.run(["mount", "-t", "tmpfs", "none", "/mnt"], check=True)

    outcome = tracing.plain(work)
    return None if outcome.status == 0 else f"nothing can be mounted here: {outcome.said.strip()[-200:]}"


def mount(folder: pathlib.Path, kind: str) -> None:
    """Make the store a mount of its own: a directory of the same file system, or another file system."""
    store = folder / "out" / "a.zarr"
    if kind == "bind":
        subprocess.run(["mount", "--bind", store, store], check=True)
        return
    kept = folder / "kept"
    store.rename(kept)
    store.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "none", store], check=True)
    subprocess.run(["cp", "-a", f"{kept}/.", store], check=True)


def forbid(folder: pathlib.Path) -> None:
    """Let nothing be made beside the store."""
    out = folder / "out"
    out.chmod(0o555)
    # Root writes everywhere by a capability, which is given up here: from then on it is a user like others.
    header, none = (ctypes.c_uint32 * 2)(0x20080522, 0), (ctypes.c_uint32 * 6)()
    assert ctypes.CDLL(None, use_errno=True).capset(header, none) == 0, os.strerror(ctypes.get_errno())
    try:
        (out / "new").touch()
    except PermissionError:
        return
    raise AssertionError("the directory can be written after all")


def fill(said: int) -> None:
    """Let no file grow beyond 100 bytes: the system refuses it as a full disk does.  What is said goes to a pipe."""
    sys.stdout = sys.stderr = os.fdopen(said, "w", buffering=1)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))


def tried(folder: pathlib.Path, kind: str, name: str) -> dict[str, Any]:
    """Run a writer in a place, each step in a process of its own, and return what came of it."""
    writer = writers.WRITERS[name]
    prepared = tracing.plain(lambda: prepare(folder, name))
    assert prepared.status == 0, prepared.said
    if kind in ("bind", "tmpfs"):
        mount(folder, kind)
    start, end = os.pipe()

    def work() -> int:
        if kind == "unwritable":
            forbid(folder)
        elif kind == "full":
            fill(end)
        return writer.run(folder)

    outcome = tracing.plain(work)
    os.close(end)
    with os.fdopen(start, encoding="utf-8", errors="replace") as pipe:
        said = pipe.read() if kind == "full" else outcome.said
    found = tracing.plain(lambda: print(json.dumps([writer.state(folder), writer.litter(folder)])))
    (folder / "out").chmod(0o755)
    state, litter = json.loads(found.said.splitlines()[-1]) if found.status == 0 else (found.said, [])
    about = {"kind": kind, "name": name, "status": outcome.status, "state": state, "litter": litter}
    return {**about, "said": said}


def outcomes(home: pathlib.Path, runs: dict[str, tuple[str, ...]]) -> Iterator[dict[str, Any]]:
    """Run writers in places; all that they need is loaded."""
    home.mkdir(exist_ok=True)
    for kind, names in runs.items():

        def work(kind: str = kind, names: tuple[str, ...] = names) -> None:
            if kind in ("bind", "tmpfs"):
                alone()
            for name in names:
                print("\noutcome", json.dumps(tried(home / f"{kind} {name}", kind, name)), flush=True)

        if kind in ("bind", "tmpfs") and (reason := mounts()):
            yield from ({"kind": kind, "name": name, "skipped": reason} for name in names)
            continue
        outcome = tracing.plain(work)
        assert outcome.status == 0, outcome.said
        yield from (json.loads(x[8:]) for x in outcome.said.splitlines() if x.startswith("outcome "))


def once(home: pathlib.Path, names: tuple[str, ...]) -> None:
    """Run writers once, so that what they import is known."""
    for name in names:
        prepare(home / f"once {name}", name)
        writers.WRITERS[name].run(home / f"once {name}")


def main(home: pathlib.Path, kinds: list[str]) -> None:
    """Run all writers in places, and print what came of each."""
    home.mkdir(exist_ok=True)
    runs = {kind: ALL_RUNS[kind] for kind in kinds}
    names = tuple(dict.fromkeys(name for kind in runs for name in runs[kind]))
    tracing.load_what_is_needed(lambda: once(home, names))
    for outcome in outcomes(home, runs):
        print(json.dumps(outcome), flush=True)


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]), sys.argv[2:])
