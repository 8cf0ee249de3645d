"""Independent tasks by threads, or by the workers of a Dask cluster."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from contextlib import ExitStack
from itertools import islice
from types import TracebackType
from typing import Any, Self

from cfagg.errors import CfaggError, SourceError, UnsupportedError
from cfagg.errors.extras import require
from cfagg.runtime.clusters import cluster_of

__all__ = ["Pool"]

type Task = tuple[Callable[..., Any], tuple[Any, ...]]


class Pool:
    """Workers for tasks; use it as a context."""

    def __init__(self, workers: int, client: Any = None) -> None:
        self._threads: ThreadPoolExecutor | None = None
        self._client: Any = None
        self._open = ExitStack()
        if client is None:
            self._threads = ThreadPoolExecutor(workers, thread_name_prefix="cfagg-build")
            self._open.callback(self._threads.shutdown, cancel_futures=True)
            self._ahead = 2 * workers
            return
        require("builds on a Dask cluster (client=)", "distributed")
        self._client = self._open.enter_context(cluster_of(client))
        self._ahead = 2 * max(1, sum(self._client.nthreads().values()))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._open.close()

    @property
    def remote(self) -> bool:
        """Whether tasks are done in other processes."""
        return self._threads is None

    def share(self, value: Any) -> Any:
        """Return what stands for a value that many tasks take: it is sent to each worker once."""
        if self._threads is not None:
            return value
        import pickle

        try:
            pickle.dumps(value)
        except (pickle.PicklingError, AttributeError, TypeError) as error:
            raise UnsupportedError(
                f"client= needs a recipe that can be sent to other processes, and this one cannot: {error}; give "
                "functions that are defined in a module"
            ) from error
        return self._client.scatter(value, broadcast=True, hash=False)

    def run(self, tasks: Iterable[Task], *, ordered: bool = False) -> Iterator[Any]:
        """Yield the results of tasks as they are ready, or `ordered`; the first error ends all."""
        left = iter(tasks)
        pending: deque[Any] = deque(self._submit(*t) for t in islice(left, self._ahead))
        try:
            while pending:
                if ordered:
                    ready = [pending.popleft()]
                else:
                    done = self._done(pending)
                    ready = [f for f in pending if f in done]
                    pending = deque(f for f in pending if f not in done)
                for future in ready:
                    result = self._result(future)
                    pending.extend(self._submit(*t) for t in islice(left, 1))
                    yield result
        finally:
            for future in pending:
                future.cancel()
            if self._threads is not None:
                wait(pending)

    def call(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Return what a function returns in a thread that is not the main one."""
        if self._threads is not None:
            return self._threads.submit(function, *arguments).result()
        with ThreadPoolExecutor(1) as thread:
            return thread.submit(function, *arguments).result()

    def _submit(self, function: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
        if self._threads is not None:
            return self._threads.submit(function, *arguments)
        return self._client.submit(function, *arguments, pure=False)

    def _done(self, pending: Collection[Any]) -> set[Any]:
        """Wait until some tasks are ready, and return them."""
        if self._threads is not None:
            return wait(pending, return_when=FIRST_COMPLETED).done
        from distributed import wait as wait_for

        ready: set[Any] = wait_for(list(pending), return_when="FIRST_COMPLETED").done
        return ready

    def _result(self, future: Any) -> Any:
        if self._threads is not None:
            return future.result()
        from distributed import KilledWorker

        try:
            return future.result()
        except CfaggError:
            raise
        except (OSError, RuntimeError, KilledWorker) as error:
            raise SourceError(f"a Dask worker failed: {type(error).__name__}: {error}") from error
