"""Recipes: what they say, what is refused, and the frames they give."""

from __future__ import annotations

import pickle
from copy import deepcopy
from datetime import datetime, timedelta
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from cfagg.errors import CfaggError, ConventionError, LimitError, SourceError
from cfagg.observations.creating import create_observations
from cfagg.observations.recipe import Recipe, load_recipe
from tests.effort import examples

DAY = timedelta(days=1)
DATES = {"start": "2020-01-01", "end": "2020-01-02T18:00", "frequency": "6h"}
OUTPUT = {"layout": "tabular"}


def hourly(start: datetime, end: datetime) -> pd.DataFrame:
    dates = pd.date_range(start, end, freq="1h", inclusive="left")
    return pd.DataFrame({"date": dates, "latitude": 50.0, "longitude": 5.0, "t": np.arange(len(dates)) + 270.0})


def second(start: datetime, end: datetime) -> pd.DataFrame:
    return hourly(start, end)[::6].rename(columns={"t": "p"}).reset_index(drop=True)


def recipe(entry: Any, **sections: Any) -> Recipe:
    return load_recipe({"dates": DATES, "input": entry, "output": OUTPUT, **sections})


def table(entry: Any, **sections: Any) -> pd.DataFrame:
    found = recipe(entry, **sections)
    return pd.concat([f for p in found.parts() for f in found.frames(p)])


def problems(**sections: Any) -> list[str]:
    with pytest.raises(ConventionError) as error:
        load_recipe({"dates": DATES, "input": hourly, "output": OUTPUT, **sections})
    return [str(p) for p in error.value.problems]


PUBLISHED = """\
name: observations-test
description: Reports of stations
attribution: Nobody
licence: CC-BY-4.0
common: &area [60, -10, 40, 10]
dates:
  start: 2021-06-28T00:00:00
  end: 2021-06-29T23:59:59
  group_by: daily
  missing: [2021-06-28T05:00:00, {start: 2021-06-29T01:00:00, end: 2021-06-29T03:00:00}]
input:
  pipe:
    - csv:
        path: reports.csv
        columns: [pressure, temperature]
        flavour: {latitude: lat, longitude: lon, date: [date, time]}
    - clip-tabular: {pressure: [0, null]}
    - rename: {columns: {temperature: t}}
    - area: *area
output:
  layout: tabular
  format: zarr2
  date_indexing: btree
  rows_per_chunk: 100000
build: {max_workers: 2, max_fragment_size: 1000, variable_naming: default}
statistics: {start: 2021-06-28, end: 2021-06-29, tendencies: [6h, 12]}
"""


def test_a_published_recipe_is_understood(tmp_path: Path) -> None:
    (tmp_path / "recipe.yaml").write_text(PUBLISHED)
    (tmp_path / "reports.csv").write_text(
        "station,date,time,lat,lon,pressure,temperature\n"
        "EGLL,20210628,60000,51.5,-0.5,-1,280\n"
        "EGLL,20210628,120000,61.5,-0.5,1000,281\n"
        "EGLL,20210628,50000,51.5,-0.5,1000,282\n"
        "LFPG,20210629,0,48.9,2.5,1010,\n"
    )
    found = load_recipe(tmp_path / "recipe.yaml")
    assert found.description["licence"] == "CC-BY-4.0"
    assert (found.output.date_indexing, found.output.rows_per_chunk, found.build.max_workers) == ("btree", 100000, 2)
    assert found.statistics.tendencies == (timedelta(hours=6), timedelta(hours=12))
    assert found.parts()[:2] == [
        (datetime(2021, 6, 28), datetime(2021, 6, 28, 5)),
        (datetime(2021, 6, 28, 6), datetime(2021, 6, 29)),
    ]
    frames = pd.concat([f for p in found.parts() for f in found.frames(p)])
    assert frames["date"].tolist() == [pd.Timestamp("2021-06-28T06"), pd.Timestamp("2021-06-29")]
    assert frames.columns.tolist() == ["date", "latitude", "longitude", "pressure", "t"]
    assert frames["pressure"].tolist() == [0, 1010]
    assert found.files() == [{"source": "csv", "where": "input.pipe[0].csv", "path": str(tmp_path / "reports.csv")}]


