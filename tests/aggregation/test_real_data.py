"""Simulations of CMIP6, months and ensembles of the Met Office, an ocean model: as xarray and iris put them together.

Their packages are put into ``.bench/real`` by ``make soak``, and by these tests where they are not there yet.
"""

from __future__ import annotations

import subprocess
from collections import defaultdict
from pathlib import Path
from typing import Any

import netCDF4
import numpy as np
import pytest
import xarray as xr

import cfagg
from tests.benchmarks.peers import peer_python
from tests.checking.real import packages

pytestmark = [pytest.mark.soak, pytest.mark.filterwarnings("ignore:.*:xarray.SerializationWarning")]

DATES = xr.coders.CFDatetimeCoder(use_cftime=True)

#: Loads files, and writes of each cube its name, its values and its coordinates as arrays of NumPy.
LOADED = """
import sys, warnings
import numpy as np
warnings.simplefilter("ignore")
import iris
from iris.util import equalise_attributes, promote_aux_coord_to_dim_coord
cubes = iris.load(sys.argv[2:])
if cubes[0].coords("time_counter"):
    # What the documentation of iris says for this model.
    equalise_attributes(cubes)
    for cube in cubes:
        cube.remove_coord("time_counter")
        promote_aux_coord_to_dim_coord(cube, "time")
    cubes = cubes.concatenate()
found = {}
for number, cube in enumerate(cubes):
    dims = [(cube.coords(dimensions=d, dim_coords=True) or [None])[0] for d in range(cube.ndim)]
    dims = [f"-{d}" if c is None else c.name() for d, c in enumerate(dims)]
    found[f"{number}|{cube.name()}|{','.join(dims)}"] = np.ma.filled(cube.data, np.nan)
    for one in cube.coords(dimensions=None):
        spans = ",".join(dims[d] for d in cube.coord_dims(one))
        found[f"{number}|{one.name()}|{spans}|points"] = one.points
        if one.has_bounds():
            found[f"{number}|{one.name()}|{spans}|bounds"] = one.bounds
np.savez(sys.argv[1], **found)
"""


@pytest.fixture(scope="module")
def simulations() -> dict[Path, list[Path]]:
    """Return the files of each simulation that has two or more."""
    packages.install()
    found = defaultdict(list)
    for path in packages.files("esmvaltool_sample_data"):
        found[path.parent].append(path)
    return {folder: paths for folder, paths in found.items() if len(paths) > 1}


@pytest.fixture(scope="module")
def samples() -> Path:
    packages.install()
    return packages.HERE / "iris_sample_data" / "sample_data"


def concatenated(paths: list[Path]) -> xr.Dataset:
    """Return what xarray makes of files that follow each other in time.

    Where files declare no missing value, xarray takes netCDF's default for a number; the netCDF library and we do not.
    """
    opened = [xr.open_dataset(p, decode_times=DATES) for p in paths]
    same: Any = {"data_vars": "minimal", "coords": "minimal", "compat": "equals", "combine_attrs": "drop_conflicts"}
    found = xr.concat(opened, "time", **same)
    assert found["ta"].dtype == "f4"
    return found.assign(ta=found["ta"].where(found["ta"] != np.float32(netCDF4.default_fillvals["f4"])))


def assert_same(found: xr.DataArray, wanted: xr.DataArray) -> None:
    """Compare values, dimensions, coordinates and attributes; numbers of coordinates may differ, names not."""
    xr.testing.assert_equal(found.reset_coords(drop=True), wanted.reset_coords(drop=True))
    assert found.dtype == wanted.dtype
    assert set(found.coords) == set(wanted.coords)
    for name in ("", *wanted.coords):
        a, b = (one.coords[name] if name else one for one in (found, wanted))
        xr.testing.assert_equal(a.reset_coords(drop=True), b.reset_coords(drop=True))
        assert a.attrs == b.attrs, name


def test_the_simulations_are_as_many_as_are_known(simulations: dict[Path, list[Path]]) -> None:
    assert (len(simulations), sum(map(len, simulations.values()))) == (39, 289)


