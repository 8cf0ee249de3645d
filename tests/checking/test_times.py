"""Time coordinates: what the text allows, and traps."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cfagg.checking.times import unit_words
from tests.checking.rules.asking import codes, findings, told
from tests.effort import examples


def cdl(
    units: str = "days since 2000-01-01", attributes: str = "", values: str = "0, 1", calendar: str = "standard"
) -> str:
    given_calendar = f't:calendar = "{calendar}" ;' if calendar else ""
    return f"""netcdf times {{
dimensions: t = 2 ;
variables:
  double t(t) ; t:standard_name = "time" ; t:units = "{units}" ; {given_calendar} {attributes}
  float x(t) ; x:long_name = "something" ; x:units = "1" ;
:Conventions = "CF-1.13" ;
data: t = {values} ; }}"""


def test_the_words_of_a_unit_are_in_the_singular_and_without_prefix() -> None:
    assert unit_words("days") == (("", "day"),)
    assert unit_words("Minutes") == (("", "minute"),)
    assert unit_words("min") == (("", "min"),)
    assert unit_words("kd") == (("k", "d"),)
    assert unit_words("mdays") == (("m", "day"),)
    assert unit_words("msec") == (("m", "sec"),)
    assert unit_words("microseconds") == (("micro", "second"),)


@pytest.mark.parametrize(
    "units",
    [
        "days since 2000-1-1",
        "day since 2000-01-01 0:0:0",
        "h since 1998-4-19 6:0:0 Z",
        "milliseconds since 1970-01-01 00:00:00.000Z",
        "hours since 2000-01-01 00:00:00 +0",
        "seconds since +1970-1-1",
        "weeks since 2000-01-01",
        "DAYS SINCE 2000-01-01",
        "2 hours since 2000-01-01",
    ],
)
def test_units_that_the_text_allows_are_not_complained_of(units: str) -> None:
    assert codes(cdl(units), "TIM") == []


@pytest.mark.parametrize(
    ("units", "code"),
    [
        ("days", "TIM001"),
        ("days since", "TIM001"),
        ("days since the flood", "TIM001"),
        ("days since 2000", "TIM003"),
        ("days since 2000-01", "TIM003"),
        ("days since 20000101", "TIM003"),
        ("days since 00:00:00", "TIM003"),
        ("days since 2000-01-01 12", "TIM003"),
        ("days since 2000-01-01 00:00:00 UTC", "TIM003"),
        ("days since 2000-01-01 00:00:00 5:30", "TIM003"),
        ("days since 2000-01-01 00:00:00 +0530", "TIM003"),
        ("days since 2000-01-01 Z", "TIM003"),
        ("days since 2000-01-01 00:00:00 +1:75", "TIM003"),
        ("days since 2000-02-30", "TIM012"),
        ("days since 2000-00-01", "TIM012"),
        ("days since 2000-01-00", "TIM012"),
        ("days since 2000-01-01 00:60:00", "TIM012"),
        ("days since 2000-01-01 23:59:60", "TIM012"),
        ("days since -1-01-01", "TIM012"),
    ],
)
def test_one_fault_in_the_units_has_one_error(units: str, code: str) -> None:
    found = [f.code for f in findings(cdl(units)) if f.severity == "error"]
    assert found == [code]


@pytest.mark.parametrize("version", ["1.6", "1.8", "1.10", "1.12"])
def test_the_form_of_the_datetime_is_free_before_1_13(version: str) -> None:
    for units in (
        "days since 2000-01-01T00:00:00",
        "days since 2000-01-01 00:00:00 UTC",
        "days since 2000-01-01 00:00",
    ):
        assert codes(cdl(units), "TIM", cf_version=version) == []


def test_a_separating_t_and_missing_seconds_are_no_errors() -> None:
    found = findings(cdl("days since 2000-01-01T00:00"), "TIM003")
    assert [f.severity for f in found] == ["warning", "info"]
    assert codes(cdl("days since 2000-01-01T00:00:00"), "TIM", cf_version="1.14-draft") == []


def test_another_word_than_since_is_put_right_safely() -> None:
    (found,) = findings(cdl("days after 2000-01-01"), "TIM007")
    assert found.fix[0].value == "days since 2000-01-01"
    assert found.fix[0].safe


def test_gregorian_is_put_right_safely_and_only_since_1_9() -> None:
    (found,) = findings(cdl(calendar="Gregorian"), "TIM")
    assert (found.code, found.fix[0].value, found.fix[0].safe) == ("TIM015", "standard", True)
    assert codes(cdl(calendar="gregorian"), "TIM", cf_version="1.8") == []


@pytest.mark.parametrize(
    "calendar",
    ["STANDARD", "proleptic_gregorian", "noleap", "365_day", "all_leap", "366_day", "360_day", "julian", "none"],
)
def test_the_calendars_of_all_versions_are_known_in_any_case(calendar: str) -> None:
    assert codes(cdl(calendar=calendar), "TIM") == []
    assert codes(cdl(calendar=calendar.upper()), "TIM", cf_version="1.0") == []


@pytest.mark.parametrize("calendar", ["utc", "tai"])
def test_calendars_with_leap_seconds_came_with_1_12(calendar: str) -> None:
    text = cdl("seconds since 2000-01-01", calendar=calendar)
    assert codes(text, "TIM", cf_version="1.12") == []
    assert codes(text, "TIM", cf_version="1.11") == ["TIM010"]


def test_the_spelling_of_table_4_1_is_a_warning_in_1_13_and_an_error_before() -> None:
    assert [f.severity for f in findings(cdl(calendar="no_leap"), "TIM010")] == ["warning"]
    assert [f.severity for f in findings(cdl(calendar="no_leap"), "TIM010", cf_version="1.12")] == ["error"]


def test_30_february_is_a_date_of_the_360_day_calendar_only() -> None:
    assert codes(cdl("days since 2000-02-30", calendar="360_day"), "TIM") == []
    assert codes(cdl("days since 2000-02-30", calendar="all_leap"), "TIM") == ["TIM012"]


def test_a_calendar_by_months_has_the_days_of_its_months() -> None:
    months = "t:month_lengths = 34, 31, 32, 30, 29, 27, 28, 28, 28, 32, 32, 34 ;"
    assert codes(cdl("days since 1-1-34", months, calendar=""), "TIM") == []
    assert codes(cdl("days since 1-2-32", months, calendar=""), "TIM") == ["TIM012"]
    leap = months + " t:leap_year = 5 ;"
    assert codes(cdl("days since 1-2-32", leap, calendar=""), "TIM") == []
    assert codes(cdl("days since 2-2-32", leap, calendar=""), "TIM") == ["TIM012"]


def test_a_leap_second_that_there_was_may_be_a_reference_in_utc() -> None:
    assert codes(cdl("seconds since 2016-12-31 23:59:60", calendar="utc"), "TIM") == ["TIM017"]
    assert codes(cdl("seconds since 2015-12-31 23:59:60", calendar="utc"), "TIM") == ["TIM012"]


def test_utc_begins_in_1972_and_ends_now() -> None:
    assert codes(cdl("seconds since 1971-12-31", calendar="utc"), "TIM") == ["TIM012"]
    assert codes(cdl("seconds since 2200-01-01", calendar="utc"), "TIM") == ["TIM012"]
    assert codes(cdl("seconds since 1972-01-01", values="-1, 0", calendar="utc"), "TIM") == ["TIM011"]
    assert codes(cdl("seconds since 2000-01-01", values="0, 1e11", calendar="utc"), "TIM") == ["TIM011"]


def test_times_before_the_year_0_are_an_error_and_in_it_a_warning() -> None:
    assert codes(cdl("days since 1-1-1", values="-400, -399"), "TIM") == ["TIM011"]
    assert codes(cdl("days since 1-1-1", values="-2, -1"), "TIM") == ["TIM014"]
    assert codes(cdl("days since 1-1-1", values="-400, -399", calendar="proleptic_gregorian"), "TIM") == []


def test_values_are_not_counted_from_a_reference_that_is_not_understood() -> None:
    assert codes(cdl("days since 1 Jan 2000", calendar="tai"), "TIM") == ["TIM003"]


def test_values_are_not_looked_at_without_data() -> None:
    assert codes(cdl("days since 1-1-1", values="-400, -399"), "TIM", data=False) == []


def test_packed_and_missing_times_are_unpacked_and_left_out() -> None:
    packed = "t:scale_factor = 10. ; t:_FillValue = -999. ;"
    assert codes(cdl("days since 1500-01-01", packed, "100, 101"), "TIM") == []
    assert codes(cdl("days since 1500-01-01", packed, "100, 3100"), "TIM") == ["TIM016"]
    assert codes(cdl("days since 1-1-1", packed, "-999, 1"), "TIM") == []


@pytest.mark.parametrize("values", ["29872", "29000, 29872"])  # 29872 is 1582-10-15
def test_a_last_time_exactly_at_the_change_of_1582_is_after_it(values: str) -> None:
    assert codes(cdl("days since 1500-12-22", values=values), "TIM") == ["TIM016"]
    assert codes(cdl("days since 1500-12-22", values=values.replace("29872", "29871")), "TIM") == []


def test_a_calendar_on_data_of_times_is_worth_a_note_and_on_others_an_error() -> None:
    text = cdl().replace(
        "float x(t) ;",
        'double when(t) ; when:units = "days since 2000-01-01" ; when:calendar = "standard" ; float x(t) ;',
    )
    assert [f.severity for f in findings(text, "TIM009")] == ["info"]
    other = cdl().replace("float x(t) ;", 'float x(t) ; x:calendar = "standard" ;')
    assert told(other, "TIM") == [
        "error x:calendar calendar is on a variable that holds no time coordinates; delete it"
    ]


def test_bounds_may_repeat_the_calendar_of_their_time() -> None:
    text = """netcdf b { dimensions: t = 1 ; nv = 2 ;
variables: double t(t) ; t:units = "days since 2000-01-01" ; t:calendar = "noleap" ; t:bounds = "b" ;
 double b(t, nv) ; b:calendar = "noleap" ; :Conventions = "CF-1.8" ; data: t = 1 ; b = 0, 1 ; }"""
    assert codes(text, "TIM") == []


def test_a_forecast_period_is_no_time_coordinate() -> None:
    text = """netcdf b { dimensions: t = 1 ;
variables: double t(t) ; t:standard_name = "forecast_period" ; t:units = "hours" ; :Conventions = "CF-1.8" ;
data: t = 1 ; }"""
    assert codes(text, "TIM") == []


def test_a_coordinate_called_time_in_days_is_asked_about() -> None:
    text = """netcdf b { dimensions: time = 1 ;
variables: double time(time) ; time:units = "days" ; :Conventions = "CF-1.8" ; data: time = 1 ; }"""
    assert [(f.code, f.severity) for f in findings(text, "TIM")] == [("TIM001", "warning")]


@settings(max_examples=examples(100), deadline=None)
@given(st.text("0123456789-+:.TZ a", max_size=30), st.sampled_from(["", "utc", "tai", "standard", "360_day", "odd"]))
def test_no_datetime_makes_a_rule_fail(text: str, calendar: str) -> None:
    assert "INT001" not in codes(cdl(f"days since {text}", calendar=calendar), "TIM")


@pytest.mark.parametrize("value", ['""', "1, 2", "1.5", '"twelve"', "13", "-1b"])
@pytest.mark.parametrize("name", ["calendar", "month_lengths", "leap_year", "leap_month", "units"])
def test_no_attribute_makes_a_rule_fail(name: str, value: str) -> None:
    assert "INT001" not in codes(cdl(attributes=f"t:{name} = {value} ;", calendar=""), "TIM")


def test_a_new_calendar_is_given_to_the_bounds_too() -> None:
    text = """netcdf b { dimensions: t = 1 ; nv = 2 ;
variables: double t(t) ; t:units = "days after 2000-01-01" ; t:calendar = "gregorian" ; t:bounds = "b" ;
 double b(t, nv) ; b:calendar = "gregorian" ; :Conventions = "CF-1.11" ; data: t = 1 ; b = 0, 1 ; }"""
    fixes = {f.code: [(e.variable, e.value) for e in f.fix] for f in findings(text, "TIM")}
    assert fixes == {"TIM007": [("t", "days since 2000-01-01")], "TIM015": [("t", "standard"), ("b", "standard")]}


def test_numbers_for_the_calendar_of_bounds_leave_the_rules_on_their_time_alone() -> None:
    text = """netcdf times { dimensions: t = 1 ; nv = 2 ;
variables: double t(t) ; t:units = "days since 2000-01-01" ; t:calendar = "gregorian" ; t:bounds = "b" ;
 double b(t, nv) ; b:calendar = 1, 2 ; :Conventions = "CF-1.11" ; data: t = 1 ; b = 0, 1 ; }"""
    fixes = {f.code: [(e.variable, e.value) for e in f.fix] for f in findings(text) if f.code in ("TIM015", "INT001")}
    assert fixes == {"TIM015": [("t", "standard")]}


def test_a_calendar_makes_a_nameless_coordinate_in_days_a_time() -> None:
    text = """netcdf b { dimensions: t = 1 ;
variables: double t(t) ; t:units = "days" ; t:calendar = "noleap" ; NAME :Conventions = "CF-1.8" ; data: t = 1 ; }"""
    assert codes(text.replace("NAME", ""), "TIM") == ["TIM001"]
    assert codes(text.replace("NAME", 't:standard_name = "forecast_period" ;'), "TIM") == ["TIM009"]


@pytest.mark.parametrize(
    ("reference", "version", "expected"),
    [
        (" 2000-01-01 25:00:00", "1.13", ["TIM012"]),
        (" 2000-01-01 25:00:00", "1.9", ["TIM012"]),
        (" 2000-01-01 25:00:00", "1.8", ["TIM012"]),
        (" 2001-02-30", "1.0", ["TIM012"]),
        (" 2000-01-01 00:00:00 EST", "1.13", ["TIM003"]),
        (" 2000-01-01 00:00:00 EST", "1.9", ["UNI002"]),
        (" 2000-01-01 12h", "1.9", ["UNI002"]),
        (" 01/01/2000", "1.9", ["UNI002"]),
        ("", "1.13", ["TIM001"]),
        ("", "1.6", ["TIM001"]),
    ],
)
def test_a_reference_that_is_none_is_told_of_once(reference: str, version: str, expected: list[str]) -> None:
    text = f"""netcdf a {{ dimensions: time = 2 ; variables: double time(time) ; time:standard_name = "time" ;
    time:units = "days since{reference}" ; time:calendar = "noleap" ; :Conventions = "CF-{version}" ;
    data: time = 0, 1 ; }}"""
    assert [f.code for f in findings(text) if f.severity == "error"] == expected


@pytest.mark.parametrize(
    ("units", "length"), [("months since 2000-01-01", "30.44"), ("years since 2000-01-01", "365.24")]
)
def test_the_fixed_length_of_a_unit_is_that_of_udunits(units: str, length: str) -> None:
    (found,) = told(cdl(units), "TIM004")
    assert f"a fixed length of about {length}" in found


@pytest.mark.parametrize(("version", "listed"), [("1.11", False), ("1.12", True)])
def test_the_calendars_that_are_listed_are_those_of_the_version(version: str, listed: bool) -> None:
    (found,) = told(cdl(calendar="lunar"), "TIM010", cf_version=version)
    assert (" tai, utc" in found) is listed
    assert "360_day, 365_day" in found
