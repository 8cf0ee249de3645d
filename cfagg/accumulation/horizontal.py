"""The horizontal dimensions of an array, found by the attributes of its coordinates.

Source: CF sections 4.1, 4.2 and 4 (attribute ``axis``).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from cfagg.accumulation.mask import read_meaning
from cfagg.cf.roles import Place, axis_of, place_of
from cfagg.errors import ConventionError, SourceError, UnsupportedError
from cfagg.formats.zarr import ZarrArray, full_chunk, open_array

__all__ = ["beside", "coordinate_along", "horizontal_dims", "read_values", "role_of"]


def horizontal_dims(array: ZarrArray) -> tuple[str, ...]:
    """Return the pair of horizontal dimensions in the array's order; nothing where there is none, or no telling."""
    roles: dict[str, list[str]] = {"Y": [], "X": []}
    for d in array.dims:
        coordinate = beside(array, d)
        role = None if coordinate is None or coordinate.dims != (d,) else role_of(coordinate)
        if role is not None:
            roles[role].append(d)
    if len(roles["Y"]) != 1 or len(roles["X"]) != 1:
        return _curvilinear_dims(array)
    return tuple(d for d in array.dims if d in (*roles["Y"], *roles["X"]))


def _curvilinear_dims(array: ZarrArray) -> tuple[str, ...]:
    """Return the two dimensions that auxiliary latitudes and longitudes share, nothing where there are none."""
    named = array.attributes.get("coordinates")
    dims: dict[Place, set[tuple[str, ...]]] = {"latitude": set(), "longitude": set()}
    for name in named.split() if isinstance(named, str) else ():
        found = beside(array, name)
        place = None if found is None else place_of(found.attributes)
        if found is not None and place is not None:
            dims[place].add(tuple(d for d in array.dims if d in found.dims) if len(found.dims) == 2 else ())
    if dims["latitude"] != dims["longitude"] or len(dims["latitude"]) != 1:
        return ()
    (pair,) = dims["latitude"]
    return pair if len(pair) == 2 else ()


def role_of(coordinate: ZarrArray) -> str | None:
    """Return ``"Y"`` or ``"X"`` for a horizontal coordinate, else None."""
    axis = axis_of(coordinate.attributes)
    return axis if axis in ("X", "Y") else None


def coordinate_along(array: ZarrArray, place: Place) -> ZarrArray | None:
    """Return the true latitude or longitude along one of the dimensions, not that of a rotated or projected grid."""
    for d in array.dims:
        found = beside(array, d)
        if found is not None and found.dims == (d,) and place_of(found.attributes) == place:
            return found
    return None


def beside(array: ZarrArray, name: str) -> ZarrArray | None:
    """Return another array of the same group, None where there is none that holds numbers."""
    parent = array.path.rpartition("/")[0]
    try:
        return open_array(array.store, f"{parent}/{name}" if parent else name, allow=array.allow)
    except (SourceError, UnsupportedError, ConventionError):
        return None


def read_values(array: ZarrArray) -> npt.NDArray[np.float64]:
    """Return all elements of an array as real values, NaN where they are missing."""
    from cfagg.kernels.cumulative.mask import Mask

    meaning = read_meaning(array)
    mask, packing = meaning.mask, meaning.packing
    out = np.empty(array.shape)
    for index in np.ndindex(array.grid.matrix_shape):
        raw: npt.NDArray[Any] = full_chunk(array, index).view(meaning.dtype)
        values = raw.astype(np.float64)
        if packing is not None:
            values = values * packing.scale_factor + packing.add_offset
        valid = Mask.of(meaning.dtype, mask.fills, mask.valid_min, mask.valid_max).valid(raw)
        place: Any = (*(slice(a, b) for a, b in array.grid.extent(index)), ...)
        out[place] = np.where(valid, values, np.nan)
    return out
