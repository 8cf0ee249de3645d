"""Gathering equals the exact oracle whichever implementation does it."""

import subprocess
import sys
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cfagg.cf import gather as module
from cfagg.cf.gather import gather
from cfagg.cf.gather_numpy import fill_missing, gather_numpy
from cfagg.cf.gather_rule import GatherRule
from cfagg.errors import ConformError, UnsupportedError
from tests import oracles, strategies
from tests.effort import examples

TYPES = st.sampled_from(strategies.REAL_TYPES)


def same(a, b):
    """Return whether two arrays hold the same bits, all NaN alike."""
    return np.array_equal(a, b, equal_nan=a.dtype.kind == "f") and (
        a.dtype.kind != "f" or np.array_equal(np.signbit(a) & ~np.isnan(a), np.signbit(b) & ~np.isnan(b))
    )


@settings(max_examples=examples(400))
@given(st.data(), TYPES, TYPES)
def test_values_and_bad_elements_are_those_of_exact_arithmetic(data, source, target):
    shape = data.draw(st.lists(st.integers(0, 6), max_size=4).map(tuple))
    values = data.draw(strategies.telling_values(shape, source))
    arguments = data.draw(strategies.gather_arguments(target))
    block = data.draw(strategies.views(shape, source, swapped=True))
    block[...] = values
    place = data.draw(strategies.views(shape, target, swapped=True))
    expected, wrong = oracles.gather(values, np.dtype(target), **arguments)
    bad, first = gather(block, place, **arguments)
    assert bad == wrong.sum()
    assert first == (np.flatnonzero(wrong)[0] if bad else -1)
    native = place.astype(target)
    assert same(native[~wrong], expected[~wrong])


@pytest.mark.parametrize("source", strategies.REAL_TYPES)
def test_ends_of_every_type_are_checked_in_every_other(source):
    ends = [s * (2**n) + d for n in (0, 7, 8, 24, 53, 63, 64) for s in (1, -1) for d in (-1, 0, 1)]
    info = np.finfo(source) if source[0] == "f" else np.iinfo(source)
    values = np.array([v for v in {*ends, info.min, info.max} if info.min <= v <= info.max], source)
    linear = [(1, 0), (1, 1), (1, -32767), (-1, 0), (0.5, 0), (2**30, 0), (2**-20, 0), (2**22, 2**53), (1e36, 2e38)]
    for target in strategies.REAL_TYPES:
        for scale, offset in linear:
            out = np.zeros(values.shape, target)
            expected, wrong = oracles.gather(values, out.dtype, scale, offset)
            assert gather(values, out, scale, offset)[0] == wrong.sum(), (target, scale, offset)
            assert same(out[~wrong], expected[~wrong])


@pytest.mark.parametrize(
    ("source", "target", "scale"),
    [("i2", "i2", 1), ("i2", "i4", 1), ("u1", "i2", 1), ("i2", "f4", 1), ("f4", "f8", 1), ("i2", "f4", 0.01)],
)
def test_what_every_value_survives_is_not_checked(source, target, scale):
    assert not GatherRule.make(np.dtype(source), np.dtype(target), scale).checked


def test_blocks_of_a_large_array_are_counted_together_in_c_order():
    source = np.zeros((3, 100_000), "i4").T
    source[70_000, 1] = source[99_999, 2] = 300
    out = np.zeros(source.shape, "u1")
    assert gather_numpy(source, out, GatherRule.make(source.dtype, out.dtype)) == (2, 210_001)


def test_long_outer_elements_are_cut_too():
    source = np.zeros((2, 100_000), "i4")
    source[1, 7] = -1
    out = np.zeros(source.shape, "u1")
    assert gather_numpy(source, out, GatherRule.make(source.dtype, out.dtype)) == (1, 100_007)


def test_missing_values_of_every_large_block_are_filled_where_values_are_copied():
    source = np.ones((3, 300_000), "f4")
    source[1:, 299_999] = -9
    out = np.zeros_like(source)
    assert gather_numpy(source, out, GatherRule.make(source.dtype, out.dtype, fills=[-9], fill=7)) == (0, -1)
    assert [tuple(i) for i in np.argwhere(out != 1)] == [(1, 299_999), (2, 299_999)]
    assert set(out[1:, -1]) == {7}


