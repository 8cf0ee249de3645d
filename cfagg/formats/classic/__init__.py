"""Classic netCDF files (CDF-1, CDF-2 and CDF-5): one parser of their header, for values and for metadata."""
