"""What units are."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cfagg.cf import kinds_of_units as units
from cfagg.cf.kinds_of_units import meaning
from tests.effort import examples


@pytest.mark.parametrize(
    "text",
    [
        "1", "", "%", "percent", "1e-3", "ppm", "K", "degC", "°C", "µm", "kg·m", "m²",
        "m⁻²", "W m-2 K-1", "m s**-1",
        "m/s",
        "mm6 m-3", "dBZ", "lg(re 1 mW)", "degrees_north", "degreeE", " m ", "kg\nm-2", "months", "DU", "mol mol-1",
        "days since 2000-01-01T00:00:00Z", "days since 1-1-1 0:0:0", "hours since 1900-01-01 00:00:00 +01:00",
    ],
)  # fmt: skip
def test_udunits_knows(text: str) -> None:
    assert units.known(text)


@pytest.mark.parametrize(
    "text", ["level", "psu", "unitless", "-", "dB", "metres each second", "m" * 1001, "K\0m", "\ud800", "(" * 900]
)
def test_udunits_does_not_know(text: str) -> None:
    assert not units.known(text)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("K", "degF"), ("hPa", "dbar"), ("1", "percent"), ("1", "degree"), ("kg m-2", "kg·m⁻²"), ("W", "J s-1"),
        ("days since 2000-01-01", "seconds since 1-1-1"), ("m s-1", "knots"), ("g kg-1", "1"),
    ],
)  # fmt: skip
def test_units_that_convert(one: str, other: str) -> None:
    assert units.convertible(one, other)
    assert units.convertible(other, one)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("s", "s-1"), ("m", "m2"), ("kg m-2 s-1", "mm"), ("mb", "Pa"), ("dBZ", "mm6 m-3"), ("K", "foo"), ("foo", "foo"),
        ("s", "days since 2000-01-01"), ("K", "K2"),
    ],
)  # fmt: skip
def test_units_that_do_not_convert(one: str, other: str) -> None:
    assert not units.convertible(one, other)
    assert not units.convertible(other, one)


@pytest.mark.parametrize(
    "text",
    [
        "days since 2000-01-01", "days  since 2000-02-30", "hours after 1-1-1",
        "s@1970-01-01", "Days Since 2000-01-01",
        "days since", "days since yesterday", "months since 2000-01",
        "ms from 2000-01-01 00:00:00.5", "\tdays since 2000 ",
    ],
)  # fmt: skip
def test_reference_times_whatever_their_datetime(text: str) -> None:
    assert units.is_reference_time(text)
    assert not units.is_time(text)


@pytest.mark.parametrize(
    "text", ["days", "K @ 273.15", "since 2000-01-01", "m since 2000-01-01", "", "@", "dayssince 2000"]
)
def test_other_units_are_no_reference_times(text: str) -> None:
    assert not units.is_reference_time(text)


@pytest.mark.parametrize("text", ["K", "degC", "°C", "degF/foot", "kelvin2", "W m-2 K-1", "degC/degC", "K @ 273.15"])
def test_units_that_involve_a_temperature(text: str) -> None:
    assert units.is_temperature(text)


@pytest.mark.parametrize("text", ["J kg-1", "1", "m", "days since 2000-01-01", "foo", "", "mm m-1", "km"])
def test_units_that_do_not_involve_a_temperature(text: str) -> None:
    assert not units.is_temperature(text)


def test_a_unit_prints_nothing() -> None:
    code = "from cfagg.cf.kinds_of_units import known; [known(t) for t in ('kg\\nm', '\\n\\n', 'a b c', '((', '\\x01')]"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, env=os.environ)
    assert (done.stdout, done.stderr) == (b"", b"")


@settings(max_examples=examples(100), deadline=None)
@given(
    st.lists(
        st.sampled_from(
            ["m", "kg", "K", "s", "since", "@", "2000-01-01", "(", ")", "lg(re", "^", "-2", "1e3", " ", "·", "²"]
        )
        | st.text(max_size=4),
        max_size=12,
    ).map("".join)
)
def test_any_text_has_a_meaning_or_none(text: str) -> None:
    found = meaning(text)
    assert units.known(text) == (found is not None)
    assert units.convertible(text, text) == units.known(text)
    assert not (units.is_time(text) and units.is_reference_time(text))
    assert units.is_dimensionless(text) <= units.known(text)
    assert isinstance(units.is_temperature(text), bool)
