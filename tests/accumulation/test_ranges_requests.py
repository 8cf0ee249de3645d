"""Requests: which axes are reduced and which are kept."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cfagg.accumulation.ranges import Request, Runs
from cfagg.errors import SelectionError
from tests import strategies as s
from tests.oracles import requested_sums

SHAPE = (6, 4)


@given(st.data())
def test_the_shape_is_that_of_the_result(data):
    request = data.draw(s.requests(SHAPE))
    assert request.resolve(SHAPE).shape == requested_sums(np.ones(SHAPE), request).shape


@pytest.mark.parametrize(
    ("request_", "message"),
    [
        (Request({0: Runs.whole(6)}), r"each of the 2 axes .* reduced \[0\] and kept \[\]"),
        (Request({0: Runs.whole(6), 1: Runs.whole(4)}, {1: slice(None)}), r"must be reduced or kept"),
        (Request({0: Runs.whole(7)}, {1: slice(None)}), "axis 0 has length 6; a range ends at 7"),
        (Request({0: Runs.whole(6)}, {1: np.array([4])}), "axis 1: position 4 is outside of a dimension of length 4"),
        (Request({0: Runs.whole(6)}, {1: np.array([-5])}), "position -5 is outside"),
        (Request({0: Runs.whole(6)}, {1: np.array([2**64 - 1], "u8")}), "position 18446744073709551615 is outside"),
        (Request({0: Runs.whole(6)}, {1: np.array([0.5])}), "expected a slice or a list of positions"),
    ],
)
def test_what_does_not_fit_the_array_is_refused(request_, message):
    with pytest.raises(SelectionError, match=message):
        request_.resolve(SHAPE)


def test_the_shape_is_not_known_before_the_slices_are():
    with pytest.raises(SelectionError, match=r"call resolve\(shape\) first"):
        Request({}, {0: slice(None)}).shape  # noqa: B018


def test_negative_positions_count_from_the_end():
    assert Request({}, {0: np.array([-1, 0])}).resolve((6,)).kept[0].tolist() == [5, 0]


def test_a_resolved_request_survives_pickling():
    request = Request({0: Runs.whole(6)}, {1: slice(1, 3)}).resolve(SHAPE)
    assert pickle.loads(pickle.dumps(request)).resolve(SHAPE).shape == (2,)
