"""Statistics of changes from one time step to a later one."""

from bisect import bisect_left
from collections import defaultdict
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cfagg.errors import ConventionError
from cfagg.observations import statistics
from cfagg.observations.dates import as_duration
from cfagg.observations.statistics import TendencyGrid, cells_of, tendencies, tendency_grid
from tests.effort import examples


def computed(rows, grid, first=None, last=None):
    epochs = (rows[:, 0].astype("i8") * 86400 + rows[:, 1].astype("i8")).tolist()
    return tendencies(
        grid,
        rows.shape[1] - 4,
        # Whole slots around the rows, unless ends are given.
        epochs[0] // grid.slot * grid.slot if first is None else first,
        (epochs[-1] // grid.slot + 1) * grid.slot - 1 if last is None else last,
        lambda lo, hi: (bisect_left(epochs, lo), bisect_left(epochs, hi)),
        lambda start, stop: rows[start:stop],
    )


def grid_of(degrees, *steps):
    return tendency_grid(degrees, [as_duration(step) for step in steps])


def plainly(rows, grid, step):
    """Return all differences of means, one cell and slot after another."""
    means = defaultdict(list)
    for day, second, latitude, longitude, *values in rows.tolist():
        row = min(int((latitude + 90) // grid.degrees), -(-180 // grid.degrees) - 1)
        slot = int(day * 86400 + second) // grid.slot
        means[slot, row, int(longitude // grid.degrees)].append(values)
    means = {key: [_mean(column) for column in zip(*values, strict=True)] for key, values in means.items()}
    found = []
    for (slot, *cell), values in sorted(means.items()):
        before = means.get((slot - step // grid.slot, *cell))
        if before is not None:
            found.append([a - b for a, b in zip(values, before, strict=True)])
    return np.array(found, "f4").reshape(-1, rows.shape[1] - 4)


def _mean(values):
    known = [v for v in values if v == v]  # noqa: PLR0124
    return sum(known) / len(known) if known else np.nan


@st.composite
def tables(draw):
    size = draw(st.integers(1, 30))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    epochs = np.sort(rng.integers(0, draw(st.sampled_from([3600, 86400, 10 * 86400])), size))
    rows = np.empty((size, 6), "f4")
    rows[:, 0], rows[:, 1] = epochs // 86400, epochs % 86400
    rows[:, 2] = rng.choice([-90, -45.5, 0, 44, 45, 90], size)
    rows[:, 3] = rng.choice([0, 44.9, 45, 200, 359.9], size)
    rows[:, 4:] = rng.integers(-8, 9, (size, 2))
    rows[rng.random(size) < 0.2, 5] = np.nan
    return rows


@settings(max_examples=examples(50))
@given(tables(), st.sampled_from([("1h",), ("30min", "1h"), ("6h", "1d")]), st.sampled_from([45, 7, 0.5]))
def test_statistics_are_those_of_all_differences(rows, steps, degrees):
    grid = grid_of(degrees, *steps)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(statistics, "_BLOCK", 4)
        made = computed(rows, grid)
    for step, result in made.items():
        expected = plainly(rows, grid, step).astype("f8")
        known = ~np.isnan(expected)
        assert result["nan_count"].tolist() == (~known).sum(0).tolist()
        for j in range(expected.shape[1]):
            values = expected[known[:, j], j]
            if values.size:
                np.testing.assert_allclose(result["mean"][j], values.mean(), atol=1e-5)
                np.testing.assert_allclose(result["stdev"][j], values.std(), atol=1e-5)
                np.testing.assert_allclose(result["maximum"][j], values.max(), atol=1e-5)
            else:
                assert np.isnan(result["mean"][j])


def test_only_rows_of_the_period_count():
    rows = np.array([[0, 3600 * h, 1, 1, h * h] for h in range(5)], "f4")
    grid = grid_of(1, "1h")
    assert computed(rows, grid)[3600]["maximum"].tolist() == [7]
    assert computed(rows, grid, first=3600, last=14399)[3600]["maximum"].tolist() == [5]


def test_slots_that_are_known_in_part_do_not_count():
    """Ten rows an hour, rising by 1 each; of the last hour only the first row is known."""
    rows = np.array([[0, 360 * i, 1, 1, i] for i in range(21)], "f4")
    grid = grid_of(1, "1h")
    for last in (360 * 20, 7199, 10798):
        assert computed(rows, grid, last=last)[3600]["maximum"].tolist() == [10]
    assert computed(rows, grid, first=1, last=7199)[3600]["nan_count"].tolist() == [0]
    assert np.isnan(computed(rows, grid, first=1, last=7199)[3600]["mean"]).all()


def test_a_gap_of_a_million_slots_is_passed_over():
    rows = np.array([[0, 0, 1, 1, 1], [0, 1, 1, 1, 3], [20000, 0, 1, 1, 9], [20000, 1, 1, 1, 10]], "f4")
    asked = []
    epochs = (rows[:, 0].astype("i8") * 86400 + rows[:, 1].astype("i8")).tolist()

    def find(lo, hi):
        asked.append(lo)
        return bisect_left(epochs, lo), bisect_left(epochs, hi)

    grid = TendencyGrid(Fraction(1), (1,), 1)
    result = tendencies(grid, 1, epochs[0], epochs[-1], find, lambda a, b: rows[a:b])
    assert result[1]["mean"].tolist() == [1.5]
    assert len(asked) < 2000


def test_cells_cover_the_globe_and_no_more():
    grid = TendencyGrid(Fraction(7), (3600,), 3600)
    latitudes, longitudes = np.array([-90, 90, 90, 0], "f4"), np.array([0, 0, 359.99997, np.nan], "f4")
    assert grid.columns == 52
    assert cells_of(latitudes, longitudes, grid).tolist() == [0, 25 * 52, 25 * 52 + 51, -1]


@pytest.mark.parametrize(
    ("degrees", "steps", "places"),
    [
        (0.0, ["6h"], ["grid"]),
        (181.0, ["0.5s", "1d"], ["grid", "tendencies[0]"]),
        (1.0, ["1s", "1d"], ["tendencies[1]"]),
    ],
)
def test_all_problems_are_told_at_once(degrees, steps, places):
    with pytest.raises(ConventionError) as found:
        grid_of(degrees, *steps)
    assert [p.where for p in found.value.problems] == ["statistics." + p for p in places]


def test_slots_fit_into_all_steps():
    assert grid_of(1, "6h", "9h").slot == 3 * 3600
