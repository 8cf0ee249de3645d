"""The formats of fragments as aggregations name them, and addresses of fields."""

from __future__ import annotations

from cfagg.model import Partitions

__all__ = ["field_at", "is_field", "is_read"]

#: Values of `format` that the netCDF readers support.
_NETCDF = frozenset(
    {"netcdf", "netcdf3", "netcdf4", "netcdf-3", "netcdf-4", "nc", "nc3", "nc4", "nca", "hdf5", "netcdf4_classic"}
    | {"netcdf3_classic", "netcdf3_64bit", "netcdf3_64bit_offset", "netcdf3_64bit_data"}
)

#: The same for PP files and fields files.
_FIELDS = frozenset({"pp", "um", "ff"})


def is_field(format_: str | None) -> bool:
    """Return whether the name of a format in an aggregation means fields, which are found by address."""
    return format_ is not None and format_.lower() in _FIELDS


def field_at(partitions: Partitions, i: int) -> int:
    """Return the address of the field of partition `i`, or -1 if it gives none."""
    at, text = int(partitions.offset[i]), partitions.address_name(i)
    return int(text) if at < 0 and text is not None and text.isdecimal() and len(text) < 20 else at


def is_read(format_: str) -> bool:
    """Return whether fragments in a format, as named in an aggregation, can be read."""
    return format_.lower() in _NETCDF or is_field(format_)
