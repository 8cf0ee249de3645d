"""Lines of text: comments, hours, columns by position, quoted columns between blanks, numbers without end."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from cfagg.errors import ConventionError, SourceError
from cfagg.observations.sources import csv as module
from cfagg.observations.sources.csv import CsvSource
from tests.observations.sources.reading import rows

FLAVOUR = {"date": "time", "latitude": "lat", "longitude": "lon"}


def source(path: Path, text: str, **config: Any) -> CsvSource:
    file = path / "a.txt"
    file.write_bytes(text.encode(config.get("encoding", "utf-8")))
    return CsvSource({"path": str(file), "flavour": FLAVOUR, **config})


@pytest.fixture(params=[61, 64, 10**6])
def _blocks(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Read in blocks of these many bytes."""
    monkeypatch.setattr(module, "HEAD", request.param)
    monkeypatch.setattr(module, "BLOCK", request.param)


@pytest.mark.parametrize("word", ["1e400", "-1E+309", " 9.9e999 "])
def test_numbers_that_float64_cannot_hold_are_refused_by_file_column_and_row(tmp_path: Path, word: str) -> None:
    with pytest.raises(SourceError, match=r"a\.txt, column t, row 3: '-?\d.*' is more than"):
        rows(source(tmp_path, f"time,lat,lon,t\n2020-01-01,1,2,3\n2020-01-01,1,2,inf\n2020-01-01,1,2,{word}\n"))


def test_numbers_that_float64_cannot_hold_are_refused_with_commas_for_decimals(tmp_path: Path) -> None:
    text = "time;lat;lon;t\n2020-01-01;1;2;1,5\n2020-01-01;1;2;1,5e400\n"
    with pytest.raises(SourceError, match=r"column t, row 2: '1,5e400'"):
        rows(source(tmp_path, text, delimiter=";", decimal=","))


def test_words_for_infinity_are_infinite(tmp_path: Path) -> None:
    found = rows(
        source(tmp_path, "time,lat,lon,t\n2020-01-01,1,2,inf\n2020-01-01,1,2,-Infinity\n2020-01-01,1,2,1e308\n")
    )
    assert found["t"].tolist() == [np.inf, -np.inf, 1e308]


@pytest.mark.parametrize("key", ["skip_rows", "skip_after_names"])
@pytest.mark.parametrize("value", [2**31, 10**30])
def test_more_lines_than_can_be_skipped_are_refused(key: str, value: int) -> None:
    with pytest.raises(ConventionError, match=f"{key}: {value} is not a whole number of lines"):
        CsvSource({"path": "a", key: value})


def test_parts_of_dates_that_columns_names_are_data_too(tmp_path: Path) -> None:
    text = "year,month,day,hour,lat,lon,t\n2020,01,31,06,1,2,3\n"
    made = source(
        tmp_path,
        text,
        flavour={**FLAVOUR, "date": ["year", "month", "day", "hour"]},
        date_format="%Y %m %d %H",
        columns=["hour", "t"],
    )
    found = rows(made)
    assert found.iloc[0].tolist() == [pd.Timestamp("2020-01-31T06:00"), 1, 2, 6, 3]
    assert found.columns.tolist()[3:] == ["hour", "t"]


def test_columns_of_date_and_place_may_be_among_those_of_a_recipe(tmp_path: Path) -> None:
    made = source(tmp_path, "time,lat,lon,t,u\n2020-01-31,1,2,3,4\n", columns=["time", "lat", "lon", "t"])
    assert rows(made).columns.tolist() == ["date", "latitude", "longitude", "t"]


@pytest.mark.parametrize("form", ["%Y%m%d.%f", "%Y-%m-%d %H:%M.%f", "%Y %j.%f"])
def test_formats_with_a_fraction_but_no_second_are_refused(form: str) -> None:
    with pytest.raises(ConventionError, match="a fraction of a second, but no second"):
        CsvSource({"path": "a", "date_format": form})


@pytest.mark.usefixtures("_blocks")
def test_columns_between_blanks_may_be_in_quotation_marks(tmp_path: Path) -> None:
    lines = [f'  2020-01-{i:02}   {i}  2 "New  York {i}"\t"" "a ""b"" c"  5"x  {i / 2}  ' for i in range(1, 30)]
    text = "\n".join(['time lat lon "name of it" empty quoted inch  t', *lines, ""])
    found = rows(source(tmp_path, text, delimiter="whitespace"))
    assert found["name of it"].tolist() == [f"New  York {i}" for i in range(1, 30)]
    assert found["t"].tolist() == [i / 2 for i in range(1, 30)]
    assert set(found["quoted"]) == {'a "b" c'}
    assert set(found["inch"]) == {'5"x'}
    assert found["empty"].isna().all()


