"""Thinning: which rows of a sample are kept."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cfagg.errors import OptionError
from cfagg.observations.selection import Thinning, parse_thinning
from tests.effort import examples

ROWS = np.arange(1000, 5000)
PLACES = (
    np.random.default_rng(0).uniform(-90, 90, 4000).astype("f4"),
    np.random.default_rng(1).uniform(0, 360, 4000).astype("f4"),
)


def kept(thin, date: int = 0, rows=ROWS, places=PLACES) -> np.ndarray:
    return np.arange(len(rows))[parse_thinning(thin).keep(date, rows, *places)]


def test_every_nth_row_is_kept_from_the_first() -> None:
    assert kept(4).tolist() == list(range(0, 4000, 4))
    assert kept({"every": 4}).tolist() == kept(4).tolist()


def test_a_random_part_has_the_size_asked_for() -> None:
    assert abs(len(kept(0.25)) - 1000) < 4 * np.sqrt(4000 * 0.25 * 0.75)


def test_a_random_part_is_the_same_again_and_another_for_another_date_or_seed() -> None:
    first = kept({"random": 0.5, "seed": 7}).tolist()
    assert kept({"random": 0.5, "seed": 7}).tolist() == first
    assert kept({"random": 0.5, "seed": 8}).tolist() != first
    assert kept({"random": 0.5, "seed": 7}, date=3600).tolist() != first


def test_a_smaller_random_part_is_within_a_larger_one() -> None:
    assert set(kept(0.1).tolist()) <= set(kept(0.3).tolist())


def test_the_random_part_of_a_row_does_not_depend_on_the_rows_beside_it() -> None:
    some = np.flatnonzero(PLACES[0] > 30)
    alone = some[kept(0.3, rows=ROWS[some], places=(PLACES[0][some], PLACES[1][some]))]
    assert alone.tolist() == [i for i in kept(0.3).tolist() if PLACES[0][i] > 30]


def test_the_random_numbers_are_even_over_dates_and_rows() -> None:
    chosen = [len(kept(0.5, date=d, rows=ROWS[:64], places=(PLACES[0][:64], PLACES[1][:64]))) for d in range(500)]
    assert abs(np.mean(chosen) - 32) < 4 * 4 / np.sqrt(500)
    assert abs(np.std(chosen) - 4) < 0.6


@given(st.floats(0.5, 180), st.integers(0, 200))
@settings(max_examples=examples(50))
def test_a_grid_keeps_the_first_row_of_each_cell(width, count) -> None:
    lats, lons = PLACES[0][:count], PLACES[1][:count]
    expected, seen = [], set()
    for i in range(count):
        cell = (int((float(lats[i]) + 90) // width), int(float(lons[i]) // width))
        if cell not in seen:
            seen.add(cell)
            expected.append(i)
    assert kept({"grid": width}, rows=ROWS[:count], places=(lats, lons)).tolist() == expected


def test_no_rows_stay_no_rows() -> None:
    none = np.empty(0, "f4")
    for thin in (3, 0.5, {"grid": 1}):
        assert len(kept(thin, rows=ROWS[:0], places=(none, none))) == 0


@pytest.mark.parametrize(
    "thin",
    [0, -1, 1.5, 2.5, True, "4", np.nan, {"every": 0}, {"random": 0}, {"random": 1.5}, {"grid": 0}, {"grid": 200},
     {"grid": 1e-9}, {},
     {"every": 2, "grid": 1}, {"every": 2, "seed": 1}, {"random": 0.5, "seed": "a"}, {"sometimes": 2}, [4],
     {"random": "0.5"}],
)  # fmt: skip
def test_what_is_no_thinning_raises(thin) -> None:
    with pytest.raises(OptionError):
        parse_thinning(thin)


def test_a_thinning_is_taken_as_it_is() -> None:
    thinning = Thinning("grid", 2.0)
    assert parse_thinning(thinning) is thinning


def test_the_finest_grid_tells_all_cells_apart() -> None:
    lats = np.array([0, 0, 0.001, 0, 89.9995, -90], "f4")
    lons = np.array([0, 359.999, 0, 0, 359.999, 0], "f4")
    assert kept({"grid": 0.001}, rows=ROWS[:6], places=(lats, lons)).tolist() == [0, 1, 2, 4, 5]
