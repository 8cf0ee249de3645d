"""Answers lie within the stated bound of exact ones, whatever the data hold; the oracle is Python's own arithmetic."""

from __future__ import annotations

import itertools
import math
import tempfile
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from cfagg.accumulation import outliers
from cfagg.accumulation.accumulated import Accumulated, open_accumulated
from cfagg.accumulation.accumulating import accumulate
from cfagg.accumulation.proof import TOLERANCE
from tests.effort import examples

DIMS = ("time", "lat", "lon")

#: Magnitudes that data hold by intention or by mistake.
PALETTES: dict[str, list[float]] = {
    "temperature": [250.0, 285.3, 300.1],
    "anomaly": [-2.1, -0.3, 0.01, 0.7, 1.9],
    "rain": [0.0, 0.0, 1e-12, 3e-5, 2e-3],
    "tiny": [5e-324, 1e-310, 3e-308, 0.0],
    "fill": [9.969209968386869e36],
    "wrong fill": [-1e36],
    "big": [1e16, -1e16, 7e15],
    "small": [1e-3],
    "gone": [math.nan, math.inf, -math.inf],
}


def stored(store: Path, raw: np.ndarray, chunks: tuple[int, ...], **options: Any) -> Accumulated:
    """Return the accumulation of an array."""
    dims = DIMS[: raw.ndim]
    zarr.create_array(store, name="tas", data=raw, chunks=chunks, dimension_names=dims)
    accumulate(store, "tas", **options)
    return open_accumulated(store, "tas")


def exact_mean(cells: np.ndarray, weights: np.ndarray) -> tuple[float, float]:
    """Return the mean of the finite cells, rounded once, and that of their magnitudes."""
    pairs = [
        (Fraction(w), Fraction(x)) for x, w in zip(cells.tolist(), weights.tolist(), strict=True) if math.isfinite(x)
    ]
    whole = sum(w for w, _ in pairs)
    if not whole:
        return math.nan, math.nan
    return float(sum(w * x for w, x in pairs) / whole), float(sum(w * abs(x) for w, x in pairs) / whole)


def check(acc: Accumulated, raw: np.ndarray, over: tuple[int, ...], ranges: list[slice], weights: np.ndarray) -> None:
    """Compare every statistic of a box with the exact one."""
    dims = [DIMS[a] for a in over]
    chosen = {DIMS[a]: r for a, r in enumerate(ranges)}
    box, w = raw[tuple(ranges)].astype("f8"), np.broadcast_to(weights, raw.shape)[tuple(ranges)]
    extra = acc.group.extra
    small = extra.magnitudes.small if extra is not None and extra.magnitudes is not None else 0.0
    found = {name: getattr(acc, name)(dims, isel=chosen).values for name in ("mean", "count", "min", "max", "sum")}
    kept = [a for a in range(raw.ndim) if a not in over]
    for place in itertools.product(*(range(box.shape[a]) for a in kept)):
        index: list[Any] = [slice(None)] * raw.ndim
        for a, i in zip(kept, place, strict=True):
            index[a] = i
        cells, heavy = box[tuple(index)].reshape(-1), w[tuple(index)].reshape(-1)
        some = cells[np.isfinite(cells)]
        assert found["count"][place] == len(some)
        if not len(some):
            assert np.isnan(found["mean"][place])
            assert found["sum"][place] == 0
            continue
        assert (found["min"][place], found["max"][place]) == (some.min(), some.max())
        mean, size = exact_mean(cells, heavy)
        if math.isnan(mean):
            assert np.isnan(found["mean"][place])
            continue
        total = math.fsum(heavy[np.isfinite(cells)])
        # The smallest numbers have an absolute precision: a product with a weight may be 5e-324 away from what it is.
        bound = TOLERANCE * max(size, small) + 5e-324 * max(1.0, len(cells) / total)
        assert abs(found["mean"][place] - mean) <= bound, (found["mean"][place], mean)
        assert abs(found["sum"][place] - mean * total) <= 2 * bound * total + 5e-324 * len(cells)


@st.composite
def arrays(draw: st.DrawFn) -> tuple[np.ndarray, tuple[int, ...]]:
    """Draw an array whose cells are of up to three kinds of magnitude, by regions or at random, and its chunks."""
    ndim = draw(st.integers(1, 3))
    shape = tuple(draw(st.integers(1, {1: 90, 2: 24, 3: 9}[ndim])) for _ in range(ndim))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    names = draw(st.lists(st.sampled_from(sorted(PALETTES)), min_size=1, max_size=3))
    dtype = draw(st.sampled_from(["f8", "f4", "f2", ">f8"]))
    kind = np.zeros(shape, int)
    if len(names) > 1:
        share = draw(st.sampled_from([0.02, 0.3, 0.7]))
        kind = (rng.random(shape) < share) * rng.integers(1, len(names), shape)
        if draw(st.booleans()):  # one after the other along the first dimension
            kind = np.sort(kind, axis=0)[:: draw(st.sampled_from([1, -1]))]
    raw = np.zeros(shape)
    for k, name in enumerate(names):
        some = rng.choice(PALETTES[name], shape) * np.where(np.isfinite(1.0), rng.uniform(0.5, 1, shape), 1)
        raw = np.where(kind == k, some, raw)
    with np.errstate(over="ignore", under="ignore"):
        typed = raw.astype(dtype)
    return typed, tuple(draw(st.integers(1, max(1, n))) for n in shape)


