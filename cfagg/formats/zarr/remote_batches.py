"""Reading many chunks of a remote Zarr array: few requests, several at a time, and never from different states.

As in `cfagg.formats.zarr.batches`, anything unexpected is left to `cfagg.formats.zarr.chunks`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import numpy.typing as npt

from cfagg.errors import CfaggError, FragmentReadError
from cfagg.formats.codecs import stored_most
from cfagg.formats.zarr.batches import MISSING, ODD, READ, Memory, decode_part, shard_runs
from cfagg.formats.zarr.codecs import DamagedError, Decoder
from cfagg.formats.zarr.metadata import ZarrArray
from cfagg.formats.zarr.remote import EDGE, RemoteObject, open_object, remote_source
from cfagg.formats.zarr.shards import Opened, Shards

__all__ = ["AT_ONCE", "read_remote_chunks", "read_remote_shard"]

#: Concurrent requests.
AT_ONCE = 16

#: Cost of a request in bytes: ranges of a shard with at most this gap between them are requested as one.
_GAP = 1 << 19

#: Shards whose state is kept, so that their chunks are requested without reading the index again.
_KEPT = 64


def read_remote_chunks(
    array: ZarrArray, decoder: Decoder, keys: Sequence[str], memory: Memory, at_once: int
) -> list[int]:
    """Read objects with one chunk each into memory, and return the outcome for each."""
    failed = threading.Event()
    store: Any = array.store
    source = remote_source(store)

    def read(k: int) -> int:
        # A failing server is slow to respond, so it is tried once more, and not for every chunk.
        if failed.is_set():
            return ODD
        most = stored_most(memory.sizes[k])
        try:
            found = open_object(store, f"{array.folder}/{keys[k]}", most, source)
            if found is None:
                return MISSING
            if found.size > most:
                return ODD
            stored = found.pread(found.size, 0)
        except FragmentReadError:
            failed.set()
            return ODD
        return decode_part(decoder, stored, 0, len(stored), memory, k)

    return _each(read, range(len(keys)), at_once)


def read_remote_shard(
    array: ZarrArray, shards: Shards, held: Sequence[int], inside: npt.NDArray[np.int64], memory: Memory, at_once: int
) -> list[int]:
    """Read chunks of one shard by their indices in it, and return the outcome for each."""
    known: dict[tuple[int, ...], RemoteObject] = array.__dict__.setdefault("_remote_shards", {})
    kept = known.get(tuple(held))
    if kept is not None:
        done = _read_of(kept, array, shards, held, inside, memory, at_once)
        # Only a response shows that the shard is unchanged.
        if done is not None and READ in done and ODD not in done:
            return done
    path = f"{array.folder}/{array.key(held)}"
    try:
        found = open_object(array.store, path, EDGE if shards.at_start else None)  # type: ignore[arg-type]
    except FragmentReadError:
        return [ODD] * len(inside)
    if found is None:
        known.pop(tuple(held), None)
        return [MISSING] * len(inside)
    done = _read_of(found, array, shards, held, inside, memory, at_once)
    if len(known) >= _KEPT:
        known.clear()
    if found.identity is not None:
        known[tuple(held)] = found.without_head()
    return [ODD] * len(inside) if done is None else done


def _read_of(
    shard: RemoteObject,
    array: ZarrArray,
    shards: Shards,
    held: Sequence[int],
    inside: npt.NDArray[np.int64],
    memory: Memory,
    at_once: int,
) -> list[int] | None:
    """Read chunks of a shard; return `None` if that fails."""
    try:
        table = shards.table(Opened(shard.pread, shard.size, shard.identity), array.objects, held)
        runs = shard_runs(table, inside, shard.size, memory.sizes, _GAP)

        def read(one: tuple[int, int, list[tuple[int, int, int]]]) -> None:
            begin, end, members = one
            stored = shard.pread(end - begin, begin)
            for k, start, size in members:
                runs.done[k] = decode_part(shards.decoder, stored, start - begin, size, memory, k)

        _each(read, runs.ranges, at_once)
    except (CfaggError, DamagedError):  # also if it was written meanwhile
        return None
    return runs.done


def _each[T, R](work: Callable[[T], R], tasks: Iterable[T], at_once: int) -> list[R]:
    """Return the results of work on each task, several at a time."""
    waiting: Any = list(tasks)
    if at_once < 2 or len(waiting) < 2:
        return [work(t) for t in waiting]
    with ThreadPoolExecutor(min(at_once, len(waiting)), "cfagg") as pool:
        return list(pool.map(work, waiting))
