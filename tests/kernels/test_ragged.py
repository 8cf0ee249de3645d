"""Gathering rows of different lengths: by NumPy and compiled alike."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cfagg.kernels import ragged
from tests.effort import examples


@st.composite
def cases(draw):
    lengths = draw(st.lists(st.integers(0, 5), max_size=12))
    size = draw(st.integers(5, 30))
    starts = [[draw(st.integers(0, size - n)) for n in lengths] for _ in range(2)]
    kinds = draw(st.lists(st.sampled_from(["u1", "i2", "f4", "f8", "?"]), min_size=1, max_size=2))
    return lengths, size, starts[: len(kinds)], kinds


@pytest.mark.parametrize("compiled", [False, True])
@given(case=cases())
@settings(max_examples=examples(200), deadline=None)
def test_rows_stand_one_after_the_other(compiled, case):
    lengths, size, starts, kinds = case
    indptr = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    sources = tuple((np.arange(size) * 7 % 251).astype(kind) for kind in kinds)
    outs = tuple(np.empty(indptr[-1], kind) for kind in kinds)
    with pytest.MonkeyPatch.context() as patch:
        for name in ("KERNEL_ELEMENTS", "IMPORT_ELEMENTS"):
            patch.setattr(ragged, name, 0 if compiled else 2**40)
        ragged.gather_rows(sources, tuple(np.array(s, np.int64) for s in starts), indptr, outs)
    for source, start, out in zip(sources, starts, outs, strict=True):
        expected = [v for a, n in zip(start, lengths, strict=True) for v in source[a : a + n].tolist()]
        assert out.tolist() == expected


@pytest.mark.parametrize(("start", "end"), [(-1, 2), (8, 2), (0, -2), (0, 4)])
def test_a_row_outside_is_refused_before_anything_is_copied(start, end):
    with pytest.raises(IndexError):
        ragged.gather_rows((np.zeros(9),), (np.array([start]),), np.array([0, end]), (np.zeros(2),))
    with pytest.raises(IndexError):
        ragged.gather_rows((np.zeros(9),), (np.array([0, 0]),), np.array([0, 1]), (np.zeros(2),))
    with pytest.raises(IndexError):
        ragged.gather_rows((np.zeros(9),), (np.array([0]),), np.array([0, 1]), (np.zeros(2, "f4"),))


@pytest.mark.parametrize("start", [2**63 - 1, 2**63 - 2])
@pytest.mark.parametrize("compiled", [False, True])
def test_a_start_whose_sum_with_the_length_wraps_around_is_refused(start, compiled, monkeypatch):
    for name in ("KERNEL_ELEMENTS", "IMPORT_ELEMENTS"):
        monkeypatch.setattr(ragged, name, 0 if compiled else 2**40)
    with pytest.raises(IndexError, match="a row lies outside the 9 elements"):
        ragged.gather_rows((np.zeros(9),), (np.array([start]),), np.array([0, 2]), (np.zeros(2),))


@pytest.mark.parametrize("arrays", [(np.zeros(9),) * 3, (np.zeros((9, 2)),), (np.zeros(()),)])
def test_more_than_two_arrays_and_those_of_other_than_one_dimension_are_refused(arrays):
    with pytest.raises(IndexError, match="do not match"):
        ragged.gather_rows(arrays, (np.array([0]),) * len(arrays), np.array([0, 2]), (np.zeros(2),) * len(arrays))
