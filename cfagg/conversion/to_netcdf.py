"""Converting to netCDF-4."""

from __future__ import annotations

import os

from cfagg.conversion.report import Report
from cfagg.conversion.request import Request
from cfagg.errors import OptionError

__all__ = ["write_netcdf"]


def write_netcdf(request: Request) -> Report:
    """Write what `request.open()` gives to `request.target`."""
    raise OptionError(
        f"{os.fspath(request.target)} would be plain netCDF-4, which cannot be written yet; name a Zarr store, "
        "for instance x.zarr, or say which aggregation file is meant, such as to='CF-1.13' (--to CF-1.13)"
    )
