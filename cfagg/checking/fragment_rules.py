"""Requirements for the fragments of an aggregation: CF section 2.8.2."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial

from cfagg.arrays.identity import UNKNOWN, Identity, interchanged
from cfagg.cf import kinds_of_units as units
from cfagg.cf.datetimes import calendar_name
from cfagg.checking.fragment_coordinates import Line, Place, coordinate_of, misplaced
from cfagg.findings.finding import Severity
from cfagg.model import Layout
from cfagg.model.dataset import Variable

__all__ = ["Expectation", "compare"]

#: Attributes that declare missing values.
_MISSING = ("_FillValue", "missing_value", "valid_min", "valid_max", "valid_range")


@dataclass(frozen=True, slots=True)
class Expectation:
    """The expected properties of a fragment: its place along each dimension of the master, and how it is stored.

    `lines` are the coordinates of the master along its dimensions, if those of fragments are to be compared.
    """

    master: Variable
    dims: tuple[str, ...]
    place: tuple[tuple[int, int], ...]
    layout: Layout
    part: str | None
    lines: Mapping[str, Line] = field(default_factory=dict)


Difference = tuple[str, str, Severity | None]


def compare(fragment: Variable, wanted: Expectation) -> Iterator[Difference]:
    """Yield (rule, message, severity) for everything that prevents a variable from being a fragment."""
    stated, wanted = wanted.layout.dims, _named(fragment, wanted)
    shape = list(_shape(fragment, wanted))
    yield from shape
    if not shape:
        yield from _turned(fragment, wanted, stated)
        yield from _order(fragment, wanted)
        yield from (("REF012", message, None) for message in misplaced(fragment, _places(fragment, wanted)))
    kind = list(_kind(fragment, wanted.master))
    yield from kind
    if not kind:
        yield from _units(fragment, wanted)
        yield from _missing(fragment, wanted.master)


def _named(fragment: Variable, wanted: Expectation) -> Expectation:
    """Return what is expected of a fragment whose dimensions, in CF, the names of the aggregation put in any order."""
    dims, (names, _) = wanted.layout.dims, _dimensions(fragment, wanted)
    if wanted.master.dialect != "CF" or len(set(names)) < len(names) or not set(names) <= set(dims):
        return wanted
    ordered = (*names, *(d for d in dims if d not in names))
    return replace(wanted, layout=replace(wanted.layout, dims=ordered, flipped=()))


def _dimensions(fragment: Variable, wanted: Expectation) -> tuple[list[str], list[int]]:
    """Return names and sizes of a fragment's dimensions, except the one for the characters of strings."""
    dims = list(fragment.dimensions)
    if fragment.kind == "char" and wanted.master.kind in ("string", "char") and len(dims) > len(wanted.layout.dims):
        dims = dims[:-1]
    return [d.name for d in dims], [d.size for d in dims]


def _expected(wanted: Expectation) -> list[int]:
    """Return the expected shape of a fragment, in its own order of dimensions."""
    if wanted.layout.shape is not None:
        return list(wanted.layout.shape)
    extent = {d: stop - start for d, (start, stop) in zip(wanted.dims, wanted.place, strict=True)}
    return [extent.get(d, 1) for d in wanted.layout.dims]


def _shape(fragment: Variable, wanted: Expectation) -> Iterator[Difference]:
    names, found = _dimensions(fragment, wanted)
    expected = _expected(wanted)
    if [n for n in found if n != 1] != [n for n in expected if n != 1]:
        message = (
            f"{fragment.path!r} has the shape {tuple(found)} ({', '.join(names)}), expected {tuple(expected)} "
            f"({', '.join(wanted.layout.dims)}); dimensions of size 1 may be left out"
        )
        yield "REF005", message, None
    elif wanted.master.dialect == "CF" and len(found) > len(expected):
        message = f"{fragment.path!r} has {len(found)} dimensions, more than the {len(expected)} of the aggregation"
        yield "REF005", message, None


def _turned(fragment: Variable, wanted: Expectation, stated: tuple[str, ...]) -> Iterator[Difference]:
    """Yield dimensions that only their names put in the order of the aggregation, as CF allows."""
    wide = {d for d, size in zip(wanted.layout.dims, _expected(wanted), strict=True) if size != 1}
    own, expected = ([d for d in dims if d in wide] for dims in (wanted.layout.dims, stated))
    if own != expected:
        message = (
            f"{fragment.path!r} has the dimensions ({', '.join(own)}) instead of ({', '.join(expected)}): their names "
            "put them right, but other software may take them in the order of the aggregation; write it in that order"
        )
        yield "REF006", message, "warning"


