"""Execution of a plan, in which every chunk is read once and its contributions are added to the results.

All terms that need a chunk are applied to it while it is in memory.  Large plans run in threads.  Contributions are
always added in the same order, so that the result of a query is bitwise the same with any number of threads.
"""

from __future__ import annotations

import itertools
import math
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from cfagg.accumulation.contract import Local, contract_pair, contract_raw, contract_stored, index_of, locate
from cfagg.accumulation.group import Group
from cfagg.accumulation.integrity import read_region, read_stored
from cfagg.accumulation.query_plan import Plan, Reading
from cfagg.accumulation.ranges import Part
from cfagg.accumulation.source import mask_of
from cfagg.kernels.cumulative.mask import Mask, native_block
from cfagg.kernels.cumulative.plain import add_exactly
from cfagg.runtime.budget import processors

__all__ = ["Sum", "add_up", "cells_of", "chunks", "cut", "hull", "in_order", "weights_of"]

Array = npt.NDArray[Any]
Place = tuple[slice | npt.NDArray[np.int64], ...]
#: The contribution of a chunk: quantity, place in the result, the values to add there, and their low part.
Addend = tuple[str, Place, Array, Array | None]

#: Estimated cost in nanoseconds above which threads are worth starting.  Shorter plans mostly copy memory, and threads
#: would hinder each other.
_THREADS_FROM = 15e6

#: Duration and largest number of jobs that a thread is given at a time.
_BATCH_SECONDS, _BATCH = 2e-3, 16


