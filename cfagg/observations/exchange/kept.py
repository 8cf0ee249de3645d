"""What another format has no place for, kept as one JSON document, and read back with care."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from cfagg.conventions.findings import shorten
from cfagg.errors import ConventionError, LimitError, Problem
from cfagg.observations.exchange.table import Table

__all__ = ["KEPT", "Kept", "about_of", "kept_of", "parse_kept", "plain"]

#: The attribute, or the key of metadata, with the document.
KEPT = "cfagg"

#: A longer document is not read.
MAX_BYTES = 64 << 20


#: Attributes of a store that belong to its arrays, which an export does not carry on.
_OF_ARRAYS = frozenset(
    {
        "_tabular_finalise_complete", "chunks", "constant_fields", "date_indexing", "dimensions", "dtype", "format",
        "index_end_date", "index_length", "index_start_date", "layout", "meta_variables", "shape", "uuid", "variables",
        "variables_metadata", "version", "last_date", "start_date", "end_date", "latest_write_timestamp", "total_size",
        "total_number_of_files",
    }
)  # fmt: skip


@dataclass(frozen=True)
class Kept:
    """A document that was read."""

    #: Names in the file of the variables of the store, in the store's order.
    variables: tuple[str, ...]
    #: Attributes of variables, by their names in the store, that the file has no place for.
    attributes: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    #: What the store told of itself.
    about: Mapping[str, Any] = field(default_factory=dict)
    #: Names of attributes that variables have in the file only, by their names in the store.
    added: Mapping[str, list[str]] = field(default_factory=dict)

    @property
    def of_store(self) -> dict[str, Any]:
        """What the store told of itself, without what is true of its arrays alone."""
        return about_of(self.about)


def about_of(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """Return the attributes of a store's root that describe what is in it, not how it is stored."""
    return {
        k: v
        for k, v in attributes.items()
        if k not in _OF_ARRAYS and not k.startswith("statistics_") and v is not None and v != {}
    }


def kept_of(
    table: Table,
    names: Sequence[str],
    attributes: Mapping[str, Mapping[str, Any]],
    added: Mapping[str, list[str]] | None = None,
) -> dict[str, Any]:
    """Return the document of a table; `names` are those of its variables in the file."""
    return {
        "version": 1,
        "variables": list(names),
        "attributes": {k: plain(v) for k, v in attributes.items() if v},
        "about": plain(table.about),
        "added": dict(added or {}),
        "statistics": {k: plain(np.asarray(v).tolist()) for k, v in table.statistics.items()},
    }


def parse_kept(text: str | bytes, where: str) -> Kept:
    """Return a document that a file holds."""
    if len(text) > MAX_BYTES:
        raise LimitError(f"{where}: the attribute {KEPT!r} has {len(text):,} bytes, read up to {MAX_BYTES:,}")
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ConventionError(f"{where}: the attribute {KEPT!r} is not JSON: {error}") from None
    if not isinstance(found, dict) or found.get("version") != 1:
        raise ConventionError(f"{where}: the attribute {KEPT!r} is {shorten(found)}, expected an object of version 1")
    problems = []
    names = found.get("variables")
    if not isinstance(names, list) or not all(isinstance(n, str) and n for n in names) or len(set(names)) < len(names):
        problems.append(Problem("variables", f"expected different names, found {shorten(names)}"))
    attributes, about, added = (found.get(key, {}) for key in ("attributes", "about", "added"))
    if not isinstance(attributes, dict) or not all(isinstance(v, dict) for v in attributes.values()):
        problems.append(Problem("attributes", f"expected objects by name, found {shorten(attributes)}"))
    if not isinstance(about, dict):
        problems.append(Problem("about", f"expected an object, found {shorten(about)}"))
    elif not isinstance(about.get("recipe", {}), dict):
        problems.append(Problem("about.recipe", f"expected an object, found {shorten(about['recipe'])}"))
    if not isinstance(added, dict) or not all(isinstance(v, list) for v in added.values()):
        problems.append(Problem("added", f"expected lists by name, found {shorten(added)}"))
    if problems:
        raise ConventionError(f"{where}: the attribute {KEPT!r} is not as cfagg writes it", problems)
    return Kept(tuple(map(str, names or ())), attributes, about, added)


def plain(value: Any) -> Any:
    """Return a value as JSON has it: NaN and infinities as text."""
    if isinstance(value, Mapping):
        return {str(k): plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [plain(v) for v in value]
    if isinstance(value, float) and not np.isfinite(value):
        return str(value)
    return value
