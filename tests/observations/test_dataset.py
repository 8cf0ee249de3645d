"""Datasets: samples are the rows that a plain comparison of dates finds."""

from __future__ import annotations

import pickle
import shutil
from fractions import Fraction

import numpy as np
import pytest
import zarr
from hypothesis import given, settings
from hypothesis import strategies as st

from cfagg.errors import CfaggWarning, ConventionError, FragmentReadError, OptionError, SelectionError, StaleError
from cfagg.observations.dates import parse_window
from cfagg.observations.indexes import build_pages
from cfagg.observations.opening import open_observations
from cfagg.observations.selection import Area, Thinning
from cfagg.observations.store import open_store
from tests.effort import examples
from tests.observations.small_stores import NEW_YEAR, VARIABLES, epochs_of, hourly, table, write
from tests.oracles import in_window
from tests.strategies import offsets, slices

FIRST, LAST = "2019-12-31T18:00:00", "2020-01-04T06:00:00"
SAMPLES = 15


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    """A store of three days, and its rows."""
    return hourly(tmp_path_factory.mktemp("store") / "synop.zarr", variables_metadata={"t": {"units": "K"}})


@pytest.fixture
def ds(kept):
    return open_observations(kept[0], FIRST, LAST, "(-3,+3]", "6h")


def expected(rows, date, window):
    w = parse_window(window)
    inside = [in_window(int(e), date, w.start, w.end, w.closed_start, w.closed_end) for e in epochs_of(rows)]
    return rows[np.array(inside, bool)]


def same(sample, rows) -> bool:
    return (
        np.array_equal(np.asarray(sample), rows[:, 4:])
        and np.array_equal(sample.latitudes, rows[:, 2])
        and np.array_equal(sample.longitudes, rows[:, 3])
        and np.array_equal(sample.dates, epochs_of(rows).view("M8[s]"))
    )


def test_each_sample_has_the_rows_of_its_window(ds, kept) -> None:
    for i, date in enumerate(ds.dates.astype("i8").tolist()):
        assert same(ds[i], expected(kept[1], date, "(-3,+3]"))
        assert np.array_equal(ds[i].timedeltas, ds[i].dates.astype("i8") - date)


@given(offsets(), offsets(), st.booleans(), st.booleans(), st.integers(-86400, 4 * 86400))
@settings(max_examples=examples(50))
def test_any_window_has_the_rows_that_its_ends_admit(kept, before, after, closed_start, closed_end, date) -> None:
    text = f"{'[' if closed_start else '('}{before[0]},{after[0]}{']' if closed_end else ')'}"
    try:
        parse_window(text)
    except OptionError:
        return
    when = np.datetime64(NEW_YEAR + date, "s")
    ds = open_observations(kept[0], when, when, text, "1h")
    assert same(ds[0], expected(kept[1], NEW_YEAR + date, text))


def test_observations_on_a_closed_end_belong_to_the_window_and_on_an_open_end_not(tmp_path) -> None:
    rows = table([NEW_YEAR - 10800, NEW_YEAR - 10800, NEW_YEAR, NEW_YEAR + 10800])
    path = write(tmp_path / "a.zarr", rows)
    sizes = {w: len(open_observations(path, 2020, 2020, w, "1d")[0]) for w in ("[-3,3]", "(-3,3]", "[-3,3)", "(-3,3)")}
    assert sizes == {"[-3,3]": 4, "(-3,3]": 2, "[-3,3)": 3, "(-3,3)": 1}


def test_samples_outside_the_data_have_no_rows(kept) -> None:
    with pytest.warns(
        CfaggWarning, match=r"no observation is in .* of 1900-01-01.* the store has those of 2020-01-01T"
    ):
        ds = open_observations(kept[0], 1900, "1900-01-02", "(-3,3]", "1d")
    assert [x.shape for x in ds] == [(0, 3), (0, 3)]
    assert ds[0].latitudes.shape == ds.details(1).dates.shape == (0,)
    assert ds[:].shape == (0, 3)


