"""Times that xarray cannot decode, whose own errors name no file and no variable."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import xarray

from cfagg.cf.calendars import parse
from cfagg.errors import CalendarError
from cfagg.labelled.missing_times import decoded_by_cf, no_time

__all__ = ["refuse_undecodable", "undecodable_times"]


def refuse_undecodable(
    error: Exception,
    source: Any,
    name: str | Callable[[str, xarray.Dataset], str],
    group: str | None,
    options: Mapping[str, Any],
) -> None:
    """Raise the error about the times of a source that xarray cannot decode with some options, if there are any.

    `error` is what xarray raised; `name` stands for the source in the message, or returns what does, given the variable
    and all of them undecoded.
    """
    if options.get("decode_times") is False:
        return
    with xarray.open_dataset(source, group=group, **{**options, "decode_times": False}) as raw:
        found = undecodable_times(raw.variables)
        for path, why in found.items():
            where = name if isinstance(name, str) else name(path, raw)
            raise CalendarError(
                f"{where}: variable {path!r}: {why}; decode_times=False leaves times undecoded, or "
                f"drop_variables={[*found][:20]!r} leaves such variables out"
            ) from error


def undecodable_times(variables: Mapping[Any, xarray.Variable]) -> dict[str, str]:
    """Return why xarray does not decode the times among undecoded variables, by name; others are left out."""
    found: dict[str, str] = {}
    for name, variable in variables.items():
        units, calendar = variable.attrs.get("units"), variable.attrs.get("calendar")
        if isinstance(units, str) and " since" in units:
            why = _reason(variable, units, None if calendar is None else str(calendar))
            found |= {str(name): why} if why else {}
    return found


def _reason(variable: xarray.Variable, units: str, calendar: str | None) -> str | None:
    """Return why xarray does not decode the times of a variable, or `None` if it does."""
    named = f"units {units!r} in calendar {calendar or 'standard'!r}"
    try:
        parse(units, calendar)
    except CalendarError as error:
        return error.message
    if _decodes(variable):
        return None
    if not _decodes(xarray.Variable((), 0, {**variable.attrs, "units": "days since 2000-01-01"})):
        return f"times in calendar {calendar!r} are not decoded by xarray"
    if not _decodes(xarray.Variable((), 0, variable.attrs)):
        return f"{named} are not decoded by xarray; use seconds, minutes, hours or days"
    known = variable.values[~np.isnan(variable.values)]
    if not known.size:
        return f"all values are missing, which xarray does not decode with {named}"
    far = known[np.abs(known).argmax()]
    return no_time(far, units, calendar)


def _decodes(variable: xarray.Variable) -> bool:
    """Return whether xarray decodes the times of a variable."""
    try:
        decoded_by_cf(xarray.Dataset({"_": variable}))
    except ValueError:
        return False
    return True
