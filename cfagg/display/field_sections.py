"""Panels of pictures: maps and sections over two dimensions, with one scale of colours."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from cfagg.display import curvilinear
from cfagg.display.field_axes import (
    INK,
    MONTHS,
    colour_bar,
    degree_ticks,
    direct,
    edges,
    is_pressure,
    positions,
    say_none,
    scale,
    soften,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from xarray import DataArray

__all__ = ["draw", "panel_dim", "panels", "room"]

#: Colour of missing values.
_HOLE = "#e6e8eb"
#: Inches around panels, and between them horizontally and vertically.
_LEFT, _RIGHT, _TOP, _BOTTOM = 0.75, 1.25, 0.75, 0.55
_GAP = (0.2, 0.4)
#: Which of two dimensions is vertical: the one that comes first here, or else the first.
_RANK = {"vertical": 0, "latitude": 1, "other": 2, "time": 3, "month": 4, "season": 4, "longitude": 5}


def panel_dim(array: DataArray, kinds: Mapping[Hashable, str], grid: curvilinear.Grid | None) -> Hashable:
    """Return the dimension for the panels: months or seasons, else the shortest one that is not part of a map."""
    on_map = {d for d in array.dims if kinds[d] in ("latitude", "longitude")}.union(grid[0].dims if grid else ())
    rest = [d for d in array.dims if d not in on_map] or list(array.dims)
    return min(rest, key=lambda d: (kinds[d] not in ("month", "season"), array.sizes[d]))


def panels(
    array: DataArray, kinds: Mapping[Hashable, str], grid: curvilinear.Grid | None
) -> list[tuple[str, DataArray]]:
    """Return the title of each panel, and its two-dimensional array with the vertical dimension first."""
    parts = [("", array)]
    if array.ndim == 3:
        along = panel_dim(array, kinds, grid)
        parts = [(_value(array, along, kinds[along], i), array.isel({along: i})) for i in range(array.sizes[along])]
    first, second = parts[0][1].dims
    # Time and longitude are horizontal; if there are both, or neither, height and latitude decide.
    swap = _RANK[kinds[first]] > _RANK[kinds[second]]
    return [(text, part.transpose(second, first) if swap else part) for text, part in parts]


def _value(array: DataArray, dim: Hashable, kind: str, index: int) -> str:
    """Return one value of a coordinate as text."""
    if dim not in array.coords:
        return f"{dim} {index}"
    coordinate = array.coords[dim]
    value = coordinate.values[index]
    if kind == "month":
        return MONTHS[int(value) - 1]
    if kind == "season":
        return str(value)
    if kind == "time":
        return str(value)[:10]
    units = str(coordinate.attrs.get("units", ""))
    return f"{dim} {value:g} {units}".strip() if isinstance(value, np.number) else f"{dim} {value}"


def room(
    array: DataArray, count: int, kinds: Mapping[Hashable, str], grid: curvilinear.Grid | None
) -> tuple[float, float]:
    """Return width and height in inches of a picture of panels, given an array with its vertical dimension first."""
    columns, rows = _arrangement(count)
    ratio = 0.55
    found = curvilinear.places(array, grid)
    if found is not None:
        ratio = min(max((found.north - found.south) / (found.east - found.west), 0.3), 1.4)
    elif _is_map(array, kinds):
        both = (edges(positions(array, d, kinds[d]), kinds[d]) for d in array.dims)
        tall, wide = (abs(e[-1] - e[0]) for e in both)
        # Degrees have the same length in both directions, unless that would make the picture extremely wide or tall.
        ratio = min(max(tall / wide if wide else 1.0, 0.3), 1.4)
    panel = min(6.6, 5.2 / ratio) if columns == 1 else min(10.4 / columns, 9.0 / rows / ratio)
    width = max(5.2, columns * panel + _LEFT + _RIGHT)
    return width, rows * (panel * ratio + _GAP[1]) + _TOP + _BOTTOM


def draw(
    figure: Figure,
    parts: list[tuple[str, DataArray]],
    measure: str,
    kinds: Mapping[Hashable, str],
    grid: curvilinear.Grid | None,
) -> None:
    """Draw panels on a figure of the size `room`, with one colour scale labelled `measure`."""
    columns, rows = _arrangement(len(parts))
    width, height = figure.get_size_inches()
    top = _TOP + (0.2 if len(parts) > 1 else 0)
    wide = (width - _LEFT - _RIGHT - _GAP[0] * (columns - 1)) / columns
    tall = (height - top - _BOTTOM - _GAP[1] * (rows - 1)) / rows
    values = np.stack([np.asarray(p.values, "f8") for _, p in parts])
    colours = _colours(values)
    mesh: Any = None
    for number, (text, part) in enumerate(parts):
        row, column = divmod(number, columns)
        x, y = _LEFT + column * (wide + _GAP[0]), height - top - tall - row * (tall + _GAP[1])
        axes = figure.add_axes((x / width, y / height, wide / width, tall / height))
        mesh = _section(axes, part, colours, kinds, grid, narrow=columns > 1)
        if text:
            axes.set_title(text, size=9, color=INK, pad=3, parse_math=False)
        last = number + columns >= len(parts)
        axes.tick_params(labelbottom=last, labelleft=column == 0)
        if not last:
            axes.set_xlabel("")
        if column:
            axes.set_ylabel("")
    if not np.isfinite(values).any():
        return
    span = rows * tall + (rows - 1) * _GAP[1]
    low, share = height - top - span, min(span, 5.0)
    box = ((width - _RIGHT + 0.18) / width, (low + (span - share) / 2) / height, 0.16 / width, share / height)
    colour_bar(figure, mesh, box, measure).ticklabel_format(useOffset=False)


def _arrangement(count: int) -> tuple[int, int]:
    """Return columns and rows of panels."""
    columns = {1: 1, 2: 2, 4: 2}.get(count, 3)
    return columns, math.ceil(count / columns)


def _is_map(array: DataArray, kinds: Mapping[Hashable, str]) -> bool:
    return sorted(kinds[d] for d in array.dims) == ["latitude", "longitude"]


def _colours(values: npt.NDArray[np.float64]) -> dict[str, Any]:
    """Return the colour scale for values: diverging around 0 if they extend similarly to both sides."""
    import matplotlib as mpl

    finite = values[np.isfinite(values)]
    low, high = (float(finite.min()), float(finite.max())) if finite.size else (0.0, 1.0)
    if low < 0 < high and min(-low, high) >= 0.2 * max(-low, high):
        high = max(-low, high)
        return {"cmap": mpl.colormaps["RdBu_r"], "vmin": -high, "vmax": high}
    if low == high:
        # A single value is put in the middle of a scale of its own magnitude.
        low, high = low - (abs(low) * 1e-3 or 1.0), high + (abs(high) * 1e-3 or 1.0)
    return {"cmap": mpl.colormaps["viridis"], "vmin": low, "vmax": high}


def _section(
    axes: Axes,
    array: DataArray,
    colours: dict[str, Any],
    kinds: Mapping[Hashable, str],
    grid: curvilinear.Grid | None,
    *,
    narrow: bool,
) -> Any:
    """Draw one two-dimensional array, with the first dimension vertical."""
    up, across = array.dims
    up_kind, across_kind = kinds[up], kinds[across]
    values = np.ma.masked_invalid(np.asarray(array.values, "f8"))
    found = curvilinear.places(array, grid)
    if found is not None:
        axes.set_facecolor(_HOLE)
        mesh = curvilinear.draw(axes, found, values, colours)
        degree_ticks(axes.xaxis, "longitude", narrow=narrow)
        degree_ticks(axes.yaxis, "latitude")
        _finish(axes, values, on_map=True)
        return mesh
    x = edges(positions(array, across, across_kind), across_kind)
    y = edges(positions(array, up, up_kind), up_kind, ratios=up_kind == "vertical" and is_pressure(array, up))
    axes.set_facecolor(_HOLE)
    # Rasterized even in vector graphics: a million cells as shapes would fill files and hang viewers.
    mesh = axes.pcolormesh(x, y, values, rasterized=True, **colours)
    axes.set_xlim(x.min(), x.max())
    axes.set_ylim(y.min(), y.max())
    if up_kind == "vertical":
        direct(axes, array, up)
    scale(axes, "x", array, across, across_kind, wide=not narrow)
    scale(axes, "y", array, up, up_kind, wide=True)
    _finish(axes, values, on_map=_is_map(array, kinds))
    return mesh


def _finish(axes: Axes, values: Any, *, on_map: bool) -> None:
    if not values.count():
        say_none(axes, "no values")
    if on_map:
        axes.grid(color="white", linewidth=0.4, alpha=0.35)
    soften(axes)
