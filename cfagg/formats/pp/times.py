"""Times of fields: from dates, LBTIM and LBFT of the headers to time, forecast reference time and forecast period.

LBTIM is 100·IA + 10·IB + IC: the sampling interval in hours, the meaning of the two dates, and the calendar.
"""

from __future__ import annotations

from dataclasses import dataclass
from dataclasses import fields as dataclass_fields
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from cfagg.cf.calendars import canonical
from cfagg.cf.dates import to_days
from cfagg.cf.joining import codes
from cfagg.formats.pp.coordinates import Coordinate
from cfagg.formats.pp.fields import WORDS, Fields

__all__ = ["CALENDARS", "EPOCH", "NONE", "Times", "axis_times", "series_times", "time_codes", "times_of", "undated"]

Int64 = npt.NDArray[np.int64]

#: The calendar by IC, the last digit of LBTIM.
CALENDARS = {1: "standard", 2: "360_day", 4: "365_day"}

#: Units of times.
EPOCH = "hours since 1970-01-01 00:00:00"

#: Unknown.
NONE = np.iinfo(np.int64).min

#: Most hours of a forecast: about a hundred thousand years.
_LONGEST = 10**9

#: The last supported year: its times in microseconds, even with the longest forecasts, fit in 64-bit integers.
_LAST_YEAR = 150_000

#: The meaning of the two dates of a header: IB, the second digit of LBTIM.
INSTANT, FORECAST, PERIOD, CLIMATOLOGY = range(4)

#: The first of the five digits of LBCODE of a time series.
_SERIES = 3

_FIRST = ("LBYR", "LBMON", "LBDAT", "LBHR", "LBMIN", "LBDAY")
_SECOND = ("LBYRD", "LBMOND", "LBDATD", "LBHRD", "LBMIND", "LBDAYD")

#: All words that define times.
_WORDS_OF_TIME = [WORDS[name] for name in (*_FIRST, *_SECOND, "LBTIM", "LBFT", "LBREL")]

#: Limits of the cache of times: fields of a file, and files.
_FEW, _MOST = 64, 1 << 12


@dataclass(frozen=True, eq=False, slots=True)
class Times:
    """Times of all fields in seconds since 1970 in their own calendars, `NONE` if the header has none.

    A period or climatology has `start` and `end`, which are the bounds of `time`.
    """

    kind: Int64
    calendar: Int64
    time: Int64
    start: Int64
    end: Int64
    reference: Int64
    #: Month of fields for one month without a year.
    month: Int64
    #: Length of the period: negative, in months, for whole months, else in seconds; 0 if there is none.
    cell: Int64

    def take(self, index: Int64) -> Times:
        """Return the times of some of the fields."""
        return Times(*(getattr(self, f.name)[index] for f in dataclass_fields(self)))

    @property
    def period(self) -> Int64:
        """Seconds from the reference time to the time."""
        known = (self.time != NONE) & (self.reference != NONE)
        return np.where(known, self.time - np.where(known, self.reference, 0), NONE)


_known: dict[bytes, Times] = {}


def times_of(fields: Fields) -> Times:
    """Return the times of all fields; those of small files are cached, since many files share them."""
    if len(fields) > _FEW:
        return _times(fields)
    key = fields.integers[:, _WORDS_OF_TIME].tobytes()
    found = _known.get(key)
    if found is None:
        found = _times(fields)
        if len(_known) >= _MOST:
            _known.clear()
        _known[key] = found
    return found


