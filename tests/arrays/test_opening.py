"""Which reader a variable gets, as docs/architecture.md says."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import netCDF4
import numpy as np
import pytest
import xarray as xr
import zarr

import cfagg
from cfagg.arrays.opening import open_any, open_reader
from cfagg.checking.opening import open_dataset
from cfagg.errors import SourceError, SourceNotFoundError
from tests import nca_files

PAGE = Path(__file__).parents[2] / "docs/architecture.md"


def test_each_kind_of_variable_has_the_reader_that_the_documentation_names(tmp_path: Path) -> None:
    aggregated = nca_files.simple(tmp_path, np.arange(3.0), ["t"], [[0, 2, 3]])
    with netCDF4.Dataset(tmp_path / "a.nc", "w") as nc:
        nc.createDimension("x", 3)
        nc.createVariable("v", "f4", ("x",))[:] = [1, 2, 3]
    group = zarr.open_group(tmp_path / "a.zarr", mode="w", zarr_format=2)
    group.create_array("v", data=np.arange(3, dtype="f4"))
    group.create_array("s", shape=(3,), dtype=str)[:] = np.array(["1", "2", "3"], object)
    name = next(iter(open_any(aggregated).root.variables))
    with open_dataset(tmp_path / "a.nc") as dataset:
        values: Any = dataset.root.variables["v"].read
        assert values((slice(1, 3),)).tolist() == [2, 3]
        readers = [
            open_reader(aggregated, name),
            open_reader(tmp_path / "a.nc", "v"),
            values.reader,
            open_reader(tmp_path / "a.zarr", "/v"),
            open_reader(tmp_path / "a.zarr", "s"),
        ]
        section = PAGE.read_text(encoding="utf-8").partition("## The way of one value")[2]
        assert [type(r).__name__ for r in readers] == re.findall(r"^\| `(\w+Reader)` \|", section, re.MULTILINE)
        found = [r.read([slice(2, None, -2)]).astype(float).tolist() for r in readers]
        assert found == [[2, 0], [3, 1], [3, 1], [2, 0], [3, 1]]
        assert [r.shape for r in readers] == [(3,)] * 5


def test_what_is_not_there_is_told_by_its_name(tmp_path: Path) -> None:
    zarr.open_group(tmp_path / "a.zarr", mode="w").create_array("v", data=np.arange(3))
    with pytest.raises(SourceError, match="has no variable 'w'; the variables of group / are: v"):
        open_reader(tmp_path / "a.zarr", "w")
    with pytest.raises(SourceNotFoundError, match=r"gone\.nc"):
        open_reader(tmp_path / "gone.nc", "w")


@pytest.mark.parametrize("form", [2, 3])
def test_bytes_of_a_fixed_length_are_read_by_every_way_after_they_grew(tmp_path: Path, form: int) -> None:
    store = tmp_path / "a.zarr"
    words = np.array([b"ab", b"c", b"xyz", b""], "S3")
    xr.Dataset({"v": ("t", words[:2])}).to_zarr(store, zarr_format=form)
    cfagg.append(store, xr.Dataset({"v": ("t", words[2:])}), "t")
    array = cfagg.open_array(store, "v")
    assert (array.dtype, array[...].tolist(), array[1:3].tolist()) == (words.dtype, words.tolist(), [b"c", b"xyz"])
    assert array[::-1].tolist() == words[::-1].tolist()
    assert cfagg.read(store).v.values.tolist() == words.tolist()
    with xr.open_dataset(store, engine="cfagg") as found:
        assert (found.v.dtype, found.v.values.tolist()) == (words.dtype, words.tolist())