@pytest.mark.parametrize("pages", [False, True])
def test_of_years_in_a_gap_between_observations_there_is_a_warning(tmp_path, pages) -> None:
    path = write(tmp_path / "a.zarr", table([NEW_YEAR, NEW_YEAR + 9 * 86400]))
    if pages:
        build_pages(open_store(path))
    with pytest.warns(CfaggWarning, match="all samples are empty"):
        open_observations(path, "2020-01-02", "2020-01-09", "(-3,3]", "6h")
    # One sample of many, or one that was asked for alone, is an answer.
    open_observations(path, "2020-01-02", "2020-01-10", "(-3,3]", "6h")
    assert len(open_observations(path, "2020-01-02T00", "2020-01-02T00", "(-3,3]", "6h")[0]) == 0


def test_a_store_without_rows_gives_samples_without_rows(tmp_path) -> None:
    with pytest.warns(CfaggWarning, match="the store holds none"):
        ds = open_observations(write(tmp_path / "empty.zarr", table([])), 2020, "2020-01-02", "(-3,3]", "1d")
    assert [len(x) for x in ds] == [0, 0]


def test_dates_left_out_are_those_of_the_data(kept) -> None:
    ds = open_observations(kept[0])
    epochs = epochs_of(kept[1])
    assert ds.dates[0].astype("i8") == epochs[0]
    assert 0 <= epochs[-1] - ds.dates[-1].astype("i8") < 3 * 3600
    assert str(ds.window) == "(-3h,0s]"


@given(slices(SAMPLES))
@settings(max_examples=examples(30))
def test_slices_of_samples_have_the_rows_of_each_in_turn(kept, key) -> None:
    ds = open_observations(kept[0], FIRST, LAST, "(-3,+3]", "6h")
    several, singles = ds[key], [ds[i] for i in range(SAMPLES)[key]]
    assert np.array_equal(several, np.concatenate([np.empty((0, 3), "f4"), *singles]))
    assert [several[b].shape for b in several.boundaries] == [x.shape for x in singles]
    for rows, x in zip(several.boundaries, singles, strict=True):
        assert np.array_equal(several[rows].timedeltas, x.timedeltas)
        assert np.array_equal(several.latitudes[rows], x.latitudes)
    assert np.array_equal(several.reference_dates, ds.dates[key])


@given(st.lists(st.integers(-SAMPLES, SAMPLES - 1), max_size=8))
@settings(max_examples=examples(20))
def test_lists_of_samples_have_the_rows_of_each_in_turn(kept, key) -> None:
    ds = open_observations(kept[0], FIRST, LAST, "(-3,+3]", "6h")
    wanted = np.concatenate([np.empty((0, 3), "f4"), *(ds[i] for i in key)])
    for kind in (key, np.array(key, np.int16)):
        assert np.array_equal(ds[kind], wanted)


def test_a_mask_of_samples_selects_them(ds) -> None:
    mask = np.arange(SAMPLES) % 4 == 1
    assert np.array_equal(ds[mask], ds[[1, 5, 9, 13]])
    assert np.array_equal(ds[mask.tolist()], ds[1::4])


@pytest.mark.parametrize(
    "key",
    [SAMPLES, -SAMPLES - 1, [0, SAMPLES], [[0, 1]], np.ones(3, bool), True, np.True_, 1.0, [1.5], "0", None, (0, 0, 0),
     slice("a", None)],
)  # fmt: skip
def test_samples_that_are_not_there_raise_an_index_error(ds, key) -> None:
    with pytest.raises(SelectionError) as caught:
        ds[key]
    assert isinstance(caught.value, IndexError)


def test_columns_of_a_sample_are_selected_after_a_comma(ds) -> None:
    assert np.array_equal(ds[5, 1:], ds[5][:, 1:])
    assert ds[5, [2, 0]].columns == ("v", "t")


def test_iterating_gives_every_sample_once(ds) -> None:
    assert [len(x) for x in ds] == ds.counts.tolist()


