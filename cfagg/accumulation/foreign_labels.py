"""Labels of an array whose store names its dimensions only in the accumulation group, so that xarray cannot open it."""

from __future__ import annotations

from typing import Any

import numpy as np

from cfagg.accumulation.group import Group
from cfagg.accumulation.labels import Labels
from cfagg.zarrs.documents import node_folder

__all__ = ["labels_by_group"]

#: Attributes that tell how values are stored; xarray takes them away when it decodes.
_STORAGE = ("scale_factor", "add_offset", "_FillValue", "missing_value", "_Unsigned", "_ARRAY_DIMENSIONS")


def labels_by_group(group: Group) -> Labels:
    """Return labels with the dimensions of the group; coordinates are the arrays of their names beside the data.

    Parameters
    ----------
    group : Group
        An accumulation group of another writer.
    """
    import xarray as xr

    found = {}
    for dim, length in zip(group.dims, group.source.shape, strict=True):
        coordinate = _read(group, dim)
        if coordinate is not None and coordinate.shape == (length,):
            found[dim] = coordinate
    decoded = xr.decode_cf(xr.Dataset(coords=found))
    attributes = {k: v for k, v in group.source.attributes.items() if k not in _STORAGE}
    # Only the shape is looked at.
    values = np.broadcast_to(np.zeros((), group.source.dtype), group.source.shape)
    coords = {name: decoded[name].variable for name in decoded.variables}
    return Labels.of_array(xr.DataArray(values, coords, group.dims, group.source.name, attributes))


def _read(group: Group, dim: str) -> Any:
    """Return the coordinate of a dimension as an xarray variable, `None` where there is none that can be read."""
    import xarray as xr
    import zarr

    parent, slash, _ = group.variable.rpartition("/")
    try:
        # By zarr-python: dates are no numbers.
        array: Any = zarr.open_array(node_folder(group.store, f"{parent}{slash}{dim}"), mode="r")
        return xr.Variable((dim,), array[:], dict(array.attrs)) if array.ndim == 1 else None
    except (OSError, ValueError, TypeError, NotImplementedError):
        return None
