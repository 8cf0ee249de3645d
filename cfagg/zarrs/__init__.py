"""Zarr arrays on this machine: their metadata, chunks one at a time, and the stamps of what is stored."""

from cfagg.zarrs.chunks import chunk_bytes, full_chunk, partial, read_box, read_chunk
from cfagg.zarrs.metadata import ZarrArray, open_array
from cfagg.zarrs.stamps import compare, digest, stamps

__all__ = [
    "ZarrArray",
    "chunk_bytes",
    "compare",
    "digest",
    "full_chunk",
    "open_array",
    "partial",
    "read_box",
    "read_chunk",
    "stamps",
]
