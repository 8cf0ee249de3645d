"""Lossless export and import of tables of observations."""

from __future__ import annotations

from cfagg.observations.exchange.netcdf_read import import_netcdf
from cfagg.observations.exchange.netcdf_write import export_netcdf
from cfagg.observations.exchange.parquet import export_parquet, import_parquet

__all__ = ["export_netcdf", "export_parquet", "import_netcdf", "import_parquet"]
