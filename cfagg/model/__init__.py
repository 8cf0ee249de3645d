"""The data model: plain descriptions that open nothing."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from cfagg.model import hook as hook

#: Public name -> module that defines it, which is imported on first use, because metadata alone need no grids.
_HOMES = {
    "Aggregation": "aggregation",
    "Grid": "grid",
    "Layout": "partitions",
    "Partitions": "partitions",
    "Regular": "grid",
    "Strings": "partitions",
}

__all__ = ["Aggregation", "Grid", "Layout", "Partitions", "Regular", "Strings"]

if TYPE_CHECKING:
    from cfagg.model.aggregation import Aggregation
    from cfagg.model.grid import Grid, Regular
    from cfagg.model.partitions import Layout, Partitions, Strings


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
