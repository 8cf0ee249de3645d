"""Sums of a chunk over four sets of dimensions with statistics, against the same passes in NumPy and reading alone."""

from __future__ import annotations

import numpy as np

from cfagg.kernels.cumulative import cumulate, partial_sums
from tests.benchmarks.table import Row, clock

SETS = ((0,), (1,), (2,), (1, 2))
WHOLE = (0, 1, 2)


def numpy_passes(block: np.ndarray) -> list:
    """Take the same sums and statistics one after the other."""
    wide = np.int64 if block.dtype.kind == "i" else np.float64
    valid = np.isfinite(block)
    sums = [block.sum(t, wide) for t in SETS]
    mean = block.mean(dtype="f8")
    return [*sums, valid.sum(), block.min(), block.max(), np.square(block - mean, dtype="f8").sum()]


def partials(block: np.ndarray, **options) -> object:
    """Take them in one pass."""
    return partial_sums(block, SETS, statistics=(WHOLE,), **options)


def rows(small: bool) -> list[Row]:
    """Return nanoseconds an element, on one thread; blocks follow each other in memory and are not in the cache."""
    shape = (12, 18, 36) if small else (120, 90, 180)
    rng = np.random.default_rng(0)
    count = 2 if small else 12
    series = [rng.normal(280, 10, shape) for _ in range(count)]
    area = np.cos(np.linspace(-1.5, 1.5, shape[1]))[:, None]
    size = series[0].size * count
    out = []

    def row(job: str, ours: float, other: float, against: str, bar: float | None) -> None:
        out.append(Row(job, ours / size * 1e9, other / size * 1e9, against, other / ours, bar, "ns"))

    for kind, name in (("f4", "float32"), ("i2", "int16")):
        blocks = [b.astype(kind) for b in series]
        holes = [np.where(rng.random(shape) < 0.3, -9, b).astype(kind) for b in blocks]
        _check(blocks[0])
        whole, some, weighted, plain, reading = clock(
            lambda b=blocks: [partials(x) for x in b],
            lambda b=holes: [partials(x, fills=[-9]) for x in b],
            lambda b=blocks: [partials(x, weights=area) for x in b],
            lambda b=blocks: [numpy_passes(x) for x in b],
            lambda b=blocks: [x.sum(dtype="f8") for x in b],
        )
        job = f"partial sums of {name} {'×'.join(map(str, shape))}"
        bar = None if small else 1.0
        row(job, whole, size * 1.2e-9, "1.2 ns an element", bar)
        row(job, whole, plain, "the same passes in NumPy", None)
        row(job, whole, reading, "one sum in NumPy", None)
        row(f"{job}, 30 % missing", some, plain, "NumPy, nothing missing", None)
        row(f"{job}, weighted", weighted, plain, "NumPy, not weighted", None)
    parts = rng.normal(size=(60, *shape[1:]))
    size = parts.size
    running, passes = clock(lambda: cumulate(parts.copy(), 0), lambda: np.cumsum(parts.copy(), 0))
    row("running sums of 60 chunks, carried as pairs", running, passes, "NumPy's cumsum", None)
    return out


def _check(block: np.ndarray) -> None:
    """Check that both find the same."""
    found, wanted = partials(block), numpy_passes(block)
    cell = found.statistics[WHOLE]  # type: ignore[attr-defined]
    mine = [*(found.sums[t] for t in SETS), cell.count, cell.minimum, cell.maximum, cell.m2]  # type: ignore[attr-defined]
    if not all(np.allclose(a, b, rtol=1e-6) for a, b in zip(mine, wanted, strict=True)):
        raise ValueError("NumPy gives other values")
