"""Statistics that a recipe asks for, in a store that is built of it."""

import numpy as np
import pandas as pd
import pytest
import zarr

from cfagg.errors import ConventionError, OptionError
from cfagg.observations.checking import check_store
from cfagg.observations.chosen_statistics import published_end
from cfagg.observations.creating import create_observations
from cfagg.observations.opening import open_observations
from tests.observations.test_tendencies import grid_of, plainly


def buoys(start, end):
    dates = pd.date_range(start, end, freq="997s", inclusive="left")
    rng = np.random.default_rng(dates[0].day_of_year)
    n = len(dates)
    values = {"sst": rng.normal(288, 3, n).astype("f4"), "wind": rng.gamma(2, 3, n).astype("f4")}
    values["wind"][::5] = np.nan
    return pd.DataFrame({"date": dates, "latitude": rng.choice([-40.0, 5, 60], n), "longitude": 12.5, **values})


def built(path, **statistics):
    recipe = {
        "dates": {"start": "2020-01-01", "end": "2020-01-10", "frequency": "1d"},
        "input": buoys,
        "output": {"layout": "tabular"},
        "statistics": statistics,
    }
    create_observations(recipe, path, workers=1)
    return zarr.open_group(path, mode="r", use_consolidated=False)


def test_a_recipe_without_the_section_has_statistics_of_the_first_part_of_the_period(tmp_path):
    recipe = {
        "dates": {"start": "2020-01-01", "end": "2020-01-20", "frequency": "1d"},
        "input": buoys,
        "output": {"layout": "tabular"},
    }
    report = create_observations(recipe, tmp_path / "a.zarr", workers=1)
    group = zarr.open_group(tmp_path / "a.zarr", mode="r", use_consolidated=False)
    rows = group["data"][:, :2].astype("i8")
    epochs = rows[:, 0] * 86400 + rows[:, 1]
    stop = int((epochs <= epochs[0] + 15 * 86400).sum())  # the first 16 of 20 days
    assert group.attrs["statistics_rows"] == [0, stop]
    assert "statistics: {records: all}" in report.notes[0]
    assert report.notes[0] in str(report)
    for other in ({"statistics": {"records": "all"}}, {"output": {"layout": "tabular", "format": "cfagg"}}):
        whole = create_observations({**recipe, **other}, tmp_path / "b.zarr", workers=1, overwrite=True)
        assert whole.notes == ()
        group = zarr.open_group(tmp_path / "b.zarr", mode="r", use_consolidated=False)
        assert group.attrs["statistics_rows"] == [0, len(epochs)]


def test_a_choice_without_rows_is_noted_by_a_build_and_refused_by_a_reader(tmp_path):
    recipe = {
        "dates": {"start": "2020-01-01", "end": "2020-01-02", "frequency": "1d"},
        "input": buoys,
        "output": {"layout": "tabular"},
        "statistics": {"start": "2021-01-01", "end": "2021-06-30"},
    }
    report = create_observations(recipe, tmp_path / "a.zarr", workers=1)
    assert "all statistics are missing: the recipe computes them of rows from 2021-01-01T00:00:00" in str(report)
    assert np.isnan(open_observations(tmp_path / "a.zarr", 2020, 2020).statistics["mean"]).all()
    with pytest.raises(OptionError, match=r"no row among rows from 2021-01-01.* to 2021-06-30T23:59:59"):
        open_observations(tmp_path / "a.zarr", 2020, 2020, statistics=recipe["statistics"])


def test_statistics_of_no_rows_are_missing_for_a_check_and_not_wrong(tmp_path):
    recipe = {
        "dates": {"start": "2020-01-01", "end": "2020-01-02", "frequency": "1d"},
        "input": buoys,
        "output": {"layout": "tabular"},
        "statistics": {"start": "2021-01-01", "end": "2021-06-30"},
    }
    create_observations(recipe, tmp_path / "a.zarr", workers=1)
    (finding,) = check_store(tmp_path / "a.zarr", full=True).findings
    assert (finding.code, finding.severity) == ("OBS032", "warning")
    assert "those of no row" in finding.message


