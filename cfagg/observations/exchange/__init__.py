"""Observations in other files: CF discrete sampling geometries in netCDF, and Parquet."""
