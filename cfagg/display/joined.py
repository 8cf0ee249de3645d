"""The result of aggregating many files, as plain data, and as text for a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from cfagg.display.escape import printable
from cfagg.display.sizes import count_text
from cfagg.display.summary import Listing

__all__ = [
    "ApartFacts", "AxisFacts", "GroupFacts", "JoinedFacts", "Run", "UnreadFacts", "axis_text", "beyond", "joined_lines",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Run:
    """A run of coordinates without gaps along an axis, and its number of members; `first` and `last` are its ends.

    `low` and `high` are its ends in a picture: in the units of the axis, dates as decimal years.
    """

    low: float
    high: float
    members: int
    first: str
    last: str


@dataclass(frozen=True, slots=True)
class AxisFacts:
    """An axis of an array: `parts` is the number of members along it, and `how` describes their arrangement."""

    name: str
    size: int
    parts: int
    first: str
    last: str
    units: str
    how: str = ""
    #: The covered runs, in the order of the axis; empty for axes that are not numbers.
    runs: Listing[Run] = field(default_factory=lambda: Listing(0, ()))


@dataclass(frozen=True, slots=True, repr=False)
class GroupFacts:
    """One array: its variables and files, and how they were joined."""

    name: str
    identity: str
    units: str
    files: Listing[str]
    rule: str
    axes: tuple[AxisFacts, ...]
    dropped: tuple[str, ...] = ()
    replaced: int = 0
    #: The published dataset that its files are, in contrast to those of other arrays, such as "source_id: A".
    dataset: str = ""

    def __str__(self) -> str:
        return "\n".join(line[2:] for line in _group_lines(self))

    def __repr__(self) -> str:
        return f"<{self.name}: {self.rule}, {count_text(self.files.count, 'file')}>"

    def _repr_html_(self) -> str:
        from cfagg.display.facts import facts_html

        facts = (
            ("quantity", self.identity),
            ("units", self.units),
            ("dataset", self.dataset),
            ("rule", self.rule),
            *((axis.name, axis_text(axis).removeprefix(f"{axis.name}: ")) for axis in self.axes),
            ("attributes left out", ", ".join(self.dropped)),
            ("replaced by others", f"{self.replaced:,}" if self.replaced else None),
        )
        return facts_html(self.name, facts, [("files", [*self.files.first, *self.files.last])])


@dataclass(frozen=True, slots=True)
class ApartFacts:
    """Why arrays of one quantity are apart: a reason, its frequency, a pair of files, and a remedy."""

    identity: str
    rule: str
    what: str
    text: str
    count: int
    arrays: Listing[str]
    a: str
    b: str
    remedy: str


@dataclass(frozen=True, slots=True)
class UnreadFacts:
    """A file that could not be read, and why."""

    file: str
    problem: str


@dataclass(frozen=True, slots=True)
class JoinedFacts:
    """The result of aggregating some files."""

    files: int
    variables: int
    groups: Listing[GroupFacts]
    apart: Listing[ApartFacts]
    unread: Listing[UnreadFacts]
    losses: Listing[str]
    notes: Listing[str]

    def __repr__(self) -> str:
        return f"<JoinedFacts: {self.groups.count:,} arrays of {self.files:,} files>"


def joined_lines(facts: JoinedFacts) -> Iterator[str]:
    """Yield lines, safe for a terminal, with the result of an aggregation, starting with what was not joined."""
    yield (
        f"{count_text(facts.files, 'file')}, {count_text(facts.variables, 'variable')} in them: "
        f"{count_text(facts.groups.count, 'array')}"
    )
    yield from _section(
        "not read", [f"{u.file}: {beyond(u.problem, u.file)}" for u in facts.unread.first], facts.unread
    )
    if facts.apart.count:
        yield ""
        yield "apart"
        for one in (*facts.apart.first, *facts.apart.last):
            yield from _apart_lines(one)
        yield from _more(facts.apart)
    yield ""
    yield "arrays"
    for group in facts.groups.first:
        yield from _group_lines(group)
    yield from _more(facts.groups)
    for group in facts.groups.last:
        yield from _group_lines(group)
    yield from _section("losses", [*facts.losses.first, *facts.losses.last], facts.losses)
    yield from _section("notes", [*facts.notes.first, *facts.notes.last], facts.notes)


def _section[T](title: str, lines: Sequence[str], listing: Listing[T]) -> Iterator[str]:
    if listing.count:
        yield ""
        yield title
        yield from (f"  {printable(line)}" for line in lines)
        yield from _more(listing)


def _more[T](listing: Listing[T]) -> Iterator[str]:
    if listing.omitted:
        yield f"  … {listing.omitted:,} more …"


def _apart_lines(one: ApartFacts) -> Iterator[str]:
    names = ", ".join(one.arrays.first) + (", …" if one.arrays.omitted else "")
    times = "" if one.count == 1 else f" ({one.count:,} times)"
    yield f"  {printable(one.identity)} ({printable(names)}): {printable(one.text)}{times}"
    yield f"    {printable(one.a)}"
    yield f"    {printable(one.b)}"
    yield f"    remedy: {printable(one.remedy)}"


def _group_lines(group: GroupFacts) -> Iterator[str]:
    dims = ", ".join(f"{a.name}: {a.size:,}" for a in group.axes if a.size > 1 or a.parts > 1)
    units = f" [{group.units}]" if group.units else ""
    yield f"  {printable(group.name)} ({printable(dims)}){printable(units)}: {printable(group.rule)}"
    if group.dataset:
        yield f"    {printable(group.dataset)}"
    for axis in group.axes:
        if axis.parts > 1:
            yield f"    {printable(axis_text(axis))}"
    if group.replaced:
        yield f"    {others_text(group)}"
    if group.dropped:
        yield f"    attributes that differ and were left out: {printable(', '.join(group.dropped))}"


def others_text(group: GroupFacts) -> str:
    """Return how many variables the option `on_overlap` left out in favour of those of an array, in words."""
    return f"{count_text(group.replaced, 'variable')} with the same coordinates left out (on_overlap)"


def axis_text(axis: AxisFacts) -> str:
    """Return how an axis is covered, in words."""
    ends = axis.first if axis.first == axis.last else f"{axis.first} to {axis.last}"
    gaps = axis.runs.count - 1
    more = f", {count_text(gaps, 'gap')}" if gaps > 0 else ""
    how = f", {axis.how}" if axis.how else ""
    return f"{axis.name}: {ends}{f' {axis.units}' if axis.units else ''} in {count_text(axis.parts, 'part')}{more}{how}"


def beyond(problem: str, file: str) -> str:
    """Return a problem of a file without the file's name at its beginning."""
    return problem.removeprefix(file).lstrip(": ") or problem
