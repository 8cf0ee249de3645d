"""Zarr arrays on this machine: their metadata, chunks one at a time, and stamps and checksums of what is stored."""

from cfagg.zarrs.checksums import checksum, object_checksum
from cfagg.zarrs.chunks import chunk_bytes, full_chunk, partial, read_box, read_chunk
from cfagg.zarrs.metadata import ZarrArray, open_array
from cfagg.zarrs.stamps import compare, stamps

__all__ = [
    "ZarrArray",
    "checksum",
    "chunk_bytes",
    "compare",
    "full_chunk",
    "object_checksum",
    "open_array",
    "partial",
    "read_box",
    "read_chunk",
    "stamps",
]
