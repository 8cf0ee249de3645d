"""Observations from another store, of cfagg or of anemoi-datasets, and from a Python function."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
from pydantic import Field

from cfagg.errors import ConventionError, Problem
from cfagg.errors.arguments import closest
from cfagg.kernels.lookup import epochs_of_rows
from cfagg.observations.frames import with_attributes
from cfagg.observations.registry import Config
from cfagg.observations.settings import ByName, Names, Path, Section, function, settings_of
from cfagg.storage.urls import Url, a_place

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["CallableSource", "ObservationsSource"]

_EPOCH = datetime(1970, 1, 1)

#: Number of rows that are read at once.
BATCH = 1 << 18


class _Store(Section):
    path: Path
    columns: Names | None = None
    options: ByName = Field(default_factory=dict)
    allow: Names = ()


class ObservationsSource:
    """A store of observations.

    Parameters
    ----------
    config : mapping
        ``path``: a directory, or an address of a store in an object store.  ``columns``: the variables, all if not
        given.  ``options`` and ``allow``: for an address, as for `cfagg.open_observations`.
    """

    def __init__(self, config: Mapping[str, Any]) -> None:
        settings = settings_of(_Store, config)
        path = config.path(settings.path) if isinstance(config, Config) else settings.path
        self.path = a_place(path, settings.options, settings.allow, options_name="options")
        self.places = (self.path,)
        self.columns = settings.columns
        self._store: Any = None
        self._index: Any = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_store": None, "_index": None}

    def files(self) -> list[str]:
        """Return the path of the store."""
        return [self.path]

    def read(self, start: datetime, end: datetime) -> Iterator[pd.DataFrame]:
        """Yield the observations from `start` up to but excluding `end`."""
        import pandas as pd

        store, index = self._opened()
        variables = list(store.variables)
        wanted = variables if self.columns is None else list(self.columns)
        columns = [4 + variables.index(name) for name in wanted]
        described = getattr(store.attributes, "variables_metadata", None) or {}
        attributes = {n: described[n] for n in wanted if isinstance(described.get(n), Mapping)}
        first, stop = index.find(_seconds(start), _seconds(end))
        for low in range(first, stop, BATCH) if stop > first else [first]:
            high = min(low + BATCH, stop)
            rows = store.data.read(low, high) if high > low else np.empty((0, 4 + len(variables)), np.float32)
            epochs = epochs_of_rows(rows)
            if ((epochs < _seconds(start)) | (epochs >= _seconds(end))).any():
                raise ConventionError(
                    f"{self.path}: not all of the rows {low} to {high - 1} have dates from {start} to {end}: the index "
                    f"({index.kind}) does not belong to the data; see details with: cfagg obs check; write a new one "
                    "with: cfagg obs index --from data"
                )
            found = {"date": epochs.astype("M8[s]"), "latitude": rows[:, 2], "longitude": rows[:, 3]}
            found.update({name: rows[:, c] for name, c in zip(wanted, columns, strict=True)})
            yield with_attributes(pd.DataFrame(found, index=range(low, high), copy=False), attributes)

    def _opened(self) -> tuple[Any, Any]:
        if self._store is None:
            from cfagg.observations.store import open_store

            given = (self.path.options.given, self.path.options.allow) if isinstance(self.path, Url) else ()
            store = open_store(self.path, *given)
            problems = [
                Problem(n, f"is not a variable{closest(n, store.variables)}")
                for n in self.columns or ()
                if n not in store.variables
            ]
            if problems:
                raise ConventionError(f"{self.path} has the variables {', '.join(store.variables)}", problems)
            self._store, self._index = store, store.index()
        return self._store, self._index


def _seconds(when: datetime) -> int:
    """Return whole seconds since 1970, rounded up."""
    return -((_EPOCH - when) // timedelta(seconds=1))


_REMEDY = "give one from Python, or make it a source by name with an entry point of the group cfagg.sources"


class _Function(Section):
    function: Annotated[Any, function(_REMEDY)]


class CallableSource:
    """A function of two dates, the second exclusive, that returns a frame, or an iterable of frames."""

    # With several processes it must be picklable: defined in a module, not in a function.

    def __init__(self, config: Mapping[str, Any]) -> None:
        self.function = settings_of(_Function, config).function

    def read(self, start: datetime, end: datetime) -> pd.DataFrame | Iterable[pd.DataFrame]:
        """Return the result of the function."""
        found: pd.DataFrame | Iterable[pd.DataFrame] = self.function(start, end)
        return found
