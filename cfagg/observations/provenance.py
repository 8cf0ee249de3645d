"""Attributes of a store that identify it and record its origin.

They contain neither the time of writing nor anything else that differs between two builds of the same rows, so equal
builds give stores that are identical byte for byte.
"""

from __future__ import annotations

import hashlib
import os
import platform
import uuid
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path, PurePath
from typing import Any

import numpy as np
import numpy.typing as npt

from cfagg.cf.instants import epoch_text
from cfagg.errors import ConventionError, SourceError, TargetError, UnsupportedError
from cfagg.observations.dates import Part, union, without
from cfagg.observations.merging import Run, write_run
from cfagg.observations.metadata import versions
from cfagg.observations.recipe import Recipe
from cfagg.observations.rows import Rows as StoredRows
from cfagg.observations.store import ObservationStore, open_store
from cfagg.storage.urls import OPEN

__all__ = ["Base", "build_attributes", "identifier", "iso", "open_base", "periods_of", "recorded_recipe"]

#: Packages whose versions are recorded.
_PACKAGES = ("numcodecs", "numpy", "pandas", "pyarrow", "netCDF4", "zarr")
#: The namespace of the UUIDs of stores.
_SPACE = uuid.UUID("8d0f5a8e-6c1b-5a3c-9f43-1c0f6f0c3a55")


def build_attributes(
    recipe: Recipe,
    periods: Sequence[Part],
    sources: Iterable[Mapping[str, str]],
    variables_metadata: Mapping[str, Mapping[str, Any]],
    checksums: Sequence[int],
    variables: Sequence[str],
) -> dict[str, Any]:
    """Return attributes of the root of a store; `checksums` are the CRC-32 of the rows of each chunk."""
    from cfagg._version import __version__

    recorded = recorded_recipe(recipe)
    last = recipe.dates.last
    return {
        **{k: recipe.description.get(k) for k in ("attribution", "description", "licence")},
        "cfagg": {
            "version": __version__,
            "periods": [[iso(a), iso(b)] for a, b in periods],
            "sources": [dict(s) for s in sources],
        },
        "end_date": iso(periods[-1][1] - timedelta(seconds=1)),
        "last_date": str(last),
        "provenance_load": {
            "distribution_names": {},
            "git_versions": {},
            "module_versions": {k: {"version": v} for k, v in {"cfagg": __version__, **versions(_PACKAGES)}.items()},
            "python": platform.python_version(),
        },
        "recipe": recorded,
        "start_date": str(periods[0][0]),
        "uuid": identifier(recorded, variables, checksums),
        "variables_metadata": {k: dict(v) for k, v in variables_metadata.items()},
    }


def identifier(recipe: Mapping[str, Any], variables: Sequence[str], checksums: Sequence[int]) -> str:
    """Return a store's identifier in the form of a UUID, derived from its rows and its recipe."""
    digest = hashlib.blake2b(repr((sorted(recipe.items(), key=str), list(variables), list(checksums))).encode())
    return str(uuid.uuid5(_SPACE, digest.hexdigest()))


def recorded_recipe(recipe: Recipe) -> dict[str, Any]:
    """Return the recipe to record in a store: its contents without the partition, and without folders if requested."""
    document = {k: v for k, v in recipe.document.items() if k != "build"}
    dates = document.get("dates")
    if isinstance(dates, dict):
        document["dates"] = {k: v for k, v in dates.items() if k != "group_by"}
    if "input" in document:
        document["input"] = _without_secrets(document["input"])
        if recipe.output.sanitise:
            document["input"] = _without_folders(document["input"])
    return document


def _without_secrets(value: Any) -> Any:
    """Return an input without server options that may be secrets, since stores are passed on."""
    if isinstance(value, Mapping):
        found = {k: _without_secrets(v) for k, v in value.items()}
        if isinstance(options := found.get("options"), Mapping):
            found["options"] = {k: v for k, v in options.items() if k in OPEN}
        return found
    return [_without_secrets(v) for v in value] if isinstance(value, list | tuple) else value


