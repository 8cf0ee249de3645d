"""Vertical coordinates: CF section 4.3."""

from __future__ import annotations

import re
from collections.abc import Iterator

from cfagg.cf.attribute_types import holds, said
from cfagg.cf.kinds_of_units import is_pressure
from cfagg.checking.axes import axis_of
from cfagg.checking.context import Context
from cfagg.findings.finding import Edit, Hit
from cfagg.findings.rule import rule
from cfagg.findings.versions import Version
from cfagg.model.dataset import Variable

#: Standard names of what increases upwards.
_UP = re.compile(
    r"(?:height|altitude|geopotential_height)(?:_above_\w+|_at_\w+)?"
    r"|atmosphere_(?:ln_pressure|hybrid_height|sleve)_coordinate"
    r"|ocean_(?:sigma|s)_coordinate(?:_g[12])?"
)

#: Standard names of what increases downwards.
_DOWN = re.compile(
    r"depth(?:_below_\w+|_at_\w+)?|(?:air|sea_water)_pressure(?:_due_to_sea_water)?"
    r"|atmosphere_(?:sigma|hybrid_sigma_pressure|hybrid_sigma_ln_pressure)_coordinate"
)


@rule("VRT001", each="positive")
def positive_is_up_or_down(c: Context, v: Variable) -> Iterator[str]:
    """``positive`` is ``up`` or ``down`` in any case."""
    value = v.attributes["positive"]
    if isinstance(value, str):
        if value.strip().lower() not in ("up", "down"):
            yield (f"it is {value[:40]!r}; expected 'up' or 'down'")
    elif holds(value) not in ("bytes", "texts") or c.version < Version(1, 12):
        yield (f"it holds {said(value)}; expected the text 'up' or 'down'")


@rule("VRT002", each="positive")
def positive_agrees_with_the_name(_: Context, v: Variable) -> Iterator[Hit]:
    """``positive`` agrees with the direction that the standard name implies."""
    given = (v.text("positive") or "").strip().lower()
    words = v.words("standard_name")
    if given not in ("up", "down") or not words:
        return
    meant = "up" if _UP.fullmatch(words[0]) else "down" if _DOWN.fullmatch(words[0]) else given
    if meant != given:
        told = f"it is {given!r}, but values of {words[0]} increase {meant}wards"
        fix = (Edit(v.path, "positive", meant, safe=False),)
        yield Hit(
            v, "positive", f"{told}: change it, or the standard name if the values increase {given}wards", None, fix
        )


@rule("VRT012")
def direction_of_vertical_coordinates_is_told(c: Context) -> Iterator[Hit]:
    """Vertical coordinates have ``positive`` unless their units are those of a pressure."""
    # The chapter requires it; the conformance document does not list it, and a file may be read without.
    coordinates = c.roles.coordinates
    for v in c.dataset.variables:
        if v not in coordinates or "positive" in v.attributes or not v.is_numeric or axis_of(c, v) != "Z":
            continue
        if not is_pressure(v.text("units") or "1"):
            yield Hit(v, "positive", "the vertical coordinate has no attribute positive: add it, 'up' or 'down'")
