"""The data model that every convention is read into and written from.

Partition matrices, chunk grids and sampling grids share one structure, with a strictly increasing array of *edges* per
dimension that starts at 0 (`Grid`).  An `Aggregation` is a grid and a table with one row per partition, stored as
columns (`Partitions`): codes into small tables of distinct strings (`Strings`) and distinct descriptions (`Layout`).  A
million partitions cost tens of megabytes and no Python object each.

Everything here is immutable and validated on construction; an error lists every problem and its location.

*aggregation*: an array whose values are stored elsewhere, given by a description of the array and the partitions that
it consists of.

*master array*: the array that an aggregation describes, with its own dimensions, type, units and calendar; master for
short.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from itertools import chain, count
from typing import Any

import numpy as np
import numpy.typing as npt

from cfagg.errors import ModelError, Problem
from cfagg.model.grid import Grid
from cfagg.model.hook import html_of
from cfagg.model.partitions import Layout, Partitions, same_value

__all__ = ["Aggregation", "facts_of"]


@dataclass(frozen=True, eq=False)
class Aggregation:
    """An aggregated array: the description of the master array, and the locations of its partitions.

    Parameters
    ----------
    name : str
        Variable name.
    dims : tuple of str
        Dimensions in order.
    shape : tuple of int
        Sizes of `dims`.
    dtype : numpy.dtype
        Data type of the master array.
    grid : Grid
        Edges of the partitions along every dimension, with 1 partition along a dimension that is not partitioned.
    partitions : Partitions
        One row per cell of `grid`, in C order.
    units, calendar : str, optional
        Units and calendar of the master array.
    directions : tuple of bool or bool, optional
        True for a dimension that increases; a single boolean for a scalar.  All True by default.
    attributes : mapping, optional
        The variable's other attributes.
    source : str, optional
        The file that the aggregation was read from; relative references are resolved against its directory.
    bounds_of : str, optional
        The coordinate variable whose cell bounds these are.  Bounds need no units, because they have those of their
        coordinate, here and in the files of the sub-arrays (CF section 7.1).
    dialect : str, optional
        The convention that it was read with, such as ``"NCA-0.1"`` or ``"CF-1.13"``; empty if it was created otherwise.
    terms : mapping of str to array
        Further properties of every partition that a convention allows in a file, as arrays of the partition matrix's
        shape, masked where there is no value.
    packs : bool
        Whether conformed values are packed as given by `attributes`, so that the array is read as stored.  False in
        CF-1.13, where the conformed values are themselves the packed ones.
    """

    name: str
    dims: tuple[str, ...]
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    grid: Grid
    partitions: Partitions
    units: str | None = None
    calendar: str | None = None
    directions: tuple[bool, ...] | bool = True
    attributes: Mapping[str, Any] = field(default_factory=dict)
    source: str = field(default="", compare=False)
    bounds_of: str | None = field(default=None, compare=False)
    dialect: str = field(default="", compare=False)
    terms: Mapping[str, npt.NDArray[Any]] = field(default_factory=dict)
    packs: bool = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "dtype", np.dtype(self.dtype))
        if self.dims and isinstance(self.directions, bool):
            object.__setattr__(self, "directions", (self.directions,) * len(self.dims))
        problems = []
        if len(set(self.dims)) != len(self.dims):
            problems.append(Problem("dims", f"a dimension occurs twice in {self.dims}"))
        if self.grid.shape != self.shape or len(self.dims) != len(self.shape):
            problems.append(Problem("shape", f"dims {self.dims}, shape {self.shape} and grid {self.grid.shape} differ"))
        if len(self.partitions) != self.grid.size:
            problems.append(
                Problem("partitions", f"{len(self.partitions)} partitions for a matrix of {self.grid.size}")
            )
        problems += [
            Problem(f"terms.{name}", f"shape {np.shape(values)}, expected {self.grid.matrix_shape}")
            for name, values in self.terms.items()
            if np.shape(values) != self.grid.matrix_shape
        ]
        if isinstance(self.directions, tuple) and len(self.directions) != len(self.dims):
            problems.append(Problem("directions", f"{len(self.directions)} directions for {len(self.dims)} dimensions"))
        if problems:
            raise ModelError(f"variable {self.name!r} is not an aggregation", problems)

    def __eq__(self, other: object) -> bool:
        """Compare everything except the source; attributes may contain arrays."""
        if not isinstance(other, Aggregation):
            return NotImplemented
        names = [f.name for f in fields(self) if f.compare and f.name not in ("attributes", "terms")]
        return all(getattr(self, name) == getattr(other, name) for name in names) and all(
            mine.keys() == theirs.keys() and all(same_value(v, theirs[k]) for k, v in mine.items())
            for mine, theirs in ((self.attributes, other.attributes), (self.terms, other.terms))
        )

    __hash__ = None  # type: ignore[assignment]

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return len(self.dims)

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    def __repr__(self) -> str:
        dims = ", ".join(f"{d}: {n}" for d, n in zip(self.dims, self.shape, strict=True))
        matrix = " x ".join(map(str, self.grid.matrix_shape)) or "1"
        return f"<Aggregation {self.name!r} ({dims}) {self.dtype}, {matrix} partitions>"

    def _repr_html_(self) -> str | None:
        return html_of(self)


def facts_of(variables: Mapping[str, Any]) -> dict[str, tuple[str, Aggregation]]:
    """Return the terms of aggregations as aggregations, by new names, each with the name of its aggregation."""
    found: dict[str, tuple[str, Aggregation]] = {}
    for aggregation in (v for v in variables.values() if isinstance(v, Aggregation)):
        for term in aggregation.terms:
            beside = f"{aggregation.name}_{term}"
            names = chain((term, beside), (f"{beside}_{k}" for k in count(1)))
            name = next(n for n in names if n not in variables and n not in found)
            found[name] = (aggregation.name, _fact(aggregation, term, name))
    return found


def _fact(aggregation: Aggregation, term: str, name: str) -> Aggregation:
    """Return the aggregation of the values of a term, each constant throughout its partition.

    Its dimensions are those with several partitions. Integers are converted to float64 if any is missing.
    """
    kept = [d for d, n in enumerate(aggregation.grid.matrix_shape) if n != 1]
    values = np.ma.asanyarray(aggregation.terms[term])
    missing, data = np.ma.getmaskarray(values).ravel(), values.data.ravel()
    if data.dtype.kind == "O":
        dtype: np.dtype[Any] = np.dtype(object, metadata={"element_type": str})
    else:
        dtype = np.dtype("f8") if missing.any() and data.dtype.kind in "iu" else data.dtype
    table = np.ma.MaskedArray(data.astype(dtype), missing) if missing.any() else data
    dims = tuple(aggregation.dims[d] for d in kept)
    grid = Grid([aggregation.grid.axes[d] for d in kept], [aggregation.shape[d] for d in kept])
    codes = np.arange(grid.size)
    partitions = Partitions.build(grid.size, value=codes, values=table, layouts=[Layout(dims)])
    return Aggregation(name, dims, grid.shape, dtype, grid, partitions, source=aggregation.source, packs=False)
