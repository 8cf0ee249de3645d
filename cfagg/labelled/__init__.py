"""The face of xarray for one path: its engine, its data store, its lazy arrays."""
