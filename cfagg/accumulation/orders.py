"""What was asked of a build of sums, and what is going to be done."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from cfagg._version import __version__
from cfagg.accumulation.layout import Layout
from cfagg.accumulation.options import Settings
from cfagg.accumulation.partials import Recipe
from cfagg.accumulation.related import Neighbour, encoding_of
from cfagg.accumulation.weights import Weights
from cfagg.accumulation.writing import Kept
from cfagg.formats.zarr import ZarrArray

__all__ = ["Order", "Plan"]


@dataclass(frozen=True, eq=False)
class Order:
    """What was asked for."""

    store: str
    variable: str
    dims: Any
    stride: Any
    weights: Any
    statistics: Any
    precision: str
    codec: str | None
    append: bool
    refresh: bool
    overwrite: bool
    resume: bool
    memory: int
    allow: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class Plan:
    """What is going to be done."""

    array: ZarrArray
    folder: Path
    existing: tuple[int, int] | None
    settings: Settings
    weights: Weights | None
    recipe: Recipe
    layout: Layout
    kept: Kept | None
    action: str
    done: bool = False
    #: Whether nothing is to be summed, and what is known of related arrays is to be written anew.
    renew: bool = False
    related: tuple[Neighbour, ...] = ()
    notes: tuple[str, ...] = ()

    def identity(self) -> dict[str, Any]:
        """Return what must be the same for a build to be finished by another run."""
        array, meaning = self.array, self.recipe.meaning
        grid = [list(map(int, np.diff(e))) if isinstance(e, np.ndarray) else e.chunk for e in array.grid.axes]
        return {
            "version": __version__,
            "array": [array.path, list(array.dims), list(array.shape), grid, array.dtype.name],
            "meaning": repr((meaning.mask, meaning.packing)),
            "encoding": dict(encoding_of(array, None)),
            "options": self.settings.identity(),
            "weights": None if self.weights is None else self.weights.digest(),
            "accumulation to extend": None
            if self.kept is None
            else [list(self.kept.group.identity), self.kept.axis, self.kept.chunk],
        }
