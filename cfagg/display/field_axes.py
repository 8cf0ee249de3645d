"""Axes of pictures: positions of values, ticks and labels."""

from __future__ import annotations

from collections.abc import Hashable
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt

from cfagg.display import date_axis

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from xarray import DataArray

__all__ = [
    "INK", "MONTHS", "MUTED", "colour_bar", "degree_ticks", "degrees", "direct", "edges", "heading", "is_pressure",
    "label", "positions", "say_none", "scale", "soften",
]  # fmt: skip

INK, MUTED = "#1f2328", "#656d76"

MONTHS = (
    *("January", "February", "March", "April", "May", "June"),
    *("July", "August", "September", "October", "November", "December"),
)


def label(array: DataArray, *, units: bool = True) -> str:
    """Return the label of an array or coordinate."""
    attributes = array.attrs
    name = str(attributes.get("long_name") or str(attributes.get("standard_name", "")).replace("_", " ") or "")
    name = name.strip() or ("" if array.name is None else str(array.name))
    unit = str(attributes.get("units", "")).strip()
    if len(name) > 60:
        name = name[:59] + "…"
    return f"{name} ({unit})".strip() if units and unit not in ("", "1") else name


#: Spacings of ticks in whole degrees.
_DEGREES = (1, 2, 3, 5, 10, 15, 20, 30, 45, 60, 90)


def positions(array: DataArray, dim: Hashable, kind: str) -> npt.NDArray[np.float64]:
    """Return the positions of the values of a dimension along an axis, increasing or decreasing throughout.

    These are the coordinate values, or indices if there is no coordinate, or if its values are neither numbers nor
    dates, or not monotonic.
    """
    found = _numbers(array, dim, kind)
    return np.arange(array.sizes[dim], dtype="f8") if found is None else found


def _numbers(array: DataArray, dim: Hashable, kind: str) -> npt.NDArray[np.float64] | None:
    """Return the coordinate as numbers that increase or decrease throughout, or `None` if that is impossible."""
    if dim not in array.coords or array.coords[dim].ndim != 1 or kind == "season":
        return None
    values = array.coords[dim].values
    if kind == "time" and values.dtype.kind in "MO":
        values = date_axis.numbers(values)
    if values.dtype.kind not in "iuf" or not np.isfinite(values).all():
        return None
    values = np.asarray(values, "f8")
    if _ordered(values):
        return values
    if kind == "longitude":
        # A longitude continues from 179° to -180°, if it covers less than a full turn.
        values = np.unwrap(values, period=360)
        return values if _ordered(values) and np.ptp(values) < 360 else None
    return None


def _ordered(values: npt.NDArray[np.float64]) -> bool:
    steps = np.diff(values)
    return bool((steps > 0).all() or (steps < 0).all())


def edges(centres: npt.NDArray[np.float64], kind: str, *, ratios: bool = False) -> npt.NDArray[np.float64]:
    """Return the edges of cells, half-way between centres (geometrically for `ratios`); latitudes end at the poles."""
    if ratios:
        return np.asarray(np.exp(edges(np.log(centres), "")))
    if len(centres) == 1:
        return np.array([centres[0] - 0.5, centres[0] + 0.5])
    middle = (centres[1:] + centres[:-1]) / 2
    found = np.concatenate([[2 * centres[0] - middle[0]], middle, [2 * centres[-1] - middle[-1]]])
    return np.clip(found, -90, 90) if kind == "latitude" and (np.abs(centres) <= 90).all() else found


def is_pressure(array: DataArray, dim: Hashable) -> bool:
    """Return whether a coordinate is a positive pressure spanning a factor over 20, for a logarithmic scale."""
    values = _numbers(array, dim, "vertical")
    return _falls(array, dim) and values is not None and bool(values.min() > 0 and values.max() > 20 * values.min())


def _falls(array: DataArray, dim: Hashable) -> bool:
    """Return whether a coordinate is a pressure, which decreases upwards."""
    attributes = array.coords[dim].attrs if dim in array.coords else {}
    units = str(attributes.get("units", "")).lower()
    return units in ("pa", "hpa", "mbar", "millibar", "kpa", "bar") or "pressure" in str(
        attributes.get("standard_name", "")
    )


def direct(axes: Axes, array: DataArray, dim: Hashable) -> None:
    """Make pressure and depth increase downwards, on a logarithmic scale if `is_pressure`."""
    attributes = array.coords[dim].attrs if dim in array.coords else {}
    if is_pressure(array, dim):
        from matplotlib.ticker import LogLocator, NullFormatter, StrMethodFormatter

        axes.set_yscale("log")
        axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axes.yaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
        axes.yaxis.set_minor_formatter(NullFormatter())
    low, high = sorted(axes.get_ylim())
    down = str(attributes.get("positive", "")).lower() == "down" or attributes.get("standard_name") == "depth"
    axes.set_ylim((high, low) if down or _falls(array, dim) else (low, high))


