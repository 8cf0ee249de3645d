"""The two tables of a group that grows in place: rows are appended, and never rewritten once they are final.

One has the stamps of stored objects, the other the checksums of the chunks of the group's own arrays.  Each row has a
key that identifies its object or chunk.  Final ("standing") rows have one checksum that each increment continues.  They
are followed by "moving" rows, for objects and chunks that the next increment may rewrite, such as a chunk that is not
full.  The attributes of the group give the number of rows of either kind; anything stored beyond them is ignored.
Which sums remain valid when the array grows depends only on its length.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from cfagg.arrays.chunked import ZarrReader
from cfagg.errors import FragmentReadError
from cfagg.formats.zarr import ZarrArray
from cfagg.formats.zarr.checksums import crc32c
from cfagg.model import Regular

__all__ = [
    "CHECKS", "ROWS", "STAMPS", "GrowingTable", "NotInPlaceError", "Rows", "Standing", "extended", "keys", "moved",
    "room", "split", "standing_of", "whole_objects",
]  # fmt: skip

Int64 = npt.NDArray[np.int64]

#: Rows in a chunk of a table; a chunk is rewritten when a row is appended to it.
ROWS = 1 << 11

#: Columns of a table: the key; then stamp and checksum of an object, or CRC-32C of a chunk.
STAMPS, CHECKS = 6, 2

#: Bits of a key for the number of an object or chunk; the higher bits are the number of the array.
_BITS = 44


class NotInPlaceError(Exception):
    """A group cannot be extended in place, for the reason in the message, and is rewritten instead."""


def keys(which: int, numbers: npt.ArrayLike) -> Int64:
    """Return the keys of objects or chunks of an array from their numbers."""
    return np.asarray(numbers, np.int64) + (which << _BITS)


def split(found: Int64) -> tuple[Int64, Int64]:
    """Return the number of the array of each key, and the number of the object or chunk within it."""
    return found >> _BITS, found & ((1 << _BITS) - 1)


def moved[T](along: Sequence[T], axis: int) -> tuple[T, ...]:
    """Return the values of all axes with one axis first, the order in which growing arrays number their chunks."""
    return (along[axis], *along[:axis], *along[axis + 1 :])


def room(rows: int) -> int:
    """Return the length of a table for a number of rows, rounded up to whole chunks."""
    return max(1, -(-rows // ROWS)) * ROWS


@dataclass(frozen=True, eq=False)
class Rows:
    """Rows of a table: those that are final from now on, and those that the next increment may rewrite."""

    standing: Int64
    moving: Int64

    @classmethod
    def cut(cls, rows: Int64, count: int) -> Rows:
        """Return rows of which the first `count` are final, none if it is negative."""
        return cls(rows[: max(count, 0)], rows[max(count, 0) :])

    @classmethod
    def joined(cls, parts: Sequence[Rows]) -> Rows:
        """Return the rows of all parts."""
        return cls(np.concatenate([p.standing for p in parts]), np.concatenate([p.moving for p in parts]))


def _crc(rows: Int64, before: int = 0) -> int:
    return crc32c(np.ascontiguousarray(rows, "<i8").tobytes(), before)


@dataclass(frozen=True, eq=False)
class GrowingTable:
    """A stored table, and its record in the attributes of the group."""

    array: ZarrArray
    #: Number of final rows and their CRC-32C, then the number of the other rows and their CRC-32C.
    record: tuple[int, int, int, int]

    @cached_property
    def moving(self) -> Int64:
        """The rows that the next increment may rewrite."""
        return self._checked(self._last[self.record[0] % ROWS :], self.record[3])

    @cached_property
    def standing(self) -> Int64:
        """The final rows."""
        final = self.record[0]
        return self._checked(self._last[:final] if final < ROWS else self._read(0, final), self.record[1])

    @cached_property
    def rows(self) -> Int64:
        """All rows."""
        return np.concatenate([self.standing, self.moving])

    @cached_property
    def _crcs(self) -> dict[int, int]:
        return dict(self.standing.tolist())

    @cached_property
    def _moving_crcs(self) -> dict[int, int]:
        return dict(self.moving.tolist())

    def crc(self, which: int, number: int) -> int | None:
        """Return the CRC-32C of a chunk, or `None` if there is none."""
        key = (which << _BITS) + number
        found = self._moving_crcs.get(key)
        return self._crcs.get(key) if found is None else found

    @property
    def before(self) -> Int64:
        """The final rows of the chunk in which the moving rows begin, without comparing checksums."""
        return self._last[: self.record[0] % ROWS]

    @cached_property
    def _last(self) -> Int64:
        """All rows from the start of the chunk in which the moving rows begin, read at once."""
        final, _, count, _ = self.record
        return self._read(final // ROWS * ROWS, final + count)

    def _read(self, start: int, stop: int) -> Int64:
        if stop <= start:
            return np.empty((0, self.array.shape[1]), np.int64)
        found: Int64 = ZarrReader(self.array, workers=1).read([slice(start, stop), slice(None)])
        return found

    def _checked(self, rows: Int64, crc: int) -> Int64:
        if _crc(rows) != crc:
            raise FragmentReadError(
                f"{self.array.store}: the accumulation is damaged, or being extended: rows of {self.array.path!r} do "
                "not have the checksum that the group records; try again, and if that does not help, rebuild it with "
                "cfagg accumulate --overwrite"
            )
        rows.flags.writeable = False
        return rows

    def __getstate__(self) -> dict[str, Any]:
        return {"array": self.array, "record": self.record}


def extended(table: GrowingTable | None, rows: Rows) -> tuple[int, Int64, tuple[int, int, int, int]]:
    """Return the first chunk of a table to write, the rows from there onwards, and the new record of the table."""
    final, crc = (0, 0) if table is None else table.record[:2]
    head = np.empty((0, rows.standing.shape[1]), np.int64) if table is None else table.before
    record = (final + len(rows.standing), _crc(rows.standing, crc), len(rows.moving), _crc(rows.moving))
    return final // ROWS, np.concatenate([head, rows.standing, rows.moving]), record


@dataclass(frozen=True)
class Standing:
    """The final extent along `axis`, in chunks of the source, elements, and samples."""

    axis: int
    chunk: int
    position: int
    sample: int

    def limit(self, axes: tuple[int, ...], level: int | None = None) -> int:
        """Return the number of final entries along `axis`, of sums over `axes` or of statistics of a level."""
        if self.axis not in axes:
            return self.position
        if level is None:
            return self.sample
        limit = self.chunk
        for _ in range(level):
            limit //= 8
        return limit


def whole_objects(array: ZarrArray, axis: int, length: int) -> int:
    """Return the number of stored objects along `axis` that are entirely within the first `length` elements."""
    held = array.objects.axes[axis]
    if isinstance(held, Regular):
        return min(length // held.chunk, held.count)
    return int(np.searchsorted(held, length, side="right")) - 1


def standing_of(array: ZarrArray, axis: int, length: int, stride: int, *, sampled: bool) -> Standing:
    """Return the final extent of sums over the first `length` elements; `sampled` if there are sums along the axis."""
    held, grid = array.objects.axes[axis], array.grid.axes[axis]
    whole = whole_objects(array, axis, length)
    position = whole * held.chunk if isinstance(held, Regular) else int(held[whole])
    position = min(position, length)
    chunk = position // grid.chunk if isinstance(grid, Regular) else int(np.searchsorted(grid, position))
    samples = chunk // stride if sampled else 0
    chunk = samples * stride if sampled else chunk
    start = chunk * grid.chunk if isinstance(grid, Regular) else int(grid[chunk])
    return Standing(axis, chunk, start, samples)
