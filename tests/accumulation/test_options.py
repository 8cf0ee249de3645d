"""Options of an accumulation, checked against the array."""

from __future__ import annotations

import pytest

from cfagg.accumulation.options import check_dims, check_statistics, check_stride, sums_kind


def test_combinations_are_in_the_order_of_the_array_and_once_each_short_ones_first() -> None:
    found = check_dims(["time", ("lon", "lat"), ("time",)], ("time", "lat", "lon"), "tas")
    assert found == (("time",), ("lat", "lon"))


def test_a_stride_is_1_along_what_is_not_accumulated() -> None:
    assert check_stride({"time": 4}, [("time",), ("lat",)], ("time", "lat"), "tas") == (4, 1)


def test_statistics_include_those_of_chunks_unless_there_are_none() -> None:
    assert check_statistics(("std", "min")) == ("chunks", "min", "std")
    assert check_statistics("none") == check_statistics(None) == ()


def test_statistics_over_all_dimensions_are_those_of_chunks() -> None:
    assert check_statistics("min", [("time", "lat")], ("time", "lat")) == ("chunks",)
    assert check_statistics("min", [("time",), ("time", "lat")], ("time", "lat")) == ("chunks", "min")
    assert check_statistics("none", [("time",)], ("time",)) == ()


@pytest.mark.parametrize(
    ("precision", "integer", "expected"),
    [
        ("auto", True, "int64"), ("auto", False, "float64"), ("float64", True, "float64"),
        ("double-double", False, "double-double"), ("double-double", True, "int64"),
    ],
)  # fmt: skip
def test_integers_are_summed_exactly_unless_float64_is_asked_for(precision: str, integer: bool, expected: str) -> None:
    assert sums_kind(precision, integer=integer) == expected
