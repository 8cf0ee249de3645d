"""Every benchmark runs in its small size, so that none rots; no test fails on time."""

import importlib

import pytest

from tests.benchmarks import scale
from tests.benchmarks.run import NAMES

#: Benchmarks whose small size is done within a second or two; those that compile for themselves run in `make test-all`,
#: the others in `make soak`.
QUICK = {"bench_calendars", "bench_pp", "bench_gather", "bench_grids", "bench_zarr_chunks"}
MARKS = dict.fromkeys(QUICK, ()) | {"bench_cumulative": pytest.mark.full}


@pytest.mark.parametrize("name", [pytest.param(n, marks=MARKS.get(n, pytest.mark.soak)) for n in NAMES])
def test_benchmark_runs_small_and_returns_rows(name):
    rows = importlib.import_module(f"tests.benchmarks.{name}").rows(True)
    assert rows
    assert all(row.ours > 0 and row.other > 0 for row in rows)


def test_the_best_of_two_measurements_of_scale_is_kept():
    name, other = (job.name for job in scale.JOBS[:2])
    kept = {"date": "one", "rates": {"read": 5.0}, "jobs": {name: {"seconds": {"10": 2.0, "100": 3.0}}}}
    jobs = {other: {"seconds": {"10": 1.0}}, name: {"seconds": {"10": 1.0, "100": 4.0}}}
    found = {"date": "two", "rates": {}, "jobs": jobs}
    best = scale.best_of(kept, found)
    assert (best["date"], best["rates"]) == ("one and two", {"read": 5.0})
    assert list(best["jobs"]) == [name, other]
    assert best["jobs"][name]["seconds"] == {"10": 1.0, "100": 3.0}
