"""Reference times: parsing, epochs and units, and the change of calendar, with cftime as the oracle."""

import re
from fractions import Fraction

import cftime
import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from cfagg.cf import calendars
from cfagg.cf.calendars import DateChange
from cfagg.errors import CalendarError
from tests import strategies
from tests.checking.rules.asking import codes

UNITS = ["days", "hours", "minutes", "seconds", "milliseconds"]


@st.composite
def epochs(draw):
    year = draw(st.integers(1, 3000))
    month, day = draw(st.integers(1, 12)), draw(st.integers(1, 28))
    clock = draw(st.sampled_from(["", " 12:00", " 06:30:15", "T00:00:01", " 18:00:00.5"]))
    return f"{year:04d}-{month:02d}-{day:02d}{clock}"


@given(st.sampled_from(strategies.CALENDARS), st.sampled_from(UNITS), st.sampled_from(UNITS), epochs(), epochs())
def test_epochs_and_units_differ_as_cftime_counts(calendar, unit, other, epoch, shifted):
    assume(not any(e.startswith("1582-10") for e in (epoch, shifted)))
    source, target = f"{unit} since {epoch}", f"{other} since {shifted}"
    scale, offset = calendars.time_transform(source, calendar, target, calendar)
    for value in (0, 864):
        expected = cftime.date2num(cftime.num2date(value, source, calendar=calendar), target, calendar=calendar)
        assert float(scale * value + offset) == pytest.approx(expected, abs=1e-9, rel=1e-13)


@given(
    st.sampled_from(strategies.CALENDARS),
    st.sampled_from(strategies.CALENDARS),
    st.sampled_from(UNITS),
    st.sampled_from(UNITS),
    epochs(),
    epochs(),
    st.lists(st.floats(-1e5, 1e5), min_size=1, max_size=5),
)
def test_a_change_of_calendar_keeps_the_date_and_the_time_of_day(calendar, other, unit, unit2, epoch, epoch2, days):
    assume(calendar != other)
    source, target = f"{unit} since {epoch}", f"{unit2} since {epoch2}"
    try:
        change = calendars.time_transform(source, calendar, target, other)
    except CalendarError:
        assume(False)  # an epoch in October 1582
    # Whole milliseconds: cftime holds microseconds.
    values = np.round(np.array(days) * 86400e3) / (1000 * float(change.source_unit))
    dates = [cftime.num2date(v, source, calendar=calendar, only_use_cftime_datetimes=True) for v in values]
    assume(all(d.year > 0 for d in dates))
    expected = []
    for d in dates:
        try:
            same = cftime.datetime(*d.timetuple()[:6], d.microsecond, calendar=other)
        except ValueError:
            with pytest.raises(CalendarError, match=f"{d.year:04d}-{d.month:02d}-{d.day:02d} of calendar"):
                change(values, where="a.nc")
            return
        expected.append(cftime.date2num(same, target, calendar=other))
    found = change(values, where="a.nc")
    np.testing.assert_allclose(
        found * float(change.target_unit), np.array(expected, float) * float(change.target_unit), atol=2e-3
    )


def change(source, target, unit="days"):
    return calendars.time_transform(f"{unit} since 2000-01-01", source, f"{unit} since 2000-01-01", target)


def test_whole_days_stay_whole_and_fractions_are_kept_bit_by_bit():
    values = np.array([0.0, 1.0, 30 + 1 / 3, 365.0])
    np.testing.assert_array_equal(change("noleap", "standard")(values, where=""), [0, 1, 30 + 1 / 3, 366])


def test_round_off_just_before_midnight_does_not_lead_to_a_missing_day():
    found = change("standard", "noleap")(np.array([60 - 1e-12]), where="")  # 1 March 2000
    assert found[0] == pytest.approx(59, abs=1e-11)


def test_round_off_of_large_numbers_does_not_either():
    midnight = 35124.0  # 1 March 2096, where doubles are further apart than a microsecond is long
    found = change("standard", "noleap")(np.array([midnight - 3 * np.spacing(midnight)]), where="")
    assert found[0] == pytest.approx(35099, abs=1e-10)


def test_a_full_day_before_midnight_does():
    with pytest.raises(CalendarError, match=r"2000-02-29 of calendar standard .*noleap"):
        change("standard", "noleap")(np.array([59.9]), where="")


