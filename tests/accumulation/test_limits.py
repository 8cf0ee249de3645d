"""Standard deviations of integers whose sums have more than 64 bits."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
import zarr

from cfagg.accumulation.accumulated import open_accumulated
from cfagg.accumulation.accumulating import accumulate


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


def test_a_part_of_a_chunk_may_have_a_sum_beyond_64_bits_where_the_chunk_has_none(tmp_path: Path) -> None:
    most = np.iinfo("i8").max
    raw = np.array([most, most, -most, -most, 1, 2, 3, 4], "i8")
    zarr.create_array(tmp_path, name="tas", data=raw, chunks=(4,), dimension_names=["time"])
    accumulate(tmp_path, "tas", ["time"])
    assert open_accumulated(tmp_path, "tas").std(isel={"time": slice(1, 6)}).item() == pytest.approx(
        np.std(raw[1:6].astype("f8")), rel=1e-9
    )
