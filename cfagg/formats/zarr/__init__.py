"""Local Zarr arrays: their metadata, chunks one at a time, and stamps and checksums of stored objects."""

from cfagg.formats.zarr.checksums import checksum, object_checksum
from cfagg.formats.zarr.chunks import chunk_bytes, partial, read_box, read_chunk
from cfagg.formats.zarr.metadata import ZarrArray, open_array
from cfagg.formats.zarr.stamps import compare, stamps

__all__ = [
    "ZarrArray",
    "checksum",
    "chunk_bytes",
    "compare",
    "object_checksum",
    "open_array",
    "partial",
    "read_box",
    "read_chunk",
    "stamps",
]
