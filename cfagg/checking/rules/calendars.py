"""Calendars: CF section 4.4.3 (4.4.1 before CF-1.12)."""

from __future__ import annotations

import time
from collections.abc import Iterator

from cfagg.cf.attribute_types import faulty_text
from cfagg.cf.datetimes import CALENDAR_NAMES, Datetime, clock_problem, days_in_month, seconds_between
from cfagg.cf.kinds_of_units import is_reference_time
from cfagg.checking.context import Context, once
from cfagg.checking.times import Time, edits, explicit, extent, time_like, times
from cfagg.findings.finding import Hit
from cfagg.findings.rule import rule
from cfagg.findings.versions import Version
from cfagg.model.dataset import Variable

#: First and last days of the standard calendar around its gap.
_OLD, _NEW = (1582, 10, 4), (1582, 10, 15)

#: Decimal fractions of days are not exact, so a millisecond more or less does not change the date.
_SLACK = 1e-3

_GAP = "the standard calendar goes from 1582-10-04 to 1582-10-15"


@rule("TIM009")
def calendar_only_on_times(c: Context) -> Iterator[Hit]:
    """Only time coordinates have a calendar."""
    yield from only_on_times(c, ("calendar",))


def only_on_times(c: Context, names: tuple[str, ...]) -> Iterator[Hit]:
    """Yield the variables that have any of these attributes and are no time coordinates."""
    like = time_like(c)
    inheriting = c.roles.bounds | c.roles.climatology | c.roles.named_by("bounds_tie_points")
    for v in c.with_attribute(*names):
        counted = is_reference_time(v.text("units") or "")
        if v in like or v in inheriting or (counted and c.references_to(v, "nodes", "node_coordinates")):
            continue
        for name in names:
            if name not in v.attributes:
                continue
            if counted:
                message = (
                    f"{name} is on times that are not coordinates; CF defines it only for time coordinates, "
                    "but without it these times would be in the standard calendar"
                )
                yield Hit(v, name, message, "info")
            else:
                yield Hit(v, name, f"{name} is on a variable that holds no time coordinates; delete it")


def _with_calendar(c: Context) -> Iterator[tuple[Variable, str]]:
    """Yield time coordinates with their calendars as written, if those are text."""
    like = time_like(c)
    for v in c.dataset.variables:
        text = v.text("calendar") if v in like else None
        if text is not None:
            yield v, text


def _listed(text: str, version: Version) -> bool:
    """Whether a calendar is one of those that a version of CF lists."""
    known = CALENDAR_NAMES.get(text.strip().lower())
    return known is not None and version.minor >= known[1]


@rule("TIM010")
def calendar_is_listed(c: Context) -> Iterator[Hit]:
    """A calendar is one that CF lists, unless the lengths of the months define it."""
    like = time_like(c)
    for v in c.with_attribute("calendar"):
        value = v.attributes["calendar"]
        if v in like and not isinstance(value, str) and not faulty_text(value, c.version):
            yield Hit(v, "calendar", "calendar is not text; expected the name of a calendar")
    listed = sorted(n for n, (_, minor) in CALENDAR_NAMES.items() if minor <= c.version.minor and n != "no_leap")
    for v, text in _with_calendar(c):
        name = text.strip().lower()
        if explicit(v):
            if name in CALENDAR_NAMES and c.version >= Version(1, 12):
                message = (
                    f"calendar {text!r} is one that CF defines, and month_lengths defines another one; delete "
                    "month_lengths or give the calendar a name of its own"
                )
                yield Hit(v, "calendar", message)
        elif not _listed(text, c.version):
            near = "; did you mean 'noleap'?" if name == "no_leap" else ""
            yield Hit(v, "calendar", f"calendar {text!r} is not one of {', '.join(listed)}{near}")
        elif name == "no_leap":
            message = "calendar 'no_leap' is in table 4.1, but the text and all other versions of CF say 'noleap'"
            yield Hit(v, "calendar", message, "warning", edits(c, v, "calendar", "noleap"))


