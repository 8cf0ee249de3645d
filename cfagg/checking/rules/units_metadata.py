"""Differences of temperature and leap seconds in ``units_metadata``: CF sections 3.1.2 and 4.4."""

from __future__ import annotations

from collections.abc import Iterator

from cfagg.cf.differences import DIFFERENCE, DIFFERENT
from cfagg.cf.kinds_of_units import is_reference_time, is_temperature, known
from cfagg.checking.canonical import is_cell, methods_of
from cfagg.checking.context import Context
from cfagg.checking.times import Time, times
from cfagg.findings.finding import Edit, Hit
from cfagg.findings.rule import rule
from cfagg.findings.versions import Version
from cfagg.model.dataset import Variable

_TEMPERATURES = ("temperature: on_scale", "temperature: difference", "temperature: unknown")
_LEAP_SECONDS = ("leap_seconds: none", "leap_seconds: utc", "leap_seconds: unknown")


@rule("UNI004")
def units_metadata_is_listed(c: Context) -> Iterator[Hit]:
    """``units_metadata`` has one of the listed values for its units."""
    allowed = _TEMPERATURES + _LEAP_SECONDS if c.version >= Version(1, 12) else _TEMPERATURES
    for v in c.with_attribute("units_metadata"):
        value = v.attributes["units_metadata"]
        text = value.strip() if isinstance(value, str) else None
        units = v.text("units") or "1"
        if text in allowed:
            if is_temperature(units) and text not in _TEMPERATURES:
                yield Hit(v, "units_metadata", f"{text!r} is for times, but units {units!r} are of a temperature")
            elif is_reference_time(units) and text not in _LEAP_SECONDS and c.version >= Version(1, 12):
                yield Hit(v, "units_metadata", f"{text!r} is for temperatures, but units {units!r} are of a time")
            continue
        if isinstance(value, tuple) and c.version >= Version(1, 12):
            continue  # several strings in one attribute are a separate error
        plain = ": ".join(w.strip() for w in (text or "").lower().split(":"))
        fix = (Edit(v.path, "units_metadata", plain),) if plain in allowed else ()
        shown = repr(text)[:80] if text is not None else "not text"
        yield Hit(v, "units_metadata", f"units_metadata is {shown}; expected one of {', '.join(allowed)}", fix=fix)


@rule("UNI006", each="units_metadata")
def errors_of_temperatures_are_differences(_: Context, v: Variable) -> Iterator[Hit]:
    """``units_metadata`` marks a standard error of a temperature as a difference."""
    if "standard_error" in v.words("standard_name")[1:] and _claims_another(v):
        yield _hit(v, "the standard_name modifier standard_error makes it a difference")


@rule("UNI007", each="units_metadata")
def spreads_of_temperatures_are_differences(_: Context, v: Variable) -> Iterator[Hit]:
    """``units_metadata`` marks a range, deviation or variance of a temperature as a difference."""
    found = [m for m in methods_of(v) if m in DIFFERENT]
    if found and _claims_another(v):
        yield _hit(v, f"the method {found[0]} in cell_methods makes it a difference")


def _claims_another(v: Variable) -> bool:
    text = (v.text("units_metadata") or "").strip()
    return text in _TEMPERATURES and text != DIFFERENCE and is_temperature(v.text("units") or "1")


def _hit(v: Variable, why: str) -> Hit:
    fix = (Edit(v.path, "units_metadata", DIFFERENCE, safe=False),)
    return Hit(
        v, "units_metadata", f"units_metadata is {v.text('units_metadata')!r}, but {why}: {DIFFERENCE!r}", fix=fix
    )


@rule("UNI008")
def units_metadata_is_for_temperatures_and_times(c: Context) -> Iterator[Hit]:
    """``units_metadata`` is only used with units of a temperature or a reference time."""
    times = c.version >= Version(1, 12)
    what = "a temperature or times since an instant" if times else "a temperature"
    for v in c.with_attribute("units_metadata"):
        fix = (Edit(v.path, "units_metadata", None, safe=False),)
        if "units" not in v.attributes:
            yield Hit(v, "units_metadata", f"units_metadata without units; it is for units of {what}", fix=fix)
            continue
        units = v.text("units")
        if units is None or is_temperature(units) or (is_reference_time(units) and times) or not known(units):
            continue
        yield Hit(v, "units_metadata", f"units_metadata with units {units!r}; it is for units of {what}", fix=fix)


@rule("UNI010", each="units")
def temperatures_have_units_metadata(c: Context, v: Variable) -> Iterator[Hit]:
    """Units of temperature are accompanied by ``units_metadata``."""
    units = v.text("units") or "1"
    if "units_metadata" not in v.attributes and is_temperature(units) and not is_cell(c, v):
        message = f"units {units!r} without units_metadata; say whether it is on_scale, a difference or unknown"
        yield Hit(v, "units_metadata", message)


#: The only version with leap seconds in units_metadata, in its section 4.4.3.
_ONLY = Version(1, 12)


#: Calendars in which leap seconds may or may not have been counted.
_DOUBTFUL = ("standard", "proleptic_gregorian", "julian")


@rule("LPS001", each=times, until=_ONLY)
def other_calendars_tell_nothing_of_leap_seconds(_: Context, t: Time) -> Iterator[Hit]:
    """A time coordinate has units_metadata only in a calendar in which the use of leap seconds is uncertain."""
    v = t.variable
    if "units_metadata" in v.attributes and t.calendar not in _DOUBTFUL:
        message = (
            f"units_metadata is on a time in calendar {v.text('calendar')!r}, where there is no doubt about leap "
            "seconds; delete it"
        )
        yield Hit(v, "units_metadata", message, fix=(Edit(v.path, "units_metadata", safe=False),))


@rule("LPS002", each=times, until=_ONLY)
def times_tell_of_leap_seconds(_: Context, t: Time) -> Iterator[Hit]:
    """A time coordinate in a calendar of the real world states how leap seconds were treated."""
    if "units_metadata" not in t.variable.attributes and t.calendar in _DOUBTFUL:
        message = (
            f"nothing says whether leap seconds are counted in calendar {t.calendar}; add units_metadata, "
            "leap_seconds: none, utc or unknown"
        )
        yield Hit(t.variable, "units_metadata", message)
