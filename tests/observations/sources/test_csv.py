"""Tables in text."""

from __future__ import annotations

import gzip
import io
import itertools
import lzma
import pickle
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import cfagg
from cfagg.errors import CfaggError, ConformError, ConventionError, SourceError
from cfagg.observations.creating import create_observations
from cfagg.observations.frames import check_rows
from cfagg.observations.registry import Config
from cfagg.observations.sources import csv as module
from cfagg.observations.sources import text_format
from cfagg.observations.sources.csv import CsvSource
from tests.effort import examples
from tests.observations.sources.reading import rows

FLAVOUR = {"date": "time", "latitude": "lat", "longitude": "lon"}
TEXT = """time,lat,lon,t,station
2020-01-03T00:00:00Z,51.5,-0.5,3.5,EGLL
2020-01-01 06:00:00.25,48.9,2.5,,LFPG
2020-01-02T01:00:00+02:00,60,25,-7,EFHK
"""


def source(path: Path, text: str = TEXT, **config: Any) -> CsvSource:
    file = path / "a.csv"
    file.write_text(text)
    return CsvSource({"path": str(file), "flavour": FLAVOUR, **config})


def test_columns_are_read_and_rows_labelled_by_their_number(tmp_path: Path) -> None:
    found = rows(source(tmp_path))
    assert found.columns.tolist() == ["date", "latitude", "longitude", "t", "station"]
    assert found.index.tolist() == [1, 2, 3]
    assert found["date"].tolist() == [
        pd.Timestamp("2020-01-03"),
        pd.Timestamp("2020-01-01T06:00:00.25"),
        pd.Timestamp("2020-01-01T23:00"),
    ]
    np.testing.assert_array_equal(found["t"], [3.5, np.nan, -7.0])
    assert found["station"].tolist() == ["EGLL", "LFPG", "EFHK"]


def test_a_part_has_its_rows_in_order_of_time(tmp_path: Path) -> None:
    frames = list(source(tmp_path).read(datetime(2020, 1, 1), datetime(2020, 1, 3)))
    assert [f.index.tolist() for f in frames] == [[2, 3]]


def test_a_part_without_rows_is_a_frame_with_the_columns(tmp_path: Path) -> None:
    (found,) = source(tmp_path, columns=["t"]).read(datetime(1999, 1, 1), datetime(2000, 1, 1))
    assert (len(found), found.columns.tolist()) == (0, ["date", "latitude", "longitude", "t"])


def test_columns_attributes_and_the_recipes_directory(tmp_path: Path) -> None:
    (tmp_path / "b.csv").write_text(TEXT)
    about = {"t": {"units": "degC", "standard_name": "air_temperature"}}
    config = {"path": "b.csv", "flavour": FLAVOUR, "columns": ["t"], "attributes": about}
    found = next(CsvSource(Config(config, "input.csv", tmp_path)).read(datetime(2020, 1, 1), datetime(2021, 1, 1)))
    assert found.columns.tolist() == ["date", "latitude", "longitude", "t"]
    assert found.attrs["variables"] == about


@pytest.mark.parametrize("form", ["date: two columns", "numbers", "another form"])
def test_dates_are_read_in_other_forms(tmp_path: Path, form: str) -> None:
    if form == "numbers":
        made = source(tmp_path, "time,lat,lon\n3600.5,1,2\n", date_units="seconds since 2020-01-01")
        expected = "2020-01-01T01:00:00.5"
    elif form == "another form":
        made = source(tmp_path, "time,lat,lon\n31/01/2020 06h,1,2\n", date_format="%d/%m/%Y %Hh")
        expected = "2020-01-31T06:00"
    else:
        text = "day,clock,lat,lon\n20200131,60000,1,2\n2020-01-31,6:00:00.0,1,2\n"
        made = source(tmp_path, text, flavour={**FLAVOUR, "date": "day,clock"})
        expected = "2020-01-31T06:00"
    found = rows(made)
    assert set(found["date"]) == {pd.Timestamp(expected)}
    assert found.columns.tolist() == ["date", "latitude", "longitude"]


