"""Facts about every fragment of an aggregation as an array of its own."""

from __future__ import annotations

from typing import Any

import numpy as np

from cfagg.model import Aggregation, Grid, Layout, Partitions

__all__ = ["fact_of"]


def fact_of(aggregation: Aggregation, term: str, name: str) -> Aggregation:
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
