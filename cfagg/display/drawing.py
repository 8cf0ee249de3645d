"""Pictures as plain data: polygons, lines and texts in pixels, y downwards, drawn identically by SVG and matplotlib."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

__all__ = [
    "DISTINCT", "Drawing", "Line", "Patch", "Point", "Text", "colours", "fitted", "is_dark", "shaded", "text_width",
]  # fmt: skip

type Point = tuple[float, float]

#: Colours that the colour-blind can distinguish, after Paul Tol's qualitative scheme "muted" and one blue of
#: "medium-contrast" (https://sronpersonalpages.nl/~pault/), in an order that puts contrasts side by side.
DISTINCT = (
    "#88ccee", "#ddcc77", "#cc6677", "#44aa99", "#aa4499", "#999933", "#6699cc", "#117733", "#882255", "#332288",
)  # fmt: skip

#: Points of matplotlib's viridis, whose lightness increases evenly, also for the colour-blind.
_GRADIENT = ("#443a83", "#31688e", "#21908c", "#35b779", "#8fd744", "#fde725")


@dataclass(frozen=True)
class Patch:
    """A filled polygon; a missing partition has no `fill`, and `title` is shown when a pointer is over it.

    `edge` is the style of its outline: ``"clear"``, ``"fine"`` or ``"none"``.
    """

    points: tuple[Point, ...]
    fill: str | None
    title: str = ""
    edge: Literal["clear", "fine", "none"] = "clear"


@dataclass(frozen=True)
class Line:
    """A thin line."""

    points: tuple[Point, ...]


@dataclass(frozen=True)
class Text:
    """A text whose base line starts, ends or has its middle at a point.

    `tone` is ``"ink"``, ``"muted"``, or for texts on a patch ``"dark"`` or ``"light"``; `upward` texts run from bottom
    to top.
    """

    x: float
    y: float
    text: str
    size: float = 11
    anchor: Literal["start", "middle", "end"] = "start"
    tone: Literal["ink", "muted", "dark", "light"] = "ink"
    bold: bool = False
    upward: bool = False


@dataclass
class Drawing:
    """A picture that grows while it is drawn."""

    width: float = 0
    height: float = 0
    patches: list[Patch] = field(default_factory=list)
    lines: list[Line] = field(default_factory=list)
    texts: list[Text] = field(default_factory=list)


def colours(count: int) -> list[str]:
    """Return `count` colours for the colour-blind too: distinct ones if there are enough, or else a gradient."""
    if count <= len(DISTINCT):
        return list(DISTINCT[:count])
    stops = [_rgb(c) for c in _GRADIENT]
    out = []
    for i in range(count):
        place = i / (count - 1) * (len(stops) - 1)
        k = min(int(place), len(stops) - 2)
        out.append(_hex([a + (b - a) * (place - k) for a, b in zip(stops[k], stops[k + 1], strict=True)]))
    return out


def shaded(colour: str, light: float) -> str:
    """Return a colour mixed with white (`light` > 0) or black (`light` < 0)."""
    goal = 255 if light > 0 else 0
    return _hex([c + (goal - c) * abs(light) for c in _rgb(colour)])


def is_dark(colour: str) -> bool:
    """Return whether light text is easier to read on a colour than dark text.

    >>> is_dark("#332288"), is_dark("#fde725")
    (True, False)
    """
    # Relative luminance of the Web Content Accessibility Guidelines; at 0.18 white and black have equal contrast.
    linear = [c / 255 / 12.92 if c / 255 <= 0.04045 else ((c / 255 + 0.055) / 1.055) ** 2.4 for c in _rgb(colour)]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2] < 0.18


def text_width(text: str, size: float) -> float:
    """Return the approximate width of a text in a sans-serif typeface, more likely too large than too small."""
    ems = sum(1.05 if unicodedata.east_asian_width(c) in "WF" else 0.6 for c in text)
    return round(ems * size, 6)


def fitted(text: str, size: float, room: float, *, least: int = 6) -> str:
    """Return a text that fits, with its middle omitted if necessary; empty if fewer than `least` characters remain."""
    if text_width(text, size) <= room:
        return text
    keep = len(text)
    short = text
    while keep >= least:
        tail = keep // 2
        short = text[: keep - tail] + "…" + text[len(text) - tail :]
        if text_width(short, size) <= room:
            return short
        keep = min(keep - 1, int(keep * room / text_width(short, size)) + 1)
    return ""


def _rgb(colour: str) -> list[int]:
    return [int(colour[i : i + 2], 16) for i in (1, 3, 5)]


def _hex(parts: Sequence[float]) -> str:
    return "#" + "".join(f"{round(p):02x}" for p in parts)
