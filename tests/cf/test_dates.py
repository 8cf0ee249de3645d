"""Days and dates of all calendars, without the compiled kernel, against Python's own calendar and cftime."""

from __future__ import annotations

import datetime as dt

import cftime
import numpy as np
import pytest

from cfagg.cf import dates
from cfagg.cf.dates import CALENDARS, from_days, to_days
from cfagg.errors import CalendarError


@pytest.fixture(autouse=True)
def _plain(monkeypatch):
    monkeypatch.setattr(dates, "compiled", lambda size: False)


#: The year around each of these is looked at day by day: ends of years of all kinds.
YEARS = [4, 99, 100, 101, 199, 200, 299, 300, 399, 400, 401, 799, 800, 1200, 1599, 1600, 1999, 2000, 2001, 2100, 2400]


def test_dates_of_the_proleptic_gregorian_calendar_are_those_of_python():
    start = dt.date(1, 3, 1).toordinal() - 365  # 1 March of year 0
    ordinals = np.unique([dt.date(y, 3, 1).toordinal() + k for y in YEARS for k in range(-70, 320)])
    expected = [dt.date.fromordinal(int(n)) for n in ordinals]
    found = np.stack(from_days("proleptic_gregorian", ordinals - start), axis=1)
    assert found.tolist() == [[d.year, d.month, d.day] for d in expected]
    days, there = to_days("proleptic_gregorian", *found.T)
    assert there.all()
    assert (days == ordinals - start).all()


@pytest.mark.parametrize("calendar", CALENDARS)
def test_dates_are_those_of_cftime(calendar):
    first = cftime.datetime(1582, 10, 1, calendar=calendar)
    base = int(to_days(calendar, 1582, 10, 1)[0])
    wanted = np.unique([365 * (y - 1582) + k for y in (1000, 1300, 1599, 2000, 2100) for k in range(0, 400, 30)])
    wanted = np.concatenate([wanted, np.arange(-2, 18)])
    expected = [first + dt.timedelta(days=int(k)) for k in wanted]
    # Between the last Julian and the first Gregorian day none is left out.
    found = np.stack(from_days(calendar, base + wanted), axis=1)
    assert found.tolist() == [[d.year, d.month, d.day] for d in expected]


@pytest.mark.parametrize("calendar", CALENDARS)
def test_every_date_that_a_calendar_has_comes_back_and_no_other(calendar):
    year, month, day = np.meshgrid([-5, 0, 1, 1500, 1582, 1900, 1999, 2000], range(-1, 15), range(-1, 34))
    days, there = to_days(calendar, year, month, day)
    again = from_days(calendar, days)
    same = (again[0] == year) & (again[1] == month) & (again[2] == day)
    np.testing.assert_array_equal(there, same)
    lengths = {"noleap": 365, "all_leap": 366, "360_day": 360}
    for y, leap in ((1582, 0), (1900, 0), (1999, 0), (2000, 1)):
        expected = lengths.get(calendar, 365 + (leap or (calendar == "julian" and y == 1900)))
        expected -= 10 * (calendar == "standard" and y == 1582)
        assert int(there[year == y].sum()) == expected


@pytest.mark.parametrize("calendar", CALENDARS)
def test_many_days_are_compiled_with_the_same_dates(calendar, monkeypatch):
    days = np.arange(-800, 800).reshape(2, -1)
    expected = from_days(calendar, days)
    monkeypatch.setattr(dates, "compiled", lambda size: True)
    for found, wanted in zip(from_days(calendar, days), expected, strict=True):
        np.testing.assert_array_equal(found, wanted)


def test_other_names_of_calendars_are_refused_rather_than_taken_for_the_gregorian():
    with pytest.raises(CalendarError, match="'365_day' is not the canonical name of a calendar"):
        to_days("365_day", 2001, 1, 1)
    with pytest.raises(CalendarError, match="'gregorian' is not the canonical name"):
        from_days("gregorian", [0])
