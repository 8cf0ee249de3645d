"""Calendars that a dataset defines by the lengths of the months: CF section 4.4.6 (4.4.1 before CF-1.12)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from cfagg.cf.datetimes import CALENDAR_NAMES
from cfagg.checking.context import Context
from cfagg.checking.rules.calendars import only_on_times
from cfagg.checking.times import EXPLICIT, explicit, time_like
from cfagg.findings.finding import Hit
from cfagg.findings.rule import rule
from cfagg.model.dataset import Variable


@rule("TIM018")
def months_only_on_times(c: Context) -> Iterator[Hit]:
    """Only time coordinates have month_lengths, leap_year or leap_month."""
    yield from only_on_times(c, EXPLICIT)


def _times_with(*names: str) -> Callable[[Context], list[Variable]]:
    return lambda c: [v for v in c.with_attribute(*names) if v in time_like(c)]


@rule("TIM019", each=_times_with("calendar", "leap_year", "leap_month"))
def other_calendars_have_month_lengths(_: Context, v: Variable) -> Iterator[Hit]:
    """A calendar that CF does not list, or that defines its own leap years, is defined by month_lengths."""
    if explicit(v):
        return
    calendar = v.text("calendar")
    if calendar is not None and calendar.strip().lower() not in CALENDAR_NAMES:
        message = (
            f"calendar {calendar!r} is not one of CF's and there is no month_lengths; give the lengths of its "
            "twelve months"
        )
        yield Hit(v, "calendar", message)
    elif calendar is None and "calendar" not in v.attributes:
        name = "leap_year" if "leap_year" in v.attributes else "leap_month"
        yield Hit(v, name, f"{name} is given without month_lengths; give the lengths of the twelve months")


@rule("TIM020", each=_times_with("month_lengths"))
def month_lengths_are_twelve_integers(_: Context, v: Variable) -> Iterator[Hit]:
    """month_lengths is an array of twelve integers."""
    lengths = v.numbers("month_lengths")
    if lengths is None or lengths.dtype.kind not in "iu":
        found = "not numeric" if lengths is None else f"of type {lengths.dtype.name}"
        yield Hit(v, "month_lengths", f"month_lengths is {found}; expected twelve integers")
    elif lengths.size != 12:
        yield Hit(v, "month_lengths", f"month_lengths has {lengths.size} values; expected twelve, for each month")


def _integer(value: object) -> npt.NDArray[Any] | None:
    """Return an attribute that is one integer."""
    if isinstance(value, np.ndarray) and value.size == 1 and value.dtype.kind in "iu":
        return value.ravel()
    return None


@rule("TIM021", each=_times_with("leap_month"))
def leap_month_is_a_month(_: Context, v: Variable) -> Iterator[Hit]:
    """leap_month is from 1 to 12."""
    month = v.numbers("leap_month")
    if month is not None and month.size and month.dtype.kind in "iuf" and not np.all((month >= 1) & (month <= 12)):
        yield Hit(v, "leap_month", f"leap_month is {month.ravel()[0]}; expected a month from 1 to 12")


@rule("TIM022", each=_times_with("leap_year", "leap_month"))
def leap_year_and_month_are_integers(_: Context, v: Variable) -> Iterator[Hit]:
    """leap_year and leap_month are single integers."""
    for name in ("leap_year", "leap_month"):
        if name in v.attributes and _integer(v.attributes[name]) is None:
            yield Hit(v, name, f"{name} is {_shown(v.attributes[name])}; expected one integer")


def _shown(value: object) -> str:
    if isinstance(value, np.ndarray):
        many = "" if value.size == 1 else f"{value.size} values "
        return f"{many}of type {value.dtype.name}"
    return f"{value!r:.60}"


@rule("TIM023", each=_times_with("leap_month"))
def leap_month_goes_with_leap_year(_: Context, v: Variable) -> Iterator[Hit]:
    """leap_month is given only together with leap_year."""
    if "leap_year" not in v.attributes:
        yield Hit(v, "leap_month", "leap_month has no meaning without leap_year; add leap_year or delete it")