def test_a_recipe_in_the_older_form_is_understood() -> None:
    found = load_recipe({"dates": {**DATES, "group_by": "daily"}, "input": hourly, "output": {"format": "tabular"}})
    assert (found.build.group_by, found.output.format) == ("daily", "zarr2")


def test_all_problems_are_named_with_their_places() -> None:
    found = problems(
        dates={"start": "2020-01-01", "frequncy": "6h"},
        input={"pipe": [{"csv": {"pth": "a.csv"}}, {"clip": {"t": [3, 1]}}, {"squash": {}}, "rename"]},
        output={"layout": "gridded", "dtype": "float64", "chunking": {"dates": 1}},
        build={"group_by": "fortnightly", "max_workers": 0},
        statistics={"records": "120%", "grid": 0},
        statistcs={},
    )
    places = [p.split(":")[0] for p in found]
    assert places == [
        "dates.end",
        "dates.frequncy",
        "input.pipe[0].csv.path",
        "input.pipe[0].csv.pth",
        "input.pipe[1].clip.t",
        "input.pipe[2]",
        "input.pipe[3]",
        "output.layout",
        "output.dtype",
        "output.chunking",
        "build.group_by",
        "build.max_workers",
        "statistics.records",
        "statistics.grid",
        "statistcs",
    ]
    assert "did you mean frequency?" in found[1]
    assert "did you mean statistics?" in found[-1]


def test_keys_that_are_always_refused_are_not_named_among_those_that_are_known() -> None:
    (found,) = problems(dates={**DATES, "valuse": [1]})
    assert found == "dates.valuse: is not known here (known: end, frequency, missing, start)"


@pytest.mark.parametrize(
    ("sections", "said"),
    [
        ({"dates": {"start": "2020-01-02", "end": "2020-01-01"}}, "dates.end: .* is before the start"),
        ({"dates": {"values": ["2020-01-01"]}}, "dates.values: is not for observations"),
        ({"dates": None}, "dates: is missing"),
        ({"dates": {**DATES, "missing": ["2020-01-01T01:00"]}}, r"dates.missing\[0\]: .* is not one of the dates"),
        ({"dates": {**DATES, "frequency": "-6h"}}, "dates.frequency: '-6h' is not a duration"),
        ({"input": None}, "input: is missing"),
        ({"input": {"csv": {"path": "a"}, "clip": {}}}, "input: has the names csv, clip"),
        ({"input": {"pipe": []}}, r"input.pipe: \[\] is not a list of steps"),
        ({"input": {"concat": [{"csv": {"path": "a"}}]}}, r"input.concat\[0\]: has no dates"),
        ({"input": {"callable": "os:system"}}, "'os:system' is not a mapping of settings"),
        ({"input": {"callable": {"function": "os:system"}}}, "'os:system' is not a function"),
        ({"data_sources": {"a": {}}}, "data_sources: is not understood"),
        ({"base_dates": {"start": 1}}, "base_dates: is not for observations"),
        ({"env": {"A": "B"}}, "env: is not set by cfagg"),
        ({"output": {"layout": "tabular", "format": "zarr3"}}, "output.format: 'zarr3' is not written; give zarr2"),
        ({"statistics": {"records": "80%", "period": 0.8}}, "statistics.period: excludes records"),
        ({"statistics": {"tendencies": ["6x"]}}, r"statistics.tendencies\[0\]: '6x' is not a duration"),
    ],
)
def test_what_cannot_be_honoured_is_refused(sections: dict[str, Any], said: str) -> None:
    import re

    assert any(re.search(said, p) for p in problems(**sections)), problems(**sections)


@pytest.mark.parametrize(("text", "share"), [("80%", "4/5"), (80, "4/5"), (0.8, "4/5"), ("0.5", "1/2"), (1, "1")])
def test_shares_are_read_exactly(text: object, share: str) -> None:
    assert recipe(hourly, statistics={"records": text}).statistics.records == Fraction(share)
    assert recipe(hourly, statistics={"period": text}).statistics.period == Fraction(share)


