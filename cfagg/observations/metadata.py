"""What a training must carry to inference: where samples came from and how they were made."""

from __future__ import annotations

import datetime as dt
import math
import platform
from collections.abc import Mapping
from importlib import metadata
from typing import Any

import numpy as np

from cfagg._version import __version__
from cfagg.cf.instants import epoch_text
from cfagg.errors.redacting import redacted

__all__ = ["as_json", "describe", "describe_store", "versions"]

#: Packages on which the values of a sample may depend.
_PACKAGES = ("numpy", "numcodecs", "zarr", "numba")


def versions() -> dict[str, str]:
    """Return the versions of cfagg, Python and the packages that samples are read with; none of them is loaded."""
    found = {"cfagg": __version__, "python": platform.python_version()}
    for package in _PACKAGES:
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return found


def describe(dataset: Any) -> dict[str, Any]:
    """Return what a dataset is, as JSON has it; see `cfagg.observations.dataset.Observations.metadata`."""
    plan, store = dataset.plan, dataset.store
    return {
        "kind": "observations",
        "sources": [describe_store(store)],
        "recipe": as_json(store.attributes.recipe),
        "versions": versions(),
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
    """Return where a store is, what it says of itself, and a digest by which its data are known again."""
    # The recipe stands beside the sources, once.
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
    """Return a value as plain dictionaries, lists, text and numbers; what is not finite becomes ``None``."""
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
