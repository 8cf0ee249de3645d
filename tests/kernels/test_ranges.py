"""Sums of boxes of stored values, against exact sums of Python numbers."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cfagg.kernels import ranges
from cfagg.kernels.cumulative.mask import Mask
from cfagg.kernels.ranges import box_sums, sum_over
from tests import strategies as s
from tests.effort import examples
from tests.oracles import counted, reduced


@st.composite
def boxes(draw):
    """A block with missing values, its mask, axes, and weights."""
    shape = tuple(draw(st.lists(st.integers(1, 5), min_size=1, max_size=3)))
    dtype = draw(st.sampled_from(s.REAL_TYPES))
    rng = np.random.default_rng(draw(st.integers(0, 99)))
    block = draw(s.views(shape, dtype))
    most = min(np.iinfo(dtype).max, 2**40) if np.dtype(dtype).kind in "iu" else 1000
    block[...] = rng.integers(-most if np.dtype(dtype).kind != "u" else 0, most, shape)
    rules = {"fills": [block.flat[0]]} if draw(st.booleans()) else {}
    if np.dtype(dtype).kind == "f" and draw(st.booleans()):
        block[rng.random(shape) < 0.4] = rng.choice([np.nan, np.inf, -np.inf])
    if draw(st.booleans()):
        rules["valid_max"] = int(np.nanmax(np.where(np.isfinite(block), block, 0))) // 2
    axes = tuple(sorted(draw(st.sets(st.integers(0, len(shape) - 1), min_size=1))))
    wide = [n if draw(st.booleans()) else 1 for n in shape]
    weights = rng.random(wide) if draw(st.booleans()) else None
    return block, rules, axes, weights


@settings(max_examples=examples(200))
@given(boxes(), st.sampled_from([2, 7, 1 << 17]))
def test_sums_are_those_of_the_valid_values(box, piece):
    block, rules, axes, weights = box
    mask = Mask.of(block.dtype, **rules) if rules or block.dtype.kind == "f" else None
    integer = block.dtype.kind in "iu" and weights is None
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ranges, "_PIECE", piece)
        total, weight, count = box_sums(block, axes, mask, weights, integer)
    valid = counted(block, **rules)
    w = np.broadcast_to(1 if weights is None else weights, block.shape)
    values = np.where(valid, block, block.dtype.type(0))
    shape = tuple(1 if a in axes else n for a, n in enumerate(block.shape))
    assert (reduced(valid, axes, sum, "i8").reshape(shape) == count).all()
    if integer:
        assert total.dtype == np.int64
        assert (reduced(values, axes, sum, "i8").reshape(shape) == total).all()
        return
    exact = reduced(np.where(valid, values * w, 0.0), axes, math.fsum, "f8").reshape(shape)
    scale = reduced(np.abs(np.where(valid, values * w, 0.0)), axes, math.fsum, "f8").reshape(shape)
    assert (np.abs(total - exact) <= 1e-14 * scale + 1e-300).all()
    if weights is None:
        assert weight is None
    else:
        exact = reduced(np.where(valid, w, 0.0), axes, math.fsum, "f8").reshape(shape)
        np.testing.assert_allclose(weight, exact, rtol=1e-14, atol=0)


@pytest.mark.parametrize("dtype", ["f4", "f8", "i2", "u8"])
@pytest.mark.parametrize("wide", [(3, 4), (1, 4), (3, 1), (1, 1)])
@pytest.mark.parametrize("axes", [(0,), (1,), (0, 1)])
def test_weights_count_with_and_without_missing_values(dtype, wide, axes):
    block = (np.arange(12).reshape(3, 4) * (0.5 if dtype[0] == "f" else 1)).astype(dtype)
    weights = np.arange(1.0, 1 + wide[0] * wide[1]).reshape(wide)
    for mask, valid in (
        (None, np.ones((3, 4), bool)),
        (Mask.of(block.dtype, fills=[block[1, 1]]), block != block[1, 1]),
    ):
        total, weight, count = box_sums(block, axes, mask, weights, False)
        assert (total == (block * weights * valid).sum(axes, keepdims=True)).all()
        assert (weight == (weights * valid).sum(axes, keepdims=True)).all()
        assert (count == valid.sum(axes, keepdims=True)).all()


@pytest.mark.parametrize("n", [255, 256, 65_535, 65_536])
def test_counts_fill_the_smallest_type_that_holds_them(n):
    block = np.zeros((2, n), "f4")
    block[0, 0] = np.nan
    assert box_sums(block, (1,), Mask.of(block.dtype), None, False)[2].tolist() == [[n - 1], [n]]


def test_large_counts_do_not_wrap_around():
    block = np.zeros((3, 70_000), "f4")
    block[:, 0] = np.nan
    _, _, count = box_sums(block, (1,), Mask.of(block.dtype), None, False)
    assert count.tolist() == [[69_999]] * 3


def test_unsigned_integers_of_64_bits_are_summed_exactly():
    assert sum_over(np.array([2**62, 2**61, 3], "u8"), (0,), True).tolist() == [2**62 + 2**61 + 3]


def test_single_precision_is_summed_in_double_precision():
    assert sum_over(np.full(2**20, 0.1, "f4"), (0,), False)[0] == pytest.approx(2**20 * float(np.float32(0.1)), 1e-13)
