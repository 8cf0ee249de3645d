"""Choosing the chunks of the target."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from cfagg.errors import OptionError, UnsupportedError
from cfagg.model import Grid, Regular

__all__ = ["auto_chunks", "choose_chunks", "choose_shards"]

#: Size in bytes of an automatic chunk, before compression.
TARGET = 4 << 20


@dataclass(frozen=True)
class Lengths:
    """The relevant properties of the lengths of cells along a dimension, which may have very many cells."""

    count: int
    first: int  # 0 if there are none
    is_regular: bool  # all equal, except that the last one may be shorter
    divisor: int  # the greatest common one of all but the last

    @classmethod
    def of(cls, grid: Grid, d: int) -> Lengths:
        """Return the lengths of a grid along dimension `d`."""
        axis, n = grid.axes[d], grid.shape[d]
        if isinstance(axis, Regular):
            return cls(axis.count, min(axis.chunk, n), True, axis.chunk if axis.count > 1 else n)
        sizes = np.diff(np.minimum(axis, n))
        if not len(sizes):
            return cls(0, 0, True, n)
        first, last, others = int(sizes[0]), int(sizes[-1]), sizes[:-1]
        divisor = int(np.gcd.reduce(others)) if len(others) else n
        return cls(len(sizes), first, last <= first and bool((others == first).all()), divisor)


def choose_chunks(
    name: str,
    dims: Sequence[str],
    partitions: Grid,
    storage: Sequence[int] | None,
    itemsize: int,
    wanted: str | Mapping[str, int],
    zarr_format: int,
) -> tuple[Grid, bool]:
    """Return the chunk grid of one array and whether it is rectilinear.

    `partitions` is one cell for an ordinary variable, `storage` the chunks in which the source itself is stored;
    dimensions not named in a mapping of `wanted` lengths are treated as with ``"auto"``.
    """
    shape = partitions.shape
    if wanted == "partitions":
        lengths = [Lengths.of(partitions, d) for d in range(len(shape))]
        unequal = [d for d, found in enumerate(lengths) if not found.is_regular]
        if not unequal:
            return Grid.regular(shape, [max(1, found.first) for found in lengths]), False
        if zarr_format == 2:
            d = unequal[0]
            raise UnsupportedError(
                f"variable {name!r}: its partitions differ in size along {dims[d]!r}, and Zarr v2 has chunks of one "
                "size only; choose zarr_format=3, chunks='auto' or explicit chunks"
            )
        if 0 in shape:
            return Grid.regular(shape, [max(1, n) for n in shape]), False
        return partitions, True
    explicit = {} if isinstance(wanted, str) else wanted
    fixed = [explicit.get(d) for d in dims]
    return Grid.regular(shape, auto_chunks(partitions, storage, itemsize, fixed)), False


def choose_shards(
    name: str,
    dims: Sequence[str],
    chunks: Grid,
    wanted: Mapping[str, int],
    fixed: Collection[str],
) -> tuple[Grid, tuple[int, ...]]:
    """Return the grid of the shards of one array, and the lengths of the chunks within them.

    Chunk lengths along the dimensions of `fixed` were requested, so that a shard length that is not a multiple is
    refused; others are adjusted to divide it. Along dimensions that are not named, shards have the length of chunks.

    >>> grid, inner = choose_shards("tas", ("time", "lat"), Grid.regular((365, 90), (31, 64)), {"time": 120}, ())
    >>> grid.sizes, inner
    (((120, 120, 120, 5), (64, 26)), (30, 64))
    """
    shards, inner = [], []
    for dim, axis, n in zip(dims, chunks.axes, chunks.shape, strict=True):
        chunk = axis.chunk  # type: ignore[union-attr]
        length = wanted.get(dim, chunk)
        if dim in wanted and length > 0 and length % chunk:
            if dim not in fixed:
                chunk = _nearest_divisor(length, chunk)
            elif length > chunk >= n:
                length = chunk  # which is no longer than the dimension
            else:
                raise OptionError(
                    f"variable {name!r}: shards of {length} along {dim!r} are not a multiple of its chunks of {chunk}; "
                    f"choose, for instance, {max(1, round(length / chunk)) * chunk}"
                )
        most = -(-max(n, 1) // chunk) * chunk
        shards.append(most if length < 0 else min(length, most))
        inner.append(chunk)
    return Grid.regular(chunks.shape, shards), tuple(inner)


def _nearest_divisor(length: int, wanted: int) -> int:
    """Return the divisor of `length` that is nearest to a wanted one, by ratio."""
    small = [n for n in range(1, math.isqrt(length) + 1) if length % n == 0]
    return min({*small, *(length // n for n in small)}, key=lambda n: (max(n / wanted, wanted / n), n))


def check_dimensions(chunks: Mapping[str, int], known: set[str], where: str, what: str = "chunks") -> None:
    """Raise if explicit chunks name a dimension that no converted variable has."""
    unknown = [d for d in chunks if d not in known]
    if unknown:
        raise OptionError(
            f"{what} of {', '.join(map(repr, unknown))}: no converted variable of {where} has this dimension; "
            f"they have {', '.join(sorted(known)) or 'none'}"
        )


def auto_chunks(
    partitions: Grid, storage: Sequence[int] | None, itemsize: int, fixed: Sequence[int | None] = ()
) -> tuple[int, ...]:
    """Return chunk lengths for about 4 MiB that follow the source where possible.

    The source's own chunks (or partitions) are the unit.  A unit that is too large is split along the leading
    (slowest-varying) dimensions; one that is too small grows along the trailing dimensions first, by whole units. A
    chunk that is shorter than partitions of equal size divides them if there is a divisor nearby; otherwise the chunks
    are made as even as units allow.

    Lengths that are `fixed` stay unchanged; -1 is the whole dimension.

    >>> daily = Grid.from_sizes([[1] * 365, [180], [360]])
    >>> auto_chunks(daily, None, 2)
    (31, 180, 360)
    >>> yearly = Grid.from_sizes([[360] * 10, [180], [360]])
    >>> auto_chunks(yearly, None, 4)
    (15, 180, 360)
    """
    shape = partitions.shape
    fixed = list(fixed) or [None] * len(shape)
    room = max(1, TARGET // itemsize)
    lengths = [Lengths.of(partitions, d) for d in range(len(shape))]
    chunk, locked = [], []
    for d, (n, f) in enumerate(zip(shape, fixed, strict=True)):
        locked.append(f is not None)
        if f is not None:
            chunk.append(max(1, n if f < 0 else min(f, n)))
        elif storage is not None:
            chunk.append(max(1, min(int(storage[d]), n)))
        else:
            chunk.append(max(1, lengths[d].divisor))
    unit = list(chunk)
    for d in range(len(shape)):
        total = math.prod(chunk)
        if total > room and not locked[d]:
            chunk[d] = _near_divisor(chunk[d], max(1, chunk[d] * room // total))
    if math.prod(unit) <= room:
        for d in reversed(range(len(shape))):
            times = room // math.prod(chunk)
            if times > 1 and not locked[d]:
                longer = chunk[d] * times
                chunk[d] = max(1, shape[d]) if longer >= shape[d] else _fitting(lengths[d], shape[d], unit[d], longer)
    return tuple(chunk)


def _near_divisor(length: int, most: int) -> int:
    """Return the largest divisor of `length` up to `most` if it is more than half of it, else an even length."""
    for n in range(most, most // 2, -1):
        if length % n == 0:
            return n
    return _even(length, most)


def _even(length: int, most: int) -> int:
    """Return the shortest length up to `most` that needs no more chunks: 180 for 360 in chunks of up to 256."""
    return -(-length // -(-length // most))


def _fitting(cells: Lengths, total: int, unit: int, most: int) -> int:
    """Return a multiple of `unit` up to `most` that divides, or is divided by, partitions of equal size."""
    longest = most // unit * unit
    size = cells.first
    if not cells.is_regular or cells.count < 2 or size % unit:
        return _even(-(-total // unit), longest // unit) * unit
    if longest >= size:
        return _even(cells.count, longest // size) * size
    return _near_divisor(size // unit, longest // unit) * unit