def test_a_quotation_mark_between_blanks_that_none_ends_takes_no_other_rows(tmp_path: Path) -> None:
    lines = ['2020-01-01 1 2 "ab 5', '2020-01-02 1 2 cd" 6', '2020-01-03 1 2 " 7', '2020-01-04 1 2 "a"b" 8']
    found = rows(source(tmp_path, "\n".join(["time lat lon s t", *lines, ""]), delimiter="whitespace"))
    assert found["t"].tolist() == [5, 6, 7, 8]
    assert found["s"].tolist() == ['"ab', 'cd"', '"', '"a"b"']


@pytest.mark.usefixtures("_blocks")
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("bom", ["", "\ufeff"])
def test_lines_of_comments_are_left_out_wherever_they_are(tmp_path: Path, end: str, bom: str) -> None:
    lines = [f"{'# a, b' + end if i % 3 else ''}{'#' + end if i % 5 else ''}2020-01-01,1,{i},#{i}" for i in range(40)]
    text = bom + end.join(['# a "comment', "#", "a line before", "# time,lat,lon,t", "time,lat,lon,t", *lines, "# end"])
    found = rows(source(tmp_path, text, comment="#", skip_rows=1))
    assert found["longitude"].tolist() == list(range(40))
    assert found["t"].tolist() == [f"#{i}" for i in range(40)]
    assert found.index.tolist() == list(range(1, 41))


def test_lines_within_quotation_marks_are_no_comments(tmp_path: Path) -> None:
    text = 'time,lat,lon,remark,t\n2020-01-01,1,2,"a\n# b",3\n#"\n2020-01-01,1,2,"""\n#",4\n'
    found = rows(source(tmp_path, text, comment="#"))
    assert found["t"].tolist() == [3, 4]
    assert found["remark"].tolist() == ["a\n# b", '"\n#']


def test_a_quotation_mark_between_blanks_makes_no_comment_a_row(tmp_path: Path) -> None:
    text = 'time lat lon s t\n2020-01-01 1 2 5" 3\n# a comment\n2020-01-01 1 2 6 4\n'
    found = rows(source(tmp_path, text, comment="#", delimiter="whitespace"))
    assert found["t"].tolist() == [3, 4]


@pytest.mark.parametrize("mark", ["", " ", 3, "\n", "é", True])
def test_marks_that_no_comment_begins_with_are_refused(mark: object) -> None:
    with pytest.raises(ConventionError, match="comment"):
        CsvSource({"path": "a", "comment": mark})


@pytest.mark.parametrize(
    ("date", "form"),
    [
        ("2020-12-31T24:00:00Z", None),
        ("20201231 24", None),
        ("2020-12-31T24:00:00.000", "ISO8601"),
        ("2020 12 31 24", "%Y %m %d %H"),
        ("202012312400", "%Y%m%d%H%M"),
        ("24:00 31Dec2020", "%H:%M %d%b%Y"),
        ("2020 366 24", "%Y %j %H"),
        ("2020-12-31 24:00:00.0 +0000", "%Y-%m-%d %H:%M:%S.%f %z"),
    ],
)
def test_hour_24_is_the_first_of_the_next_day(tmp_path: Path, date: str, form: str | None) -> None:
    made = source(tmp_path, f"time,lat,lon\n{date},1,2\n", date_format=form)
    assert rows(made)["date"].tolist() == [pd.Timestamp("2021-01-01")]


def test_hours_from_1_to_24_are_those_of_a_day(tmp_path: Path) -> None:
    lines = [f"2020,2,29,{hour},{hour}" for hour in range(1, 25)]
    made = source(
        tmp_path,
        "\n".join(["Y,M,D,H,t", *lines]),
        flavour={"date": ["Y", "M", "D", "H"], "latitude": 1, "longitude": 2},
        date_format="%Y %m %d %H",
    )
    assert rows(made)["date"].tolist() == pd.date_range("2020-02-29T01", "2020-03-01", freq="h").tolist()


