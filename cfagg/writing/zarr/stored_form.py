"""Exact conversion of values to the stored form of an array: its type, packing, fill value, units and calendar.

Values that the array cannot represent unchanged are refused, however small the change.
"""

from __future__ import annotations

import base64
import binascii
import math
import struct
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from cfagg.cf.calendars import REFORMED, before_reform, canonical, transform
from cfagg.cf.kinds_of_units import is_reference_time
from cfagg.cf.units import SAME
from cfagg.errors import CalendarError, CfaggError, ConformError, UnitsError
from cfagg.formats.zarr.fields import NON_FINITE
from cfagg.writing.zarr.text import TEXT, stored_text

__all__ = ["DECODING", "Form", "form_of", "storing"]

Values = npt.NDArray[Any]

#: Attributes that determine how stored values are decoded.
DECODING = frozenset(
    {"_FillValue", "missing_value", "scale_factor", "add_offset", "_Unsigned", "units", "calendar", "dtype"}
)

#: Calendars of NumPy dates.
_NUMPY = frozenset({"standard", "gregorian", "proleptic_gregorian"})

#: Seconds of which 64 bits hold the nanoseconds.
_SECONDS = 2**63 // 10**9


@dataclass(frozen=True)
class Form:
    """How a variable is stored."""

    dtype: np.dtype[Any]
    scale: float = 1.0
    offset: float = 0.0
    #: The values that represent missing data; the first is used for writing.
    fills: tuple[Any, ...] = ()
    unsigned: str = ""
    units: str | None = None
    calendar: str | None = None

    @property
    def is_packed(self) -> bool:
        """Whether stored values differ from the decoded values."""
        return (self.scale, self.offset) != (1.0, 0.0)

    @property
    def is_time(self) -> bool:
        """Whether it contains reference times."""
        return self.units is not None and is_reference_time(self.units)

    def missing(self, stored: Values) -> npt.NDArray[np.bool_]:
        """Return which stored values are missing."""
        found = np.isnan(stored) if stored.dtype.kind == "f" else np.zeros(stored.shape, bool)
        for fill in self.fills:
            if fill == fill:  # noqa: PLR0124 - NaN
                found |= stored == fill
        return found


def form_of(attributes: Mapping[str, Any], dtype: np.dtype[Any], where: str, fill: Any = None) -> Form:
    """Return the stored form of a variable from its attributes; `fill` is a fill value given elsewhere."""
    fills: list[Any] = []
    for value in (attributes.get("_FillValue"), fill, attributes.get("missing_value")):
        if value is not None:
            found = _number(value, dtype, where)
            if not any(found == one or _is_nan(found, one) for one in fills):
                fills.append(found)
    try:
        scale = float(np.ravel(attributes.get("scale_factor", 1.0))[0])
        offset = float(np.ravel(attributes.get("add_offset", 0.0))[0])
    except (IndexError, TypeError, ValueError) as error:
        raise ConformError(f"{where}: scale_factor or add_offset is not a number; correct it") from error
    if not np.isfinite([scale, offset]).all() or not scale:
        raise ConformError(f"{where}: scale_factor {scale} and add_offset {offset} do not describe a packing")
    units, calendar = attributes.get("units"), attributes.get("calendar")
    return Form(
        dtype, scale, offset, tuple(fills), str(attributes.get("_Unsigned", "")).lower(),
        None if units is None else str(units), None if calendar is None else str(calendar),
    )  # fmt: skip


def _is_nan(*values: Any) -> bool:
    return all(isinstance(v, float) and math.isnan(v) for v in values)


def _number(value: Any, dtype: np.dtype[Any], where: str) -> Any:
    """Return a fill value, which Zarr represents in several ways."""
    if isinstance(value, str) and dtype.kind == "f":
        if value in NON_FINITE:
            return NON_FINITE[value]
        try:
            raw = base64.standard_b64decode(value)
            return struct.unpack("<d", raw)[0] if len(raw) == 8 else float(value)
        except (binascii.Error, ValueError) as error:
            raise ConformError(f"{where}: _FillValue {value[:40]!r} is not a number; correct it") from error
    try:
        found = np.ravel(np.asarray(value))[0].item()
        return found if dtype.kind in "iufb" and not isinstance(found, str | bytes) else float(found)
    except (IndexError, ValueError, TypeError) as error:
        raise ConformError(f"{where}: the fill value {str(value)[:40]!r} is not a number; correct it") from error


