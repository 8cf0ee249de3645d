"""Converting aggregations and netCDF files to Zarr stores."""

from __future__ import annotations

from cfagg.conversion.converting import convert
from cfagg.conversion.report import Report

__all__ = ["Report", "convert"]
