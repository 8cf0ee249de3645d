"""Running fuzzers in other processes: those that crash or hang are reported, and the next input goes to a new one."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

#: Seconds of processor time, and of the clock, that one input may take.
SECONDS, WAIT = 10.0, 60.0

#: Seconds in which a worker is ready.
START = 600.0

_IDLE = 2**62
_TICK = os.sysconf("SC_CLK_TCK")
_ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Find:
    """Something that must not come out of a parser."""

    target: str
    #: The number of the input, or the path of a stored one.
    input: str
    kind: str
    where: str
    message: str = ""

    def __str__(self) -> str:
        return f"{self.target} {self.input}: {self.kind} at {self.where}: {self.message}"


def _place() -> tempfile.TemporaryDirectory[str]:
    """Return a directory for what a worker writes, in memory where there is such: who is killed removes nothing."""
    shared = Path("/dev/shm")
    return tempfile.TemporaryDirectory(prefix="cfagg-fuzz", dir=shared if shared.is_dir() else None)


@dataclass
class Process:
    """One worker, started anew after each crash."""

    _process: Any = None
    _progress: Any = field(default_factory=tempfile.NamedTemporaryFile)
    _errors: Any = field(default_factory=tempfile.TemporaryFile)
    _written: Any = field(default_factory=_place)
    #: Seconds of processor time of workers that have ended.
    _spent: float = 0.0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._end()
        self._progress.close()
        self._errors.close()
        self._written.cleanup()

    @property
    def spent(self) -> float:
        """Seconds of processor time of all workers so far, their starts included."""
        return self._spent + (0.0 if self._process is None else self._used())

    def fuzz(self, target: str, count: int, seed: int = 0, start: int = 0) -> list[Find]:
        """Return what `count` changed inputs of a parser bring."""
        return list(self._run({"target": target, "seed": seed, "start": start, "stop": start + count}, seed))

    def replay(self, target: str, paths: Sequence[Path]) -> list[Find]:
        """Return what stored inputs bring."""
        return list(self._run({"target": target, "paths": [str(p) for p in paths], "start": 0}, 0))

    def _run(self, job: dict[str, Any], seed: int) -> Iterator[Find]:
        def name(number: Any) -> str:
            return (
                str(number)
                if isinstance(number, str)
                else job["paths"][number]
                if "paths" in job
                else f"{seed}:{number}"
            )

        while job is not None:
            self._begin()
            self._process.stdin.write(json.dumps(job).encode() + b"\n")
            self._process.stdin.flush()
            dead = None
            for reply in self._replies():
                if "done" in reply:
                    return
                if "dead" in reply:
                    dead = reply
                    break
                yield Find(job["target"], name(reply["find"]), reply["kind"], reply["where"], reply["message"])
            assert dead is not None
            number = self._at()
            if number == _IDLE:
                yield Find(job["target"], "a seed", dead["dead"], dead["where"])
                return
            yield Find(job["target"], name(number), dead["dead"], dead["where"])
            job["start"] = number + 1

    def _replies(self) -> Iterator[dict[str, Any]]:
        """Yield what the worker says, and at last how it died if it did."""
        pipe, rest = self._process.stdout.fileno(), b""
        last, since, begun, rests = None, 0.0, 0.0, 0.0
        while True:
            if select.select([pipe], [], [], 0.25)[0]:
                data = os.read(pipe, 1 << 16)
                if not data:
                    code = self._wait()
                    what = signal.Signals(-code).name if code < 0 else f"exit status {code}"
                    yield {"dead": what, "where": self._traced()}
                    return
                *lines, rest = (rest + data).split(b"\n")
                yield from map(json.loads, lines)
                continue
            number, used, now = self._at(), self._used(), time.monotonic()
            if number != last:
                last, since, begun, rests = number, used, now, now
            elif self._is_running():
                # It does not wait: others may have all processors.
                rests = now
            if number == _IDLE and now - begun < START:
                continue
            if used - since > SECONDS or now - rests > WAIT:
                what = f"more than {SECONDS:g} s" if used - since > SECONDS else f"waits more than {WAIT:g} s"
                self._process.send_signal(signal.SIGUSR1)
                time.sleep(0.3)
                self._end()
                yield {"dead": what, "where": self._traced()}
                return

    def _begin(self) -> None:
        if self._process is None:
            self._errors.seek(0)
            self._errors.truncate()
            os.pwrite(self._progress.fileno(), _IDLE.to_bytes(8, "little"), 0)
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.fuzzing.worker", self._progress.name],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._errors,
                cwd=_ROOT,
                env={
                    **os.environ,
                    "MALLOC_ARENA_MAX": "2",
                    "OMP_NUM_THREADS": "1",
                    "PYTHONWARNINGS": "ignore",
                    "TMPDIR": self._written.name,
                },
            )

    def _end(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._wait()

    def _wait(self) -> int:
        """Wait for the end of the worker, and return its exit code."""
        _, status, usage = os.wait4(self._process.pid, 0)
        self._spent += usage.ru_utime + usage.ru_stime
        self._process.returncode = code = os.waitstatus_to_exitcode(status)
        for pipe in (self._process.stdin, self._process.stdout):
            pipe.close()
        self._process = None
        return code

    def _at(self) -> int:
        return int.from_bytes(os.pread(self._progress.fileno(), 8, 0), "little")

    def _used(self) -> float:
        words = self._state()
        return (int(words[11]) + int(words[12])) / _TICK

    def _is_running(self) -> bool:
        """Return whether the worker computes, or would if it had a processor."""
        return self._state()[0] == "R"

    def _state(self) -> list[str]:
        return Path(f"/proc/{self._process.pid}/stat").read_text().rpartition(")")[2].split()

    def _traced(self) -> str:
        """Return where the worker was, from what `faulthandler` has written."""
        self._errors.seek(0)
        text = self._errors.read().decode(errors="replace")
        lines = [s.strip() for s in text.rpartition("most recent call first")[2].splitlines() if "File" in s]
        places = [s.replace('File "', "").replace('", line ', ":") for s in lines if "/tests/fuzzing/" not in s]
        return " < ".join(p.rpartition("/")[2] for p in places[:6]) or text[-300:]
