"""Writers whose store is a mount point, stands in a directory that cannot be written, or finds no room for files.

Run as a program: ``python -m tests.durability.places FOLDER KIND…``, the kinds ``bind`` and ``tmpfs`` where it may
mount.  It prints a JSON object for each run.
"""

from __future__ import annotations

import ctypes
import json
import os
import pathlib
import resource
import subprocess
import sys

from tests.durability import tracing, writers

#: Kinds of places, and the writers that are run there.
RUNS = {
    "bind": ("convert --overwrite", "obs append", "accumulate"),
    "tmpfs": ("convert --overwrite", "obs append", "accumulate"),
    "unwritable": (
        "convert --overwrite", "obs append", "accumulate", "accumulate --append",
        "convert", "obs create", "fix netcdf", "fix zarr", "report",
    ),
    "full": ("convert", "accumulate", "obs append", "export netcdf", "fix zarr", "report"),
    "all full": tuple(writers.WRITERS),
}  # fmt: skip


def prepare(folder: pathlib.Path, name: str) -> None:
    """Make what a writer starts from."""
    folder.mkdir()
    if name == "accumulate":
        writers.prepare_array(folder, writers.STEPS, 3)
    else:
        writers.WRITERS[name].prepare(folder)


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


def main(home: pathlib.Path, kinds: list[str]) -> None:
    """Run writers in places, each in a process of its own."""
    home.mkdir(exist_ok=True)

    def once() -> None:
        for name in dict.fromkeys(name for kind in kinds for name in RUNS[kind]):
            prepare(home / f"once {name}", name)
            writers.WRITERS[name].run(home / f"once {name}")

    tracing.load_what_is_needed(once)
    for kind in kinds:
        for name in RUNS[kind]:
            folder = home / f"{kind} {name}"
            writer = writers.WRITERS[name]
            start, end = os.pipe()

            def work(folder: pathlib.Path = folder, name: str = name, kind: str = kind) -> int:
                prepare(folder, name)
                if kind == "unwritable":
                    forbid(folder)
                elif kind.endswith("full"):
                    fill(end)  # noqa: B023
                else:
                    mount(folder, kind)
                return writer.run(folder)  # noqa: B023

            outcome = tracing.plain(work)
            os.close(end)
            with os.fdopen(start, encoding="utf-8", errors="replace") as pipe:
                said = pipe.read() if kind.endswith("full") else outcome.said
            found = tracing.plain(lambda: print(json.dumps([writer.state(folder), writer.litter(folder)])))  # noqa: B023
            (folder / "out").chmod(0o755)
            state, litter = json.loads(found.said.splitlines()[-1]) if found.status == 0 else (found.said, [])
            about = {"kind": kind, "name": name, "status": outcome.status, "state": state, "litter": litter}
            print(json.dumps({**about, "said": said}), flush=True)


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]), sys.argv[2:])