@rule("TIM011", each=times, needs="data")
def values_are_dates_of_the_calendar(c: Context, t: Time) -> Iterator[Hit]:
    """No time coordinate represents a datetime that its calendar does not have."""
    if t.calendar not in ("utc", "tai", "standard", "julian"):
        return
    span = _span(c, t)
    if span is None:
        return
    assert t.datetime is not None  # noqa: S101 - there is no span without
    low, high = span
    first = {"utc": (1972, 1, 1), "tai": (1958, 1, 1)}.get(t.calendar, (0, 1, 1))
    if low < seconds_between(t.calendar, t.datetime, first):
        when = "the year 0" if first[0] == 0 else f"{first[0]}-01-01"
        yield Hit(t.variable, None, f"there are times before {when}, which calendar {t.calendar} does not have")
    if t.calendar == "utc":
        # One day is added, since the clock of this machine may be slow.
        today = time.gmtime(time.time() + 86400)
        if high > seconds_between("utc", t.datetime, (today.tm_year, today.tm_mon, today.tm_mday)) + 86400:
            yield Hit(t.variable, None, "there are times in the future, which calendar utc does not define yet")


@once
def _span(c: Context, t: Time) -> tuple[float, float] | None:
    """Return the first and the last time in seconds since the reference, or `None` if unknown."""
    if t.datetime is None or t.datetime.rest or _invalid(t, c.version) or t.variable.is_text:
        return None
    from cfagg.cf.calendars import seconds_in  # few checks read values

    exact = seconds_in(t.unit)
    found = extent(t.variable) if exact is not None else None
    if found is None or exact is None:
        return None
    unit = float(exact)
    return found[0] * unit + _SLACK, found[1] * unit - _SLACK


@once
def invalid_references(c: Context) -> set[Variable]:
    """Return the time coordinates whose reference datetime does not exist in their calendar."""
    return {t.variable for t in times(c) if _invalid(t, c.version)}


@rule("TIM012", each=times)
def reference_is_a_date_of_the_calendar(c: Context, t: Time) -> Iterator[Hit]:
    """The reference datetime exists in the calendar."""
    wrong = _invalid(t, c.version)
    if wrong:
        # Up to CF-1.11, dates in the gap of October 1582 are discouraged but not forbidden.
        gap = wrong == _GAP and c.version < Version(1, 12)
        told = f"the reference datetime {t.text!r} is not valid: {wrong}"
        yield Hit(t.variable, "units", told, "warning" if gap else None)


def _invalid(t: Time, version: Version) -> str:
    """Return why the calendar lacks the reference datetime, empty if it has it or the text cannot be read."""
    d = t.datetime
    if d is None or not d.complete:
        return ""
    year, month, day = d.date
    if not 1 <= month <= 12:
        return f"there is no month {month}"
    last = _last_day(t, year, month)
    if last is not None and not 1 <= day <= last:
        return f"month {month} of year {year} has {last} days in {_called(t)}"
    if day < 1:
        return "there is no day 0"
    wrong = clock_problem(d, t.calendar, leap_anywhere=version < Version(1, 9))
    return wrong or _outside(t, (year, month, day), version)


def _outside(t: Time, date: tuple[int, int, int], version: Version) -> str:
    """Return why a date is outside the range of the calendar, or an empty string."""
    if t.calendar == "standard" and _OLD < date < _NEW:
        return _GAP
    if t.calendar in ("standard", "julian") and date[0] < 0 and version >= Version(1, 9):
        return f"the {t.calendar} calendar has no negative years"
    first = {"tai": 1958, "utc": 1972 if version >= Version(1, 13) else 1958}.get(t.calendar or "")
    if first is not None and date[0] < first:
        return f"calendar {t.calendar} begins on {first}-01-01"
    if t.calendar == "utc" and date > time.gmtime(time.time() + 86400)[:3]:
        return "it is in the future, whose leap seconds are not known yet"
    return ""


def _called(t: Time) -> str:
    return f"calendar {t.calendar}" if t.calendar else "the calendar of this variable"


