"""Many files of one array, to be aggregated: netCDF-4 as models write them, and small netCDF and PP files."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import h5py
import netCDF4
import numpy as np

__all__ = ["H5PY_KINDS", "by_h5py", "climate", "small_netcdf", "small_pp"]

HOME = Path(__file__).resolve().parents[2] / ".bench" / "aggregate"

#: Variables of a file: name, standard name, units.
VARIABLES = (
    ("tas", "air_temperature", "K"),
    ("pr", "precipitation_flux", "kg m-2 s-1"),
    ("ps", "surface_air_pressure", "Pa"),
    ("huss", "specific_humidity", "1"),
)

_CHUNKED: dict[str, Any] = {"chunks": (1, 18, 36), "compression": "gzip", "compression_opts": 1}

#: How h5py writes files: the oldest HDF5 library that reads them, and how values are stored.
H5PY_KINDS: dict[str, tuple[Any, dict[str, Any]]] = {
    "old groups": ("earliest", _CHUNKED),
    "fixed arrays": (("v110", "v110"), _CHUNKED),
    "extensible arrays": (("v110", "v110"), {**_CHUNKED, "maxshape": (None, 36, 72)}),
    "version 2 trees": (("v110", "v110"), {**_CHUNKED, "maxshape": (None, None, 72)}),
    "contiguous": (("v110", "v110"), {}),
}


def climate(n: int) -> list[str]:
    """Return files of a day each, of four compressed variables of 36 by 72 with bounds; they are written once."""
    home, rng = _home(f"climate-{n}"), np.random.default_rng(1)
    for i, path in _missing(home, n, "nc"):
        with netCDF4.Dataset(path, "w") as root:
            root.setncatts({"Conventions": "CF-1.8", "title": "test", "history": f"written {i}"})
            for name, size in (("time", None), ("lat", 36), ("lon", 72), ("bnds", 2)):
                root.createDimension(name, size)
            _coordinate(root, "time", "time", "days since 2000-01-01", [i + 0.5], bounds="time_bnds")
            root.createVariable("time_bnds", "f8", ("time", "bnds"))[:] = [[i, i + 1]]
            _coordinate(root, "lat", "latitude", "degrees_north", np.linspace(-87.5, 87.5, 36))
            _coordinate(root, "lon", "longitude", "degrees_east", np.arange(72) * 5.0)
            for name, standard_name, units in VARIABLES:
                made = root.createVariable(name, "f4", ("time", "lat", "lon"), zlib=True, fill_value=1e20)
                made.setncatts({"standard_name": standard_name, "units": units, "cell_methods": "time: mean"})
                made[0] = rng.normal(size=(36, 72)).astype("f4")
    return _files(home, n, "nc")


def by_h5py(n: int, kind: str) -> list[str]:
    """Return netCDF-4 files of the same variables, four times each, as h5py writes them; they are written once."""
    home, rng = _home(f"h5py-{kind}-{n}".replace(" ", "-")), np.random.default_rng(1)
    version, how = H5PY_KINDS[kind]
    sizes = {"time": 4, "lat": 36, "lon": 72}
    for i, path in _missing(home, n, "nc"):
        with h5py.File(path, "w", libver=version) as root:
            for name, size in sizes.items():
                root.create_dataset(name, data=np.arange(size) + float(i)).make_scale(name)
            for name, standard_name, units in VARIABLES:
                made = root.create_dataset(name, data=rng.normal(size=(4, 36, 72)).astype("f4"), **how)
                made.attrs.update(standard_name=standard_name, units=units)
                for axis, dimension in enumerate(sizes):
                    made.dims[axis].attach_scale(root[dimension])
    return _files(home, n, "nc")


def _coordinate(root: netCDF4.Dataset, name: str, standard_name: str, units: str, values: object, **more: str) -> None:
    made = root.createVariable(name, "f8", (name,))
    made.setncatts({"standard_name": standard_name, "units": units, **more})
    made[:] = values


def small_netcdf(n: int) -> list[str]:
    """Return files of 3 by 4 values each, copies of one with the time and the values in their places."""
    home = _home("small-nc")
    model, marks = home / "model", (987654321.5, np.arange(12, dtype="f4") - 98765.0)
    with netCDF4.Dataset(model, "w") as root:
        root.Conventions = "CF-1.8"
        for name, size in (("time", 1), ("lat", 3), ("lon", 4)):
            root.createDimension(name, size)
        _coordinate(root, "time", "time", "days since 2000-01-01", [marks[0]])
        _coordinate(root, "lat", "latitude", "degrees_north", [10.0, 20.0, 30.0])
        _coordinate(root, "lon", "longitude", "degrees_east", [0.0, 90.0, 180.0, 270.0])
        tas = root.createVariable("tas", "f4", ("time", "lat", "lon"))
        tas.setncatts({"standard_name": "air_temperature", "units": "K"})
        tas[0] = marks[1].reshape(3, 4)
    content = model.read_bytes()
    time, values = (content.index(np.asarray(mark).tobytes()) for mark in marks)
    for i, path in _missing(home, n, "nc"):
        own = bytearray(content)
        own[time : time + 8] = struct.pack("<d", i)
        own[values : values + 48] = (np.arange(12, dtype="<f4") + i).tobytes()
        path.write_bytes(own)
    return _files(home, n, "nc")


def small_pp(n: int) -> list[str]:
    """Return PP files of one field of 3 by 4 values each, one for each day of a calendar of 360 days."""
    home = _home("small-pp")
    for i, path in _missing(home, n, "pp"):
        words, reals = np.zeros(45, ">i4"), np.zeros(19, ">f4")
        year, day = divmod(i, 360)
        words[[0, 1, 2, 3]] = 1900 + year, 1 + day // 30, 1 + day % 30, 12
        # LBTIM, LBLREC, LBCODE, LBROW, LBNPT, LBREL, LBFC, LBUSER1, LBUSER4, LBUSER7
        words[[12, 14, 15, 17, 18, 21, 22, 38, 41, 44]] = 2, 12, 1, 3, 4, 3, 16, 1, 24, 1
        # BMDI, BMKS, BPLAT, BZY, BDY, BZX, BDX
        reals[[17, 18, 10, 13, 14, 15, 16]] = -1e30, 1, 90, -10, 10, -90, 90
        values = (np.arange(12) + i).astype(">f4")
        header = words.tobytes() + reals.tobytes()
        path.write_bytes(_record(header) + _record(values.tobytes()))
    return _files(home, n, "pp")


def _record(content: bytes) -> bytes:
    length = struct.pack(">i", len(content))
    return length + content + length


def _home(name: str) -> Path:
    home = HOME / name
    home.mkdir(parents=True, exist_ok=True)
    return home


def _missing(home: Path, n: int, suffix: str) -> list[tuple[int, Path]]:
    """Return the numbers and paths of files that are not there yet."""
    there = {p.name for p in home.iterdir()}
    return [(i, home / f"f{i:05d}.{suffix}") for i in range(n) if f"f{i:05d}.{suffix}" not in there]


def _files(home: Path, n: int, suffix: str) -> list[str]:
    return [str(home / f"f{i:05d}.{suffix}") for i in range(n)]
