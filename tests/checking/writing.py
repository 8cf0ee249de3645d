"""Writing the model of a dataset as a file, so that tests can start from CDL whatever they need to open."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import netCDF4
import numpy as np

from cfagg.formats.cdl.parsing import parse_cdl
from cfagg.model.dataset import Dataset, Group

__all__ = ["write_cdl", "write_netcdf"]

Format = Literal["NETCDF4", "NETCDF4_CLASSIC", "NETCDF3_CLASSIC", "NETCDF3_64BIT_OFFSET", "NETCDF3_64BIT_DATA"]


def write_cdl(text: str, path: str | Path, format: Format = "NETCDF4") -> Path:  # noqa: A002 - netCDF4's word
    """Write the dataset that a text in CDL describes, and return the path."""
    with parse_cdl(text) as dataset:
        return write_netcdf(dataset, path, format)


def write_netcdf(dataset: Dataset, path: str | Path, format: Format = "NETCDF4") -> Path:  # noqa: A002
    """Write a dataset as netCDF: its groups, dimensions, variables, attributes and values, and return the path.

    Variables larger than 4 million values stay without values.  Attributes of types that netCDF does not have (of JSON,
    say) are written as their text.
    """
    with netCDF4.Dataset(str(path), "w", format=format) as file:
        file.set_auto_maskandscale(False)
        file.set_fill_on()
        made = {"/": file}
        for group in dataset.groups:
            _header(group, made, format)
        for variable in dataset.variables:
            if variable.dialect is None and 0 < variable.size <= 1 << 22 and variable.read is not None:
                written = made[variable.group.path].variables[variable.name]
                written.set_auto_maskandscale(False)
                written.set_auto_chartostring(False)
                slices = tuple(slice(0, d.size) for d in variable.stored)
                written[slices or ...] = variable.values()
    return Path(path)


def _header(group: Group, made: dict[str, Any], format_: Format) -> None:
    if group.parent is None:
        target = made["/"]
    else:
        target = made[group.path] = made[group.parent.path].createGroup(group.path.rpartition("/")[2])
    for dimension in group.dimensions.values():
        target.createDimension(dimension.name, None if dimension.unlimited else dimension.size)
    for variable in group.variables.values():
        dtype: Any = str if variable.kind == "string" else variable.dtype
        fill = variable.attributes.get("_FillValue")
        if isinstance(fill, str):
            fill = fill.encode()[:1]
        elif isinstance(fill, np.ndarray):
            fill = fill[0] if fill.size == 1 and fill.dtype == variable.dtype else None
        else:
            fill = None
        written = target.createVariable(variable.name, dtype, [d.name for d in variable.stored], fill_value=fill)
        for name, value in variable.attributes.items():
            if name != "_FillValue" or fill is None:
                _attribute(written, name, value, format_)
    for name, value in group.attributes.items():
        _attribute(target, name, value, format_)


def _attribute(target: Any, name: str, value: Any, format_: Format) -> None:
    if isinstance(value, tuple):
        if format_ == "NETCDF4":
            target.setncattr_string(name, list(value))
        else:
            target.setncattr(name, " ".join(value))
    elif isinstance(value, str | np.ndarray):
        target.setncattr(name, value)
    else:
        target.setncattr(name, value if isinstance(value, bytes) else str(value))
