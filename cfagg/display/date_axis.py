"""Dates along the axis of a picture, in any calendar."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["label", "numbers"]

_EPOCH = "days since 0001-01-01"


def numbers(dates: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
    """Return dates as positions along an axis.

    Parameters
    ----------
    dates : array of numpy.datetime64 or of cftime.datetime
        All of one calendar.

    Returns
    -------
    float64 array
        Days, from an origin of their own for each kind of date; NaN where there is no date.

    Examples
    --------
    >>> numbers(np.array(["1970-01-02", "1970-01-03T12:00"], "M8[ns]"))
    array([1. , 2.5])
    """
    if dates.dtype.kind == "M":
        days = dates.astype("M8[us]").astype("i8") / 86_400e6
        return np.where(np.isnat(dates), np.nan, days)
    import cftime

    return np.asarray(cftime.date2num(dates, _EPOCH, calendar=dates.flat[0].calendar), "f8")


def label(axes: Axes, which: Literal["x", "y"], dates: npt.NDArray[Any]) -> None:
    """Put ticks with dates on an axis that was drawn with `numbers`.

    Parameters
    ----------
    axes : matplotlib.axes.Axes
        Its limits are set.
    which : {"x", "y"}
        The axis.
    dates : array
        As given to `numbers`.
    """
    axis = axes.xaxis if which == "x" else axes.yaxis
    if dates.dtype.kind == "M":
        from matplotlib.dates import AutoDateLocator, ConciseDateFormatter

        locator = AutoDateLocator(minticks=3, maxticks=8)  # type: ignore[no-untyped-call]
        axis.set_major_locator(locator)
        axis.set_major_formatter(ConciseDateFormatter(locator))  # type: ignore[no-untyped-call]
        return
    low, high = sorted(axes.get_xlim() if which == "x" else axes.get_ylim())
    places, texts = _ticks(low, high, str(dates.flat[0].calendar))
    axis.set_ticks(places, texts)


def _ticks(low: float, high: float, calendar: str) -> tuple[list[float], list[str]]:
    """Return up to some eight ticks at starts of years, of months or of days, and their texts."""
    import cftime

    first, last = (cftime.num2date(v, _EPOCH, calendar=calendar) for v in (low, high))
    months = (last.year - first.year) * 12 + last.month - first.month
    if months >= 4:
        step = next((s for s in (1, 2, 3, 6, 12) if months / s <= 8), 0) or 12 * _round_up(months / 12 / 7)
        start = math.ceil((first.year * 12 + first.month - 1) / step) * step
        starts = [divmod(m, 12) for m in range(start, last.year * 12 + last.month, step)]
        dates = [cftime.datetime(y, m + 1, 1, calendar=calendar) for y, m in starts]
        texts = [f"{d.year:04d}" if step % 12 == 0 else f"{d.year:04d}-{d.month:02d}" for d in dates]
        places = [float(v) for v in np.atleast_1d(cftime.date2num(dates, _EPOCH, calendar=calendar))]
    else:
        days = max(1, math.ceil((high - low) / 6))
        places = [float(d) for d in range(math.ceil(low), math.floor(high) + 1, days)]
        dates = [cftime.num2date(p, _EPOCH, calendar=calendar) for p in places]
        texts = [f"{d.year:04d}-{d.month:02d}-{d.day:02d}" for d in dates]
    inside = [(p, t) for p, t in zip(places, texts, strict=True) if low <= p <= high]
    return [p for p, _ in inside], [t for _, t in inside]


def _round_up(value: float) -> int:
    """Return the next number of the row 1, 2, 5, 10, 20, ... that is not below a value."""
    size = 10 ** max(0, math.floor(math.log10(max(value, 1))))
    return next(int(f * size) for f in (1, 2, 5, 10) if f * size >= value)
