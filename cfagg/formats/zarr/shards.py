"""The location of the chunks of a shard: the index of Zarr v3's codec ``sharding_indexed`` at either end of it.

Source: Zarr v3, "Sharding codec" 1.0.  Index codecs other than little-endian bytes, with or without crc32c, are left to
zarr-python.

*shard*: an object of a Zarr store that contains several chunks and an index of them.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from cfagg.formats.codecs import check_index
from cfagg.formats.zarr.codecs import DamagedError, Decoder, chain, named, strip_crc32c
from cfagg.model import Grid, Regular

__all__ = ["Opened", "Shards", "find_shards", "identity_of"]

#: Offset and size of a chunk that is not stored.
_ABSENT = 2**64 - 1
#: Number of shards whose indexes are cached.
_KEPT = 64
#: Bytes of cached indexes above which the cache is cleared.
_KEPT_BYTES = 2**24
#: Nanoseconds after which rewriting a shard changes its time on any file system.
SETTLED = 2 * 10**9

Index = npt.NDArray[np.uint64]


class Opened(NamedTuple):
    """A stored object: a function that reads bytes at an offset, its size, and a tag of its state."""

    pread: Callable[[int, int], bytes]
    size: int
    identity: tuple[int, ...] | None


@dataclass(frozen=True, eq=False)
class Shards:
    """The layout of the shards of an array."""

    decoder: Decoder  # of the chunks within a shard
    inner: tuple[int, ...]  # lengths of these chunks
    at_start: bool  # whether the index is at a shard's start, else at its end
    checksum: bool  # whether a checksum follows the index
    _known: dict[tuple[int, ...], Index] = field(default_factory=dict, repr=False)

    def locate(self, shard: Opened, objects: Grid, held: Sequence[int], index: Sequence[int]) -> tuple[int, int] | None:
        """Return offset and size of a chunk in a shard, or `None` if it is not stored."""
        position = []
        for axis, inner, h, i in zip(objects.axes, self.inner, held, index, strict=True):
            position.append(i - int(h * axis.chunk if isinstance(axis, Regular) else axis[h]) // inner)
        entries = self.table(shard, objects, held)
        counts = self.counts(objects, held)
        flat = 0
        for n, p in zip(counts, position, strict=True):
            flat = flat * n + p
        offset, nbytes = int(entries[flat, 0]), int(entries[flat, 1])
        if offset == nbytes == _ABSENT:
            return None
        if offset + nbytes > shard.size:
            raise DamagedError(f"its index puts the chunk at bytes {offset:,} to {offset + nbytes:,} of {shard.size:,}")
        return offset, nbytes

    def counts(self, objects: Grid, held: Sequence[int]) -> list[int]:
        """Return the number of chunks of a shard along each dimension."""
        found = []
        for axis, inner, h in zip(objects.axes, self.inner, held, strict=True):
            found.append(int(axis.chunk if isinstance(axis, Regular) else axis[h + 1] - axis[h]) // inner)
        return found

    def table(self, shard: Opened, objects: Grid, held: Sequence[int]) -> Index:
        """Return offset and size of every chunk of a shard in C order."""
        # Those of recent shards are cached by identity, if they have one.
        key = None if shard.identity is None else (*shard.identity, *held)
        entries = None if key is None else self._known.get(key)
        if entries is None:
            entries = self._read(shard.pread, shard.size, math.prod(self.counts(objects, held)))
            if key is None:
                return entries
            # Copied first, since other threads may add to them meanwhile.
            if len(self._known) >= _KEPT or sum(e.nbytes for e in list(self._known.values())) > _KEPT_BYTES:
                self._known.clear()
            self._known[key] = entries
        return entries

    def _read(self, pread: Callable[[int, int], bytes], size: int, chunks: int) -> Index:
        """Return offset and size of every chunk of a shard."""
        length = 16 * chunks + 4 * self.checksum
        check_index(length, "the index of a shard")
        if size < length:
            raise DamagedError(f"its {size:,} bytes are too few for an index of {length:,}")
        stored: Any = pread(length, 0 if self.at_start else size - length)
        if len(stored) != length:
            raise DamagedError("its index ends early")
        if self.checksum:
            stored = strip_crc32c(stored)
        return np.frombuffer(stored, "<u8").reshape(-1, 2)


def identity_of(status: os.stat_result) -> tuple[int, ...] | None:
    """Return a tag that distinguishes the state of a shard from later ones, or `None` if it was just written."""
    # File systems have a time resolution of up to two seconds: two writes within it look the same.
    if time.time_ns() - status.st_ctime_ns < SETTLED:
        return None
    return status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


def find_shards(document: Mapping[str, Any], dtype: np.dtype[Any]) -> Shards | None:
    """Return the layout of shards, or `None` if they have a codec that is not supported here."""
    name, configuration = named(document["codecs"][0])
    codecs, index, inner = (configuration.get(key) for key in ("codecs", "index_codecs", "chunk_shape"))
    if not (isinstance(codecs, list) and isinstance(index, list) and isinstance(inner, list)):
        return None
    if name != "sharding_indexed" or not codecs or not index:
        return None
    decoder = chain(codecs, dtype, len(inner))
    (first, endian), *rest = [named(c) for c in index]
    checksums = [n for n, _ in rest]
    place = configuration.get("index_location", "end")
    if decoder is None or first != "bytes" or endian.get("endian") != "little" or checksums not in ([], ["crc32c"]):
        return None
    if place not in ("start", "end"):
        return None
    return Shards(decoder, tuple(inner), place == "start", bool(checksums))