@pytest.mark.parametrize("zones", [("Z", "+01:00", "-0130", " +1", "+9:30"), ("+05", "+5:00", " +0500", "+05:00")])
def test_dates_may_have_zones_of_hours_or_hours_and_minutes(tmp_path: Path, zones: tuple[str, ...]) -> None:
    table = "".join(f"2020-01-01T12:00:00{zone},1,2\n" for zone in zones)
    found = set(rows(source(tmp_path, "time,lat,lon\n" + table))["date"])
    hours = {"-0130": 13.5, " +1": 11, "+01:00": 11, "+9:30": 2.5, "Z": 12}
    assert found == {pd.Timestamp("2020-01-01") + pd.Timedelta(hours=hours.get(zone, 7)) for zone in zones}


@pytest.mark.parametrize("zone", ["+1:75", "+0175", "+100", "+015", "+1:5", "+01:0", "+24:00"])
@pytest.mark.parametrize("other", ["", "Z", "+02:00"])
def test_zones_that_could_mean_several_offsets_are_refused(tmp_path: Path, zone: str, other: str) -> None:
    table = f"time,lat,lon\n2020-01-01T12:00:00{other},1,2\n2020-01-01T12:00:00{zone},1,2\n"
    with pytest.raises(SourceError, match=r"row 2: '2020-01-01T12:00:00\+.*' is not a date"):
        rows(source(tmp_path, table))


@pytest.mark.parametrize("word", ["now", "today"])
@pytest.mark.parametrize("form", [None, "%Y-%m-%d"])
def test_words_for_the_present_time_are_no_dates(tmp_path: Path, word: str, form: str | None) -> None:
    with pytest.raises(SourceError, match=f"row 2: '{word}' is not a date"):
        rows(source(tmp_path, f"time,lat,lon\n2020-01-01,1,2\n{word},1,2\n", date_format=form))


@pytest.mark.parametrize("word", ["-999", -999, "-999.00"])
@pytest.mark.parametrize("decimal", [".", ","])
def test_a_number_for_missing_values_stands_for_all_forms_of_it(tmp_path: Path, word: object, decimal: str) -> None:
    cells = ["-999", "  -999", "-999.0 ", "-9.99e2", "-999.5", "999"]
    text = "time;lat;lon;t\n" + "".join(f"2020-01-01;1;2;{cell}\n" for cell in cells)
    options = {"delimiter": ";", "decimal": decimal, "missing": [word]}
    found = rows(source(tmp_path, text.replace(".", decimal), **options))["t"]
    assert found.tolist()[4:] == [-999.5, 999]
    assert found[:4].isna().all()


def test_errors_about_rows_name_the_one_of_several_files_that_has_them(tmp_path: Path) -> None:
    head = "time,lat,lon,t\n2020-01-01T00:00:00Z,51.5,-0.5,"
    for name, rest in (("a", "3"), ("b", "4\n2020-01-01T01:00:00Z,,2.5,3"), ("c", "warm"), ("e", "1e39")):
        (tmp_path / f"{name}.csv").write_text(head + rest)
    (tmp_path / "d.csv").write_text(head.replace("t\n", "wind\n") + "5")

    def build(pattern: str, *filters: Any) -> None:
        step = {"csv": {"path": str(tmp_path / pattern), "flavour": FLAVOUR}}
        dates = {"start": "2020-01-01", "end": "2020-01-01", "frequency": "1d"}
        recipe = {"dates": dates, "input": {"pipe": [step, *filters]}, "output": {"layout": "tabular"}}
        create_observations(recipe, tmp_path / "store.zarr")

    with pytest.raises(ConventionError, match=r"b\.csv gave rows .*\n.*row 2: latitude is nan"):
        build("[ab].csv", {"drop_duplicates": {}}, {"clip": {"t": [0, 10]}})
    with pytest.raises(ConventionError, match=r"c\.csv gave rows .*\n.*row 1: t is 'warm'"):
        build("[ac].csv")
    with pytest.raises(ConventionError, match=r"d\.csv: the columns lack t and have wind too, .* or join .* of other"):
        build("[ad].csv")
    with pytest.raises(ConventionError, match=r"(?s)filter clip .* of .*d\.csv failed .* t: is not a column"):
        build("[ad].csv", {"clip": {"t": [0, 10]}})
    with pytest.raises(ConformError, match=r"e\.csv gave numbers .*\n.*row 1: t is 1e\+39"):
        build("[ae].csv")


