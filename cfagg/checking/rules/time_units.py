"""Units of time coordinates: CF section 4.4.2 (4.4 before CF-1.9)."""

from __future__ import annotations

import re
from collections.abc import Iterator

from cfagg.cf.datetimes import Datetime
from cfagg.cf.kinds_of_units import is_time, split_reference
from cfagg.checking.context import Context
from cfagg.checking.times import TIME_NAMES, Time, edits, time_like, times, unit_words
from cfagg.findings.finding import Hit, Severity
from cfagg.findings.rule import rule
from cfagg.findings.versions import DRAFT, Version
from cfagg.model.dataset import Variable

#: A zone in the form of CF: Z, or a sign, the hour, and optionally a colon and the minute.
_ZONE = re.compile(r"Z|[-+]\d{1,2}(:\d{2})?")

_FORM = "year-month-day, or year-month-day hour:minute:second with an optional zone"


@rule("TIM001")
def units_contain_a_reference_datetime(c: Context) -> Iterator[Hit]:
    """The units of a time coordinate contain a reference datetime."""
    like = time_like(c)
    coordinates = c.roles.coordinates
    for v in c.dataset.variables:
        units = v.text("units")
        if units is None or v.is_text:
            continue
        if v in like:
            yield from _without_reference(c, v, units)
        elif v.name.lower() == "time" and "standard_name" not in v.attributes and v in coordinates and is_time(units):
            message = (
                f"{units!r} contains no reference datetime; if these are time coordinates, 'since' and a datetime must "
                "follow the unit, if they are durations, say so by a standard_name"
            )
            yield Hit(v, "units", message, "warning")


def _without_reference(c: Context, v: Variable, units: str) -> Iterator[Hit]:
    """Yield the errors in units of a time coordinate without a reference."""
    parts = split_reference(units)
    if parts is None:
        # The rules on units and standard names report units that are not units of time.
        if is_time(units):
            name = (v.text("standard_name") or "").strip()
            doubt: Severity | None = "warning" if name and name not in TIME_NAMES else None
            other = f" (or is axis T wrong for a {name}?)" if doubt else ""
            message = (
                f"{units!r} contains no reference datetime; expected e.g. '{units.strip()} since 2000-01-01'" + other
            )
            yield Hit(v, "units", message, doubt)
        return
    _, word, text = parts
    # Before CF-1.13, the rules on units report text that UDUNITS does not read.
    if not text or (c.version >= Version(1, 13) and _no_datetime(text)):
        yield Hit(v, "units", f"{units!r} contains no datetime after {word!r}; expected e.g. 2000-01-01")


def _no_datetime(text: str) -> bool:
    return text[:1].isalpha() or not any(ch.isdigit() for ch in text)


@rule("TIM002", each=times)
def zone_is_zero_in_utc_and_tai(_: Context, t: Time) -> Iterator[Hit]:
    """In the calendars utc and tai the reference datetime has no zone but zero."""
    if t.calendar in ("utc", "tai") and t.datetime is not None and t.datetime.offset:
        message = (
            f"the reference datetime {t.text!r} has the zone {t.datetime.zone}; in calendar {t.calendar} it must "
            "be given without an offset"
        )
        yield Hit(t.variable, "units", message)


@rule("TIM003", each=times)
def reference_datetime_has_the_right_form(c: Context, t: Time) -> Iterator[Hit]:
    """The reference datetime has the form of CF: a date, optionally a time, and a zone only after a time."""
    if _no_datetime(t.text):
        return  # TIM001
    for message, severity in _form(t, c.version):
        yield Hit(t.variable, "units", message, severity)


def _form(t: Time, version: Version) -> Iterator[tuple[str, Severity | None]]:
    """Yield problems in the form of a reference datetime, up to the first error."""
    d = t.datetime
    if d is None or d.rest or d.day is None:
        lacks = "lacks month or day" if d is not None and not d.rest else "is not of that form"
        yield f"the reference datetime {t.text!r} {lacks}; expected {_FORM}", None
        return
    if d.packed:
        yield f"the date of {t.text!r} has no hyphens; expected year-month-day", None
        return
    if d.hour is not None and d.minute is None:
        yield f"the time of day of {t.text!r} is an hour alone; expected hour:minute:second", None
        return
    if d.zone is not None:
        wrong = _zone(d)
        if wrong:
            yield f"{wrong} in the reference datetime {t.text!r}", None
            return
    if d.separator.strip() and version < DRAFT:
        yield (
            f"date and time of {t.text!r} are separated by T; CF writes a blank, UDUNITS reads both: write a blank",
            "warning",
        )
    if d.minute is not None and d.second is None:
        reading = "CF's format has them, though its own examples leave them out: write hour:minute:second"
        yield f"the time of day of {t.text!r} has no seconds; {reading}", "info"


