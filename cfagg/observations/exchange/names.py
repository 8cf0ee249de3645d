"""Names and attributes that a netCDF file can have, for those of a store; what does not fit is kept as JSON."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

__all__ = ["ORIGINAL", "netcdf_attributes", "netcdf_names"]

#: The attribute with a variable's name in the store, where a netCDF file cannot have it.
ORIGINAL = "cfagg_name"

#: Attributes that describe how numbers are stored, which the export decides, or that refer to variables elsewhere.
_OURS = frozenset(
    {
        "_FillValue", "missing_value", "scale_factor", "add_offset", "valid_range", "valid_min", "valid_max",
        "_Unsigned", "coordinates", "ancillary_variables", "cell_measures", "grid_mapping", "bounds", "cf_role",
        "sample_dimension", "instance_dimension", "_ChunkSizes", ORIGINAL,
    }
)  # fmt: skip


def netcdf_names(names: Iterable[str], taken: Iterable[str]) -> dict[str, str]:
    """Return a name for each variable that CF recommends for files: letters, digits and underscores."""
    # Two names that differ in case only count as one.
    names = list(names)
    used = {t.lower() for t in taken}
    found: dict[str, str] = {}
    # A name that can stay as it is has precedence over one that becomes like it.
    for name in sorted(names, key=lambda n: _plain(n) != n):
        base = _plain(name)
        new, n = base, 1
        while new.lower() in used:
            new, n = f"{base}_{n}", n + 1
        used.add(new.lower())
        found[name] = new
    return {name: found[name] for name in names}


def _plain(name: str) -> str:
    ascii_ = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode("ascii")
    new = re.sub(r"[^A-Za-z0-9_]+", "_", ascii_)[:200]
    return new if re.match(r"[A-Za-z]", new) else f"v_{new.lstrip('_')}"


def netcdf_attributes(attributes: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the attributes that a netCDF variable can have, and the others."""
    fit = {k: v for k, v in attributes.items() if k not in _OURS and _name_fits(k) and _fits(v)}
    return fit, {k: v for k, v in attributes.items() if k not in fit}


def _name_fits(name: object) -> bool:
    return isinstance(name, str) and re.fullmatch(r"[A-Za-z][A-Za-z0-9_]{0,100}", name) is not None


def _fits(value: object) -> bool:
    """Tell whether a value of JSON comes back the same from a netCDF attribute."""
    if isinstance(value, str):
        return "\0" not in value and value != ""
    if isinstance(value, bool):
        return False
    if isinstance(value, int):
        return -(2**63) <= value < 2**63
    return isinstance(value, float) and bool(np.isfinite(value))
