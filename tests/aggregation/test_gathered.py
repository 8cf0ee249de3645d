"""Arrays compressed by gathering, read from an aggregation by its text: points have the places of their files."""

from __future__ import annotations

from pathlib import Path

import netCDF4
import numpy as np
import pytest
import xarray as xr

import cfagg
from tests.aggregation.profiles import DATA, LATITUDE, LONGITUDE, TIME

LATITUDES, LONGITUDES, POINTS = [10.0, 20.0, 30.0], [0.0, 1.0], [0, 3, 5]


def write(path: Path, time: float, latitudes: list[float], points: list[int], *, gathered: bool = True) -> str:
    """Write a file of one time, gathered or not."""
    with netCDF4.Dataset(path, "w") as file:
        for name, values, said in (
            ("time", [time], TIME),
            ("lat", latitudes, LATITUDE),
            ("lon", LONGITUDES, LONGITUDE),
        ):
            file.createDimension(name, len(values))
            file.createVariable(name, "f8", (name,)).setncatts(said)
            file[name][:] = values
        if gathered:
            file.createDimension("land", len(points))
            file.createVariable("land", "i4", ("land",)).compress = "lat lon"
            file["land"][:] = points
        dims = ("time", "land") if gathered else ("time", "lat", "lon")
        file.createVariable("tas", "f8", dims).setncatts(DATA)
        file["tas"][:] = 100 * time + np.arange(file["tas"].size).reshape(file["tas"].shape)
    return str(path)


def places(dataset: xr.Dataset, name: str) -> list[tuple[float, float, float]]:
    """Return latitude, longitude and first value at each point of a gathered array."""
    array = dataset[name]
    points = dataset[array.dims[1]]
    lat, lon = points.attrs["compress"].split()
    i, j = np.unravel_index(points.values, (dataset.sizes[lat], dataset.sizes[lon]))
    found = zip(dataset[lat].values[i], dataset[lon].values[j], array.values[0], strict=True)
    return [(float(a), float(b), float(c)) for a, b, c in found]


def expected(time: float, latitudes: list[float], points: list[int]) -> list[tuple[float, float, float]]:
    return [(latitudes[p // 2], LONGITUDES[p % 2], 100 * time + k) for k, p in enumerate(points)]


@pytest.mark.parametrize(
    ("latitudes", "points"), [([10.0, 20.0, 35.0], POINTS), (LATITUDES, [0, 3, 4]), ([10.0, 20.0, 30.0, 40.0], POINTS)]
)
def test_each_array_keeps_its_list_of_points_and_their_coordinates(
    tmp_path: Path, latitudes: list[float], points: list[int]
) -> None:
    a = write(tmp_path / "a.nc", 0, LATITUDES, POINTS)
    b = write(tmp_path / "b.nc", 1, latitudes, points)
    cfagg.aggregate([a, b], output=tmp_path / "out.nc")
    found = xr.open_dataset(tmp_path / "out.nc", engine="cfagg", decode_times=False)
    assert places(found, "tas") == expected(0, LATITUDES, POINTS)
    assert places(found, "tas_1") == expected(1, latitudes, points)


def test_times_of_the_same_points_are_joined_beside_arrays_that_are_not_gathered(tmp_path: Path) -> None:
    files = [write(tmp_path / f"{k}.nc", k, LATITUDES, POINTS, gathered=k < 2) for k in range(3)]
    found = cfagg.aggregate(files, decode_times=False)
    joined = next(str(n) for n, v in found.data_vars.items() if v.shape == (2, 3))
    assert places(found, joined) == expected(0, LATITUDES, POINTS)
    assert "coordinates" not in found[joined].encoding
    assert found[next(n for n in found.data_vars if n != joined)].shape == (1, 3, 2)


def test_a_list_of_points_of_another_list_keeps_both_and_their_dimensions(tmp_path: Path) -> None:
    files = [write(tmp_path / f"{k}.nc", k, LATITUDES, POINTS) for k in range(2)]
    for path in files:
        with netCDF4.Dataset(path, "a") as file:
            file.createDimension("ice", 2)
            file.createVariable("ice", "i4", ("ice",)).compress = "land"
            file["ice"][:] = [0, 2]
            file.createVariable("pr", "f8", ("time", "ice")).setncatts({**DATA, "standard_name": "snowfall_flux"})
            file["pr"][:] = [[1, 2]]
    found = cfagg.aggregate(files, decode_times=False)
    assert found.pr.shape == (2, 2)
    land = found[found.pr.dims[1]].attrs["compress"]
    lat, lon = found[land].attrs["compress"].split()
    assert (found[land].values.tolist(), found[lat].values.tolist()) == (POINTS, LATITUDES)
    assert found[lon].values.tolist() == LONGITUDES