def test_files_may_be_several_compressed_and_delimited_otherwise(tmp_path: Path) -> None:
    for i in (1, 2):
        with gzip.open(tmp_path / f"{i}.csv.gz", "wt") as file:
            file.write(f"a comment\ntime;lat;lon;t\n2020-01-0{i};0;0;-999\n2020-01-0{i};0;1;{i}\n")
    config = {"delimiter": ";", "skip_rows": 1, "missing": [-999], "flavour": FLAVOUR}
    found = rows(CsvSource({"path": str(tmp_path / "*.gz"), **config}))
    assert found["t"].tolist()[2:] == [1.0, 2.0]
    assert found["t"].isna().tolist() == [True, True, False, False]


def test_a_single_word_for_missing_values_is_not_taken_for_its_letters(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("time,lat,lon,t\n2020-01-01,9,0,-999\n2020-01-01,0,0,9\n")
    found = rows(CsvSource({"path": str(tmp_path / "a.csv"), "missing": "-999", "flavour": FLAVOUR}))
    assert (found["latitude"].tolist(), found["t"].isna().tolist()) == ([9.0, 0.0], [True, False])


def test_decimal_commas_and_other_encodings_are_read(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes('time;lat;lon;t;höhe\n2020-01-01;50,5;5;-1,25;"1"\n'.encode("latin-1"))
    config = {"path": str(path), "flavour": FLAVOUR, "delimiter": ";", "decimal": ",", "encoding": "latin-1"}
    found = rows(CsvSource(config))
    assert found.iloc[0, 1:].tolist() == [50.5, 5.0, -1.25, 1.0]
    assert "höhe" in found.columns
    with pytest.raises(SourceError, match="not text in utf-8"):
        rows(CsvSource({**config, "encoding": "utf-8"}))


def test_a_file_is_read_once_however_many_parts_there_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened = []
    stream = text_format._unpacked
    monkeypatch.setattr(text_format, "_unpacked", lambda path: opened.append(path) or stream(path))
    made = source(tmp_path)
    made.prepare(tmp_path / "kept")
    once = len(opened)
    for day in range(1, 5):
        list(made.read(datetime(2020, 1, day), datetime(2020, 1, day + 1)))
    assert len(opened) == once
    again = CsvSource({"path": str(tmp_path / "a.csv"), "flavour": FLAVOUR})
    again.prepare(tmp_path / "kept")
    assert len(rows(pickle.loads(pickle.dumps(again)))) == 3
    assert len(opened) == once


def test_a_changed_file_is_read_again(tmp_path: Path) -> None:
    source(tmp_path).prepare(tmp_path / "kept")
    changed = source(tmp_path, TEXT + "2020-01-04,0,0,1,X\n")
    changed.prepare(tmp_path / "kept")
    assert len(rows(changed)) == 4


def test_a_column_that_turns_out_to_be_text_is_read_as_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "HEAD", 100)
    monkeypatch.setattr(module, "BLOCK", 100)
    lines = [f"2020-01-01,0,0,{i if i < 20 else 'warm'},{i}" for i in range(40)]
    found = rows(source(tmp_path, "time,lat,lon,t,n\n" + "\n".join(lines) + "\n"))
    assert found.index.tolist() == list(range(1, 41))
    assert found["n"].tolist() == list(range(40))
    assert found["t"].tolist()[20:] == ["warm"] * 20
    assert [float(v) for v in found["t"].tolist()[:20]] == list(range(20))


@pytest.mark.parametrize("block", range(150, 200, 7))
def test_text_in_quotes_may_have_several_lines_wherever_blocks_of_a_file_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, block: int
) -> None:
    monkeypatch.setattr(module, "HEAD", block)
    monkeypatch.setattr(module, "BLOCK", block)
    lines = [f'2020-01-01,0,{i},"a remark\n\nof some lines\n",{i}' for i in range(40)]
    found = rows(source(tmp_path, "\n".join(["time,lat,lon,remark,n", *lines, ""]), columns=["n"]))
    assert found["n"].tolist() == list(range(40))


