"""Which stored sums and which cells answer a request at the least cost.

Along each reduced axis the wanted ranges are either taken cell by cell ("whole"), or as signed samples of stored sums
plus signed cells at the ends ("core" and "edge").  The product over the axes gives terms; one whose core axes are T is
read from the sums over T, one without core axes from the array itself.  Each split of an axis is a choice of its own in
every term, so that sums that are not stored are done without, and dear ones are avoided.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np

from cfagg.accumulation.group import Group, SumArrays
from cfagg.accumulation.parts import Extent, Part, Pick, extent, reading_cost
from cfagg.accumulation.ranges import fold, split
from cfagg.accumulation.request import Request
from cfagg.formats.zarr import ZarrArray

__all__ = ["Plan", "Quantity", "Reading", "Term", "make_plan"]

Quantity = Literal["data", "weights", "counts"]
Dims = tuple[str, ...]

#: Cost of an element summed, in nanoseconds.
_SUMMED = 0.5

#: So many positions of samples are named where others were asked for.
_NAMED = 12

#: Beyond so many reduced axes they are split in order, as all orders are many.
_ANY_ORDER = 4


@dataclass(frozen=True, eq=False)
class Term:
    """One part per axis of the source, and for reduced axes what it is: core, edge or whole."""

    parts: tuple[Part, ...]
    states: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class Reading:
    """An array from which terms are read, each chunk once."""

    #: The source itself, or stored sums, and the low parts of these.
    array: ZarrArray
    low: ZarrArray | None
    #: ``"raw"`` for the source, else what the sums are of: ``"data"``, ``"weights"`` or ``"counts"``.
    quantity: str
    #: Dimensions that are summed in the array; none for the source.
    combination: Dims
    #: Axis of the source of each of the array's axes.
    axes: tuple[int, ...]
    terms: tuple[Term, ...]

    @property
    def arrays(self) -> tuple[ZarrArray, ...]:
        """The array and its low parts."""
        return (self.array,) if self.low is None else (self.array, self.low)


@dataclass(frozen=True, eq=False)
class Plan:
    """What is read to answer a resolved request, at an estimated cost in nanoseconds."""

    request: Request
    readings: tuple[Reading, ...]
    #: Quantities that are added up from what is read.
    summed: tuple[Quantity, ...]
    #: Quantities that are known without reading data: nothing is missing.
    analytic: tuple[Quantity, ...]
    cost: float


def weights_are_known(group: Group) -> bool:
    """Return whether sums of weights follow from the weights alone, without the accumulation."""
    if not group.complete:
        return False
    return group.weights is None or not group.sums or not group.weights.many


def make_plan(group: Group, request: Request, wanted: Sequence[Quantity], *, stored: bool = True) -> Plan:
    """Return the cheapest way to answer a resolved request, from stored sums if they may be used."""
    analytic: list[Quantity] = []
    if group.complete:
        analytic = [q for q in wanted if q == "counts" or (q == "weights" and weights_are_known(group))]
    left = tuple(q for q in wanted if q not in analytic)
    if not left or 0 in request.lengths or not all(len(runs) for runs in request.reduced.values()):
        return Plan(request, (), left, tuple(analytic), 0.0)
    planner = _Planner(group, request, left, stored=stored)
    cost, leaves = planner.best(tuple("" if a in request.reduced else "kept" for a in range(len(group.dims))))
    if np.isinf(cost):
        from cfagg.accumulation.foreign_arrays import missing_weights

        raise missing_weights(f"{group.store}: {group.variable!r}", _unaligned(group, request))
    return Plan(request, planner.readings(leaves), left, tuple(analytic), cost)


def _unaligned(group: Group, request: Request) -> str:
    """Return why a request cannot be answered without the weights of cells."""
    places = []
    for combination, samples in group.samples.items():
        for d in combination:
            positions = samples[group.dims.index(d)]
            if positions is None or group.dims.index(d) not in request.reduced:
                continue
            named = [0, *positions.tolist()]
            few = named if len(named) <= _NAMED else [*named[: _NAMED - 2], "…", named[-1]]
            places.append(f"along {d!r} {', '.join(map(str, few))} (sums over {'+'.join(combination)})")
    known = f"; sums begin and end at the positions {'; '.join(places)}" if places else ""
    return f"this range needs the weights of single cells{known}"


#: State of an axis: "" undecided, "kept", "whole", or "core 0", "edge 0", ... with the number of a list of samples.
State = tuple[str, ...]


class _Planner:
    """The least cost of every state, found once."""

    def __init__(self, group: Group, request: Request, wanted: tuple[Quantity, ...], *, stored: bool) -> None:
        self.group = group
        self.request = request
        self.wanted = wanted
        self.stored = stored
        weights = group.weights
        #: Whether what is wanted follows from the cells of the array.
        self.cells = weights is None or weights.known or set(wanted) <= {"counts"}
        self.found: dict[State, tuple[float, tuple[State, ...]]] = {}
        self.extents: dict[tuple[int, int, str], Extent] = {}
        self.parts: list[dict[str, Part]] = [{} for _ in group.dims]
        self.usable = self._usable()
        #: Ways to take each reduced axis: whole, or as core and edge.
        self.options: list[list[tuple[str, ...]]] = [[("whole",)] for _ in group.dims]
        self.core_states: dict[Dims, State] = {}
        self._split()

    def _usable(self) -> dict[Dims, SumArrays]:
        """Return the sums that hold all that is wanted, over reduced dimensions only."""
        if not self.stored:
            return {}
        reduced = {self.group.dims[a] for a in self.request.reduced}
        return {
            c: arrays
            for c, arrays in self.group.sums.items()
            if set(c) <= reduced and all(_stored(self.group, arrays, q) is not None for q in self.wanted)
        }

    def _split(self) -> None:
        """Cut the ranges along each axis at the samples of every list of samples that there is."""
        for a, positions in self.request.kept.items():
            self.parts[a]["kept"] = Pick(np.asarray(positions))
        for a, runs in self.request.reduced.items():
            self.parts[a]["whole"] = fold(runs)
        lists: list[list[np.ndarray]] = [[] for _ in self.group.dims]
        for c in self.usable:
            core = ["" for _ in self.group.dims]
            for a, samples in enumerate(self.group.samples[c]):
                if samples is None:
                    continue
                known = lists[a]
                number = next(
                    (i for i, k in enumerate(known) if k is samples or np.array_equal(k, samples)), len(known)
                )
                if number == len(known):
                    known.append(samples)
                    inner, edge = split(self.request.reduced[a], samples)
                    if len(inner):  # else the edge is the whole
                        self.parts[a][f"core {number}"], self.parts[a][f"edge {number}"] = inner, edge
                        both = (f"core {number}", f"edge {number}")
                        self.options[a].append(both if len(edge) else both[:1])
                core[a] = f"core {number}"
            self.core_states[c] = tuple(core)

    @cached_property
    def cores(self) -> Mapping[State, Dims]:
        """Combination by the states of its core axes, "" along the others."""
        return {state: c for c, state in self.core_states.items()}

    def best(self, state: State) -> tuple[float, tuple[State, ...]]:
        """Return the least cost of what remains of a state, and its terms."""
        if state in self.found:
            return self.found[state]
        undecided = [a for a, s in enumerate(state) if not s]
        out: tuple[float, tuple[State, ...]] = (np.inf, ())
        if not undecided:
            out = self.leaf(state)
        for a in undecided if len(self.request.reduced) <= _ANY_ORDER else undecided[:1]:
            for option in self.options[a]:
                if option[0] != "whole" and not self.possible(state, a, option[0]):
                    continue
                branches = [self.best((*state[:a], s, *state[a + 1 :])) for s in option]
                cost = sum(b[0] for b in branches)
                if cost < out[0]:
                    out = cost, tuple(leaf for b in branches for leaf in b[1])
        self.found[state] = out
        return out

    def possible(self, state: State, axis: int, core: str) -> bool:
        """Return whether some sums are stored whose core axes are at least those decided and this one."""
        needed = [(a, s) for a, s in enumerate(state) if s[:4] == "core"]
        return any(c[axis] == core and all(c[a] == s for a, s in needed) for c in self.cores)

    def leaf(self, state: State) -> tuple[float, tuple[State, ...]]:
        """Return the cost of a term."""
        core = tuple(s if s.startswith("core") else "" for s in state)
        if not any(core):
            if not self.cells:
                return np.inf, ()
            return self.cost(self.group.source, tuple(range(len(state))), state), (state,)
        if core not in self.cores:
            return np.inf, ()
        arrays = self.usable[self.cores[core]]
        return sum(
            self.cost(array, arrays.axes, state) for q in self.wanted for array in _all_stored(self.group, arrays, q)
        ), (state,)

    def cost(self, array: ZarrArray, axes: Sequence[int], state: State) -> float:
        """Return the estimated time of reading a term from an array."""
        extents = [self.extent(array, d, a, state[a]) for d, a in enumerate(axes)]
        return reading_cost(array, extents) + math.prod(e.cells for e in extents) * _SUMMED

    def extent(self, array: ZarrArray, d: int, axis: int, state: str) -> Extent:
        """Return how much of an axis of an array a part touches."""
        key = (id(array), axis, state)
        if key not in self.extents:
            self.extents[key] = extent(self.parts[axis][state], array.grid.axes[d], array.shape[d])
        return self.extents[key]

    def readings(self, leaves: Sequence[State]) -> tuple[Reading, ...]:
        """Return the terms by the array that they are read from."""
        by_core: dict[State, list[Term]] = {}
        for state in leaves:
            core = tuple(s if s.startswith("core") else "" for s in state)
            parts = tuple(self.parts[a][s] for a, s in enumerate(state))
            by_core.setdefault(core, []).append(Term(parts, tuple(s.split(" ")[0] for s in state)))
        out = []
        for core, terms in by_core.items():
            if not any(core):
                axes = tuple(range(len(core)))
                out.append(Reading(self.group.source, None, "raw", (), axes, tuple(terms)))
                continue
            c = self.cores[core]
            arrays = self.usable[c]
            for q in self.wanted:
                array, *low = _all_stored(self.group, arrays, q)
                out.append(Reading(array, low[0] if low else None, q, c, arrays.axes, tuple(terms)))
        return tuple(out)


def _stored(group: Group, arrays: SumArrays, quantity: Quantity) -> ZarrArray | None:
    """Return the sums of a quantity, `None` where they are not stored."""
    if quantity == "data":
        return arrays.data
    if quantity == "counts" and group.weights is not None:
        return arrays.counts
    return arrays.weights


def _all_stored(group: Group, arrays: SumArrays, quantity: Quantity) -> tuple[ZarrArray, ...]:
    """Return the sums of a quantity and their low parts, if they have any."""
    array = _stored(group, arrays, quantity)
    low = {"data": arrays.low, "weights": arrays.weights_low}.get(quantity)
    return tuple(a for a in (array, low) if a is not None)
