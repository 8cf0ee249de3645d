"""Scale and offset between units, with cfunits itself as the oracle."""

import subprocess
import sys
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from cfagg.cf import calendars, units
from cfagg.cf.common_units import COMMON
from cfagg.cf.kinds_of_units import convertible, is_reference_time, known
from cfagg.cf.roles import axis_by_units
from cfagg.cf.udunits import load
from cfagg.cf.units import linear_exact
from cfagg.errors import ConformError, UnitsError
from tests.cf.udunits import definition
from tests.effort import examples

PAIRS = [
    ("K @ 273.15", "K"), ("degC", "K"), ("K", "Celsius"), ("degF", "K"), ("degF", "degC"), ("km", "m"), ("m", "km"),
    ("hPa", "Pa"), ("mm day-1", "m s-1"), ("%", "1"), ("1", "%"), ("h", "d"), ("m s-1", "km h-1"), ("furlong", "m"),
    ("degrees_north", "radian"), ("psu", "1"), ("m2 s-2", "J kg-1"), ("Sv", "m3 s-1"), ("nm", "m"), ("feet", "m"),
    ("kg m-2 s-1", "g cm-2 h-1"), ("year", "day"), ("level", "1"), ("m s**-1", "m/s"),
]  # fmt: skip


@pytest.mark.parametrize(("source", "target"), PAIRS)
def test_scale_and_offset_convert_as_cfunits_does(source, target):
    cfunits = load()
    scale, offset = units.linear(source, target)
    values = np.array([0.0, 1.0, -40.0, 273.15, 1e5, 1e-7])
    expected = cfunits.Units.conform(values, cfunits.Units(source), cfunits.Units(target))
    np.testing.assert_allclose(values * scale + offset, expected, rtol=2e-15, atol=1e-13 * max(1.0, abs(scale)))


@pytest.mark.parametrize(
    ("source", "target", "expected"),
    [
        ("K @ 273.15", "K", (1.0, 273.15)),
        ("K", "degC", (1.0, -273.15)),
        ("degF", "degC", (5 / 9, -160 / 9)),
        ("m", "km", (0.001, 0.0)),
        ("m s-1", "km h-1", (3.6, 0.0)),
        ("degC", "K @ 273.15", (1.0, 0.0)),
        ("m s-1", "m/s", (1.0, 0.0)),
        ("", "1", (1.0, 0.0)),
    ],
)
def test_round_off_of_udunits_does_not_show(source, target, expected):
    assert units.linear(source, target) == expected


@pytest.mark.parametrize(
    ("source", "target"),
    [
        ("m", "K"),
        ("nonsense", "K"),
        ("s", "Hz"),
        ("lg(re 1 mW)", "W"),
        ("dBZ", "m6 m-3"),
        ("dB", "1"),
        ("ln(re 1 Pa)", "Pa"),
        ("K\0m", "degC"),
        ("degC", "K\0m"),
    ],
)
def test_units_that_do_not_convert_by_scale_and_offset_are_refused_by_name(source, target):
    with pytest.raises(UnitsError) as caught:
        units.linear(source, target)
    assert repr(source) in str(caught.value)
    assert repr(target) in str(caught.value)


@pytest.mark.parametrize("text", ["nonsense", "dB", "furlongs per fortnight and so on"])
def test_units_spelled_alike_are_never_looked_up(text):
    assert units.linear(text, f" {text}") == (1.0, 0.0)


def test_no_units_are_the_number_one():
    assert calendars.transform(None, None, "1", None) == units.SAME
    assert calendars.transform("%", None, None, None) == (Fraction(1, 100), 0)
    with pytest.raises(UnitsError, match="'K'"):
        calendars.transform("K", None, None, None)


@pytest.mark.parametrize(("source", "target"), [("days since 2000-01-01", "days"), ("K", "days since 2000-01-01")])
def test_a_reference_time_is_no_other_unit(source, target):
    with pytest.raises(UnitsError, match="only one of them is a reference time"):
        calendars.transform(source, None, target, None)


def test_a_shifted_unit_is_no_reference_time():
    assert calendars.transform("K @ 273.15", None, "K", None) == (1, Fraction("273.15"))


def test_equal_units_do_not_load_the_library():
    code = "import sys; from cfagg.cf import units; units.linear('K', 'K'); print('ctypes' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=600, check=True)
    assert done.stdout.strip() == "False"


#: UDUNITS does not know these words, and conversions do; the checker reports them.
ALSO = ("level", "layer", "sigma_level", "psu")
ODD = (
    "degree",
    "radian",
    "percent",
    "1",
    "",
    "dbar",
    "mb",
    "degF",
    "knot",
    "Hz",
    "s-1",
    "lg(re 1 mW)",
    "ppm",
    "K km-1",
)


@settings(max_examples=examples(150), deadline=None)
@given(st.sampled_from([*COMMON, *ODD]), st.sampled_from([*COMMON, *ODD]))
def test_what_converts_is_convertible_to_the_checker_too(source, target):
    assume(source != target)
    if convertible(source, target):
        linear_exact(source, target)
    else:
        with pytest.raises(UnitsError):
            linear_exact(source, target)


@pytest.mark.parametrize("word", ALSO)
def test_words_that_only_conversions_know_are_reported_by_the_checker(word):
    assert not known(word)


REFERENCES = [
    "days since 2000-01-01", "DAYS SINCE 2000-1-1", "s @ 2000-01-01", "days after 2000-1-1", "h ref 2000-01-01",
    "s @ 19700101T000000", "s @ 1970", "s@20000101", "s @ -20", "hour since -10-1-1", "days since2000-1-1",
    "days\nsince\n2000-1-1", "2 days from 2000", "(s) since 2000-1-1", "kyr since 2000-1-1", "yr since 2000-1-1",
]  # fmt: skip
OTHERS = [
    "K @ 273.15", "K from 273.15", "degC @ 20", "m since 2000-1-1", "K ref 2000-1-1", "@ 2000-1-1", "since 2000-1-1",
    "s since 1e3", "s since 20.5", "s @ .5", "y since 2000-1-1", "days", "dayssince 2000-1-1", "", "days sincere 2000",
]  # fmt: skip


@pytest.mark.parametrize("text", [*REFERENCES, *OTHERS])
def test_what_a_reference_time_is_has_one_answer_which_is_that_of_udunits(text):
    wanted = text in REFERENCES
    said = definition(text.replace("\n", " "))
    assert (said is not None and said.endswith("UTC")) == wanted
    assert is_reference_time(text) == (axis_by_units({"units": text}) == "T") == wanted
    try:
        calendars.parse(text, None)
    except ConformError:
        assert not wanted
    else:
        assert wanted


@pytest.mark.parametrize("unit", ["mins", "hrs"])
def test_units_of_cftime_that_udunits_does_not_know_make_times_and_are_reported(unit):
    one, other = (calendars.parse(f"{text} since 2000-01-01", None) for text in (unit, unit[:-1]))
    assert one.unit == other.unit
    assert is_reference_time(f"{unit} since 2000-01-01")
    assert not known(f"{unit} since 2000-01-01")
