"""Leap seconds in units_metadata, as CF-1.12 has them in its section 4.4.3 and no other version.

That the attribute has one of the listed values is a rule of section 3.1, and that there are no seconds of 60 and more
in the reference datetime is one of calendars.
"""

from __future__ import annotations

from collections.abc import Iterator

from cfagg.checking.context import Context
from cfagg.checking.times import times
from cfagg.findings.finding import Edit, Hit
from cfagg.findings.rule import rule
from cfagg.findings.versions import Version

#: The only version with this section.
_ONLY = Version(1, 12)

#: Calendars in which leap seconds may or may not have been counted.
_DOUBTFUL = ("standard", "proleptic_gregorian", "julian")


@rule("LPS001", until=_ONLY)
def other_calendars_tell_nothing_of_leap_seconds(c: Context) -> Iterator[Hit]:
    """A time coordinate has units_metadata only in a calendar in which leap seconds are in doubt."""
    for t in c.once(times):
        v = t.variable
        if "units_metadata" in v.attributes and t.calendar not in _DOUBTFUL:
            yield Hit(
                v,
                "units_metadata",
                f"units_metadata is on a time in calendar {v.text('calendar')!r}, where there is no doubt about leap "
                "seconds; delete it",
                fix=(Edit(v.path, "units_metadata", safe=False),),
            )


@rule("LPS002", until=_ONLY)
def times_tell_of_leap_seconds(c: Context) -> Iterator[Hit]:
    """A time coordinate in a calendar of the real world says how leap seconds were treated."""
    for t in c.once(times):
        if "units_metadata" not in t.variable.attributes and t.calendar in _DOUBTFUL:
            yield Hit(
                t.variable,
                "units_metadata",
                f"nothing says whether leap seconds are counted in calendar {t.calendar}; add units_metadata, "
                "leap_seconds: none, utc or unknown",
            )
