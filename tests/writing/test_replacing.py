"""Files that nothing replaces."""

import os
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr
import zarr

import cfagg
from cfagg.errors import OptionError, TargetError
from cfagg.model import Aggregation, Grid, Layout, Partitions
from cfagg.writing.references import used_files
from cfagg.writing.replacing import refuse_data


def written(source: Path, target: Path, **how: Any) -> None:
    """Write what is read."""
    cfagg.write(cfagg.read(source), target, **how)


@pytest.mark.parametrize(
    ("verb", "to"), [(cfagg.convert, "netcdf"), (cfagg.convert, "CF-1.13"), (written, "CFA-0.6.2")]
)
@pytest.mark.parametrize("key", ["v/c/0", "v/zarr.json"])
def test_no_file_replaces_a_part_of_a_zarr_store(tmp_path: Path, key: str, verb: Any, to: str) -> None:
    store, values = tmp_path / "a.zarr", np.arange(600.0)
    zarr.create_array(store, name="v", data=values, dimension_names=["x"])
    xr.Dataset({"v": ("x", values)}).to_netcdf(tmp_path / "b.nc")
    for source in (store, tmp_path / "b.nc"):
        with pytest.raises(TargetError, match=r"is part of the Zarr store|is the source or within it"):
            verb(source, store / key, to=to, overwrite=True)
    assert np.array_equal(cfagg.open_array(store, "v")[...], values)
    cfagg.convert(tmp_path / "b.nc", store / "b.nc", to="netcdf")
    cfagg.convert(tmp_path / "b.nc", store / "b.nc", to="netcdf", overwrite=True)  # it is no part of the store


def circle(folder: Path) -> list[Path]:
    """Write a file, an aggregation of it in a second directory, one of that in a third, and so on; return all."""
    files = [folder / f"{k}" / "v.nc" for k in range(4)]
    for file in files:
        file.parent.mkdir()
    time = ("time", [0.0, 1.0], {"units": "days since 2000-01-01", "standard_name": "time"})
    v = ("time", [5.0, 6.0], {"standard_name": "air_temperature", "units": "K"})
    xr.Dataset({"v": v}, {"time": time}).to_netcdf(files[0])
    for of, file in pairwise(files):
        cfagg.aggregate(of, output=file)
    return files


@pytest.mark.parametrize("replaced", [0, 1, 2])
def test_no_file_replaces_one_to_which_it_refers_through_others_elsewhere(tmp_path: Path, replaced: int) -> None:
    files = circle(tmp_path)
    for verb in (
        lambda: cfagg.aggregate(files[3], output=files[replaced], overwrite=True, allow=[tmp_path]),
        lambda: cfagg.write(cfagg.aggregate(files[3], allow=[tmp_path]), files[replaced], overwrite=True),
        lambda: cfagg.write(cfagg.read(files[3], allow=[tmp_path]), files[replaced], overwrite=True),
    ):
        with pytest.raises((TargetError, OptionError), match="its values would be lost"):
            verb()
    assert cfagg.read(files[3], allow=[tmp_path])["v"].values.tolist() == [5.0, 6.0]


def test_an_aggregation_file_does_not_grow_by_one_that_refers_to_it(tmp_path: Path) -> None:
    files = circle(tmp_path)
    with pytest.raises(TargetError, match=r"1/v.nc was not changed: .*3/v.nc refers to it.*; leave that file out"):
        cfagg.aggregate(files[3], output=files[1], append=True, allow=[tmp_path])
    assert cfagg.read(files[3], allow=[tmp_path])["v"].values.tolist() == [5.0, 6.0]


def test_nothing_replaces_a_part_of_a_zarr_store_that_looks_like_no_data(tmp_path: Path) -> None:
    zarr.create_array(tmp_path / "a.zarr", name="v", data=np.full(9, 7, "i1"))
    with pytest.raises(TargetError, match=r"zarr\.json is data \(part of a Zarr store\), which no report replaces"):
        refuse_data(str(tmp_path / "a.zarr/v/zarr.json"), "report")


def test_files_of_other_versions_are_used_and_those_of_absent_partitions_are_not() -> None:
    layouts = [Layout(("x",))]
    other = Partitions.build(2, file=[0, 0], files=["c.nc"], layouts=layouts)
    table = Partitions.build(
        2, file=[0, 1], files=["a.nc", "b.nc"], present=[True, False], layouts=layouts, versions=[other]
    )
    made = Aggregation("v", ("x",), (2,), np.dtype("f8"), grid=Grid.regular((2,), [1]), partitions=table)
    assert used_files(made) == ["a.nc", "c.nc"]


def test_what_may_not_be_read_is_not_opened_to_look_for_circles(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files, opened, real = circle(tmp_path), [], os.open

    def watched(path: Any, *args: Any, **options: Any) -> int:
        opened.append(os.fspath(path))
        return real(path, *args, **options)

    cfagg.aggregate(files[0], output=tmp_path / "out.nc")
    monkeypatch.setattr(os, "open", watched)
    cfagg.aggregate(files[3], output=tmp_path / "out.nc", overwrite=True)
    cfagg.aggregate(files[3], output=tmp_path / "out.nc", append=True)
    assert str(files[3]) in opened
    assert not {str(file) for file in files[:3]} & set(opened)
