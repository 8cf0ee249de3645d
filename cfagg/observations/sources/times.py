"""Values and times of files as numbers and dates; CF sections 2.5, 4.4 and 8.1."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from cfagg.cf.calendars import DateChange, canonical, parse, time_transform
from cfagg.cf.missing import Missing
from cfagg.cf.packing import STORAGE_ATTRIBUTES, Packing, as_meant, read_as
from cfagg.cf.references import REFERRING
from cfagg.errors import CalendarError, SourceError

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["dates_of_numbers", "dates_of_text", "described", "numbers_of"]

#: What dates are counted from.
_EPOCH = "microseconds since 1970-01-01"

#: Microseconds since 1970 from which the standard calendar is the Gregorian one, and what int64 can hold.
_GREGORIAN, _LARGEST = -12219292800 * 10**6, 2.0**62


def dates_of_numbers(values: npt.NDArray[Any], units: str, calendar: str | None, where: str) -> npt.NDArray[Any]:
    """Return reference times as datetime64[us], to the nearest microsecond; NaN becomes NaT."""
    values = np.asarray(values)
    missing = np.isnan(values) if values.dtype.kind == "f" else np.zeros(values.shape, bool)
    try:
        micros = _micros(np.where(missing, 0, values), units, calendar, where)
    except CalendarError as error:
        raise CalendarError(f"{where}: {error.message}", error.problems) from error
    found = micros.astype("M8[us]")
    found[missing] = np.datetime64("NaT", "us")
    return found


def _micros(values: npt.NDArray[Any], units: str, calendar: str | None, where: str) -> npt.NDArray[np.int64]:
    """Return microseconds since 1970 in the proleptic Gregorian calendar."""
    name = canonical(calendar)
    reference = parse(units, name)
    if reference.unit is None:
        raise CalendarError(f"units {units!r} count {reference.word}, which have no fixed length; write times in days")
    gregorian = name in ("standard", "proleptic_gregorian", "utc", "tai")
    if gregorian:
        rule = "proleptic_gregorian" if name in ("utc", "tai") else name
        change = time_transform(units, rule, _EPOCH, rule)
        if isinstance(change, tuple):
            micros = _exact(values, *change, units)
            if rule != "standard" or not (micros < _GREGORIAN).any():
                return micros
    days = time_transform(units, name, "days since 1970-01-01", "proleptic_gregorian")
    if not isinstance(days, DateChange):
        raise CalendarError(f"units {units!r} in calendar {name} do not convert")
    found = np.asarray(days(values.astype(np.float64), where=where), np.float64)
    return _exact(found, Fraction(86400 * 10**6), Fraction(0), units)


def _exact(values: npt.NDArray[Any], scale: Fraction, offset: Fraction, units: str) -> npt.NDArray[np.int64]:
    """Return ``values * scale + offset``, rounded; whole units are computed in integers."""
    whole = np.floor(values)
    with np.errstate(over="ignore"):
        near = np.abs(whole.astype(np.float64)) * float(abs(scale)) + float(abs(offset)) < _LARGEST
    if not near.all():
        raise CalendarError(f"the time {values[~near].flat[0]} ({units}) is not a date")
    part = np.asarray(values - whole, np.float64)
    if scale.denominator == 1:
        counted = whole.astype(np.int64) * int(scale)
        shift = int(offset)
        return counted + shift + np.rint(part * float(scale) + float(offset - shift)).astype(np.int64)
    return np.rint(np.asarray(values, np.float64) * float(scale) + float(offset)).astype(np.int64)


def dates_of_text(text: pd.Series[Any], form: str | None, where: str) -> pd.Series[Any]:
    """Return text as dates in UTC: ISO 8601, also as ``20200131 060000``, or in another form for ``strptime``."""
    import pandas as pd

    dates: pd.Series[Any] = pd.to_datetime(text, format=form or "ISO8601", errors="coerce", utc=True)
    wrong = dates.isna().to_numpy()
    if wrong.any():
        i = int(np.argmax(wrong))
        value = text.iloc[i]
        more = int(wrong.sum()) - 1
        said = "there is no date" if pd.isna(value) or not str(value).strip() else f"{value!r} is not a date"
        raise SourceError(
            f"{where}, row {text.index[i]}{f' and {more} more' if more else ''}: {said}, expected "
            f"{form or 'ISO 8601 such as 2020-01-31T06:00:00'}; correct the row, or give date_format"
        )
    return dates.dt.tz_localize(None)


#: Attributes that say how values are stored, or that name variables of the file.
_OF_STORAGE = frozenset({*STORAGE_ATTRIBUTES, *REFERRING, "cf_role", "axis", "cfagg_name", "_ChunkSizes"})


def numbers_of(stored: npt.NDArray[Any], attributes: Mapping[str, Any], where: str) -> npt.NDArray[Any]:
    """Return stored values as numbers: NaN where they are missing, packing undone."""
    # Real values that are not packed keep their type, and integers without missing ones; all else is float64.
    meant = read_as(stored.dtype, attributes)
    packing = Packing.of(attributes, where=where)
    missing = Missing.of(attributes, stored.dtype, meant, scale=packing.scale, offset=packing.offset, where=where)
    values = as_meant(stored, attributes)
    gone = missing.mask(values)
    if values.dtype.kind == "f":
        gone &= ~np.isnan(values)  # which keep their bits
    if packing:
        values = packing.undo(values)
    if gone.any():
        values = values.astype(values.dtype if values.dtype.kind == "f" else np.float64)
        values[gone] = np.nan
    return values


def described(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """Return the attributes that describe a column, in values that JSON has."""
    found = {}
    for name, value in attributes.items():
        if name in _OF_STORAGE:
            continue
        if isinstance(value, np.generic | np.ndarray):
            value = value.tolist()  # noqa: PLW2901
        if isinstance(value, str | int | float | list):
            found[name] = value
    return found
