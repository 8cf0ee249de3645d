"""Fragments of one aggregation in many forms, and aggregation files that refer to them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import netCDF4
import numpy as np

import cfagg
from cfagg.model import Aggregation, Grid, Layout, Partitions

LAT = 20


def values_of(lengths: Sequence[int]) -> np.ndarray:
    return np.random.default_rng(0).normal(280, 10, (sum(lengths), LAT, 30)).astype("f4")


def fragment(path: Path, values: np.ndarray, *, form: str = "NETCDF4", dims: Sequence[str] = ("time", "lat", "lon"),
             attributes: dict[str, Any] | None = None, unlimited: bool = False, **options: Any) -> None:  # fmt: skip
    """Write one file with a variable ``tas``."""
    with netCDF4.Dataset(path, "w", format=form) as file:
        for dim, n in zip(dims, values.shape, strict=True):
            file.createDimension(dim, None if unlimited and dim == "time" else n)
        endian = options.pop("endian", "native")
        fill = options.pop("fill_value", None)
        dtype = values.dtype.newbyteorder({"big": ">"}.get(endian, "="))
        made = file.createVariable("tas", dtype, dims, endian=endian, fill_value=fill, **options)
        made.setncatts({"units": "K", **(attributes or {})})
        made.set_auto_maskandscale(False)
        made[:] = values


def aggregate(path: Path, names: Sequence[str], lengths: Sequence[int], *, dtype: str = "f4",
              attributes: dict[str, Any] | None = None, layouts: Sequence[Layout] | None = None,
              columns: dict[str, Any] | None = None,
    to: str = "CFA-0.4") -> Path:  # fmt: skip
    """Write an aggregation of files along time, with its coordinates."""
    grid = Grid.from_sizes([lengths, [LAT], [30]])
    held = {"file": np.arange(len(names)), "files": list(names), "address": 0, "addresses": ["tas"],
            "layouts": layouts or [Layout(("time", "lat", "lon"))], **(columns or {})}  # fmt: skip
    partitions = Partitions.build(grid.size, **held)
    one = Aggregation("tas", ("time", "lat", "lon"), grid.shape, np.dtype(dtype), grid, partitions, "K")
    one = replace(one, attributes={"standard_name": "air_temperature", **(attributes or {})}, source=str(path))
    cfagg.write(one, path, to=to)
    with netCDF4.Dataset(path, "a") as file:
        time = file.createVariable("time", "f8", ("time",))
        time.units, time.calendar, time.standard_name = "days since 2000-01-01", "360_day", "time"
        time[:] = np.arange(sum(lengths)) + 0.5
        lat = file.createVariable("lat", "f8", ("lat",))
        lat.units = "degrees_north"
        lat[:] = np.linspace(-80, 80, LAT)
        label = file.createVariable("experiment", str, ())
        label[...] = np.array("historical", object)
    return path


def series(folder: Path, lengths: Sequence[int] = (12, 12, 12), write: Callable[..., None] = fragment,
           **options: Any) -> tuple[Path, np.ndarray]:  # fmt: skip
    """Write files of one form and their aggregation; return its path and all values."""
    values, names, at = values_of(lengths), [], 0
    for k, n in enumerate(lengths):
        write(folder / f"tas {k}.nc", values[at : at + n], **options)
        names.append(f"tas {k}.nc")
        at += n
    return aggregate(folder / "tas.nc", names, lengths), values


def packed_series(folder: Path, values: np.ndarray, packings: list[dict[str, Any]]) -> Path:
    names = []
    for k, packing in enumerate(packings):
        others = {n: v for n, v in packing.items() if n != "_FillValue"}
        fill = packing.get("_FillValue")
        fragment(folder / f"p{k}.nc", values[12 * k : 12 * k + 12], attributes=others, fill_value=fill, zlib=True,
                 chunksizes=(12, 20, 30))  # fmt: skip
        names.append(f"p{k}.nc")
    return aggregate(folder / "tas.nc", names, [12] * len(packings), dtype="f8")
