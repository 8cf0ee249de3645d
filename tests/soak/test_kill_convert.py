"""Conversions killed at random moments, again and again, until they are done."""

import random
import shutil
import signal
import time

import pytest

from cfagg.conversion import convert
from tests.conversion import killing

pytestmark = pytest.mark.soak


@pytest.mark.parametrize("seed", range(12))
def test_runs_killed_at_random_moments_leave_nothing_and_end_in_an_equal_store(seed, tmp_path):
    chance = random.Random(seed)
    path, _ = killing.source(tmp_path)
    convert(path, tmp_path / "whole.zarr", chunks={"time": 1})
    whole = killing.contents(tmp_path / "whole.zarr")
    target, partial = tmp_path / "out.zarr", tmp_path / ".out.zarr.cfagg-partial"
    kills = 0
    while kills < 5:
        run = killing.start(path, target, 0.002, resume=True)
        run.wait(chance.choice([0, 1, 4, 11, 46]))
        time.sleep(chance.random() * 0.4)
        kills += run.end() == -signal.SIGKILL
        if target.exists():
            # Done, or killed while it tidied up: the store is complete, and another one is begun.
            assert killing.contents(target) == whole
            if partial.exists():
                convert(path, target, chunks={"time": 1}, verify=True, resume=True)
            assert not partial.exists()
            shutil.rmtree(target)
        else:
            assert not killing.opens(partial)
    convert(path, target, chunks={"time": 1}, verify=True, resume=True)
    assert killing.contents(target) == whole
    assert not partial.exists()
