"""Variables along a dimension that a later one of the same name hides from their group."""

from __future__ import annotations

from pathlib import Path

import netCDF4
import numpy as np
import pytest

import cfagg
from cfagg.errors import UnreadableAggregationError


def made(path: Path, length: int) -> Path:
    """Write `g/v` along the dimension of the root, and then another of that name with `g/w`."""
    with netCDF4.Dataset(path, "w") as file:
        file.createDimension("t", 3)
        file.createVariable("t", "f8", ("t",))[:] = [1, 2, 3]
        group = file.createGroup("g")
        group.createVariable("v", "f8", ("t",))[:] = [10, 20, 30]
        group.createDimension("t", length)
        group.createVariable("w", "f8", ("t",))[:] = np.arange(length)
    return path


@pytest.mark.parametrize("length", [3, 4])
def test_a_variable_along_a_hidden_dimension_is_refused_and_the_others_read(tmp_path: Path, length: int) -> None:
    path = made(tmp_path / "a.nc", length)
    why = (
        r"variable 'g/v' cannot be read: it lies along the dimension 't' of group '/' \(length 3\), which that of the "
        rf"same name in group '/g' \(length {length}\) hides; rename one of the two"
    )
    with pytest.raises(UnreadableAggregationError, match=why):
        cfagg.read(path, group="g")
    with pytest.raises(UnreadableAggregationError, match=why):
        cfagg.convert(path, tmp_path / "a.zarr")
    assert cfagg.read(path, group="g", variables=["w"]).w.sizes == {"t": length}
    assert cfagg.read(path).t.values.tolist() == [1, 2, 3]
    report = cfagg.convert(path, tmp_path / "a.zarr", on_loss="drop")
    assert [loss.variable for loss in report.losses] == ["g/v"]


@pytest.mark.parametrize("length", [2, 3, 4])
def test_it_is_read_alone_with_the_shape_that_hdf5_stores(tmp_path: Path, length: int) -> None:
    found = cfagg.open_array(made(tmp_path / "a.nc", length), "g/v")
    assert (found.shape, found.dims, found[1:].tolist()) == ((3,), ("t",), [20, 30])


def test_it_is_not_read_alone_if_only_the_netcdf_library_decodes_it_with_a_wrong_length(tmp_path: Path) -> None:
    with netCDF4.Dataset(tmp_path / "a.nc", "w") as file:
        file.createDimension("t", 3)
        group = file.createGroup("g")
        group.createVariable("v", str, ("t",))[:] = np.array(["a", "b", "c"], object)
        group.createDimension("t", 2)
    with pytest.raises(UnreadableAggregationError, match="variable 'g/v' cannot be read"):
        cfagg.open_array(tmp_path / "a.nc", "g/v")


def test_a_dimension_of_the_same_name_that_is_its_own_hides_nothing(tmp_path: Path) -> None:
    with netCDF4.Dataset(tmp_path / "a.nc", "w") as file:
        for group, length in ((file, 3), (file.createGroup("g"), 4)):
            group.createDimension("t", length)
            group.createVariable("v", "f8", ("t",))[:] = np.arange(length)
    assert cfagg.read(tmp_path / "a.nc", group="g").v.values.tolist() == [0, 1, 2, 3]