def storing(source: Form, is_stored: bool, target: Form, where: str) -> Callable[[Values], Values]:
    """Return the function that converts values of an increment to the stored values of an array."""
    # Its input is stored in the form `source`, or else decoded (`is_stored` false): dates, and NaN for missing.
    if target.dtype.kind in TEXT:
        return lambda values: stored_text(values, target.dtype, target.fills, where)
    if source.dtype.kind in "Mm" or (source.dtype.kind == "O" and target.is_time):
        return lambda values: _dates(values, target, where)
    if source.dtype.kind not in "biuf":
        raise ConformError(f"{where} has the type {source.dtype}, expected {target.dtype}")
    change = _change(source, target, where)
    if change is not None:
        if source.is_packed or target.is_packed:
            raise ConformError(f"{where} is packed and in other units; unpack it first")
        return lambda values: _converted(_after_reform(values, source, target, where), source, target, change, where)
    alike = (source.dtype, source.scale, source.offset, source.fills) == (
        target.dtype, target.scale, target.offset, target.fills
    )  # fmt: skip
    if source.unsigned != target.unsigned or (target.unsigned and not (is_stored and alike)):
        raise ConformError(
            f"{where}: the store has _Unsigned {target.unsigned!r}; append values with the same storage attributes"
        )
    if is_stored and alike:
        return lambda values: np.asarray(values, target.dtype)
    if is_stored and (source.scale, source.offset) == (target.scale, target.offset):
        return lambda values: _exact(values, source.missing(values), values, target, where)
    return lambda values: _packed(values, source, is_stored, target, where)


def _change(source: Form, target: Form, where: str) -> tuple[Fraction, Fraction] | None:
    """Return scale and offset between units, or `None` if no conversion is needed."""
    if source.units is None or (source.units == target.units and not target.is_time):
        return None
    try:
        found = transform(source.units, source.calendar, target.units, target.calendar)
    except CfaggError as error:
        raise type(error)(f"{where}: {error.message}") from error
    if not isinstance(found, tuple) and {found.source, found.target} == REFORMED:
        # Both count the days after the reform in the same way; only an epoch before it makes a difference.
        start = 86400 * found.source_epoch[0] + found.source_epoch[1]
        end = 86400 * found.target_epoch[0] + found.target_epoch[1]
        found = found.source_unit / found.target_unit, (start - end) / found.target_unit
    if not isinstance(found, tuple):
        raise CalendarError(
            f"{where} has the calendar {source.calendar!r}, expected {target.calendar!r}; convert its dates first"
        )
    return None if found == SAME and not _is_of_two_calendars(source, target) else found


def _is_of_two_calendars(source: Form, target: Form) -> bool:
    return target.is_time and canonical(source.calendar) != canonical(target.calendar)


def _after_reform(values: Values, source: Form, target: Form, where: str) -> Values:
    """Return times unchanged; if the calendars differ, raise for times before the day from which they agree."""
    if _is_of_two_calendars(source, target):
        early = ~source.missing(values) & before_reform(values, str(source.units), source.calendar)
        if early.any():
            raise CalendarError(
                f"{where} has the calendar {source.calendar!r} and dates before 15 October 1582, where it differs from "
                f"that of the store, {target.calendar!r}; convert its dates first"
            )
    return values


def _converted(
    values: Values, source: Form, target: Form, change: tuple[Fraction, Fraction], where: str
) -> Values:  # fmt: skip
    """Return values in other units: integers exactly, reals rounded once, and times as exactly as 8-byte reals."""
    missing = source.missing(values)
    scale, offset = change
    if values.dtype.kind in "iu":
        common = scale.denominator * offset.denominator
        factor, shift = int(scale * common), int(offset * common)
        clean = np.where(missing, 0, values)
        largest = max((abs(int(n)) for n in (clean.min(initial=0), clean.max(initial=0))), default=0)
        if largest * abs(factor) + abs(shift) >= 2**63:
            raise UnitsError(f"{where}: values in {source.units!r} are too large for {target.units!r}")
        whole = clean.astype(np.int64) * factor + shift
        if target.dtype.kind in "iu" and (bad := (whole % common != 0) & ~missing).any():
            raise _inexact(where, values, bad, target)
        out: Values = whole // common if not (whole % common).any() else whole / common
    else:
        out = np.where(missing, np.nan, values).astype("f8") * float(scale) + float(offset)
    if target.is_time and target.dtype.kind == "f":
        # Days in 4 bytes may be minutes off.
        with np.errstate(all="ignore"):
            off = np.abs(out.astype(target.dtype).astype("f8") - out)
            bad = ~missing & (off > 8 * np.spacing(np.abs(out).astype("f8")))
        if bad.any():
            raise _inexact(where, out, bad, target)
    return _exact(out, missing, out if target.dtype.kind != "f" else None, target, where)