def _last_day(t: Time, year: int, month: int) -> int | None:
    """Return the length of a month, or `None` if the calendar is not known."""
    if t.calendar == "none":
        return days_in_month("all_leap", year, month)
    if t.calendar is not None:
        return days_in_month(t.calendar, year, month)
    lengths = t.variable.numbers("month_lengths")
    if lengths is None or lengths.size != 12 or lengths.dtype.kind not in "iu":
        return None
    leap = t.variable.numbers("leap_year")
    extra = 0
    if leap is not None and leap.size == 1 and leap.dtype.kind in "iu" and (year - int(leap[0])) % 4 == 0:
        which = t.variable.numbers("leap_month")
        extra = int(month == (int(which[0]) if which is not None and which.size == 1 else 2))
    return int(lengths[month - 1]) + extra


@rule("TIM013", each=times)
def times_have_a_calendar(_: Context, t: Time) -> Iterator[Hit]:
    """A time coordinate states its calendar."""
    if "calendar" not in t.variable.attributes and not explicit(t.variable):
        message = (
            "there is no calendar, so the standard calendar applies; say so with calendar = 'standard', or name another"
        )
        yield Hit(t.variable, "calendar", message)


@rule("TIM014")
def no_year_zero(c: Context) -> Iterator[Hit]:
    """Year 0 is not used in the standard and the julian calendar."""
    # Before CF-1.9, this applies only to references, and only in the standard calendar.
    old = c.version < Version(1, 9)
    for t in times(c):
        d = t.datetime
        if t.calendar not in (("standard",) if old else ("standard", "julian")):
            continue
        if d is None or not d.complete or _invalid(t, c.version):
            continue
        if int(d.year) == 0:
            message = (
                f"the reference datetime {t.text!r} is in year 0, a deprecated way to mark a climatology; use the "
                "attribute climatology"
            )
            yield Hit(t.variable, "units", message)
        elif c.options.data and not old:
            yield from _values_in_year_zero(c, t, d)


def _values_in_year_zero(c: Context, t: Time, d: Datetime) -> Iterator[Hit]:
    span = _span(c, t)
    if span is None or t.calendar is None:
        return
    starts = [seconds_between(t.calendar, d, (year, 1, 1)) for year in (0, 1)]
    if starts[0] <= span[0] < starts[1]:
        yield Hit(t.variable, None, f"there are times in year 0, which is deprecated in calendar {t.calendar}")


@rule("TIM015", each=_with_calendar)
def standard_instead_of_gregorian(c: Context, v: Variable, text: str) -> Iterator[Hit]:
    """The standard calendar is called standard."""
    if text.strip().lower() == "gregorian":
        message = f"calendar {text!r} is deprecated; write 'standard', which means the same"
        yield Hit(v, "calendar", message, fix=edits(c, v, "calendar", "standard"))


@rule("TIM016", each=times, needs="data")
def times_stay_on_one_side_of_1582(c: Context, t: Time) -> Iterator[Hit]:
    """In the standard calendar, reference and times (before CF-1.13, the times) are on one side of October 1582."""
    d = t.datetime
    if t.calendar != "standard" or d is None:
        return
    span = _span(c, t)
    if span is None:
        return
    change = seconds_between("standard", d, _NEW)
    # A last time exactly at the change is after it.
    before, after = span[0] < change, span[1] + 2 * _SLACK >= change
    if c.version < Version(1, 13):
        if before and after:
            message = (
                "the times are partly before and partly after October 1582, across the change of the calendar; use "
                "the calendar proleptic_gregorian"
            )
            yield Hit(t.variable, None, message)
        return
    old = d.date <= _OLD
    if (old and after) or (not old and before):
        message = (
            f"times {'after' if old else 'before'} October 1582 are counted from {t.text!r}, across the change of "
            "the calendar; use a reference on the same side, or the calendar proleptic_gregorian"
        )
        yield Hit(t.variable, None, message)


@rule("TIM017", each=times)
def reference_is_not_a_leap_second(c: Context, t: Time) -> Iterator[Hit]:
    """In the calendar utc the reference datetime is not within a leap second."""
    d = t.datetime
    if t.calendar == "utc" and d is not None and d.clock[2] >= 60 and not _invalid(t, c.version):
        yield Hit(t.variable, "units", f"the reference datetime {t.text!r} is within a leap second; use another")
