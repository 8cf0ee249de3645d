"""Which values attributes declare as missing."""

import netCDF4
import numpy as np
import pytest

from cfagg.cf.missing import WRITTEN_FILLS, Missing, declared_fill, default_fill
from cfagg.cf.values import reinterpret
from cfagg.errors import CfaggWarning, ConformError

I1, U1, I2, I4, F4 = (np.dtype(t) for t in ("i1", "u1", "i2", "i4", "f4"))


@pytest.mark.parametrize("name", sorted(WRITTEN_FILLS))
def test_what_is_never_written_is_what_the_netcdf_library_says(name):
    assert WRITTEN_FILLS[name] == netCDF4.default_fillvals[name]


@pytest.mark.parametrize("name", ["i1", "u1"])
def test_8_bit_types_have_no_default_fill(name):
    assert default_fill(np.dtype(name)) is None


def test_every_declared_missing_value_counts_once():
    attributes = {"_FillValue": np.int16(-1), "missing_value": np.array([-1, -2], "i2")}
    assert Missing.of(attributes, I2, I2, fill=-3, where="").fills == (-1, -2, -3)


def test_beside_missing_value_alone_what_was_never_written_is_missing():
    assert Missing.of({"missing_value": np.array([5, 6], "i2")}, I2, I2, where="").fills == (5, 6, -32767)
    assert Missing.of({"missing_value": np.int8(5)}, I1, I1, where="").fills == (5,)


def test_integers_of_untyped_lists_are_not_rounded():
    low, high, u8 = 3726219171203067543, 13383488565125974757, np.dtype("u8")
    found = Missing.of({"valid_range": [low, high], "missing_value": [7, high - 1]}, u8, u8, netcdf=False, where="")
    assert found.mask(np.array([low - 1, low, high - 1, high], u8)).tolist() == [True, False, True, False]


def test_a_missing_value_beyond_the_type_makes_no_infinity_missing():
    assert not Missing.of({"missing_value": 1e300}, F4, F4, where="").mask(np.float32([np.inf])).any()


def test_the_narrower_of_valid_range_and_valid_min_holds_and_a_warning_names_both():
    with pytest.warns(CfaggWarning, match=r"a\.nc: valid_range = \[0, 9\], valid_min = \[2\].*narrower"):
        found = Missing.of({"valid_range": [0, 9], "valid_min": 2}, I2, I2, where="a.nc")
    assert (found.low, found.high) == (2, 9)


def test_the_narrower_bound_holds_where_one_is_packed_and_the_other_is_not():
    with pytest.warns(CfaggWarning):
        found = Missing.of(
            {"valid_range": np.array([0, 900], "i2"), "valid_max": np.float32(5)}, I2, I2, scale=0.01, where=""
        )
    assert (found.low, found.high) == (0, 500)


def test_bounds_that_are_no_numbers_or_infinite_exclude_nothing():
    attributes = {"valid_min": np.float32(np.nan), "valid_max": np.float32(np.inf)}
    found = Missing.of(attributes, I2, I2, scale=0.5, where="")
    assert (found.low, found.high) == (None, None)


@pytest.mark.parametrize(
    ("name", "text"), [("valid_min", "    0.0"), ("valid_range", "-180., 360."), ("missing_value", "-9999")]
)
def test_what_is_given_as_text_excludes_nothing_and_a_warning_names_it(name, text):
    with pytest.warns(CfaggWarning, match=f"a.nc: attribute {name} = {text!r} is text"):
        found = Missing.of({name: text}, F4, F4, where="a.nc")
    assert (found.low, found.high) == (None, None)


@pytest.mark.parametrize(("bound", "high"), [
    (np.int16(300), 300), (np.uint16(300), 300), (np.float32(300), 2685), (np.float64(300), 2685),
    (np.int32(300), 2685), (np.int64(-300), -32769),
])  # fmt: skip
def test_bounds_of_the_packed_type_are_packed_and_of_others_unpacked(bound, high):
    attributes = {"scale_factor": np.float32(0.01), "add_offset": np.float32(273.15), "valid_max": bound}
    scale, offset = float(np.float32(0.01)), float(np.float32(273.15))
    found = Missing.of(attributes, I2, I2, scale=scale, offset=offset, where="").high
    assert found == high


def test_bounds_of_bytes_may_be_of_any_integer_type():
    found = Missing.of({"valid_range": np.array([0, 254], "i2")}, I1, U1, scale=0.5, where="")
    assert (found.low, found.high) == (0, 254)


def test_unpacked_bounds_change_places_where_the_scale_is_negative():
    found = Missing.of({"valid_range": [0.0, 5.0]}, I2, I2, scale=-0.5, offset=1.0, where="")
    assert (found.low, found.high) == (-8, 2)


def test_a_bound_without_a_type_never_lets_the_next_stored_value_pass():
    attributes = {"scale_factor": 1e-7, "valid_max": 1.0}
    assert Missing.of(attributes, I4, I4, scale=1e-7, where="a.nc").high == 10_000_000


def test_bounds_of_unsigned_bytes_are_read_by_their_bits():
    found = Missing.of({"valid_max": np.int8(-2)}, I1, U1, where="")
    assert found.high == 254


@pytest.mark.parametrize(
    ("value", "stored", "values", "expected"), [(-1, I1, U1, 255), (255, U1, I1, -1), (3, I1, U1, 3)]
)
def test_reinterpret_keeps_bits(value, stored, values, expected):
    assert reinterpret(value, stored, values) == expected


@pytest.mark.parametrize("attributes", [{"valid_range": [1, 2, 3]}, {"valid_min": [None]}, {"_FillValue": "x"}])
def test_attributes_that_make_no_sense_are_refused_by_name(attributes):
    with pytest.raises(ConformError, match=f"a.nc.*{next(iter(attributes))}"):
        Missing.of(attributes, F4, F4, where="a.nc")


def test_the_fill_value_goes_before_the_missing_value():
    assert declared_fill({"missing_value": 1, "_FillValue": 2}, "") == 2
    assert declared_fill({}, "") is None


@pytest.mark.parametrize("size", [1, 2, 4, 8])
def test_reinterpreted_values_have_the_bits_of_the_stored_ones(size):
    for stored, values in ((f"i{size}", f"u{size}"), (f"u{size}", f"i{size}")):
        info = np.iinfo(stored)
        for value in {info.min, info.max, info.max // 2, info.max // 2 + 1, 0, 1, 5}:
            expected = np.array([value], stored).view(values)[0].item()
            assert reinterpret(value, np.dtype(stored), np.dtype(values)) == expected
        for value in (info.min - 1, info.max + 1, 0.5, float("nan")):
            found = reinterpret(value, np.dtype(stored), np.dtype(values))
            assert found is value
