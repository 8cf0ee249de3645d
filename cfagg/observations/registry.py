"""Sources and filters by name: those of cfagg, those registered here, and those of other packages (entry points).

Nothing is imported before a recipe names it.  Hyphens count as underscores; the suffix ``_tabular`` of the published
recipes is ignored.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from importlib import import_module
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any, Literal

from cfagg.errors import ConventionError, UnsupportedError
from cfagg.errors.arguments import closest

__all__ = ["Config", "find", "known", "plain_name", "register_filter", "register_source"]

Kind = Literal["sources", "filters"]

_OWN: dict[Kind, dict[str, str]] = {
    "sources": {
        "arrow": "cfagg.observations.sources.parquet:ArrowSource",
        "callable": "cfagg.observations.sources.observations:CallableSource",
        "csv": "cfagg.observations.sources.csv:CsvSource",
        "netcdf": "cfagg.observations.sources.netcdf:NetcdfSource",
        "observations": "cfagg.observations.sources.observations:ObservationsSource",
        "parquet": "cfagg.observations.sources.parquet:ParquetSource",
    },
    "filters": {
        "area": "cfagg.observations.filters.choosing:Area",
        "callable": "cfagg.observations.filters.choosing:CallableFilter",
        "clip": "cfagg.observations.filters.values:Clip",
        "convert_units": "cfagg.observations.filters.values:ConvertUnits",
        "drop": "cfagg.observations.filters.choosing:Drop",
        "drop_duplicates": "cfagg.observations.filters.choosing:DropDuplicates",
        "drop_nans": "cfagg.observations.filters.choosing:DropNans",
        "exclude_dates": "cfagg.observations.filters.values:ExcludeDates",
        "mask": "cfagg.observations.filters.values:Mask",
        "mask_infs": "cfagg.observations.filters.values:MaskInfs",
        "mask_outside_range": "cfagg.observations.filters.values:MaskOutsideRange",
        "rename": "cfagg.observations.filters.choosing:Rename",
        "select": "cfagg.observations.filters.choosing:Select",
        "sort_by": "cfagg.observations.filters.choosing:SortBy",
        "thin": "cfagg.observations.filters.choosing:Thin",
    },
}

_registered: dict[Kind, dict[str, type]] = {"sources": {}, "filters": {}}


def plain_name(name: str) -> str:
    """Return a name in the form used by the registry."""
    return name.replace("-", "_").removesuffix("_tabular")


def register_source[T: type](name: str) -> Callable[[T], T]:
    """Return a decorator that registers a class as a source of recipes (see `cfagg.observations.sources.Source`).

    Examples
    --------
    >>> import pandas as pd
    >>> @register_source("one_buoy")
    ... class OneBuoy:
    ...     def __init__(self, config):
    ...         self.value = config.get("value", 0.0)
    ...
    ...     def read(self, start, end):
    ...         return pd.DataFrame({"date": [start], "latitude": 0.0, "longitude": 0.0, "sst": self.value})
    >>> "one_buoy" in known("sources")
    True
    """
    return lambda cls: _keep("sources", name, cls)


def register_filter[T: type](name: str) -> Callable[[T], T]:
    """Return a decorator that registers a class as a filter of recipes (see `cfagg.observations.filters.Filter`).

    Examples
    --------
    >>> @register_filter("negate")
    ... class Negate:
    ...     def __init__(self, config):
    ...         self.column = config["column"]
    ...
    ...     def transform(self, frame):
    ...         return frame.assign(**{self.column: -frame[self.column]})
    >>> "negate" in known("filters")
    True
    """
    return lambda cls: _keep("filters", name, cls)


def _keep[T: type](kind: Kind, name: str, cls: T) -> T:
    method = "read" if kind == "sources" else "transform"
    if not callable(getattr(cls, method, None)):
        raise ConventionError(f"{cls!r} cannot be one of the {kind}: it has no method {method}")
    _registered[kind][plain_name(name)] = cls
    return cls


def known(kind: Kind) -> list[str]:
    """Return the names of all sources or filters, including those of other packages."""
    names = {*_OWN[kind], *_registered[kind], *(plain_name(e.name) for e in entry_points(group=f"cfagg.{kind}"))}
    return sorted(names)


def find(kind: Kind, name: str) -> type[Any] | None:
    """Return the class registered under a name, or `None` if there is none."""
    plain = plain_name(name)
    if plain in _registered[kind]:
        return _registered[kind][plain]
    if plain in _OWN[kind]:
        module, _, attribute = _OWN[kind][plain].partition(":")
        found: type[Any] = getattr(import_module(module), attribute)
        return found
    for entry in entry_points(group=f"cfagg.{kind}"):
        if plain_name(entry.name) == plain:
            try:
                found = entry.load()
            except (ImportError, AttributeError) as error:
                raise UnsupportedError(
                    f"{kind[:-1]} {name!r} of {entry.value} cannot be loaded: {error}; reinstall its package"
                ) from error
            return found
    return None


def not_known(kind: Kind, name: str) -> str:
    """Return the message for an unknown name."""
    names = known(kind)
    return (
        f"{name!r} is not one of the {kind} ({', '.join(names)}){closest(plain_name(name), names)}; a package adds its "
        f"own with an entry point of the group cfagg.{kind}"
    )


class Config(dict[str, Any]):
    """The configuration of a source or filter: a mapping with its place in the recipe and the recipe's directory."""

    def __init__(self, values: Mapping[str, Any] | None = None, where: str = "", directory: Path | None = None) -> None:
        super().__init__(values or {})
        self.where = where
        self.directory = directory

    def __reduce__(self) -> tuple[Any, ...]:
        return Config, (dict(self), self.where, self.directory)

    def path(self, text: str) -> str:
        """Return a path in a recipe as absolute, relative to the recipe or else to the working directory."""
        # URLs are returned as they are.
        if "://" in text and not text.startswith("file://"):
            return text
        # Unlike that of pathlib, this function leaves the homes of unknown users unchanged.
        path = Path(os.path.expanduser(text.removeprefix("file://")))  # noqa: PTH111
        if path.is_absolute():
            return str(path)
        if self.directory is not None:
            beside = self.directory / path
            try:
                if any(c in text for c in "*?[") and any(self.directory.glob(str(path))):
                    return str(beside)
            except (OSError, ValueError, NotImplementedError):  # a name that no file can have
                return str(beside)
            if os.path.exists(beside):  # noqa: PTH110  (Path raises for names that are too long)
                return str(beside)
        return str(Path.cwd() / path)
