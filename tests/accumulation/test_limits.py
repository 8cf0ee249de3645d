"""Types, sizes and names at the limits of what can be summed."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
import zarr

from cfagg.accumulation.accumulated import open_accumulated
from cfagg.accumulation.accumulating import accumulate
from cfagg.errors import UnsupportedError


@pytest.mark.few(3)
@pytest.mark.parametrize("dtype", ["i8", "u8"])
@pytest.mark.parametrize("part", [slice(0, 40), slice(3, 29), slice(1, 2)], ids=str)
def test_variances_of_integers_near_the_limits_are_those_of_exact_arithmetic(
    tmp_path: Path, dtype: str, part: slice
) -> None:
    info = np.iinfo(dtype)
    raw = np.array([info.max, info.max - 5, info.min, info.max - 9] * 10, dtype)
    raw[3::7] = 12
    zarr.create_array(tmp_path, name="tas", data=raw, chunks=(8,), dimension_names=["time"])
    accumulate(tmp_path, "tas", ["time"], precision="float64")
    acc = open_accumulated(tmp_path, "tas")
    exact = [Fraction(int(v)) for v in raw[part]]
    mean = sum(exact) / len(exact)
    variance = float(sum((v - mean) ** 2 for v in exact) / len(exact))
    assert acc.var(isel={"time": part}).item() == pytest.approx(variance, rel=1e-9)
    assert acc.std(isel={"time": part}).item() == pytest.approx(variance**0.5, rel=1e-9)


@pytest.mark.full
def test_a_part_of_a_chunk_may_have_a_sum_beyond_64_bits_where_the_chunk_has_none(tmp_path: Path) -> None:
    most = np.iinfo("i8").max
    raw = np.array([most, most, -most, -most, 1, 2, 3, 4], "i8")
    zarr.create_array(tmp_path, name="tas", data=raw, chunks=(4,), dimension_names=["time"])
    accumulate(tmp_path, "tas", ["time"])
    assert open_accumulated(tmp_path, "tas").std(isel={"time": slice(1, 6)}).item() == pytest.approx(
        np.std(raw[1:6].astype("f8")), rel=1e-9
    )


@pytest.mark.few(2)
@pytest.mark.parametrize("zarr_format", [2, 3])
@pytest.mark.parametrize("weighted", [False, True])
def test_numbers_of_16_bits_are_summed_like_wider_ones(tmp_path: Path, zarr_format: int, weighted: bool) -> None:
    raw = np.random.default_rng(0).normal(285, 5, (60, 4)).astype("f2")
    raw[3, 1] = np.nan
    named = (
        {"dimension_names": ["time", "x"]} if zarr_format == 3 else {"attributes": {"_ARRAY_DIMENSIONS": ["time", "x"]}}
    )
    zarr.create_array(tmp_path, name="tas", data=raw, chunks=(7, 3), zarr_format=zarr_format, **named)
    weights = np.arange(60.0)[:, None] if weighted else None
    accumulate(tmp_path, "tas", ["time", ("time", "x")], weights=weights, statistics=("min", "max", "std"))
    acc = open_accumulated(tmp_path, "tas")
    part, heavy = raw[5:52].astype("f8"), np.arange(5.0, 52)[:, None] if weighted else np.ones((47, 1))
    mean = (part * heavy).sum(axis=0) / heavy.sum()
    where = {"time": slice(5, 52)}
    np.testing.assert_allclose(acc.mean("time", isel=where).values, mean, rtol=1e-14)
    np.testing.assert_array_equal(acc.max("time", isel=where).values, part.max(axis=0))
    assert acc.min(isel=where).item() == part.min()
    assert acc.count(isel={"time": slice(0, 10)}).item() == 39
    spread = np.sqrt((heavy * (part - mean) ** 2).sum(axis=0) / heavy.sum())
    np.testing.assert_allclose(acc.std("time", isel=where).values, spread, rtol=1e-12)


def test_means_of_truth_values_are_shares(tmp_path: Path) -> None:
    raw = np.random.default_rng(0).random((60, 4)) > 0.3
    zarr.create_array(tmp_path, name="wet", data=raw, chunks=(7, 3), dimension_names=["time", "x"])
    accumulate(tmp_path, "wet", ["time"])
    acc = open_accumulated(tmp_path, "wet")
    assert acc.group.kind == "int64"
    np.testing.assert_allclose(acc.mean("time", isel={"time": slice(5, 52)}).values, raw[5:52].mean(axis=0), rtol=1e-15)
    assert (acc.min().item(), acc.max().item(), acc.std().item()) == (0.0, 1.0, pytest.approx(raw.std()))


@pytest.mark.parametrize("name", ["_WEIGHTS", "_DATA_UNWEIGHTED", "_DATA_WEIGHTED", "_WEIGHTS_of_time", "two\nlines"])
def test_dimensions_with_reserved_names_are_refused_before_anything_is_read(tmp_path: Path, name: str) -> None:
    store = tmp_path / "a.zarr"
    zarr.create_array(store, name="tas", data=np.ones((8, 3)), chunks=(4, 3), dimension_names=[name, "x"])
    for dims in (None, ["x"]):
        with pytest.raises(UnsupportedError, match="rename it"):
            accumulate(store, "tas", dims, progress=lambda done, whole: pytest.fail("it reads"))
    assert [p.name for p in tmp_path.iterdir()] == ["a.zarr"]