@pytest.mark.parametrize("block", [100, 10**6])
def test_a_column_that_turns_out_to_be_text_may_be_dropped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, block: int
) -> None:
    monkeypatch.setattr(module, "HEAD", 100)
    monkeypatch.setattr(module, "BLOCK", block)
    lines = [f"2020-01-01,0,{i},{i}" for i in range(40)]
    found = rows(source(tmp_path, "\n".join(["time,lat,lon,id", *lines, "2020-01-01,0,40,AB", ""])))
    assert found["longitude"].tolist() == list(range(41))
    assert found["id"].iloc[-1] == "AB"


@pytest.mark.parametrize("word", ["0x10", "1_000", "warm"])
def test_the_first_row_that_is_not_a_number_is_named(tmp_path: Path, word: str) -> None:
    made = source(tmp_path, f"time,lat,lon,t\n2020-01-01,0,0,1\n2020-01-02,0,0,{word}\n")
    with pytest.raises(ConventionError, match=f"row 2: t is '{word}'"):
        check_rows(rows(made), "it")


@pytest.mark.parametrize("clock", ["06:00", "6:00", "06:00:00", "60000", "060000", "60000.0"])
def test_a_time_of_day_in_a_column_of_its_own_is_a_clock_or_a_number(tmp_path: Path, clock: str) -> None:
    made = source(tmp_path, f"day,clock,lat,lon\n2020-01-31,{clock},1,2\n", flavour={**FLAVOUR, "date": "day,clock"})
    assert rows(made)["date"].tolist() == [pd.Timestamp("2020-01-31T06:00")]


@pytest.mark.parametrize("clock", ["0600", "06", "00600", "00"])
def test_a_time_of_day_with_too_few_digits_for_its_leading_zeros_is_refused(tmp_path: Path, clock: str) -> None:
    text = f"day,clock,lat,lon\n2020-01-31,1200,1,2\n2020-01-31,{clock},1,2\n"
    with pytest.raises(
        SourceError, match=f"row 2: the time '{clock}' has leading zeros, but not 6 digits; give date_f"
    ):
        rows(source(tmp_path, text, flavour={**FLAVOUR, "date": "day,clock"}))


@pytest.mark.parametrize("form", [None, "ISO8601"])
@pytest.mark.parametrize("clocks", [("0", "6", "18"), ("0", "600", "1800"), ("30", "2400")])
def test_numbers_that_may_be_hours_or_minutes_or_seconds_are_no_times_of_day_without_a_format(
    tmp_path: Path, clocks: tuple[str, ...], form: str | None
) -> None:
    text = "day,clock,lat,lon\n" + "".join(f"2020-01-31,{clock},1,2\n" for clock in clocks)
    with pytest.raises(SourceError, match=r"row \d: the time '\d+' may be hours.*; give date_format"):
        rows(source(tmp_path, text, flavour={**FLAVOUR, "date": "day,clock"}, date_format=form))


def test_numbers_of_seconds_are_times_of_day_if_one_is_past_all_hours_and_minutes(tmp_path: Path) -> None:
    text = "day,clock,lat,lon\n2020-01-31,5,1,2\n2020-01-31,1200,1,2\n2020-01-31,2401,1,2\n"
    found = rows(source(tmp_path, text, flavour={**FLAVOUR, "date": "day,clock"}))["date"]
    assert found.dt.strftime("%H:%M:%S").tolist() == ["00:00:05", "00:12:00", "00:24:01"]


