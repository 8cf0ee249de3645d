"""Values computed from an accumulation as labelled arrays: coordinates, attributes, units, cell methods."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy.typing as npt

from cfagg.accumulation.labels import Labels, Picked

if TYPE_CHECKING:
    import xarray as xr

    from cfagg.accumulation.grouping import Grouping

__all__ = ["METHODS", "attributes", "labelled", "squared"]

#: How CF (appendix E) calls each statistic in ``cell_methods``.
METHODS: Mapping[str, str] = {
    "sum": "sum",
    "mean": "mean",
    "min": "minimum",
    "max": "maximum",
    "std": "standard_deviation",
    "var": "variance",
}

#: What holds for the stored values only.  A range in packed units would make readers mask results.
_OF_STORED = (
    "_ARRAY_DIMENSIONS",
    "valid_min",
    "valid_max",
    "valid_range",
    "actual_range",
    "_Unsigned",
    "_FillValue",
    "missing_value",
)


def labelled(
    values: npt.NDArray[Any],
    labels: Labels,
    statistic: str,
    *,
    reduced: Sequence[str],
    picked: Mapping[str, Picked],
    grouping: Grouping | None = None,
    keep_attrs: bool = True,
) -> xr.DataArray:
    """Return computed values with what belongs to them; a grouped dimension stands at its place in the labels."""
    import xarray as xr

    coords: Any = labels.without(reduced)
    chosen = {d: p for d, p in picked.items() if d in coords.dims}
    coords = (coords.isel(chosen) if chosen else coords).coords
    dims = [d for d in labels.dims if d not in reduced and not isinstance(picked.get(d), int)]
    if grouping is not None:
        dims = [grouping.name if d == grouping.dim else d for d in labels.dims if d == grouping.dim or d in dims]
        coords = coords.to_dataset().drop_vars(grouping.name, errors="ignore").assign_coords(grouping.coords()).coords
    attrs = attributes(labels.attrs, statistic, reduced, labels.dims) if keep_attrs else {}
    return xr.DataArray(values, coords=coords, dims=dims, name=labels.name, attrs=attrs)


def attributes(
    attrs: Mapping[str, Any], statistic: str, reduced: Sequence[str], dims: Sequence[str] = ()
) -> dict[str, Any]:
    """Return the attributes of a statistic of a variable, without those that describe stored values only."""
    out = {k: v for k, v in attrs.items() if k not in _OF_STORED}
    if statistic == "count":
        if "units" in out:
            out["units"] = "1"
        if "standard_name" in out:
            # CF section 3.3.
            out["standard_name"] = f"{str(out['standard_name']).split(maxsplit=1)[0]} number_of_observations"
        return out
    if statistic == "var" and "units" in out:
        out["units"] = squared(str(out["units"]))
    if reduced:
        # CF section 7.3.
        order = [d for d in dims if d in reduced] or list(reduced)
        method = f"{' '.join(f'{d}:' for d in order)} {METHODS[statistic]}"
        out["cell_methods"] = f"{out['cell_methods']} {method}" if out.get("cell_methods") else method
    return out


def squared(units: str) -> str:
    """Return the units of a square, as UDUNITS reads them, which takes that of a temperature for its interval's."""
    units = units.strip()
    if units in ("", "1"):
        return units
    return f"{units}2" if re.fullmatch(r"[A-Za-z_]+", units) else f"({units})2"
