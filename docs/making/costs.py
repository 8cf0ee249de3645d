"""What an accumulation costs, measured: storage and reading against the length of chunks and the stride."""

from __future__ import annotations

import functools
import shutil
import statistics
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from making.figures import INK, MUTED, figure, svg

#: A year of hourly fields, and the lengths of the chunks along time; a chunk holds whole fields.
SHAPE, LENGTHS, STRIDES = (8760, 24, 48), (24, 72, 144, 360, 720), (1, 2, 4)

#: So many ranges, with ends anywhere, are asked for.
RANGES = 40


@dataclass(frozen=True)
class Cost:
    """One chunk length and stride: shares of the array stored and read, uncompressed and zstd, and milliseconds."""

    length: int
    stride: int
    stored: float
    read: tuple[float, float]
    milliseconds: tuple[float, float]


@functools.cache
def measured() -> tuple[Cost, ...]:
    """Return the costs of all combinations."""
    import numpy as np

    random = np.random.default_rng(0)
    values = random.normal(280, 10, SHAPE).astype("f4")
    ends = np.sort(random.integers(0, SHAPE[0] + 1, (RANGES, 2)), axis=1)
    ranges = [slice(int(a), int(b) + (a == b)) for a, b in ends]
    costs = []
    with tempfile.TemporaryDirectory() as folder:
        for length in LENGTHS:
            stores = [_store(Path(folder, f"{length}-{codec}.zarr"), values, length, codec) for codec in (None, "auto")]
            costs += [_cost(stores, values, ranges, length, stride) for stride in STRIDES]
            for store in stores:
                shutil.rmtree(store)
    return tuple(costs)


def _store(path: Path, values: Any, length: int, codec: str | None) -> Path:
    """Write the array; zarr-python's own choice of a codec is zstd."""
    import zarr

    array = zarr.create_group(path).create_array(
        "tas",
        shape=SHAPE,
        chunks=(length, *SHAPE[1:]),
        dtype="f4",
        compressors=codec,
        dimension_names=("time", "lat", "lon"),
    )
    array[:] = values
    return path


def _cost(stores: list[Path], values: Any, ranges: list[slice], length: int, stride: int) -> Cost:
    """Build the accumulations and ask them for maps, each compared with NumPy's."""
    import numpy as np

    import cfagg

    read, milliseconds = [], []
    for store in stores:
        cfagg.accumulate(store, "tas", [("time",)], stride={"time": stride}, statistics="none", overwrite=True)
        acc = cfagg.open_accumulated(store, "tas")
        times, plans = [], []
        for wanted in ranges:
            start = time.perf_counter()
            found = acc.mean("time", isel={"time": wanted})
            times.append(time.perf_counter() - start)
            np.testing.assert_allclose(found, values[wanted].mean(axis=0, dtype="f8"), rtol=1e-10)
            plans.append(acc.mean("time", isel={"time": wanted}, explain=True).as_dict()["bytes"])
        read.append(statistics.mean(plans) / _bytes(store / "tas"))
        milliseconds.append(1e3 * statistics.median(times))
    stored = _bytes(stores[0] / "tas_accumulation_group") / values.nbytes
    return Cost(length, stride, stored, (read[0], read[1]), (milliseconds[0], milliseconds[1]))


def _bytes(folder: Path) -> int:
    return sum(p.stat().st_size for p in folder.rglob("*") if p.is_file())


def table() -> str:
    """Return the costs as a table in Markdown."""
    lines = [
        "| steps in a chunk | stride | stored | read | time | read, zstd | time, zstd |",
        "|---:|---:|---:|---:|---:|---:|---:|",
    ]
    lines += [
        f"| {c.length} | {c.stride} | {_percent(c.stored)} | {_percent(c.read[0])} | {c.milliseconds[0]:.1f} ms "
        f"| {_percent(c.read[1])} | {c.milliseconds[1]:.1f} ms |"
        for c in measured()
    ]
    return "\n".join(lines)


def _percent(share: float) -> str:
    return f"{100 * share:.2g} %"


def draw() -> bytes:
    """Return the two curves, of what is stored and what is read, as SVG."""
    from matplotlib.ticker import NullLocator

    canvas = figure(8.4, 3.8)
    stored, read = canvas.subplots(1, 2)
    for stride, colour in zip(STRIDES, ("#117733", "#6699cc", "#aa4499"), strict=False):
        costs = [c for c in measured() if c.stride == stride]
        lengths = [c.length for c in costs]
        style: dict[str, Any] = {"color": colour, "marker": "o", "ms": 4}
        stored.loglog(lengths, [100 * c.stored for c in costs], label=f"stride {stride}", **style)
        read.loglog(lengths, [100 * c.read[0] for c in costs], label=f"stride {stride}", **style)
        read.loglog(lengths, [100 * c.read[1] for c in costs], ls=":", **style)
    read.plot([], [], ":o", ms=4, color=MUTED, label="zstd")
    for axes, title in ((stored, "Sums stored"), (read, "Read for a map, mean of many ranges")):
        axes.set_xticks(LENGTHS, [str(n) for n in LENGTHS])
        axes.xaxis.set_minor_locator(NullLocator())
        axes.yaxis.set_minor_locator(NullLocator())
        axes.yaxis.set_major_formatter(lambda value, _: f"{value:g} %")
        axes.set_xlabel("time steps in a chunk", color=MUTED)
        axes.set_title(title, loc="left", fontsize=10, color=INK)
        axes.grid(visible=True, color="#dddddd", lw=0.7)
        axes.spines[["top", "right"]].set_visible(False)
    stored.set_ylabel("share of the array", color=MUTED)
    read.legend(frameon=False, fontsize=9)
    return svg(canvas)
