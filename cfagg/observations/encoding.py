"""Frames of observations as float32 rows: "Support irregular observations datasets", "Data".

Dates are rounded to the nearest second, halves to the even one, and split into days since 1970 and the second of the
day. Longitudes are wrapped into [0, 360) once more when they are float32: what is a hair below 0 is 360 then.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from cfagg.errors import ConformError, ConventionError, Problem
from cfagg.observations.finishing import META

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["encode_frame", "whole_seconds", "wrap_longitudes"]

type Rows = npt.NDArray[np.float32]

#: So many rows are filled in column by column at a time, which the processor's cache holds.
_BLOCK = 4096
#: Days since 1970 are whole float32 up to here.
_MOST_DAYS = 2**24

_UNITS = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}


def encode_frame(
    frame: pd.DataFrame, variables: Sequence[str], out: Rows, where: str, no_nans: Sequence[str] = ()
) -> None:
    """Write a frame as rows of a store, float32 (n, 4 + variables); variables in `no_nans` may not have NaN."""
    problems: list[Problem] = []
    seconds = whole_seconds(_dates(frame, problems))
    days, of_day = np.divmod(seconds, 86400)
    far = np.abs(days) >= _MOST_DAYS
    if far.any() and not problems:
        problems.append(Problem(_row(frame, far), "date is too far from 1970 for a store"))
    columns: list[npt.NDArray[Any]] = [days, of_day, _column(frame, "latitude")]
    longitude = _column(frame, "longitude")
    for name, values, limit in (("latitude", columns[2], 90), ("longitude", longitude, 360)):
        with np.errstate(invalid="ignore"):
            wrong = ~(np.abs(values) <= limit)
        if wrong.any():
            found = values[int(np.argmax(wrong))]
            problems.append(Problem(_row(frame, wrong), f"{name} is {found}, expected -{limit} to {limit} degrees"))
    if problems:
        raise ConventionError(f"{where} gave rows that cannot be stored", problems)
    columns += [wrap_longitudes(longitude), *(_column(frame, v) for v in variables)]
    with np.errstate(over="ignore"):
        for start in range(0, len(out), _BLOCK):
            stop = min(start + _BLOCK, len(out))
            for j, values in enumerate(columns):
                out[start:stop, j] = values[start:stop]
    _check_values(frame, variables, columns[len(META) :], out, where, no_nans)


def whole_seconds(dates: npt.NDArray[np.datetime64]) -> npt.NDArray[np.int64]:
    """Return seconds since 1970, rounded to the nearest, halves to the even one."""
    unit, step = np.datetime_data(dates.dtype)
    if unit not in _UNITS or step != 1:
        dates = dates.astype("M8[us]")
        unit = "us"
    parts = _UNITS[unit]
    ticks = dates.astype(np.int64)
    if parts == 1:
        return ticks
    seconds, rest = np.divmod(ticks, parts)
    half = parts // 2
    seconds += (rest > half) | ((rest == half) & (seconds & 1 == 1))
    return seconds


def wrap_longitudes(longitude: npt.NDArray[Any]) -> Rows:
    """Return finite longitudes as float32 in [0, 360)."""
    values = longitude
    if not (values >= 0).all() or not (values < 360).all():
        values = np.mod(longitude.astype(np.float64), 360)
    single = values.astype(np.float32)
    single[single >= 360] = 0
    return single


def _dates(frame: pd.DataFrame, problems: list[Problem]) -> npt.NDArray[np.datetime64]:
    dates: npt.NDArray[np.datetime64] = frame["date"].to_numpy()
    if dates.dtype.kind != "M":
        problems.append(Problem("date", f"has type {dates.dtype}, expected datetime64"))
        return np.zeros(len(frame), "M8[s]")
    absent = np.isnat(dates)
    if absent.any():
        problems.append(Problem(_row(frame, absent), "date is NaT"))
    return dates


def _column(frame: pd.DataFrame, name: str) -> npt.NDArray[Any]:
    """Return a column as numbers that NumPy casts to float32."""
    column = frame[name]
    if isinstance(column.dtype, np.dtype) and column.dtype.kind in "fiub":
        return np.asarray(column.to_numpy())
    return np.asarray(column.to_numpy(dtype=np.float64, na_value=np.nan))


def _check_values(
    frame: pd.DataFrame,
    variables: Sequence[str],
    columns: Sequence[npt.NDArray[Any]],
    out: Rows,
    where: str,
    no_nans: Sequence[str],
) -> None:
    """Raise where a value became infinite, or is NaN where it may not be."""
    # One pass tells whether there is anything to look for.
    with np.errstate(invalid="ignore", over="ignore"):
        total = float(out[:, len(META) :].sum(dtype=np.float64)) if len(variables) else 0.0
    if np.isfinite(total):
        return
    problems = []
    for j, (name, values) in enumerate(zip(variables, columns, strict=True)):
        stored = out[:, len(META) + j]
        if values.dtype.kind == "f" and values.dtype.itemsize > 4:
            lost = np.isinf(stored) & np.isfinite(values)
            if lost.any():
                found = values[int(np.argmax(lost))]
                problems.append(Problem(_row(frame, lost), f"{name} is {found}, more than float32 holds"))
    if problems:
        raise ConformError(f"{where} gave numbers that a store cannot hold; convert their units or clip them", problems)
    for name in no_nans:
        missing = np.isnan(out[:, len(META) + variables.index(name)])
        if missing.any():
            problems.append(Problem(_row(frame, missing), f"{name} is NaN, which build.allow_nans excludes"))
    if problems:
        raise ConventionError(f"{where} gave values that the recipe does not allow", problems)


def _row(frame: pd.DataFrame, wrong: npt.NDArray[np.bool_]) -> str:
    """Return the label of the first row of a mask and how many more there are."""
    count = int(np.count_nonzero(wrong))
    label = frame.index[int(np.argmax(wrong))]
    return f"row {label}" + (f" and {count - 1} more" if count > 1 else "")
