"""Fields of single model levels, whose heights and terms follow from the number of the level."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr

import cfagg
from tests.formats.pp import making

HEIGHTS = {1: 20.0, 2: 80.0, 3: 180.0}


def field(level: int, day: int = 0, *, names: bool = True, bounds: bool = False) -> xr.Dataset:
    """Return a field of one level, with its coordinates as scalars."""
    values = np.full((2, 3), 100 * day + level, "f4")
    latitude = ("lat", [10.0, 20.0], {"standard_name": "latitude", "units": "degrees_north"})
    longitude = ("lon", [0.0, 10.0, 20.0], {"standard_name": "longitude", "units": "degrees_east"})
    height: dict[str, Any] = {"long_name": "height of the level", "units": "m", "positive": "up"}
    if names:
        height |= {
            "standard_name": "atmosphere_hybrid_height_coordinate",
            "formula_terms": "a: height b: sigma orog: orog",
        }
    made = xr.Dataset(
        {
            "ta": (("lat", "lon"), values, {"standard_name": "air_temperature", "units": "K"}),
            "orog": (("lat", "lon"), np.ones((2, 3), "f4"), {"standard_name": "surface_altitude", "units": "m"}),
        },
        {
            "time": ((), day, {"standard_name": "time", "units": "days since 2000-01-01"}),
            "level": ((), np.int32(level), {"standard_name": "model_level_number", "units": "1"}),
            "height": ((), HEIGHTS[level], height),
            "sigma": ((), 1 - level / 10, {"long_name": "sigma", "units": "1"}),
            "lat": latitude,
            "lon": longitude,
        },
    )
    if bounds:
        made["sigma"].attrs["bounds"] = "sigma_bounds"
        made["sigma_bounds"] = ("bnds", [1 - level / 10 - 0.05, 1 - level / 10 + 0.05])
    return made


def files(folder: Path, *args: Any, **kwargs: Any) -> list[Path]:
    """Write the fields of some levels and days."""
    made = []
    for level, day in args:
        made.append(folder / f"{day}-{level}.nc")
        field(level, day, **kwargs).to_netcdf(made[-1])
    return made


def pp(level: int) -> bytes:
    """Return a field of a hybrid height in the form of a PP file."""
    height = {"BLEV": 100.0 * level, "BRLEV": 100.0 * level - 50, "BRSVD1": 100.0 * level + 50}
    sigma = {"BHLEV": 1 - level / 10, "BHRLEV": 1.05 - level / 10, "BRSVD2": 0.95 - level / 10}
    return making.field([level] * 6, LBVC=65, LBLEV=level, LBUSER4=4, LBUSER7=1, BPLAT=90.0, **height, **sigma)


@pytest.mark.parametrize("relaxed", [False, True])
@pytest.mark.parametrize("names", [False, True])
def test_levels_are_one_dimension_along_which_their_heights_and_terms_are(
    tmp_path: Path, *, names: bool, relaxed: bool
) -> None:
    given = files(tmp_path, (2, 0), (1, 0), (3, 0), names=names, bounds=True)
    found = cfagg.aggregate(given, relaxed_identities=relaxed)
    assert found["ta"].sizes == {"level": 3, "lat": 2, "lon": 3}
    assert found["ta"][:, 0, 0].values.tolist() == [1, 2, 3]
    assert found["height"].dims == found["sigma"].dims == ("level",)
    assert found["height"].values.tolist() == list(HEIGHTS.values())
    assert found["sigma"].values.tolist() == [1 - n / 10 for n in HEIGHTS]
    assert found["sigma_bounds"].dims == ("level", "bnds")
    assert found["sigma_bounds"][:, 0].values.tolist() == [1 - n / 10 - 0.05 for n in HEIGHTS]


def test_levels_and_days_are_two_dimensions(tmp_path: Path) -> None:
    both = list(itertools.product(HEIGHTS, range(2)))
    found = cfagg.aggregate(files(tmp_path, *both))
    assert set(found["ta"].dims) == {"time", "level", "lat", "lon"}
    for level, day in both:
        assert (found["ta"].isel(level=level - 1, time=day) == 100 * day + level).all()
    assert found["height"].dims == ("level",)


def test_a_file_of_levels_grows_to_the_same_bytes_as_all_at_once(tmp_path: Path) -> None:
    given = files(tmp_path, (1, 0), (2, 0), (3, 0))
    cfagg.aggregate(given, output=tmp_path / "all.nc")
    cfagg.aggregate(given[:1], output=tmp_path / "grown.nc")
    for one in given[1:]:
        cfagg.aggregate([one], output=tmp_path / "grown.nc", append=True)
    assert (tmp_path / "grown.nc").read_bytes() == (tmp_path / "all.nc").read_bytes()


def test_heights_that_are_the_same_for_all_levels_have_no_dimension(tmp_path: Path) -> None:
    given = files(tmp_path, (1, 0), (2, 0), names=False)
    for one in given:
        with xr.open_dataset(one) as opened:
            made = opened.load()
        made["sigma"] = made["sigma"].copy(data=0.5)
        made.to_netcdf(one)
    found = cfagg.aggregate(given)
    assert found["sigma"].dims == ()
    assert found["height"].dims == ("level",)


def test_levels_of_which_one_has_two_heights_are_not_joined(tmp_path: Path) -> None:
    given = files(tmp_path, (1, 0), (2, 0), (1, 1), names=False)
    with xr.open_dataset(given[2]) as opened:
        made = opened.load()
    made["height"] = made["height"].copy(data=25.0)
    made.to_netcdf(given[2])
    found = cfagg.aggregate(given)
    assert {"ta", "ta_1", "ta_2"} <= set(found.data_vars)
    assert "height of the level" not in found.sizes


def test_pp_files_of_one_level_each_are_as_one_of_all_levels(tmp_path: Path) -> None:
    levels = (3, 1, 2)
    for level in levels:
        (tmp_path / f"{level}.pp").write_bytes(pp(level))
    (tmp_path / "all").mkdir()
    (tmp_path / "all" / "all.pp").write_bytes(b"".join(map(pp, levels)))
    found = cfagg.aggregate([tmp_path / f"{level}.pp" for level in levels])
    xr.testing.assert_equal(found.load(), cfagg.read(tmp_path / "all" / "all.pp").load())
