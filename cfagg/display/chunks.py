"""Notebook display of chunked arrays: their properties before anything is read, and a picture of the grid."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from cfagg.display.axes import Axis, choose
from cfagg.display.drawing import DISTINCT, Drawing, Patch, Text, shaded, text_width
from cfagg.display.escape import printable
from cfagg.display.facts import facts_html
from cfagg.display.sizes import count_text, size_text
from cfagg.display.svg import svg
from cfagg.display.text import attribute_text
from cfagg.model import Grid, Regular

__all__ = ["array_html", "draw_chunks", "rows_html"]

#: Maximum number of chunks along a dimension for which a grid is drawn; the edges of more need not be listed.
_MOST = 2**20
#: Scale relative to a picture of a partition matrix, which has file names in its cells.
_SCALE = 0.55


def array_html(
    name: str | None, dims: Sequence[str], grid: Grid, dtype: np.dtype[Any], attributes: Mapping[str, Any]
) -> str:
    """Return an array as HTML: its shape, type, size and attributes, and a picture of its chunks.

    >>> page = array_html("tas", ("time",), Grid.regular((20,), (5,)), np.dtype("f4"), {"units": "K"})
    >>> "time: 20" in page, "4 chunks of 5" in page, "80 bytes" in page, page.count("<polygon")
    (True, True, True, 4)
    """
    count = math.prod(grid.shape)
    facts = (
        ("dimensions", ", ".join(f"{d}: {n:,}" for d, n in zip(dims, grid.shape, strict=True)) or "none"),
        ("type", dtype),
        ("size", f"{count_text(count, 'value')}, {size_text(count * dtype.itemsize)}"),
        ("chunks", _cut(grid)),
        ("largest chunk", _largest(grid, dtype)),
    )
    lists = [("attributes", [f"{key} = {attribute_text(value)}" for key, value in attributes.items()])]
    picture = ""
    if all(n <= _MOST for n in grid.matrix_shape):
        picture = svg(draw_chunks(dims, grid), label="Grid of chunks")
    return facts_html("LazyArray" if name is None else f"LazyArray {name}", facts, lists, picture)


def rows_html(
    lengths: np.ndarray[Any, Any], columns: int | None, dtype: np.dtype[Any], chunks: int,
    labels: Iterable[tuple[str, object]],
) -> str:  # fmt: skip
    """Return rows of different lengths as HTML: their number, lengths and labels.

    >>> page = rows_html(np.array([2, 0, 3]), 3, np.dtype("f8"), 1, [("kind", "int64")])
    >>> "0 to 3, 1.7 on average" in page, "kind (int64)" in page
    (True, True)
    """
    count = int(lengths.sum())
    long = f"{lengths.min():,} to {lengths.max():,}, {lengths.mean():,.1f} on average" if len(lengths) else None
    facts = (
        ("rows", f"{len(lengths):,}"),
        ("columns", None if columns is None else f"{columns:,}"),
        ("values", f"{count:,}, {size_text(count * dtype.itemsize)}"),
        ("values of a row", long),
        ("type", dtype),
        ("chunks", f"{chunks:,}"),
    )
    return facts_html("Rows", facts, [("labels", [f"{name} ({kind})" for name, kind in labels])])


def _cut(grid: Grid) -> str:
    """Return the number of chunks, and their lengths along each dimension."""
    each = []
    for n, axis in zip(grid.matrix_shape, grid.axes, strict=True):
        lengths = np.empty(0) if isinstance(axis, Regular) else np.diff(axis)
        if isinstance(axis, Regular):
            length = f"of {axis.chunk:,}"
        elif n and (lengths[:-1] == lengths[0]).all() and lengths[-1] <= lengths[0]:
            length = f"of {lengths[0]:,}"
        else:
            length = "of unequal lengths" if n else ""
        each.append(f"{count_text(n, 'chunk')} {length}".rstrip())
    if len(each) < 2:
        return each[0] if each else "1 chunk"
    return f"{math.prod(grid.matrix_shape):,}: {' × '.join(each)}"


def _largest(grid: Grid, dtype: np.dtype[Any]) -> str | None:
    """Return the size of the largest chunk in memory."""
    if 0 in grid.matrix_shape:
        return None
    lengths = [min(a.chunk, a.length) if isinstance(a, Regular) else int(np.diff(a).max()) for a in grid.axes]
    shape = " × ".join(f"{n:,}" for n in lengths) or "one value"
    return f"{shape}, {size_text(math.prod(lengths) * dtype.itemsize)}"


def draw_chunks(dims: Sequence[str], grid: Grid) -> Drawing:
    """Draw a grid as a small box, or its face if it has fewer dimensions, by lengths of chunks.

    >>> drawing = draw_chunks(("time", "lat", "lon"), Grid([[0, 1, 3], [0, 2], [0, 4]]))
    >>> len(drawing.patches), [text.text for text in drawing.texts]
    (5, ['time: 3', 'lat: 2', 'lon: 4'])
    """
    right, down, deep = choose(dims, grid)
    out = Drawing()
    if 0 in grid.matrix_shape:
        out.texts.append(Text(2, 14, "no chunk", tone="muted"))
        out.width, out.height = 80, 20
        return out
    dx, dy = 0.8 * deep.length * _SCALE, -0.6 * deep.length * _SCALE
    left, top = 20.0, 6.0 - dy
    x = [left + _SCALE * v for v in right.pixels.tolist()]
    y = [top + _SCALE * v for v in down.pixels.tolist()]
    z = [v / deep.length if deep.length else 0.0 for v in deep.pixels.tolist()]
    edge = "fine" if max(right.cells, down.cells, deep.cells) > 20 else "clear"

    def add(light: float, *corners: tuple[float, float]) -> None:
        out.patches.append(Patch(corners, shaded(DISTINCT[0], light), edge=edge))  # type: ignore[arg-type]

    if deep.number is not None:
        for a, b in zip(z[-2::-1], z[:0:-1], strict=True):  # from back to front; the front hides the back
            for c, d in pairwise(x):
                add(0.35, *((u + dx * v, top + dy * v) for u, v in ((c, a), (d, a), (d, b), (c, b))))
            for c, d in pairwise(y):
                add(-0.22, *((x[-1] + dx * v, u + dy * v) for u, v in ((c, a), (c, b), (d, b), (d, a))))
    for c, d in pairwise(y):
        for a, b in pairwise(x):
            add(0.0, (a, c), (b, c), (b, d), (a, d))
    _label(out, (right, down, deep), ((x[0] + x[-1]) / 2, y[-1] + 14), ((y[0] + y[-1]) / 2), (x[-1] + dx, y[-1] + dy))
    hidden = [
        f"{printable(dims[d])}: {n:,}" for d, n in enumerate(grid.shape)
        if d not in {axis.number for axis in (right, down, deep)} and n > 1
    ]  # fmt: skip
    height = y[-1] + 20
    if hidden:
        height += 16
        out.texts.append(Text(2, height - 6, f"not drawn: {', '.join(hidden)}", 11, tone="muted"))
    binned = [axis for axis in (right, down, deep) if axis.binned]
    if binned:
        height += 16
        about = f"{math.prod(axis.partitions / axis.cells for axis in binned):,.0f}"
        out.texts.append(Text(2, height - 6, f"each cell represents about {about} chunks", 11, tone="muted"))
    out.height = height
    out.width = max(
        x[-1] + dx + 10, *(t.x + text_width(t.text, t.size) + 4 for t in out.texts if t.anchor == "start"), 60
    )
    return out


def _label(
    out: Drawing, axes: tuple[Axis, Axis, Axis], below: tuple[float, float], middle: float, corner: tuple[float, float]
) -> None:
    """Draw the names and sizes of the dimensions beside the picture."""
    right, down, deep = axes
    if right.number is not None:
        out.texts.append(Text(*below, f"{right.name}: {right.size:,}", 11, "middle"))
    if down.number is not None:
        out.texts.append(Text(13, middle, f"{down.name}: {down.size:,}", 11, "middle", upward=True))
    if deep.number is not None:
        out.texts.append(Text(corner[0] - 2, corner[1] + 14, f"{deep.name}: {deep.size:,}", 11))
