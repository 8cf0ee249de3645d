"""Running work on Dask clusters."""

from __future__ import annotations

import time
import uuid
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from cfagg.errors import CfaggError, OptionError, SourceError

__all__ = ["answers", "cluster_of", "shared", "threads_of"]

#: Seconds that tasks wait if there are no workers; one that died is usually restarted within a few seconds.
PATIENCE = 300.0


@contextmanager
def cluster_of(client: Any) -> Iterator[Any]:
    """Give the client of a cluster, which is the default client within the block; or `None` for none.

    A client of the caller stays open. One that is created here for the address of a scheduler never becomes the default
    for other computations of the process, which would wait forever for a scheduler that is gone.
    """
    if client is None:
        yield None
        return
    if not isinstance(client, str):
        if not hasattr(client, "as_current"):
            found = type(client).__name__
            raise OptionError(f"client: found an object of type {found}; give a distributed.Client or its address")
        with client.as_current():
            yield client
        return
    made = _client(client)
    with made, made.as_current():
        yield made


def _client(address: str, *, again: bool = True) -> Any:
    """Return a client of the scheduler at an address; one that fails to connect is closed here.

    Left to the garbage collector, it would be closed by whichever thread collects it. The event loop of the next client
    would then wait for the lock under which that client waits for this thread, and fail after ten seconds.
    """
    from distributed import Client

    made = Client.__new__(Client)
    try:
        made.__init__(address, set_as_default=False)
    except (AssertionError, OSError, ValueError) as error:
        with suppress(OSError):
            made.close()
        if isinstance(error, AssertionError):  # its loop did not start in time; other code leaves clients behind, too
            if again:
                return _client(address, again=False)
            error = TimeoutError("the thread of a client did not start; try again when this machine is less busy")
        lines = str(error).splitlines() or [type(error).__name__]
        raise SourceError(f"no Dask scheduler answers at {address}: {lines[0]}") from error
    return made


def threads_of(client: Any) -> int:
    """Return how many tasks the workers of a cluster can run at the same time, or one if there are none yet."""
    try:
        return max(1, sum(map(int, client.nthreads().values())))
    except OSError as error:
        raise SourceError(f"the Dask cluster does not answer ({error}); check that its scheduler is running") from error


def shared(client: Any, value: Any) -> Any:
    """Return a future of a value that many tasks need, which is sent to the workers once.

    It is sent as a task rather than scattered, so that it is recreated if the worker that holds it dies.
    """
    with warnings.catch_warnings():
        # Dask warns of tasks of several megabytes, such as an aggregation of very many files.
        warnings.simplefilter("ignore", UserWarning)
        return client.submit(_unchanged, value, key=f"cfagg-job-{uuid.uuid4().hex}")


def _unchanged[T](value: T) -> T:
    return value


def answers(
    client: Any, pending: Any, kind: type[CfaggError] = SourceError, then: str = "", *, killed: bool = False
) -> Iterator[tuple[Any, Any]]:
    """Yield futures and their results as they complete, from an `as_completed` with results that may be added to.

    The first error is raised; with `killed`, the result of a task that kills its workers is a `KilledWorker`. `then` is
    appended to messages. Distributed itself would wait forever if all workers were gone.
    """
    import asyncio
    from concurrent.futures import CancelledError

    from distributed.comm.core import CommClosedError
    from distributed.scheduler import KilledWorker

    pending.raise_errors = False  # because cancelled futures have no traceback to raise
    try:
        seen = asked = time.monotonic()
        while not pending.is_empty():
            if pending.has_ready():
                future, found = next(pending)
                if future.status == "error":
                    found = found[1]
                if isinstance(found, BaseException) and not (killed and isinstance(found, KilledWorker)):
                    raise found
                yield future, found
                future.release()
                seen = time.monotonic()
                continue
            with pending.thread_condition:
                pending.thread_condition.wait(0.1)
            now = time.monotonic()
            if now - asked > min(1.0, PATIENCE / 4):
                asked = now
                if client.nthreads():
                    seen = now
                elif now - seen > PATIENCE:
                    raise kind(
                        f"the Dask cluster has had no worker for {PATIENCE:g} s; start some, or call "
                        f"client.wait_for_workers(1) first{then}"
                    )
    except (
        KilledWorker,
        CancelledError,
        asyncio.CancelledError,
        CommClosedError,
        ConnectionError,
        TimeoutError,
    ) as error:
        said = (str(error).splitlines() or [type(error).__name__])[0][:300]
        if isinstance(error, KilledWorker):
            what = f"workers of the Dask cluster were lost repeatedly ({said}); check that they have enough memory"
        else:
            what = f"the Dask cluster no longer answers ({said}); check that its scheduler is running"
        raise kind(f"{what}{then}") from error
    finally:
        with suppress(OSError):  # if the scheduler is gone, there is nothing to cancel
            client.cancel(list(pending.futures), force=True)
