"""Names of targets, whose suffix selects a format."""

from __future__ import annotations

import os

from cfagg.errors import OptionError
from cfagg.errors.arguments import is_one

__all__ = ["DIALECTS", "TARGETS", "check_target_name", "dialect_of", "kind_of"]

#: Conventions of aggregation files that can be written, and all kinds of targets.
DIALECTS = ("NCA-0.1", "CFA-0.4", "CFA-0.6.2", "CF-1.13")
TARGETS = (*DIALECTS, "netcdf", "zarr", "icechunk")

#: Suffixes that select the kind of a target.
_SUFFIXES = {".nca": "NCA-0.1", ".zarr": "zarr", ".icechunk": "icechunk"}

#: Suffixes of files like netCDF that select nothing, since the kind of aggregation, or of a copy, is open.
_LIKE_NETCDF = frozenset({".nc3", ".nc4", ".cdf", ".cfa", ".h5", ".hdf", ".hdf5", ".he5"})

#: Suffixes that indicate a format other than Zarr.
_OTHER_TARGETS = frozenset(
    {".nc", ".nc3", ".nc4", ".cdf", ".nca", ".cfa", ".h5", ".hdf", ".hdf5", ".he5", ".pp", ".ff", ".grib", ".grb"}
    | {".grb2", ".icechunk", ".json", ".parquet", ".csv", ".cdl", ".zip", ".tar", ".gz", ".txt", ".html", ".png"}
)


def check_target_name(target: str) -> None:
    """Refuse a target whose name indicates something other than a Zarr store.

    >>> check_target_name("tas.zarr"), check_target_name("model_v1.2")
    (None, None)
    """
    stem, suffix = _parts(target)
    if suffix in _OTHER_TARGETS:
        raise OptionError(
            f"{target} would be a Zarr store, which is a directory, but its name ends with {suffix!r}: name it, for "
            f"instance, {stem}.zarr"
        )


def kind_of(target: str, to: str | None, *, netcdf: str) -> str:
    """Return the kind of a target, from its name unless `to` gives it; `netcdf` is the kind of ``.nc``.

    >>> kind_of("a.nca", None, netcdf="CF-1.13"), kind_of("a.nc", None, netcdf="CF-1.13"), kind_of("a", None, netcdf="")
    ('NCA-0.1', 'CF-1.13', 'zarr')
    >>> kind_of("a.nc", "CFA-0.4", netcdf="CF-1.13")
    'CFA-0.4'
    """
    if to is not None and not is_one(to, TARGETS):
        raise OptionError(f"to={to!r} is not one of {', '.join(map(repr, TARGETS))}")
    stem, suffix = _parts(target)
    said = _SUFFIXES.get(suffix)
    if to is None:
        if suffix == ".nc":
            return netcdf
        if said is None and suffix in _OTHER_TARGETS:
            near = f"{stem}.nc" if suffix in _LIKE_NETCDF else f"{stem}.zarr"
            raise OptionError(
                f"{target}: the ending {suffix!r} does not tell what to write; known are .nc ({netcdf}), "
                f"{', '.join(f'{end} ({kind})' for end, kind in _SUFFIXES.items())}: name it, for instance, {near}, or "
                "give to= (--to)"
            )
        return said or "zarr"
    if said not in (None, to) or (suffix == ".nc" and to in ("zarr", "icechunk")):
        raise OptionError(
            f"{target} ends with {suffix!r}, which contradicts to={to!r}: give another name, or leave out to="
        )
    return to


def dialect_of(target: str, to: str | None, *, netcdf: str) -> str:
    """Return the dialect of an aggregation file, from its name unless `to` gives it.

    >>> dialect_of("a.nc", None, netcdf="CF-1.13"), dialect_of("a.nca", None, netcdf="CF-1.13")
    ('CF-1.13', 'NCA-0.1')
    """
    stem, suffix = _parts(target)
    if to is None and suffix not in (".nc", ".nca"):
        raise OptionError(
            f"{target}: the names of aggregation files end with .nc ({netcdf}) or .nca (NCA-0.1): name it, for "
            f"instance, {stem}.nc; to= (--to) gives another kind. For other formats, write such a file first, and use "
            "cfagg.convert (cfagg convert)"
        )
    kind = kind_of(target, to, netcdf=netcdf)
    if kind not in DIALECTS:
        raise OptionError(
            f"{target} would be of kind {kind!r}, not an aggregation file: give one of "
            f"{', '.join(map(repr, DIALECTS))} as to= (--to), or write a file or Zarr store first, and use "
            "cfagg.convert (cfagg convert)"
        )
    return kind


def _parts(target: str) -> tuple[str, str]:
    """Return the last part of a name without its suffix, and the suffix in small letters."""
    stem, suffix = os.path.splitext(os.path.basename(target.rstrip("/")))  # noqa: PTH119, PTH122
    return stem, suffix.lower()