def test_yaml_keeps_times_of_day_and_refuses_keys_that_stand_twice(tmp_path: Path) -> None:
    path = tmp_path / "a.yaml"
    text = "dates: {start: 2020, end: 2020, frequency: 1:30}\ninput: {csv: {path: a}}\noutput: {layout: tabular}\n"
    path.write_text(text)
    assert load_recipe(path).dates.frequency == timedelta(minutes=90)
    path.write_text(text + "output: {}\n")
    with pytest.raises(ConventionError, match="line 4: duplicate key 'output'"):
        load_recipe(path)


#: Each line unfolds to nine times the one before.
UNFOLDING = "a: &a [1, 1, 1, 1, 1, 1, 1, 1, 1]\n" + "".join(
    f"{new}: &{new} [{', '.join([f'*{old}'] * 9)}]\n" for old, new in zip("abcdefg", "bcdefgh", strict=True)
)


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("a: [1", ConventionError),
        ("- 1", ConventionError),
        ("a: !!python/object/apply:os.system [ls]", ConventionError),
        ("\x00", ConventionError),
        ("a: " + "[" * 100 + "]" * 100, LimitError),
        (UNFOLDING, LimitError),
        ("#" * (5 * 2**20), LimitError),
    ],
)
def test_yaml_that_is_no_recipe_is_refused(tmp_path: Path, text: str, error: type[CfaggError]) -> None:
    path = tmp_path / "a.yaml"
    path.write_text(text)
    with pytest.raises(error, match=r"recipe .*a\.yaml"):
        load_recipe(path)


def test_a_recipe_that_is_not_there_is_a_source_error(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="there is no file"):
        load_recipe(tmp_path / "none.yaml")


def test_a_recipe_pickles() -> None:
    found = pickle.loads(pickle.dumps(recipe({"join": [hourly, second]})))
    assert found.document == recipe({"join": [hourly, second]}).document
    assert len(list(found.frames(found.parts()[0]))) == 2


def test_the_record_of_a_recipe_has_values_of_json_only() -> None:
    import json

    found = recipe({"pipe": [hourly, {"area": [60, -10, 40, 10]}]}, dates={**DATES, "frequency": timedelta(hours=6)})
    assert json.loads(json.dumps(found.document)) == found.document
    assert found.document["dates"]["frequency"] == "6h"
    assert found.document["input"]["pipe"][0].endswith("test_recipe:hourly")


def test_frames_are_cut_to_their_part_even_if_the_source_gives_more() -> None:
    def all_of_it(start: datetime, end: datetime) -> pd.DataFrame:
        return hourly(start - DAY, end + DAY)

    found = table(all_of_it, build={"group_by": "daily"})
    pd.testing.assert_series_equal(found["date"], table(hourly)["date"], check_index=False)


def test_dates_with_a_time_zone_are_brought_to_utc() -> None:
    def elsewhere(start: datetime, end: datetime) -> pd.DataFrame:
        frame = hourly(start, end)
        return frame.assign(date=frame["date"].dt.tz_localize("UTC").dt.tz_convert("Asia/Kolkata"))

    pd.testing.assert_frame_equal(table(elsewhere), table(hourly))


def test_join_puts_rows_together_with_the_columns_of_all() -> None:
    found = table({"join": [hourly, second]})
    assert found.columns.tolist() == ["date", "latitude", "longitude", "t", "p"]
    assert (len(found), int(found["p"].notna().sum()), int(found["t"].notna().sum())) == (56, 8, 48)


def test_join_refuses_columns_that_come_later() -> None:
    def changing(start: datetime, end: datetime) -> list[pd.DataFrame]:
        return [hourly(start, end), second(start, end)]

    with pytest.raises(ConventionError, match="also has the columns p, which the first ones"):
        table({"join": [changing]})


def test_join_refuses_columns_that_a_later_frame_of_a_source_lacks() -> None:
    def changing(start: datetime, end: datetime) -> list[pd.DataFrame]:
        return [hourly(start, end), hourly(start, end).drop(columns="t")]

    with pytest.raises(ConventionError, match="a later frame lacks the columns t, which the first one has"):
        table({"join": [changing, second]})


