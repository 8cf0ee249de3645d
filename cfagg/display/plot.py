"""Pictures of partition matrices in files, drawn with matplotlib."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cfagg.display import picture
from cfagg.display.drawing import Drawing, Text
from cfagg.display.matrix import draw
from cfagg.display.picture import FORMATS, PER_INCH
from cfagg.model import Aggregation

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["FORMATS", "PANELS", "save"]

#: Maximum number of aggregations in one picture.
PANELS = 6

_INK = {"ink": "#1f2328", "muted": "#656d76", "dark": "#1f2328", "light": "#ffffff"}
#: Points per pixel.
_POINTS = 72 / PER_INCH


def save(aggregations: Mapping[str, Aggregation], path: str | Path) -> None:
    """Draw the partition matrices of at most `PANELS` aggregations into one picture, one below the other."""
    picture.kind(path)
    drawings = [draw(a) for a in list(aggregations.values())[:PANELS]]
    width, height = max(d.width for d in drawings), sum(d.height for d in drawings)
    with picture.figure(path, width / PER_INCH, height / PER_INCH) as figure:
        below = height
        for drawing in drawings:
            below -= drawing.height
            box = (0, below / height, drawing.width / width, drawing.height / height)
            _paint(figure.add_axes(box), drawing)


def _paint(axes: Axes, drawing: Drawing) -> None:
    """Draw on a part of a figure that has the drawing's size."""
    from matplotlib.collections import LineCollection, PolyCollection

    axes.set_axis_off()
    axes.set_xlim(0, drawing.width)
    axes.set_ylim(drawing.height, 0)
    for edge, linewidth in (("clear", 0.9), ("fine", 0.3), ("none", 0.0)):
        chosen = [p for p in drawing.patches if p.fill is not None and p.edge == edge]
        if chosen:
            style: dict[str, Any] = {"edgecolors": "white", "linewidths": linewidth} if linewidth else {}
            fills = [str(p.fill) for p in chosen]
            axes.add_collection(PolyCollection([p.points for p in chosen], facecolors=fills, **style))
    holes = [p.points for p in drawing.patches if p.fill is None]
    if holes:
        axes.add_collection(
            PolyCollection(holes, facecolors="#f6f8fa", edgecolors="#afb8c1", linewidths=0.6, hatch="////")
        )
    axes.add_collection(LineCollection([line.points for line in drawing.lines], colors="#afb8c1", linewidths=0.7))
    for text in drawing.texts:
        _write(axes, text)


def _write(axes: Axes, text: Text) -> None:
    axes.text(
        text.x,
        text.y,
        text.text,
        fontsize=text.size * _POINTS,
        color=_INK[text.tone],
        fontweight="bold" if text.bold else "normal",
        ha={"start": "left", "middle": "center", "end": "right"}[text.anchor],
        # Vertical texts are centred on their point, because there is no base line to the side.
        va="center" if text.upward else "baseline",
        rotation=90 if text.upward else 0,
        # Dollar signs in names do not mark mathematics.
        parse_math=False,
    )