def test_the_ranges_of_all_samples_are_those_of_each(ds, kept) -> None:
    for (start, stop), x in zip(ds.ranges.tolist(), ds, strict=True):
        assert same(x, kept[1][start:stop])


def test_samples_asked_for_many_times_stay_the_same(kept) -> None:
    ds = open_observations(kept[0], FIRST, LAST, "(-3,+3]", "6h")
    first = [np.array(x) for x in ds]
    for _ in range(4):
        for i, x in enumerate(first):
            assert np.array_equal(ds[i - SAMPLES], x)
    assert np.array_equal(pickle.loads(pickle.dumps(ds))[3], first[3])


def test_details_are_those_of_the_sample(ds) -> None:
    for key in (4, -1, slice(2, 9, 3), [7, 1]):
        x, d = ds[key], ds.details(key)
        for name in ("latitudes", "longitudes", "dates", "timedeltas", "reference_dates"):
            assert np.array_equal(getattr(x, name), getattr(d, name))


# ---- variables, areas, thinning --------------------------------------------------------------------------------


def test_selected_variables_come_in_their_order_with_statistics_and_attributes(ds) -> None:
    other = ds.subset(select=["v", "t"], rename={"t": "temperature"})
    assert other.variables == other.columns == ("v", "temperature")
    assert np.array_equal(other[5], np.asarray(ds[5])[:, [2, 0]])
    assert np.array_equal(other[5].latitudes, ds[5].latitudes)
    assert other.name_to_index == {"v": 0, "temperature": 1}
    assert other.variables_metadata == {"temperature": {"units": "K"}}
    for name, values in ds.statistics.items():
        assert np.array_equal(other.statistics[name], values[[2, 0]])


def test_statistics_are_those_of_the_store(ds, kept) -> None:
    values = kept[1][:, 4:].astype("f8")
    assert np.allclose(ds.statistics["mean"], values.mean(axis=0))
    assert np.allclose(ds.statistics["stdev"], values.std(axis=0))
    assert set(ds.statistics) >= {"mean", "minimum", "maximum", "stdev"}


@pytest.mark.parametrize("kind", ["data", "deltatime"])
@pytest.mark.parametrize("select", [None, ["v"]])
def test_an_area_and_thinning_keep_the_rows_that_they_describe(ds, kind, select) -> None:
    area, thin = Area(60, -170, -60, 100), Thinning("random", 0.5, 3)
    other = ds.subset(area=(60, -170, -60, 100), thin={"random": 0.5, "seed": 3}, sample=kind, select=select)
    for i in range(SAMPLES):
        whole, (start, stop), date = ds[i], ds.ranges[i], int(ds.dates[i].astype("i8"))
        keep = area.mask(whole.latitudes, whole.longitudes)
        keep &= thin.keep(date, np.arange(start, stop), whole.latitudes, whole.longitudes)
        x = other[i]
        assert np.array_equal(x.latitudes, whole.latitudes[keep])
        assert np.array_equal(x.dates, whole.dates[keep])
        columns = [2] if select else [0, 1, 2]
        assert np.array_equal(np.asarray(x)[:, -len(columns) :], np.asarray(whole)[keep][:, columns])
        assert np.array_equal(x, other[[i]])
        assert np.array_equal(other.details(i).longitudes, x.longitudes)


def test_every_second_row_is_counted_within_each_sample_and_area(ds) -> None:
    other = ds.subset(area=(90, 0, 0, 360), thin=2)
    for i in range(SAMPLES):
        whole = ds[i]
        assert np.array_equal(other[i], np.asarray(whole)[whole.latitudes >= 0][::2])


# ---- the kind "deltatime" --------------------------------------------------------------------------------------