def _times(fields: Fields) -> Times:
    # Where it was left unset, it is a negative number, whose digits mean nothing.
    lbtim = np.maximum(fields["LBTIM"], 0)
    kind, calendar = lbtim // 10 % 10, lbtim % 10
    first, second = (_seconds(fields, words, calendar) for words in (_FIRST, _SECOND))
    known = first != NONE
    spans = known & np.isin(kind, (PERIOD, CLIMATOLOGY)) & (second > first)
    forecast = known & (kind == FORECAST) & (second != NONE)
    start, end = np.where(spans, first, NONE), np.where(spans, second, NONE)
    middle = np.where(spans, first + (np.where(spans, second, 0) - np.where(spans, first, 0)) // 2, first)
    time = np.where(spans & (kind == CLIMATOLOGY), second, middle)
    # A mean cannot be complete at the start of the forecast, so LBFT was not set.
    has_lead = spans & (fields["LBFT"] > 0) & (fields["LBFT"] < _LONGEST)
    ahead = np.where(has_lead, fields["LBFT"], 0) * 3600
    reference = np.where(forecast, second, np.where(has_lead, np.where(has_lead, second, 0) - ahead, NONE))
    monthly = ~known & (kind == PERIOD) & (fields["LBYR"] == 0) & (fields["LBMON"] == fields["LBMOND"])
    month = np.where(monthly & (fields["LBMON"] >= 1) & (fields["LBMON"] <= 12), fields["LBMON"], NONE)
    return Times(kind, calendar, time, start, end, reference, month, _cells(fields, start, end))


def _seconds(fields: Fields, words: tuple[str, ...], calendar: Int64) -> Int64:
    """Return dates in seconds since 1970, `NONE` for invalid dates of the calendar."""
    year, month, day, hour, minute, last = (fields[w] for w in words)
    # From header release 3 on, the sixth word of a date is the second; before, it is the day of the year.
    second = np.where(fields["LBREL"] >= 3, last, 0)
    good = (hour >= 0) & (hour <= 24) & (minute >= 0) & (minute < 60) & (second >= 0) & (second < 60)
    good &= np.abs(year) <= _LAST_YEAR
    out = np.full(len(fields), NONE)
    for number, called in CALENDARS.items():
        name = canonical(called)
        own = np.flatnonzero(good & (calendar == number))
        if own.size:
            days, there = to_days(name, year[own], month[own], day[own])
            days = days - _epoch(name)
            clock = hour[own] * 3600 + minute[own] * 60 + second[own]
            out[own] = np.where(there & (year[own] != 0), days * 86400 + clock, NONE)
    return out


@cache
def _epoch(calendar: str) -> Int64:
    """Return the day from which seconds are counted."""
    return to_days(calendar, 1970, 1, 1)[0]


def _cells(fields: Fields, start: Int64, end: Int64) -> Int64:
    """Return the lengths of periods, which separate daily from monthly means."""
    months = (fields["LBYRD"] - fields["LBYR"]) * 12 + fields["LBMOND"] - fields["LBMON"]
    pairs = [fields[a] == fields[b] for a, b in zip(_FIRST[2:5], _SECOND[2:5], strict=True)]
    whole = np.logical_and.reduce(pairs) & (months > 0)
    spans = start != NONE
    return np.where(spans, np.where(whole, -months, np.where(spans, end, 0) - np.where(spans, start, 0)), 0)


def axis_times(times: Times, index: Int64) -> tuple[tuple[str, ...], list[Coordinate]]:
    """Return the dimensions and coordinates of times of one array."""
    # `index` has the indices of fields along the reference times and the times of its box; both or one may have size 1.
    if min(index.shape) > 1:
        return _of_two(times, index)
    flat = index.ravel()
    found = [c for c in _coordinates(times, flat) if c is not None]
    if flat.size == 1:
        return (), [c.along(()) for c in found]
    constant = [c for c in found if c.is_constant]
    varying = [c for c in found if not c.is_constant]
    head = next((c for c in varying if c.is_monotonic), None)
    name = "time" if head is None else head.name
    return (name,), [
        *(c.along((name,), dimension=c is head) for c in varying),
        *(c.first() for c in constant),
    ]


def _of_two(times: Times, index: Int64) -> tuple[tuple[str, ...], list[Coordinate]]:
    """Return dimensions and coordinates of several forecasts: with the same periods, or times, for each of them."""
    found = {c.name: c for c in _coordinates(times, index.ravel()) if c is not None}
    along = "forecast_period" if _equal_rows(times.period[index]) else "time"
    dims = ("forecast_reference_time", along)
    out = [found.pop(dims[0]).taken(index.shape, 0).along(dims[:1], dimension=True)]
    out.append(found.pop(along).taken(index.shape, 1).along(dims[1:], dimension=True))
    return dims, out + [c.along(dims).shaped(index.shape) for c in found.values()]


def _equal_rows(values: Int64) -> bool:
    return bool((values == values[:1]).all())


def _coordinates(times: Times, index: Int64) -> list[Coordinate | None]:
    """Return time, forecast period and reference time of fields, `None` for those not in their headers."""
    calendar = CALENDARS.get(int(times.calendar[index[0]]))
    attributes = {"standard_name": "time", "units": EPOCH, "calendar": calendar}
    time, start, end = (getattr(times, name)[index] for name in ("time", "start", "end"))
    reference = times.reference[index]
    month = times.month[index]
    if (month != NONE).all():
        of = {"long_name": "month_number", "units": "1"}
        return [Coordinate("month_number", month.astype(np.int32), of)]
    if (time == NONE).any():
        return []
    spans = (start != NONE).all()
    climatology = bool(spans and (times.kind[index] == CLIMATOLOGY).all())
    bounds = _hours(start, end) if spans else None
    found: list[Coordinate | None] = [
        Coordinate("time", time / 3600, {**attributes, "axis": "T"}, bounds, climatology=climatology)
    ]
    if (reference == NONE).any():
        return found
    period = {"standard_name": "forecast_period", "units": "hours"}
    found.append(
        Coordinate(
            "forecast_period",
            (time - reference) / 3600,
            period,
            _hours(start - reference, end - reference) if spans else None,
        )
    )
    of_reference = {**attributes, "standard_name": "forecast_reference_time"}
    found.append(Coordinate("forecast_reference_time", reference / 3600, of_reference))
    return found


def _hours(start: Int64, end: Int64) -> npt.NDArray[Any]:
    return np.stack([start, end], axis=-1) / 3600


def time_codes(fields: Fields, times: Times) -> Int64:
    """Return a code for all time information of headers, in the order of times; invalid dates are kept apart."""
    return codes(times.time, times.month, times.end, times.start, times.reference, *undated(fields, times))


def undated(fields: Fields, times: Times) -> list[Int64]:
    """Return the words of invalid dates, 0 for others."""
    return [np.where(times.time == NONE, fields[w], 0) for w in (*_FIRST[:5], *_SECOND[:5])]


def series_times(fields: Fields, times: Times, i: int, size: int) -> Coordinate | None:
    """Return the times of rows of a time series, which divide the time of field `i` evenly, without its end."""
    start, end = int(times.start[i]), int(times.end[i])
    if start == NONE or int(fields["LBCODE"][i]) // 10_000 != _SERIES:
        return None
    values = (start + np.arange(size) * (end - start) / size) / 3600
    of = {"standard_name": "time", "units": EPOCH, "calendar": CALENDARS[int(times.calendar[i])], "axis": "T"}
    return Coordinate("time", values, of)
