"""The demonstration runs from any folder and fails where a value differs."""

from __future__ import annotations

import contextlib
import io
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import zarr

import cfagg
from cfagg import demo


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """Return the folder of a run from another folder than the checkout, and what it said."""
    path = tmp_path_factory.mktemp("demo")
    with contextlib.chdir(path), contextlib.redirect_stdout(io.StringIO()) as said:
        assert demo.main(Path("out")) == 0
    return path / "out", said.getvalue()


@pytest.fixture
def folder(first: tuple[Path, str]) -> Path:
    return first[0]


def test_the_demonstration_converts_compares_and_draws(first: tuple[Path, str]) -> None:
    folder, said = first
    assert "104,976 values compared with the 54 months, 0 differ" in said
    assert "1,944 means compared with those of 36 months, 0 differ" in said
    pictures = {"sst.png", "figure1.png", "mean.png", "series.png"}
    assert {p.name for p in folder.iterdir()} == {"sst.zarr", *pictures}


@pytest.mark.soak
def test_it_runs_as_a_module(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "cfagg.demo", "out"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "out" / "sst.zarr").is_dir()


@pytest.mark.full
def test_a_second_run_replaces_the_first(folder: Path) -> None:
    assert demo.main(folder) == 0


def test_the_comparison_counts_a_value_that_differs(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    values = np.asarray(zarr.open_group(folder / "sst.zarr", mode="r")["surface_temperature"])
    values[values > 1e19] = np.nan
    values[10, 3, 50] += 0.01
    assert demo._compare(values, demo.sample("sst")) == 1
    assert "1 differ" in capsys.readouterr().out


def test_the_comparison_counts_a_mean_that_differs(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store = tmp_path / "sst.zarr"
    shutil.copytree(folder / "sst.zarr", store)
    values = zarr.open_group(store)["surface_temperature"]
    values[20, 3, 50] += 0.5
    cfagg.accumulate(store, "surface_temperature", refresh=True)
    assert demo._compare_means(store, demo.sample("sst")) == 1
    assert "1 differ" in capsys.readouterr().out
