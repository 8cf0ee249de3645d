"""Which values attributes declare as missing."""

import netCDF4
import numpy as np
import pytest

from cfagg.cf.masking import DEFAULT_FILLS, Missing, declared_fill, reinterpret
from cfagg.errors import ConformError

I1, U1, I2, F4 = (np.dtype(t) for t in ("i1", "u1", "i2", "f4"))


@pytest.mark.parametrize("name", sorted(DEFAULT_FILLS))
def test_default_fills_are_those_of_the_netcdf_library(name):
    assert DEFAULT_FILLS[name] == netCDF4.default_fillvals[name]


def test_every_declared_missing_value_counts_once():
    attributes = {"_FillValue": np.int16(-1), "missing_value": np.array([-1, -2], "i2")}
    assert Missing.of(attributes, I2, I2, fill=-3, where="").fills == (-1, -2, -3)


def test_the_tighter_of_valid_range_and_valid_min_counts():
    found = Missing.of({"valid_range": [0, 9], "valid_min": 2}, I2, I2, where="")
    assert (found.low, found.high) == (2, 9)


def test_unpacked_bounds_change_places_where_the_scale_is_negative():
    found = Missing.of({"valid_range": [0.0, 5.0]}, I2, I2, scale=-0.5, offset=1.0, where="")
    assert (found.low, found.high) == (-8, 2)


def test_bounds_of_unsigned_bytes_are_read_by_their_bits():
    found = Missing.of({"valid_max": np.int8(-2)}, I1, U1, where="")
    assert found.high == 254


@pytest.mark.parametrize(
    ("value", "stored", "values", "expected"), [(-1, I1, U1, 255), (255, U1, I1, -1), (3, I1, U1, 3)]
)
def test_reinterpret_keeps_bits(value, stored, values, expected):
    assert reinterpret(value, stored, values) == expected


@pytest.mark.parametrize("attributes", [{"valid_range": [1, 2, 3]}, {"valid_min": "low"}, {"_FillValue": "x"}])
def test_attributes_that_make_no_sense_are_refused_by_name(attributes):
    with pytest.raises(ConformError, match=f"a.nc.*{next(iter(attributes))}"):
        Missing.of(attributes, F4, F4, where="a.nc")


def test_the_fill_value_goes_before_the_missing_value():
    assert declared_fill({"missing_value": 1, "_FillValue": 2}, "") == 2
    assert declared_fill({}, "") is None
