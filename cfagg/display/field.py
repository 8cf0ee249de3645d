"""Pictures of results: maps, series, profiles, sections and cycles, with units on every axis."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from cfagg.display import field_sections, picture
from cfagg.display.field_axes import INK, direct, heading, label, positions, say_none, scale, soften
from cfagg.errors import UnsupportedError

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping

    from matplotlib.axes import Axes
    from xarray import DataArray

    from cfagg.display.curvilinear import Grid

__all__ = ["PANELS", "label", "save"]

#: Maximum number of maps or sections in one picture.
PANELS = 12

_LINE, _GRID = "#1f6feb", "#d8dee4"
_SEASONS = ("DJF", "MAM", "JJA", "SON")


def save(
    array: DataArray,
    path: str | Path,
    kinds: Mapping[Hashable, str],
    grid: Grid | None = None,
    *,
    title: str = "",
    subtitle: str = "",
) -> None:
    """Draw an array with one to three dimensions into a file whose suffix selects the format: .png, .svg or .pdf.

    The picture is a line along time, months, seasons or another dimension; a profile along height; a map over 1-D or
    2-D latitude and longitude (`grid`, no coastlines); or a section over two other dimensions. It has a panel for each
    month, season or other value of a third dimension. Arrays that cannot be drawn raise `UnsupportedError`.
    """
    picture.kind(path)
    _check(array, kinds, grid)
    array = _in_order(array, kinds)
    head = title or label(array, units=False)
    if array.ndim > 1:
        parts = field_sections.panels(array, kinds, grid)
        width, height = field_sections.room(parts[0][1], len(parts), kinds, grid)
        with picture.figure(path, width, height) as figure:
            field_sections.draw(figure, parts, label(array), kinds, grid)
            heading(figure, head, subtitle)
        return
    kind = kinds[array.dims[0]]
    upright = kind == "vertical"
    width, height = (5.6, 5.8) if upright else (8.0, 4.2)
    left, bottom, right, top = 0.85, 0.65, 0.3, 0.75
    with picture.figure(path, width, height) as figure:
        box = (left / width, bottom / height, 1 - (left + right) / width, 1 - (top + bottom) / height)
        _line(figure.add_axes(box), array, kind)
        heading(figure, head, subtitle)


def _check(array: DataArray, kinds: Mapping[Hashable, str], grid: Grid | None) -> None:
    name = repr(str(array.name)) if array.name is not None else "this array"
    wrong = ""
    if array.ndim == 0:
        wrong = "it is a single value"
    elif array.ndim > 3:
        dims = ", ".join(map(str, array.dims))
        wrong = f"it has {array.ndim} dimensions ({dims}); select one value or average over all but three of them"
    elif not array.size:
        wrong = "it is empty"
    elif array.dtype.kind not in "iufb":
        wrong = f"its values are not numbers but {array.dtype}"
    elif array.ndim == 3:
        along = field_sections.panel_dim(array, kinds, grid)
        if array.sizes[along] > PANELS:
            wrong = (
                f"it would have {array.sizes[along]} panels, one per {along}, but at most {PANELS} are drawn; select "
                f"fewer, or average over {along}"
            )
    if wrong:
        raise UnsupportedError(f"a picture of {name} cannot be drawn: {wrong}")


def _in_order(array: DataArray, kinds: Mapping[Hashable, str]) -> DataArray:
    """Return an array with seasons in the order of the year; grouping sorts them by name."""
    for dim in array.dims:
        if kinds[dim] == "season":
            names = [str(v) for v in array.coords[dim].values]
            array = array.isel({dim: sorted(range(len(names)), key=lambda i: _SEASONS.index(names[i]))})
    return array


def _line(axes: Axes, array: DataArray, kind: str) -> None:
    """Draw values along their one dimension; a profile is upright."""
    dim, upright = array.dims[0], kind == "vertical"
    where, values = positions(array, dim, kind), np.asarray(array.values, "f8")
    finite = np.isfinite(values)
    # A few points are marked, and so are those without a neighbour to draw a line to.
    few = len(values) <= 60
    points = finite if few else finite & ~np.append(finite[1:], False) & ~np.append(False, finite[:-1])
    x, y = (values, where) if upright else (where, values)
    axes.plot(x, y, color=_LINE, linewidth=1.6 if len(values) < 1000 else 0.9)
    axes.plot(x[points], y[points], "o", color=_LINE, markersize=3.5)
    if upright:
        direct(axes, array, dim)
    elif len(where) == 1:
        axes.set_xlim(where[0] - 0.5, where[0] + 0.5)
    elif not few:
        axes.set_xlim(where.min(), where.max())
    scale(axes, "y" if upright else "x", array, dim, kind, wide=True)
    # No offsets such as +2.88e2 beside the axis.
    axes.ticklabel_format(axis="x" if upright else "y", useOffset=False)
    (axes.set_xlabel if upright else axes.set_ylabel)(label(array), color=INK, parse_math=False)
    if not finite.any():
        say_none(axes, "no values")
    axes.grid(color=_GRID, linewidth=0.6)
    axes.spines[["top", "right"]].set_visible(False)
    soften(axes)
