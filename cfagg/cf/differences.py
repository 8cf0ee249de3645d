"""Whether temperatures are on the scale of their units or differences, whose units convert without an offset.

Sources: CF section 3.1.2; Appendix C, standard_error; Appendix E.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from cfagg.cf.kinds_of_units import is_temperature
from cfagg.cf.units import Linear
from cfagg.errors import UnitsError

__all__ = ["DIFFERENCE", "DIFFERENT", "are_differences", "change_of_temperatures"]

#: The value of ``units_metadata`` for differences.
DIFFERENCE = "temperature: difference"

#: Methods whose results are differences by Appendix E.
DIFFERENT = frozenset({"range", "standard_deviation", "variance"})

#: Words of the standard names of differences, such as air_temperature_anomaly.
_NAMES = re.compile(r"(?:^|_)(?:anomaly|difference|change_over_time)(?:_|$)")


def are_differences(attributes: Mapping[str, Any]) -> bool | None:
    """Return whether values of a temperature are differences, or `None` if the attributes of the variable are silent.

    >>> are_differences({"units_metadata": "temperature: on_scale"})
    False
    >>> are_differences({"standard_name": "air_temperature", "cell_methods": "time: standard_deviation"})
    True
    >>> are_differences({"standard_name": "air_temperature"}) is None
    True
    """
    stated, name, methods = (
        value if isinstance(value := attributes.get(n), str) else ""
        for n in ("units_metadata", "standard_name", "cell_methods")
    )
    if " ".join(stated.split()) in (DIFFERENCE, "temperature: on_scale"):
        return " ".join(stated.split()) == DIFFERENCE
    noun, *modifiers = name.split() or [""]
    differ = bool(methods) and _are_of_differences(methods)
    return differ or "standard_error" in modifiers or bool(_NAMES.search(noun)) or None


def _are_of_differences(methods: str) -> bool:
    """Return whether one of some cell methods makes differences of temperatures."""
    from cfagg.cf.cell_methods import parse

    return any(e.is_anomaly or e.method.lower() in DIFFERENT for e in parse(methods).entries)


def change_of_temperatures(change: Linear, units: str | None, *sides: Mapping[str, Any]) -> Linear:
    """Return a conversion from `units`, without its offset if one of two variables contains differences."""
    scale, offset = change
    if not offset or not is_temperature(units or "1"):
        return change
    differ = {are_differences(attributes) for attributes in sides}
    if differ == {True, False}:
        raise UnitsError(
            f"temperatures in {units!r} are on_scale by the attributes of one variable and differences by those of the "
            "other, so that it is unclear whether they are converted with an offset"
        )
    return (scale, Fraction(0)) if True in differ else change
