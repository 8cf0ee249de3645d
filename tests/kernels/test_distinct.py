"""Distinct values are those of NumPy, in its order."""

from __future__ import annotations

import time

import numpy as np
import numpy.testing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from cfagg.kernels.distinct import distinct


@given(
    arrays.arrays(
        st.sampled_from([np.dtype("i8"), np.dtype("i4"), np.dtype("u8"), np.dtype(">i2")]),
        arrays.array_shapes(min_dims=0, max_dims=2, min_side=0),
    )
)
def test_distinct_values_are_those_of_numpy(values: np.ndarray) -> None:
    found, expected = distinct(values), np.unique(values)
    npt.assert_array_equal(found, expected)
    assert found.dtype == expected.dtype


@pytest.mark.skipif(np.lib.NumpyVersion(np.__version__) < "2.3.0", reason="NumPy sorts, too")
def test_many_different_values_are_sorted_and_not_hashed() -> None:
    values = np.random.default_rng(0).integers(0, 2**40, 1 << 17)
    spent = []
    for function in (distinct, np.unique):
        start = time.process_time()
        function(values)
        spent.append(time.process_time() - start)
    assert spent[0] < spent[1]
