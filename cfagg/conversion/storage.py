"""How the source itself is divided: its partitions, and the chunks in which files store them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from cfagg.errors import FragmentNotFoundError, FragmentReadError
from cfagg.model import Aggregation, Grid
from cfagg.storage.access import Access
from cfagg.storage.files import Context

__all__ = ["cell_edges", "stored_chunks"]

Int64 = npt.NDArray[np.int64]


def cell_edges(partitions: Grid, storage: Sequence[int] | None) -> tuple[Int64, ...]:
    """Return the edges, per dimension, of the blocks in which the source stores values.

    >>> cell_edges(Grid([[0, 5, 12]]), (4,))[0]
    array([ 0,  4,  5,  9, 12])
    """
    edges = partitions.edges
    if storage is None:
        return edges
    out = []
    for e, c in zip(edges, storage, strict=True):
        whole = len(e) < 2 or c >= int(e[-1]) or int(np.diff(e).max()) <= c
        parts = [] if whole else [np.arange(a, b, c) for a, b in pairwise(e.tolist())]
        out.append(e if whole else np.concatenate([*parts, e[-1:]]))
    return tuple(out)


def stored_chunks(group: str, aggregation: Aggregation, access: Access) -> tuple[int, ...] | None:
    """Return the chunks in which an aggregation's values are stored, by its dimensions; None if there are none.

    Only the first existing partition is checked, since the result only determines how much is read at a time.
    """
    partitions = aggregation.partitions
    for i in np.flatnonzero(partitions.present & (partitions.value < 0))[:3].tolist() if aggregation.dims else ():
        layout = partitions.layout_of(i)
        if partitions.part_text(i) is not None:
            return None
        file = access.resolve(partitions.file_name(i))
        found = _located(file, partitions.address_name(i) or aggregation.name, group, access)
        if found is not None and len(found) == len(layout.dims):
            sizes = dict(zip(layout.dims, found, strict=True))
            return tuple(sizes.get(d, 1) for d in aggregation.dims)
    return None


def _located(path: str, address: str, group: str, access: Access) -> tuple[int, ...] | None:
    """Return the chunks of one variable of one file."""
    from cfagg.formats.values import locate

    try:
        found = locate(path, address, Context(), group, access.judge).chunks
    except (FragmentNotFoundError, FragmentReadError):
        # Reading it later raises an error with the partition's place, or fills it if requested.
        return None
    return None if found is None else tuple(int(n) for n in found)
