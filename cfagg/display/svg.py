"""A drawing as SVG that follows the light or dark theme of the page around it."""

from __future__ import annotations

from cfagg.display.drawing import Drawing, Patch, Point, Text
from cfagg.display.escape import escape

__all__ = ["svg"]


def svg(drawing: Drawing, *, label: str = "Partition matrix") -> str:
    """Return a drawing as an SVG element, its text escaped.

    Colours of ink and paper are the CSS variables ``--cfagg-ink``, ``--cfagg-muted`` and ``--cfagg-paper``.
    """
    width, height = round(drawing.width), round(drawing.height)
    head = (
        f'<svg class="cfagg-matrix" xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
        f'viewBox="0 0 {width} {height}" role="img" aria-label="{escape(label)}">'
    )
    parts = [head]
    parts += [_patch(p) for p in drawing.patches]
    parts += [f'<polyline class="cfagg-tick" points="{_points(line.points)}"/>' for line in drawing.lines]
    parts += [_text(t) for t in drawing.texts]
    return "".join([*parts, "</svg>"])


def _patch(patch: Patch) -> str:
    title = f"<title>{escape(patch.title)}</title>" if patch.title else ""
    name = {"clear": "cell", "fine": "fine", "none": "step"}[patch.edge] if patch.fill is not None else "hole"
    fill = f' fill="{patch.fill}"' if patch.fill is not None else ""
    return f'<polygon class="cfagg-{name}"{fill} points="{_points(patch.points)}">{title}</polygon>'


def _text(text: Text) -> str:
    turn = f' transform="rotate(-90 {text.x:.1f} {text.y:.1f})"' if text.upward else ""
    bold = ' font-weight="600"' if text.bold else ""
    return (
        f'<text class="cfagg-{text.tone}" x="{text.x:.1f}" y="{text.y:.1f}" font-size="{text.size:g}" '
        f'text-anchor="{text.anchor}"{bold}{turn}>{escape(text.text)}</text>'
    )


def _points(points: tuple[Point, ...]) -> str:
    return " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
