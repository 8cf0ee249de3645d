"""New periods for a store that is there: which parts are new, and which of its rows stay where they are."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from cfagg.errors import ConventionError, SourceError, TargetError, UnsupportedError
from cfagg.observations.periods import Part
from cfagg.observations.provenance import periods_of
from cfagg.observations.recipe import Recipe
from cfagg.observations.rows import Rows as StoredRows
from cfagg.observations.spill import Run, write_run
from cfagg.observations.store import ObservationStore, open_store

__all__ = ["Base", "StoreRows", "new_parts", "open_base"]

type Rows = npt.NDArray[np.float32]


@dataclass(frozen=True)
class StoreRows:
    """The rows of a store, read without a cache, as a source of a build."""

    data: StoredRows

    @property
    def rows(self) -> int:
        """Number of rows."""
        return len(self.data)

    def read(self, start: int, stop: int, out: Rows) -> None:
        """Read rows into an array of shape (stop - start, columns)."""
        self.data.read(start, stop, out=out)


@dataclass(frozen=True)
class Base:
    """A store that grows."""

    path: Path
    store: ObservationStore
    source: StoreRows
    #: What it was built from.
    periods: list[Part]
    #: Parts that the recipe adds.
    new: list[Part]

    def rows_before(self, row: Rows) -> int:
        """Return how many rows are before a row of shape (1, columns)."""
        from cfagg.kernels.rows import lower_bound

        low, high = 0, self.source.rows
        while low < high:
            middle = (low + high) // 2
            if lower_bound(self.source.data.read(middle, middle + 1), row, False, 0):
                low = middle + 1
            else:
                high = middle
        return low

    def spill(self, start: int, folder: Path, most: int) -> list[Run]:
        """Copy the rows from `start` on into runs of `most` rows."""
        runs = []
        for k, at in enumerate(range(start, self.source.rows, most)):
            rows = self.source.data.read(at, min(at + most, self.source.rows))
            runs.append(write_run(folder / f"old-{k:06d}", rows))
        return runs


def open_base(path: str | os.PathLike[str], recipe: Recipe) -> Base:
    """Open a store that is to grow."""
    try:
        store = open_store(path)
    except SourceError as error:
        raise TargetError(f"{os.fspath(path)} cannot be appended to: {error.message}") from error
    periods = periods_of(store.attributes.all)
    if periods is None:
        raise UnsupportedError(
            f"{store.path} does not say which period it was built from, so it is not known what is new; "
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
            f"{store.path} has the {' and the '.join(wrong)}; use the settings that it was built with"
        )
    source = StoreRows(StoredRows(store.source, store.data.array, cached=False))
    return Base(Path(os.path.realpath(path)), store, source, periods, new_parts(recipe.parts(), periods))


def new_parts(parts: Sequence[Part], periods: Sequence[Part]) -> list[Part]:
    """Return what parts have outside of periods."""
    out: list[Part] = []
    for part in parts:
        start, stop = part
        for a, b in periods:
            if b <= start or a >= stop:
                continue
            if start < a:
                out.append((start, a))
            start = min(b, stop)
        if start < stop:
            out.append((start, stop))
    return out
