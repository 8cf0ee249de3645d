"""Names of data types."""

import numpy as np
import pytest

from cfagg.conventions import dtypes


@pytest.mark.parametrize(
    ("name", "dtype"),
    [
        ("byte", "i1"),
        ("short", "i2"),
        ("int", "i4"),
        ("long", "i4"),
        ("float", "f4"),
        ("double", "f8"),
        ("char", "S1"),
        ("ubyte", "u1"),
        ("uint64", "u8"),
        ("float64", "f8"),
        ("<f4", "<f4"),
        (">i2", ">i2"),
        ("S10", "S10"),
    ],
)
def test_names_of_netcdf_and_numpy_are_understood(name, dtype):
    assert dtypes.is_known(name)
    assert dtypes.numpy_dtype(name) == np.dtype(dtype)


def test_strings_of_any_length_have_no_numpy_type():
    assert dtypes.is_known("string")
    assert dtypes.numpy_dtype("string") is None


@pytest.mark.parametrize("name", ["", "object", "O", "f8,f8", "f3", "M8[s]", "S9999999", "i4 ", "({'a': 1})", "é"])
def test_other_names_are_refused(name):
    assert not dtypes.is_known(name)
    with pytest.raises(KeyError):
        dtypes.numpy_dtype(name)
