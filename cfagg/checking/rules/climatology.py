"""Bounds variables of climatologies: CF section 7.4."""

from __future__ import annotations

from collections.abc import Iterator

from cfagg.cf.datetimes import CALENDAR_NAMES
from cfagg.checking.context import Context
from cfagg.checking.rules.bounds import climatological, one_existing_name, same_dimensions, shown
from cfagg.checking.times import time_like
from cfagg.findings.finding import Edit, Hit, Severity
from cfagg.findings.rule import rule
from cfagg.model.dataset import Variable


@rule("CLM001")
def climatology_only_on_times(c: Context) -> Iterator[Hit]:
    """Only time coordinates have climatology, in place of bounds."""
    like = time_like(c)
    for v in c.with_attribute("climatology"):
        if v not in like:
            yield Hit(
                v,
                "climatology",
                "climatology is on a variable that is not a time coordinate; use bounds, or give it units of time",
            )
        elif "bounds" in v.attributes:
            yield Hit(
                v,
                "climatology",
                "a time has both climatology and bounds; the text says that a climatological time has no bounds",
                "warning",
            )


@rule("CLM002")
def climatology_names_a_variable(c: Context) -> Iterator[Hit]:
    """The attribute climatology is the name of one variable of the dataset."""
    yield from one_existing_name(c, "climatology")


@rule("CLM003")
def climatology_bounds_are_pairs(c: Context) -> Iterator[Hit]:
    """A bounds variable of a climatology has the dimensions of its time and one of size 2 behind them."""
    like = time_like(c)
    for v, b in climatological(c):
        if not b.is_numeric or v not in like:
            continue  # CLM004, CLM001
        if not b.dimensions or not same_dimensions(b.dimensions[:-1], v.dimensions) or b.dimensions[-1].size != 2:
            first = ", ".join(v.dims) + ", " if v.dims else ""
            yield Hit(b, None, f"the dimensions are {shown(b.dimensions)}; expected ({first}and one of size 2)")


@rule("CLM004", each=climatological)
def climatology_bounds_are_numbers(_: Context, v: Variable, b: Variable) -> Iterator[Hit]:
    """A bounds variable of a climatology holds numbers."""
    if not b.is_numeric:
        yield Hit(b, None, f"the bounds variable of {v.path!r} does not hold numbers")


@rule("CLM005", each=climatological)
def climatology_bounds_agree_with_the_time(_: Context, v: Variable, b: Variable) -> Iterator[Hit]:
    """Units, standard_name and calendar of the bounds variable agree with those of its time."""
    for name in ("units", "standard_name", "calendar"):
        if name not in b.attributes or name not in v.attributes:
            continue
        mine, theirs = b.text(name), v.text(name)
        if mine == theirs and mine is not None:
            continue
        yield Hit(
            b,
            name,
            f"{name} is {b.attributes[name]!r:.80}, on the time {v.path!r} it is {v.attributes[name]!r:.80}; "
            "delete it here",
            _doubt(name, b, v),
            (Edit(b.path, name, safe=False),),
        )


def _doubt(name: str, b: Variable, v: Variable) -> Severity | None:
    """Return a milder severity for another spelling of the same."""
    mine, theirs = (b.text(name) or "").strip().lower(), (v.text(name) or "").strip().lower()
    if name == "calendar" and mine in CALENDAR_NAMES and theirs in CALENDAR_NAMES:
        return "warning" if CALENDAR_NAMES[mine][0] == CALENDAR_NAMES[theirs][0] else None
    return "warning" if " ".join(mine.split()) == " ".join(theirs.split()) else None


@rule("CLM006", each=climatological)
def climatology_bounds_are_never_missing(_: Context, __: Variable, b: Variable) -> Iterator[Hit]:
    """A bounds variable of a climatology has no _FillValue and no missing_value."""
    for name in ("_FillValue", "missing_value"):
        if name in b.attributes:
            yield Hit(
                b,
                name,
                f"{name} is on the bounds variable of a climatology, where no value may be missing; delete it",
                fix=(Edit(b.path, name, safe=False),),
            )
