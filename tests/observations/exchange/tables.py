"""Tables for the tests of exports, and a reading of chapter 9 of the CF conventions."""

from __future__ import annotations

from pathlib import Path

import netCDF4
import numpy as np

from cfagg.observations.exchange.table import Table
from cfagg.observations.merging import sort_unique

ATTRIBUTES = {
    "t2m": {"units": "K", "standard_name": "air_temperature", "levels": {"of": [1, 2]}, "precision": 0.5},
    "wind/speed": {"units": "m s-1", "standard_name": "wind_speed"},
    "depth": {"units": "m", "standard_name": "depth", "axis": "Z"},
}
ABOUT = {"title": "Reports", "licence": "CC0-1.0", "recipe": {"dates": {"start": 2020}, "input": [{"csv": None}]}}

#: Forms of netCDF files, with their options.
WAYS = [
    ("point", {}),
    ("indexed", {}),
    ("contiguous", {}),
    ("indexed", {"by": "id"}),
    ("contiguous", {"by": "id"}),
    ("contiguous", {"by": "id", "feature": "trajectory", "vertical": "depth"}),
]


def table(rows: int = 500, *, stations: int = 7, move: bool = False, seed: int = 0) -> Table:
    """Return reports of stations, sorted as in a store, with NaN, infinities and the smallest number."""
    random = np.random.default_rng(seed)
    station = random.integers(0, stations, rows)
    places = random.uniform((-90, 0), (90, 359), (stations, 2)).astype("f4")[station]
    if move:
        places[:, 0] = np.clip(places[:, 0] + random.integers(-3, 3, rows), -90, 90)
    seconds = random.integers(-3, 4 * 86400, rows) // 600 * 600
    days = np.stack([seconds // 86400, seconds % 86400], axis=1) + np.array([18262, 0])
    values = random.normal(280, 10, (rows, 4)).astype("f4")
    values[random.random((rows, 4)) < 0.1] = np.nan
    values[: min(rows, 3), 1] = [np.inf, -np.inf, np.float32(1e-45)][: min(rows, 3)]
    columns = np.concatenate([days, places, station[:, None] * 10 + 3, values], axis=1).astype("f4")
    names = ["id", "t2m", "wind/speed", "depth", "time"]
    return Table.of_rows("reports.zarr", names, sort_unique(columns), ATTRIBUTES, ABOUT)


def check_geometry(path: Path) -> None:
    """Assert what chapter 9 of the CF conventions asks of a discrete sampling geometry."""
    with netCDF4.Dataset(path) as file:
        file.set_auto_maskandscale(False)
        assert file.Conventions.startswith("CF-1.")
        assert file.featureType in ("point", "timeSeries", "trajectory", "profile")
        roles = [v for v in file.variables.values() if "cf_role" in v.ncattrs()]
        counts = [v for v in file.variables.values() if "sample_dimension" in v.ncattrs()]
        indexes = [v for v in file.variables.values() if "instance_dimension" in v.ncattrs()]
        if file.featureType == "point":
            assert not roles
            assert not counts
            assert not indexes
            instance = None
        else:
            (role,) = roles
            (instance,) = role.dimensions
            assert role.cf_role == f"{file.featureType.lower()}_id"
            assert len(counts) + len(indexes) == 1
            assert len(np.unique(role[:])) == len(role[:])
            for v in counts:
                assert (v.dimensions, v.sample_dimension) == ((instance,), "obs")
                assert v[:].sum() == len(file.dimensions["obs"])
                assert v[:].min() >= 0
            for v in indexes:
                assert (v.dimensions, v.instance_dimension) == (("obs",), instance)
                assert v[:].min() >= 0
                assert v[:].max() < len(file.dimensions[instance])
        spatial = {"point": "obs", "timeSeries": instance, "trajectory": "obs", "profile": instance}[file.featureType]
        assert file["time"].dimensions == ((instance if file.featureType == "profile" else "obs"),)
        for name in ("latitude", "longitude"):
            assert file[name].dimensions == (spatial,)
            assert file[name].units == {"latitude": "degrees_north", "longitude": "degrees_east"}[name]
            assert file[name].standard_name == name
        vertical = [n for n, v in file.variables.items() if "positive" in v.ncattrs()]
        assert bool(vertical) or file.featureType != "profile"
        own = {"time", "latitude", "longitude", *vertical, *(v.name for v in (*roles, *counts, *indexes))}
        for name, variable in file.variables.items():
            assert name.replace("_", "a").isalnum()
            assert name[0].isalpha()
            assert {"standard_name", "long_name"} & set(variable.ncattrs())
            if name in file.dimensions:  # a coordinate variable
                assert variable.dimensions == (name,)
                assert (np.diff(variable[:]) > 0).all()
                assert "_FillValue" not in variable.ncattrs()
            if name not in own:
                assert variable.dimensions == ("obs",)
                listed = variable.coordinates.split()
                assert set(listed) == ({"time", "latitude", "longitude", *vertical} | {r.name for r in roles}) - set(
                    file.dimensions
                )
                assert all(n in file.variables for n in listed)
        names = [n.lower() for n in file.variables]
        assert len(set(names)) == len(names)