@pytest.mark.parametrize("bad", [0, 2])
def test_the_kernel_and_numpy_report_alike(monkeypatch, bad):
    source = np.arange(200 * 300, dtype="i4").reshape(200, 300) % 200
    source[-1, -1 - bad :][:bad] = 700
    results = []
    for paid in (False, True):
        monkeypatch.setattr(module, "_kernel_pays", lambda *_, paid=paid: paid)
        out = np.zeros((300, 200), "u1")
        results.append((gather(source[::-1], out.T, fills=[5], fill=255), out))
    assert results[0][0] == results[1][0] == (bad, 299 - bad if bad else -1)
    if not bad:
        assert np.array_equal(results[0][1], results[1][1])


def test_arrays_that_the_kernel_does_not_take_are_gathered_by_numpy(monkeypatch):
    monkeypatch.setattr(module, "_kernel_pays", lambda *_: True)
    source = np.frombuffer(b"x" + np.arange(6, dtype="i2").tobytes(), "i2", offset=1)
    out = np.zeros(6, ">f4")
    assert gather(source, out, offset=1) == (0, -1)
    assert out.tolist() == [1, 2, 3, 4, 5, 6]


@pytest.mark.parametrize("order", ["memory", "transposed"])
def test_numpy_copies_rows_that_need_no_change_whatever_the_size(order):
    big = np.zeros((500, 500))
    rule = GatherRule.make(big.dtype, big.dtype)
    assert module._same_order(big[::-1] if order == "memory" else big.T, big) == (order == "memory")
    assert rule.copies


@pytest.mark.parametrize(
    ("turned", "arguments", "part"),
    [
        (False, {"fills": [9.0]}, 16),
        (True, {"fills": [9.0]}, 1),
        (False, {"fills": [9.0], "valid_max": 8.0}, 1),
        (False, {"fills": [9.0], "scale": 2.0}, 1),
        (False, {"fills": [9.0, 8.0]}, 16),
        (False, {"fills": [9.0, 8.0, 7.0]}, 1),
    ],
)
def test_rows_in_which_numpy_only_looks_for_missing_values_hardly_call_for_the_kernel(
    monkeypatch, turned, arguments, part
):
    monkeypatch.setattr(module._Work, "elements", 0)
    source = np.zeros((256, 256), "f4")
    gather(source.T if turned else source, np.empty_like(source), **arguments)
    assert module._Work.elements == source.size // part


@pytest.mark.parametrize(
    ("dtype", "fills", "fill", "expected"),
    [
        ("i2", [-9, -8], -9, [-9, -9, 0, 5]),
        ("i2", [-9, 0], 0, [0, -8, 0, 5]),
        ("f4", [-9, -8], -9, [-9, -9, 0, 5]),
        ("f4", [-9, -8], None, [np.nan, np.nan, 0, 5]),
    ],
)
def test_missing_values_that_are_the_targets_own_are_copied_and_others_become_it(dtype, fills, fill, expected):
    out = np.empty(4, dtype)
    assert gather(np.array([-9, -8, 0, 5], dtype), out, fills=fills, fill=fill) == (0, -1)
    np.testing.assert_array_equal(out, expected)


def test_a_missing_zero_becomes_the_zero_of_the_target_with_its_sign():
    out = np.empty(2, "f4")
    gather(np.array([-0.0, 0.0], "f4"), out, fills=[0.0], fill=0.0)
    assert not np.signbit(out).any()


@pytest.mark.parametrize("missing", [0, 1])
def test_a_missing_value_for_which_the_target_has_none_is_bad(missing):
    assert gather(np.array([2, missing], "i2"), np.empty(2, "i2"), fills=[missing]) == (1, 1)


@pytest.mark.parametrize("fill", [None, -1.0])
def test_nan_is_missing_where_the_target_has_another_value_for_it(fill):
    out = np.empty(2, "f4")
    assert gather(np.array([np.nan, 2], "f4"), out, fills=[7], fill=fill) == (0, -1)
    np.testing.assert_array_equal(out, [np.nan if fill is None else fill, 2])


@pytest.mark.parametrize("dtype", ["f4", "f8", "i2", "u1"])
@pytest.mark.parametrize("bound", ["valid_min", "valid_max"])
def test_a_bound_that_is_the_last_number_of_its_type_excludes_none(dtype, bound):
    limits = (np.finfo if dtype[0] == "f" else np.iinfo)(dtype)
    last, inner = (limits.min, limits.min / 2) if bound == "valid_min" else (limits.max, limits.max / 2)
    source = np.array([last, 1], dtype)
    for limit, kept in ((last, last), (inner or 0.5, 7)):
        out = np.empty_like(source)
        gather(source, out, fills=[1], fill=7, **{bound: limit})
        assert out.tolist() == [kept, 7]