def scale(axes: Axes, which: Literal["x", "y"], array: DataArray, dim: Hashable, kind: str, *, wide: bool) -> None:
    """Draw ticks and a label on the axis of a dimension; `wide` axes have room for three-letter months."""
    axis = axes.xaxis if which == "x" else axes.yaxis
    coordinate = array.coords[dim] if dim in array.coords and array.coords[dim].ndim == 1 else None
    text = str(dim) if coordinate is None else label(coordinate)
    if coordinate is None or _numbers(array, dim, kind) is None:
        text = _number(axis, coordinate, str(dim), array.sizes[dim])
    elif kind == "time" and coordinate.dtype.kind in "MO":
        date_axis.label(axes, which, coordinate.values)
        text = ""
    elif kind == "month":
        months = [int(v) for v in coordinate.values]
        axis.set_ticks(months, [MONTHS[m - 1][: 3 if wide else 1] for m in months])
        text = ""
    elif kind in ("latitude", "longitude"):
        degree_ticks(axis, kind, narrow=not wide)
        text = ""
    set_label = axes.set_xlabel if which == "x" else axes.set_ylabel
    set_label(text, color=INK, parse_math=False)


def _number(axis: Any, coordinate: DataArray | None, dim: str, size: int) -> str:
    """Draw numbers of values on an axis, or short names if the coordinate has them; return the axis's label."""
    from matplotlib.ticker import MaxNLocator

    axis.set_major_locator(MaxNLocator(nbins=8, integer=True))
    if coordinate is None or coordinate.dtype.kind not in "UOST":
        return f"index along {dim}"
    if size <= 16:
        axis.set_ticks(range(size), [str(v)[:14] for v in coordinate.values])
        for tick in axis.get_ticklabels():
            tick.set_parse_math(False)
        return "" if dim == "season" else dim
    return f"index along {dim}"


def degrees(value: float, kind: str) -> str:
    """Return a latitude or longitude in the form 30°N or 60°W."""
    positive, negative = ("N", "S") if kind == "latitude" else ("E", "W")
    number = float(value)
    if kind == "longitude":
        number = (number + 180) % 360 - 180
        if number == -180:
            return "180°"
    return f"{abs(number):.5g}°" + (positive if number > 0 else negative if number < 0 else "")


def degree_ticks(axis: Any, kind: str, *, narrow: bool = False) -> None:
    """Label whole degrees on an axis whose limits are set, or fractions if it spans less than two degrees."""
    from matplotlib.ticker import FixedLocator, FuncFormatter, MaxNLocator

    low, high = sorted(axis.get_view_interval())
    # The last label of a narrow panel and the first of the next would touch.
    pruned = narrow and kind == "longitude"
    most = 5 if pruned else 7
    step = next((s for s in _DEGREES if (high - low) / s <= most), 90)
    if high - low < 2:
        axis.set_major_locator(MaxNLocator(nbins=most, prune="upper" if pruned else None, steps=[1, 2, 5, 10]))
    else:
        ticks = np.arange(np.ceil(low / step), np.floor(high / step) + 1) * step
        axis.set_major_locator(FixedLocator(ticks[: -1 if pruned and ticks[-1] > high - step / 2 else None].tolist()))
    axis.set_major_formatter(FuncFormatter(lambda value, _: degrees(value, kind)))


def heading(figure: Figure, title: str, subtitle: str, left: float = 0.75) -> None:
    """Draw title and subtitle at the top of a figure, starting `left` inches from its left edge."""
    width, height = figure.get_size_inches()
    left, top = left / width, 1 - (0.14 if subtitle else 0.3) / height
    figure.text(left, top, title, size=12, weight="bold", color=INK, va="top", ha="left", parse_math=False)
    if subtitle:
        below = top - 0.26 / height
        figure.text(left, below, subtitle, size=9, color=MUTED, va="top", ha="left", parse_math=False)


def colour_bar(figure: Figure, mesh: Any, box: tuple[float, float, float, float], measure: str, **how: Any) -> Axes:
    """Draw the scale of colours; return its axes."""
    bar = figure.colorbar(mesh, cax=figure.add_axes(box))
    bar.set_label(measure, color=INK, parse_math=False, **how)
    bar.outline.set_visible(False)
    bar.ax.tick_params(labelsize=8, color=MUTED, labelcolor=INK)
    found: Axes = bar.ax
    return found


def say_none(axes: Axes, text: str) -> None:
    """Write in the middle of axes that there is nothing to draw."""
    axes.text(0.5, 0.5, text, transform=axes.transAxes, ha="center", va="center", color=MUTED)


def soften(axes: Axes) -> None:
    """Make frame and ticks of axes thin and grey."""
    axes.tick_params(labelsize=8, color=MUTED, labelcolor=INK)
    for spine in axes.spines.values():
        spine.set_color(MUTED)
        spine.set_linewidth(0.6)
