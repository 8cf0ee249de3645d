"""Pictures of partition matrices, whatever the aggregation is described by."""

from __future__ import annotations

from pathlib import Path

import pytest

from cfagg.checking.explaining import explanations
from cfagg.checking.opening import open_dataset
from cfagg.checking.single import partition_matrices
from cfagg.demo import sample
from cfagg.formats.cdl.parsing import parse_cdl
from tests.checking.writing import write_cdl


@pytest.mark.parametrize("code", ["AGG001", "CFA001", "CFA015", "NCA001"])
def test_every_dialect_is_drawn_with_the_names_of_its_files(code: str) -> None:
    with parse_cdl(explanations()[code]["passes"]) as dataset:
        ((variable, picture),) = partition_matrices(dataset)
    assert variable == "pr"
    assert picture.startswith("<svg")
    assert "winter.nc" in picture
    assert "spring.nc" in picture


def test_unique_values_are_drawn() -> None:
    with parse_cdl(explanations()["AGG012"]["passes"]) as dataset:
        ((variable, picture),) = partition_matrices(dataset)
    assert (variable, picture[:4]) == ("pr", "<svg")


def test_what_is_not_understood_is_left_out() -> None:
    with parse_cdl(explanations()["AGG018"]["fails"]) as dataset:
        assert partition_matrices(dataset) == []


def test_no_more_are_drawn_than_asked_for() -> None:
    with parse_cdl(explanations()["AGG001"]["passes"]) as dataset:
        assert partition_matrices(dataset, 0) == []


def test_names_of_files_are_escaped() -> None:
    text = explanations()["AGG001"]["passes"].replace("winter.nc", "<script>.nc")
    with parse_cdl(text) as dataset:
        ((_, picture),) = partition_matrices(dataset)
    assert "<script>" not in picture


def test_the_sample_of_the_figure_is_drawn() -> None:
    with open_dataset(str(sample("figure1.nca"))) as dataset:
        ((variable, picture),) = partition_matrices(dataset)
    assert variable == "p"
    assert "24 partitions" in picture


def test_without_its_dimensions_an_aggregation_is_as_long_as_its_fragments(tmp_path: Path) -> None:
    import xarray as xr

    text = explanations()["AGG001"]["passes"].replace("double time(time)", "double time").replace("0, 31, 59, 90", "0")
    with xr.open_dataset(write_cdl(text, tmp_path / "a.nc"), decode_times=False) as held, open_dataset(held) as dataset:
        ((_, picture),) = partition_matrices(dataset)
    assert "time 0:3" in picture
    assert "time 3:4" in picture
