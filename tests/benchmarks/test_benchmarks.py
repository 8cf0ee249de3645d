"""Every benchmark runs in its small size, so that none rots; no test fails on time."""

import importlib

import pytest

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
