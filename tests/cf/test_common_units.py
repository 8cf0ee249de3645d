"""Units whose meaning is known without UDUNITS mean what UDUNITS says."""

from __future__ import annotations

import pytest

from cfagg.cf.common_units import COMMON
from cfagg.cf.kinds_of_units import _common, meaning
from cfagg.cf.udunits import definition as _definition

TIMES = (
    "days since 2000-01-01",
    "h since 1998-4-19 6:0:0Z",
    "seconds since 1970-01-01T00:00:00Z",
    "minutes since 2001-12-28 23:59:59.5",
    "days since 0000-1-1",
    "d since 9999-02-28 0:0",
)


def test_common_units_are_defined_as_the_library_does() -> None:
    assert {text: _definition(text) for text in COMMON} == COMMON


@pytest.mark.parametrize("text", TIMES)
def test_common_reference_times_mean_what_the_library_says(text: str) -> None:
    assert _common(text) is not None
    definition = _definition(text)
    assert definition is not None
    plain, _, origin = definition.partition("@")
    assert origin.endswith("UTC")
    known = meaning(text)
    assert known is not None
    assert (known.reference, known.logarithmic, dict(known.dimension)) == (True, False, {"s": 1})
    assert plain.strip(" ()").endswith("s")


@pytest.mark.parametrize(
    "text",
    [
        "m since 2000-01-01",
        "days since 2000-13-01",
        "days since 2000-02-30",
        "days since 2000-01-01 25:00",
        "day s",
        "",
    ],
)
def test_other_texts_are_left_to_the_library(text: str) -> None:
    assert _common(text) is None
