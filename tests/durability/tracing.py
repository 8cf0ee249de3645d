"""Whole processes under strace: a fault at one system call, or the record of everything that was written.

The process under test is forked from one that has imported everything, waits until strace has attached itself, and then
does its work; so a run takes tenths of a second, and no fault hits the start of Python.
"""

from __future__ import annotations

import base64
import contextlib
import ctypes
import gc
import importlib
import os
import pathlib
import pickle
import re
import shutil
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

#: System calls that change what is on disk, by which name the machine knows them.
WRITING = (
    "openat,open,creat,write,pwrite64,writev,pwritev,rename,renameat,renameat2,fsync,fdatasync,syncfs,mkdir,mkdirat,"
    "unlink,unlinkat,rmdir,ftruncate,truncate,fallocate,link,linkat,symlink,symlinkat,close,sendfile,copy_file_range,"
    "sync_file_range"
)

#: What a power loss is reconstructed from.
RECORDED = WRITING + ",lseek,setxattr"

STRACE = shutil.which("strace")

#: Seconds after which a run counts as hanging, also on a machine that has much else to do.
LIMIT = 600


def works() -> str | None:
    """Return why no fault can be injected here, `None` if one can."""
    if STRACE is None:
        return "strace is not installed (Debian: apt-get install strace)"
    outcome = run(lambda: 0, pathlib.Path("/dev/null"), trace="close")
    if outcome.status != 0 or not outcome.traced:
        return f"strace cannot attach to a process here: {outcome.said.strip()[-200:]}"
    return None


@dataclass
class Outcome:
    """What became of a run: its exit status (negative: the signal that ended it), and what it and strace said."""

    status: int
    said: str
    traced: bool


def forked(work: Callable[[], int | None], said: int | None = None, wait: int | None = None) -> int:
    """Start a function in a process of its own; return the process's number."""
    child = os.fork()
    if child:
        return child
    status = 3
    # Nothing that the parent left is collected in here: files would be closed that the work has not opened.
    gc.freeze()
    try:
        if wait is not None:
            # PR_SET_PTRACER: any process may trace this one, where that is restricted to parents.
            ctypes.CDLL(None).prctl(0x59616D61, ctypes.c_ulong(-1), 0, 0, 0)
            os.read(wait, 1)
        if said is not None:
            os.dup2(said, 1)
            os.dup2(said, 2)
        status = work() or 0
    except BaseException:  # noqa: BLE001  a forked process must not go on as its parent
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


def run(
    work: Callable[[], int | None],
    log: pathlib.Path,
    *,
    inject: str | None = None,
    trace: str = WRITING,
    record: bool = False,
    limit: float = LIMIT,
    lacking: Sequence[str] = (),
    path: pathlib.Path | None = None,
) -> Outcome:
    """Run a function in a process of its own under strace.

    Parameters
    ----------
    work : callable
        Returns the exit status.
    log : path
        Where strace writes what it saw.
    inject : str, optional
        A fault, such as ``rename:error=EIO:when=2``.
    trace : str
        System calls that are looked at.
    record : bool
        Whether the log holds all data.
    limit : float
        Seconds after which the process is killed; that is an error.
    lacking : sequence of str
        What the file system answers that does not know some calls, such as ``syncfs:error=ENOSYS``.
    path : path, optional
        The only file whose calls are looked at.
    """
    hold, go = os.pipe()
    output = os.memfd_create("said")
    child = forked(work, output, hold)
    os.close(hold)
    trace = ",".join([trace, *(x.partition(":")[0] for x in lacking)])
    options = ["-e", f"trace={trace}", "-o", os.fspath(log), "-p", str(child)]
    for one in lacking:
        options += ["-e", f"inject={one}"]
    if inject:
        options += ["-e", f"inject={inject}"]
    if path is not None:
        options += ["-P", os.fspath(path)]
    if record:
        options += ["-y", "-xx", "-s", "100000000"]
    assert STRACE is not None
    tracer = subprocess.Popen([STRACE, "-f", *options], stderr=subprocess.PIPE, text=True)
    assert tracer.stderr is not None
    first = tracer.stderr.readline()
    traced = "attached" in first
    os.write(go, b".")
    os.close(go)
    end = time.monotonic() + limit
    status = None
    while status is None:
        found, code = os.waitpid(child, os.WNOHANG)
        if found:
            status = os.waitstatus_to_exitcode(code)
        elif time.monotonic() > end:
            os.kill(child, 9)
            os.waitpid(child, 0)
            status = 124
        else:
            time.sleep(0.002)
    rest = first + tracer.communicate()[0 if tracer.stderr is None else 1]
    said = os.pread(output, 1 << 20, 0).decode(errors="replace")
    os.close(output)
    return Outcome(status, said if traced else said + rest, traced)


def plain(work: Callable[[], int | None], limit: float = LIMIT) -> Outcome:
    """Run a function in a process of its own, undisturbed."""
    output = os.memfd_create("said")
    child = forked(work, output)
    end = time.monotonic() + limit
    while True:
        found, code = os.waitpid(child, os.WNOHANG)
        if found:
            break
        if time.monotonic() > end:
            os.kill(child, 9)
            os.waitpid(child, 0)
            code = 124 << 8
            break
        time.sleep(0.002)
    said = os.pread(output, 1 << 20, 0).decode(errors="replace")
    os.close(output)
    return Outcome(os.waitstatus_to_exitcode(code), said, False)


def load_what_is_needed(work: Callable[[], int | None]) -> None:
    """Import whatever a function imports, and load the kernels that it calls, so that no fault hits either."""

    def names() -> None:
        work()
        kernels = [(m, n, k.signatures) for m, n, k in _kernels() if k.signatures]
        print("\nmodules", base64.b64encode(pickle.dumps(([*sys.modules], kernels))).decode())

    modules, kernels = pickle.loads(base64.b64decode(plain(names).said.rpartition("\nmodules ")[2]))
    for name in modules:
        if name not in sys.modules and not name.startswith("__"):
            with contextlib.suppress(Exception):
                importlib.import_module(name)
    for module, name, signatures in kernels:
        for signature in signatures:
            getattr(sys.modules[module], name).compile(signature)
    # What is there by now stays: no fork of this process copies it to look at it again.
    gc.collect()
    gc.freeze()


def _kernels() -> Iterator[tuple[str, str, Any]]:
    """Give the kernels of all modules that are loaded."""
    for module in [m for m in sys.modules if m.startswith("cfagg.kernels.")]:
        for name, kernel in vars(sys.modules[module]).items():
            if hasattr(kernel, "signatures") and getattr(kernel, "__module__", None) == module:
                yield module, name, kernel


#: A line of a log: thread, call, the rest.
_CALL = re.compile(r"^(\d+) +(\w+)\(")


def counts(log: pathlib.Path) -> dict[str, int]:
    """Return how often each system call was made by the thread that made it most often, as strace counts them."""
    found: dict[tuple[str, str], int] = {}
    for line in log.read_text(errors="replace").splitlines():
        if match := _CALL.match(line):
            key = (match[1], match[2])
            found[key] = found.get(key, 0) + 1
    most: dict[str, int] = {}
    for (_, call), n in found.items():
        most[call] = max(most.get(call, 0), n)
    return most
