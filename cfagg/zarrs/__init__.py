"""Zarr arrays as files: metadata, chunks and their time stamps, read without the costs per chunk of a library."""