def sources_of(recipe: Recipe) -> list[dict[str, str]]:
    """Return the description of a recipe's sources, without folders if requested."""
    found = recipe.files()
    if recipe.output.sanitise:
        found = [{k: _without_folders(v) for k, v in s.items()} for s in found]
    return sorted(({k: v for k, v in s.items() if v} for s in found), key=lambda s: sorted(s.items()))


def periods_of(attributes: Mapping[str, Any]) -> list[Part] | None:
    """Return the recorded periods that a store was built from, or `None` if they are absent or in another form."""
    recorded = attributes.get("cfagg")
    found = recorded.get("periods") if isinstance(recorded, dict) else None
    try:
        periods = [(datetime.fromisoformat(a), datetime.fromisoformat(b)) for a, b in found or ()]
    except (TypeError, ValueError):
        return None
    if any(d.tzinfo is not None for p in periods for d in p) or any(a >= b for a, b in periods):
        return None
    return union(periods) or None


def iso(moment: datetime | int) -> str:
    """Return a date, or seconds since 1970, as text."""
    return epoch_text(moment) if isinstance(moment, int) else moment.isoformat()


def _without_folders(value: Any) -> Any:
    """Return plain values in which paths and addresses are reduced to names."""
    if isinstance(value, dict):
        return {k: _without_folders(v) for k, v in value.items()}
    if isinstance(value, list):
        return [_without_folders(v) for v in value]
    if isinstance(value, str) and "://" in value:
        return value.partition("?")[0].rstrip("/").rpartition("/")[2]
    if isinstance(value, str) and value.startswith(("/", "~", "./", "../")):
        return PurePath(value).name
    return value


type Rows = npt.NDArray[np.float32]


@dataclass(frozen=True)
class Base:
    """A store to append to."""

    path: Path
    store: ObservationStore
    #: Its rows, read without a cache.
    source: StoredRows
    #: The periods that it was built from.
    periods: list[Part]
    #: Parts that the recipe adds.
    new: list[Part]

    def rows_before(self, row: Rows) -> int:
        """Return the number of rows before a row of shape (1, columns)."""
        from cfagg.kernels.rows import lower_bound

        def is_behind(number: int) -> bool:
            return not lower_bound(self.source.read(number, number + 1), row, False, 0)

        return bisect_left(range(len(self.source)), True, key=is_behind)

    def spill(self, start: int, folder: Path, most: int) -> list[Run]:
        """Copy the rows from `start` on into runs of `most` rows."""
        runs = []
        for k, at in enumerate(range(start, len(self.source), most)):
            rows = self.source.read(at, min(at + most, len(self.source)))
            runs.append(write_run(folder / f"old-{k:06d}", rows))
        return runs


def open_base(path: str | os.PathLike[str], recipe: Recipe) -> Base:
    """Open a store to append to."""
    try:
        store = open_store(path)
    except SourceError as error:
        raise TargetError(f"{os.fspath(path)} cannot be appended to: {error.message}") from error
    periods = periods_of(store.attributes.all)
    if periods is None:
        raise UnsupportedError(
            f"{store.path} does not say which period it was built from, so that new dates cannot be found; "
            "build it with create_observations"
        )
    form = "zarr2" if store.zarr_format == 2 else "cfagg"
    wrong = [
        f"{key} {found!r}, the recipe has {wanted!r}"
        for key, found, wanted in (
            ("format", form, recipe.output.format),
            ("date_indexing", store.attributes.date_indexing, recipe.output.date_indexing),
        )
        if found != wanted
    ]
    if wrong:
        raise ConventionError(
            f"{store.path} has the {' and the '.join(wrong)}; use the settings that the store was built with"
        )
    source = StoredRows(store.source, store.data.array, cached=False)
    return Base(Path(os.path.realpath(path)), store, source, periods, without(recipe.parts(), periods))
