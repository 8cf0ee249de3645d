"""Sentences of the documentation that no other test holds the code to."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import numpy as np
import pytest
import zarr

import cfagg
from cfagg.accumulation.accumulated import Accumulated
from cfagg.cli import main as cli
from cfagg.storage import counters

DOCS = Path(__file__).parents[1] / "docs"


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
    for name in ("temperature.nca", "test2.nc"):
        shutil.copy(cfagg.demo.sample(name), tmp_path)
    # The first partition is missing beside the aggregation, but is in the working directory.
    monkeypatch.chdir(cfagg.demo.sample())
    with pytest.raises(cfagg.CfaggError, match=r"test1\.nc"):
        cfagg.read(tmp_path / "temperature.nca")["tas"].load()


def test_explaining_an_answer_reads_no_values(accumulated: Accumulated, tmp_path: Path) -> None:
    trusting = cfagg.open_accumulated(tmp_path / "a.zarr", "tas", trust_for=1000)
    trusting.mean("time")
    for folder in ("tas", "tas_accumulation_group/acc_time"):
        for chunk in (tmp_path / "a.zarr" / folder).rglob("[c0-9]*"):
            if chunk.is_file():
                chunk.write_bytes(b"no chunk")
    explained = trusting.mean("time", isel={"time": slice(11, 306)}, explain=True)
    assert {s.role for s in explained.steps} >= {"sums", "cells"}
    with pytest.raises(cfagg.CfaggError):
        trusting.mean("time", isel={"time": slice(11, 306)})


def test_the_last_sample_is_at_the_end_though_chunk_and_stride_are_not_full(tmp_path: Path) -> None:
    group = zarr.open_group(tmp_path / "a.zarr", mode="w", zarr_format=3)
    values = np.arange(43.0)
    group.create_array("tas", data=values, chunks=(10,), dimension_names=("time",))
    cfagg.accumulate(tmp_path / "a.zarr", "tas", stride=2)
    sums = group["tas_accumulation_group/acc_time"][:]
    assert sums.tolist() == [values[:end].sum() for end in (20, 40, 43)]


def test_a_selection_opens_the_file_of_each_partition_that_it_touches_once_and_no_other(tmp_path: Path) -> None:
    shutil.copytree(cfagg.demo.sample("sst"), tmp_path / "sst")
    shutil.copy(cfagg.demo.sample("sst.nca"), tmp_path)
    files = sorted((tmp_path / "sst").iterdir())
    for file in files[:3] + files[8:]:
        file.unlink()
    sst = cfagg.read(tmp_path / "sst.nca", chunks={})["surface_temperature"]
    assert sst.data.npartitions == len(files) == 54
    before = counters.snapshot()
    sst.isel(time=slice(3, 8)).compute()
    assert (counters.snapshot() - before).files == 5


def test_the_html_of_a_file_has_no_script_and_loads_nothing() -> None:
    page = cfagg.show(cfagg.demo.sample("temperature.nca"))._repr_html_()
    assert "<svg" in page
    assert not re.search(r"<script|<link|<img|<iframe|\bsrc=|\burl\(|@import|\bon\w+=", page)
    # The only address is the name of SVG's namespace.
    assert set(re.findall(r"\w+://[^\"'\s<)]+", page)) <= {"http://www.w3.org/2000/svg"}


def test_a_quiet_check_prints_nothing_and_tells_by_its_status(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["check", str(cfagg.demo.sample("storms.nc")), "-q"]) == 0
    assert cli.main(["check", str(cfagg.demo.sample("test1.nc")), "-q", "--strict"]) == 1
    assert capsys.readouterr() == ("", "")


#: What the documentation may teach to import: what stays, the registry of plug-in rules, and the algorithm's own page.
TAUGHT = re.compile(
    r"cfagg(\.(accessor|demo|errors|model|kernels(\.\w+)?|conventions(\.\w+)?|observations\.(exchange|sources|filters|indexes)"
    r"|checking\.(findings|rule|versions)|plan))?"
)


@pytest.mark.parametrize("page", sorted(p.name for p in DOCS.glob("*.md")))
def test_the_documentation_imports_public_modules_only(page: str) -> None:
    text = (DOCS / page).read_text(encoding="utf-8")
    imported = re.findall(r"^(?:>>> )?(?:from (cfagg[\w.]*) import|import (cfagg[\w.]*))", text, re.MULTILINE)
    assert [a or b for a, b in imported if not TAUGHT.fullmatch(a or b)] == []
