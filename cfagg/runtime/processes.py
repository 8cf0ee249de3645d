"""Running tasks in other processes, unaffected by the threads and the `__main__` of this one."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import threading
from collections.abc import Callable, Generator, Iterator
from contextlib import suppress
from typing import Any, BinaryIO

from cfagg.runtime.threads import run_threads

__all__ = ["Died", "run_processes", "serve"]

#: Length prefix of each message.
_HEAD = 8

#: Command of a process: set the same import path, then run `serve`.
_PROGRAM = "import sys; sys.path[:] = {path!r}; from cfagg.runtime.processes import serve; serve()"


class Died:
    """The result of a task whose process ended before completing it."""

    def __init__(self, task: Any) -> None:
        self.task = task


def run_processes[T, R](work: Callable[[T], R], tasks: Iterator[T], workers: int) -> Generator[R | Died]:
    """Yield the results of tasks as they complete in `workers` processes; errors of `work` are raised.

    `work` is a module-level function; it, the tasks and the results can be pickled. A process that ends early is
    replaced. All processes have ended when the iterator is closed.
    """
    own = threading.local()
    started: list[_Worker] = []
    stop = threading.Event()

    def ask(task: T) -> R | Died:
        worker: _Worker | None = getattr(own, "worker", None)
        if stop.is_set():
            return Died(task)
        if worker is None:
            worker = own.worker = _Worker()
            started.append(worker)
            if stop.is_set():  # set while it started, perhaps after all others were killed
                worker.kill()
        asked = pickle.dumps((work, task), protocol=5)
        try:
            good, found = worker.ask(asked)
        except (EOFError, OSError, ValueError):  # the last if its streams were closed meanwhile
            worker.kill()
            own.worker = None
            return Died(task)
        if not good:
            raise found
        result: R = found
        return result

    results = run_threads(ask, tasks, workers, "processes", stop)
    try:
        # Not `yield from`, which would be closed first while its threads wait.
        for result in results:  # noqa: UP028
            yield result
    finally:
        # Before waiting for the threads that wait for them.
        stop.set()
        for worker in started:
            worker.kill()
        results.close()


class _Worker:
    """One process that runs one task at a time."""

    def __init__(self) -> None:
        # Interrupts on the terminal do not reach it; this process receives them and ends it.
        self._process = subprocess.Popen(  # noqa: S603 - this very Python
            [sys.executable, "-c", _PROGRAM.format(path=sys.path)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True,
        )  # fmt: skip

    def ask(self, asked: bytes) -> tuple[bool, Any]:
        """Return whether a pickled function and task succeeded, and the result or the error."""
        process = self._process
        if process.stdin is None or process.stdout is None:
            raise EOFError
        _send(process.stdin, asked)
        found: tuple[bool, Any] = _received(process.stdout)
        return found

    def kill(self) -> None:
        """Kill the process, whatever it is doing."""
        process = self._process
        process.kill()
        process.wait()
        for stream in (process.stdin, process.stdout):
            if stream is not None:
                with suppress(OSError):
                    stream.close()


def serve() -> None:
    """Run the requested tasks until the requests end."""
    # Output of libraries goes to stderr, not into the stream of results.
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    while True:
        try:
            work, task = _received(sys.stdin.buffer)
        except EOFError:
            return
        try:
            answer = True, work(task)
        except BaseException as error:  # noqa: BLE001 - it is raised again by whoever asked
            answer = False, error
        try:
            _send(answers, pickle.dumps(answer, protocol=5))
        except OSError:  # there are no more requests, and the remaining output cannot be sent
            os._exit(1)


def _send(stream: BinaryIO | Any, data: bytes) -> None:
    stream.write(len(data).to_bytes(_HEAD, "little"))
    stream.write(data)
    stream.flush()


def _received(stream: BinaryIO | Any) -> Any:
    head = stream.read(_HEAD)
    if len(head) < _HEAD:
        raise EOFError
    data = stream.read(size := int.from_bytes(head, "little"))
    if len(data) < size:  # whoever sent it ended midway
        raise EOFError
    return pickle.loads(data)  # noqa: S301 - of a process of one's own