def test_each_simulation_is_one_variable_equal_to_that_of_xarray(simulations: dict[Path, list[Path]]) -> None:
    for folder, paths in simulations.items():
        wanted = concatenated(paths)
        with cfagg.aggregate(paths, decode_times=DATES) as found:
            assert set(found.variables) == set(wanted.variables), folder
            assert found.sizes == wanted.sizes, folder
            assert_same(found["ta"], wanted["ta"])
            for name in ("time_bnds", "lat_bnds", "lon_bnds"):
                xr.testing.assert_equal(found[name].variable, wanted[name].variable)
            np.testing.assert_equal({k: v for k, v in found.attrs.items() if k in wanted.attrs}, wanted.attrs)


def test_files_in_any_order_are_the_same_array(simulations: dict[Path, list[Path]]) -> None:
    for paths in simulations.values():
        with cfagg.aggregate(paths[::-1], decode_times=DATES) as found:
            xr.testing.assert_equal(found["ta"].variable, concatenated(paths)["ta"].variable)


def test_all_simulations_together_are_a_variable_each(simulations: dict[Path, list[Path]]) -> None:
    together = [path for paths in simulations.values() for path in paths]
    with cfagg.aggregate(together, decode_times=DATES) as found:
        named = [f"ta_{i}" if i else "ta" for i in range(len(simulations))]
        assert [name for name in found.data_vars if str(name).startswith("ta")] == named
        for name, (folder, paths) in zip(named, simulations.items(), strict=True):
            wanted = concatenated(paths)["ta"]
            assert found[name].shape == wanted.shape, folder
            np.testing.assert_array_equal(found[name].values, wanted.values, err_msg=str(folder))
            for own, other in zip(found[name].dims, wanted.dims, strict=True):
                np.testing.assert_array_equal(found[name][own].values, wanted[other].values, err_msg=str(folder))


def test_all_simulations_written_to_one_file_are_read_as_they_were(
    simulations: dict[Path, list[Path]], tmp_path: Path
) -> None:
    together = [path for paths in simulations.values() for path in paths]
    with cfagg.aggregate(together, output=tmp_path / "all.nc", decode_times=DATES) as found:
        written = cfagg.read(tmp_path / "all.nc", allow=[packages.HERE], decode_times=DATES)
        assert set(written.variables) == set(found.variables)
        for name in found.variables:
            xr.testing.assert_equal(written[name].variable, found[name].variable)


def cubes(paths: list[Path], folder: Path) -> list[dict[str, Any]]:
    """Return what iris makes of files: of each cube its name, and with their dimensions its values and coordinates."""
    python = peer_python("iris", install=True)
    out = folder / "cubes.npz"
    subprocess.run([str(python), "-c", LOADED, str(out), *map(str, paths)], check=True, capture_output=True)
    found: dict[str, dict[str, Any]] = defaultdict(dict)
    for key, values in np.load(out).items():
        number, name, dims, *what = key.split("|")
        spans = tuple(filter(None, dims.split(",")))
        if what:
            found[number][f"{name} {what[0]}"] = spans, values
        else:
            found[number] |= {"name": name, "": (spans, values)}
    return list(found.values())


def assert_as_cube(found: xr.Dataset, name: str, cube: dict[str, Any], names: dict[str, str] | None = None) -> None:
    """Compare a variable and its coordinates with a cube, whatever the order of dimensions; `names`: ours of theirs."""
    names = names or {}
    data = found[name]
    dims, values = cube[""]
    own = [names.get(d, d) for d in dims]
    np.testing.assert_array_equal(data.transpose(*own).values, values)
    for key, (spans, wanted) in ((k, v) for k, v in cube.items() if k not in ("", "name")):
        coordinate, what = key.split()
        array = data.coords[names.get(coordinate, coordinate)]
        if what == "bounds":
            array = found[array.attrs.get("bounds") or array.encoding["bounds"]]
        own = [names.get(d, d) for d in spans]
        rest = [d for d in array.dims if d not in own]
        ours = array.transpose(*(d for d in own if d in array.dims), *rest).values
        # What does not vary along a dimension may lack it here.
        shape = [data.sizes[d] if d in array.dims else 1 for d in own]
        np.testing.assert_allclose(
            np.broadcast_to(
                ours.reshape(*shape, *ours.shape[len(ours.shape) - len(rest) :]) if own else ours, wanted.shape
            ),
            wanted,
            rtol=1e-6,
            err_msg=key,
        )