@pytest.mark.parametrize(
    ("header", "row", "form"),
    [
        ("day,hour", "20200131,6", "%Y%m%d %H"),
        ("year,day", "2020,31", "%Y %j"),
        ("year,month,day,hour,minute", "2020,1,31,6,0", "%Y %m %d %H %M"),
        ("year,day,clock", "2020,31,600", "%Y %j %H%M"),
    ],
)
def test_dates_may_be_in_any_number_of_columns(tmp_path: Path, header: str, row: str, form: str) -> None:
    text = f"{header},lat,lon,t\n{row},1,2,3\n"
    made = source(tmp_path, text, flavour={**FLAVOUR, "date": header.split(",")}, date_format=form)
    expected = pd.Timestamp("2020-01-31T06:00" if "H" in form else "2020-01-31")
    assert rows(made)["date"].tolist() == [expected]
    assert rows(made).columns.tolist() == ["date", "latitude", "longitude", "t"]


def test_names_of_date_columns_may_begin_with_spaces(tmp_path: Path) -> None:
    text = "YYYYMMDD,   HH,lat,lon,    T\n20200131,    6,1,2,    3\n"
    made = source(tmp_path, text, flavour={**FLAVOUR, "date": ["YYYYMMDD", "   HH"]}, date_format="%Y%m%d %H")
    assert rows(made)["date"].tolist() == [pd.Timestamp("2020-01-31T06:00")]


@pytest.mark.parametrize(
    ("date", "form"),
    [("1122020", "%d%m%Y"), ("70101", "%y%m%d"), ("2020-01-01 115", "%Y-%m-%d %H%M"), ("2020111", "%Y%m%d")],
)
def test_adjacent_numbers_of_dates_that_lost_a_leading_zero_are_refused(tmp_path: Path, date: str, form: str) -> None:
    with pytest.raises(SourceError, match=f"'{date}' is not a date, expected {form}, with all digits"):
        rows(source(tmp_path, f"time,lat,lon,t\n{date},0,0,1\n", date_format=form))


@pytest.mark.parametrize(
    ("date", "form"),
    [
        ("20200131t0600", "%Y%m%dT%H%M"),
        ("20200131060000.0", "%Y%m%d%H%M%S.%f"),
        ("2020031  06", "%Y%j %H"),
        ("31jan20_0600", "%d%b%y_%H%M"),
        ("1/31/2020 0600+0000", "%m/%d/%Y %H%M%z"),
        ("100%202001310600", "100%%%Y%m%d%H%M"),
    ],
)
def test_adjacent_numbers_of_dates_with_all_digits_are_read(tmp_path: Path, date: str, form: str) -> None:
    found = rows(source(tmp_path, f"time,lat,lon,t\n{date},0,0,1\n", date_format=form))["date"]
    assert found.tolist() == [pd.Timestamp("2020-01-31T06:00")]


@pytest.mark.parametrize(("zone", "hour"), [("UTC", 6), ("EST", 11), ("Europe/Paris", 4), ("CET", None), ("EET", None)])
def test_zones_may_be_names_unless_these_mean_standard_and_summer_time(
    tmp_path: Path, zone: str, hour: int | None
) -> None:
    made = source(tmp_path, f"time,lat,lon\n2020-07-01 06:00 {zone},0,0\n", date_format="%Y-%m-%d %H:%M %Z")
    if hour is None:
        with pytest.raises(SourceError, match=f"'2020-07-01 06:00 {zone}' is not a date"):
            rows(made)
    else:
        assert rows(made)["date"].tolist() == [pd.Timestamp(2020, 7, 1, hour)]


@pytest.mark.parametrize("form", [None, "ISO8601"])
@pytest.mark.parametrize(("years", "wrong"), [("2000.5,2001.5", 0), ("2000.04,2000.12", 0), ("2000,2000.5", 1)])
def test_numbers_of_years_are_not_taken_for_months(tmp_path: Path, years: str, wrong: int, form: str | None) -> None:
    text = "time,lat,lon,t\n" + "".join(f"{year},0,0,1\n" for year in years.split(","))
    with pytest.raises(SourceError, match=f"'{years.split(',')[wrong]}' is not a date"):
        rows(source(tmp_path, text, date_format=form))