def test_deltatime_samples_have_time_and_place_before_the_variables(ds) -> None:
    other = ds.subset(sample="deltatime")
    assert other.columns == ("deltatime", "latitude", "longitude", *VARIABLES)
    assert other.variables == VARIABLES
    for key in (3, slice(None, None, 4)):
        x, data = other[key], ds[key]
        assert x.dtype == np.float32
        assert np.array_equal(x[:, 0], data.timedeltas)
        assert np.array_equal(x[:, 1], data.latitudes)
        assert np.array_equal(x[:, 2], data.longitudes)
        assert np.array_equal(x[:, 3:], data)
        assert np.array_equal(x.dates, data.dates)
        assert np.array_equal(x.timedeltas, data.timedeltas)
    assert len(other.statistics["mean"]) == len(VARIABLES)


def test_deltatime_of_windows_that_single_precision_cannot_hold_raises(kept) -> None:
    with pytest.raises(OptionError, match="194 days"):
        open_observations(kept[0], 2020, 2020, "(-195d,0]", "1d", sample="deltatime")
    ds = open_observations(kept[0], 2020, 2020, "[-16777216s,16777216s]", "100d", sample="deltatime")
    assert np.array_equal(ds[1][:, 0].astype("i8"), ds[1].timedeltas)


def test_deltatime_next_to_a_variable_of_that_name_raises(kept) -> None:
    with pytest.raises(OptionError, match="latitude"):
        open_observations(kept[0], 2020, 2020, sample="deltatime", rename={"t": "latitude"})


def test_an_unknown_kind_of_sample_raises(kept) -> None:
    with pytest.raises(OptionError, match="not a kind of sample"):
        open_observations(kept[0], 2020, 2020, sample="columns")


# ---- datasets do not change ------------------------------------------------------------------------------------


def test_a_subset_takes_what_is_given_and_leaves_the_first_dataset_alone(ds) -> None:
    before = (len(ds), ds.window, ds.frequency, ds.variables, str(ds.dates[-1]))
    other = ds.subset(start=2020, end="2020-01-01", window="[0,1h)", frequency="1h", select="t")
    assert (len(other), str(other.window), other.variables) == (24, "[0s,1h)", ("t",))
    assert other.frequency.total_seconds() == 3600
    assert (len(ds), ds.window, ds.frequency, ds.variables, str(ds.dates[-1])) == before


def test_a_subset_of_other_frequency_keeps_start_and_end(ds) -> None:
    other = ds.subset(frequency="12h")
    assert np.array_equal(other.dates, ds.dates[::2])
    assert np.array_equal(other[3], ds[6])


def test_a_subset_of_nothing_is_the_same(ds) -> None:
    assert np.array_equal(ds.subset()[4], ds[4])


def test_samples_belong_to_the_caller(ds) -> None:
    first = np.array(ds[4])
    x = ds[4]
    x[:] = 0
    x.latitudes[:] = 0
    assert np.array_equal(ds[4], first)
    with pytest.raises(ValueError, match="read-only"):
        ds.dates[0] = 0
    with pytest.raises(ValueError, match="read-only"):
        ds.ranges[0] = 0


def test_a_pickled_dataset_gives_the_same_samples(ds) -> None:
    size = len(pickle.dumps(ds))
    assert len(ds.dates) == len(ds.ranges)
    other = pickle.loads(pickle.dumps(ds))
    assert len(pickle.dumps(ds)) < 2 * size
    assert repr(other) == repr(ds)
    assert np.array_equal(other[:], ds[:])
    assert np.array_equal(other.statistics["mean"], ds.statistics["mean"])


def test_a_pickled_dataset_of_a_store_that_was_built_anew_is_refused(tmp_path) -> None:
    path, _ = hourly(tmp_path / "a.zarr", uuid="1")
    ds = open_observations(path, FIRST, LAST, "(-3,3]", "6h")
    ds[0]
    pickled = pickle.dumps(ds)
    shutil.rmtree(path)
    hourly(path, seed=1, uuid="2")
    with pytest.raises(StaleError, match=r"a\.zarr has been rewritten since it was opened"):
        pickle.loads(pickled)


