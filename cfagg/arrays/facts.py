"""Facts about every fragment of an aggregation as an array of its own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from cfagg.model import Aggregation, Grid, Layout, Partitions

__all__ = ["facts_of"]


def facts_of(variables: Mapping[str, Any]) -> dict[str, tuple[str, Aggregation]]:
    """Return the facts about the fragments of aggregations, by new names, each with its aggregation's name."""
    found: dict[str, tuple[str, Aggregation]] = {}
    for aggregation in (v for v in variables.values() if isinstance(v, Aggregation)):
        for term in aggregation.terms:
            name = term if term not in {*variables, *found} else f"{aggregation.name}_{term}"
            if name not in variables and name not in found:
                found[name] = (aggregation.name, _fact(aggregation, term, name))
    return found


def _fact(aggregation: Aggregation, term: str, name: str) -> Aggregation:
    """Return the aggregation of the values of a term, each throughout its partition.

    It has the dimensions along which there are several partitions. Numbers that are missing somewhere are reals.
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
