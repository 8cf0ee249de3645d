"""Reports of the arrays, terms, chunks, elements and bytes that a query would read."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from cfagg.accumulation.adding import chunks
from cfagg.accumulation.contract import Local
from cfagg.accumulation.group import Group
from cfagg.accumulation.integrity import takes_parts
from cfagg.accumulation.nodes import needs, plan_nodes
from cfagg.accumulation.proof import Proof
from cfagg.accumulation.query_plan import Plan, Reading, Role, Term, extent
from cfagg.accumulation.ranges import Request, part_of
from cfagg.accumulation.sums import plan_sums, quantities
from cfagg.display.escape import printable
from cfagg.display.sizes import size_text
from cfagg.formats.zarr import ZarrArray, chunk_bytes

__all__ = ["Explanation", "Step", "explain"]

#: Number of chunks whose stored sizes are looked up; the others are assumed to be similar.
_LOOKED_UP = 20_000

#: Remark if the data to read depend on the result.
_DOUBT = "if the sums turn out to be too imprecise for an answer, its cells are read as well"

_CHUNKS, _ELEMENTS, _BYTES = "chunks", "elements", "read"


@dataclass(frozen=True, slots=True)
class Step:
    """One array that is read.

    Parameters
    ----------
    array : str
        Path of the array in the store.
    role : str
        Its contents: ``"cells"``, ``"sums"``, ``"weights"``, ``"counts"``, or the kind of a statistic.
    terms : tuple of str
        The selection along each reduced dimension, for every term: ``"core time"``, ``"edge time, whole latitude"``.
    chunks : int
        Number of chunks that are decoded.
    elements : int
        Number of elements that are added up.
    bytes : int
        Bytes that are read from the store.
    """

    array: str
    role: str
    terms: tuple[str, ...]
    chunks: int
    elements: int
    bytes: int


@dataclass(frozen=True)
class Explanation:
    """A report of the data that a query would read.

    Parameters
    ----------
    variable : str
        Path of the array.
    statistic : str
        The requested statistic.
    steps : tuple of Step
        Arrays that are read; none if the result is known from data already in memory.
    instead : Step
        Data that would be read without an accumulation.
    proven : bool
        Whether it is certain before anything is read that sums suffice.  If not, cells of some ranges may be read as
        well, at most those of `instead`, if too many digits of a difference of sums were lost to rounding.

    Examples
    --------
    >>> cells = Step("tas", "cells", ("edge time",), 1, 40, 160)
    >>> sums = Step("tas_accumulation_group/acc_time", "sums", ("core time",), 2, 20, 160)
    >>> print(Explanation("tas", "mean", (cells, sums), Step("tas", "cells", (), 100, 80_000, 320_000)))
    mean of tas
      array                            takes             chunks  elements       read
      tas                              cells: edge time       1        40  160 bytes
      tas_accumulation_group/acc_time  sums: core time        2        20  160 bytes
      all                                                     3        60  320 bytes
      without accumulation                                  100    80,000    312 KiB
    """

    variable: str
    statistic: str
    steps: tuple[Step, ...]
    instead: Step
    proven: bool = True

    @property
    def chunks(self) -> int:
        """Number of chunks that are decoded."""
        return sum(s.chunks for s in self.steps)

    @property
    def elements(self) -> int:
        """Number of elements that are added up."""
        return sum(s.elements for s in self.steps)

    @property
    def bytes(self) -> int:
        """Bytes that are read from the store."""
        return sum(s.bytes for s in self.steps)

    def as_dict(self) -> dict[str, Any]:
        """Return the explanation in JSON types."""
        return {
            "variable": self.variable,
            "statistic": self.statistic,
            "steps": [{**asdict(s), "terms": list(s.terms)} for s in self.steps],
            "chunks": self.chunks,
            "elements": self.elements,
            "bytes": self.bytes,
            "without_accumulation": {
                "chunks": self.instead.chunks,
                "elements": self.instead.elements,
                "bytes": self.instead.bytes,
            },
            "proven": self.proven,
        }

    def __str__(self) -> str:
        from cfagg.display.text import columns

        rows = [("array", "takes", _CHUNKS, _ELEMENTS, _BYTES)]
        for step in self.steps:
            for k, term in enumerate(step.terms or ("",)):
                takes = f"{step.role}: {term}" if term else step.role
                rows.append((step.array, takes, *_numbers(step)) if k == 0 else ("", takes, "", "", ""))
        rows.append(("all", "", *_numbers(self)))
        rows.append(("without accumulation", "", *_numbers(self.instead)))
        lines = [f"{self.statistic} of {self.variable}", *columns(rows, "  ", {2, 3, 4})]
        if not self.proven:
            lines.append(f"  {_DOUBT}")
        return "\n".join(map(printable, lines))

    def __repr__(self) -> str:
        total, without = size_text(self.bytes), size_text(self.instead.bytes)
        return printable(
            f"<Explanation of the {self.statistic} of {self.variable}: reads {total} instead of {without}>"
        )

    def _repr_html_(self) -> str:
        from cfagg.display.facts import facts_html

        facts = (("reads", _amount(self)), ("without accumulation", _amount(self.instead)))
        parts = [(s.array, s.role, "; ".join(s.terms), _amount(s)) for s in self.steps]
        lines = [" · ".join(filter(None, part)) for part in parts] + ([] if self.proven else [_DOUBT])
        return facts_html(f"{self.statistic} of {self.variable}", facts, [("arrays", lines)])


def explain(group: Group, request: Request, statistic: str) -> Explanation:
    """Return a report of the most that a statistic would read, without reading any chunk of values."""
    if statistic in ("sum", "mean", "count"):
        plan = plan_sums(group, request, quantities(group, statistic))
        proof = Proof(group, plan)
        proven = not proof.needed or proof.at_once()
    else:
        stored = {"min": "max", "max": "min"}.get(statistic, statistic) if group.scale < 0 else statistic
        kinds = needs(group, stored)
        found = plan_nodes(group, request.resolve(group.source.shape), kinds)
        readings = [nodes.reading(kind) for nodes in found.nodes for kind in kinds]
        readings += [found.cells] if found.cells is not None else []
        plan, proven = Plan(found.request, tuple(readings), (), (), found.cost), True
    steps = tuple(step for reading in plan.readings for step in _steps(group, reading))
    return Explanation(group.variable, statistic, steps, _instead(group, plan.request), proven)


def _amount(what: Step | Explanation) -> str:
    return f"{size_text(what.bytes)}: {what.elements:,} elements in {what.chunks:,} chunk{'s'[: what.chunks != 1]}"


def _numbers(what: Step | Explanation) -> tuple[str, str, str]:
    return f"{what.chunks:,}", f"{what.elements:,}", size_text(what.bytes)


def _steps(group: Group, reading: Reading) -> Iterator[Step]:
    """Yield one step for each array of a reading."""
    sums_of = {"raw": "cells", "data": "sums"}
    for array in reading.arrays:
        role = sums_of.get(reading.quantity, reading.quantity) if array is reading.array else "low parts"
        extents = (
            [extent(term.parts[a], array.grid.axes[d], array.shape[d]) for d, a in enumerate(reading.axes)]
            for term in reading.terms
        )
        elements = sum(math.prod(e.cells for e in each) for each in extents)
        terms = tuple(_name(group, term) for term in reading.terms)
        yield Step(array.path, role, terms, *_count(array, chunks(reading), elements))


def _count(array: ZarrArray, touched: Iterator[tuple[tuple[int, ...], list[tuple[Local, ...]]]], elements: int) -> Any:
    """Return the numbers of chunks, elements and bytes that are read."""
    if takes_parts(array):
        number = size = 0
        for _, terms in touched:
            number += 1
            box = array.dtype.itemsize
            for axis in zip(*terms, strict=True):
                box *= max(t.high for t in axis) - min(t.low for t in axis)
            size += box
        return number, elements, size
    objects: dict[tuple[int, ...], int] = {}
    number = 0
    for index, _ in itertools.islice(touched, _LOOKED_UP):
        number += 1
        held = array.object_of(index)
        if held not in objects:
            objects[held] = chunk_bytes(array, index)
    size = sum(objects.values())
    rest = sum(1 for _ in touched)
    return number + rest, elements, size + (size * rest // number if number else 0)


def _name(group: Group, term: Term) -> str:
    """Return a text with the selection of a term along each reduced dimension."""
    return ", ".join(
        f"{role.value} {dim}" for role, dim in zip(term.roles, group.dims, strict=True) if role is not Role.KEPT
    )


def _instead(group: Group, request: Request) -> Step:
    """Return the step that would be needed without an accumulation."""
    number = decoded = cells = 1
    for a, (edges, n) in enumerate(zip(group.source.grid.axes, group.source.shape, strict=True)):
        e = extent(part_of(request, a), edges, n)
        number, cells = number * e.chunks, cells * e.cells
        decoded *= e.boxed if takes_parts(group.source) else e.decoded
    return Step(group.variable, "cells", (), number, cells, decoded * group.source.dtype.itemsize)
