"""How far means from running sums are off, by how the sums are kept: ``python -m tests.benchmarks.numerics``.

Long series in chunks, as cfagg's kernels sum them, against exact sums.  The documentation shows the table.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

#: Steps of a series, and of a chunk.
STEPS, CHUNK = 350_000, 120

#: Lengths of the ranges whose means are taken, in chunks.
RANGES = (1, 100)

Floats = npt.NDArray[np.float64]


def normal(steps: int) -> npt.NDArray[np.float32]:
    """Return temperatures in kelvin."""
    return np.random.default_rng(1).normal(288, 10, steps).astype("f4")


def precise(steps: int) -> npt.NDArray[np.float64]:
    """Return temperatures in kelvin with all digits of float64."""
    return np.random.default_rng(4).normal(288, 10, steps)


def precipitation(steps: int) -> npt.NDArray[np.float32]:
    """Return hourly precipitation in millimetres: mostly none, seldom much."""
    random = np.random.default_rng(2)
    return (random.gamma(0.6, 3, steps) * (random.random(steps) < 0.15)).astype("f4")


def spiky(steps: int) -> npt.NDArray[np.float32]:
    """Return values near 1, of which one in ten thousand is near a hundred million."""
    random = np.random.default_rng(3)
    return np.where(random.random(steps) < 1e-4, 1e8, random.normal(1, 0.5, steps)).astype("f4")


def packed(steps: int) -> npt.NDArray[np.int16]:
    """Return packed temperatures, in hundredths of a kelvin above 250 K."""
    return np.rint((normal(steps) - 250) / 0.01).astype("i2")


#: Name of a series -> what makes it, and the size of its unit.
SERIES: dict[str, tuple[Callable[[int], npt.NDArray[np.generic]], float]] = {
    "temperature, K": (normal, 1.0),
    "temperature in float64, K": (precise, 1.0),
    "precipitation, mm": (precipitation, 1.0),
    "spikes of 10⁸": (spiky, 1.0),
    "packed temperature, K": (packed, 0.01),
}


@dataclass(frozen=True)
class Errors:
    """Largest errors of the means of all ranges of one length, by how the sums are kept."""

    series: str
    steps: int
    float32: float
    ours: float
    double: float


def measured(steps: int = STEPS, chunk: int = CHUNK) -> list[Errors]:
    """Return the errors of all series and lengths of ranges."""
    out = []
    for name, (make, unit) in SERIES.items():
        values = make(steps)
        sums = _sums(values, chunk)
        for length in RANGES:
            starts = range(0, len(sums["ours"][0]) - length, max(1, length // 10))
            exact = [_exact(values[(s + 1) * chunk : (s + 1 + length) * chunk]) for s in starts]
            counts = [len(values[(s + 1) * chunk : (s + 1 + length) * chunk]) for s in starts]
            worst = {
                kept: unit
                * max(
                    abs((float(high[s + length] - high[s]) - e) + float(low[s + length] - low[s])) / n
                    for s, e, n in zip(starts, exact, counts, strict=True)
                )
                for kept, (high, low) in sums.items()
            }
            out.append(Errors(name, length * chunk, **worst))
    return out


def _sums(values: npt.NDArray[np.generic], chunk: int) -> dict[str, tuple[Floats, Floats]]:
    """Return the running sums at the ends of chunks, as they are kept in each way, with low parts."""
    from cfagg.kernels.cumulative import cumulate, partial_sums

    blocks = [values[start : start + chunk] for start in range(0, len(values), chunk)]
    none = np.zeros(len(blocks))
    sums = {}
    for kept in (False, True):
        found = [partial_sums(b, [(0,)], double_double=kept, compiled=False) for b in blocks]
        parts = np.array([f.sums[(0,)] for f in found])
        low = np.array([f.low[(0,)] for f in found]) if found[0].low else None
        cumulate(parts, 0, low=low, compiled=False)
        sums["double" if kept else "ours"] = (parts, none if low is None else low)
    return {"float32": (sums["ours"][0].astype("f4").astype("f8"), none), **sums}


def _exact(values: npt.NDArray[np.generic]) -> float:
    return math.fsum(values.tolist())


def table() -> str:
    """Return the errors as a table in Markdown."""
    lines = [
        "| series | mean of | float32 sums | float64 | double-double |",
        "|---|---:|---:|---:|---:|",
    ]
    for e in measured():
        kept = (e.float32, e.ours, e.double)
        figures = ["–" if e.series.startswith("packed") and k == 2 else _figure(error) for k, error in enumerate(kept)]
        if e.series.startswith("packed"):
            figures[1] += " (int64)"
        lines.append(f"| {e.series} | {e.steps:,} steps | " + " | ".join(figures) + " |")
    return "\n".join(lines)


def _figure(error: float) -> str:
    """Return an error with two digits."""
    if error == 0:
        return "0"
    power = math.floor(math.log10(error))
    if -3 <= power <= 3:
        return f"{error:.2g}"
    superscript = str(power).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))
    return f"{error / 10**power:.1f}·10{superscript}"


if __name__ == "__main__":
    print(table())
