"""Names of targets, whose suffix selects a format."""

from __future__ import annotations

import os

from cfagg.errors import OptionError
from cfagg.errors.arguments import is_one

__all__ = ["DIALECTS", "TARGETS", "check_target_name", "kind_of"]

#: Conventions of aggregation files that can be written, and all kinds of targets.
DIALECTS = ("NCA-0.1", "CFA-0.4", "CFA-0.6.2", "CF-1.13")
TARGETS = (*DIALECTS, "netcdf", "zarr", "icechunk")

#: Suffixes that select the kind of a target.
_SUFFIXES = {".nca": "NCA-0.1", ".zarr": "zarr", ".icechunk": "icechunk"}

#: Suffixes that indicate a format other than Zarr.
_OTHER_TARGETS = frozenset(
    {".nc", ".nc3", ".nc4", ".cdf", ".nca", ".cfa", ".h5", ".hdf", ".hdf5", ".he5", ".pp", ".ff", ".grib", ".grb"}
    | {".grb2", ".icechunk", ".json", ".parquet", ".csv", ".cdl", ".zip", ".tar", ".gz"}
)


def check_target_name(target: str) -> None:
    """Refuse a target whose name indicates something other than a Zarr store.

    >>> check_target_name("tas.zarr"), check_target_name("model_v1.2")
    (None, None)
    """
    suffix = os.path.splitext(target.rstrip("/"))[1].lower()  # noqa: PTH122
    if suffix in _OTHER_TARGETS:
        raise OptionError(
            f"{target} would be a Zarr store, which is a directory, but its name ends with {suffix!r}: name it, for "
            "instance, "
            f"{os.path.splitext(os.path.basename(target.rstrip('/')))[0]}.zarr"  # noqa: PTH119, PTH122
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
    suffix = os.path.splitext(target.rstrip("/"))[1].lower()  # noqa: PTH122
    said = _SUFFIXES.get(suffix)
    if to is None:
        if suffix == ".nc":
            return netcdf
        if said is None:
            check_target_name(target)
        return said or "zarr"
    if said not in (None, to) or (suffix == ".nc" and to in ("zarr", "icechunk")):
        raise OptionError(
            f"{target} ends with {suffix!r}, which contradicts to={to!r}: give another name, or leave out to="
        )
    return to
