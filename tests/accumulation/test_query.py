"""Attributes of results."""

from __future__ import annotations

import pytest
from cf_units import Unit

from cfagg.accumulation.query import attributes, squared


@pytest.mark.parametrize("units", ["K", "degC", "m s-1", "kg m-2", "%", "1", "W/m2", "degree_Celsius", "hPa"])
def test_squared_units_are_the_square_to_udunits(units):
    interval = {"degC": "K", "degree_Celsius": "K"}.get(units, units)
    assert Unit(squared(units)) == Unit(interval) ** 2


def test_what_describes_stored_values_is_left_out():
    attrs = {"valid_range": [0, 9], "_Unsigned": "true", "missing_value": -1, "actual_range": [1, 2], "long_name": "x"}
    assert attributes(attrs, "mean", ["t"]) == {"long_name": "x", "cell_methods": "t: mean"}


def test_methods_come_in_the_order_of_dimensions():
    found = attributes({"cell_methods": "time: point"}, "std", ["x", "y"], ["y", "t", "x"])
    assert found["cell_methods"] == "time: point y: x: standard_deviation"
    assert "cell_methods" not in attributes({}, "max", [])


def test_numbers_of_values_have_units_and_name_of_their_own():
    attrs = {"units": "K", "standard_name": "air_temperature standard_error", "cell_methods": "area: mean"}
    assert attributes(attrs, "count", ["time"]) == {
        "units": "1",
        "standard_name": "air_temperature number_of_observations",
        "cell_methods": "area: mean",
    }
