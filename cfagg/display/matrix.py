"""The picture of a partition matrix: up to three dimensions, with cells scaled by size and coloured by file.

One and two dimensions are drawn flat, three as a box seen from the front, above and the right.  The dimension with the
most partitions runs to the right.  Many partitions are drawn in bins, so that a picture stays small for any matrix.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from cfagg.display.axes import Axis, choose
from cfagg.display.drawing import Drawing, Line, Patch, Point, Text, fitted, is_dark, shaded, text_width
from cfagg.display.escape import printable
from cfagg.display.key import Key, key_of
from cfagg.model import Aggregation

__all__ = ["draw"]

#: Maximum number of layers of a box that are also drawn one by one.
_LAYERS = 4


@dataclass(frozen=True)
class _Scene:
    """The geometry of a picture: the upper left corner of the front, and the shift of the back."""

    aggregation: Aggregation
    key: Key
    right: Axis
    down: Axis
    deep: Axis
    left: float
    top: float
    slant: Point

    @property
    def bottom(self) -> float:
        return self.top + self.down.length

    @property
    def end(self) -> float:
        return self.left + self.right.length

    def partition(self, j: int, i: int, k: int) -> int:
        """Return the flat number of the partition that represents a drawn cell (right, down, deep)."""
        index = [0] * self.aggregation.grid.ndim
        for axis, n in ((self.right, j), (self.down, i), (self.deep, k)):
            if axis.number is not None:
                index[axis.number] = axis.middle(n)
        flat = 0
        for n, m in zip(index, self.aggregation.grid.matrix_shape, strict=True):
            flat = flat * m + n
        return flat

    def patch(self, corners: tuple[Point, ...], j: int, i: int, k: int, light: float = 0.0) -> Patch:
        """Return the polygon of a drawn cell."""
        if not len(self.aggregation.partitions):
            return Patch(corners, None, "no partition")
        n = self.partition(j, i, k)
        present = bool(self.aggregation.partitions.present[n])
        fill = shaded(self.key.colour(n), light) if present else None
        if self.right.binned or self.down.binned or self.deep.binned:
            return Patch(corners, fill, edge="fine")
        spans = [
            f"{axis.name} {axis.span(b)}"
            for axis, b in sorted(
                ((self.right, j), (self.down, i), (self.deep, k)), key=lambda pair: pair[0].number or 0
            )
            if axis.number is not None
        ]
        what = self.key.name(n) if present else "missing"
        return Patch(corners, fill, " · ".join(filter(None, [", ".join(spans), what])))


def draw(aggregation: Aggregation, *, title: bool = True) -> Drawing:
    """Draw the partition matrix of an aggregation with at most some 2,500 polygons.

    Of more than three dimensions those with the most partitions are drawn, at the first index of the others.
    """
    right, down, deep = choose(aggregation.dims, aggregation.grid)
    slant = (0.8 * deep.length, -0.6 * deep.length)
    left = 12.0 if down.number is None else 64.0
    top = (66.0 if title else 14.0) - slant[1]
    scene = _Scene(aggregation, key_of(aggregation), right, down, deep, left, top, slant)
    out = Drawing()
    if title:
        _title(scene, out)
    if deep.number is not None:
        _sides(scene, out)
    _front(scene, out)
    _annotate(scene, out)
    below = scene.bottom + (60 if right.number is not None else 30)
    if _layered(scene):
        below = _layers(scene, out, below)
    y = _notes(scene, out, below)
    out.height = _legend(scene, out, y) + 6
    depth_room = max(slant[0] + 8, slant[0] / 2 + 16 + text_width(deep.title, 12)) if deep.number is not None else 0.0
    out.width = max(
        scene.end + depth_room + 14, *(t.x + text_width(t.text, t.size) for t in out.texts if t.anchor == "start")
    )
    return out


def _front(scene: _Scene, out: Drawing) -> None:
    """Draw the face of the first cells in depth, with labels where they fit."""
    for i, (y0, y1) in enumerate(scene.down.places(scene.top)):
        for j, (x0, x1) in enumerate(scene.right.places(scene.left)):
            patch = scene.patch(((x0, y0), (x1, y0), (x1, y1), (x0, y1)), j, i, 0)
            out.patches.append(patch)
            if not (scene.right.binned or scene.down.binned):
                out.texts += _label(scene, scene.partition(j, i, 0), patch.fill, (x0, y0, x1, y1))


def _sides(scene: _Scene, out: Drawing) -> None:
    """Draw the faces above (first cells downwards) and on the right (last cells to the right)."""
    (dx, dy), length = scene.slant, scene.deep.length
    x, y = scene.end, scene.top
    for k, (near, far) in reversed(list(enumerate(scene.deep.places(0.0)))):
        ax, ay, bx, by = dx * near / length, dy * near / length, dx * far / length, dy * far / length
        for j, (x0, x1) in enumerate(scene.right.places(scene.left)):
            corners = ((x0 + ax, y + ay), (x1 + ax, y + ay), (x1 + bx, y + by), (x0 + bx, y + by))
            out.patches.append(scene.patch(corners, j, 0, k, 0.35))
        for i, (y0, y1) in enumerate(scene.down.places(scene.top)):
            corners = ((x + ax, y0 + ay), (x + bx, y0 + by), (x + bx, y1 + by), (x + ax, y1 + ay))
            out.patches.append(scene.patch(corners, scene.right.cells - 1, i, k, -0.22))


def _layered(scene: _Scene) -> bool:
    """Return whether the box hides partitions that can be drawn layer by layer."""
    drawn = (scene.right, scene.down, scene.deep)
    return all(axis.partitions > 1 and not axis.binned for axis in drawn) and scene.deep.cells <= _LAYERS


def _layers(scene: _Scene, out: Drawing, y: float) -> float:
    """Draw the layers in depth side by side, the front one first; return the position of the next line."""
    columns = 2
    share = (scene.end + scene.slant[0] - 12) / columns / scene.right.length - 0.04
    high = scene.down.length * share * 0.6
    for k in range(scene.deep.cells):
        left = 12 + (k % columns) * scene.right.length * (share + 0.04)
        top = y + (k // columns) * (high + 30)
        out.texts.append(Text(left, top, f"{scene.deep.name} {scene.deep.span(k)}", 11, tone="muted"))
        for i, (y0, y1) in enumerate(scene.down.places(0.0)):
            for j, (x0, x1) in enumerate(scene.right.places(0.0)):
                a, b = left + x0 * share, left + x1 * share
                c, d = (top + 6 + v * share * 0.6 for v in (y0, y1))
                patch = scene.patch(((a, c), (b, c), (b, d), (a, d)), j, i, k)
                out.patches.append(patch)
                out.texts += _label(scene, scene.partition(j, i, k), patch.fill, (a, c, b, d))
    return y + -(-scene.deep.cells // columns) * (high + 30) + 4


def _label(scene: _Scene, n: int, fill: str | None, box: tuple[float, float, float, float]) -> Iterator[Text]:
    """Yield the label of a cell of the front: its name, upwards in narrow cells."""
    x0, y0, x1, y1 = box
    wide, high = x1 - x0, y1 - y0
    nothing = "missing" if len(scene.aggregation.partitions) else "empty"
    name = scene.key.short(n) if fill is not None else nothing
    tone: Literal["muted", "light", "dark"] = "muted" if fill is None else "light" if is_dark(fill) else "dark"
    across = fitted(name, 11, wide - 10)
    if across and high >= 16:
        yield Text((x0 + x1) / 2, (y0 + y1) / 2 + 4, across, 11, "middle", tone)
    elif wide >= 13 and (along := fitted(name, 10, high - 10)):
        yield Text((x0 + x1) / 2 + 3.5, (y0 + y1) / 2, along, 10, "middle", tone, upward=True)


def _annotate(scene: _Scene, out: Drawing) -> None:
    """Write sizes beside the cells, and the dimensions' names and sizes."""
    right, down, deep = scene.right, scene.down, scene.deep
    if right.number is not None:
        pairs = list(zip(right.sizes, right.places(0.0), strict=True))
        fits = all(text_width(f"{n:,}", 10) <= b - a - 2 for n, (a, b) in pairs) and not _monotonous(right)
        if fits and right.partitions > 1:
            for n, (a, b) in zip(right.sizes, right.places(scene.left), strict=True):
                out.texts.append(Text((a + b) / 2, scene.bottom + 15, f"{n:,}", 10, "middle", "muted"))
        out.texts.append(
            Text(
                (scene.left + scene.end) / 2,
                scene.bottom + (33 if fits and right.partitions > 1 else 20),
                right.described(not fits),
                12,
                "middle",
            )
        )
        for a, b in () if right.binned else right.places(scene.left):
            out.lines += [Line(((x, scene.bottom + 2), (x, scene.bottom + 5))) for x in (a, b)]
    if down.number is not None:
        fits = all(b - a >= 11 for a, b in down.places(0.0)) and max(text_width(f"{n:,}", 10) for n in down.sizes) < 36
        fits = fits and not _monotonous(down)
        if fits and down.partitions > 1:
            for n, (a, b) in zip(down.sizes, down.places(scene.top), strict=True):
                out.texts.append(Text(scene.left - 9, (a + b) / 2 + 3.5, f"{n:,}", 10, "end", "muted"))
        x = scene.left - (46 if fits and down.partitions > 1 else 16)
        described = fitted(down.described(not fits), 12, max(down.length + 40, 90))
        out.texts.append(Text(x, (scene.top + scene.bottom) / 2, described, 12, "middle", upward=True))
        for a, b in () if down.binned else down.places(scene.top):
            out.lines += [Line(((scene.left - 5, y), (scene.left - 2, y))) for y in (a, b)]
    if deep.number is not None:
        x, y = scene.end + scene.slant[0] / 2 + 10, scene.bottom + scene.slant[1] / 2 + 15
        out.texts.append(Text(x, y, deep.described(deep.partitions > 1), 12))


