"""Every benchmark runs in its small size, so that none rots; no test fails on time."""

import importlib

import pytest

from tests.benchmarks.run import NAMES


@pytest.mark.parametrize("name", NAMES)
def test_benchmark_runs_small_and_returns_rows(name):
    rows = importlib.import_module(f"tests.benchmarks.{name}").rows(True)
    assert rows
    assert all(row.ours > 0 and row.other > 0 for row in rows)
