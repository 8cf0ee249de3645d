"""Days to dates and back in every calendar, against cftime."""

from __future__ import annotations

import time

import cftime
import numpy as np

from cfagg.cf.dates import CALENDARS
from cfagg.kernels import calendars as kernel
from tests.benchmarks.table import Row, clock

#: Dates a second that noleap and 360_day are to reach.
BAR = 50e6


def rows(small: bool) -> list[Row]:
    """Return dates a second of the kernel, in millions, and how many times cftime's that is.

    The bar is absolute, so the ratio that meets it is the bar over what cftime did in the same run.
    """
    count, few = (20_000, 200) if small else (2_000_000, 20_000)
    rng = np.random.default_rng(0)
    found = []
    for name, code in CALENDARS.items():
        # Dates without the ten days that the standard calendar leaves out, and of years that cftime writes alike.
        days = rng.integers(600_000, 800_000, count)
        year, month, day, back = (np.empty(count, np.int64) for _ in range(4))

        def decode(code=code, days=days, year=year, month=month, day=day):
            kernel.decode(code, days, year, month, day)

        def encode(code=code, year=year, month=month, day=day, back=back):
            kernel.encode(code, year, month, day, back)

        seconds = clock(decode, encode, runs=5)
        dates = cftime.num2date(days[:few] - 730_000, "days since 2000-01-01", calendar=name)
        peer = [
            _seconds(lambda d=days, n=name: cftime.num2date(d[:few] - 730_000, "days since 2000-01-01", calendar=n)),
            _seconds(lambda d=dates, n=name: cftime.date2num(d, "days since 2000-01-01", calendar=n)),
        ]
        for job, ours, theirs in zip(("days to dates", "dates to days"), seconds, peer, strict=True):
            speed, other = count / max(ours, 1e-9), few / max(theirs, 1e-9)
            bar = BAR / other if name in {"noleap", "360_day"} else None
            found.append(Row(f"{job}, {name}", speed / 1e6, other / 1e6, "cftime", speed / other, bar, "M/s"))
    return found


def _seconds(function) -> float:
    """Return the median processor time of five runs."""
    times = []
    for _ in range(5):
        start = time.process_time()
        function()
        times.append(time.process_time() - start)
    return sorted(times)[2]
