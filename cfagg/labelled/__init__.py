"""The xarray interface for a single path: its engine, data store and lazy arrays."""