def raw(paths: list[Path]) -> xr.Dataset:
    """Return files as one dataset, times as numbers."""
    return cfagg.aggregate(paths, decode_times=False)


def test_120_months_of_sea_ice_are_one_array_as_in_iris(samples: Path, tmp_path: Path) -> None:
    paths = sorted(samples.glob("UM/*.pp"))
    (cube,) = cubes(paths, tmp_path)
    with raw(paths[::-1]) as found:
        assert len(paths) == found.sizes["time"] == 120
        assert [n for n in found.data_vars if "bounds" not in str(n)] == ["northward_sea_ice_velocity"]
        assert_as_cube(found, "northward_sea_ice_velocity", cube)


def test_an_ensemble_of_seasonal_forecasts_is_as_in_iris(samples: Path, tmp_path: Path) -> None:
    # Four files say no realization, two of each reference time: iris takes them in pairs, in the order of files.
    # Nothing in them says which belong together, so here they stay apart.
    paths = sorted(samples.glob("GloSea4/*.pp"))
    *pairs, whole = sorted(cubes(paths, tmp_path), key=lambda cube: "realization" in cube[""][0])
    with raw(paths) as found:
        data = [found[n] for n in found.data_vars if str(n).startswith("surface_temperature")]
        (ensemble,) = (d for d in data if "realization" in d.dims)
        named = {str(n).rstrip("_0123456789"): str(n) for n in (*ensemble.dims, *ensemble.coords)}
        assert_as_cube(found, str(ensemble.name), whole, named)
        loose = [values[:, k] for cube in pairs for values in (cube[""][1],) for k in (0, 1)]
        alone = [d.values for d in data if d.name != ensemble.name]
        assert len(loose) == len(alone) == 4
        assert all(any(np.array_equal(a, b) for b in alone) for a in loose)


def test_months_of_heights_that_vary_in_time_are_as_in_iris(samples: Path, tmp_path: Path) -> None:
    paths = sorted(samples.glob("time_varying_hybrid_height/*.pp"))
    loaded = {cube["name"]: cube for cube in cubes(paths, tmp_path)}
    with raw(paths) as found:
        wind, height = found["eastward_wind"], found["surface_altitude"]
        for data, cube in ((wind, loaded["x_wind"]), (height, loaded["surface_altitude"])):
            dims = [next(str(d) for d in data.dims if str(d).startswith(name)) for name in cube[""][0]]
            np.testing.assert_array_equal(data.transpose(*dims).values, cube[""][1])
            np.testing.assert_array_equal(data["time"].values, cube["time points"][1])


def test_months_of_an_ocean_model_are_one_array_as_in_iris(samples: Path, tmp_path: Path) -> None:
    paths = sorted(samples.glob("NEMO/*.nc"))
    (cube,) = cubes(paths, tmp_path)
    with raw(paths[::-1]) as found:
        values = np.where(found["tos"] == found["tos"], found["tos"], np.nan)
        np.testing.assert_array_equal(values, cube[""][1])
        for name, theirs in (("time_centered", "time"), ("nav_lat", "latitude"), ("nav_lon", "longitude")):
            np.testing.assert_allclose(found[name].values.ravel(), cube[f"{theirs} points"][1].ravel(), rtol=1e-6)
        for name, theirs in (("time_centered_bounds", "time"), ("bounds_lat", "latitude"), ("bounds_lon", "longitude")):
            np.testing.assert_allclose(found[name].values.ravel(), cube[f"{theirs} bounds"][1].ravel(), rtol=1e-6)
