"""Converting aggregations and netCDF files to Zarr stores."""

from __future__ import annotations

from cfagg.conversion.converting import Report, convert

__all__ = ["Report", "convert"]
