"""Missing times in calendars that NumPy lacks are NaN; xarray alone reads them as the date in their units.

It fills gaps among dates of cftime by NaN itself, and takes them for missing in Dask arrays, too, unlike `None`.
"""

from __future__ import annotations

from collections.abc import Mapping
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


def with_missing_times(decoding: Mapping[str, Any]) -> dict[str, Any]:
    """Return options of decoding by which missing times stay missing; other options are as given."""
    found, use_cftime = dict(decoding), decoding.get("use_cftime")
    given = decoding.get("decode_times", True)
    if isinstance(given, Mapping) or given is False or (isinstance(given, CFDatetimeCoder) and use_cftime is not None):
        return found
    unit = given.time_unit if isinstance(given, CFDatetimeCoder) else "ns"
    chosen = given.use_cftime if isinstance(given, CFDatetimeCoder) else use_cftime
    if not isinstance(given, CFDatetimeCoder) and found.get("decode_timedelta") is None:
        # xarray gives durations the unit of a coder of times, but stored ones their own where it is given none.
        found["decode_timedelta"] = CFTimedeltaCoder()
    return found | {"decode_times": _Coder(use_cftime=chosen, time_unit=unit), "use_cftime": None}


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
