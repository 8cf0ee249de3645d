"""Whether the numbers by which values are packed are numbers, before xarray computes with them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from cfagg.errors import ConventionError

__all__ = ["check_packing"]


def check_packing(path: str, name: str, attributes: Mapping[str, Any], decoding: Mapping[str, Any]) -> None:
    """Raise where a variable that is about to be unpacked cannot be.

    Parameters
    ----------
    path, name : str
        The file or store, and the variable.
    attributes : mapping
        Those of the variable.
    decoding : mapping
        The options of `xarray.open_dataset`.

    Raises
    ------
    ConventionError
        If ``scale_factor`` or ``add_offset`` is not one number (CF section 8.1).
    """
    wanted = decoding.get("mask_and_scale")
    if isinstance(wanted, Mapping):
        wanted = wanted.get(name)
    dropped = decoding.get("drop_variables") or ()
    if wanted is False or name in ([dropped] if isinstance(dropped, str) else dropped):
        return
    for key in ("scale_factor", "add_offset"):
        value = attributes.get(key, 1)
        if isinstance(value, list | tuple) and not all(isinstance(v, int | float) for v in value):
            found = None
        else:
            found = np.asarray(value)
        if found is None or found.dtype.kind not in "biuf" or found.size != 1:
            raise ConventionError(
                f"{path}: variable {name!r} has {key} = {str(value)[:60]!r}, expected one number; correct it, leave it "
                f"out with drop_variables=[{name!r}], or read the packed values with mask_and_scale=False"
            )
