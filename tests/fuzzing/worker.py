"""The process that gives inputs to parsers.  It says on its standard output what comes out, line by line in JSON.

Before each input its number goes into a shared file, so that `running` knows which one crashed or hung.
"""

from __future__ import annotations

import faulthandler
import gc
import json
import mmap
import os
import resource
import signal
import sys
import traceback
import warnings
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tests.fuzzing.target import Target, find, load

#: Bytes of memory that parsers may take beyond what they have with good inputs.
MEMORY = 1 << 30


_progress: list[mmap.mmap] = []


def number() -> int:
    """Return the number of the input that is at work."""
    return int.from_bytes(_progress[0][:], "little")


def main() -> None:
    faulthandler.enable()
    faulthandler.register(signal.SIGUSR1, all_threads=True)
    replies = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # whatever a parser prints
    warnings.simplefilter("ignore")
    with Path(sys.argv[1]).open("r+b") as file:
        progress = mmap.mmap(file.fileno(), 8)
    _progress.append(progress)
    for line in sys.stdin:
        job = json.loads(line)
        one = find(job["target"])
        seeds = one.seeds()
        resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        # What is imported, compiled and started with the first good inputs is not theirs.
        progress[:] = (2**62).to_bytes(8, "little")
        for seed in seeds:
            found = attempt(one, seed)
            if found:
                replies.write(json.dumps({"find": "a seed", **found}) + "\n")
        gc.collect()
        resource.setrlimit(resource.RLIMIT_AS, (_size() + MEMORY, resource.RLIM_INFINITY))
        for number, value in _inputs(one, job, seeds):
            progress[:] = number.to_bytes(8, "little")
            found = attempt(one, value)
            if found:
                replies.write(json.dumps({"find": number, **found}) + "\n")
        progress[:] = (2**62).to_bytes(8, "little")
        replies.write(json.dumps({"done": True}) + "\n")


def _inputs(one: Target, job: dict[str, Any], seeds: Any) -> Iterable[tuple[int, Any]]:
    if "paths" in job:
        for number, path in enumerate(job["paths"]):
            if number >= job["start"]:
                yield number, load(Path(path).read_bytes(), seeds[0])
        return
    for number in range(job["start"], job["stop"]):
        yield number, one.input(job["seed"], number, seeds)


def attempt(one: Target, value: Any) -> dict[str, str] | None:
    """Return what is wrong with what comes out, if anything."""
    try:
        one.call(value)
    except one.allowed as error:
        try:
            str(error).encode("utf-8", "surrogatepass")
        except Exception as wrong:  # noqa: BLE001
            return {
                "kind": f"{type(wrong).__name__} of a message",
                "where": type(error).__name__,
                "message": repr(wrong),
            }
        return None
    except (Exception, RecursionError) as error:  # noqa: BLE001
        frames = traceback.extract_tb(error.__traceback__)
        ours = [f for f in frames if "/tests/fuzzing/" not in f.filename] or frames
        last = [f for f in ours if "/site-packages/" not in f.filename and "/lib/python" not in f.filename] or ours
        where = " < ".join(f"{Path(f.filename).name}:{f.lineno} {f.name}" for f in reversed(last[-3:]))
        return {"kind": type(error).__name__, "where": where, "message": str(error)[:300]}
    return None


def _size() -> int:
    return int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()


if __name__ == "__main__":
    from tests.fuzzing import worker  # the one that parsers import

    worker.main()
