"""Thousands of netCDF, PP and Zarr files as one array.

The public functions load their dependencies on first use, so that importing cfagg is fast.
"""

from __future__ import annotations

import os
import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

from cfagg._moved import install
from cfagg._version import __version__

if os.name != "posix":
    raise ImportError(
        "cfagg needs Linux or macOS, as it relies on the locks, links and file descriptors of POSIX; on Windows, "
        "install it in the Windows Subsystem for Linux (WSL)"
    )

#: Public name -> the module that defines it.
_HOMES = {
    "Aggregation": "cfagg.model",
    "CfaggError": "cfagg.errors",
    "Grid": "cfagg.model",
    "Layout": "cfagg.model",
    "Partitions": "cfagg.model",
    "accumulate": "cfagg.accumulation.accumulating",
    "aggregate": "cfagg.aggregation.aggregating",
    "append": "cfagg.api.appending",
    "check": "cfagg.checking.checking",
    "concatenate": "cfagg.arrays.concatenating",
    "convert": "cfagg.conversion",
    "create_observations": "cfagg.observations.creating",
    "index": "cfagg.aggregation.indexing",
    "join_observations": "cfagg.observations.joining",
    "open_accumulated": "cfagg.accumulation.accumulated",
    "open_aggregation": "cfagg.api.reading",
    "open_array": "cfagg.arrays.lazy",
    "open_observations": "cfagg.observations.opening",
    "open_rows": "cfagg.arrays.ragged",
    "read": "cfagg.api.reading",
    "rebase": "cfagg.writing.rebasing",
    "show": "cfagg.api.showing",
    "write": "cfagg.writing.writing",
    "write_rows": "cfagg.writing.zarr.ragged",
}

#: Public modules that are also attributes after ``import cfagg``.
_MODULES = {
    "accessor": "cfagg.api.accessor",
    **{name: f"cfagg.{name}" for name in ("conventions", "demo", "errors", "findings", "kernels", "model")},
}

__all__ = ["__version__", *sorted(_HOMES)]  # noqa: PLE0604

if TYPE_CHECKING:
    from cfagg.accumulation.accumulated import open_accumulated as open_accumulated
    from cfagg.accumulation.accumulating import accumulate as accumulate
    from cfagg.aggregation.aggregating import aggregate as aggregate
    from cfagg.aggregation.indexing import index as index
    from cfagg.api.appending import append as append
    from cfagg.api.reading import open_aggregation as open_aggregation
    from cfagg.api.reading import read as read
    from cfagg.api.showing import show as show
    from cfagg.arrays.concatenating import concatenate as concatenate
    from cfagg.arrays.lazy import open_array as open_array
    from cfagg.arrays.ragged import open_rows as open_rows
    from cfagg.checking.checking import check as check
    from cfagg.conversion import convert as convert
    from cfagg.errors import CfaggError as CfaggError
    from cfagg.model import Aggregation as Aggregation
    from cfagg.model import Grid as Grid
    from cfagg.model import Layout as Layout
    from cfagg.model import Partitions as Partitions
    from cfagg.observations.creating import create_observations as create_observations
    from cfagg.observations.joining import join_observations as join_observations
    from cfagg.observations.opening import open_observations as open_observations
    from cfagg.writing.rebasing import rebase as rebase
    from cfagg.writing.writing import write as write
    from cfagg.writing.zarr.ragged import write_rows as write_rows


def _model_html(part: Any) -> str:
    from cfagg.api.notebook import model_html

    return model_html(part)


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        value = getattr(import_module(_HOMES[name]), name)
        if "cfagg.model" in sys.modules:
            # The model must not depend on its display, and importing that here would import NumPy as well.
            sys.modules["cfagg.model.hook"].html_hook = _model_html  # type: ignore[attr-defined]
        globals()[name] = value
        return value
    if name in _MODULES:
        return import_module(_MODULES[name])
    raise AttributeError(f"module 'cfagg' has no attribute {name!r}")


install()

if "xarray" in sys.modules:
    # Registers ds["tas"].cfagg; if xarray is imported later, `read` does it, or ``import cfagg.api.accessor``.
    import_module("cfagg.api.accessor")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, *_MODULES})
