"""Planning and reading stored statistics and cells that together cover a request, each cell once.

Statistics are not cumulative: a range of cells is covered by the whole chunks within it, by groups of chunks from the
pyramid, and by single cells at its ends.  Over several dimensions, the product of the whole chunks is covered by the
statistics of just these dimensions; if these are not stored, or cost more, a dimension is read cell by cell, down to
the cells of the array itself.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from cfagg.accumulation.adding import chunks, cut, hull
from cfagg.accumulation.contract import Local
from cfagg.accumulation.group import Group
from cfagg.accumulation.integrity import read_region, read_stored
from cfagg.accumulation.layout import Level
from cfagg.accumulation.query_plan import Choice, Reading, Role, Search, State, Term, core_of, whole_options
from cfagg.accumulation.ranges import Pick, Request, Runs, fold
from cfagg.formats.zarr import ZarrArray
from cfagg.kernels.statistics import FAN_OUT

__all__ = ["NodePlan", "Nodes", "aligned", "bounds_of", "needs", "node_blocks", "plan_nodes"]

Int64 = npt.NDArray[np.int64]
Dims = tuple[str, ...]
#: Cost of reducing one element, in nanoseconds.
_REDUCED = 2.0

#: Number of elements below which climbing the pyramid is not worthwhile.
_FEW = 1 << 14


@dataclass(frozen=True, eq=False)
class Nodes:
    """Terms over one level of a combination, in elements along its dimensions and in cells along the others."""

    combination: Dims
    level: Level[ZarrArray]
    terms: tuple[Term, ...]

    def reading(self, kind: str) -> Reading:
        """Return the reading of one of the arrays."""
        return Reading(self.level.arrays[kind], None, kind, self.combination, self.level.axes, self.terms)


@dataclass(frozen=True, eq=False)
class NodePlan:
    """The data to read for a statistic that cannot be computed from sums: stored statistics, and cells of the array."""

    request: Request
    nodes: tuple[Nodes, ...]
    cells: Reading | None
    cost: float


def needs(group: Group, statistic: str) -> tuple[str, ...]:
    """Return the kinds of stored statistics from which ``min``, ``max``, ``std`` or ``var`` are computed."""
    if statistic in ("min", "max"):
        return (statistic,) if group.complete else (statistic, "count")
    return ("sum", "m2", "count" if group.weights is None else "weights")


def plan_nodes(group: Group, request: Request, kinds: Sequence[str]) -> NodePlan:
    """Return the cheapest plan for a resolved request, using statistics of these kinds and cells."""
    if 0 in request.lengths or not all(len(runs) for runs in request.reduced.values()):
        return NodePlan(request, (), None, 0.0)
    reduced = {group.dims[a] for a in request.reduced}
    usable = [
        c
        for c, levels in group.statistics.items()
        if set(c) <= reduced and levels and levels[0].level == 0 and all(k in levels[0].arrays for k in kinds)
    ]
    options = whole_options(group, request)
    chosen: dict[int, Choice] = {}
    inner: dict[Choice, Runs] = {}
    for a, runs in request.reduced.items():
        if any(group.dims[a] in c for c in usable):
            found, rim = aligned(runs, np.minimum(group.source.grid.edges[a], group.source.shape[a]))
            if len(found):
                chosen[a] = Choice(Role.CORE, fold(found))
                inner[chosen[a]] = found
                options[a].append((chosen[a], Choice(Role.EDGE, fold(rim))) if len(rim) else (chosen[a],))
    cores: dict[State, Dims] = {
        tuple(chosen[a] if d in c else None for a, d in enumerate(group.dims)): c
        for c in usable
        if all(group.dims.index(d) in chosen for d in c)
    }
    lowest = {core: group.statistics[c][0] for core, c in cores.items()}
    arrays = {core: [level.arrays[k] for k in kinds] for core, level in lowest.items()}
    search = Search(options, arrays, {core: level.axes for core, level in lowest.items()}, group.source, _REDUCED)
    cost, leaves = search.cheapest()
    cells = [Term.of(state) for state in leaves if not any(core_of(state))]
    nodes: dict[tuple[Dims, int], list[Term]] = {}
    for state in leaves:
        if any(core := core_of(state)):
            for number, term in _Climb(group, cores[core], kinds, inner).terms(state):
                nodes.setdefault((cores[core], number), []).append(term)
    return NodePlan(
        request,
        tuple(Nodes(c, group.statistics[c][i], tuple(terms)) for (c, i), terms in nodes.items()),
        Reading(group.source, None, "raw", (), tuple(range(len(group.dims))), tuple(cells)) if cells else None,
        cost,
    )


def bounds_of(group: Group, kind: str) -> Level[ZarrArray] | None:
    """Return the statistics of every chunk, if they include the extremes of this kind."""
    levels = group.statistics.get(group.dims, ())
    found = next((level for level in levels if level.level == 0 and kind in level.arrays), None)
    # Without counts, an extreme might be that of a chunk without values.
    return found if found is not None and (group.complete or "count" in found.arrays) else None


def aligned(runs: Runs, edges: Int64) -> tuple[Runs, Runs]:
    """Return the whole chunks within ranges, as ranges of chunks, and the remaining cells."""
    first = np.searchsorted(edges, runs.start)
    last = np.searchsorted(edges, runs.stop, side="right") - 1
    some = last > first
    group = runs.group
    inner = Runs(first[some], last[some], group[some], runs.groups, runs.keep)
    middle_start = np.where(some, edges[np.minimum(first, len(edges) - 1)], runs.stop)
    middle_stop = np.where(some, edges[last], runs.stop)
    rim = Runs(
        np.concatenate([runs.start, middle_stop]),
        np.concatenate([middle_start, runs.stop]),
        np.concatenate([group, group]),
        runs.groups,
        runs.keep,
    )
    return inner, rim


class _Climb:
    """Covers ranges of whole chunks with elements from the highest levels of the pyramid that fit into the ranges."""

    def __init__(self, group: Group, combination: Dims, kinds: Sequence[str], inner: Mapping[Choice, Runs]) -> None:
        self.levels, self.kinds, self.inner = group.statistics[combination], kinds, inner

    def terms(self, state: State) -> Iterator[tuple[int, Term]]:
        """Yield a term for each level that is used, with the number of the level."""
        parts = [c.part for c in state if c is not None and c.role is not Role.CORE]
        others = math.prod(len(part) if isinstance(part, Pick) else part.cells for part in parts)
        todo = [(0, {a: self.inner[c] for a, c in enumerate(state) if c is not None and c in self.inner})]
        while todo:
            number, runs = todo.pop()
            split = self._next(number, runs, others)
            if split is None:
                yield number, _with_runs(state, runs)
                continue
            todo.append((number + 1, {a: up for a, (up, _, _) in split.items()}))
            for ends in itertools.product((False, True), repeat=len(split)):
                part = {a: rim if end else same for (a, (_, same, rim)), end in zip(split.items(), ends, strict=True)}
                if any(ends) and all(len(r) for r in part.values()):
                    yield number, _with_runs(state, part)

    def _next(self, number: int, runs: Mapping[int, Runs], others: int) -> dict[int, tuple[Runs, Runs, Runs]] | None:
        """Return ranges of the next level, the same in this one, and the rest, or `None` if that is not worthwhile."""
        levels = self.levels
        if number + 1 >= len(levels) or levels[number + 1].level != levels[number].level + 1:
            return None
        if any(k not in levels[number + 1].arrays for k in self.kinds):
            return None
        if others * np.prod([float(r.sizes.sum()) for r in runs.values()]) < _FEW:
            return None
        out = {}
        for a, r in runs.items():
            n = levels[number].arrays[self.kinds[0]].shape[levels[number].axes.index(a)]
            # If a group grows in place, the next level has no cell for the last elements until the cell is complete.
            above = levels[number + 1]
            cells = above.arrays[self.kinds[0]].shape[above.axes.index(a)]
            edges = np.minimum(np.arange(0, cells + 1, dtype=np.int64) * FAN_OUT, n)
            inner, rim = aligned(r, edges)
            if not len(inner):
                return None
            same = Runs(edges[inner.start], edges[inner.stop], inner.group, inner.groups, inner.keep)
            out[a] = (inner, same, rim)
        return out


Array = npt.NDArray[Any]


def _with_runs(state: State, runs: Mapping[int, Runs]) -> Term:
    """Return the term of a state with its core replaced by these ranges of elements."""
    return Term.of(tuple(Choice(Role.CORE, fold(runs[a])) if a in runs else c for a, c in enumerate(state)))


def node_blocks(nodes: Nodes, kinds: Sequence[str]) -> Iterator[tuple[tuple[Local, ...], dict[str, Array]]]:
    """Yield each term, one `Local` per source axis, with its ranges of a chunk of statistics by kind."""
    reading = nodes.reading(kinds[0])
    order = [reading.axes.index(a) for a in range(len(reading.axes))]
    for index, terms in chunks(reading):
        box = hull(terms)
        blocks = {k: _read(nodes.level.arrays[k], reading.array, index, box).transpose(order) for k in kinds}
        inner = tuple(box[d] for d in order)
        for stored in terms:
            term = tuple(stored[d] for d in order)
            yield term, {k: block[cut(term, inner)] for k, block in blocks.items()}


def _read(array: ZarrArray, first: ZarrArray, index: tuple[int, ...], box: tuple[slice, ...]) -> Array:
    """Return a box, given by a chunk of the first array, from any of the arrays."""
    if array.grid == first.grid:
        return read_stored(array, index, box)
    starts = [a for a, _ in first.grid.extent(index)]
    return read_region(array, tuple((a + s.start, a + s.stop) for a, s in zip(starts, box, strict=True)))