def test_a_line_of_units_below_the_names_is_skipped_on_request(tmp_path: Path) -> None:
    text = "time,lat,lon,t\nUTC,degrees_north,degrees_east,degree_C\n2020-01-31T06:00:00Z,1,2,3.5\n"
    found = rows(source(tmp_path, text, skip_after_names=1))
    assert (found["date"].tolist(), found["t"].tolist()) == ([pd.Timestamp("2020-01-31T06:00")], [3.5])


@pytest.mark.parametrize("block", [70, 77, 10**6])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_columns_may_be_separated_by_any_number_of_spaces(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, block: int, end: str
) -> None:
    monkeypatch.setattr(module, "HEAD", 70)
    monkeypatch.setattr(module, "BLOCK", block)
    lines = [f"{' ' * (i % 3)}2020 01  31 {i % 24:>3} \t 1  {i / 4:>9} MM{' ' * (i % 2)}" for i in range(50)]
    file = tmp_path / "a.txt"
    file.write_bytes(end.join(["#YY  MM DD hh  lon   n  x", "#yr  mo dy hr  deg   m  m", *lines]).encode())
    made = CsvSource(
        {
            "path": str(file),
            "delimiter": "whitespace",
            "skip_after_names": 1,
            "missing": "MM",
            "date_format": "%Y %m %d %H",
            "flavour": {"date": ["#YY", "MM", "DD", "hh"], "latitude": 52.1, "longitude": "lon"},
        }
    )
    found = rows(made)
    assert found["n"].tolist() == [i / 4 for i in range(50)]
    assert found["date"].dt.hour.tolist() == [i % 24 for i in range(50)]
    assert found["x"].isna().all()


def test_a_row_of_too_few_columns_between_spaces_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="Expected 4 columns, got 3"):
        rows(source(tmp_path, "time lat lon t\n2020-01-31  1  2\n", delimiter="whitespace"))


def test_a_single_number_may_stand_for_missing_values(tmp_path: Path) -> None:
    found = rows(source(tmp_path, "time,lat,lon,t\n2020-01-31,1,2,-999.0\n", missing=-999))
    assert found["t"].isna().all()


def test_names_are_given_to_columns_of_a_file_without_a_line_of_names(tmp_path: Path) -> None:
    made = source(tmp_path, "2020-01-31,1,2,3.5\n2020-01-31,2,3,4.5\n", names=["time", "lat", "lon", "t"])
    assert rows(made)[["latitude", "t"]].to_numpy().tolist() == [[1, 3.5], [2, 4.5]]


def test_a_file_with_a_line_of_names_is_not_taken_for_one_without(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="row 1: 'time' is not a date"):
        rows(source(tmp_path, names=["time", "lat", "lon", "t", "station"]))


def test_a_format_that_does_not_make_up_dates_is_refused_by_its_name(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="date_format '%Y %U' cannot be used"):
        rows(source(tmp_path, "time,lat,lon,t\n2020 10,0,0,1\n", date_format="%Y %U"))


def test_names_of_fewer_columns_than_a_file_has_are_refused(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match=r"Expected 3 columns, got 4.*give the names of all columns"):
        rows(source(tmp_path, "2020-01-31,1,2,3.5\n", names=["time", "lat", "lon"]))


def test_numbers_of_latitude_and_longitude_are_the_place_of_all_rows(tmp_path: Path) -> None:
    text = "time,t\n2020-01-31,3.5\n2020-02-01,4.5\n"
    found = rows(source(tmp_path, text, flavour={"date": "time", "latitude": 52.1, "longitude": -5}))
    assert found.columns.tolist() == ["date", "latitude", "longitude", "t"]
    assert found[["latitude", "longitude", "t"]].to_numpy().tolist() == [[52.1, -5, 3.5], [52.1, -5, 4.5]]


