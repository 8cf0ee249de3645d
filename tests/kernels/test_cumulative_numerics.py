"""Sums along 350,000 steps, in chunks, stay within the stated error of exact ones.

The bounds are those of the kernels' documentation, with u = 2**-53: in float64 a chunk of n values is off by at most
(n - 1) u times the sum of their magnitudes, and running sums add one rounding.  Low parts leave n**2 u**2 of it.
"""

import itertools
import math

import numpy as np
import pytest

from cfagg.kernels.cumulative import cumulate, partial_sums

STEPS, CHUNK = 350_000, 1200
U = 2.0**-53


def normal():
    return np.random.default_rng(1).normal(288.0, 10.0, STEPS)


def precipitation():
    rng = np.random.default_rng(2)
    return np.where(rng.random(STEPS) < 0.1, rng.gamma(0.5, 5.0, STEPS), 0.0)


def spiky():
    rng = np.random.default_rng(3)
    return np.where(rng.random(STEPS) < 1e-3, 1e16 * rng.normal(size=STEPS), rng.normal(size=STEPS))


def sampled(values, double_double, compiled):
    """Running sums at the ends of chunks, and their low parts or zeros; time is the first of two axes."""
    blocks = [values[start : start + CHUNK, None] for start in range(0, STEPS, CHUNK)]
    found = [partial_sums(b, [(0,)], double_double=double_double, compiled=compiled) for b in blocks]
    parts = np.array([f.sums[0,] for f in found])
    low = np.array([f.low[0,] for f in found]) if double_double else None
    cumulate(parts, 0, low=low, compiled=compiled)
    return parts[:, 0], np.zeros(len(parts)) if low is None else low[:, 0]


def chunk_sums(values):
    """Exactly rounded sums of chunks, and of the magnitudes in them."""
    pieces = [values[start : start + CHUNK].tolist() for start in range(0, STEPS, CHUNK)]
    return [math.fsum(p) for p in pieces], [math.fsum(map(abs, p)) for p in pieces]


@pytest.mark.few(1)
@pytest.mark.parametrize("compiled", [True, False])
@pytest.mark.parametrize("kind", ["f4", "f8"])
@pytest.mark.parametrize("series", [normal, precipitation, spiky])
def test_float64_sums_of_a_long_series_are_within_their_bound(series, kind, compiled):
    values = series().astype(kind).astype("f8")
    high, _ = sampled(values, double_double=False, compiled=compiled)
    for k in range(1, len(high), 29):
        until = values[: (k + 1) * CHUNK]
        exact, size = math.fsum(until.tolist()), math.fsum(np.abs(until).tolist())
        assert abs(high[k] - exact) <= (CHUNK - 1) * U * size + 2 * U * abs(exact)


@pytest.mark.few(1)
@pytest.mark.parametrize("compiled", [True, False])
@pytest.mark.parametrize("series", [normal, precipitation, spiky])
def test_differences_of_double_double_sums_late_in_a_series_are_exact_to_rounding(series, compiled):
    values = series()
    high, low = sampled(values, double_double=True, compiled=compiled)
    exact, _ = chunk_sums(values)
    size = math.fsum(np.abs(values).tolist())
    # What no low part holds: the square of the rounding of all that was summed before.
    rest = STEPS * CHUNK * U**2 * size
    pairs = zip(itertools.pairwise(high.tolist()), itertools.pairwise(low.tolist()), exact[1:], strict=True)
    for (a, b), (c, d), e in pairs:
        assert abs(math.fsum([b, -a, d, -c]) - e) <= U * abs(e) + rest


@pytest.mark.parametrize("series", [normal, precipitation, spiky])
def test_float64_sums_err_where_double_double_ones_do_not(series):
    values = series()
    plain, _ = sampled(values, double_double=False, compiled=True)
    high, low = sampled(values, double_double=True, compiled=True)
    exact = np.array(chunk_sums(values)[0][1:])
    worst = [np.abs(np.diff(h) + np.diff(e) - exact).max() for h, e in ((plain, 0 * low), (high, low))]
    assert worst[1] <= worst[0] / 20


def test_packed_integers_are_summed_exactly():
    values = np.rint((normal() - 250) / 0.01).astype("i2")
    parts = np.array([partial_sums(values[s : s + CHUNK], [(0,)]).sums[0,] for s in range(0, STEPS, CHUNK)])
    cumulate(parts, 0)
    totals = list(itertools.accumulate(values.tolist()))
    assert parts.tolist() == [totals[min((k + 1) * CHUNK, STEPS) - 1] for k in range(len(parts))]