def test_concat_reads_each_input_for_its_own_dates() -> None:
    first = {"dates": {"start": "2020-01-01", "end": "2020-01-01T18:00"}, "callable": hourly}
    later = {"dates": {"start": "2020-01-02", "end": 2020, "frequency": "1d"}, "pipe": [second, {"rename": {"p": "t"}}]}
    found = table({"concat": [first, later]})
    assert len(found[found["date"] < "2020-01-02"]) == 24
    assert len(found[found["date"] >= "2020-01-02"]) == 4


def test_filters_keep_and_change_attributes_of_columns() -> None:
    def described(start: datetime, end: datetime) -> pd.DataFrame:
        frame = hourly(start, end).assign(q=0.0)
        frame.attrs["variables"] = {"t": {"units": "K", "standard_name": "air_temperature"}, "q": {"units": "1"}}
        return frame

    pipe = [described, {"convert_units": {"t": "degC"}}, {"rename": {"t": "q", "q": "t"}}, {"drop": ["t"]}]
    found = recipe({"pipe": pipe})
    frame = next(found.frames(found.parts()[0]))
    assert frame.attrs["variables"] == {"q": {"units": "degC", "standard_name": "air_temperature"}}
    assert frame["q"].iloc[0] == pytest.approx(-3.15)


def broken(what: str) -> Any:
    def source(start: datetime, end: datetime) -> Any:
        frame = hourly(start, end)
        if start < datetime(2020, 1, 2):
            return frame
        match what:
            case "raises":
                raise RuntimeError("the archive is closed")
            case "none":
                return None
            case "columns":
                return frame.drop(columns=["latitude", "date"])
            case "twice":
                return pd.concat([frame, frame["t"]], axis=1)
            case "nat":
                return frame.assign(date=frame["date"].where(frame.index != 3))
            case "text dates":
                return frame.assign(date=frame["date"].astype(str))
            case "latitude":
                return frame.assign(latitude=np.where(frame.index == 3, 91.0, 50.0))
            case "no latitude":
                return frame.assign(latitude=np.where(frame.index == 3, np.nan, 50.0))
            case "longitude":
                return frame.assign(longitude=-999.0)
            case "text":
                return frame.assign(t=[1.0] * 3 + ["warm"] * (len(frame) - 3))
            case "complex":
                return frame.assign(t=1j)
            case "reserved":
                return frame.rename(columns={"t": "__time"})
        return frame

    return source


@pytest.mark.parametrize(
    ("what", "said"),
    [
        ("raises", "RuntimeError: the archive is closed"),
        ("none", "gave NoneType, expected a pandas DataFrame"),
        ("columns", "date: is missing; the columns are longitude, t.*\n.*latitude: is missing"),
        ("twice", "t: names two columns"),
        ("nat", "row 3: date is NaT"),
        ("text dates", "date: has type (str|object), expected datetime64"),
        ("latitude", "row 3: latitude is 91.0, expected -90 to 90 degrees"),
        ("no latitude", "row 3: latitude is nan"),
        ("longitude", "row 0 and 23 more: longitude is -999.0"),
        ("text", r"row 3 and 20 more: t is 'warm' \(object\), expected a number"),
        ("complex", "row 0 and 23 more: t is "),
        ("reserved", "__time: is a name that stores reserve"),
    ],
)
def test_bad_input_names_source_part_and_row(what: str, said: str) -> None:
    found = recipe({"pipe": [broken(what), {"drop_duplicates": None}]}, build={"group_by": "daily"})
    first, bad = found.parts()
    assert len(list(found.frames(first))) == 1
    with pytest.raises(CfaggError, match=said) as error:
        list(found.frames(bad))
    assert "callable (input.pipe[0]" in str(error.value)
    assert "2020-01-02T00:00:00 to 2020-01-03T00:00:00" in str(error.value)


def test_a_filter_that_raises_or_loses_a_column_is_named() -> None:
    for change, said in (
        (lambda frame: frame.drop(columns="date"), "date: is missing"),
        (lambda frame: frame["no"], "KeyError: 'no'"),
        (lambda frame: None, "gave NoneType"),
    ):
        with pytest.raises(CfaggError, match=said) as error:
            table({"pipe": [hourly, change]})
        assert "filter callable (input.pipe[1].callable)" in str(error.value)


