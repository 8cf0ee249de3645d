"""Names of targets, which promise a format."""

from __future__ import annotations

import os

from cfagg.errors import OptionError

__all__ = ["check_target_name"]

#: Ends of names that promise a format other than Zarr.
_OTHER_TARGETS = frozenset(
    {".nc", ".nc3", ".nc4", ".cdf", ".nca", ".cfa", ".h5", ".hdf", ".hdf5", ".he5", ".pp", ".ff", ".grib", ".grb"}
    | {".grb2", ".icechunk", ".json", ".parquet", ".csv", ".cdl", ".zip", ".tar", ".gz"}
)


def check_target_name(target: str) -> None:
    """Refuse a target whose name says that it is to be something other than a Zarr store.

    >>> check_target_name("tas.zarr"), check_target_name("model_v1.2")
    (None, None)
    """
    suffix = os.path.splitext(target.rstrip("/"))[1].lower()  # noqa: PTH122
    if suffix in _OTHER_TARGETS:
        raise OptionError(
            f"{target} would be a Zarr store, a directory, and its name ends with {suffix!r}; only Zarr stores can be "
            "written: name it, for instance, "
            f"{os.path.splitext(os.path.basename(target.rstrip('/')))[0]}.zarr"  # noqa: PTH119, PTH122
        )
