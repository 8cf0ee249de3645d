"""Planning which stored sums and which cells to use for a request at the least cost.

Along each reduced axis the requested ranges are either read cell by cell (whole), or composed of signed samples of
stored sums and signed cells at the ends (core and edge).  The product over the axes gives terms; one whose core axes
are T is read from the sums over T, one without core axes from the array itself.  Each axis is split independently in
every term, so that plans can do without sums that are not stored, and avoid expensive ones.  `Search` finds the
cheapest terms, also for statistics of chunks (`cfagg.accumulation.nodes`); their cost depends on the chunks that they
touch along each axis.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Literal

import numpy as np
import numpy.typing as npt

from cfagg.accumulation.group import Group, SumArrays, missing_weights
from cfagg.accumulation.integrity import takes_parts
from cfagg.accumulation.ranges import Edges, Part, Request, chunk_of, edge_of, part_of, spans_of, split
from cfagg.formats.codecs import unblosc
from cfagg.formats.zarr import ZarrArray
from cfagg.model import Regular

__all__ = [
    "Choice", "Plan", "Quantity", "Reading", "Role", "Search", "State", "Term", "core_of", "extent", "make_plan",
    "reading_cost", "whole_options",
]  # fmt: skip

Quantity = Literal["data", "weights", "counts"]
Dims = tuple[str, ...]

#: Cost of summing one element, in nanoseconds.
_SUMMED = 0.5

#: Largest number of sample positions in a message.
_NAMED = 12

#: With more reduced axes than this, axes are split in their order, since there are too many orders to try.
_ANY_ORDER = 4


#: Overhead of a chunk and of a read, in nanoseconds, in addition to the cost of its bytes.
_CHUNK, _READ = 60_000.0, 2_000.0

#: Nanoseconds for a byte that is stored uncompressed, with Blosc, and with other compression.
_PLAIN, _BLOSC, _DECODED = 0.15, 0.35, 1.5


class Role(Enum):
    """The part of an axis of the source that a term uses."""

    KEPT = "kept"
    WHOLE = "whole"
    CORE = "core"
    EDGE = "edge"


@dataclass(frozen=True, eq=False, slots=True)
class Choice:
    """One way to read an axis; each is created once, and compared by identity."""

    role: Role
    part: Part


#: The choice for each axis of the source, `None` while undecided; in the core of a state, `None` for other axes.
State = tuple[Choice | None, ...]


@dataclass(frozen=True, eq=False)
class Term:
    """One part for each axis of the source, and its role."""

    parts: tuple[Part, ...]
    roles: tuple[Role, ...]

    @classmethod
    def of(cls, state: State) -> Term:
        """Return the term of a state in which all axes are decided."""
        chosen = [c for c in state if c is not None]
        return cls(tuple(c.part for c in chosen), tuple(c.role for c in chosen))


@dataclass(frozen=True, eq=False)
class Reading:
    """An array from which terms are read, each chunk once."""

    #: The source itself, or stored sums and their low parts.
    array: ZarrArray
    low: ZarrArray | None
    #: ``"raw"`` for the source, else the summed quantity: ``"data"``, ``"weights"`` or ``"counts"``.
    quantity: str
    #: Dimensions that are summed in the array; none for the source.
    combination: Dims
    #: Axis of the source for each axis of the array.
    axes: tuple[int, ...]
    terms: tuple[Term, ...]

    @property
    def arrays(self) -> tuple[ZarrArray, ...]:
        """The array and its low parts."""
        return (self.array,) if self.low is None else (self.array, self.low)


@dataclass(frozen=True, eq=False)
class Plan:
    """The readings for a resolved request, with their estimated cost in nanoseconds."""

    request: Request
    readings: tuple[Reading, ...]
    #: Quantities that are added up from the data read.
    summed: tuple[Quantity, ...]
    #: Quantities that are known without reading data, because there are no missing values.
    analytic: tuple[Quantity, ...]
    cost: float


def make_plan(group: Group, request: Request, wanted: Sequence[Quantity], *, stored: bool = True) -> Plan:
    """Return the cheapest plan for a resolved request, using stored sums if allowed."""
    analytic: list[Quantity] = []
    if group.complete:
        # Then sums of weights depend on the weights alone.
        known = group.weights is None or not group.sums or not group.weights.many
        analytic = [q for q in wanted if q == "counts" or (q == "weights" and known)]
    left = tuple(q for q in wanted if q not in analytic)
    if not left or 0 in request.lengths or not all(len(runs) for runs in request.reduced.values()):
        return Plan(request, (), left, tuple(analytic), 0.0)
    options = whole_options(group, request)
    usable = _usable(group, request, left) if stored else {}
    cores = _split(group, request, usable, options)
    known = group.weights is None or group.weights.known or set(left) <= {"counts"}
    stored_in = {core: _all_stored(usable[c], left) for core, c in cores.items()}
    axes = {core: usable[c].axes for core, c in cores.items()}
    search = Search(options, stored_in, axes, group.source if known else None, _SUMMED)
    cost, leaves = search.cheapest()
    if np.isinf(cost):
        raise missing_weights(f"{group.store}: {group.variable!r}", _unaligned(group, request))
    return Plan(request, tuple(_readings(group, usable, cores, left, leaves)), left, tuple(analytic), cost)


def _unaligned(group: Group, request: Request) -> str:
    """Return why a request needs the weights of cells."""
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


def _usable(group: Group, request: Request, wanted: Sequence[Quantity]) -> dict[Dims, SumArrays]:
    """Return the combinations of reduced dimensions that have sums of all wanted quantities."""
    reduced = {group.dims[a] for a in request.reduced}
    return {
        c: arrays
        for c, arrays in group.sums.items()
        if set(c) <= reduced and all(arrays.of(q) is not None for q in wanted)
    }


def _split(
    group: Group, request: Request, usable: Mapping[Dims, SumArrays], options: list[list[tuple[Choice, ...]]]
) -> dict[State, Dims]:
    """Add to the options the ranges split at each list of samples, and return combinations by core."""
    lists: list[list[tuple[npt.NDArray[np.int64], Choice]]] = [[] for _ in group.dims]
    cores: dict[State, Dims] = {}
    for c in usable:
        core: list[Choice | None] = [None for _ in group.dims]
        for a, samples in enumerate(group.samples[c]):
            if samples is None:
                continue
            core[a] = next((k for at, k in lists[a] if at is samples or np.array_equal(at, samples)), None)
            if core[a] is None:
                inner, edge = split(request.reduced[a], samples)
                made = Choice(Role.CORE, inner)
                lists[a].append((samples, made))
                core[a] = made
                if len(inner):  # otherwise the edge is the whole
                    options[a].append((made, Choice(Role.EDGE, edge)) if len(edge) else (made,))
        cores[tuple(core)] = c
    return cores


def _readings(
    group: Group,
    usable: Mapping[Dims, SumArrays],
    cores: Mapping[State, Dims],
    wanted: Sequence[Quantity],
    leaves: Sequence[State],
) -> Iterator[Reading]:
    """Yield the terms grouped by the array from which they are read."""
    by_core: dict[State, list[Term]] = {}
    for state in leaves:
        by_core.setdefault(core_of(state), []).append(Term.of(state))
    for core, terms in by_core.items():
        if not any(core):
            yield Reading(group.source, None, "raw", (), tuple(range(len(core))), tuple(terms))
            continue
        c = cores[core]
        for q in wanted:
            array, *low = _all_stored(usable[c], (q,))
            yield Reading(array, low[0] if low else None, q, c, usable[c].axes, tuple(terms))


def whole_options(group: Group, request: Request) -> list[list[tuple[Choice, ...]]]:
    """Return the ways to read each axis without stored sums."""
    roles = (Role.WHOLE if a in request.reduced else Role.KEPT for a in range(len(group.dims)))
    return [[(Choice(role, part_of(request, a)),)] for a, role in enumerate(roles)]


def core_of(state: State) -> State:
    """Return a state with only those choices that use stored sums."""
    return tuple(c if c is not None and c.role is Role.CORE else None for c in state)


class Search:
    """Search for the cheapest terms that make up a request; the least cost of every state is computed once."""

    def __init__(
        self,
        options: Sequence[Sequence[tuple[Choice, ...]]],
        stored: Mapping[State, Sequence[ZarrArray]],
        axes: Mapping[State, tuple[int, ...]],
        cells: ZarrArray | None,
        element: float,
    ) -> None:
        #: For each axis the ways to read it: one choice, or a core and its edge.
        self.options = options
        #: The arrays that are read for each core, and the axis of the source for each of their axes.
        self.stored, self.axes = stored, axes
        #: The array itself, if its cells can be used, and the cost of an element in nanoseconds.
        self.cells, self.element = cells, element
        self.found: dict[State, tuple[float, tuple[State, ...]]] = {}
        self.extents: dict[tuple[int, int, Choice], Extent] = {}

    def cheapest(self) -> tuple[float, tuple[State, ...]]:
        """Return the least cost, infinite if there is no solution, and the terms."""
        start = tuple(o[0][0] if o[0][0].role is Role.KEPT else None for o in self.options)
        self.any_order = start.count(None) <= _ANY_ORDER
        return self.best(start)

    def best(self, state: State) -> tuple[float, tuple[State, ...]]:
        """Return the least cost of completing a state, and the terms."""
        if state in self.found:
            return self.found[state]
        undecided = [a for a, choice in enumerate(state) if choice is None]
        out: tuple[float, tuple[State, ...]] = (np.inf, ())
        if not undecided:
            out = self.cost(state), (state,)
        for a in undecided if self.any_order else undecided[:1]:
            for option in self.options[a]:
                if option[0].role is Role.CORE and not self.possible(state, a, option[0]):
                    continue
                branches = [self.best((*state[:a], choice, *state[a + 1 :])) for choice in option]
                cost = sum(b[0] for b in branches)
                if cost < out[0]:
                    out = cost, tuple(leaf for b in branches for leaf in b[1])
        self.found[state] = out
        return out

    def possible(self, state: State, axis: int, core: Choice) -> bool:
        """Return whether there are stored sums over all core axes decided so far and this one."""
        needed = [(a, choice) for a, choice in enumerate(core_of(state)) if choice is not None]
        return any(c[axis] is core and all(c[a] is choice for a, choice in needed) for c in self.stored)

    def cost(self, state: State) -> float:
        """Return the estimated time of reading a term, infinite if no stored array provides it."""
        core = core_of(state)
        if any(core):
            axes = self.axes.get(core, ())
            return sum(self._cost(array, axes, state) for array in self.stored[core]) if axes else np.inf
        return np.inf if self.cells is None else self._cost(self.cells, range(len(state)), state)

    def _cost(self, array: ZarrArray, axes: Sequence[int], state: State) -> float:
        extents = [self._extent(array, d, state[a]) for d, a in enumerate(axes)]
        return reading_cost(array, extents) + math.prod(e.cells for e in extents) * self.element

    def _extent(self, array: ZarrArray, d: int, choice: Choice | None) -> Extent:
        """Return the extent of an axis of an array that a choice touches."""
        if choice is None:
            raise AssertionError("an axis is undecided")
        key = (id(array), d, choice)
        if key not in self.extents:
            self.extents[key] = extent(choice.part, array.grid.axes[d], array.shape[d])
        return self.extents[key]


def _all_stored(arrays: SumArrays, wanted: Sequence[Quantity]) -> tuple[ZarrArray, ...]:
    """Return the sums of quantities, each followed by its low parts if it has any."""
    pairs = ((arrays.of(q), arrays.low.get(q)) for q in wanted)
    return tuple(a for pair in pairs for a in pair if a is not None)


def reading_cost(array: ZarrArray, extents: Sequence[Extent]) -> float:
    """Return the estimated time, in nanoseconds, of reading these extents along each axis of an array."""
    chunks, size = math.prod(e.chunks for e in extents), float(array.dtype.itemsize)
    if not takes_parts(array):
        return chunks * _CHUNK + size * math.prod(e.decoded for e in extents) * _rate(array)
    # As in `read_box`, a read runs along one dimension, with a loop over those before it and whole ones after it.
    best, looped = math.inf, 1.0
    for d, e in enumerate(extents):
        reads = looped * math.prod(later.chunks for later in extents[d:])
        looped *= e.boxed
        read = size * looped * math.prod(later.decoded for later in extents[d + 1 :])
        best = min(best, reads * _READ + read * _PLAIN)
    return chunks * _CHUNK + (best if extents else size * _PLAIN)


def _rate(array: ZarrArray) -> float:
    """Return the time for each byte of a decoded chunk, in nanoseconds."""
    steps = None if array.decoder is None else array.decoder.steps
    if steps is None:
        return _DECODED
    return _PLAIN + sum(_BLOSC if step.undo is unblosc else _DECODED for step in steps)


@dataclass(frozen=True, slots=True)
class Extent:
    """The extent of one axis of a stored array that a part touches."""

    chunks: int
    #: Total length of these chunks.
    decoded: int
    #: Total length of the shortest ranges within these chunks that contain the part.
    boxed: int
    cells: int


def extent(part: Part, edges: Edges, length: int) -> Extent:
    """Return the extent of an axis with these chunks and this length that a part touches."""
    start, stop = spans_of(part)
    if not len(start):
        return Extent(0, 0, 0, 0)
    if len(start) == 1:
        return _extent_of_range(int(start[0]), int(stop[0]), edges, length)
    first, last = chunk_of(edges, start), chunk_of(edges, stop - 1)
    same = first[1:] == last[:-1]  # in the same chunk as the previous range
    shared = first[1:][same]
    decoded = (edge_of(edges, last + 1, length) - edge_of(edges, first, length)).sum() - (
        edge_of(edges, shared + 1, length) - edge_of(edges, shared, length)
    ).sum()
    cells = int((stop - start).sum())
    return Extent(
        int((last - first + 1).sum()) - int(same.sum()),
        int(decoded),
        cells + int((start[1:] - stop[:-1])[same].sum()),
        cells,
    )


def _extent_of_range(start: int, stop: int, edges: Edges, length: int) -> Extent:
    """Return `extent` of a single range."""
    if isinstance(edges, Regular):
        first, last = start // edges.chunk, (stop - 1) // edges.chunk
        low, high = first * edges.chunk, (last + 1) * edges.chunk
    else:
        first, last = (int(k) - 1 for k in np.searchsorted(edges, [start, stop - 1], side="right"))
        low, high = int(edges[first]), int(edges[last + 1])
    return Extent(last - first + 1, min(high, length) - low, stop - start, stop - start)
