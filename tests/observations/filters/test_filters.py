"""Filters: frames in, frames out."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cfagg.errors import ConventionError
from cfagg.observations.dates import Period
from cfagg.observations.recipe import load_recipe
from cfagg.observations.registry import find
from tests.effort import examples

HOUR = timedelta(hours=1)


def made(name: str, config: dict[str, Any]) -> Any:
    found = find("filters", name)
    assert found is not None
    return found(config)


def frame(n: int = 6) -> pd.DataFrame:
    return pd.DataFrame(
        {
            "date": pd.date_range("2020-01-01", periods=n, freq="20min"),
            "latitude": np.linspace(-50, 50, n),
            "longitude": np.linspace(0, 359, n),
            "t": np.arange(n) + 270.0,
            "rain": [-1.0, np.nan, 0.5, 0.0, 7.0, 100.0][:n],
        }
    )


@pytest.mark.parametrize(
    ("name", "config", "column", "expected"),
    [
        ("clip", {"rain": [0, 5]}, "rain", [0, np.nan, 0.5, 0, 5, 5]),
        ("clip", {"rain": [None, 5]}, "rain", [-1, np.nan, 0.5, 0, 5, 5]),
        ("mask_outside_range", {"rain": [0, 7]}, "rain", [np.nan, np.nan, 0.5, 0, 7, np.nan]),
        ("mask_outside_range", {"rain": [0, None]}, "rain", [np.nan, np.nan, 0.5, 0, 7, 100]),
        ("mask", {"rain": {"value": 7}, "t": {"value": 0, "operator": "<"}}, "rain", [-1, np.nan, 0.5, 0, np.nan, 100]),
        ("mask", {"rain": {"value": 0, "operator": ">="}}, "rain", [-1, np.nan, np.nan, np.nan, np.nan, np.nan]),
        ("mask_infs", {"column_prefix": "t"}, "t", np.arange(6) + 270.0),
        ("exclude_dates", {"t": [20190101, 20200101]}, "t", [np.nan] * 6),
        ("exclude_dates", {"t": [20200101, 99991231]}, "t", [np.nan] * 6),
        ("exclude_dates", {"t": [["2019-01-01", "2019-12-31"], [20200102, 20200103]]}, "t", np.arange(6) + 270.0),
        ("convert_units", {"t": {"from": "K", "to": "degC"}}, "t", np.arange(6) - 3.15),
        ("drop_nans", {"columns": ["rain"]}, "rain", [-1, 0.5, 0, 7, 100]),
        ("drop_nans", {"columns": ["rain", "t"], "how": "all"}, "rain", [-1, np.nan, 0.5, 0, 7, 100]),
        ("drop_nans", {"column_prefix": "ra"}, "rain", [-1, 0.5, 0, 7, 100]),
        ("area", {"area": [20, -180, -20, 180]}, "t", [272, 273]),
        ("area", {"area": [90, 280, -90, 360]}, "t", [270, 274, 275]),
    ],
)
def test_values_and_rows_are_as_the_filter_says(
    name: str, config: dict[str, Any], column: str, expected: list[float]
) -> None:
    given_frame = frame()
    found = made(name, config).transform(given_frame)
    np.testing.assert_allclose(found[column], expected, rtol=1e-14, atol=1e-12)
    pd.testing.assert_frame_equal(given_frame, frame())


def test_rows_without_any_value_are_dropped_although_they_have_a_date_and_a_place() -> None:
    given = frame().assign(t=[np.nan, np.nan, 1, 2, 3, 4])
    found = made("drop_nans", {"how": "all"}).transform(given)
    np.testing.assert_array_equal(found["rain"], [-1, 0.5, 0, 7, 100])
    places = given[["date", "latitude", "longitude"]]
    assert len(made("drop_nans", {"how": "all"}).transform(places)) == len(places)


def test_the_edges_of_an_area_belong_to_it() -> None:
    places = [(20, 0), (-20, 0), (0, -10), (0, 10), (20.5, 0), (-20.5, 0), (0, -10.5), (0, 10.5)]
    found = made("area", {"area": [20, -10, -20, 10]}).transform(
        pd.DataFrame(places, columns=["latitude", "longitude"], dtype="f8")
    )
    assert found.index.tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("area", "longitude", "inside"),
    [
        ([90, 350, -90, 10], 0.0, True),
        ([90, 350, -90, 10], -10.0, True),
        ([90, 350, -90, 10], 10.0, True),
        ([90, 350, -90, 10], 10.01, False),
        ([90, -10, -90, 10], 355.0, True),
        ([90, 170, -90, -170], 180.0, True),
        ([90, 170, -90, -170], 0.0, False),
        ([90, 10, -90, 350], 0.0, False),
        ([90, -180, -90, 180], 77.0, True),
        ([90, 180, -90, -180], 77.0, True),
        ([90, 270, -90, -100], 265.0, False),
        ([90, 270, -90, -100], 77.0, True),
        ([90, 0, -90, 360], 359.99, True),
        ([90, 5, -90, 5], 5.0, True),
        ([90, 5, -90, 5], 6.0, False),
        # On a bound, in single precision or in the other convention.
        ([90, 359.8, -90, 359.9], -0.1, True),
        ([90, -0.2, -90, -0.1], 359.9, True),
        ([90, 10.1, -90, 20.3], float(np.float32(20.3)), True),
        ([90, 0, -90, 360 - 1e-9], 180.0, True),
    ],
)
def test_an_area_may_lie_across_any_meridian(area: list[float], longitude: float, inside: bool) -> None:
    found = made("area", {"area": area}).transform(pd.DataFrame({"latitude": [0.0], "longitude": [longitude]}))
    assert len(found) == inside


def test_columns_are_chosen_and_named() -> None:
    assert list(made("select", {"columns": ["rain"]}).transform(frame())) == ["date", "latitude", "longitude", "rain"]
    assert list(made("drop", {"columns": ["rain"]}).transform(frame())) == ["date", "latitude", "longitude", "t"]
    for config in ({"columns": {"t": "rain", "rain": "t"}}, {"t": "rain", "rain": "t"}):
        assert list(made("rename", config).transform(frame()))[3:] == ["rain", "t"]


def test_the_first_of_duplicates_stays() -> None:
    twice = pd.concat([frame(), frame().assign(t=0.0)], ignore_index=True)
    found = made("drop_duplicates", {"columns": ["date", "rain"]}).transform(twice)
    assert found["t"].tolist() == frame()["t"].tolist()
    assert len(made("drop_duplicates", {}).transform(pd.concat([frame(), frame()]))) == 6


def test_sorting_decides_which_of_duplicates_stays() -> None:
    def graded(start: datetime, end: datetime) -> list[pd.DataFrame]:
        rows = frame().assign(grade=[3, 1, 2, 3, 2, 1])
        return [rows, rows.assign(t=0.0, grade=[1, 2, 3, 1, 2, 3])]

    recipe = load_recipe(
        {
            "dates": {"start": "2020-01-01", "end": "2020-01-01T23:00"},
            "input": {"pipe": [graded, {"sort_by": ["grade"]}, {"drop_duplicates": ["date"]}]},
            "output": {"layout": "tabular"},
        }
    )
    (found,) = recipe.frames(recipe.parts()[0])
    assert found.sort_values("date")["t"].tolist() == [0, 271, 272, 0, 274, 275]


def test_units_of_the_source_are_used_and_not_contradicted() -> None:
    described = frame()
    described.attrs["variables"] = {"t": {"units": "K"}}
    assert made("convert_units", {"t": "degF"}).transform(described)["t"].iloc[0] == pytest.approx(26.33)
    with pytest.raises(ConventionError, match="t: is in 'K' by its source, not in 'degC'"):
        made("convert_units", {"t": {"from": "degC", "to": "degF"}}).transform(described)
    with pytest.raises(ConventionError, match="t: has no units to convert"):
        made("convert_units", {"t": "degF"}).transform(frame())


@pytest.mark.parametrize("column", [pd.to_timedelta([1] * 6, "h"), pd.to_datetime(["2020-01-01"] * 6)])
def test_durations_and_dates_are_not_converted_as_numbers(column: Any) -> None:
    with pytest.raises(ConventionError, match="t: is not numeric but"):
        made("convert_units", {"t": {"from": "s", "to": "min"}}).transform(frame().assign(t=column))


@pytest.mark.parametrize(
    ("name", "config"),
    [
        ("clip", {"raim": [0, 1]}),
        ("mask_outside_range", {"raim": [0, 1]}),
        ("convert_units", {"raim": {"from": "K", "to": "K"}}),
        ("drop", {"columns": ["raim"]}),
        ("drop_nans", {"columns": ["raim"]}),
        ("drop_nans", {"column_prefix": "raim"}),
        ("drop_duplicates", {"columns": ["date", "raim"]}),
        ("rename", {"raim": "rain"}),
        ("select", {"columns": ["raim"]}),
        ("mask", {"raim": {"value": 1}}),
        ("mask_infs", {"columns": ["raim"]}),
        ("exclude_dates", {"raim": [20200101, 20200102]}),
        ("sort_by", {"columns": ["raim"]}),
    ],
)
def test_columns_that_are_not_there_are_named_with_a_hint(name: str, config: dict[str, Any]) -> None:
    with pytest.raises(ConventionError, match=r"raim: is not a column; did you mean rain\?"):
        made(name, config).transform(frame())


@pytest.mark.parametrize(
    ("name", "setting", "expected"),
    [
        ("clip", [0.25, 0.5], [0.5, 0.25, 0.5]),
        ("mask_outside_range", [0.5, None], [1, np.nan, 1]),
        ("mask", {"value": 1}, [np.nan, 0, np.nan]),
        ("exclude_dates", [20200101, 20200101], [np.nan] * 3),
    ],
)
def test_truth_values_are_numbers_where_some_are_replaced(name: str, setting: Any, expected: list[float]) -> None:
    found = made(name, {"wet": setting}).transform(frame(3).assign(wet=[True, False, True]))["wet"]
    assert found.dtype == np.float32
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("unit", ["s", "us", "ns"])
def test_days_beyond_what_nanoseconds_hold_may_be_excluded(unit: str) -> None:
    given = frame().astype({"date": f"datetime64[{unit}]"})
    found = made("exclude_dates", {"t": [20200101, 99991231]}).transform(given)
    assert found["t"].isna().all()


@pytest.mark.parametrize(
    ("name", "config", "said"),
    [
        ("clip", {}, "has no columns"),
        ("clip", {"t": [1]}, "not a pair"),
        ("clip", {"t": ["a", 1]}, "neither numbers nor null"),
        ("clip", {"t": [2, 1]}, "is above the largest"),
        ("clip", {"latitude": [0, 1]}, "latitude: is not changed"),
        ("area", {"area": [1, 2, 3]}, "not a list of north, west"),
        ("area", {"area": [10, 0, 20, 1]}, "not in order"),
        ("area", {"area": [100, 0, 20, 1]}, "not in order"),
        ("drop", {"columns": ["date"]}, "date must stay"),
        ("drop", {}, "has no names"),
        ("select", {"columns": [1]}, "not a list of names"),
        ("rename", {}, "has no names"),
        ("rename", {"t": 1}, "1 is not a name"),
        ("drop_duplicates", {"columns": ["t"]}, "must include date"),
        ("drop_duplicates", {"column_prefix": "t"}, "is not understood"),
        ("drop_nans", {"how": "some"}, "is not one of any, all"),
        ("drop_nans", {"columns": ["t"], "column_prefix": "t"}, "excludes columns"),
        ("convert_units", {"t": {"from": "K", "to": "m"}}, "cannot be converted"),
        ("convert_units", {"t": {"from": "K"}}, "t.to: is missing"),
        ("mask", {"t": 3}, "3 is not a mapping"),
        ("mask", {"t": {"value": float("nan")}}, "t.value: nan is not a finite number"),
        ("clip", {"t": [0, float("inf")]}, "has limits that are neither numbers nor null"),
        ("mask", {"t": {"operator": "<"}}, "t.value: is missing"),
        ("mask", {"t": {"value": 1, "operator": "~"}}, "is not one of"),
        ("mask", {"date": {"value": 1}}, "cannot be made missing"),
        ("mask_infs", {}, "or column_prefix is required"),
        ("exclude_dates", {"t": [20200102, 20200101]}, "not a pair of a first and a last day"),
        ("exclude_dates", {"t": 2020}, "not a pair of a first and a last day"),
        ("exclude_dates", {}, "has no columns"),
        ("sort_by", {}, "has no names"),
        ("thin", {}, "or grid is required"),
        ("thin", {"fraction": 0.5, "grid": 1}, "or grid is required"),
        ("thin", {"fraction": 1.5}, "1.5 is not a share"),
        ("thin", {"grid": 0}, "not a size of cells"),
        ("thin", {"grid": 1e-18}, "1e-18 is not a size of cells, expected degrees from 1e-9"),
        ("thin", {"grid": 1, "seed": 3}, "has no meaning with grid"),
        ("thin", {"fraction": 0.5, "every": "1h"}, "has no meaning with fraction"),
    ],
)
def test_settings_that_are_not_possible_are_refused(name: str, config: dict[str, Any], said: str) -> None:
    with pytest.raises(ConventionError) as error:
        made(name, config)
    assert said in str(error.value)


def scattered(n: int, seed: int = 0) -> pd.DataFrame:
    random = np.random.default_rng(seed)
    dates = np.datetime64("2020-01-01", "us") + random.integers(0, 86400 * 4, n).astype("m8[s]")
    places = {"latitude": random.uniform(-90, 90, n), "longitude": random.uniform(-180, 360, n)}
    return pd.DataFrame({"date": dates, **places, "n": np.arange(n)})


def test_a_fraction_is_drawn_evenly_and_again_the_same() -> None:
    rows = scattered(40_000)
    kept = made("thin", {"fraction": 0.1}).transform(rows)
    assert abs(len(kept) - 4000) < 5 * 60
    shuffled = made("thin", {"fraction": 0.1}).transform(rows.sample(frac=1, random_state=1))
    assert sorted(shuffled["n"]) == kept["n"].tolist()
    other = made("thin", {"fraction": 0.1, "seed": 1}).transform(rows)
    assert len(set(other["n"]) & set(kept["n"])) < 600
    assert len(made("thin", {"fraction": 1}).transform(rows)) == len(rows)


def test_rows_of_one_date_and_place_stay_or_go_together() -> None:
    profiles = pd.concat([scattered(1000).assign(level=i) for i in range(5)])
    kept = made("thin", {"fraction": 0.3}).transform(profiles)
    assert (kept.groupby("n").size() == 5).all()


def test_a_cell_keeps_its_earliest_row_in_each_time() -> None:
    rows = scattered(3000)
    kept = made("thin", {"grid": 30.0, "every": "6h"}).transform(rows)
    cells = rows.assign(
        time=rows["date"].dt.floor("6h"),
        row=np.floor((rows["latitude"] + 90) / 30),
        column=rows["longitude"] % 360 // 30,
    )
    first = cells.sort_values(["date", "n"]).groupby(["time", "row", "column"]).head(1)
    assert sorted(kept["n"]) == sorted(first["n"])


def test_a_time_that_does_not_fit_the_dates_of_the_recipe_is_refused() -> None:
    period = Period(datetime(2020, 1, 1), datetime(2020, 1, 2), 6 * HOUR)
    assert made("thin", {"grid": 1.0, "every": "3h"}).check(period) == []
    assert made("thin", {"fraction": 0.5}).check(period) == []
    assert "does not fit the dates" in made("thin", {"grid": 1.0, "every": "4h"}).check(period)[0]
    assert made("thin", {"grid": 1.0, "every": "4h"}).check(Period(datetime(2020, 1, 1, 6), period.last, 12 * HOUR))


@settings(max_examples=examples(12))
@given(
    st.integers(0, 200),
    st.sampled_from(
        [
            {"thin": {"fraction": 0.5}},
            {"thin": {"grid": 45.0, "every": "1h"}},
            {"drop_duplicates": {"columns": ["date", "n"]}},
            {"area": [50, -30, -50, 200]},
        ]
    ),
    st.sampled_from(["daily", "3h", 7, None]),
    st.integers(1, 50),
)
def test_what_filters_keep_does_not_depend_on_parts_or_frames(
    n: int, step: dict[str, Any], group_by: object, size: int
) -> None:
    rows = scattered(n).assign(n=lambda f: f["n"] % 7)
    rows["date"] = rows["date"].dt.floor("10min")

    def pieces(start: datetime, end: datetime) -> list[pd.DataFrame]:
        part = rows[(rows["date"] >= start) & (rows["date"] < end)]
        return [part.iloc[i : i + size] for i in range(0, max(len(part), 1), size)]

    def kept(group: object) -> list[int]:
        recipe = load_recipe(
            {
                "dates": {"start": "2020-01-01", "end": "2020-01-04T23:00", "frequency": "1h"},
                "input": {"pipe": [pieces, step]},
                "output": {"layout": "tabular"},
                "build": {"group_by": group or "all"},
            }
        )
        return sorted(i for part in recipe.parts() for f in recipe.frames(part) for i in f.index)

    found = kept(group_by)
    size = 10**6  # one frame
    assert found == kept(None)
