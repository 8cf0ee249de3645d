"""Small files of consecutive months, written with netCDF4, as tests of aggregation want them."""

from __future__ import annotations

from pathlib import Path

import netCDF4
import numpy as np


def month(path: Path, number: int, *, name: str = "tas", kind: str = "NETCDF4", days: int = 2) -> Path:
    """Write a file with `days` values of a variable on a grid of 2 by 3, those of a month after others."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with netCDF4.Dataset(path, "w", format=kind) as file:
        for dim, size in (("time", None), ("lat", 2), ("lon", 3)):
            file.createDimension(dim, size)
        for dim, standard, units, values in (
            ("time", "time", "days since 2000-01-01", np.arange(days) + number * days),
            ("lat", "latitude", "degrees_north", [-45.0, 45.0]),
            ("lon", "longitude", "degrees_east", [0.0, 120.0, 240.0]),
        ):
            made = file.createVariable(dim, "f8", (dim,))
            made.standard_name, made.units = standard, units
            made[:] = values
        data = file.createVariable(name, "f4", ("time", "lat", "lon"))
        data.standard_name, data.units = "air_temperature", "K"
        data[:] = np.arange(days * 6).reshape(days, 2, 3) + 100 * number
    return path


def months(folder: Path, count: int) -> list[str]:
    """Write so many files, and return their paths."""
    return [str(month(folder / f"m{number}.nc", number)) for number in range(count)]
