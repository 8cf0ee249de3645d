"""Running sums along any axis, in one call or several, are those of exact arithmetic."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cfagg.kernels.cumulative import cumulate
from tests import oracles
from tests.effort import examples

ROOM = settings(max_examples=examples(40))
U = 2.0**-53


def exact_running(parts, axis):
    """The exact running sums as an array of fractions."""
    moved = np.moveaxis(parts.astype(object), axis, -1)
    out = np.empty(moved.shape, object)
    for at in np.ndindex(moved.shape[:-1]):
        out[at] = oracles.running_sums(moved[at].tolist())
    return np.moveaxis(out, -1, axis)


@st.composite
def rows_of_parts(draw, dtype):
    """Parts of up to three dimensions and an axis; contiguous or not."""
    shape = draw(st.lists(st.integers(1, 5), min_size=1, max_size=3))
    axis = draw(st.integers(0, len(shape) - 1))
    shape[axis] = draw(st.integers(0, 12))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    if dtype == "i8":
        parts = rng.integers(-(2**50), 2**50, shape)
    else:
        parts = rng.normal(draw(st.sampled_from([0.0, 1e6])), 10.0 ** rng.integers(-9, 9), shape)
    order = draw(st.permutations(range(len(shape))))
    return np.ascontiguousarray(parts.transpose(order)).transpose(np.argsort(order)), axis


@pytest.mark.parametrize("compiled", [True, False])
@ROOM
@given(data=st.data())
def test_running_sums_of_integers_are_exact_over_several_calls(compiled, data):
    parts, axis = data.draw(rows_of_parts("i8"))
    exact = exact_running(parts, axis)
    shape = parts.shape[:axis] + parts.shape[axis + 1 :]
    carry = np.zeros(shape, "i8")
    cut = data.draw(st.integers(0, parts.shape[axis]))
    for piece in np.split(parts, [cut], axis):
        cumulate(piece, axis, carry, compiled=compiled)
    assert parts.tolist() == exact.tolist()
    if parts.shape[axis]:
        assert carry.ravel().tolist() == exact.take([-1], axis).ravel().tolist()


@pytest.mark.parametrize("compiled", [True, False])
@pytest.mark.parametrize("pairs", [True, False])
@ROOM
@given(data=st.data())
def test_running_sums_of_reals_are_rounded_once_over_several_calls(pairs, compiled, data):
    parts, axis = data.draw(rows_of_parts("f8"))
    low = np.random.default_rng(1).normal(size=parts.shape) * np.abs(parts) * U if pairs else None
    exact = exact_running(parts, axis) + (exact_running(low, axis) if pairs else 0)
    size = np.add.accumulate(np.abs(parts), axis)
    shape = parts.shape[:axis] + parts.shape[axis + 1 :]
    carry, carry_low = np.zeros(shape), np.zeros(shape)
    cut = data.draw(st.integers(0, parts.shape[axis]))
    halves = zip(np.split(parts, [cut], axis), np.split(low, [cut], axis) if pairs else (None, None), strict=True)
    for piece, below in halves:
        cumulate(piece, axis, carry, carry_low, low=below, compiled=compiled)
    n = parts.shape[axis]
    for k, (x, y, s) in enumerate(zip(parts.ravel(), exact.ravel(), size.ravel(), strict=True)):
        rest = n * n * 4 * U**2 * s
        assert abs(Fraction(float(x)) - y) <= U * abs(float(y)) + rest
        if pairs:
            assert abs(Fraction(float(x)) + Fraction(float(low.ravel()[k])) - y) <= rest


def test_two_axes_make_a_summed_area_table():
    parts = np.arange(12.0).reshape(3, 4)
    cumulate(parts, 0)
    cumulate(parts, 1)
    assert parts[2].tolist() == [12.0, 27.0, 45.0, 66.0]
    assert parts[1, 2] == sum(i * 4 + j for i in range(2) for j in range(3))


@pytest.mark.parametrize("compiled", [True, False])
@pytest.mark.parametrize("sign", [1, -1])
def test_integers_that_wrap_around_are_refused_by_name(sign, compiled):
    parts = np.array([[1, 2**62, 2**62 - 2, 1]]) * sign
    with pytest.raises(OverflowError, match="acc_time of 'tas': a running sum along axis 1 is beyond int64"):
        cumulate(parts.copy(), 1, name="acc_time of 'tas'", compiled=compiled, carry=np.array([sign]))
    cumulate(parts[:, :3], 1, compiled=compiled)
    assert parts[0, 2] == sign * (2**63 - 1)


@pytest.mark.parametrize("compiled", [True, False])
def test_reals_beyond_float64_are_refused_by_name(compiled):
    parts = np.array([1.7e308, 1.7e308, -1.7e308, -1.7e308])
    with pytest.raises(OverflowError, match="acc_lat: a running sum along axis 0 is beyond float64"):
        cumulate(parts, 0, name="acc_lat", compiled=compiled)


@pytest.mark.parametrize(
    ("axis", "given", "says"),
    [
        (2, {}, "no axis 2"),
        (-1, {}, "no axis -1"),
        (0, {"carry": np.zeros(2)}, r"carry must be float64 of shape \(3,\)"),
        (0, {"carry": np.zeros(3, "i8")}, "found int64"),
        (1, {"carry_low": np.zeros(3)}, r"carry_low must be float64 of shape \(2,\)"),
        (1, {"low": np.zeros(3)}, "low must be"),
    ],
)
def test_what_does_not_fit_is_refused_and_nothing_changed(axis, given, says):
    parts = np.ones((2, 3))
    with pytest.raises(ValueError, match=says):
        cumulate(parts, axis, **given)
    assert (parts == 1).all()


@pytest.mark.parametrize("dtype", ["f4", "i4", ">f8"])
def test_parts_of_another_type_are_refused(dtype):
    with pytest.raises(TypeError, match="int64 or float64"):
        cumulate(np.ones(3, dtype), 0)


def test_low_parts_of_integers_are_refused():
    with pytest.raises(ValueError, match="no low parts"):
        cumulate(np.ones(3, "i8"), 0, low=np.zeros(3))


@pytest.mark.parametrize("compiled", [True, False])
def test_a_long_series_of_small_parts_loses_nothing(compiled):
    parts = np.full(2000, 0.1)
    cumulate(parts, 0, np.array(1e16), compiled=compiled)
    assert parts[-1] == float(Fraction(1e16) + 2000 * Fraction(0.1))
    assert math.fsum([1e16, *[0.1] * 2000]) == parts[-1]
