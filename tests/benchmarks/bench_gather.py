"""Gather blocks of packed values against the same passes in NumPy and against copying memory."""

from __future__ import annotations

import numpy as np

from cfagg.cf.gather_rule import GatherRule
from cfagg.kernels import gather as kernel
from tests.benchmarks.table import Row, clock

SCALE, OFFSET, FILL = 0.01, 273.15, -32768


def numpy_passes(source: np.ndarray, target: np.ndarray) -> None:
    """Unpack with NumPy in float64, which gives the same bits: astype, multiply, add, cast, missing values."""
    values = source.astype(np.float64)
    values *= SCALE
    values += OFFSET
    target[...] = values
    target[source == FILL] = np.nan


def numpy_single(source: np.ndarray, target: np.ndarray) -> None:
    """Unpack with NumPy in float32, whose last bits differ."""
    values = source.astype(np.float32)
    values *= np.float32(SCALE)
    values += np.float32(OFFSET)
    target[...] = values
    target[source == FILL] = np.nan


def gather(source: np.ndarray, target: np.ndarray) -> None:
    """Unpack in one pass."""
    rule = GatherRule.make(source.dtype, target.dtype, SCALE, OFFSET, [FILL])
    bad = kernel.gather(source, target, SCALE, OFFSET, rule.fills, rule.low, rule.high, rule.fill, checked=rule.checked)
    if bad:
        raise ValueError("a value was lost")


def rows(small: bool) -> list[Row]:
    """Return rates in million elements a second."""
    rng = np.random.default_rng(0)
    sizes = [(128, 128)] if small else [(256, 256), (1024, 1000), (2048, 2000)]
    out = []
    for shape in sizes:
        packed = rng.integers(-3000, 3000, shape).astype("i2")
        packed[rng.random(shape) < 0.1] = FILL
        repeat = max(1, 2**21 // packed.size)
        size = f"{packed.size / 1e6:.2g} M"
        for job, source, place in (
            ("int16 -> float32, scale, offset, fill", packed, np.zeros(shape, "f4")),
            ("the same, flipped and transposed", packed.T[::-1], np.zeros(shape[::-1], "f4")),
            ("the same, big-endian", packed.astype(">i2"), np.zeros(shape, "f4")),
        ):
            check = np.empty_like(place)
            gather(source, place)
            numpy_passes(source, check)
            if not np.array_equal(place, check, equal_nan=True):
                raise ValueError(f"{job}: NumPy gives other values")

            def timed(function, source=source, place=place, repeat=repeat):
                return lambda: [function(source, place) for _ in range(repeat)]

            ours, same, single, cast = (
                packed.size * repeat / seconds / 1e6
                for seconds in clock(*map(timed, (gather, numpy_passes, numpy_single, lambda s, t: np.copyto(t, s))))
            )
            # The bars are for blocks as partitions have them; a small one shows what preparing a call costs.
            bar = 3.0 if source.dtype.isnative and packed.size > 10**6 else None
            out += [
                Row(f"gather {size}: {job}", ours, same, "NumPy, same values", ours / same, bar, "M/s"),
                Row(f"gather {size}: {job}", ours, single, "NumPy in float32", ours / single, None, "M/s"),
                Row(f"gather {size}: {job}", ours, cast, "NumPy's cast alone", ours / cast, None, "M/s"),
                Row(f"gather {size}: {job}", ours, 1200.0, "1,200 M elements/s", ours / 1200, bar and 1.0, "M/s"),
            ]
    return out
