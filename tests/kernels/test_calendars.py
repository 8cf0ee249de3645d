"""The calendar kernel and its NumPy form against a table of all days and against cftime."""

import cftime
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cfagg.cf import dates
from cfagg.kernels import calendars as kernel
from tests import oracles, strategies

NAMES = sorted(dates.CALENDARS)
MARCH_2000 = {name: oracles.day_of(name, 2000, 3, 1) for name in NAMES}


def decode(name, days):
    parts = [np.empty(len(days), np.int64) for _ in range(3)]
    kernel.decode(dates.CALENDARS[name], days, *parts)
    return parts


def encode(name, year, month, day):
    days = np.empty(len(year), np.int64)
    # Views would be compiled apart.
    parts = map(np.ascontiguousarray, (year, month, day))
    return days, kernel.encode(dates.CALENDARS[name], *parts, days)


@pytest.mark.few(1)
@pytest.mark.parametrize("name", NAMES)
def test_every_day_of_twenty_thousand_years_decodes_as_the_table_counts_it(name):
    table = oracles.calendar_table(name, -10000, 10000)
    days = np.arange(len(table[0]), dtype=np.int64) + oracles.first_day(name, -10000)
    for found, expected in zip(decode(name, days), table, strict=True):
        np.testing.assert_array_equal(found, expected)


@pytest.mark.few(1)
@pytest.mark.parametrize("name", NAMES)
def test_every_day_of_twenty_thousand_years_encodes_as_the_table_counts_it(name):
    table = oracles.calendar_table(name, -10000, 10000)
    days, refused = encode(name, *table)
    assert refused == (0, -1)
    np.testing.assert_array_equal(days, np.arange(len(days)) + oracles.first_day(name, -10000))


@pytest.mark.filterwarnings("ignore::cftime.CFWarning")
@pytest.mark.parametrize("name", NAMES)
def test_dates_over_twenty_thousand_years_agree_with_cftime(name):
    rng = np.random.default_rng(1)
    days = np.concatenate(
        [rng.integers(-4_380_000, 2_900_000, 6000), MARCH_2000[name] + np.arange(-366 * 420, -366 * 415)]
    )
    expected = cftime.num2date(days - MARCH_2000[name], "days since 2000-03-01", calendar=name)
    found = zip(*(part.tolist() for part in decode(name, days)), strict=True)
    assert list(found) == [(d.year, d.month, d.day) for d in expected]


@pytest.mark.parametrize("name", NAMES)
def test_the_numpy_form_equals_the_kernel(name):
    days = np.concatenate([np.arange(-3000, 3000), np.arange(570_000, 590_000), [10**12, -(10**12)]])
    for found, expected in zip(dates._date(name, days), oracles.with_year_zero(name, decode(name, days)), strict=True):
        np.testing.assert_array_equal(found, expected)
    back, there = dates.to_days(name, *decode(name, days))
    assert there.all()
    np.testing.assert_array_equal(back, days)


@pytest.mark.filterwarnings("ignore::cftime.CFWarning")
@given(strategies.calendar_dates())
def test_kernel_numpy_and_cftime_agree_on_which_dates_exist(case):
    name, year, month, day = case
    try:
        cftime.datetime(year, month, day, calendar=name)
        exists = not (year == 0 and name in {"standard", "julian"})
    except ValueError:
        exists = False
    columns = [np.array([v], np.int64) for v in (year, month, day)]
    assert encode(name, *columns)[1] == ((0, -1) if exists else (1, 0))
    assert bool(dates.to_days(name, *columns)[1][0]) is exists


@given(st.sampled_from(NAMES), st.sampled_from(NAMES), st.lists(st.integers(-4_000_000, 4_000_000), min_size=1))
def test_change_is_decode_then_encode(source, target, days):
    days = np.array(days, np.int64)
    expected, there = dates.to_days(target, *decode(source, days))
    out = np.empty_like(days)
    bad, first = kernel.change(dates.CALENDARS[source], dates.CALENDARS[target], days, out)
    assert (bad, first) == ((~there).sum(), np.argmin(there) if not there.all() else -1)
    np.testing.assert_array_equal(out[there], expected[there])


def test_the_standard_calendar_jumps_from_4_to_15_october_1582():
    days, refused = encode("standard", *(np.array(v) for v in ([1582] * 3, [10] * 3, [4, 15, 10])))
    assert days[1] - days[0] == 1
    assert refused == (1, 2)


@pytest.mark.parametrize("name", ["standard", "julian"])
def test_year_minus_one_precedes_year_one(name):
    days, _ = encode(name, *(np.array(v) for v in ([-1, 1], [12, 1], [31, 1])))
    assert days[1] - days[0] == 1


@pytest.mark.parametrize("short", range(4))
def test_arrays_of_other_lengths_are_refused_before_anything_is_written(short):
    arrays = [np.full(2 if n == short else 3, 7) for n in range(4)]
    for work in (
        lambda: kernel.decode(kernel.STANDARD, *arrays),
        lambda: kernel.encode(kernel.STANDARD, *arrays),
        lambda: kernel.change(kernel.STANDARD, kernel.NOLEAP, np.full(2, 7), arrays[short - 1]),
    ):
        with pytest.raises(ValueError, match="arrays of dates and days have one length"):
            work()
    assert all((array == 7).all() for array in arrays)


@pytest.mark.parametrize("calendar", [-1, 6])
def test_a_calendar_that_is_none_is_refused(calendar):
    days = np.zeros(1, np.int64)
    for work in (
        lambda: kernel.decode(calendar, days, days, days, days),
        lambda: kernel.encode(calendar, days, days, days, days),
        lambda: kernel.change(calendar, kernel.STANDARD, days, days),
        lambda: kernel.change(kernel.STANDARD, calendar, days, days),
    ):
        with pytest.raises(ValueError, match="calendars are numbered from 0 to 5"):
            work()
