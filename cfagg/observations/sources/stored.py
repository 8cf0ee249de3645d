"""Values of netCDF variables as numbers: missing values as NaN, packing undone.

Source: CF sections 2.5 and 8.1.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from cfagg.cf.missing import Missing
from cfagg.cf.packing import Packing, read_as

__all__ = ["described", "numbers_of"]

#: Attributes that say how values are stored, or that name variables of the file.
_OF_STORAGE = frozenset(
    {
        "_FillValue", "missing_value", "scale_factor", "add_offset", "valid_min", "valid_max", "valid_range",
        "_Unsigned", "coordinates", "ancillary_variables", "cell_measures", "grid_mapping", "bounds", "climatology",
        "cf_role", "axis", "cfagg_name", "_ChunkSizes",
    }
)  # fmt: skip


def numbers_of(stored: npt.NDArray[Any], attributes: Mapping[str, Any], where: str) -> npt.NDArray[Any]:
    """Return stored values as numbers: NaN where they are missing, packing undone."""
    # Real values that are not packed keep their type, and integers without missing ones; all else is float64.
    meant = read_as(stored.dtype, attributes)
    packing = Packing.of(attributes, where=where)
    missing = Missing.of(attributes, stored.dtype, meant, scale=packing.scale, offset=packing.offset, where=where)
    values = stored if meant == stored.dtype else stored.view(meant)
    gone = missing.mask(values)
    if values.dtype.kind == "f":
        gone &= ~np.isnan(values)  # which keep their bits
    if packing:
        values = values.astype(np.float64) * packing.scale + packing.offset
    if gone.any():
        values = values.astype(values.dtype if values.dtype.kind == "f" else np.float64)
        values[gone] = np.nan
    return values


def described(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """Return the attributes that describe a column, in values that JSON has."""
    found = {}
    for name, value in attributes.items():
        if name in _OF_STORAGE:
            continue
        if isinstance(value, np.generic | np.ndarray):
            value = value.tolist()  # noqa: PLW2901
        if isinstance(value, str | int | float | list):
            found[name] = value
    return found