def test_many_dates_go_through_the_compiled_kernel_alike():
    values = np.arange(300_000) / 8.0
    few = change("360_day", "proleptic_gregorian", "hours")
    keep = np.ones(len(values), bool)
    days = (values // 24).astype(int)
    keep[(days % 360 == 59) | ((days % 360 == 58) & (days // 360 % 4 != 0))] = False
    many = values[keep]
    found = few(many, where="")
    np.testing.assert_array_equal(found[::1000], [few(many[i : i + 1], where="")[0] for i in range(0, len(many), 1000)])


def test_nan_stays_nan_and_infinity_is_no_date():
    np.testing.assert_array_equal(change("noleap", "360_day")(np.array([np.nan]), where=""), [np.nan])
    with pytest.raises(CalendarError, match="the time inf is not a date"):
        change("noleap", "360_day")(np.array([np.inf]), where="a.nc")


@pytest.mark.parametrize(("unit", "far"), [("days", 2.0**48), ("hours", 24 * 2.0**48), ("seconds", 2.0**62)])
def test_times_are_dates_up_to_a_limit_and_the_first_beyond_it_is_named(unit, far):
    convert = change("noleap", "all_leap", unit)
    assert np.isfinite(convert(np.array([0, -np.nextafter(far, 0)]), where="")).all()
    with pytest.raises(CalendarError, match=re.escape(f"a.nc: the time {far} is not a date")):
        convert(np.array([0, np.nextafter(far, 0), far, 2 * far]), where="a.nc")


@pytest.mark.parametrize(
    "text",
    ["2000-3-1 6", "2000-03-01 06:00", "2000-03-01T06:00:00Z", "2000-03-01 6:0:0. UTC", "2000-03-01 07:30:00 +1:30",
     "2000-03-01 01:00:00 -5", "2000-03-01 07:30:00+0130", "20000301T06", "2000-03-01 06:00:00.000 GMT"],
)  # fmt: skip
def test_epochs_may_be_written_as_udunits_allows(text):
    ref = calendars.parse(f"hours since {text}", None)
    assert (ref.day, ref.second) == (730485, 6 * 3600)


@pytest.mark.parametrize("text", ["2000", "2000-01", "2000-1-1", "20000101"])
def test_month_and_day_of_an_epoch_may_be_left_out(text):
    assert calendars.parse(f"days since {text}", None) == calendars.parse("days since 2000-01-01 00:00:00", None)


@pytest.mark.parametrize(
    ("units", "calendar", "named"),
    [
        ("days since 2000-02-30", "noleap", "2000-02-30"),
        ("days since 1582-10-10", "standard", "1582-10-10"),
        ("days since 0000-01-01", "standard", "0000-01-01"),
        ("days since 2000-13-01", "360_day", "2000-13-01"),
        ("days since 2000-01-01 24:00", None, "24:00"),
        ("days since yesterday", None, "yesterday"),
        ("days since 2000-01-01 12:00 UTC or so", None, "UTC or so"),
        ("days since 2000-01-01", "discworld", "discworld.*360_day"),
        ("days since 99999999999999999999-01-01", None, "cannot be parsed"),
    ],
)
def test_impossible_reference_times_are_refused_by_name(units, calendar, named):
    with pytest.raises(CalendarError, match=named):
        calendars.parse(units, calendar)


@pytest.mark.parametrize("calendar", ["proleptic_gregorian", "noleap", "all_leap", "360_day"])
def test_calendars_with_a_year_zero_have_an_epoch_in_it(calendar):
    shift = calendars.time_transform("days since 0000-01-01", calendar, "days since 0001-01-01", calendar)[1]
    assert -shift == {"proleptic_gregorian": 366, "noleap": 365, "all_leap": 366, "360_day": 360}[calendar]


@pytest.mark.parametrize("unit", ["months", "years", "month", "2 months", "kyr", "10year", "Years"])
def test_months_and_years_are_refused_unless_nothing_is_to_be_done(unit):
    text = f"{unit} since 2000-01-01"
    assert calendars.time_transform(text, None, f"{unit} since 2000-1-1 00:00", None) == (1, 0)
    with pytest.raises(CalendarError, match="no fixed length"):
        calendars.time_transform(text, None, f"{unit} since 2001-01-01", None)


@pytest.mark.parametrize(
    "unit",
    [
        ("weeks", 7),
        ("common_years", 365),
        ("fortnights", 14),
        ("2 days", 2),
        ("ns", Fraction(1, 86400 * 10**9)),
        ("Ms", Fraction(10**6, 86400)),
        ("ms", Fraction(1, 86400 * 1000)),
        ("MSEC", Fraction(10**6, 86400)),
        ("Hours", Fraction(1, 24)),
        ("MINS", Fraction(1, 1440)),
        ("tropical_years", 365.242198781),
    ],
)
def test_other_units_of_time_are_known(unit):
    scale, _ = calendars.time_transform(f"{unit[0]} since 2000-01-01", None, "days since 2000-01-01", None)
    assert scale == pytest.approx(unit[1])


@pytest.mark.parametrize(
    ("date", "calendar", "text"),
    [
        ("2000-1-1 6:0", "utc", "2000-01-01 06:00:00"),
        ("2000-1-1 6:0:10", "utc", "2000-01-01 06:00:10"),
        ("2000-1-1 23:59:05.00000000000025", "none", "2000-01-01 23:59:05.00000000000025"),
        ("2016-12-31 23:59:60.5", "utc", "2016-12-31 23:59:60.5"),
        ("-5-1-1", "none", "-0005-01-01"),
    ],
)
def test_an_epoch_that_no_other_is_compared_with_is_told_as_a_date_and_a_time_of_day(date, calendar, text):
    assert calendars.parse(f"s since {date}", calendar).alone == f"since {text}"


def test_units_that_are_no_time_are_refused():
    with pytest.raises(CalendarError, match="'K since 2000-01-01' are not a reference time"):
        calendars.parse("K since 2000-01-01", None)


def test_calendars_with_leap_seconds_convert_only_at_the_same_reference_time():
    args = ("hours since 2000-01-01", "utc", "days since 2000-01-01", "utc")
    assert calendars.time_transform(*args) == (Fraction(1, 24), 0)
    with pytest.raises(CalendarError, match="leap seconds"):
        calendars.time_transform("days since 2000-01-01", "utc", "days since 2001-01-01", "utc")
    with pytest.raises(CalendarError, match="leap seconds"):
        calendars.time_transform("days since 2000-01-01", "tai", "days since 2000-01-01", None)


@pytest.mark.parametrize(
    ("date", "calendar", "exists"),
    [
        ("2016-12-31 23:59:60", "utc", True),
        ("2016-12-31 23:59:60.5Z", "utc", True),
        ("2016-12-31 23:59:61", "utc", False),
        ("2016-12-31 22:59:60", "utc", False),
        ("2016-12-31 23:59:60+1", "utc", False),
        ("2015-12-31 23:59:60", "utc", False),
        ("2016-12-31 23:59:60", "standard", False),
        ("2016-12-31 23:59:60", "tai", False),
        ("2016-12-31 23:59:60", "noleap", False),
        ("2016-12-31 23:59:59.9", "standard", True),
    ],
)
def test_leap_seconds_exist_in_utc_alone_for_the_checker_as_for_readers(date, calendar, exists):
    units = f"seconds since {date}"
    text = f"""netcdf t {{ dimensions: t = 1 ; variables: double t(t) ; t:standard_name = "time" ;
t:units = "{units}" ; t:calendar = "{calendar}" ; :Conventions = "CF-1.13" ; data: t = 1 ; }}"""
    found = codes(text, "TIM012")
    try:
        calendars.parse(units, calendar)
    except CalendarError:
        assert not exists
    else:
        assert exists
    assert ("TIM012" not in found) == exists


def test_a_leap_second_is_another_reference_time_than_the_midnight_after_it():
    leap, midnight = "seconds since 2016-12-31 23:59:60", "seconds since 2017-01-01"
    assert (calendars.parse(leap, "utc").second, calendars.parse(midnight, "utc").second) == (86400, 0)
    assert calendars.time_transform(leap, "utc", leap.replace("seconds", "minutes"), "utc") == (Fraction(1, 60), 0)
    with pytest.raises(CalendarError, match="utc has leap seconds between"):
        calendars.time_transform(leap, "utc", midnight, "utc")


def test_names_of_the_same_calendar_need_no_change_by_date():
    for pair in (
        ("noleap", "365_day"),
        ("noleap", "no_leap"),
        ("all_leap", "366_day"),
        ("gregorian", None),
        ("STANDARD", "standard"),
    ):
        assert not isinstance(change(*pair), DateChange)