def test_numbers_of_pandas_own_types_are_numbers() -> None:
    def nullable(start: datetime, end: datetime) -> pd.DataFrame:
        return hourly(start, end).astype({"t": "Float64"}).assign(n=pd.array([1] * 48, "Int16"), b=True)

    assert len(table(nullable)) == 48


def test_a_column_of_nothing_but_missing_text_is_no_problem() -> None:
    def empty(start: datetime, end: datetime) -> pd.DataFrame:
        return hourly(start, end).assign(t=None)

    assert table(empty)["t"].isna().all()


def test_files_that_are_not_there_are_named_with_their_source() -> None:
    with pytest.raises(SourceError, match=r"source csv \(input.csv\): .*/none\.csv: no such file"):
        recipe({"csv": {"path": "none.csv"}}).files()


def test_either_spelling_of_licence_is_kept() -> None:
    assert recipe(hourly, license="CC0").description == {"licence": "CC0"}


JUNK = st.sampled_from(
    [None, True, 0, -1, 10**30, 1.5, float("nan"), "", "x", "2020", "9999-12-31", [], [[]], {}, {"": 1}, {1: 2}, [None]]
)


def nodes(value: Any) -> list[tuple[Any, Any]]:
    """Return every place of a document: the container and the key."""
    keys = list(value) if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else []
    return [(value, k) for k in keys] + [n for k in keys for n in nodes(value[k])]


@settings(max_examples=examples(50))
@given(st.data())
def test_a_recipe_with_anything_anywhere_is_read_or_refused_in_words(data: st.DataObject) -> None:
    document = yaml.safe_load(PUBLISHED)
    document["input"] = {
        "join": [
            document["input"],
            {"concat": [{"dates": {"start": "2021-06-28", "end": "2021-06-29"}, "observations": {"path": "a.zarr"}}]},
            {"pipe": [{"netcdf": {"path": ["a", "b"]}}, {"thin": {"grid": 1.0, "every": "1h"}}]},
            {"pipe": [{"parquet": {"path": "a"}}, {"convert_units": {"t": "K"}}, {"mask": {"t": {"value": 1}}}]},
        ]
    }
    for _ in range(data.draw(st.integers(1, 3))):
        container, key = data.draw(st.sampled_from(nodes(document)))
        container[key] = deepcopy(data.draw(JUNK))
    try:
        found = load_recipe(document)
        found.parts()
    except CfaggError as error:
        assert error.problems or isinstance(error, LimitError)  # noqa: PT017


@pytest.mark.parametrize("nothing", [{}, {"date": [], "latitude": [], "longitude": [], "x": []}])
def test_a_frame_without_rows_needs_no_columns_and_no_types(nothing):
    def source(start, end):
        if start.day == 2:
            return pd.DataFrame(nothing)
        return pd.DataFrame({"date": [start], "latitude": [0.0], "longitude": [0.0], "x": [1.0]})

    recipe = load_recipe(
        {
            "dates": {"start": "2020-01-01", "end": "2020-01-03", "frequency": "1d"},
            "input": {"pipe": [source, {"clip": {"x": [0, 2]}}]},
            "build": {"group_by": "daily"},
            "output": {"layout": "tabular"},
        }
    )
    assert [sum(map(len, recipe.frames(part))) for part in recipe.parts()] == [1, 0, 1]


@pytest.mark.parametrize("name", ["x" * 5000, "*" + "x" * 5000, "a[" + "y" * 5000, "nul\0.csv"])
def test_names_that_no_file_can_have_raise_our_errors(tmp_path: Path, name: str) -> None:
    path = tmp_path / "recipe.yaml"
    document = {"dates": DATES, "input": {"csv": {"path": name}}, "output": OUTPUT}
    path.write_text(yaml.safe_dump(document), encoding="utf-8")
    with pytest.raises(CfaggError):
        create_observations(path, tmp_path / "a.zarr")