def test_rows_of_a_store_that_was_built_anew_are_not_mixed_with_those_before(tmp_path) -> None:
    path, _ = hourly(tmp_path / "a.zarr")
    ds = open_observations(path, FIRST, LAST, "(-3,3]", "6h")
    first = np.array(ds[1])
    hourly(tmp_path / "b.zarr", seed=1)
    path.rename(tmp_path / "former.zarr")
    (tmp_path / "b.zarr").rename(path)
    with pytest.raises(StaleError, match=r"a\.zarr has been replaced"):
        ds[-3]
    with pytest.raises(StaleError, match=r"a\.zarr has been replaced"):
        _ = ds.statistics
    assert np.array_equal(ds[1], first)


def test_prefetching_changes_no_sample(ds) -> None:
    ds.prefetch(0, -1, slice(2, 5), [7, 8])
    ds.prefetch()
    assert np.array_equal(ds[3], ds.subset()[3])
    with pytest.raises(SelectionError):
        ds.prefetch(SAMPLES)


def test_samples_in_threads_are_the_same(ds) -> None:
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(ds.__getitem__, list(range(SAMPLES)) * 4))
    for i, x in enumerate(found):
        assert np.array_equal(x, ds[i % SAMPLES])


@pytest.mark.parametrize("chunk", [50, 7])
def test_rows_of_a_lost_chunk_are_not_read_as_zeros(tmp_path, chunk) -> None:
    path, rows = hourly(tmp_path / "a.zarr", chunk=chunk)
    ds = open_observations(path, FIRST, LAST, "(-3,3]", "6h")
    middle = int(ds.ranges[3].mean()) // chunk
    (path / "data" / f"{middle}.0").unlink()
    for opened in (open_observations(path, FIRST, LAST, "(-3,3]", "6h"), pickle.loads(pickle.dumps(ds))):
        with pytest.raises(FragmentReadError, match=rf"a\.zarr: chunk data/{middle}\.0 is damaged: it is absent"):
            opened[3]
    last = open_observations(path, FIRST, LAST, "(-3,3]", "6h")[-1]
    np.testing.assert_array_equal(last, rows[slice(*ds.ranges[-1]), 4:])


def test_columns_of_zeros_may_be_left_out(tmp_path) -> None:
    path, rows = hourly(tmp_path / "a.zarr")
    rows[:, 6] = 0
    array = zarr.create_array(path / "data", shape=rows.shape, chunks=(50, 6), dtype="f4", fill_value=0,
                              zarr_format=2, overwrite=True)  # fmt: skip
    array[...] = rows
    assert not (path / "data" / "0.1").exists()
    ds = open_observations(path, FIRST, LAST, "(-3,3]", "6h")
    np.testing.assert_array_equal(ds[3], rows[slice(*ds.ranges[3]), 4:])


@pytest.mark.parametrize("end", [0, -1])
def test_a_row_before_the_window_at_either_end_is_noticed(tmp_path, end) -> None:
    path, rows = hourly(tmp_path / "a.zarr")
    row = np.arange(len(rows))[slice(*open_observations(path, FIRST, LAST, "(-3,3]", "6h").ranges[3])][end]
    zarr.open_array(path / "data")[int(row), 0] = 0
    with pytest.raises(ConventionError, match="does not belong to the data"):
        open_observations(path, FIRST, LAST, "(-3,3]", "6h")[3]


def test_an_index_of_other_data_is_noticed(tmp_path) -> None:
    path, rows = hourly(tmp_path / "a.zarr")
    index = zarr.open_group(path, zarr_format=2)["date_index_ranges"]
    index[:, 0] = index[:, 0] + 7200
    ds = open_observations(path, FIRST, LAST, "(-3,3]", "6h", index="bisect")
    with pytest.raises(ConventionError, match="does not belong to the data"):
        ds[3]
    with pytest.raises(ConventionError, match="does not belong to the data"):
        ds[2:5]
    assert len(rows)


def test_a_dataset_tells_what_it_is(ds, kept) -> None:
    assert (ds.shape, ds.dtype, ds.path) == ((None, 3), np.float32, str(kept[0]))
    assert "15 samples" in repr(ds)
    assert "(-3h,3h]" in repr(ds)
    assert ds.plan.window.start == Fraction(-10800)