def _exact(values: Values, missing: Any, check: Values | None, target: Form, where: str) -> Values:
    """Return values in the stored type, filled where missing; raise an error if the type cannot represent them."""
    with np.errstate(all="ignore"):
        clean = np.where(missing, 0, values) if np.any(missing) else np.asarray(values)
        out = clean.astype(target.dtype)
        if check is not None:
            bad = ~missing & ~_same(out, clean)
            if bad.any():
                raise _inexact(where, np.asarray(values), bad, target)
    return _filled(out, missing, target, where)


def _same(stored: Values, values: Values) -> npt.NDArray[np.bool_]:
    """Return which values are equal in two types."""
    if stored.dtype.kind in "iu" and values.dtype.kind == "f":
        # Values out of range become arbitrary integers, which may look right when converted back to reals.
        info = np.iinfo(stored.dtype)
        inside = (values >= float(info.min)) & (values < float(info.max) + 1)
        within: npt.NDArray[np.bool_] = (stored.astype(values.dtype) == values) & inside & (values == np.rint(values))
        return within
    if {stored.dtype.kind, values.dtype.kind} == {"i", "u"}:
        signed: npt.NDArray[np.bool_] = (stored == values) & ((stored < 0) == (values < 0))
        return signed
    found: npt.NDArray[np.bool_] = stored == values
    if stored.dtype.kind == values.dtype.kind == "f":
        found |= np.isnan(stored) & np.isnan(values)
    elif values.dtype.kind in "iu" and stored.dtype.kind == "f":
        found &= stored.astype(object) == values.astype(object) if values.dtype.itemsize == 8 else found
    return found


def _filled(out: Values, missing: Any, target: Form, where: str) -> Values:
    """Insert the fill value for missing values; raise an error if valid values are equal to it."""
    real = target.missing(out) & ~missing
    if out.dtype.kind == "f":
        real &= ~np.isnan(out)
    if real.any():
        at = tuple(int(n) for n in np.argwhere(real)[0])
        raise ConformError(
            f"{where}: the value {out[at]} at {at} of the appended data equals the store's fill value and would be "
            "read as missing; change it first"
        )
    if np.any(missing):
        if target.fills:
            out[missing] = target.fills[0]
        elif out.dtype.kind == "f":
            out[missing] = np.nan
        else:
            raise ConformError(
                f"{where} has missing values, but the array of the store has no fill value; write the store with one"
            )
    return out


def _packed(values: Values, source: Form, is_stored: bool, target: Form, where: str) -> Values:
    """Return values packed in the form of the array, if that changes none of them."""
    missing = source.missing(values) if is_stored else Form(values.dtype).missing(values)
    real = values
    if is_stored and source.is_packed:
        real = np.where(missing, 0, values).astype("f8") * source.scale + source.offset
    if not target.is_packed:
        return _exact(real, missing, real, target, where)
    scale, offset = target.scale, target.offset
    clean = np.where(missing, 0, real)
    if clean.dtype.kind != "f":
        whole, clean = clean, clean.astype("f8")
        if not _same(clean, whole).all():
            raise _inexact(where, whole, ~_same(clean, whole), target)
    with np.errstate(all="ignore"):
        wanted = (clean.astype("f8") - offset) / scale
        if target.dtype.kind in "iu":
            wanted = np.rint(wanted)
            info = np.iinfo(target.dtype)
            out = np.clip(wanted, float(info.min), float(info.max)).astype(target.dtype)
        else:
            out = wanted.astype(target.dtype)
        kinds = [clean.dtype, np.dtype("f8")]
        best: npt.NDArray[np.bool_] | None = None
        for kind in dict.fromkeys(kinds):
            one = out.astype(kind) * kind.type(scale) + kind.type(offset)
            two = (out.astype(kind) * np.float64(scale)).astype(kind)
            two = (two + np.float64(offset)).astype(kind)
            for unpacked in (one.astype(clean.dtype), two.astype(clean.dtype)):
                bad = ~missing & (unpacked != clean)
                if best is None or bad.sum() < best.sum():
                    best = bad
    if best is not None and best.any():
        raise _inexact(where, real, best, target)
    out = np.asarray(out)  # NumPy makes scalars of arrays without dimensions
    out[missing] = 0
    return _filled(out, missing, target, where)


