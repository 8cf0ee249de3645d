"""Sentences of the documentation that no other test holds the code to."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import zarr

import cfagg
from cfagg.accumulation.accumulated import Accumulated


@pytest.fixture
def accumulated(tmp_path: Path) -> Accumulated:
    """Return the accumulation of 400 steps in chunks of 10."""
    group = zarr.open_group(tmp_path / "a.zarr", mode="w", zarr_format=3)
    values = np.random.default_rng(1).normal(280, 10, (400, 2, 3)).astype("f4")
    group.create_array("tas", data=values, chunks=(10, 2, 3), dimension_names=("time", "lat", "lon"))
    cfagg.accumulate(tmp_path / "a.zarr", "tas", dims=["time"])
    return cfagg.open_accumulated(tmp_path / "a.zarr", "tas")


def test_the_samples_read_for_a_mean_do_not_depend_on_the_length_of_the_range(accumulated: Accumulated) -> None:
    read = [accumulated.mean("time", isel={"time": slice(10, end)}, explain=True) for end in (100, 200, 390)]
    assert {(e.elements, e.chunks) for e in read} == {(read[0].elements, read[0].chunks)}
    assert read[-1].elements < read[-1].instead.elements / 10


def test_an_edge_is_at_most_half_a_chunk_long(accumulated: Accumulated) -> None:
    explained = [accumulated.sum("time", isel={"time": slice(a, 300)}, explain=True) for a in range(100, 111)]
    cells = [sum(s.elements for s in e.steps if s.role == "cells") for e in explained]
    assert cells == [6 * min(n, 10 - n) for n in range(11)]


def test_a_relative_reference_never_starts_at_the_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import shutil

    for name in ("temperature.nca", "test2.nc"):
        shutil.copy(cfagg.demo.sample(name), tmp_path)
    # The first partition is missing beside the aggregation, but is in the working directory.
    monkeypatch.chdir(cfagg.demo.sample())
    with pytest.raises(cfagg.CfaggError, match=r"test1\.nc"):
        cfagg.read(tmp_path / "temperature.nca")["tas"].load()
