"""Which stored statistics and which cells together cover a request, each cell once.

Statistics are not cumulative: a range of cells is covered by whole chunks, and by groups of chunks from the pyramid,
as far as these lie within it, and by single cells at its ends.  Over several dimensions the product of the insides is
covered by the statistics of just these dimensions; where these are not stored, or dearer, a dimension is taken cell by
cell, down to the cells of the array itself.
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
from cfagg.accumulation.explain import Explanation, explain_plan
from cfagg.accumulation.group import Group, Level
from cfagg.accumulation.integrity import read_region, read_stored
from cfagg.accumulation.parts import Local, Part, Pick, extent, reading_cost
from cfagg.accumulation.planner import Plan, Reading, Term
from cfagg.accumulation.ranges import Runs, fold
from cfagg.accumulation.request import Request
from cfagg.formats.zarr import ZarrArray
from cfagg.kernels.statistics import FAN_OUT

__all__ = ["Cover", "Nodes", "aligned", "bounds_of", "cover", "explain_cover", "needs", "node_blocks"]

Int64 = npt.NDArray[np.int64]
Dims = tuple[str, ...]
#: Per axis: "kept", "whole", "core" (whole chunks) or "edge" (what is left of the ranges); "" while undecided.
State = tuple[str, ...]

#: Cost of an element reduced, in nanoseconds.
_REDUCED = 2.0

#: So many elements are not worth the way up the pyramid.
_FEW = 1 << 14

#: Beyond so many reduced axes they are split in order, as all orders are many.
_ANY_ORDER = 4


@dataclass(frozen=True, eq=False)
class Nodes:
    """Terms taken from one level of a combination: in elements along its dimensions, in cells along the others."""

    combination: Dims
    level: Level
    terms: tuple[Term, ...]

    def reading(self, kind: str) -> Reading:
        """Return what is taken of one of the arrays."""
        return Reading(self.level.arrays[kind], None, kind, self.combination, self.level.axes, self.terms)


@dataclass(frozen=True, eq=False)
class Cover:
    """What is read for a statistic that does not follow from sums: stored statistics, and cells of the array itself."""

    request: Request
    nodes: tuple[Nodes, ...]
    cells: Reading | None
    cost: float


def needs(group: Group, statistic: str) -> tuple[str, ...]:
    """Return the kinds of stored statistics that ``min``, ``max``, ``std`` or ``var`` of stored values follow from."""
    if statistic in ("min", "max"):
        return (statistic,) if group.complete else (statistic, "count")
    return ("sum", "m2", "count" if group.weights is None else "weights")


def cover(group: Group, request: Request, kinds: Sequence[str]) -> Cover:
    """Return the cheapest cover of a resolved request by statistics of these kinds and by cells."""
    if 0 in request.lengths or not all(len(runs) for runs in request.reduced.values()):
        return Cover(request, (), None, 0.0)
    planner = _Planner(group, request, kinds)
    cost, leaves = planner.best(tuple("" if a in request.reduced else "kept" for a in range(len(group.dims))))
    cells = [planner.term(state) for state in leaves if "core" not in state]
    nodes: dict[tuple[Dims, int], list[Term]] = {}
    for state in leaves:
        if "core" in state:
            for key, term in planner.climb(state):
                nodes.setdefault(key, []).append(term)
    return Cover(
        request,
        tuple(Nodes(c, group.statistics[c][i], tuple(terms)) for (c, i), terms in nodes.items()),
        Reading(group.source, None, "raw", (), tuple(range(len(group.dims))), tuple(cells)) if cells else None,
        cost,
    )


def explain_cover(group: Group, request: Request, statistic: str) -> Explanation:
    """Return what would be read, at most, for a statistic that does not follow from sums."""
    stored = {"min": "max", "max": "min"}.get(statistic, statistic) if group.scale < 0 else statistic
    kinds = needs(group, stored)
    found = cover(group, request, kinds)
    readings = [nodes.reading(kind) for nodes in found.nodes for kind in kinds]
    readings += [found.cells] if found.cells is not None else []
    return explain_plan(group, Plan(request, tuple(readings), (), (), found.cost), statistic)


def bounds_of(group: Group, kind: str) -> Level | None:
    """Return the statistics of every chunk, if they have the extremes of this kind."""
    levels = group.statistics.get(group.dims, ())
    found = next((level for level in levels if level.level == 0 and kind in level.arrays), None)
    # Without counts, an extreme could be that of a chunk that has none.
    return found if found is not None and (group.complete or "count" in found.arrays) else None


def aligned(runs: Runs, edges: Int64) -> tuple[Runs, Runs]:
    """Return the whole chunks within ranges, as ranges of chunks, and the cells that are left."""
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


class _Planner:
    """The least cost of every state, found once."""

    def __init__(self, group: Group, request: Request, kinds: Sequence[str]) -> None:
        self.group = group
        self.kinds = kinds
        self.order_matters = len(request.reduced) <= _ANY_ORDER
        reduced = {group.dims[a] for a in request.reduced}
        #: Index of each usable combination's lowest level, by combination.
        self.usable = {
            c: levels
            for c, levels in group.statistics.items()
            if set(c) <= reduced and levels and levels[0].level == 0 and all(k in levels[0].arrays for k in kinds)
        }
        self.parts: list[dict[str, Part]] = [{} for _ in group.dims]
        self.inner: dict[int, Runs] = {}
        for a, positions in request.kept.items():
            self.parts[a]["kept"] = Pick(np.asarray(positions))
        for a, runs in request.reduced.items():
            self.parts[a]["whole"] = fold(runs)
            if any(group.dims[a] in c for c in self.usable):
                inner, rim = aligned(runs, np.minimum(group.source.grid.edges[a], group.source.shape[a]))
                if len(inner):
                    self.inner[a] = inner
                    self.parts[a]["core"], self.parts[a]["edge"] = fold(inner), fold(rim)
        self.found: dict[State, tuple[float, tuple[State, ...]]] = {}

    def best(self, state: State) -> tuple[float, tuple[State, ...]]:
        """Return the least cost of what remains of a state, and its terms."""
        if state in self.found:
            return self.found[state]
        if any(s == "edge" and not len(self.parts[a][s]) for a, s in enumerate(state)):
            return 0.0, ()
        undecided = [a for a, s in enumerate(state) if not s]
        if not undecided:
            out = self.leaf(state)
        else:
            out = (np.inf, ())
            for a in undecided if self.order_matters else undecided[:1]:
                for option in (("whole",), ("core", "edge")) if a in self.inner else (("whole",),):
                    branches = [(*state[:a], s, *state[a + 1 :]) for s in option]
                    if not self.possible(branches[0]):
                        continue
                    results = [self.best(b) for b in branches]
                    cost = sum(r[0] for r in results)
                    if cost < out[0]:
                        out = cost, tuple(itertools.chain.from_iterable(r[1] for r in results))
        self.found[state] = out
        return out

    def combination(self, state: State) -> Dims:
        """Return the dimensions that are taken by chunks."""
        return tuple(d for d, s in zip(self.group.dims, state, strict=True) if s == "core")

    def possible(self, state: State) -> bool:
        """Return whether some statistics are stored whose dimensions are at least those taken by chunks."""
        inner = set(self.combination(state))
        return not inner or any(inner <= set(c) for c in self.usable)

    def leaf(self, state: State) -> tuple[float, tuple[State, ...]]:
        """Return the cost of a term."""
        c = self.combination(state)
        if not c:
            return self.cost(self.group.source, tuple(range(len(state))), state), (state,)
        if c not in self.usable:
            return np.inf, ()
        level = self.usable[c][0]
        return sum(self.cost(level.arrays[k], level.axes, state) for k in self.kinds), (state,)

    def cost(self, array: ZarrArray, axes: Sequence[int], state: State) -> float:
        """Return the estimated time of reading a term from an array."""
        extents = [extent(self.parts[a][state[a]], array.grid.axes[d], array.shape[d]) for d, a in enumerate(axes)]
        return reading_cost(array, extents) + math.prod(e.cells for e in extents) * _REDUCED

    def term(self, state: State, inner: Mapping[int, Runs] | None = None) -> Term:
        """Return the term of a state, with other ranges of chunks if some are given."""
        parts = [fold(inner[a]) if inner is not None and a in inner else self.parts[a][s] for a, s in enumerate(state)]
        return Term(tuple(parts), state)

    def climb(self, state: State) -> Iterator[tuple[tuple[Dims, int], Term]]:
        """Yield what is taken of each level of the pyramid: combination and number of the level, and a term."""
        c = self.combination(state)
        levels = self.usable[c]
        others = 1
        for a, s in enumerate(state):
            if s != "core":
                part = self.parts[a][s]
                others *= len(part) if isinstance(part, Pick) else part.cells
        todo = [(0, {a: self.inner[a] for a, s in enumerate(state) if s == "core"})]
        while todo:
            number, runs = todo.pop()
            split = self._next(levels, number, runs, others)
            if split is None:
                yield (c, number), self.term(state, runs)
                continue
            todo.append((number + 1, {a: up for a, (up, _, _) in split.items()}))
            for ends in itertools.product((False, True), repeat=len(split)):
                piece = {a: rim if end else same for (a, (_, same, rim)), end in zip(split.items(), ends, strict=True)}
                if any(ends) and all(len(r) for r in piece.values()):
                    yield (c, number), self.term(state, piece)

    def _next(
        self, levels: Sequence[Level], number: int, runs: Mapping[int, Runs], others: int
    ) -> dict[int, tuple[Runs, Runs, Runs]] | None:
        """Return ranges of the next level, the same in this one, and the rest; `None` where it does not pay."""
        if number + 1 >= len(levels) or levels[number + 1].level != levels[number].level + 1:
            return None
        if any(k not in levels[number + 1].arrays for k in self.kinds):
            return None
        if others * np.prod([float(r.sizes.sum()) for r in runs.values()]) < _FEW:
            return None
        out = {}
        for a, r in runs.items():
            n = levels[number].arrays[self.kinds[0]].shape[levels[number].axes.index(a)]
            edges = np.append(np.arange(0, n, FAN_OUT, dtype=np.int64), n)
            inner, rim = aligned(r, edges)
            if not len(inner):
                return None
            same = Runs(edges[inner.start], edges[inner.stop], inner.group, inner.groups, inner.keep)
            out[a] = (inner, same, rim)
        return out


Array = npt.NDArray[Any]


def node_blocks(nodes: Nodes, kinds: Sequence[str]) -> Iterator[tuple[tuple[Local, ...], dict[str, Array]]]:
    """Yield each term, one `Local` per source axis, and by kind exactly its ranges of a chunk of statistics."""
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
    """Return a box of a chunk of the first array from any of them."""
    if array.grid == first.grid:
        return read_stored(array, index, box)
    starts = [a for a, _ in first.grid.extent(index)]
    return read_region(array, tuple((a + s.start, a + s.stop) for a, s in zip(starts, box, strict=True)))
