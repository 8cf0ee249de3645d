"""Small aggregations with known values."""

import json

import netCDF4
import numpy as np
import pytest

LAT, LON = 4, 6


def write_fragment(path, values, *, dtype="f4", fill=None, chunks=None, attributes=None, lat=LAT, lon=LON):
    """One file with stored `values` (time, lat, lon) as they are."""
    with netCDF4.Dataset(path, "w") as nc:
        for dim, size in (("time", len(values)), ("lat", lat), ("lon", lon)):
            nc.createDimension(dim, size)
        v = nc.createVariable("tas", dtype, ("time", "lat", "lon"), fill_value=fill, zlib=True, chunksizes=chunks)
        v.set_auto_maskandscale(False)
        v.setncatts({"units": "K", **(attributes or {})})
        v[:] = values


def write_aggregation(path, sizes, *, dtype="f4", attributes=None, lat=LAT, lon=LON, name="part"):
    """An aggregation along time of files `name`0.nc, `name`1.nc, … with so many steps each."""
    edges = np.concatenate([[0], np.cumsum(sizes)]).tolist()
    partitions = [
        {
            "index": [i],
            "location": [[edges[i], edges[i + 1]], [0, lat], [0, lon]],
            "data": {"file": f"{name}{i}.nc", "ncvar": "tas", "shape": [n, lat, lon]},
        }
        for i, n in enumerate(sizes)
    ]
    directions = dict.fromkeys(("time", "lat", "lon"), True)
    array = {"directions": directions, "pdimensions": ["time"], "pshape": [len(sizes)], "Partitions": partitions}
    with netCDF4.Dataset(path, "w") as nc:
        nc.setncatts({"Conventions": "CF-1.5 NCA", "title": "test"})
        for dim, size in (("time", edges[-1]), ("lat", lat), ("lon", lon), ("bnds", 2), ("private_dim", 3)):
            nc.createDimension(dim, size)
        t = nc.createVariable("time", "f8", ("time",))
        t.setncatts({"units": "days since 2000-01-01", "calendar": "standard", "bounds": "time_bnds"})
        t[:] = np.arange(edges[-1]) + 0.5
        nc.createVariable("time_bnds", "f8", ("time", "bnds"))[:] = np.arange(edges[-1])[:, None] + [0, 1]
        nc.createVariable("lat", "f8", ("lat",))[:] = np.linspace(-90, 90, lat)
        nc.createVariable("lon", "f8", ("lon",))[:] = np.arange(lon)
        nc.createVariable("hidden", "i4", ("private_dim",)).nca_private = np.int32(1)
        v = nc.createVariable("tas", dtype, ())
        v.setncatts({"units": "K", "long_name": "temperature", "cell_methods": "time: mean", **(attributes or {})})
        v.nca_dimensions = "time lat lon"
        v.nca_array = json.dumps(array)
    return path


@pytest.fixture
def floats(tmp_path):
    """An aggregation of floats in three files of 5, 5 and 2 steps, and its values."""
    values = np.random.default_rng(1).normal(280, 10, (12, LAT, LON)).astype("f4")
    values[3, 1] = -999
    for i, (a, b) in enumerate([(0, 5), (5, 10), (10, 12)]):
        write_fragment(tmp_path / f"part{i}.nc", values[a:b], fill=np.float32(-999), chunks=(2, LAT, LON))
    path = write_aggregation(tmp_path / "floats.nca", [5, 5, 2], attributes={"missing_value": np.float32(-999)})
    return path, values


def write_packed(folder, packings, *, dtype="i2", fill=-32768):
    """Files of 3 steps each, packed with these (scale, offset); return the aggregation and the stored integers."""
    stored = np.random.default_rng(2).integers(-1000, 1000, (3 * len(packings), LAT, LON)).astype(dtype)
    stored[1, 2, 3] = fill
    for i, (scale, offset) in enumerate(packings):
        attributes = {"scale_factor": scale, "add_offset": offset}
        write_fragment(folder / f"part{i}.nc", stored[3 * i : 3 * i + 3], dtype=dtype, fill=fill, attributes=attributes)
    return write_aggregation(folder / "packed.nca", [3] * len(packings)), stored
