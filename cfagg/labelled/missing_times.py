"""Missing times in calendars that NumPy lacks, and missing numbers of days or hours, are NaN.

xarray alone reads the former as the date in their units.  It fills gaps among dates of cftime by NaN itself, and takes
them for missing in Dask arrays, too, unlike `None`.  It gives missing integers in units of time the number that would
mean a missing duration (-9223372036854775808), but leaves them numbers.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
from xarray import Variable
from xarray.coders import CFDatetimeCoder, CFTimedeltaCoder
from xarray.coding.common import lazy_elemwise_func
from xarray.coding.times import decode_cf_datetime

__all__ = ["with_missing_times"]

#: What xarray makes of missing integers along the way.
_NAT = np.iinfo(np.int64).min


def with_missing_times(decoding: Mapping[str, Any], variables: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    """Return options of decoding by which missing times in `variables` stay missing; other options are as given.

    `variables` are names and attributes.
    """
    found, use_cftime = dict(decoding), decoding.get("use_cftime")
    given = decoding.get("decode_times", True)
    if isinstance(given, CFDatetimeCoder):
        if use_cftime is None:
            found["decode_times"] = _Coder(use_cftime=given.use_cftime, time_unit=given.time_unit)
    elif not isinstance(given, Mapping) and given is not False:
        if found.get("decode_timedelta") is None:
            # xarray gives durations the unit of a coder of times, but stored ones their own where it is given none.
            found["decode_timedelta"] = CFTimedeltaCoder()
        found |= {"decode_times": _Coder(use_cftime=use_cftime, time_unit="ns"), "use_cftime": None}
    coder = found.get("decode_timedelta")
    if coder is None or (isinstance(coder, CFTimedeltaCoder) and not coder.decode_via_units):
        found["decode_timedelta"] = {name: coder if _is_duration(said) else False for name, said in variables}
    return found


def _is_duration(attributes: Mapping[str, Any]) -> bool:
    """Return whether attributes say that numbers are durations of NumPy's type, which units alone do not."""
    return str(attributes.get("dtype", "")).startswith("timedelta64")


class _Coder(CFDatetimeCoder):
    """Decodes times like xarray, except for missing ones in calendars that NumPy lacks."""

    def decode(self, variable: Variable, name: Any = None) -> Variable:
        """Return the decoded variable, or the variable itself if it has no times."""
        try:
            made = super().decode(variable, name)
        except (OverflowError, ValueError):
            known = Variable(
                variable.dims, _lazily(variable, _known, variable.dtype), variable.attrs, variable.encoding
            )
            made = super().decode(known, name)
            if made.dtype.kind != "O":
                raise
        if made is variable or made.dtype.kind != "O":
            return made
        units, calendar = made.encoding["units"], made.encoding.get("calendar")
        decode = partial(_decoded, units=units, calendar=calendar)
        return Variable(
            made.dims, _lazily(variable, decode, np.dtype(object)), made.attrs, made.encoding, fastpath=True
        )


def _lazily(variable: Variable, function: Any, dtype: np.dtype[Any]) -> Any:
    return lazy_elemwise_func(variable._data, function, dtype)


def _missing(values: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
    found: npt.NDArray[np.bool_] = np.isnan(values) if values.dtype.kind == "f" else values == _NAT
    return found


def _known(values: Any) -> npt.NDArray[Any]:
    """Return numbers without missing ones, which are the date in the units instead."""
    given = np.asarray(values)
    return np.where(_missing(given), given.dtype.type(0), given)


def _decoded(values: Any, *, units: str, calendar: str | None) -> npt.NDArray[Any]:
    """Return dates of cftime, NaN where they are missing."""
    given = np.asarray(values)
    found: npt.NDArray[Any] = np.asarray(decode_cf_datetime(_known(given), units, calendar, use_cftime=True))
    found[_missing(given)] = np.nan
    return found
