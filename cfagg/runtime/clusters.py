"""Dask clusters that work is given to."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from cfagg.errors import OptionError, SourceError

__all__ = ["cluster_of"]


@contextmanager
def cluster_of(client: Any) -> Iterator[Any]:
    """Give the client of a cluster, which in here is the one that the functions of distributed take; `None` for none.

    A client of the caller stays open. One that is made here for the address of a scheduler never becomes the one that
    other computations of the process use: they would wait for ever for a scheduler that is gone.
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
    from distributed import Client

    try:
        made = Client(client, timeout="10s", set_as_default=False)
    except (OSError, ValueError) as error:
        lines = str(error).splitlines() or [type(error).__name__]
        raise SourceError(f"no Dask scheduler answers at {client}: {lines[0]}") from error
    with made, made.as_current():
        yield made
