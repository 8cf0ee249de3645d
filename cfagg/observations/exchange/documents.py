"""A JSON document with the information that another format cannot represent, which is checked when it is read back."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from cfagg.conventions.findings import shorten
from cfagg.errors import ConventionError, LimitError, Problem, SourceError, UnsupportedError
from cfagg.observations.exchange.table import META, Int64, Rows, Table

__all__ = ["KEY", "Document", "about_of", "document_of", "merged", "parse_document", "plain", "runs", "table_of"]

#: The attribute, or the metadata key, with the document.
KEY = "cfagg"

#: Longer documents are not read.
MAX_BYTES = 64 << 20


#: Attributes of a store that describe its arrays, which are not exported.
_OF_ARRAYS = frozenset(
    {
        "_tabular_finalise_complete", "chunks", "constant_fields", "date_indexing", "dimensions", "dtype", "format",
        "index_end_date", "index_length", "index_start_date", "layout", "meta_variables", "shape", "uuid", "variables",
        "variables_metadata", "version", "last_date", "start_date", "end_date", "latest_write_timestamp", "total_size",
        "total_number_of_files",
    }
)  # fmt: skip


@dataclass(frozen=True)
class Document:
    """A document that was read."""

    #: Names in the file of the variables of the store, in the store's order.
    variables: tuple[str, ...]
    #: Attributes of variables that the file cannot represent, by the names in the store.
    attributes: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    #: The attributes that describe the store.
    about: Mapping[str, Any] = field(default_factory=dict)
    #: Names of attributes that variables have only in the file, by the names in the store.
    added: Mapping[str, list[str]] = field(default_factory=dict)

    @property
    def of_store(self) -> dict[str, Any]:
        """The attributes that describe the store, without those of its arrays."""
        return about_of(self.about)


def about_of(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """Return the root attributes that describe the content of a store rather than its storage."""
    return {
        k: v
        for k, v in attributes.items()
        if k not in _OF_ARRAYS and not k.startswith("statistics_") and v is not None and v != {}
    }


def document_of(
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


def parse_document(text: str | bytes, where: str) -> Document:
    """Return a document from a file."""
    if len(text) > MAX_BYTES:
        raise LimitError(f"{where}: the attribute {KEY!r} has {len(text):,} bytes, more than {MAX_BYTES:,}")
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ConventionError(f"{where}: the attribute {KEY!r} is not JSON: {error}") from None
    if not isinstance(found, dict) or found.get("version") != 1:
        raise ConventionError(f"{where}: the attribute {KEY!r} is {shorten(found)}, expected an object of version 1")
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
        raise ConventionError(f"{where}: the attribute {KEY!r} was not written by cfagg, or was changed", problems)
    return Document(tuple(map(str, names or ())), attributes, about, added)


def plain(value: Any) -> Any:
    """Return a value in JSON types, NaN and infinities as text."""
    if isinstance(value, Mapping):
        return {str(k): plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [plain(v) for v in value]
    if isinstance(value, float) and not np.isfinite(value):
        return str(value)
    return value


def table_of(source: Any, storage_options: Mapping[str, Any] | None = None) -> Table:
    """Return the table of a store, by its path or opened, or of a dataset of `cfagg.open_observations`."""
    from cfagg.observations.store import ObservationStore, open_store

    if isinstance(source, Table):
        return source
    if isinstance(source, str | os.PathLike):
        source = open_store(os.fspath(source), storage_options)
    if isinstance(source, ObservationStore):
        return _of_store(source)
    from cfagg.observations.dataset import Observations

    if isinstance(source, Observations):
        return _of_dataset(source)
    raise SourceError(
        f"{type(source).__name__} cannot be exported; give the path of a store, or what open_observations returns"
    )


def _of_store(store: Any) -> Table:
    return Table(
        store.path,
        tuple(store.variables),
        store.rows,
        store.data.read,
        store.attributes.variables_metadata,
        about_of(store.attributes.all),
        store.statistics,
    )


def _of_dataset(dataset: Any) -> Table:
    """Return the rows in any window of a dataset, each once, with its variables and in its area."""
    plan, store = dataset.plan, dataset.store
    if plan.thin is not None:
        raise UnsupportedError(
            f"{dataset.path}: a dataset that thins its samples cannot be exported, because windows may keep different "
            "rows; leave out thin="
        )
    columns = np.concatenate([np.arange(META), META + plan.columns.positions(store.variables)])
    rows = merged(dataset.ranges)
    if plan.area is not None:
        chosen = [np.empty(0, np.int64)]
        for start, stop in rows.tolist():
            for first in range(start, stop, 1 << 20):
                places = store.data.read(first, min(first + (1 << 20), stop), slice(2, 4))
                chosen.append(first + np.flatnonzero(plan.area.mask(places[:, 0], places[:, 1])))
        rows = runs(np.concatenate(chosen))
    ends = np.cumsum(rows[:, 1] - rows[:, 0])

    def read(first: int, stop: int) -> Rows:
        blocks = [np.empty((0, len(columns)), np.float32)]
        at = int(np.searchsorted(ends, first, side="right"))
        while first < stop:
            row = int(rows[at, 1] - (ends[at] - first))
            count = min(stop, int(ends[at])) - first
            blocks.append(store.data.read(row, row + count, columns))
            first, at = first + count, at + 1
        return np.concatenate(blocks)

    return Table(
        dataset.path,
        tuple(dataset.variables),
        int(ends[-1]) if len(ends) else 0,
        read,
        dataset.variables_metadata,
        {k: v for k, v in about_of(store.attributes.all).items() if k != "recipe"},
    )


def merged(ranges: Int64) -> Int64:
    """Return ranges of rows without empty ones, joining those that touch or overlap."""
    ranges = ranges[ranges[:, 1] > ranges[:, 0]]
    if not len(ranges):
        return ranges
    reach = np.maximum.accumulate(ranges[:, 1])
    first = np.concatenate([[True], ranges[1:, 0] > reach[:-1]])
    last = np.concatenate([first[1:], [True]])
    return np.stack([ranges[first, 0], reach[last]], axis=1)


def runs(numbers: Int64) -> Int64:
    """Return increasing numbers as ranges."""
    if not len(numbers):
        return np.empty((0, 2), np.int64)
    breaks = np.flatnonzero(np.diff(numbers) != 1)
    return np.stack([numbers[np.concatenate([[0], breaks + 1])], numbers[np.append(breaks, -1)] + 1], axis=1)
