"""Observations: irregular data on Zarr, any window of them."""
