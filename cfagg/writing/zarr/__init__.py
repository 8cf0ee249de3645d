"""New Zarr stores, and stores that grow."""
