"""The picture of the signed boxes: a range, and the box of two ranges, put together from sampled sums and edges."""

from __future__ import annotations

from itertools import product
from typing import Any

from making.figures import INK, MUTED, figure, svg

#: Chunk edges of the two dimensions of the picture, and what is asked for.
LATITUDE, LONGITUDE = (0, 8, 16, 24, 32, 40), (0, 8, 16, 24, 32, 40, 48, 56, 64)
ROWS, COLUMNS = (5, 29), (13, 53)

_CORE, _PLUS, _MINUS = "#cfe8d5", "#88ccee", "#f2b8b5"


def nearest(edges: tuple[int, ...], position: int) -> int:
    """Return the edge that is nearest to a position."""
    return min(edges, key=lambda edge: abs(edge - position))


def pieces(edges: tuple[int, ...], wanted: tuple[int, int]) -> list[tuple[int, int, int]]:
    """Return the core and the two edges of a range as (start, stop, sign).

    >>> pieces((0, 8, 16, 24), (6, 18))
    [(8, 16, 1), (6, 8, 1), (16, 18, 1)]
    >>> pieces((0, 8, 16, 24), (9, 23))
    [(8, 24, 1), (8, 9, -1), (23, 24, -1)]
    """
    (a, b), (low, high) = wanted, (nearest(edges, wanted[0]), nearest(edges, wanted[1]))
    left = (a, low, 1) if a <= low else (low, a, -1)
    right = (high, b, 1) if high <= b else (b, high, -1)
    return [(low, high, 1), left, right]


#: What answers a box: by whether its latitudes, and its longitudes, are the core.
_ANSWERS = {
    (True, True): "$S_{lat,lon}$ at 4 corners",
    (True, False): "$S_{lat}$ at 2 ends",
    (False, True): "$S_{lon}$ at 2 ends",
}


def draw() -> bytes:
    """Return the picture as SVG."""
    canvas = figure(8.4, 6.6)
    upper, lower = canvas.subplots(2, 1, height_ratios=(1, 2.9))
    _range(upper)
    _box(lower)
    return svg(canvas)


def _range(axes: Any) -> None:
    """Draw one range: what is asked for, and the three pieces that make it."""
    (low, high, _), left, right = pieces(LONGITUDE, COLUMNS)
    for edge in LONGITUDE:
        axes.plot([edge, edge], [0.1, 4.1], color="#c9ced4", lw=0.8, zorder=0)
    bars = [
        (3.2, COLUMNS[0], COLUMNS[1], "#ffffff", "asked for: $[a, b)$"),
        (2.2, low, high, _CORE, "$S(B) - S(A)$: the core $[A, B)$ between the nearest samples"),
        (1.2, *left[:2], _sign(left), ""),
        (0.2, *right[:2], _sign(right), ""),
    ]
    for y, start, stop, colour, label in bars:
        axes.barh(y + 0.35, stop - start, 0.7, start, color=colour, edgecolor=INK, lw=1.3 if y > 3 else 0.8)
        axes.text((start + stop) / 2, y + 0.32, label, ha="center", va="center", fontsize=9, color=INK)
    axes.text(left[1] + 0.8, 1.5, "plus what the core leaves out, read from one chunk", va="center", fontsize=9)
    axes.text(
        right[0] - 0.8, 0.5, "minus what it has too much, read from one chunk", va="center", ha="right", fontsize=9
    )
    axes.set(xlim=(-0.3, 64.3), ylim=(0, 4.2), yticks=[], xticks=LONGITUDE)
    axes.set_xticklabels(["0", *(f"$b_{k}$" for k in range(len(LONGITUDE) - 1))], fontsize=9)
    axes.set_title("One range: the lines are ends of chunks, where a sum from the start on is stored", **_TITLE)
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)


def _box(axes: Any) -> None:
    """Draw the box of two ranges: nine signed boxes, named after the array that answers each."""
    from matplotlib.patches import Rectangle

    for edge in LATITUDE:
        axes.plot([0, 64], [edge, edge], color="#c9ced4", lw=0.8, zorder=0)
    for edge in LONGITUDE:
        axes.plot([edge, edge], [0, 40], color="#c9ced4", lw=0.8, zorder=0)
    for (i, (top, bottom, s)), (j, (start, stop, t)) in product(
        enumerate(pieces(LATITUDE, ROWS)), enumerate(pieces(LONGITUDE, COLUMNS))
    ):
        colour = _CORE if i == j == 0 else _PLUS if s * t > 0 else _MINUS
        axes.add_patch(
            Rectangle((start, top), stop - start, bottom - top, facecolor=colour, edgecolor=MUTED, lw=0.7, zorder=1)
        )
        mark = "+" if s * t > 0 else "−"
        label = _ANSWERS.get((i == 0, j == 0), "")
        turned = 90 if i == 0 and j > 0 else 0
        middle = ((start + stop) / 2, (top + bottom) / 2)
        axes.text(*middle, f"{mark} {label}".strip(), ha="center", va="center", rotation=turned, **_SMALL)
    axes.add_patch(
        Rectangle(
            (COLUMNS[0], ROWS[0]),
            COLUMNS[1] - COLUMNS[0],
            ROWS[1] - ROWS[0],
            fill=False,
            edgecolor=INK,
            lw=2.2,
            zorder=3,
        )
    )
    (west, east, _), (north, south, _) = pieces(LONGITUDE, COLUMNS)[0], pieces(LATITUDE, ROWS)[0]
    axes.plot([west, east, west, east], [north, north, south, south], "o", color="#117733", ms=6, zorder=4)
    axes.set(xlim=(-0.3, 64.3), ylim=(40.3, -0.3), xticks=[], yticks=[])
    axes.set_xlabel("longitude", color=MUTED, fontsize=9)
    axes.set_ylabel("latitude", color=MUTED, fontsize=9)
    axes.set_title(
        "Two ranges: nine signed boxes, each answered by a stored array; only the corners are read from cells",
        **_TITLE,
    )
    axes.spines[:].set_visible(False)


def _sign(piece: tuple[int, int, int]) -> str:
    return _PLUS if piece[2] > 0 else _MINUS


_TITLE: dict[str, Any] = {"loc": "left", "fontsize": 10, "color": INK}
_SMALL: dict[str, Any] = {"fontsize": 8.5, "color": INK, "zorder": 5}
