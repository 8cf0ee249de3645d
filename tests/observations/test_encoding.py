"""From frames to rows."""

from datetime import datetime

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cfagg.errors import ConformError, ConventionError
from cfagg.observations.frames import check_frame, check_rows, encode_frame, whole_seconds, wrap_longitudes
from tests.effort import examples


def encoded(no_nans=(), **columns):
    frame = pd.DataFrame({"date": pd.Timestamp("2020-01-01"), "latitude": 0.0, "longitude": 0.0} | columns)
    frame = check_rows(check_frame(frame, "source", datetime.min, datetime.max), "source")
    names = [c for c in frame.columns if c not in ("date", "latitude", "longitude")]
    out = np.empty((len(frame), 4 + len(names)), "f4")
    encode_frame(frame, names, out, "source", no_nans)
    return out


@settings(max_examples=examples(50))
@given(st.integers(-(10**18), 10**18), st.sampled_from(["s", "ms", "us", "ns"]))
def test_seconds_are_rounded_half_to_even(ticks, unit):
    per = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[unit]
    found = whole_seconds(np.array([ticks], f"M8[{unit}]"))[0]
    from fractions import Fraction

    assert found == round(Fraction(ticks, per))


def test_days_before_1970_have_seconds_from_their_midnight():
    assert encoded(date=pd.to_datetime(["1969-12-31T23:59:59"])).tolist() == [[-1, 86399, 0, 0]]


def test_a_date_that_rounds_up_to_midnight_is_of_the_next_day():
    assert encoded(date=pd.to_datetime(["2020-01-01T23:59:59.7"])).tolist() == [[18263, 0, 0, 0]]


@settings(max_examples=examples(50))
@given(st.lists(st.floats(-360, 360), min_size=1, max_size=20), st.sampled_from(["f4", "f8"]))
def test_longitudes_are_at_least_0_and_below_360(values, dtype):
    values = np.array(values, dtype)
    found = wrap_longitudes(values)
    assert found.dtype == np.float32
    assert ((found >= 0) & (found < 360)).all()
    apart = np.abs(found.astype("f8") - values)
    np.testing.assert_allclose(np.minimum(apart % 360, 360 - apart % 360), 0, atol=2e-5)


def test_longitude_a_hair_below_zero_is_zero():
    assert encoded(longitude=[-1e-7])[0, 3] == 0


def test_whole_numbers_booleans_and_nullable_columns_become_float32():
    out = encoded(a=[1, 2], b=[True, False], c=pd.array([3, None], "Int64"), d=pd.array([1.5, None], "Float32"))
    np.testing.assert_array_equal(out[:, 4:], [[1, 1, 3, 1.5], [2, 0, np.nan, np.nan]])


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        ({"date": pd.to_datetime(["2020-01-01", None])}, "row 1: date is NaT"),
        ({"date": ["today", "tomorrow"]}, "date: has type"),
        ({"latitude": [0.0, -90.5]}, "row 1: latitude is -90.5, expected -90 to 90 degrees"),
        ({"latitude": [np.nan, np.nan]}, "row 0 and 1 more: latitude is nan"),
        ({"longitude": [0.0, -9999.0]}, "row 1: longitude is -9999.0, expected -360 to 360 degrees"),
    ],
)
def test_rows_that_no_store_has_are_named(columns, said):
    with pytest.raises(ConventionError, match=said):
        encoded(**({"t": [1.0, 2.0]} | columns))


def test_finite_numbers_that_float32_does_not_hold_are_refused():
    with pytest.raises(ConformError, match=r"row 1: t is 1e\+40, more than float32 holds"):
        encoded(t=[np.inf, 1e40])


def test_infinite_values_are_kept():
    assert encoded(t=[np.inf, -np.inf])[:, 4].tolist() == [np.inf, -np.inf]


def test_nan_where_the_recipe_excludes_it_is_refused():
    assert np.isnan(encoded(t=[1.0, np.nan], u=[1.0, 2.0], no_nans=["u"])[1, 4])
    with pytest.raises(ConventionError, match="row 1: t is NaN"):
        encoded(t=[1.0, np.nan], no_nans=["t"])
