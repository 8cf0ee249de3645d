"""Positions of selections, and positions within positions."""

from __future__ import annotations

import numpy as np
import pytest
import xarray as xr
from hypothesis import given
from hypothesis import strategies as st

from cfagg.accumulation.labels import Labels, compose
from cfagg.errors import SelectionError
from tests.strategies import slices


@st.composite
def picks(draw, n, *, one=True):
    kind = draw(st.integers(0, 2 if one and n else 1))
    if kind == 2:
        return draw(st.integers(0, n - 1))
    if kind == 1 and n:
        return np.array(draw(st.lists(st.integers(0, n - 1), max_size=6)), np.int64)
    return draw(slices(n))


def labels(n):
    return Labels.of_array(xr.DataArray(np.zeros(n), dims="x", name="tas"))


@given(st.data(), st.integers(0, 20))
def test_positions_within_positions(data, n):
    base = data.draw(picks(n, one=False))
    inner = np.arange(n)[base]
    picked = labels(len(inner)).pick({"x": data.draw(picks(len(inner)))})["x"]
    np.testing.assert_array_equal(np.arange(n)[compose(base, picked, n)], inner[picked])


@given(st.data(), st.integers(0, 20))
def test_any_slice_becomes_positions_from_0_on(data, n):
    asked = data.draw(slices(n))
    found = labels(n).pick({"x": asked})["x"]
    np.testing.assert_array_equal(np.arange(n)[found], np.arange(n)[asked])


def test_a_dimension_without_coordinate_is_selected_by_index_as_in_xarray():
    assert labels(9).pick(sel={"x": slice(2, 5)}) == {"x": slice(2, 5, 1)}
    with pytest.raises(SelectionError, match="no labels to match"):
        labels(9).pick(sel={"x": 3}, method="nearest")


def test_labels_that_stand_twice_select_all_of_theirs():
    array = xr.DataArray(np.zeros(5), dims="x", coords={"x": list("abbcb")}, name="tas")
    found = Labels.of_array(array).pick(sel={"x": "b"})["x"]
    assert np.arange(5)[found].tolist() == [1, 2, 4]


def test_coordinates_are_loaded_once_for_all_results():
    array = xr.DataArray(np.zeros((2, 3)), dims=("x", "y"), coords={"y": [1, 2, 3], "z": ("x", [5, 6])}, name="tas")
    made = Labels.of_array(array)
    assert set(made.without(["x"]).coords) == {"y"}
    assert made.without(["x"]) is made.without(("x",))
