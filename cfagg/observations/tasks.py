"""Running independent tasks in threads or on the workers of a Dask cluster."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, CancelledError, Executor, Future, ThreadPoolExecutor, wait
from contextlib import ExitStack
from itertools import islice
from types import TracebackType
from typing import Any, Self

from cfagg.errors import CfaggError, SourceError, UnsupportedError
from cfagg.errors.extras import require
from cfagg.runtime.clusters import cluster_of, shared, threads_of

__all__ = ["Pool"]

type Task = tuple[Callable[..., Any], tuple[Any, ...]]


class Pool:
    """Workers for tasks, used as a context manager."""

    def __init__(self, workers: int, client: Any = None) -> None:
        self._open = ExitStack()
        self._client: Any = None
        self._workers: Executor = ThreadPoolExecutor(workers, thread_name_prefix="cfagg-build")
        self._open.callback(self._workers.shutdown, cancel_futures=True)
        if client is not None:
            require("builds on a Dask cluster (client=)", "distributed")
            self._client = self._open.enter_context(cluster_of(client))
            self._workers = self._client.get_executor(pure=False)
            workers = threads_of(self._client)
        self._ahead = 2 * workers

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._open.close()

    @property
    def remote(self) -> bool:
        """Whether tasks run in other processes."""
        return self._client is not None

    def share(self, value: Any) -> Any:
        """Return a handle for a value that many tasks need, which is sent to each worker once."""
        if self._client is None:
            return value
        import pickle

        try:
            pickle.dumps(value)
        except (pickle.PicklingError, AttributeError, TypeError) as error:
            raise UnsupportedError(
                f"client= needs a recipe that can be sent to other processes, which this one cannot: {error}; use "
                "functions that are defined in a module"
            ) from error
        return shared(self._client, value)

    def run(self, tasks: Iterable[Task], *, ordered: bool = False) -> Iterator[Any]:
        """Yield the results of tasks as they complete, or in order if `ordered`; the first error ends all tasks."""
        left = iter(tasks)
        pending = [self._workers.submit(f, *given) for f, given in islice(left, self._ahead)]
        try:
            while pending:
                ready = pending[:1] if ordered else [*wait(pending, return_when=FIRST_COMPLETED).done]
                pending = [f for f in pending if f not in ready]
                for future in ready:
                    result = self._result(future)
                    pending += [self._workers.submit(f, *given) for f, given in islice(left, 1)]
                    yield result
        finally:
            for future in pending:
                future.cancel()
            if self._client is None:
                wait(pending)

    def call(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Return the result of a function, called in a thread that is not the main one."""
        with ThreadPoolExecutor(1) as thread:
            return thread.submit(function, *arguments).result()

    def _result(self, future: Future[Any]) -> Any:
        if self._client is None:
            return future.result()
        from distributed import KilledWorker

        try:
            return future.result()
        except CfaggError:
            raise
        except (OSError, RuntimeError, KilledWorker, CancelledError) as error:
            raise SourceError(f"a Dask worker failed: {type(error).__name__}: {error}") from error