def _monotonous(axis: Axis) -> bool:
    """Return whether one size for all is clearer than a size beside each cell."""
    return axis.binned or (axis.uniform is not None and axis.cells > 16)


def _title(scene: _Scene, out: Drawing) -> None:
    a = scene.aggregation
    said = [a.attributes.get(k) for k in ("long_name", "standard_name")]
    long = [f": {s}" for s in said if isinstance(s, str) and s not in {"", a.name}][:1]
    head = "".join([a.name, *long, f" [{a.units}]" if a.units else ""])
    out.texts.append(Text(12, 24, printable(head)[:90], 15, bold=True))
    shape = " × ".join(f"{n:,}" for n in a.shape) or "scalar"
    count = len(a.partitions)
    line = f"{shape}, {a.dtype}, {count:,} partition{'s' * (count != 1)} in {scene.key.count_text}"
    out.texts.append(Text(12, 44, line, 12, tone="muted"))


def _notes(scene: _Scene, out: Drawing, y: float) -> float:
    """Write what the picture omits; return the position of the next line."""
    a, drawn = scene.aggregation, (scene.right, scene.down, scene.deep)
    notes = []
    hidden = [
        f"{printable(name)} ({n:,}, {'1 partition' if m == 1 else f'{m:,} partitions, of which the first is drawn'})"
        for d, (name, n, m) in enumerate(zip(a.dims, a.shape, a.grid.matrix_shape, strict=True))
        if m and d not in {axis.number for axis in drawn}
    ]
    if hidden:
        notes.append(f"Not drawn: {', '.join(hidden)}")
    binned = [x for x in drawn if x.binned]
    if binned:
        about = " × ".join(f"{x.partitions / x.cells:,.0f}" for x in binned)
        names = " × ".join(x.name for x in binned)
        notes.append(f"Each cell represents about {about} partitions ({names}) and has the colour of one of them")
    if all(x.partitions > 1 for x in drawn) and not _layered(scene):
        notes.append("Partitions inside the box are not visible")
    for note in notes:
        out.texts.append(Text(12, y, note, 11, tone="muted"))
        y += 17
    return y


