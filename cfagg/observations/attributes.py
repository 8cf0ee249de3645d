"""What the root attributes of an observation store say, checked before anything is believed.

Source: the layout of the published software, version 0.22 of its stores.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from cfagg.conventions.findings import shorten
from cfagg.errors import ConventionError, LimitError, Problem

__all__ = ["META_VARIABLES", "StoreAttributes", "parse_attributes"]

#: The columns before the variables.
META_VARIABLES = ("__date", "__time", "__latitude", "__longitude")
#: Variables that a store may have.
MAX_VARIABLES = 100_000


@dataclass(frozen=True)
class StoreAttributes:
    """Root attributes of a store."""

    variables: tuple[str, ...]
    date_indexing: str | None = None
    #: As written; they are of the recipe, not of the rows.
    start_date: str | None = None
    end_date: str | None = None
    uuid: str | None = None
    version: str | None = None
    recipe: Mapping[str, Any] = field(default_factory=dict)
    variables_metadata: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    #: Of the rows that the statistics are of.
    statistics_start_date: str | None = None
    statistics_end_date: str | None = None
    #: All attributes as they are stored.
    all: Mapping[str, Any] = field(default_factory=dict, repr=False)

    def __getstate__(self) -> dict[str, Any]:
        # Read-only views do not pickle.
        return {k: dict(v) if isinstance(v, MappingProxyType) else v for k, v in self.__dict__.items()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        for key, value in state.items():
            object.__setattr__(self, key, MappingProxyType(value) if isinstance(value, dict) else value)


def parse_attributes(attributes: Mapping[str, Any], where: str) -> StoreAttributes:
    """Return the attributes of a store; ConventionError names every problem, and `where` the store."""
    layout = attributes.get("layout", attributes.get("format"))
    if layout != "tabular":
        said = "no layout" if layout is None else f"the layout {shorten(layout)}"
        raise ConventionError(
            f"{where} is not an observation store: its attributes give {said}, expected 'tabular'; fields are opened "
            "with cfagg.read"
        )
    problems: list[Problem] = []
    variables = _names(attributes.get("variables"), "variables", problems)
    if len(variables) > MAX_VARIABLES:
        raise LimitError(f"{where} has {len(variables):,} variables, read up to {MAX_VARIABLES:,}")
    meta = attributes.get("meta_variables")
    if meta is not None and meta != list(META_VARIABLES):
        problems.append(Problem("meta_variables", f"expected {list(META_VARIABLES)}, found {shorten(meta)}"))
    taken = [name for name in META_VARIABLES if name in variables]
    problems += [Problem("variables", f"{name} is the name of one of the first four columns") for name in taken]
    texts = {
        key: _text(attributes.get(key), key, problems)
        for key in (
            "date_indexing", "start_date", "end_date", "uuid", "version", "statistics_start_date",
            "statistics_end_date",
        )
    }  # fmt: skip
    recipe = _object(attributes.get("recipe"), "recipe", problems)
    metadata = _object(attributes.get("variables_metadata"), "variables_metadata", problems)
    for name, value in metadata.items():
        if not isinstance(value, dict):
            problems.append(Problem(f"variables_metadata.{name}", f"expected an object, found {shorten(value)}"))
    if problems:
        raise ConventionError(f"{where} has attributes that are not those of an observation store", problems)
    return StoreAttributes(
        variables,
        recipe=MappingProxyType(recipe),
        variables_metadata=MappingProxyType(metadata),
        all=MappingProxyType(dict(attributes)),
        **texts,
    )


def _names(given: Any, where: str, problems: list[Problem]) -> tuple[str, ...]:
    if not isinstance(given, list) or not all(isinstance(n, str) and n for n in given):
        problems.append(Problem(where, f"expected a list of names, found {shorten(given)}"))
        return ()
    seen: set[str] = set()
    for name in given:
        if name in seen:
            problems.append(Problem(where, f"the name {name!r} occurs twice"))
        seen.add(name)
    return tuple(given)


def _text(given: Any, where: str, problems: list[Problem]) -> str | None:
    if given is None or isinstance(given, str):
        return given
    problems.append(Problem(where, f"expected text, found {shorten(given)}"))
    return None


def _object(given: Any, where: str, problems: list[Problem]) -> dict[str, Any]:
    if given is None:
        return {}
    if isinstance(given, dict):
        return given
    problems.append(Problem(where, f"expected an object, found {shorten(given)}"))
    return {}
