"""Writers that are killed while a reader asks without pause, each in a process of its own."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Self

from cfagg.errors import CfaggError
from tests.durability.tracing import forked

__all__ = ["Reader", "ended"]

#: Seconds after which something hangs, also on a machine that has much else to do.
PATIENCE = 600


def ended(process: int) -> None:
    """Wait until a killed process has ended; that it was not the signal which ended it is an error."""
    end = time.monotonic() + PATIENCE
    while True:
        found, status = os.waitpid(process, os.WNOHANG)
        if found:
            assert os.WIFSIGNALED(status), f"a builder ended by itself with status {status}"
            return
        if time.monotonic() > end:
            os.kill(process, signal.SIGKILL)
            os.waitpid(process, 0)
            raise TimeoutError(f"a builder has not ended within {PATIENCE} s")
        time.sleep(0.002)


class Reader:
    """A process that asks a store without pause from the `with` statement on; a wrong answer ends it.

    What `ask` returns is whether the answer is right; an error of ours is a refusal.
    """

    def __init__(self, store: Path, ask: Callable[[], bool]) -> None:
        self._tally = Path(f"{store}.answers")
        self._ask = ask

    def __enter__(self) -> Self:
        self._process = forked(self._read)
        return self

    def __exit__(self, *_: object) -> None:
        try:
            os.kill(self._process, signal.SIGKILL)
            os.waitpid(self._process, 0)
        except (ProcessLookupError, ChildProcessError):
            pass
        self.answers, self.refusals = self.counted()
        self._tally.unlink(missing_ok=True)
        self._tally.with_suffix(".part").unlink(missing_ok=True)

    def _read(self) -> None:
        answers = refusals = 0
        while True:
            part = self._tally.with_suffix(".part")
            part.write_text(f"{answers} {refusals}")
            part.replace(self._tally)
            try:
                assert self._ask(), "wrong answer"
            except CfaggError:
                refusals += 1
            else:
                answers += 1

    def counted(self) -> tuple[int, int]:
        """Return how many questions were answered and refused so far."""
        try:
            answers, refusals = map(int, self._tally.read_text().split())
        except FileNotFoundError:
            return 0, 0
        return answers, refusals

    def well(self) -> None:
        """Raise if it has ended, which only a wrong answer lets it do."""
        assert not os.waitpid(self._process, os.WNOHANG)[0], "the reader has ended"

    def asked(self, count: int) -> None:
        """Wait until it has asked so many questions."""
        end = time.monotonic() + PATIENCE
        while sum(self.counted()) < count:
            self.well()
            if time.monotonic() > end:
                raise TimeoutError(f"the reader has asked {self.counted()} questions in {PATIENCE} s, not {count}")
            time.sleep(0.01)
