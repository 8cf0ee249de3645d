"""Aggregation files as input of an aggregation, whose coordinates may be aggregations too."""

from __future__ import annotations

from pathlib import Path

import netCDF4
import numpy as np
import pytest

import cfagg
from cfagg.aggregation.scanning import scan
from cfagg.demo import sample
from tests.aggregation.months import months


def nested(path: Path, names: list[str]) -> Path:
    """Write a file of CF-1.13 in which time and temperature are aggregations of files of two times each."""
    with netCDF4.Dataset(path, "w") as file, netCDF4.Dataset(names[0]) as first:
        file.Conventions = "CF-1.13"
        for name, size in (("time", 2 * len(names)), ("lat", 2), ("lon", 3), ("parts", len(names)), ("one", 1)):
            file.createDimension(name, size)
        for name in ("lat", "lon"):
            made = file.createVariable(name, "f8", (name,))
            made.setncatts(first[name].__dict__)
            made[:] = first[name][:]
        rows = {"time": [[2] * len(names)], "tas": [[2] * len(names), [2], [3]]}
        for name, sizes in rows.items():
            array = file.createVariable(name, first[name].dtype, ())
            array.setncatts(first[name].__dict__)
            array.aggregated_dimensions = " ".join(first[name].dimensions)
            array.aggregated_data = f"map: map_{name} uris: uris_{name} identifiers: id_{name}"
            file.createDimension(f"rank_{name}", len(sizes))
            table = file.createVariable(f"map_{name}", "i4", (f"rank_{name}", "parts"), fill_value=-1)
            for row, own in enumerate(sizes):
                table[row, : len(own)] = own
            shape = ("parts", *["one"] * (len(sizes) - 1))
            uris = file.createVariable(f"uris_{name}", str, shape)
            for part, place in enumerate(names):
                uris[(part, *[0] * (len(sizes) - 1))] = Path(place).name
            file.createVariable(f"id_{name}", str, ())[...] = name
    return path


def test_coordinates_that_are_aggregations_have_their_values(tmp_path: Path) -> None:
    path = nested(tmp_path / "a.nc", months(tmp_path, 2))
    (found,) = scan([str(path)])
    (tas,) = found.described
    assert (tas.shape, tas.problem) == ((4, 2, 3), None)
    assert tas.axes["time"].values.tolist() == [0, 1, 2, 3]


def test_aggregations_are_put_together_as_their_files_would_be(tmp_path: Path) -> None:
    names = months(tmp_path, 4)
    two = [nested(tmp_path / f"a{n}.nc", names[2 * n : 2 * n + 2]) for n in range(2)]
    whole, several = cfagg.aggregate(two), cfagg.aggregate(names)
    np.testing.assert_array_equal(whole["tas"].values, several["tas"].values)
    np.testing.assert_array_equal(whole["time"].values, several["time"].values)
    assert not [name for name in (*whole["time"].attrs, *whole["tas"].attrs) if name.startswith("aggregated")]


def test_a_coordinate_whose_file_is_gone_makes_the_aggregation_unreadable(tmp_path: Path) -> None:
    names = months(tmp_path, 2)
    path = nested(tmp_path / "a.nc", names)
    Path(names[1]).unlink()
    with pytest.raises(FileNotFoundError, match=r"m1\.nc"):
        scan([str(path)])


def test_groups_that_only_describe_partitions_or_sums_hold_no_data(tmp_path: Path) -> None:
    store = str(tmp_path / "a.zarr")
    cfagg.convert(months(tmp_path, 1)[0], store)
    cfagg.accumulate(store, "tas", dims="time")
    found = scan([store, str(sample("temperature-CFA-0.5.nc"))])
    assert [[d.stated.name for d in one.described] for one in found] == [["tas"], ["tas"]]
