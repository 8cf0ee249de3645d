"""Names that the netCDF library uses internally in HDF5 files."""

from __future__ import annotations

__all__ = ["INTERNAL", "NON_COORDINATE", "NO_VARIABLE", "stored_paths"]

#: Attributes of the library itself.
INTERNAL = frozenset(
    {
        "CLASS",
        "NAME",
        "REFERENCE_LIST",
        "DIMENSION_LIST",
        "DIMENSION_LABELS",
        "_Netcdf4Dimid",
        "_Netcdf4Coordinates",
        "_NCProperties",
        "_nc3_strict",
        "_NCCOPY",
        "_NoFill",
    }
)

#: Beginning of the NAME of a scale that is a dimension without a variable.
NO_VARIABLE = "This is a netCDF dimension but not a netCDF variable"

#: Prefix of the name of a variable that has the name of a dimension but is not its coordinate variable.
NON_COORDINATE = "_nc4_non_coord_"


def stored_paths(path: str) -> tuple[str, str]:
    """Return the paths under which the library may have stored a variable."""
    where, _, name = path.lstrip("/").rpartition("/")
    return f"{where}/{name}".lstrip("/"), f"{where}/{NON_COORDINATE}{name}".lstrip("/")