def test_a_packed_file_that_is_not_unpacked_here_says_so(tmp_path: Path) -> None:
    file = tmp_path / "a.csv.xz"
    file.write_bytes(lzma.compress(TEXT.encode()))
    with pytest.raises(SourceError, match=r"a.csv.xz: .*unpack it"):
        rows(CsvSource({"path": str(file), "flavour": FLAVOUR}))


def test_times_of_day_of_hours_and_minutes_are_read_by_their_format(tmp_path: Path) -> None:
    text = "day,clock,lat,lon\n20200131,0600,1,2\n20200131,600,1,2\n20200131,1200,1,2\n20200131,0,1,2\n"
    made = source(tmp_path, text, flavour={**FLAVOUR, "date": "day,clock"}, date_format="%Y%m%d %H%M")
    assert rows(made)["date"].dt.hour.tolist() == [6, 6, 12, 0]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("when,lat,lon\n", r"columns are not as expected \(the columns are when, lat, lon"),
        ("time,lat\n2020-01-01,1\n", "lon: is missing"),
        ("time,lat,lat,lon\n2020-01-01,1,1,1\n", "lat: names two columns"),
        ("time,lat,lon\n2020-01-01,0,0\nsoon,0,0\n", "column time, row 2: 'soon' is not a date"),
        ("time,lat,lon\n2020-01-01,0,0\n,0,0\n,0,0\n", "row 2 and 1 more: the date is missing"),
        ("time,lat,lon\n01/02/2020,0,0\n", "give date_format"),
        ("time,lat,lon\n2020-01-01,0\n", "Expected 3 columns, got 2"),
        ("", "Empty CSV file|empty"),
        ("time,lat,lon,date\n2020-01-01,0,0,1\n", "date: exists as a column besides the one named in flavour"),
    ],
)
def test_bad_tables_are_refused_by_name_and_row(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(SourceError, match=said) as error:
        rows(source(tmp_path, text))
    assert "a.csv" in str(error.value)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    for path, said in ((tmp_path / "a.csv", "no such file"), (tmp_path / "*.csv", "no file has such a name")):
        with pytest.raises(SourceError, match=said):
            CsvSource({"path": str(path)}).prepare(tmp_path)


def test_attributes_of_a_column_that_is_not_there_are_refused(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="T: has attributes, but is not a column; did you mean t"):
        rows(source(tmp_path, attributes={"T": {"units": "K"}}))


def test_a_file_that_is_not_a_regular_one_is_refused() -> None:
    with pytest.raises(SourceError, match="/dev/null: not a regular file"):
        CsvSource({"path": "/dev/null"}).files()


@pytest.mark.parametrize("form", [None, "%Y%m%d", "%Y-%m-%d %Z", "%Y-%m-%d%z"])
def test_a_table_without_rows_gives_none(tmp_path: Path, form: str | None) -> None:
    found = rows(source(tmp_path, "time,lat,lon,t\n", date_format=form))
    assert (len(found), found["date"].dtype.kind) == (0, "M")


@pytest.mark.parametrize(
    "config",
    [
        {},
        {"path": 3},
        {"path": "a", "delimiter": "ab"},
        {"path": "a", "flavour": {"date": ["a", "b", "c"]}},
        {"path": "a", "flavour": {"date": []}},
        {"path": "a", "date_format": "mixed"},
        {"path": "a", "date_format": "%m-%d %H:%M"},
        {"path": "a", "date_format": "%Y-%m-%d %H:%M %p"},
        {"path": "a", "date_format": "%Y-%m-%d %I:%M"},
        {"path": "a", "date_format": "%Y %d"},
        {"path": "a", "date_format": "%%Y-%m-%d"},
        {"path": "a", "flavour": {"lat": "a"}},
        {"path": "a", "flavour": {"latitude": True}},
        {"path": "a", "flavour": {"latitude": 120}},
        {"path": "a", "flavour": {"longitude": float("nan")}},
        {"path": "a", "names": ["date", "date"]},
        {"path": "a", "names": []},
        {"path": "a", "skip_after_names": -1},
        {"path": "a", "missing": {"t": -999}},
        {"path": "a", "missing": [[-999]]},
        {"path": "a", "delimiter": "whitespace", "encoding": "utf-16"},
        {"path": "a", "missing": True},
        {"path": "a", "skip_rows": -1},
        {"path": "a", "decimal": ","},
        {"path": "a", "encoding": "klingon"},
        {"path": "a", "encoding": "rot13"},
        {"path": "a", "attributes": {"t": "K"}},
        {"path": []},
        {"path": "a", "date_units": "s", "flavour": {"date": "a,b"}},
        {"path": "a", "columns": ["t", "t"]},
    ],
)
def test_settings_that_are_not_understood_are_refused(config: dict[str, Any]) -> None:
    with pytest.raises(ConventionError):
        CsvSource(config)


def test_what_is_no_text_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes(bytes(range(256)) * 40)
    with pytest.raises(CfaggError):
        rows(CsvSource({"path": str(tmp_path / "a.csv")}))


@settings(max_examples=examples(12), suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(st.integers(0, 400), st.floats(-90, 90)), max_size=30), st.integers(15, 200))
def test_any_cut_into_parts_gives_every_row_once_with_its_exact_value(
    tmp_path: Path, values: list[tuple[int, float]], step: int
) -> None:
    start = datetime(2020, 1, 1)
    frame = pd.DataFrame(
        {
            "time": [(start + timedelta(minutes=m)).isoformat() for m, _ in values],
            "lat": [repr(v) for _, v in values],
            "lon": 0,
            "n": range(len(values)),
        }
    )
    text = io.StringIO()
    frame.to_csv(text, index=False)
    made = source(tmp_path, text.getvalue())
    parts = [start + timedelta(minutes=m) for m in range(0, 401 + step, step)]
    found = pd.concat([rows(made, a, b) for a, b in itertools.pairwise(parts)])
    assert sorted(found["n"].tolist()) == list(range(len(values)))
    assert found.sort_values("n")["latitude"].tolist() == [v for _, v in values]