@settings(
    max_examples=examples(45),
    deadline=None,
    suppress_health_check=list(HealthCheck),
    phases=[Phase.explicit, Phase.reuse, Phase.generate],  # shrinking would take minutes
)
@given(arrays(), st.data())
def test_every_answer_lies_within_the_bound_of_the_exact_one(
    made: tuple[np.ndarray, tuple[int, ...]], data: Any
) -> None:
    raw, chunks = made
    dims = DIMS[: raw.ndim]
    sets = [c for n in range(1, raw.ndim + 1) for c in itertools.combinations(range(raw.ndim), n)]
    chosen = data.draw(st.lists(st.sampled_from(sets), min_size=1, unique=True))
    weights = np.ones([1] * raw.ndim)
    options: dict[str, Any] = {"precision": data.draw(st.sampled_from(["auto", "double-double"]))}
    if data.draw(st.booleans()):
        rng = np.random.default_rng(data.draw(st.integers(0, 2**32)))
        weights = rng.choice([0.0, 0.3, 1.0, 1e-9], raw.shape)
        options["weights"] = weights
    options["stride"] = data.draw(st.integers(1, 3))
    options["statistics"] = data.draw(st.sampled_from(["chunks", "none", ("min", "max", "std")]))
    with tempfile.TemporaryDirectory() as folder:
        acc = stored(Path(folder), raw, chunks, dims=[[dims[a] for a in c] for c in chosen], **options)
        for _ in range(4):
            over = data.draw(st.sampled_from(sets))
            ranges = []
            for n in raw.shape:
                a = data.draw(st.integers(0, n - 1))
                ranges.append(slice(a, data.draw(st.integers(a + 1, n))))
            check(acc, raw, over, ranges, weights)


@pytest.mark.few(1)
@pytest.mark.parametrize("listed", [4096, 0], ids=["listed", "too many to be listed"])
@pytest.mark.parametrize("precision", ["float64", "double-double"])
@pytest.mark.parametrize(
    "raw",
    [
        np.r_[9.969209968386869e36, np.full(399, 285.25)],
        np.r_[1e16, np.full(399, 1e-3)],
        np.r_[np.full(200, 1e16), np.full(200, 1e-3)],
        np.r_[np.full(200, 1e9 / 3), np.full(200, 1 / 3)],
        np.tile([1e16, 1e-3, -1e16, 1e-3], 100),
        np.r_[1.0, np.full(399, 5e-324)],
        np.r_[np.full(5, 1e16), np.tile(np.r_[np.full(15, 1e-3), np.full(5, 1e16)], 40)][:400],
    ],
    ids=[
        "a fill",
        "1e16 first",
        "1e16 in the first half",
        "1e9 in the first half",
        "alternating signs",
        "denormals",
        "1e16 in every chunk",
    ],
)
def test_means_after_huge_values_keep_their_digits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, raw: np.ndarray, precision: str, listed: int
) -> None:
    monkeypatch.setattr(outliers, "MOST", listed)
    acc = stored(tmp_path, raw, (20,), dims=["time"], precision=precision)
    for start in range(0, 400, 13):
        for stop in (start + 1, start + 11, start + 20, start + 57, 400):
            part = raw[start:stop].tolist()
            mean, size = math.fsum(part) / len(part), math.fsum(map(abs, part)) / len(part)
            assert abs(acc.mean(isel={"time": slice(start, stop)}).item() - mean) <= 1e-9 * size, (start, stop)


def test_a_few_huge_cells_do_not_make_an_answer_read_the_array(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    raw = np.random.default_rng(0).normal(285, 5, (400, 6, 6))
    raw[7, 3, 2] = raw[391, 0, 0] = 9.969209968386869e36
    acc = stored(tmp_path / "few.zarr", raw, (20, 6, 6), dims=["time"])
    group = acc.group.copied(read=set())
    monkeypatch.setattr(type(group), "asked", lambda _: group)
    found = acc.mean("time", isel={"time": slice(20, 380)}).values
    assert not group.read
    np.testing.assert_allclose(found, raw[20:380].mean(axis=0), rtol=1e-12)
