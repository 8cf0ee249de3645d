"""What goes wrong in the software that came of the founding text, each defect a test that passes here.

Each was seen in anemoi-datasets 0.5; those of building are tested where stores are built.
"""

from __future__ import annotations

import pickle

import numpy as np
import pytest

import cfagg
from tests.observations.small_stores import NEW_YEAR, epochs_of, hourly, table, write


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return hourly(tmp_path_factory.mktemp("defects") / "synop.zarr")[0]


@pytest.fixture
def ds(path):
    return cfagg.open_observations(path, 2020, "2020-01-03", "(-3,+3]", "6h")


def test_the_length_is_not_one_too_many(ds) -> None:
    assert len(ds) == 12


def test_the_last_sample_is_not_beyond_the_end(ds) -> None:
    assert str(ds.dates[-1]) == "2020-01-03T18:00:00"
    with pytest.raises(IndexError):
        ds[12]


def test_minus_one_is_the_last_sample(ds) -> None:
    assert np.array_equal(ds[-1], ds[11])
    assert len(ds[-1])


def test_a_number_of_numpy_selects_a_sample(ds) -> None:
    assert np.array_equal(ds[np.int64(3)], ds[3])


def test_a_slice_with_a_step_selects_samples(ds) -> None:
    assert np.array_equal(ds[1:9:3], np.concatenate([ds[1], ds[4], ds[7]]))


def test_a_list_selects_samples(ds) -> None:
    assert np.array_equal(ds[[7, 2]], np.concatenate([ds[7], ds[2]]))


@pytest.mark.parametrize("window", ["[0,0]", "(-1s,0]"])
def test_a_window_of_one_second_has_the_rows_of_this_second(window, tmp_path) -> None:
    rows = table([NEW_YEAR - 1, NEW_YEAR, NEW_YEAR, NEW_YEAR + 1])
    x = cfagg.open_observations(write(tmp_path / "a.zarr", rows), 2020, "2020-01-01", window, "1d")[0]
    assert epochs_of(rows[1:3]).tolist() == x.dates.astype("i8").tolist()
    assert np.array_equal(x, rows[1:3, 4:])


def test_a_sliced_sample_has_sliced_latitudes(ds) -> None:
    x = ds[2]
    assert np.array_equal(x[5:9].latitudes, x.latitudes[5:9])
    assert len(x[x.longitudes < 180].dates) == len(x[x.longitudes < 180])


def test_a_dataset_can_be_pickled(ds) -> None:
    assert np.array_equal(pickle.loads(pickle.dumps(ds))[4], ds[4])


def test_a_sample_can_be_pickled(ds) -> None:
    x = pickle.loads(pickle.dumps(ds[4]))
    assert np.array_equal(x, ds[4])
    assert np.array_equal(x.latitudes, ds[4].latitudes)


def test_another_frequency_leaves_the_first_dataset_as_it_is(ds) -> None:
    before = ds.dates.copy()
    other = ds.subset(frequency="1h", window="(-1,0]")
    assert (len(other), len(ds)) == (72, 12)
    assert np.array_equal(ds.dates, before)
    assert str(ds.window) == "(-3h,3h]"


# ---- promised, and missing there -------------------------------------------------------------------------------


def test_observations_can_be_thinned(ds) -> None:
    assert np.array_equal(ds.subset(thin=5)[3], ds[3][::5])


def test_observations_can_be_cut_to_an_area(ds) -> None:
    x = ds.subset(area=(50, -20, -10, 20))[3]
    assert len(x)
    assert ((x.latitudes <= 50) & (x.latitudes >= -10) & ((x.longitudes >= 340) | (x.longitudes <= 20))).all()


def test_a_checkpoint_can_carry_where_the_samples_come_from(ds, path) -> None:
    found = ds.metadata()
    assert found["sources"][0]["path"] == str(path)
    assert found["versions"]["cfagg"] == cfagg.__version__


def test_datasets_can_be_joined(ds) -> None:
    joined = cfagg.join_observations({"all": ds, "north": ds.subset(area=(90, 0, 0, 360))})
    assert np.array_equal(joined[3]["all"], ds[3])
    assert (joined[3]["north"].latitudes >= 0).all()


def test_statistics_of_most_of_the_period_are_of_the_rows_in_it(tmp_path) -> None:
    epochs = NEW_YEAR + np.array([0, 600, 3600, 40000, 86400, 86400 * 2])
    rows = table(epochs)
    path = write(tmp_path / "a.zarr", rows)
    found = cfagg.open_observations(path, 2020, 2020, statistics="80% of period").statistics
    assert np.allclose(found["mean"], rows[:5, 4:].astype("f8").mean(axis=0))
