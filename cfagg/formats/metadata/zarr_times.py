"""Times and durations of NumPy's own types in Zarr arrays, which kerchunk and others write: as CF has them, numbers."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from cfagg.cf.calendars import transform
from cfagg.cf.units import SAME
from cfagg.errors import ConformError

__all__ = ["MISSING", "times_of"]

#: The number that stands for "not a time" in both types.
MISSING = -(2**63)

#: Units of a fixed length; months and years have none.
_UNITS = {
    "ns": "nanoseconds", "us": "microseconds", "ms": "milliseconds", "s": "seconds", "m": "minutes", "h": "hours",
    "D": "days",
}  # fmt: skip

_V2_TYPE = re.compile(r"[<>]([mM])8\[([a-zA-Z]+)\]")
_V3_TYPES = {"numpy.datetime64": "M", "numpy.timedelta64": "m"}

#: The calendar of NumPy's times.
_CALENDAR = "proleptic_gregorian"

#: Attributes that would change the meaning of the numbers.
_MEANING = ("units", "calendar", "scale_factor", "add_offset", "_FillValue", "missing_value", "dtype")


def times_of(document: Mapping[str, Any], format_: int, attributes: Mapping[str, Any]) -> dict[str, str] | None:
    """Return the attributes that give numbers of an array their meaning, or `None` if it has another type.

    >>> times_of({"dtype": "<M8[s]"}, 2, {})
    {'units': 'seconds since 1970-01-01', 'calendar': 'proleptic_gregorian'}
    """
    given = document.get("data_type" if format_ == 3 else "dtype")
    kind = unit = None
    if format_ == 3 and isinstance(given, dict):
        configuration = given.get("configuration")
        kind = _V3_TYPES.get(str(given.get("name")))
        if isinstance(configuration, dict) and configuration.get("scale_factor", 1) == 1:
            unit = configuration.get("unit")
    elif format_ == 2 and isinstance(given, str) and (found := _V2_TYPE.fullmatch(given)):
        kind, unit = found.groups()
    name = _UNITS.get(unit) if isinstance(unit, str) else None
    if kind is None or name is None:
        return None
    if kind == "m":
        # The latter as xarray notes it, which has no durations longer than seconds.
        own = {"units": name, "dtype": f"timedelta64[{'s' if unit in ('m', 'h', 'D') else unit}]"}
    else:
        own = {"units": f"{name} since 1970-01-01", "calendar": _CALENDAR}
    return own if all(_agrees(n, attributes[n], own.get(n)) for n in _MEANING if n in attributes) else None


def _agrees(name: str, stated: Any, own: str | None) -> bool:
    """Return whether an attribute says the same as the type, such as units with an hour of their date."""
    if not (isinstance(stated, str) and isinstance(own, str)):
        return False
    try:
        return stated == own or (name == "units" and transform(stated, _CALENDAR, own, _CALENDAR) == SAME)
    except ConformError:
        return False