def _order(fragment: Variable, wanted: Expectation) -> Iterator[Difference]:
    names, sizes = _dimensions(fragment, wanted)
    own = [(n, size) for n, size in zip(names, sizes, strict=True) if size != 1]
    expected = [d for d, size in zip(wanted.layout.dims, _expected(wanted), strict=True) if size != 1]
    if [n for n, _ in own] != expected and sorted(n for n, _ in own) == sorted(expected):
        found = ", ".join(n for n, _ in own)
        message = (
            f"{fragment.path!r} has the dimensions ({found}), of the same sizes as the expected "
            f"({', '.join(expected)}) but in another order; its values would end up in the wrong places"
        )
        yield "REF006", message, None
        return
    names, sizes = [n for n, _ in own], [size for _, size in own]
    odd = len(own) == len(expected) and interchanged(
        expected, names, sizes, partial(_identity, wanted.master), partial(_identity, fragment)
    )
    if odd:
        k, j = odd
        message = (
            f"dimension {names[k]!r} of {fragment.path!r} has the coordinates of {expected[j]!r}, where "
            f"{expected[k]!r} of the same size is expected; its values would end up in the wrong places"
        )
        yield "REF006", message, None


def _places(fragment: Variable, wanted: Expectation) -> Iterator[Place]:
    """Yield the place along each dimension with coordinates of a fragment that is the whole of its variable."""
    if wanted.part is not None:
        return
    names, sizes = _dimensions(fragment, wanted)
    wide = iter([n for n, size in zip(names, sizes, strict=True) if size != 1])
    expected = zip(wanted.layout.dims, wanted.layout.flipped, _expected(wanted), strict=True)
    # Dimensions of size 1 may be left out, or in any place: only their names tell which they are.
    own = {dim: (dim if size == 1 else next(wide), flipped) for dim, flipped, size in expected}
    for dim, (start, stop) in zip(wanted.dims, wanted.place, strict=True):
        if dim in wanted.lines:
            yield Place(dim, wanted.lines[dim], start, stop, *own.get(dim, (dim, False)))


def _identity(variable: Variable, dimension: str) -> Identity:
    """Return what identifies the coordinates of a dimension."""
    found = coordinate_of(variable, dimension)
    return UNKNOWN if found is None else Identity.of(found.attributes)


def _kind(fragment: Variable, master: Variable) -> Iterator[Difference]:
    if "other" in (fragment.kind, master.kind):
        return
    if fragment.is_text != master.is_text:
        found = "text" if fragment.is_text else "numbers"
        yield (
            "REF008",
            f"{fragment.path!r} holds {found}; the aggregation holds {'text' if master.is_text else 'numbers'}",
            None,
        )
    elif fragment.kind == "float" and master.kind == "integer" and "scale_factor" not in fragment.attributes:
        message = (
            f"{fragment.path!r} is of type {fragment.dtype}; as {master.dtype} its values would lose their "
            "decimal places"
        )
        yield "REF008", message, "warning"


def _units(fragment: Variable, wanted: Expectation) -> Iterator[Difference]:
    expected = wanted.master.text("units")
    found = wanted.layout.units if wanted.layout.units is not None else fragment.text("units")
    if expected is None or found == expected:
        yield from _calendar(fragment, wanted, expected)
        return
    if found is None:
        if not units.is_dimensionless(expected):
            yield (
                "REF007",
                f"{fragment.path!r} has no units; taken as {expected!r}, those of the aggregation",
                "warning",
            )
        return
    if not units.known(expected) or not units.known(found):
        if expected.split() != found.split():
            message = f"{fragment.path!r} has the units {found!r}, the aggregation {expected!r}; one of them is unknown"
            yield "REF007", message, "warning"
    elif units.is_reference_time(expected) and units.is_reference_time(found):
        yield from _calendar(fragment, wanted, expected)
    elif not units.convertible(found, expected):
        message = f"{fragment.path!r} has the units {found!r}, which cannot become {expected!r}: correct one of them"
        yield "REF007", message, None


def _calendar(fragment: Variable, wanted: Expectation, expected: str | None) -> Iterator[Difference]:
    if expected is None or not units.is_reference_time(expected):
        return
    own = wanted.layout.calendar if wanted.layout.calendar is not None else fragment.text("calendar")
    mine, theirs = ((text or "").strip().lower() for text in (wanted.master.text("calendar"), own))
    if (calendar_name(mine) or mine) != (calendar_name(theirs) or theirs):
        message = (
            f"{fragment.path!r} counts in the calendar {theirs or 'standard'!r}, the aggregation in "
            f"{mine or 'standard'!r}; dates that one of them lacks cannot be converted"
        )
        yield "REF010", message, None


def _missing(fragment: Variable, master: Variable) -> Iterator[Difference]:
    if not any(a in master.attributes for a in _MISSING):
        own = next((a for a in ("_FillValue", "missing_value") if a in fragment.attributes), None)
        if own is not None:
            message = (
                f"{fragment.path!r} has missing values by {own}, but the aggregation defines none; "
                "give it a _FillValue that is not a valid value of any fragment"
            )
            yield "REF009", message, None