def test_files_of_a_station_without_names_and_places_give_the_same_store_at_once_and_grown(tmp_path: Path) -> None:
    (tmp_path / "old.txt").write_text("".join(f"  2020  1 {day:>2}   6  {day}  -999\n" for day in range(1, 6)))
    with gzip.open(tmp_path / "new.txt.gz", "wt") as file:
        file.write("".join(f"2020 1 {day} 18 {day}.0 {day}\n" for day in range(6, 11)))
    config = {
        "path": str(tmp_path / "*.txt*"),
        "names": ["year", "month", "day", "hour", "t", "p"],
        "delimiter": "whitespace",
        "missing": -999,
        "date_format": "%Y %m %d %H",
        "flavour": {"date": ["year", "month", "day", "hour"], "latitude": 52.1, "longitude": -5},
    }

    def built(store: str, end: str, *, append: bool = False) -> dict[str, bytes]:
        recipe = {
            "dates": {"start": "2020-01-01", "end": end, "frequency": "1d"},
            "input": {"csv": config},
            "output": {"layout": "tabular"},
            "build": {"allow_nans": True},
            "statistics": {"records": "all"},
        }
        create_observations(recipe, tmp_path / store, append=append)
        files = (tmp_path / store).rglob("*")
        return {str(f.relative_to(tmp_path / store)): f.read_bytes() for f in files if f.is_file()}

    assert len(built("grown.zarr", "2020-01-05")) > 1
    assert built("grown.zarr", "2020-01-10", append=True) == built("once.zarr", "2020-01-10")
    found = cfagg.open_observations(tmp_path / "once.zarr", "2020-01-01", "2020-01-10", "[0,1d)", "1d")
    assert found.counts.tolist() == [1] * 10
    np.testing.assert_array_equal(found[:], [[d, np.nan if d < 6 else d] for d in range(1, 11)])
    np.testing.assert_array_equal(found[:].latitudes, np.float32(52.1))
