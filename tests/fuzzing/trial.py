"""A parser with every fault that the fuzzers have to notice."""

from __future__ import annotations

import os
import signal
import time
from typing import Any

from cfagg.errors import ConventionError
from tests.fuzzing.target import target


@target("trial", seeds=lambda: ["good"], trial=True)
def trial(_: Any) -> None:
    """Fail in another way at each number of the input, as the worker has noted it."""
    from tests.fuzzing.worker import number

    match number():
        case 0:
            raise ConventionError("ours")
        case 1:
            raise KeyError("foreign")
        case 2:
            os.kill(os.getpid(), signal.SIGSEGV)
        case 3:
            while True:
                pass
        case 4:
            time.sleep(600)
        case 5:
            bytearray(1 << 31)
