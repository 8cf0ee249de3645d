"""A sample in other containers: a pandas frame, an xarray Dataset of points, an Arrow table."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from cfagg.cf.packing import DECODING_ATTRIBUTES
from cfagg.errors import SelectionError
from cfagg.errors.extras import require
from cfagg.observations.metadata import as_json

if TYPE_CHECKING:
    import xarray as xr

# What is converted is a `cfagg.observations.sample.Sample`, which leads here.
__all__ = ["to_arrow", "to_pandas", "to_xarray"]

#: Attributes of the coordinates, as CF names them.
_CF = {
    "time": {"standard_name": "time", "long_name": "time of observation"},
    "latitude": {"standard_name": "latitude", "units": "degrees_north"},
    "longitude": {"standard_name": "longitude", "units": "degrees_east"},
    "timedelta": {"long_name": "time from the date of the sample to the observation", "units": "s"},
}

#: Attributes that xarray or a file format keeps for itself.
_RESERVED = {*DECODING_ATTRIBUTES, "dtype", "coordinates", "dimensions"}


def to_pandas(sample: Any) -> Any:
    """Return a frame: ``date``, ``latitude``, ``longitude``, ``timedelta`` (seconds), then a column per variable."""
    import pandas as pd

    return pd.DataFrame(_columns(sample, "date"))


def to_xarray(sample: Any) -> xr.Dataset:
    """Return a Dataset of points along ``obs``, as of chapter 9 of CF (``featureType: point``)."""
    import xarray as xr

    columns = _columns(sample, "time", ("obs",))
    taken = {"time", "latitude", "longitude", "timedelta"}
    attributes = sample.header.attributes
    coords = {k: ("obs", columns[k], dict(_CF[k])) for k in ("time", "latitude", "longitude")}
    # A plain number of seconds: a timedelta64 would be decoded into other units again.
    data = {"timedelta": ("obs", columns["timedelta"], dict(_CF["timedelta"]))}
    for name, values in columns.items():
        if name not in taken:
            known = {k: v for k, v in attributes.get(name, {}).items() if k not in _RESERVED}
            data[name] = ("obs", values, {k: _attribute(v) for k, v in known.items() if v is not None})
    dates = ", ".join(np.datetime_as_string(sample.reference_dates[:100]).tolist())
    about = {"Conventions": "CF-1.12", "featureType": "point", "reference_date": dates}
    dataset = xr.Dataset(data, coords, about)
    dataset["time"].encoding.update(units="seconds since 1970-01-01", calendar="standard", dtype="int64")
    return dataset


def to_arrow(sample: Any) -> Any:
    """Return an Arrow table with the columns of `to_pandas`; attributes of variables are metadata of the fields."""
    require("Arrow tables", "pyarrow")
    import pyarrow as pa

    arrays, fields = [], []
    for name, values in _columns(sample, "date").items():
        array = pa.array(np.ascontiguousarray(values))
        if name == "date":
            array = array.cast(pa.timestamp("s", tz="UTC"))
        known: Mapping[str, Any] = _CF.get(name, {}) or sample.header.attributes.get(name, {})
        text = {k: v if isinstance(v, str) else json.dumps(as_json(v)) for k, v in known.items()}
        arrays.append(array)
        fields.append(pa.field(name, array.type, metadata=text or None))
    return pa.Table.from_arrays(arrays, schema=pa.schema(fields))


def _columns(sample: Any, date: str, reserved: tuple[str, ...] = ()) -> dict[str, Any]:
    """Return the columns of a sample by name, the dates under the name `date`; `reserved` names have another use."""
    header, details = sample.header, sample.details
    columns: dict[str, Any] = {
        date: details.dates,
        "latitude": details.latitudes,
        "longitude": details.longitudes,
        "timedelta": details.timedeltas,
    }
    names = [(i, n) for i, n in enumerate(header.names) if n not in header.leading]
    if repeated := sorted({n for _, n in names if header.names.count(n) > 1}):
        raise SelectionError(f"the columns {', '.join(repeated)} occur several times: select each once")
    if taken := [n for _, n in names if n in {*columns, *reserved}]:
        raise SelectionError(
            f"variables named {', '.join(taken)} clash with {', '.join([*columns, *reserved])}: rename them, "
            'such as with ds.subset(rename={"' + taken[0] + '": "..."})'
        )
    values = np.asarray(sample)
    matrix = values[:, None] if values.ndim == 1 else values
    for i, name in names:
        columns[name] = matrix[:, i]
    return columns


def _attribute(value: Any) -> Any:
    """Return an attribute that netCDF can hold: text, a number, numbers; anything else as JSON."""
    plain = as_json(value)
    if isinstance(plain, bool):
        return int(plain)
    if isinstance(plain, (str, int, float)):
        return plain
    if (
        isinstance(plain, list)
        and plain
        and all(isinstance(v, (int, float)) and not isinstance(v, bool) for v in plain)
    ):
        return plain
    return json.dumps(plain)
