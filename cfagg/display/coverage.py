"""Pictures of the locations and times of the rows of a table."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from cfagg.display import date_axis, picture
from cfagg.display.escape import printable
from cfagg.display.field_axes import INK, colour_bar, degree_ticks, heading, say_none, soften

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["Frame", "TimeCoverage", "frame", "save", "span_text"]

type Int64 = npt.NDArray[np.int64]


@dataclass(frozen=True)
class TimeCoverage:
    """Numbers of rows in bins of `step` seconds, which start at multiples of the step (seconds since 1970)."""

    step: int
    starts: Int64
    counts: Int64


_FILL, _GRID = "#1f6feb", "#d8dee4"
#: Maximum number of cells of the map downwards and to the right.
_MOST = (90, 150)
#: Minimum height and width of the map in degrees, and the margin around the rows.
_LEAST, _MARGIN = 8.0, 0.06
#: Minimum and maximum ratio of the height of the map to its width.
_SHAPES = (0.4, 0.62)
#: In inches: width of the picture, and sizes of its parts other than the map.
_WIDTH, _LEFT, _RIGHT, _TOP, _TIME, _GAP, _BOTTOM = 8.6, 0.85, 1.15, 0.78, 1.7, 0.6, 0.45


@dataclass(frozen=True)
class Frame:
    """The part of the Earth that is drawn, with rows in cells of `size` degrees, from the south-west."""

    counts: Int64
    south: float
    west: float
    size: float

    @property
    def north(self) -> float:
        """Its northern edge."""
        return self.south + self.size * len(self.counts)

    @property
    def east(self) -> float:
        """Its eastern edge."""
        return self.west + self.size * len(self.counts.T)

    @property
    def squeeze(self) -> float:
        """Ratio of the lengths of a degree of longitude and of latitude in the picture."""
        return _squeeze(self.south, self.north, self.east - self.west)


def frame(counts: Int64, *, most: tuple[int, int] = _MOST) -> Frame:
    """Return the part of a map of the Earth that has rows, in cells large enough to be seen."""
    # The whole Earth from 180°W, unless a contiguous quarter of the longitudes or more is without rows.
    cell = 180 / counts.shape[0]
    height, columns = counts.shape
    rows = np.flatnonzero(counts.any(axis=1))
    low, high = _widened(int(rows[0]), int(rows[-1]) + 1, cell) if rows.size else (0, height)
    low, high = max(0, low), min(height, high)
    used = np.flatnonzero(counts.any(axis=0))
    gaps = np.diff(used, append=used[:1] + columns)
    first, width = columns // 2, columns
    if used.size and gaps.max() >= columns // 4:
        k = int(np.argmax(gaps))
        start = int(used[(k + 1) % len(used)])
        first, end = _widened(start, start + columns - int(gaps[k]) + 1, cell)
        low, high, first, width = _shaped(low, high, first, end - first, height, cell)
    if width >= columns:
        first, width = columns // 2, columns
    part = np.take(counts, np.arange(first, first + width) % columns, axis=1)[low:high]
    factor = max(1, math.ceil(part.shape[0] / most[0]), math.ceil(part.shape[1] / most[1]))
    # Cells of 0.75° would be awkward to read.
    factor = next(f for f in (1, 2, 4, 8, 12, 16, 20, 40, 80, 120, 240, 10**6) if f >= factor)
    padded = np.pad(part, [(0, -n % factor) for n in part.shape])
    m, n = (k // factor for k in padded.shape)
    west = first * cell
    west = west - 360 if west >= 180 else west
    return Frame(padded.reshape(m, factor, n, factor).sum(axis=(1, 3)), low * cell - 90, west, factor * cell)


def _squeeze(south: float, north: float, width: float) -> float:
    """Return the relative length of a degree of longitude: shorter away from the equator, except on a whole map."""
    return max(math.cos(math.radians((south + north) / 2)), 0.3) if width < 180 else 1.0


def _shaped(low: int, high: int, first: int, width: int, height: int, cell: float) -> tuple[int, int, int, int]:
    """Return ranges of cells for a map that is neither too tall nor too flat."""
    squeeze = _squeeze(low * cell - 90, high * cell - 90, 0)
    shape = (high - low) / (width * squeeze)
    if shape > _SHAPES[1]:
        wanted = math.ceil((high - low) / (_SHAPES[1] * squeeze))
        return low, high, first - (wanted - width) // 2, wanted
    if shape < _SHAPES[0]:
        more = math.ceil((_SHAPES[0] * width * squeeze - (high - low)) / 2)
        low, high = max(0, low - more), min(height, high + more)
    return low, high, first, width


def _widened(first: int, stop: int, cell: float) -> tuple[int, int]:
    """Return a range of cells with a margin, and with a minimal size."""
    extra = max(_MARGIN * (stop - first), (_LEAST / cell - (stop - first)) / 2)
    return first - math.ceil(extra), stop + math.ceil(extra)


def span_text(seconds: int) -> str:
    """Return a length of time in words."""
    for word, size in (("day", 86400), ("hour", 3600), ("minute", 60), ("second", 1)):
        if seconds % size == 0:
            count = seconds // size
            return word if count == 1 else f"{count:,} {word}s"
    return f"{seconds} seconds"


def save(
    time: TimeCoverage, counts: Int64, path: str | Path, *, title: str, subtitle: str = "", share: float = 1.0
) -> None:
    """Draw the numbers of rows in time and space; `share` of all rows were counted for the map."""
    picture.kind(path)
    part = frame(counts)
    wide = _WIDTH - _LEFT - _RIGHT
    ratio = (part.north - part.south) / ((part.east - part.west) * part.squeeze)
    tall = min(wide * ratio, 6.0)
    across = tall / ratio
    height = _TOP + _TIME + _GAP + tall + _BOTTOM
    with picture.figure(path, _WIDTH, height) as figure:
        box = (_LEFT / _WIDTH, (height - _TOP - _TIME) / height, wide / _WIDTH, _TIME / height)
        _bars(figure.add_axes(box), time)
        box = (_LEFT / _WIDTH, _BOTTOM / height, across / _WIDTH, tall / height)
        axes = figure.add_axes(box)
        mesh = _map(axes, part)
        if mesh is not None:
            bar = ((_LEFT + across + 0.18) / _WIDTH, _BOTTOM / height, 0.16 / _WIDTH, tall / height)
            said = f"rows in {part.size:g}° × {part.size:g}°" + (
                f", counted in {100 * share:.2g}% of all" if share < 1 else ""
            )
            _thousands(colour_bar(figure, mesh, bar, said, size=9).yaxis)
        heading(figure, printable(title), printable(subtitle), _LEFT)


def _bars(axes: Axes, time: TimeCoverage) -> None:
    """Draw the number of rows over time."""
    soften(axes)
    axes.spines[["top", "right"]].set_visible(False)
    if not len(time.counts):
        axes.set_axis_off()
        say_none(axes, "no rows")
        return
    edges = np.append(time.starts, time.starts[-1] + time.step)
    dates = edges.astype("M8[s]")
    places = date_axis.numbers(dates)
    axes.stairs(time.counts, places, fill=True, color=_FILL)
    axes.set_xlim(places[0], places[-1])
    axes.set_ylim(0, float(time.counts.max()) * 1.05 or 1)
    date_axis.label(axes, "x", dates)
    if not len(axes.get_xticks()):
        # So short a period contains no round number.
        axes.set_xticks(places[[0, -1]], [str(d).replace("T", " ") for d in dates[[0, -1]]])
    axes.set_ylabel(f"rows per {span_text(time.step)}", color=INK, size=9)
    _thousands(axes.yaxis)
    axes.grid(axis="y", color=_GRID, linewidth=0.6)
    axes.set_axisbelow(True)


def _map(axes: Axes, part: Frame) -> Any:
    """Draw the number of rows over the Earth, and return the coloured object."""
    from matplotlib.colors import LogNorm, Normalize

    axes.set_xlim(part.west, part.east)
    axes.set_ylim(part.south, part.north)
    mesh = None
    if part.counts.any():
        most = int(part.counts.max())
        shown = np.ma.masked_equal(part.counts, 0)
        # Counts of very different magnitudes are distinguished on a logarithmic scale.
        wide = most > 50 * int(np.ma.median(shown))
        norm = LogNorm(int(shown.min()), most) if wide else Normalize(0, most)
        x = part.west + part.size * np.arange(part.counts.shape[1] + 1)
        y = part.south + part.size * np.arange(part.counts.shape[0] + 1)
        mesh = axes.pcolormesh(x, y, shown, cmap="viridis", norm=norm, rasterized=True)
    degree_ticks(axes.xaxis, "longitude")
    degree_ticks(axes.yaxis, "latitude")
    axes.grid(color=_GRID, linewidth=0.6)
    axes.set_axisbelow(True)
    soften(axes)
    return mesh


def _thousands(axis: Any) -> None:
    """Write whole numbers with commas."""
    from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator

    if not isinstance(axis.get_major_locator(), LogLocator):
        axis.set_major_locator(MaxNLocator(nbins=6, integer=True))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