def _zone(d: Datetime) -> str:
    """Return the error in the zone, or an empty string."""
    zone = d.zone or ""
    if zone[0].isalpha() and zone != "Z":
        return f"the zone {zone!r} is a name; expected Z or an offset such as +5:30"
    if d.hour is None:
        return f"the zone {zone!r} follows a date without a time; expected the time before it"
    if not _ZONE.fullmatch(zone):
        return f"the zone {zone!r} is not of the form +h, +hh, +h:mm or +hh:mm, with a sign,"
    if d.offset is None:
        return f"there is no zone {zone!r}, hours being at most 23 and minutes at most 59,"
    if zone in ("-0", "-00"):
        return f"the zone {zone!r} is zero with a negative sign; expected Z or +0"
    return ""


@rule("TIM004", each=times)
def no_years_and_months(_: Context, t: Time) -> Iterator[Hit]:
    """Units of time coordinates are neither years nor months."""
    found = {base for _, base in unit_words(t.unit)} & {"year", "yr", "tropical_year", "month"}
    if found:
        length = "30.44 days" if "month" in found else "365.2422 days"
        message = (
            f"the unit {t.unit!r} is a fixed length of about {length} to UDUNITS, not one of the calendar; "
            "write the times in days"
        )
        yield Hit(t.variable, "units", message)


@rule("TIM005", each=times)
def seconds_in_utc(_: Context, t: Time) -> Iterator[Hit]:
    """In the calendar utc the unit is the second."""
    if t.calendar != "utc":
        return
    found = {base for _, base in unit_words(t.unit)} - {"s", "sec", "second", "seconds"}
    if found:
        yield Hit(t.variable, "units", f"the unit is {t.unit!r}; in calendar utc times should be in seconds")


@rule("TIM006", each=times)
def prefixes_only_with_seconds(_: Context, t: Time) -> Iterator[Hit]:
    """Decimal prefixes are not used with units of time other than the second."""
    found = {p + base for p, base in unit_words(t.unit) if p and base not in ("s", "sec", "second", "seconds")}
    if found:
        named = f"{', '.join(map(repr, sorted(found)))} in {t.unit!r}"
        told = f"a decimal prefix is used with a unit other than second: {named}; use the plain unit"
        yield Hit(t.variable, "units", told)


@rule("TIM007", each=times)
def the_word_is_since(c: Context, t: Time) -> Iterator[Hit]:
    """The reference datetime follows the word since, not one of its synonyms in UDUNITS."""
    if t.word.lower() != "since":
        new = f"{t.unit} since {t.text}"
        message = f"{t.word!r} precedes the reference datetime; expected 'since'"
        yield Hit(t.variable, "units", message, fix=edits(c, t.variable, "units", new))


@rule("TIM008", each=times)
def no_zone_but_zero(_: Context, t: Time) -> Iterator[Hit]:
    """The reference datetime has no time zone offset other than zero."""
    d = t.datetime
    if d is None or t.calendar in ("utc", "tai") or d.hour is None or not d.offset:
        return
    message = f"the reference datetime {t.text!r} has the zone {d.zone}; give the datetime in Universal Time instead"
    yield Hit(t.variable, "units", message)


@rule("TIM024", each=times)
def leading_zeroes(_: Context, t: Time) -> Iterator[Hit]:
    """The year of the reference datetime has at least four digits, the other parts have two."""
    d = t.datetime
    if d is None or not d.complete or d.packed:
        return
    parts = [d.month, d.day, d.hour, d.minute, (d.second or "").partition(".")[0] or None]
    parts += (d.zone or "").lstrip("+-Zz").split(":") if d.zone and not d.zone[0].isalpha() else []
    if len(d.year.lstrip("+-")) < 4 or any(p is not None and len(p) < 2 for p in parts):
        message = f"the reference datetime {t.text!r} lacks leading zeroes; expected a form such as 2000-01-01 00:00:00"
        yield Hit(t.variable, "units", message)
