"""Cells that are kept out of the sums, because the sums of all others would lose digits.

A sum of float64 numbers has some 16 digits: after one value of 1e36, such as a fill value that no attribute declares,
everything that is added is lost.  So the pass over the data records the magnitudes of the values of every chunk.  If a
few cells are far larger than is typical, their chunks are read again and summed without these cells, which are listed.
Queries add back those in their ranges.  If there are many, none is kept out, and results that cannot be proven are
summed from the array itself (`cfagg.accumulation.proof`).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from cfagg.accumulation.partials import parts_of, reduce_blocks
from cfagg.accumulation.recipe import Field, Recipe, read_block
from cfagg.accumulation.source import mask_of, within_limit
from cfagg.accumulation.writing import Basis
from cfagg.conventions.accumulation_record import MagnitudesRecord
from cfagg.errors import LimitError

__all__ = ["Judgement", "Repairs", "judge"]

Box = tuple[tuple[int, int], ...]

#: Cells are kept out if they are larger than is typical by this number of bits, which their neighbours would lose out
#: of the 53 (or 106) bits of sums.
_BEYOND = {"float64": 20, "double-double": 73}

#: Largest number of cells that are kept out, unless an earlier state has set the limit.
MOST = 4096

#: Factor of `MOST` if an earlier state has set the limit; beyond that, the accumulation must be rebuilt.
_GROWN = 16

#: Bytes of corrected partial sums that are kept in memory.
_HELD = 64 << 20


@dataclass(frozen=True, eq=False)
class Remainder:
    """The partial sums of one chunk without cells beyond a limit, and these cells."""

    parts: tuple[tuple[Field, npt.NDArray[Any]], ...]
    #: Positions in the array, of shape (cells, dimensions), and stored values of the cells that are left out.
    positions: npt.NDArray[np.int64]
    values: npt.NDArray[Any]
    #: The largest magnitude of the rest.
    largest: float


def _compute_without(recipe: Recipe, number: int, limit: float, most: int) -> Remainder | None:
    """Return the partial sums of one chunk without cells beyond a limit, or `None` if there are more than `most`."""
    index = recipe.window.index(number)
    block, _ = read_block(recipe, number)
    valid, within = (
        mask_of(recipe.meaning.dtype, recipe.meaning.mask),
        mask_of(recipe.meaning.dtype, recipe.meaning.mask, limit),
    )
    found = valid.valid(block) & ~within.valid(block)
    at = np.argwhere(found)
    if len(at) > most:
        return None
    low, high = within_limit(recipe.meaning.mask, limit)
    partials = reduce_blocks(recipe, np.array([number]), block[np.newaxis], (recipe.whole,), low, high)
    starts = [a for a, _ in recipe.window.array.grid.extent(index)]
    rest = partials.statistics[recipe.whole]
    return Remainder(
        tuple((f, part[0, ...]) for f, part in parts_of(recipe, partials, block.shape, statistics=False)),
        at.astype(np.int64) + np.array(starts, np.int64),
        block[found].astype(recipe.meaning.dtype.newbyteorder("=")),
        max(abs(float(rest.minimum[0])), abs(float(rest.maximum[0]))),
    )


@dataclass(frozen=True, eq=False)
class Repairs:
    """Partial sums of chunks without the cells that are kept out, to replace those of the pass over the data."""

    recipe: Recipe
    #: By field and number of chunk, the corrected partial sums.
    parts: Mapping[Field, Mapping[int, npt.NDArray[Any]]]

    def correct(self, field: Field, box: Box, values: npt.NDArray[Any]) -> None:
        """Replace partial sums by corrected ones, in a box of positions of the window."""
        window = self.recipe.window
        bounds = window.bounds(field.axes)
        for number, part in self.parts.get(field, {}).items():
            local = [int(i) for i in np.unravel_index(number, window.matrix_shape)]
            source, target = [], []
            shape = [int(edges[i + 1] - edges[i]) for i, edges in zip(local, bounds, strict=True)]
            for i, edges, (low, high) in zip(local, bounds, box, strict=True):
                a, b = int(edges[i]), int(edges[i + 1])
                start, stop = max(a, low), min(b, high)
                if start >= stop:
                    break
                source.append(slice(start - a, stop - a))
                target.append(slice(start - low, stop - low))
            else:
                values[tuple(target)] = part.reshape(shape)[tuple(source)]


@dataclass(frozen=True, eq=False)
class Judgement:
    """The magnitudes of values, and the cells that are kept out of the sums."""

    #: `None` if those of an earlier state are unknown.
    magnitudes: MagnitudesRecord | None = None
    #: Stored values of larger magnitude are kept out.
    limit: float | None = None
    #: Positions in the array, of shape (cells, dimensions), and stored values of these cells, of all states.
    positions: npt.NDArray[np.int64] = field(default_factory=lambda: np.empty((0, 0), np.int64))
    values: npt.NDArray[Any] = field(default_factory=lambda: np.empty(0))
    repairs: Repairs | None = None
    #: Number of chunks with such values if there are too many to keep out, and the largest of these values.
    suspicious: int = 0
    worst: float = 0.0

    def notes(self, dims: tuple[str, ...]) -> Iterator[str]:
        """Yield remarks for users."""
        if len(self.values):
            at = ", ".join(f"{d} {i}" for d, i in zip(dims, self.positions[0].tolist(), strict=True))
            count = len(self.values)
            yield (
                f"{count:,} cell{'s are' if count > 1 else ' is'} far larger than is typical and kept out of the "
                f"sums; answers add {'them' if count > 1 else 'it'} back. The first, {self.values[0]!s} at ({at}), "
                "looks like a fill value that no attribute declares"
            )
        elif self.suspicious:
            yield (
                f"{self.suspicious:,} chunk{'s have' if self.suspicious > 1 else ' has'} values far larger than is "
                f"typical, up to {self.worst:g}, too many to keep out of the sums: they look like a fill value "
                "that no attribute declares. Answers that would lose digits are computed from the array itself"
            )


def judge(recipe: Recipe, records: npt.NDArray[Any], basis: Basis | None) -> Judgement:
    """Return the magnitudes of values, and the cells that are kept out of the sums."""
    if not recipe.judged:
        return Judgement()
    small, middle, largest = (records[name] for name in ("small", "middle", "largest"))
    before = None if basis is None or basis.group.extra is None else basis.group.extra.magnitudes
    known = basis is None or before is not None
    old = basis.group.outliers if basis is not None else None
    limit: float | None = None
    if old is not None:
        limit = old.limit
    elif known:
        limit = _limit(recipe, middle)
        if limit is not None and before is not None and limit < before.largest:
            limit = None  # the sums already include larger values
    beyond = np.flatnonzero(largest > (math.inf if limit is None else limit)).tolist()
    found = None if limit is None or not beyond else _without(recipe, records, beyond, limit, old is not None)
    worst = float(largest.max(initial=0.0))
    repairs: Repairs | None = None
    positions: list[npt.NDArray[np.int64]] = []
    values: list[npt.NDArray[Any]] = []
    rest, suspicious = worst, len(beyond)
    if found is not None:
        repairs, positions, values, rest = found
        suspicious = 0
    elif old is None:
        limit = None
    if old is not None and basis is not None:
        stay = old.positions[:, basis.axis] < basis.position
        positions, values = [old.positions[stay], *positions], [old.values[stay], *values]
    smalls = small[small > 0]
    magnitudes = None
    if known:
        low = float(smalls.min(initial=math.inf))
        if before is not None:
            low, rest = min(low, before.small), max(rest, before.largest)
        heaviest = 1.0 if recipe.weights is None else float(recipe.weights.max(initial=0.0))
        magnitudes = MagnitudesRecord(low if low <= rest else 0.0, rest, heaviest)
    return Judgement(
        magnitudes,
        limit,
        np.concatenate(positions) if positions else np.empty((0, recipe.window.array.ndim), np.int64),
        np.concatenate(values) if values else np.empty(0, recipe.meaning.dtype),
        repairs,
        suspicious,
        worst,
    )


def _limit(recipe: Recipe, middle: npt.NDArray[np.float64]) -> float | None:
    """Return the magnitude beyond which values are kept out, a power of two, so that every dtype can represent it."""
    some = np.sort(middle[middle > 0])
    if not len(some):
        return None
    limit = 2.0 ** min(1023, math.frexp(some[(len(some) - 1) // 2])[1] + _BEYOND[recipe.sums])
    dtype = recipe.meaning.dtype
    most = float(np.finfo(dtype).max if dtype.kind == "f" else np.iinfo(dtype).max)
    return limit if limit < most else None


def _without(
    recipe: Recipe, records: npt.NDArray[Any], numbers: list[int], limit: float, grown: bool
) -> tuple[Repairs, list[npt.NDArray[np.int64]], list[npt.NDArray[Any]], float] | None:
    """Return partial sums without cells beyond the limit, these cells, and the largest rest, or `None` if too many."""
    most = MOST * (_GROWN if grown else 1)
    parts: dict[Field, dict[int, npt.NDArray[Any]]] = {}
    positions: list[npt.NDArray[np.int64]] = []
    values: list[npt.NDArray[Any]] = []
    held = count = 0
    rest = float(records["largest"][records["largest"] <= limit].max(initial=0.0))
    for number in numbers if len(numbers) <= most else ():
        found = _compute_without(recipe, number, limit, most - count)
        if found is None:
            break
        count += len(found.values)
        held += sum(part.nbytes for _, part in found.parts)
        if held > _HELD * (_GROWN if grown else 1):
            break
        for f, part in found.parts:
            parts.setdefault(f, {})[number] = part
        positions.append(found.positions)
        values.append(found.values)
        rest = max(rest, found.largest)
    if len(positions) == len(numbers):
        return Repairs(recipe, parts), positions, values, rest
    if grown:
        array = recipe.window.array
        raise LimitError(
            f"{array.store}: array {array.path!r} has grown by values beyond {limit:g}, too many to keep out of the "
            "sums one by one; rebuild its accumulation with overwrite=True (--overwrite)"
        )
    return None
