"""Dates along the axis of a picture, in any calendar."""

from __future__ import annotations

import math
import warnings
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["label", "numbers"]

#: Origins of positions: that of cftime's dates, and that of NumPy's.
_EPOCH, _UNIX = "days since 0001-01-01", "days since 1970-01-01"


def numbers(dates: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
    """Return dates of a calendar as days from an origin for each kind of dates; NaN for missing ones."""
    if dates.dtype.kind == "M":
        days = dates.astype("M8[us]").astype("i8") / 86_400e6
        return np.where(np.isnat(dates), np.nan, days)
    import cftime

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about years before the first
        return np.asarray(cftime.date2num(dates, _EPOCH, calendar=dates.flat[0].calendar), "f8")


def label(axes: Axes, which: Literal["x", "y"], dates: npt.NDArray[Any]) -> None:
    """Put ticks with dates on an axis that was drawn with `numbers`."""
    axis = axes.xaxis if which == "x" else axes.yaxis
    low, high = sorted(axes.get_xlim() if which == "x" else axes.get_ylim())
    numpy_dates = dates.dtype.kind == "M"
    calendar = "proleptic_gregorian" if numpy_dates else str(dates.flat[0].calendar)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # cftime warns about the year 0, which is only counted with
        places, texts = _ticks(low, high, calendar, _UNIX if numpy_dates else _EPOCH)
    axis.set_ticks(places, texts)


def _ticks(low: float, high: float, calendar: str, epoch: str) -> tuple[list[float], list[str]]:
    """Return up to about eight ticks at starts of years, months, days or hours, and their texts."""
    import cftime

    # Counted with a year 0, which some calendars lack, so that steps across it are equal.
    counted: dict[str, Any] = {"calendar": calendar, "has_year_zero": True}
    lacks = not cftime.datetime(1, 1, 1, calendar=calendar).has_year_zero

    def year(date: Any) -> str:
        return f"{date.year - (lacks and date.year < 1):04d}"

    first, last = (cftime.num2date(v, epoch, **counted) for v in (low, high))
    months = (last.year - first.year) * 12 + last.month - first.month
    if months >= 4:
        step = next((s for s in (1, 2, 3, 6, 12) if months / s <= 8), 0) or 12 * _round_up(months / 12 / 7)
        start = math.ceil((first.year * 12 + first.month - 1) / step) * step
        starts = [divmod(m, 12) for m in range(start, last.year * 12 + last.month, step)]
        dates = [cftime.datetime(y, m + 1, 1, **counted) for y, m in starts]
        texts = [year(d) if step % 12 == 0 else f"{year(d)}-{d.month:02d}" for d in dates]
        places = [float(v) for v in np.atleast_1d(cftime.date2num(dates, epoch, **counted))]
    elif high - low > 3:
        step = next((s for s in (1, 2, 5, 10) if (high - low) / s <= 8), 15)
        places = [float(d) for d in range(math.ceil(low), math.floor(high) + 1)]
        dates = [cftime.num2date(p, epoch, **counted) for p in places]
        # Counted from the first of each month, without one shortly before the next month.
        chosen = [(d.day - 1) % step == 0 and (step == 1 or d.day <= 31 - step) for d in dates]
        places = [p for p, c in zip(places, chosen, strict=True) if c]
        texts = [f"{year(d)}-{d.month:02d}-{d.day:02d}" for d, c in zip(dates, chosen, strict=True) if c]
    else:
        hours = next((h for h in (1, 2, 3, 6) if (high - low) * 24 / h <= 7), 12)
        places = [k * hours / 24 for k in range(math.ceil(low * 24 / hours), math.floor(high * 24 / hours) + 1)]
        dates = [_to_minute(cftime.num2date(p, epoch, **counted)) for p in places]
        texts = [f"{year(d)}-{d.month:02d}-{d.day:02d} {d.hour:02d}:{d.minute:02d}" for d in dates]
        # Such long texts would extend beyond the edge of the picture.
        margin = 0.04 * (high - low)
        low, high = low + margin, high - margin
    inside = [(p, t) for p, t in zip(places, texts, strict=True) if low <= p <= high]
    return [p for p, _ in inside], [t for _, t in inside]


def _to_minute(date: Any) -> Any:
    """Return a date rounded to whole minutes, because fractions of days are not exact."""
    from datetime import timedelta

    rounded = date + timedelta(seconds=30)
    return rounded.replace(second=0, microsecond=0)


def _round_up(value: float) -> int:
    """Return the next number of the series 1, 2, 5, 10, 20, ... that is not below a value."""
    size = 10 ** max(0, math.floor(math.log10(max(value, 1))))
    return next(int(f * size) for f in (1, 2, 5, 10) if f * size >= value)
