"""The proof of freshness: processor time of looking at every stored object on which an answer depends."""

from __future__ import annotations

import os
import pathlib
import tempfile

import numpy as np
import zarr

import cfagg
from cfagg.accumulation.freshness import check
from cfagg.accumulation.ranges import Request, Runs
from tests.benchmarks.table import Row, clock

#: Microseconds of processor time that one object may cost.
BAR = 5.0

#: Numbers of objects.
COUNTS = (292, 2_920, 20_000, 100_000)


def rows(small: bool) -> list[Row]:
    """Return the cost of the check of all objects of stores of several sizes, and of a whole answer."""
    return [row for count in (COUNTS[:1] if small else COUNTS) for row in _rows(count)]


def _rows(count: int) -> list[Row]:
    with tempfile.TemporaryDirectory() as folder:
        shape = (count // 4, 2, 2)
        zarr.create_array(
            folder,
            name="x",
            shape=shape,
            chunks=(1, 1, 1),
            dtype="f4",
            compressors=None,
            dimension_names=["t", "y", "x"],
        )
        # Written as they are: zarr-python takes milliseconds for each.
        for index, value in np.ndenumerate(np.random.default_rng(0).normal(280, 1, shape).astype("<f4")):
            chunk = pathlib.Path(folder, "x", "c", *map(str, index))
            chunk.parent.mkdir(parents=True, exist_ok=True)
            chunk.write_bytes(value.tobytes())
        cfagg.accumulate(folder, "x", dims=["t"], statistics="none")
        acc = cfagg.open_accumulated(folder, "x")
        trusting = cfagg.open_accumulated(folder, "x", trust_for=3600)
        group = acc.group.asked()
        whole = Request({a: Runs.whole(n) for a, n in enumerate(shape)}).resolve(shape)
        files = [str(file) for file in pathlib.Path(folder, "x", "c").rglob("*") if file.is_file()]

        def bare() -> None:
            for file in files:
                os.stat(file)  # noqa: PTH116

        looking, calls, answer, trusted = clock(
            lambda: check(group, whole), bare, lambda: acc.mean("t"), lambda: trusting.mean("t"), runs=5
        )
    each = looking / count * 1e6
    return [
        Row(f"freshness: look at {count:,} objects", each, BAR, f"{BAR:g} µs an object", BAR / each, 1.0, "µs"),
        Row(
            f"freshness: look at {count:,} objects", each, calls / count * 1e6, "bare calls of stat", calls / looking,
            None, "µs",
        ),
        Row(
            f"freshness: mean of {count:,} chunks, trust_for", trusted * 1e3, answer * 1e3, "without trust_for",
            answer / trusted, None, "ms",
        ),
    ]  # fmt: skip