def test_small_jobs_do_not_load_numba():
    code = (
        "import sys, numpy as np\nfrom cfagg.cf.gather import gather\n"
        "gather(np.zeros((600, 600), 'i2').T, np.zeros((600, 600), 'f4'), 0.1, 1.0, [5])\n"
        "raise SystemExit('numba' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize(
    ("arguments", "kept"),
    [
        ({}, [-3, 0, 5]),
        ({"fills": [5.0, 2.5, 1e9, np.nan]}, [-3, 0]),
        ({"valid_min": -0.5}, [0, 5]),
        ({"valid_max": 0.5}, [-3, 0]),
        ({"valid_min": 200}, []),
        ({"valid_max": -1000}, []),
        ({"valid_min": 3, "valid_max": 1}, []),
        ({"valid_min": -np.inf, "valid_max": np.nan}, [-3, 0, 5]),
        ({"valid_min": np.uint8(0)}, [0, 5]),
    ],
)
def test_fills_and_bounds_of_any_type_are_compared_with_integers_exactly(arguments, kept):
    out = np.zeros(3, "f8")
    assert gather(np.array([-3, 0, 5], "i1"), out, **arguments) == (0, -1)
    assert out[~np.isnan(out)].tolist() == kept


def test_a_double_attribute_is_met_by_single_precision_data():
    out = np.zeros(2, "f8")
    gather(np.array([0.1, 1e20], "f4"), out, fills=[1e20], valid_min=0.1)
    assert out.tolist()[:1] == [float(np.float32(0.1))]
    assert np.isnan(out[1])


def test_nan_becomes_the_fill_and_has_no_integer():
    source = np.array([np.nan, 2.0])
    out = np.zeros(2, "f4")
    assert gather(source, out, fill=-9.0) == (0, -1)
    assert out.tolist() == [-9, 2]
    assert gather(source, np.zeros(2, "i2")) == (1, 0)
    assert gather(source, np.zeros(2, "i2"), fill=-1) == (0, -1)


@pytest.mark.parametrize("fill", [300, 0.5, np.nan, -1])
def test_a_fill_that_the_target_cannot_hold_is_refused(fill):
    with pytest.raises(ConformError, match="not a value of uint8"):
        gather(np.zeros(1, "u1"), np.zeros(1, "u1"), fill=fill)


def test_a_fill_beyond_a_real_target_is_refused():
    with pytest.raises(ConformError, match="beyond the range of float32"):
        gather(np.zeros(1, "f8"), np.zeros(1, "f4"), fill=1e300)


@pytest.mark.parametrize(("scale", "offset"), [(np.nan, 0), (np.inf, 0), (1, np.nan)])
def test_a_scale_or_offset_that_is_not_finite_is_refused(scale, offset):
    with pytest.raises(ConformError, match="finite"):
        gather(np.zeros(1, "i2"), np.zeros(1, "f4"), scale, offset)


@pytest.mark.parametrize("dtype", ["f2", "?", "S1", "M8[s]", "c8"])
def test_types_that_are_no_plain_numbers_are_refused(dtype):
    with pytest.raises(UnsupportedError, match="source is"):
        gather(np.zeros(1, dtype), np.zeros(1, "f4"))


def test_shapes_that_differ_are_refused():
    with pytest.raises(ConformError, match=r"\(1, 2\) does not fit its place of shape \(2,\)"):
        gather(np.zeros((1, 2)), np.zeros(2))


@pytest.mark.few(4)
@pytest.mark.parametrize("fill", [None, 7, 0])
@pytest.mark.parametrize("name", ["f4", "i2", "u1"])
def test_missing_values_are_filled_in_place_wherever_they_stand(name, fill):
    dtype = np.dtype(name)
    low = 0 if dtype.kind == "u" else -4
    numbers = [low, 1, 3, 5, *([np.nan] if dtype.kind == "f" else [])]
    for fills in [(), *product([low, 1, 3, 5], repeat=1), *product([low, 1, 3, 5], repeat=2)]:
        rule = GatherRule.make(dtype, dtype, fills=fills, fill=fill)
        for n in range(4):
            for given_values in product(numbers, repeat=n):
                values = np.array(given_values, dtype)
                wrong = np.isin(values, np.array(fills, dtype)) | (values != values)  # noqa: PLR0124  NaN
                expected = np.where(wrong, np.array(rule.fill, dtype), values)
                if fill_missing(values, rule):
                    assert same(values, expected), (given_values, fills)
                else:
                    assert rule.lost
                    assert wrong.any()
