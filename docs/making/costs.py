"""What an accumulation costs, measured: storage and reading against the length of chunks and the stride."""

from __future__ import annotations

import functools
import statistics
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from making.figures import INK, MUTED, figure, svg

#: A year of hourly fields, and the lengths of the chunks along time; a chunk holds whole fields.
SHAPE, LENGTHS, STRIDES = (8760, 36, 72), (24, 72, 144, 360, 720), (1, 2, 4)

#: A range with no end at the end of a chunk.
RANGE = slice(517, 8215)


@dataclass(frozen=True)
class Cost:
    """One combination of chunk length and stride: bytes stored and read as shares of the array, milliseconds."""

    length: int
    stride: int
    stored: float
    read: float
    chunks: int
    milliseconds: float


@functools.cache
def measured() -> tuple[Cost, ...]:
    """Return the costs of all combinations, with the time that a scan of the array takes in front."""
    import numpy as np

    random = np.random.default_rng(0)
    values = random.normal(280, 10, SHAPE).astype("f4")
    with tempfile.TemporaryDirectory() as folder:
        return tuple(_cost(Path(folder), values, length, stride) for length in LENGTHS for stride in STRIDES)


def _cost(folder: Path, values: Any, length: int, stride: int) -> Cost:
    """Build one accumulation and ask it for a map."""
    import numpy as np
    import zarr

    import cfagg

    store = folder / f"{length}.zarr"
    if not store.exists():
        array = zarr.create_group(store).create_array(
            "tas",
            shape=SHAPE,
            chunks=(length, *SHAPE[1:]),
            dtype="f4",
            compressors=None,
            dimension_names=("time", "lat", "lon"),
        )
        array[:] = values
    cfagg.accumulate(store, "tas", [("time",)], stride={"time": stride}, statistics="none", overwrite=True)
    acc = cfagg.open_accumulated(store, "tas")
    times = []
    for _ in range(9):
        start = time.perf_counter()
        found = acc.mean("time", isel={"time": RANGE})
        times.append(time.perf_counter() - start)
    np.testing.assert_allclose(found, values[RANGE].mean(axis=0, dtype="f8"), rtol=1e-10)
    plan = acc.mean("time", isel={"time": RANGE}, explain=True).as_dict()
    group = store / "tas_accumulation_group"
    stored = sum(p.stat().st_size for p in group.rglob("*") if p.is_file())
    return Cost(
        length,
        stride,
        stored / values.nbytes,
        plan["bytes"] / values.nbytes,
        plan["chunks"],
        1e3 * statistics.median(times[1:]),
    )


def table() -> str:
    """Return the costs as a table in Markdown."""
    lines = [
        "| steps in a chunk | stride | stored, of the array | read for a map, of the array | chunks read | time |",
        "|---:|---:|---:|---:|---:|---:|",
    ]
    lines += [
        f"| {c.length} | {c.stride} | {c.stored:.2%} | {c.read:.2%} | {c.chunks} | {c.milliseconds:.1f} ms |"
        for c in measured()
    ]
    return "\n".join(lines)


def draw() -> bytes:
    """Return the two curves, of what is stored and what is read, as SVG."""
    canvas = figure(8.4, 3.6)
    stored, read = canvas.subplots(1, 2)
    for stride, colour in zip(STRIDES, ("#117733", "#6699cc", "#aa4499"), strict=True):
        costs = [c for c in measured() if c.stride == stride]
        lengths = [c.length for c in costs]
        style: dict[str, Any] = {"color": colour, "marker": "o", "label": f"stride {stride}"}
        stored.loglog(lengths, [100 * c.stored for c in costs], **style)
        read.loglog(lengths, [100 * c.read for c in costs], **style)
    for axes, title in (
        (stored, "Stored: less with longer chunks"),
        (read, "Read for a map of a range: more with longer chunks"),
    ):
        axes.set_xticks(LENGTHS, [str(n) for n in LENGTHS])
        axes.minorticks_off()
        axes.yaxis.set_major_formatter(lambda value, _: f"{value:g} %")
        axes.set_xlabel("time steps in a chunk", color=MUTED)
        axes.set_title(title, loc="left", fontsize=10, color=INK)
        axes.grid(visible=True, color="#dddddd", lw=0.7)
        axes.spines[["top", "right"]].set_visible(False)
    stored.set_ylabel("share of the array", color=MUTED)
    read.legend(frameon=False)
    return svg(canvas)
