"""Files and stores of which the study of scale measures what a file and a chunk cost."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import netCDF4
import numpy as np
import numpy.typing as npt
import zarr

from cfagg.formats.zarr.creating import NewArray, array_documents, group_documents, write_documents
from cfagg.formats.zarr.written_codecs import Codec

__all__ = ["SMALL", "large", "long_store", "netcdf_files", "small_store"]

#: Elements of a small chunk, which is 1 KiB.
SMALL = 256


def small_store(path: Path, n: int, codec: str) -> None:
    """Write an array of small chunks, without the help of what is measured."""
    made = Codec(codec)
    new = NewArray(("time",), (SMALL * n,), np.dtype("f4"), (SMALL,), np.nan, made, {"units": "K"})
    (path / "v/c").mkdir(parents=True)
    write_documents(path, group_documents({}, 3))
    write_documents(path / "v", array_documents(new, 3))
    encode, random = made.encoder(), np.random.default_rng(0)
    for i in range(n):
        values = np.round(random.normal(280, 10, SMALL), 1).astype("f4")
        (path / f"v/c/{i}").write_bytes(encode(values))


def long_store(path: Path, lengths: npt.NDArray[np.int64]) -> int:
    """Write the metadata of a group whose steps are in chunks of these lengths, the last of 1, and its coordinate.

    Return the number of steps.
    """
    n, last = int(lengths.sum()), len(lengths) - 1
    codec = Codec("zstd")
    for name, tail in (("v", (SMALL,)), ("time", ())):
        dims = ("time", "x")[: 1 + len(tail)]
        dtype = np.dtype("f4" if tail else "f8")
        edges = [lengths, *([k] for k in tail)]
        attributes = {"units": "K"} if tail else {"units": "days since 1950-01-01"}
        new = NewArray(dims, (n, *tail), dtype, edges, np.nan, codec, attributes)
        (path / name / "c").mkdir(parents=True)
        write_documents(path / name, array_documents(new, 3))
    write_documents(path, group_documents({}, 3))
    (path / f"time/c/{last}").write_bytes(codec.encoder()(np.array([n - 1.0])))
    return n


def netcdf_files(here: Path, n: int) -> list[Path]:
    """Write netCDF files of one time step each."""
    here.mkdir()
    for i in range(n):
        with netCDF4.Dataset(here / f"{i:06d}.nc", "w") as file:
            file.createDimension("time", None)
            file.createDimension("x", SMALL)
            time_ = file.createVariable("time", "f8", ("time",))
            time_.setncatts({"calendar": "standard", "units": "days since 2000-01-01", "standard_name": "time"})
            time_[:] = [i]
            x = file.createVariable("x", "f8", ("x",))
            x.setncatts({"units": "degrees_east", "standard_name": "longitude"})
            x[:] = np.arange(SMALL)
            v = file.createVariable("v", "f4", ("time", "x"), zlib=True, complevel=1)
            v.setncatts({"units": "K", "standard_name": "air_temperature"})
            v[:] = np.full((1, SMALL), 280 + i % 10, "f4")
    return sorted(here.iterdir())


def large(here: Path) -> tuple[Path, Path, int]:
    """Write 64 MB of noisy values in chunks of 4 MB: single fields as deflated netCDF-4, columns as Zarr with zstd."""
    shape = (16, 1000, 1000)
    random = np.random.default_rng(0)
    values = np.round(280 + np.cumsum(random.normal(0, 0.1, shape), axis=2), 2).astype("f4")
    with netCDF4.Dataset(here / "large.nc", "w") as file:
        for name, size in zip(("time", "y", "x"), shape, strict=True):
            file.createDimension(name, size)
        options: dict[str, Any] = {"zlib": True, "complevel": 1, "shuffle": True, "chunksizes": (1, *shape[1:])}
        file.createVariable("v", "f4", ("time", "y", "x"), **options)[:] = values
    group = zarr.open_group(here / "large.zarr", mode="w", zarr_format=3)
    made = group.create_array("v", shape=shape, dtype="f4", chunks=(16, 250, 250), dimension_names=("time", "y", "x"))
    made[...] = values
    return here / "large.nc", here / "large.zarr", values.nbytes
