"""Groups along one dimension."""

from __future__ import annotations

import numpy as np
import pytest
import xarray as xr
from hypothesis import given
from hypothesis import strategies as st

from cfagg.accumulation.labels import Grouping, Labels, grouping_of, periods, steps, time_coordinate
from cfagg.errors import SelectionError
from tests.strategies import slices


def dated(values):
    return Labels.of_array(xr.DataArray(np.zeros(len(values)), coords={"time": values}, dims="time", name="tas"))


@given(st.lists(st.integers(-1, 4), min_size=1, max_size=20), st.data())
def test_groups_of_a_selection_are_those_that_occur_in_it(codes, data):
    labels = np.array(list("abcde"))
    part, positions = Grouping("x", "g", labels, np.array(codes, np.int64)).of(data.draw(slices(len(codes))))
    wanted = [labels[c] if c >= 0 else None for c in np.array(codes)[positions]]
    assert [part.values[c] if c >= 0 else None for c in part.codes] == wanted
    assert part.values.tolist() == sorted({w for w in wanted if w is not None})


@given(st.lists(st.integers(-1, 3), max_size=20))
def test_periods_are_unbroken_stretches(codes):
    groups = Grouping("x", "g", np.arange(4), np.array(codes, np.int64))
    first, found = periods(groups)
    wanted = [i for i, c in enumerate(codes) if c >= 0 and (i == 0 or codes[i - 1] != c)]
    assert first.tolist() == wanted
    assert found.tolist() == [codes[i] for i in wanted]
    assert steps(groups)[0].tolist() == [i for i, c in enumerate(codes) if c >= 0]


def test_groups_are_made_once():
    labels = dated(xr.date_range("2001", periods=5))
    assert grouping_of(labels, "time.month") is grouping_of(labels, "time.month")


@pytest.mark.parametrize("key", ["time.month", "time.season", "time.year"])
def test_missing_dates_belong_to_no_group(key):
    time = xr.date_range("2001-01-31", periods=4).values.copy()
    time[1] = "NaT"
    groups = grouping_of(dated(time), key)
    assert groups.codes[1] == -1
    assert (groups.codes[[0, 2, 3]] >= 0).all()
    assert groups.values.tolist() in ([1, 2], ["DJF"], [2001])


def test_the_time_coordinate_is_the_one_with_dates():
    time = xr.date_range("2001", periods=3)
    array = xr.DataArray(np.zeros((3, 3)), coords={"a": time, "b": time}, dims=("a", "b"), name="tas")
    assert time_coordinate(Labels.of_array(array.drop_vars("a"))) == ("b", "b")
    auxiliary = array.drop_vars(["a", "b"]).assign_coords(valid=("b", time))
    assert time_coordinate(Labels.of_array(auxiliary)) == ("b", "valid")
    # The dimension's own dates are meant, if there are any.
    assert time_coordinate(Labels.of_array(array.drop_vars("a").assign_coords(valid=("b", time)))) == ("b", "b")
    twice = auxiliary.assign_coords(issued=("b", time))
    for wrong, number in ((array, "2"), (array.drop_vars(["a", "b"]), "no"), (twice, "no")):
        with pytest.raises(SelectionError, match=f"has {number} dimensions whose coordinates are dates"):
            time_coordinate(Labels.of_array(wrong))
