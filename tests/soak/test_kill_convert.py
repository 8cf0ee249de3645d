"""Conversions killed at random moments, again and again, until they are done."""

import random

import pytest

from cfagg.convert import convert
from tests.convert import killing

pytestmark = pytest.mark.soak


@pytest.mark.parametrize("seed", range(12))
def test_runs_killed_at_random_moments_leave_nothing_and_end_in_an_equal_store(seed, tmp_path):
    chance = random.Random(seed)
    path, _ = killing.source(tmp_path)
    convert(path, tmp_path / "whole.zarr", chunks={"time": 1})
    whole = killing.contents(tmp_path / "whole.zarr")
    target, partial = tmp_path / "out.zarr", tmp_path / ".out.zarr.cfagg-partial"
    kills = 0
    for _ in range(8):
        process = killing.start(path, target, 0.001, resume=True)
        killed = killing.kill(process, slabs=chance.choice([-1, 0, 3, 10, 45]), seconds=chance.random() * 0.4)
        kills += killed
        if target.exists():
            break
        assert not killing.opens(partial)
    if partial.exists() or not target.exists():
        convert(path, target, chunks={"time": 1}, resume=True)
    assert killing.contents(target) == whole
    assert not partial.exists()
    assert kills > 0