@dataclass(frozen=True, eq=False)
class Sum:
    """Results that are being added up, in int64 (modulo 2**64) if `integer`, else in float64."""

    group: Group
    plan: Plan
    integer: bool
    #: By quantity, one axis per axis of the source.
    high: dict[str, Array] = field(default_factory=dict)
    #: The part to add to `high` if sums have twice the digits of float64.
    low: dict[str, Array] = field(default_factory=dict)
    #: Quantities to which values have been added.
    begun: set[str] = field(default_factory=set)
    #: Upper bounds of the integers added, ignoring cancellation.
    bounds: list[float] = field(default_factory=list)
    #: Largest magnitude among the stored sums of each reading, if asked for.
    peaks: dict[int, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        lengths = self.plan.request.lengths
        kinds = {
            "data": np.int64 if self.integer else np.float64,
            "weights": np.int64 if self.group.weights is None else np.float64,
            "counts": np.int64,
        }
        for q in self.plan.summed:
            self.high[q] = np.zeros(lengths, kinds[q])
            if self.group.kind == "double-double" and kinds[q] is np.float64:
                self.low[q] = np.zeros(lengths)

    @property
    def bound(self) -> float:
        """Upper bound of the sums of integers."""
        return math.fsum(self.bounds)

    @property
    def mask(self) -> Mask | None:
        """The mask of the values that count in the sums, or None if all do."""
        outliers = self.group.outliers
        if self.group.complete and outliers is None:
            return None
        return mask_of(self.group.dtype, self.group.mask, None if outliers is None else outliers.limit)

    def add(self, addend: Addend) -> None:
        """Add the contribution of a chunk."""
        quantity, place, values, low = addend
        target = self.high[quantity]
        if (
            quantity not in self.begun
            and quantity not in self.low
            and (values.shape, values.dtype) == (target.shape, target.dtype)
            and all(isinstance(p, slice) for p in place)
        ):
            # Allocating memory is expensive, so all other results are added to the array of the first ones.
            self.high[quantity] = values
            self.begun.add(quantity)
            return
        self.begun.add(quantity)
        index = index_of(place)
        if quantity not in self.low:
            target[index] += values
            return
        rest = self.low[quantity]
        target[index], error = add_exactly(target[index], values)
        rest[index] += error if low is None else error + low


def add_up(group: Group, plan: Plan, *, integer: bool, measure: bool = False) -> Sum:
    """Return the sums that a plan reads; `measure` also records the size of stored sums, to prove the result."""
    out = Sum(group, plan, integer)
    mask = out.mask
    jobs = ((reading, *job) for reading in plan.readings for job in chunks(reading))

    def work(job: tuple[Reading, tuple[int, ...], list[tuple[Local, ...]]]) -> tuple[list[Addend], float, int, float]:
        reading, index, terms = job
        if reading.quantity == "raw":
            return *_from_source(out, mask, index, terms), 0, 0.0
        addends, bound, peak = _from_sums(out, reading, index, terms, measure=measure)
        return addends, bound, id(reading), peak

    for addends, bound, number, peak in in_order(work, jobs, plan.cost):
        out.bounds.append(bound)
        if peak:
            out.peaks[number] = max(peak, out.peaks.get(number, 0.0))
        for addend in addends:
            out.add(addend)
    return out


def threads_for(cost: float) -> int:
    """Return how many threads are worthwhile for work with this estimated cost in nanoseconds."""
    return 1 if cost <= _THREADS_FROM else processors()


def in_order[J, R](work: Callable[[J], R], jobs: Iterator[J], cost: float) -> Iterator[R]:
    """Yield results in the order of the jobs, computed by as many threads as the cost suggests."""
    workers = threads_for(cost)
    if workers <= 1:
        yield from map(work, jobs)
        return

    def timed(some: list[J]) -> tuple[list[R], float]:
        start = time.perf_counter()
        return [work(job) for job in some], time.perf_counter() - start

    # Handing over a job can take longer than the job itself, so threads are given several quick ones at a time.
    batch = 1
    waiting: deque[Future[tuple[list[R], float]]] = deque()
    with ThreadPoolExecutor(workers) as pool:
        try:
            while some := list(itertools.islice(jobs, batch)):
                waiting.append(pool.submit(timed, some))
                if len(waiting) > 2 * workers:
                    results, seconds = waiting.popleft().result()
                    batch = max(1, min(_BATCH, int(len(results) * _BATCH_SECONDS / max(seconds, 1e-9))))
                    yield from results
            while waiting:
                yield from waiting.popleft().result()[0]
        finally:
            for future in waiting:
                future.cancel()


def chunks(reading: Reading) -> Iterator[tuple[tuple[int, ...], list[tuple[Local, ...]]]]:
    """Yield every chunk to read, in C order, with the part that each term uses, in the order of the stored axes."""
    array = reading.array
    located: dict[tuple[int, int], list[Local]] = {}

    def along(d: int, part: Part) -> list[Local]:
        key = (d, id(part))
        if key not in located:
            located[key] = locate(part, array.grid.axes[d], array.shape[d])
        return located[key]

    def products(parts: Sequence[Part]) -> Iterator[tuple[Local, ...]]:
        return itertools.product(*(along(d, parts[a]) for d, a in enumerate(reading.axes)))

    if len(reading.terms) == 1:
        for locals_ in products(reading.terms[0].parts):
            yield tuple(t.chunk for t in locals_), [locals_]
        return
    needed: dict[tuple[int, ...], list[tuple[Local, ...]]] = {}
    for term in reading.terms:
        for locals_ in products(term.parts):
            needed.setdefault(tuple(t.chunk for t in locals_), []).append(locals_)
    for index in sorted(needed):
        yield index, needed[index]


def hull(terms: Sequence[tuple[Local, ...]]) -> tuple[slice, ...]:
    """Return the smallest box of a chunk that contains the parts of all terms."""
    return tuple(slice(min(t.low for t in axis), max(t.high for t in axis)) for axis in zip(*terms, strict=True))


def cut(term: Sequence[Local], box: Sequence[slice]) -> tuple[slice, ...]:
    """Return the slices of one term, relative to the start of the box that was read."""
    return tuple(slice(t.low - b.start, t.high - b.start) for t, b in zip(term, box, strict=True))


def _reach(term: Sequence[Local]) -> float:
    """Return an upper bound of the number of times that an element is added to one result of a term."""
    out = 1.0
    for local in term:
        if local.take is None:
            out *= sum(
                abs(coefficient) * (local.stops[segment] - local.starts[segment])
                for segment, _, coefficient in local.entries
            )
    return out


def _largest(block: Array) -> float:
    """Return a bound of the absolute values of a block."""
    if block.dtype.kind in "iu" and block.dtype.itemsize < 8:
        return float(np.iinfo(block.dtype).max) + 1
    return max(abs(float(block.min(initial=0))), abs(float(block.max(initial=0))))


def _from_source(
    out: Sum, mask: Mask | None, index: tuple[int, ...], terms: list[tuple[Local, ...]]
) -> tuple[list[Addend], float]:
    """Return the contributions of a chunk of the array itself to terms, and a bound of integers."""
    box = hull(terms)
    block = cells_of(out.group, index, box)
    addends: list[Addend] = []
    bound = 0.0
    for term in terms:
        part = block[cut(term, box)]
        # Weights may be unknown if cells are only counted.
        weights = weights_of(out.group, index, term) if out.high.keys() & {"data", "weights"} else None
        total, weight, count = contract_raw(part, term, mask, weights, integer=out.integer)
        if out.integer:
            bound += _reach(term) * _largest(part)
        place = tuple(t.target for t in term)
        given = {"data": total, "weights": count if weight is None else weight, "counts": count}
        addends += [(q, place, given[q], None) for q in out.high]
    return addends, bound


def cells_of(group: Group, index: tuple[int, ...], box: tuple[slice, ...]) -> Array:
    """Return the stored values of a box of a chunk of the array, in the dtype in which they are read."""
    array = group.source
    if group.read is not None:
        group.read.add(tuple(index))
    block = group.reader.chunk(index, box)
    if block is None:
        shape = [s.stop - s.start for s in box]
        block = np.broadcast_to(np.asarray(array.fill_value, array.dtype), shape)
    return native_block(block if block.dtype == group.dtype else block.view(group.dtype))


def weights_of(group: Group, index: Sequence[int], term: Sequence[Local]) -> Array | None:
    """Return the weights of a term's part of a chunk, of length 1 along axes that they do not span."""
    if group.weights is None:
        return None
    field = group.weights
    starts = [a for a, _ in group.source.grid.extent(index)]
    box = tuple((starts[a] + term[a].low, starts[a] + term[a].high) for a in field.axes)
    shape = [t.high - t.low if a in field.axes else 1 for a, t in enumerate(term)]
    if field.stored is not None and field.many:
        return read_region(field.stored, box).reshape(shape)
    return field.array[tuple(slice(*b) for b in box)].reshape(shape)


def _from_sums(
    out: Sum, reading: Reading, index: tuple[int, ...], terms: list[tuple[Local, ...]], *, measure: bool
) -> tuple[list[Addend], float, float]:
    """Return the contributions of a chunk of stored sums, a bound of integers, and the largest magnitude if asked."""
    box = hull(terms)
    order = [reading.axes.index(a) for a in range(len(reading.axes))]
    blocks = [read_stored(array, index, box).transpose(order) for array in reading.arrays]
    box = tuple(box[d] for d in order)
    quantity = reading.quantity
    integer = out.high[quantity].dtype.kind == "i"
    addends: list[Addend] = []
    bound = 0.0
    peak = _largest(blocks[0]) if measure and not integer else 0.0
    for stored_term in terms:
        term = [stored_term[d] for d in order]
        high, *low = (block[cut(term, box)] for block in blocks)
        place = tuple(t.target for t in term)
        if quantity in out.low:
            addends.append((quantity, place, *contract_pair(high, low[0] if low else None, term)))
            continue
        if integer and quantity == "data":
            bound += _reach(term) * _largest(high)
        addends.append((quantity, place, contract_stored(high, term, integer=integer), None))
    return addends, bound, peak