def _legend(scene: _Scene, out: Drawing, y: float) -> float:
    """Explain the colours; return where the picture ends."""
    key = scene.key
    if key.gradient:
        wide, steps = 160.0, key.samples(32)
        for n, colour in enumerate(steps):
            x0, x1 = 12 + wide * n / len(steps), 12 + wide * (n + 1) / len(steps)
            out.patches.append(
                Patch(((x0, y - 9), (x1 + 0.4, y - 9), (x1 + 0.4, y + 2), (x0, y + 2)), colour, edge="none")
            )
        text = f"{key.count_text}: {fitted(key.names(0), 11, 230)} … {fitted(key.names(key.count - 1), 11, 230)}"
        out.texts.append(Text(12 + wide + 10, y, text, 11))
        return _missing_key(scene, out, y + 18)
    columns = 2 if key.count > 4 else 1
    per_column = -(-key.count // columns)
    for n in range(key.count):
        x, at = 12 + 290 * (n // per_column), y + 18 * (n % per_column)
        out.patches.append(Patch(((x, at - 9), (x + 12, at - 9), (x + 12, at + 2), (x, at + 2)), key.palette[n]))
        out.texts.append(Text(x + 19, at, fitted(key.names(n), 11, 260 if columns == 2 else 540), 11))
    return _missing_key(scene, out, y + 18 * per_column)


def _missing_key(scene: _Scene, out: Drawing, y: float) -> float:
    """Explain the cells without a file, if there are any; return where the picture ends."""
    missing = int((~scene.aggregation.partitions.present).sum())
    if not missing:
        return y
    out.patches.append(Patch(((12, y - 9), (24, y - 9), (24, y + 2), (12, y + 2)), None))
    out.texts.append(Text(31, y, f"declared missing: {missing:,}", 11))
    return y + 18