#: First day, last day, and the last day whose rows count, as the published software (0.5.47) gives them.
PUBLISHED = [
    ("2020-01-01", "2020-01-01", "2020-01-01"),
    ("2020-01-01", "2020-01-09", "2020-01-07"),
    ("2020-01-01", "2020-01-31", "2020-01-24"),
    ("2010-01-01", "2018-12-31", "2017-03-13"),
    ("2000-01-01", "2012-06-30", "2011-12-31"),
    ("1979-01-01", "2020-12-31", "2017-12-31"),
]


@pytest.mark.parametrize(("first", "last", "end"), PUBLISHED)
def test_the_first_part_of_the_period_is_that_of_the_published_software(first, last, end):
    assert published_end(second(first), second(last)) == second(end)


@pytest.mark.parametrize(
    ("output", "said"),
    [
        ({"format": "zarr3"}, "'zarr3' is not written; give zarr2"),
        ({"auto_rows_per_chunk": True}, "auto_rows_per_chunk: is not supported; give rows_per_chunk"),
    ],
)
def test_forms_that_are_not_written_name_those_that_are(tmp_path, output, said):
    recipe = {"dates": {"start": 2020, "end": 2020}, "input": buoys, "output": {"layout": "tabular", **output}}
    with pytest.raises(ConventionError, match=said):
        create_observations(recipe, tmp_path / "a.zarr")


def second(text):
    return int(np.datetime64(text, "s").astype(int))


@pytest.mark.few(2)
@pytest.mark.parametrize(
    ("asked", "wanted"),
    [
        ({}, lambda e: e >= e[0]),
        ({"records": "80%"}, lambda e: np.arange(len(e)) < len(e) * 8 // 10),
        ({"period": "80%"}, lambda e: e <= e[0] + 0.8 * (e[-1] - e[0])),
        ({"end": "2020-01-03"}, lambda e: e < second("2020-01-04")),
        ({"end": "2020-01-03T00:00:00"}, lambda e: e <= second("2020-01-03")),
        ({"start": "2020-01-09T12:00:00"}, lambda e: e >= second("2020-01-09T12:00:00")),
    ],
)
def test_statistics_are_those_of_the_rows_that_are_asked_for(tmp_path, asked, wanted):
    group = built(tmp_path / "a.zarr", **asked)
    start, stop = group.attrs["statistics_rows"]
    rows = group["data"][:, :2].astype("i8")
    at = np.flatnonzero(wanted(rows[:, 0] * 86400 + rows[:, 1]))
    assert (start, stop) == (at[0], at[-1] + 1)
    chosen = group["data"][start:stop, 4:].astype("f8")
    np.testing.assert_allclose(group["mean"][:], np.nanmean(chosen, 0), rtol=1e-14)
    np.testing.assert_allclose(group["stdev"][:], np.nanstd(chosen, 0), rtol=1e-12)
    np.testing.assert_array_equal(group["maximum"][:], np.nanmax(chosen, 0))
    np.testing.assert_array_equal(group["nan_count"][:], np.isnan(chosen).sum(0))
    assert check_store(tmp_path / "a.zarr", full=True).findings == ()


def test_tendencies_are_on_the_grid_that_the_recipe_names(tmp_path):
    group = built(tmp_path / "a.zarr", tendencies=["6h", "1d"], grid=30)
    grid = grid_of(30, "6h", "1d")
    for name, step in (("6h", 21600), ("1d", 86400)):
        expected = plainly(group["data"][:], grid, step).astype("f8")
        assert len(expected) > 50
        np.testing.assert_allclose(group[f"statistics_tendencies_{name}_mean"][:], np.nanmean(expected, 0), atol=1e-5)
        np.testing.assert_allclose(group[f"statistics_tendencies_{name}_stdev"][:], np.nanstd(expected, 0), atol=1e-5)


def test_tendencies_that_cannot_be_are_told_before_anything_is_read(tmp_path):
    with pytest.raises(ConventionError) as found:
        built(tmp_path / "a.zarr", tendencies=["1s", "1d"], grid=30)
    assert [p.where for p in found.value.problems] == ["statistics.tendencies[1]"]
    assert list(tmp_path.iterdir()) == []
