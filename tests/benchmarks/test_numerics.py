"""The errors that the documentation shows are those of the sums, and within what is promised."""

import numpy as np

from tests.benchmarks import numerics


def test_errors_stay_within_what_the_documentation_promises():
    steps = 24_000
    for e in numerics.measured(steps):
        make, unit = numerics.SERIES[e.series]
        size = np.abs(make(steps).astype("f8")) * unit
        # Two samples are rounded once each; a pair of numbers is only rounded with the result.
        assert e.ours <= 2.0**-52 * size.sum() / e.steps
        assert e.double <= 2.0**-52 * size.reshape(-1, numerics.CHUNK).mean(axis=1).max()
        if e.series.startswith("packed"):
            assert e.ours == 0


def test_sums_in_float32_are_worse_by_orders_of_magnitude():
    for e in numerics.measured(24_000):
        assert e.float32 > 1e4 * e.ours


def test_the_table_has_a_row_for_each_series_and_range(monkeypatch):
    monkeypatch.setattr(numerics.measured, "__defaults__", (24_000, 120))
    lines = numerics.table().splitlines()
    assert len(lines) == 2 + len(numerics.SERIES) * len(numerics.RANGES)
    assert len({line.count("|") for line in lines}) == 1


def test_figures_have_two_digits():
    assert [numerics._figure(x) for x in (0.0, 0.0631, 2.14, 6.14e-14)] == ["0", "0.063", "2.1", "6.1·10⁻¹⁴"]
