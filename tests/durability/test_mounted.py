"""Stores that are mount points, and parents that let nothing be made: the work is done within the store."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

import pytest

CODE = """
import os, pathlib, subprocess, sys
folder = pathlib.Path(sys.argv[1])
from tests.durability import writers
name = sys.argv[2]
store = folder / "out" / "a.zarr"
if name.startswith("accumulate"):
    writers.prepare_array(folder, writers.STEPS, 3)
else:
    writers.WRITERS[name].prepare(folder)
# The same store, now a mount of its own: a directory of the same file system, or another file system.
if sys.argv[3] == "bind":
    subprocess.run(["mount", "--bind", store, store], check=True)
else:
    kept = folder / "kept"
    os.rename(store, kept)
    store.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "none", store], check=True)
    subprocess.run(["cp", "-a", f"{kept}/.", store], check=True)
writer = writers.WRITERS[name]
assert writer.run(folder) == 0
assert writer.state(folder) == "new"
print(writer.litter(folder))
assert not writer.litter(folder)
print("well")
"""


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("convert --overwrite", "bind"),
        ("obs append", "tmpfs"),
        ("accumulate", "bind"),
        *(
            pytest.param(name, kind, marks=pytest.mark.soak)
            for name, kind in (("convert --overwrite", "tmpfs"), ("obs append", "bind"), ("accumulate", "tmpfs"))
        ),
    ],
)
def test_a_store_that_is_a_mount_point_is_replaced_and_accumulated(tmp_path, name, kind):
    unshare = shutil.which("unshare")
    alone = [unshare or "unshare", "--mount", *(["--map-root-user"] if os.geteuid() else [])]
    if (
        unshare is None
        or subprocess.run([*alone, "mount", "-t", "tmpfs", "none", "/mnt"], capture_output=True).returncode
    ):
        pytest.skip("nothing can be mounted here (unshare --mount)")
    done = subprocess.run([*alone, sys.executable, "-c", CODE, tmp_path, name, kind], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.endswith("well\n")
