"""The pictures and the table of cases of the page about projection: every row and line is made by `plan`."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any

import numpy as np

from cfagg.arrays.plan import AxisPlan, Plan, plan
from cfagg.model import Grid
from making.figures import INK, MUTED, figure, svg


@dataclass(frozen=True)
class Case:
    """A dimension with its cells, and what is selected of it."""

    name: str
    grid: Grid
    selection: Any
    said: str  # the selection as one writes it

    @property
    def axis(self) -> AxisPlan:
        """Its projections."""
        return plan(self.grid, [self.selection]).axes[0]

    @property
    def cells(self) -> str:
        """The cells in words."""
        edges, size = self.grid.edges[0].tolist(), self.grid.shape[0]
        lengths = np.diff(edges).tolist()
        if len(set(lengths)) <= 1:
            return f"{size} in chunks of {getattr(self.grid.axes[0], 'chunk', size)}"
        return f"{size}, edges {', '.join(map(str, edges))}"


def _equal(size: int, chunk: int) -> Grid:
    return Grid.regular((size,), (chunk,))


def _edges(*edges: int) -> Grid:
    return Grid([edges])


#: Every kind of selection that differs from the others, in the order of the page.
CASES = (
    Case("whole dimension", _equal(12, 4), slice(None), ":"),
    Case("range within one chunk", _equal(12, 4), slice(5, 7), "5:7"),
    Case("partial last chunk", _equal(10, 4), slice(3, None), "3:"),
    Case("step within chunks", _equal(12, 4), slice(1, None, 3), "1::3"),
    Case("step longer than a chunk", _equal(20, 4), slice(3, 20, 6), "3:20:6"),
    Case("step longer than the dimension", _equal(12, 4), slice(5, None, 50), "5::50"),
    Case("stop beyond the dimension", _equal(10, 4), slice(6, 99), "6:99"),
    Case("negative step", _equal(10, 4), slice(None, None, -3), "::-3"),
    Case("empty selection", _equal(12, 4), slice(7, 7), "7:7"),
    Case("empty dimension", _equal(0, 4), slice(None), ":"),
    Case("variable edges", _edges(0, 3, 4, 10, 12), slice(2, 11, 2), "2:11:2"),
    Case("variable edges, negative step", _edges(0, 3, 4, 10, 12), slice(11, 1, -4), "11:1:-4"),
    Case("integer", _equal(12, 4), 9, "9"),
    Case("negative integer", _equal(12, 4), -1, "-1"),
    Case("ascending indices", _equal(12, 4), [0, 1, 6, 6, 11], "[0, 1, 6, 6, 11]"),
    Case("indices in any order", _edges(0, 3, 4, 10, 12), [9, 2, 9, 0, 11], "[9, 2, 9, 0, 11]"),
    Case("mask", _equal(6, 4), [True, False, False, True, False, True], "[1, 0, 0, 1, 0, 1] as truth"),
)

#: The cases that are drawn.
DRAWN = ("step longer than a chunk", "negative step", "variable edges", "indices in any order")

_HUES = ("#88ccee", "#ddcc77", "#cc99bb", "#99cc99", "#ee9988", "#b3aee0")


def result(case: Case) -> list[int]:
    """Return the indices of the selected elements, put together from the projections alone.

    >>> result(CASES[4])
    [3, 9, 15]
    """
    axis, edges = case.axis, case.grid.edges[0]
    out = np.full(axis.size, -1)
    for row, cell in enumerate(axis.cell):
        stored = np.arange(edges[cell], edges[cell + 1])
        out[axis.target(row)] = stored[axis.source(row)]
    return [int(i) for i in out]


def table() -> str:
    """Return the table of cases in Markdown.

    >>> table().splitlines()[6]
    '| step longer than a chunk | 20 in chunks of 4 | `3:20:6` | 0 / 2 / 3 | `3` / `1` / `3` | `0` / `1` / `2` |'
    """
    lines = [
        "| case | dimension | selection | cell | taken from it | placed at |",
        "|---|---|---|---|---|---|",
    ]
    for case in CASES:
        axis = case.axis
        rows = [(str(int(c)), _said(axis.source(i)), _said(axis.target(i))) for i, c in enumerate(axis.cell)]
        cells, source, target = (" / ".join(column) for column in zip(*rows, strict=True)) if rows else ("none", "", "")
        row = f"| {case.name} | {case.cells} | `{case.said}` | {cells} | {source} | {target} |"
        lines.append(row.replace("|  |", "| |").replace("|  |", "| |"))
    return "\n".join(lines)


def _said(part: Any) -> str:
    """Return a slice or indices as one writes them."""
    if not isinstance(part, slice):
        return f"`{part.tolist()}`"
    count = len(range(*part.indices(part.start + 1 if part.step < 0 else part.stop)))
    if count == 1:
        return f"`{part.start}`"
    stop = "" if part.stop is None else part.stop
    return f"`{part.start}:{stop}{'' if part.step == 1 else f':{part.step}'}`"


def draw() -> bytes:
    """Return the picture of one dimension, four times, as SVG."""
    canvas = figure(8.4, 7.2)
    for axes, name in zip(canvas.subplots(len(DRAWN), 1), DRAWN, strict=True):
        _dimension(axes, next(c for c in CASES if c.name == name))
    return svg(canvas)


def _dimension(axes: Any, case: Case) -> None:
    """Draw the cells of a dimension above the result, and a line from each selected element to its place."""
    from matplotlib.patches import Rectangle

    edges, axis = case.grid.edges[0], case.axis
    for cell, (low, high) in enumerate(itertools.pairwise(edges)):
        touched = cell in axis.cell
        colour = _HUES[cell % len(_HUES)] if touched else "#f2f3f5"
        axes.add_patch(Rectangle((low, 2), high - low, 1, facecolor=colour, edgecolor=INK, lw=1.3, zorder=2))
        axes.text((low + high) / 2, 3.12, f"cell {cell}", ha="center", va="bottom", **_SMALL)
    for i in range(int(edges[-1])):
        inside = i < case.grid.shape[0]
        axes.add_patch(
            Rectangle((i, 2), 1, 1, fill=not inside, facecolor="white", hatch=None if inside else "////",
                      edgecolor="#ffffff" if inside else "#b0b5bb", lw=0.6, zorder=2.5)
        )  # fmt: skip
    left = (edges[-1] - axis.size) / 2
    for row, cell in enumerate(axis.cell):
        source = np.arange(edges[cell], edges[cell + 1])[axis.source(row)]
        target = np.arange(axis.size)[axis.target(row)]
        for g, out in zip(source, target, strict=True):
            axes.text(g + 0.5, 2.48, str(g), ha="center", va="center", **_SMALL)
            axes.plot([g + 0.5, left + out + 0.5], [2, 1], color=_HUES[cell % len(_HUES)], lw=1.4, zorder=1)
            axes.add_patch(
                Rectangle(
                    (left + out, 0.2), 1, 0.8, facecolor=_HUES[cell % len(_HUES)], edgecolor=INK, lw=0.8, zorder=2
                )
            )
            axes.text(left + out + 0.5, 0.58, str(g), ha="center", va="center", **_SMALL)
    axes.text(left - 0.3, 0.58, "result", ha="right", va="center", color=MUTED, fontsize=8.5)
    axes.set(xlim=(-0.4, edges[-1] + 0.4), ylim=(0, 3.6), yticks=[], xticks=[])
    axes.set_title(f"{case.name[0].upper()}{case.name[1:]}: {case.said} of {case.cells}", **_TITLE)
    axes.spines[:].set_visible(False)


#: The array of two dimensions that is drawn, and what is selected of it.
PLANE, SELECTED = Grid([[0, 2, 7, 10], [0, 4, 8, 12, 16]], (10, 14)), (slice(8, 0, -2), [13, 1, 5, 2])


def plane() -> Plan:
    """Return the plan of the second picture.

    >>> plane().shape, plane().cell.tolist()
    ((4, 4), [4, 5, 7, 8, 9, 11])
    """
    return plan(PLANE, SELECTED)


def draw_plane() -> bytes:
    """Return the picture of two dimensions as SVG: every touched cell is one combination of rows of two tables."""
    from matplotlib.patches import Rectangle

    canvas = figure(8.4, 4.4)
    before, after = canvas.subplots(1, 2, width_ratios=(2.4, 1))
    made = plane()
    touched = {int(c): k for k, c in enumerate(made.cell)}
    shape = PLANE.matrix_shape
    for cell in range(PLANE.size):
        (top, bottom), (start, stop) = PLANE.extent(np.unravel_index(cell, shape))
        whole = int(PLANE.edges[1][cell % shape[1] + 1])
        k = touched.get(cell)
        colour = "#f2f3f5" if k is None else _HUES[k % len(_HUES)]
        before.add_patch(Rectangle((start, top), stop - start, bottom - top, facecolor=colour, zorder=1))
        if whole > stop:
            before.add_patch(
                Rectangle((stop, top), whole - stop, bottom - top, fill=False, hatch="////", edgecolor="#c9ced4", lw=0)
            )
        before.add_patch(
            Rectangle((start, top), whole - start, bottom - top, fill=False, edgecolor=INK, lw=1.2, zorder=3)
        )
        before.text(start + 0.15, top + 0.15, str(cell), ha="left", va="top", **{**_SMALL, "color": MUTED})
    numbers = np.arange(10 * 14).reshape(10, 14)
    for k in range(len(made)):
        (rows, columns), (down, across) = made.source(k), made.target(k)
        (top, _), (start, _) = PLANE.extent(made.index(k))
        ys, xs = (np.arange(20)[part] + low for part, low in ((rows, top), (columns, start)))
        for y, v in zip(ys, np.arange(made.shape[0])[down], strict=True):
            for x, u in zip(xs, np.arange(made.shape[1])[across], strict=True):
                before.add_patch(Rectangle((x, y), 1, 1, facecolor="white", edgecolor=INK, lw=0.8, zorder=4))
                before.text(x + 0.5, y + 0.52, str(numbers[y, x]), ha="center", va="center", **_SMALL)
                after.add_patch(Rectangle((u, v), 1, 1, facecolor=_HUES[k % len(_HUES)], edgecolor=INK, lw=0.8))
                after.text(u + 0.5, v + 0.52, str(numbers[y, x]), ha="center", va="center", **_SMALL)
    before.set(xlim=(-0.2, 16.2), ylim=(10.2, -0.2))
    before.set_title("a[8:0:-2, [13, 1, 5, 2]]: the cells, numbered, and what is taken", **_TITLE)
    after.set(xlim=(-0.2, 4.2), ylim=(4.2, -0.2))
    after.set_title("the result", **_TITLE)
    for axes in (before, after):
        axes.set(xticks=[], yticks=[], aspect="equal")
        axes.spines[:].set_visible(False)
    return svg(canvas)


_TITLE: dict[str, Any] = {"loc": "left", "fontsize": 10, "color": INK}
_SMALL: dict[str, Any] = {"fontsize": 8, "color": INK, "zorder": 5}