def _dates(values: Values, target: Form, where: str) -> Values:
    """Return dates or time differences as numbers; raise an error if they do not round-trip."""
    import pandas as pd
    from xarray.coding import times

    if target.units is None:
        raise UnitsError(f"{where} holds dates, but the array of the store has no units; give numbers")
    flat = np.asarray(values)
    is_span = flat.dtype.kind == "m"
    missing = np.asarray(pd.isnull(flat))  # missing dates of cftime are NaN
    if is_span == target.is_time:
        raise UnitsError(f"{where} holds {'spans of time' if is_span else 'dates'}, the store has {target.units!r}")
    present = flat[~missing]
    if not present.size:
        return _filled(np.zeros(flat.shape, target.dtype), missing, target, where)
    calendar = None
    if not is_span:
        calendar, present = _in_calendar(present, target, where)
    try:
        if is_span:
            numbers, units = times.encode_cf_timedelta(present, target.units)
            again: Any = times.decode_cf_timedelta(numbers, units)
        else:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # changed values are refused below
                numbers, units, _ = times.encode_cf_datetime(present, target.units, calendar)
                # Dates counted from a year that nanoseconds do not reach become dates of cftime.
                again = times.decode_cf_datetime(numbers, units, calendar, True if present.dtype.kind == "O" else None)
            if again.dtype.kind == "O" and present.dtype.kind == "M":
                again = np.array([v.isoformat() for v in again.ravel()], "M8[us]")
    except (ValueError, OverflowError, TypeError) as error:
        raise ConformError(f"{where} cannot be written in {target.units!r}: {error}") from error
    same_units = units == target.units if is_span else transform(units, calendar, target.units, calendar) == SAME
    if not same_units or not _alike(np.asarray(again), present):
        raise ConformError(
            f"{where}: dates such as {present.ravel()[0]} cannot be expressed exactly in {target.units!r}, the units "
            "of the store; convert the store to finer units first"
        )
    numbers = np.asarray(numbers)
    out = np.zeros(flat.shape, numbers.dtype)
    out[~missing] = numbers
    return _exact(out, missing, out, target, where)


def _in_calendar(dates: Values, target: Form, where: str) -> tuple[str, Values]:
    """Return the calendar of the store, and dates in it; those in another calendar only where the two agree."""
    calendar = canonical(target.calendar)
    if dates.dtype.kind == "M":
        if calendar not in _NUMPY:
            raise CalendarError(f"{where} holds dates of the standard calendar, the store has {calendar!r}")
        return calendar, dates
    own = {canonical(str(getattr(v, "calendar", "")) or "none") for v in dates.ravel()}
    if own == {calendar}:
        return calendar, dates
    if not own | {calendar} <= REFORMED:
        said = " and ".join(map(repr, sorted(own)))
        raise CalendarError(f"{where} holds dates of the calendar {said}, the store has {calendar!r}")
    if any((v.year, v.month, v.day) < (1582, 10, 15) for v in dates.ravel()):
        raise CalendarError(
            f"{where} holds dates before 15 October 1582, where their calendar differs from that of the store, "
            f"{calendar!r}; convert them first"
        )
    import cftime

    turned = [cftime.datetime(*v.timetuple()[:6], v.microsecond, calendar=calendar) for v in dates.ravel()]
    return calendar, np.array(turned, object).reshape(dates.shape)


def _alike(again: Values, dates: Values) -> bool:
    """Return whether dates are equal to a microsecond, the rounding error of real numbers of days."""
    if dates.dtype.kind == "O":
        return all(abs((a - b).total_seconds()) < 1e-6 for a, b in zip(again.ravel(), dates.ravel(), strict=True))
    kind = dates.dtype.kind
    seconds = max(np.abs(v.astype(f"{kind}8[s]").astype(np.int64)).max() for v in (again, dates))
    unit, close = ("ns", 1000) if seconds < _SECONDS else ("us", 1)
    apart = np.subtract(*(v.astype(f"{kind}8[{unit}]").astype(np.int64) for v in (again, dates)))
    return bool((np.abs(apart) < close).all())


def _inexact(where: str, values: Values, bad: npt.NDArray[np.bool_], target: Form) -> ConformError:
    at = tuple(int(n) for n in np.argwhere(bad)[0])
    packed = f" packed with scale_factor {target.scale} and add_offset {target.offset}" if target.is_packed else ""
    return ConformError(
        f"{where}: the value {np.asarray(values)[at]} at {at} of the appended data cannot be stored exactly "
        f"({target.dtype}{packed}); convert it first"
    )