@pytest.mark.parametrize(
    ("date", "form"),
    [
        ("2020-12-31T24:00:01", None),
        ("2020-12-31T24:30", None),
        ("20201231 2401", "%Y%m%d %H%M"),
        ("2020-12-31 25", "%Y-%m-%d %H"),
        ("2020-24-31 12", "%Y-%m-%d %H"),
        ("2020-03-28 24:00 Europe/Paris", "%Y-%m-%d %H:%M %Z"),
    ],
)
def test_times_after_hour_24_are_no_dates(tmp_path: Path, date: str, form: str | None) -> None:
    with pytest.raises(SourceError, match=f"row 1: '{date}' is not a date"):
        rows(source(tmp_path, f"time,lat,lon\n{date},1,2\n", date_format=form))


POSITIONS = {"day": "1-8", "hour": "9-10", "lat": "12-16", "lon": "17-23", "name": "25-36", "t": "37-41", "flag": 42}


@pytest.mark.usefixtures("_blocks")
@pytest.mark.parametrize("packed", [False, True])
def test_columns_are_cut_out_of_lines_by_position(tmp_path: Path, packed: bool) -> None:
    lines = [
        f"{20200101 + i}{i:2} {i:5.1f}{-i:7.2f} {'St. Élie, ' + str(i):12}{i * 10:5}{'A' if i % 2 else ''}".rstrip()
        for i in range(24)
    ]
    text = "\n".join(["a heading", "", "* a remark", *lines, ""])
    file = tmp_path / ("a.txt.gz" if packed else "a.txt")
    file.write_bytes(gzip.compress(text.encode("latin-1")) if packed else text.encode("latin-1"))
    config = {
        "path": str(file),
        "encoding": "latin-1",
        "positions": POSITIONS,
        "skip_rows": 1,
        "comment": "*",
        "missing": 30,
        "date_format": "%Y%m%d %H",
        "flavour": {"date": ["day", "hour"], "latitude": "lat", "longitude": "lon"},
    }
    found = rows(CsvSource(config))
    assert found["date"].tolist() == [pd.Timestamp(2020, 1, 1 + i, i) for i in range(24)]
    assert found["latitude"].tolist() == list(range(24))
    assert found["longitude"].tolist() == [-i for i in range(24)]
    assert found["name"].tolist() == [f"St. Élie, {i}" for i in range(24)]
    np.testing.assert_array_equal(found["t"], [np.nan if i == 3 else i * 10 for i in range(24)])
    assert found["flag"].fillna("").tolist() == ["", "A"] * 12


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ({"positions": {"t": "5-4"}}, "'5-4' of t is not a range"),
        ({"positions": {"t": 0}}, "0 of t is not a range"),
        ({"positions": {"t": "1-4x"}}, "'1-4x' of t is not a range"),
        ({"positions": {"t": True}}, "True of t is not a range"),
        ({"positions": {}}, "is not a mapping of columns"),
        ({"positions": [4, 2]}, "is not a mapping of columns"),
        ({"positions": {"t": 1}, "names": ["t"]}, "leave out names"),
        ({"positions": {"t": 1}, "delimiter": ";", "skip_after_names": 1}, "leave out delimiter, skip_after_names"),
        ({"positions": {"t": 1}, "encoding": "utf-16"}, "positions: is not supported in text in utf-16"),
        ({"comment": "#", "encoding": "utf-16"}, "comment: is not supported in text in utf-16"),
    ],
)
def test_positions_that_are_none_are_refused(config: dict[str, Any], said: str) -> None:
    with pytest.raises(ConventionError, match=said):
        CsvSource({"path": "a", **config})


def test_text_of_another_encoding_with_positions_is_refused_by_its_file(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes("20200101 é 1".encode("latin-1"))
    positions = {"time": "1-8", "lat": 12, "lon": 12}
    with pytest.raises(SourceError, match=r"a\.txt: not text in utf-8; give another encoding"):
        rows(CsvSource({"path": str(tmp_path / "a.txt"), "positions": positions, "flavour": FLAVOUR}))


@pytest.mark.parametrize("delimiter", [",", "whitespace"])
@pytest.mark.parametrize("end", ["", "\n", "\r\n"])
@pytest.mark.parametrize("before", ["", "a heading\n"])
def test_a_file_of_names_alone_has_no_rows(tmp_path: Path, delimiter: str, end: str, before: str) -> None:
    text = before + (" " if delimiter == "whitespace" else ",").join(["time", "lat", "lon", "t"]) + end
    found = rows(source(tmp_path, text, delimiter=delimiter, skip_rows=before.count("\n")))
    assert (len(found), found.columns.tolist()) == (0, ["date", "latitude", "longitude", "t"])
