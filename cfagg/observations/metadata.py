"""A sample in other containers (pandas frame, xarray Dataset of points, Arrow table), and its metadata as JSON."""

from __future__ import annotations

import datetime as dt
import json
import math
import platform
from collections.abc import Iterable, Mapping
from contextlib import suppress
from importlib import metadata
from typing import TYPE_CHECKING, Any

import numpy as np

from cfagg._version import __version__
from cfagg.cf.instants import calendar_of, epoch_text
from cfagg.cf.packing import DECODING_ATTRIBUTES
from cfagg.errors import SelectionError
from cfagg.errors.extras import require
from cfagg.errors.redacting import redacted

if TYPE_CHECKING:
    import xarray as xr

# The functions convert a `cfagg.observations.sample.Sample`, whose methods call them.
__all__ = ["as_json", "describe", "describe_store", "to_arrow", "to_pandas", "to_xarray", "versions"]

#: Packages on which the values of a sample may depend.
_PACKAGES = ("numpy", "numcodecs", "zarr", "numba")


def versions(packages: Iterable[str] = _PACKAGES) -> dict[str, str]:
    """Return the versions of the installed ones among some packages, without loading them."""
    found = {}
    for package in packages:
        with suppress(metadata.PackageNotFoundError):
            found[package] = metadata.version(package)
    return found


def describe(dataset: Any) -> dict[str, Any]:
    """Return a description of a dataset in JSON types; see `cfagg.observations.dataset.Observations.metadata`."""
    plan, store = dataset.plan, dataset.store
    return {
        "kind": "observations",
        "sources": [describe_store(store)],
        "recipe": as_json(store.attributes.recipe),
        "versions": {"cfagg": __version__, "python": platform.python_version(), **versions()},
        "start": epoch_text(plan.dates.start),
        "end": epoch_text(plan.dates.end),
        "last": epoch_text(plan.dates.last),
        "frequency": plan.dates.frequency,
        "samples": len(dataset),
        "window": str(plan.window),
        "sample": plan.kind,
        "area": None
        if plan.area is None
        else as_json([plan.area.north, plan.area.west, plan.area.south, plan.area.east]),
        "thin": None if plan.thin is None else plan.thin.option,
        "index": dataset.index.kind,
        "columns": list(dataset.columns),
        "variables": list(dataset.variables),
        "stored_variables": list(plan.columns.stored),
        "variables_metadata": as_json(dataset.variables_metadata),
        "statistics": as_json(dataset.statistics),
        "statistics_of": "given" if plan.statistics is not None else "store",
        "opened": dt.datetime.now(dt.UTC).isoformat(timespec="seconds"),
    }


def describe_store(store: Any) -> dict[str, Any]:
    """Return the location of a store, its description, and a digest that identifies its data."""
    # The recipe is given once, beside the sources.
    attributes = {k: v for k, v in store.attributes.all.items() if k != "recipe"}
    return {
        "path": redacted(str(store.path), mark=""),
        "uuid": store.attributes.uuid,
        "identity": store.identity,
        "rows": int(store.rows),
        "zarr_format": int(store.zarr_format),
        "attributes": as_json(attributes),
    }


def as_json(value: Any) -> Any:
    """Return a value as plain dictionaries, lists, text and numbers; numbers that are not finite become ``None``."""
    if isinstance(value, Mapping):
        return {str(k): as_json(v) for k, v in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [as_json(v) for v in value]
    if isinstance(value, (np.datetime64, np.timedelta64)):
        return str(value)
    if isinstance(value, np.ndarray):
        if value.dtype.kind in "mM":
            return np.datetime_as_string(value).tolist() if value.dtype.kind == "M" else [str(v) for v in value]
        return as_json(value.tolist())
    if isinstance(value, np.generic):
        return as_json(value.item())
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value if value is None or isinstance(value, (bool, int, str)) else str(value)


#: CF attributes of the coordinates.
_CF = {
    "time": {"standard_name": "time", "long_name": "time of observation"},
    "latitude": {"standard_name": "latitude", "units": "degrees_north"},
    "longitude": {"standard_name": "longitude", "units": "degrees_east"},
    "timedelta": {"long_name": "time from the date of the sample to the observation", "units": "s"},
}

#: Attributes reserved by xarray or a file format.
_RESERVED = {*DECODING_ATTRIBUTES, "dtype", "coordinates", "dimensions"}


def to_pandas(sample: Any) -> Any:
    """Return a frame: ``date``, ``latitude``, ``longitude``, ``timedelta`` (seconds), then a column per variable."""
    import pandas as pd

    return pd.DataFrame(_columns(sample, "date"))


def to_xarray(sample: Any) -> xr.Dataset:
    """Return a Dataset of points along ``obs``, as in chapter 9 of CF (``featureType: point``)."""
    import xarray as xr

    columns = _columns(sample, "time", ("obs",))
    taken = {"time", "latitude", "longitude", "timedelta"}
    attributes = sample.header.attributes
    coords = {k: ("obs", columns[k], dict(_CF[k])) for k in ("time", "latitude", "longitude")}
    # A plain number of seconds, since a timedelta64 would be decoded into other units.
    data = {"timedelta": ("obs", columns["timedelta"], dict(_CF["timedelta"]))}
    for name, values in columns.items():
        if name not in taken:
            known = {k: v for k, v in attributes.get(name, {}).items() if k not in _RESERVED}
            data[name] = ("obs", values, {k: _attribute(v) for k, v in known.items() if v is not None})
    dates = ", ".join(np.datetime_as_string(sample.reference_dates[:100]).tolist())
    about = {"Conventions": "CF-1.12", "featureType": "point", "reference_date": dates}
    dataset = xr.Dataset(data, coords, about)
    calendar = calendar_of(sample.details.epochs.min(initial=0))
    dataset["time"].encoding.update(units="seconds since 1970-01-01", calendar=calendar, dtype="int64")
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
    """Return the columns of a sample by name, the dates under the name `date`; `reserved` names are used otherwise."""
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
    """Return an attribute in a form that netCDF can represent: text, numbers, or anything else as JSON."""
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
