"""Packing, signs and declared types."""

import numpy as np
import pytest

from cfagg.cf.packing import Packing, check_declared, read_as
from cfagg.errors import ConformError, FragmentMismatchError
from cfagg.model import Layout


@pytest.mark.parametrize("attributes", [{"scale_factor": 0.0}, {"scale_factor": np.inf}, {"add_offset": np.nan}])
def test_a_packing_that_cannot_be_undone_is_refused(attributes):
    with pytest.raises(ConformError, match=r"a.nc: scale_factor"):
        Packing.of(attributes, where="a.nc")


@pytest.mark.parametrize(("dtype", "flag", "expected"), [
    ("i1", "true", "u1"), ("i2", "TRUE", "u2"), ("u2", "false", "i2"), ("i2", "false", "i2"), ("f4", "true", "f4"),
])  # fmt: skip
def test_unsigned_changes_the_sign_of_integers_only(dtype, flag, expected):
    assert read_as(np.dtype(dtype), {"_Unsigned": flag}) == np.dtype(expected)


@pytest.mark.parametrize(("name", "dtype"), [
    ("double", "f8"), ("float", "f4"), ("float64", ">f8"), ("<i2", ">i2"), ("short", "i2"), ("byte", "i1"),
    ("char", "S1"), ("long", "i4"), ("string", "O"), ("ubyte", "u1"), ("float", "f8"), ("int", "i8"), ("long", "i8"),
])  # fmt: skip
def test_netcdf_and_numpy_names_of_types_are_understood(name, dtype):
    check_declared(name, np.dtype(dtype), Packing(), where="")


@pytest.mark.parametrize(("name", "dtype"), [
    ("double", "f4"), ("i2", "u2"), ("nonsense", "f4"), ("i4,f8", "i4"), ("(2,)f4", "f4"), ("char", "i1"),
])  # fmt: skip
def test_other_types_are_refused_by_both_names(name, dtype):
    with pytest.raises(FragmentMismatchError, match=f"{np.dtype(dtype).name}.*says"):
        check_declared(name, np.dtype(dtype), Packing(), where="a.nc")


@pytest.mark.parametrize("name", ["i4", "i2", "nonsense"])
def test_a_packed_sub_array_is_of_its_own_type_or_of_reals(name):
    packing = Packing(scale=0.5)
    check_declared("float", np.dtype("i1"), packing, where="")
    check_declared("f8", np.dtype("i1"), packing, where="")
    with pytest.raises(FragmentMismatchError, match="says"):
        check_declared(name, np.dtype("i1"), packing, where="a.nc")
    with pytest.raises(FragmentMismatchError, match="says"):
        check_declared("f4", np.dtype("i1"), Packing(), where="a.nc")


@pytest.mark.parametrize("said", [(0.5, 2.0), (0.25, 1.0)])
def test_the_packing_of_an_aggregation_must_be_that_of_the_file_if_that_has_any(said):
    def found(attributes, scale, offset):
        return Packing.with_layout(attributes, Layout(("x",), scale_factor=scale, add_offset=offset), where="a.nc")

    own = {"scale_factor": 0.5, "add_offset": 1.0}
    assert found(own, 0.5, 1.0) == found(own, None, None) == (0.5, 1.0)
    assert found({}, *said) == said
    with pytest.raises(
        FragmentMismatchError, match=r"a\.nc: the file is packed with scale_factor 0\.5 and add_offset 1"
    ):
        found(own, *said)
