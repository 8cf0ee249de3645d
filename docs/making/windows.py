"""The picture of windows: dates of samples, the observations around each, and their rows in the table."""

from __future__ import annotations

from typing import Any

from making.figures import INK, MUTED, figure, svg

#: Hours of the observations, in order; several may share a time.
HOURS = (
    *(0.4, 1.1, 2.0, 3.0, 3.0, 4.2, 4.9, 5.1, 5.8, 6.0, 7.3, 8.1, 8.8, 9.0, 9.0, 10.4, 13.2, 13.9, 14.1),
    *(14.1, 15.0, 15.6, 16.3, 17.7, 18.0, 18.2, 19.5, 20.1, 20.8, 21.0, 22.6, 23.1, 23.9, 24.0),
)

#: Dates of the samples, and the window around each: open at its start, closed at its end.
DATES, WINDOW = (6, 12, 18), (-3, 3)

_COLOURS = ("#117733", "#6699cc", "#aa4499")


def rows(date: float) -> tuple[int, int]:
    """Return the first row in the window of a date, and the row after the last.

    >>> rows(6), rows(12)
    ((5, 15), (15, 21))
    """
    start = sum(h <= date + WINDOW[0] for h in HOURS)
    return start, sum(h <= date + WINDOW[1] for h in HOURS)


def draw() -> bytes:
    """Return the picture as SVG."""
    canvas = figure(8.4, 3.4)
    axes = canvas.subplots()
    last = 25.0
    step = last / len(HOURS)
    for number, (date, colour) in enumerate(zip(DATES, _COLOURS, strict=True)):
        y = 3.3 + 0.42 * number
        low, high = date + WINDOW[0], date + WINDOW[1]
        axes.plot([low, high], [y, y], color=colour, lw=3, solid_capstyle="butt")
        axes.plot(low, y, "o", ms=7, mfc="white", mec=colour, mew=1.6)
        axes.plot(high, y, "o", ms=7, color=colour)
        axes.plot([date, date], [3.0, y], color=colour, lw=1, ls=":")
        axes.text(date, y + 0.12, f"date of ds[{number}]", ha="center", fontsize=9, color=colour)
    for row, hour in enumerate(HOURS):
        colour = _colour(row)
        middle = (row + 0.5) * step
        axes.plot(hour, 2.5, "|", ms=11, mew=1.6, color=colour)
        axes.plot([hour, middle], [2.35, 1.0], color=colour, lw=0.7, alpha=0.7)
        axes.barh(0.75, step, 0.5, row * step, color=colour, edgecolor="white", lw=0.6)
    for number, date in enumerate(DATES):
        start, stop = rows(date)
        label = f"ds[{number}]: rows {start} to {stop - 1}"
        axes.text((start + stop) / 2 * step, 0.27, label, ha="center", fontsize=9, color=_COLOURS[number])
    for y, text in ((2.5, "observations\nin time"), (0.75, "rows of\nthe store")):
        axes.text(-0.4, y, text, ha="right", va="center", fontsize=9, color=MUTED)
    axes.set(xlim=(-3.4, last + 0.2), ylim=(0.1, 4.6), yticks=[], xticks=[])
    for hour in range(0, 25, 3):
        axes.text(hour, 2.78, f"{hour:02d}", ha="center", fontsize=7.5, color=MUTED)
    axes.set_title('window="(-3,+3]", frequency="6h"', loc="left", fontsize=10, color=INK)
    axes.spines[:].set_visible(False)
    return svg(canvas)


def _colour(row: int) -> Any:
    """Return the colour of the sample that a row belongs to."""
    for date, colour in zip(DATES, _COLOURS, strict=True):
        start, stop = rows(date)
        if start <= row < stop:
            return colour
    return "#c9ced4"
