"""Splitting variables of PP files into fields: a partition for each, by its address, as dialects refer to these."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt

from cfagg.aggregation.joining import Joined
from cfagg.aggregation.matrix import Blocks
from cfagg.arrays.opening import open_any, open_reader
from cfagg.arrays.slabs import SlabReader
from cfagg.cf.joining import Stated
from cfagg.model import Grid

__all__ = ["by_fields"]

Int64 = npt.NDArray[np.int64]


def by_fields(
    joined: Joined,
    rows: Int64,
    stated: Sequence[Stated],
    blocks: Blocks,
    flips: npt.NDArray[np.bool_],
    orders: Sequence[Sequence[int]],
) -> tuple[Blocks, Int64]:
    """Return blocks, with those of PP files divided into fields, and the address of each, or -1 for other files.

    `flips` gives, for each member, the dimensions along which it is stored in reverse.
    """
    table: list[tuple[Any, ...]] = []
    addresses: list[int] = []
    for k, row in enumerate(blocks.row.tolist()):
        member = int(np.searchsorted(rows, row))
        whole = (row, blocks.low[k], blocks.high[k], blocks.start[k], blocks.size[k])
        scanned = joined.scanned[int(joined.file[row])]
        found = _fields(str(scanned.place), stated[member].name) if scanned.format == "PP" else None
        if found is None:
            table.append(whole)
            addresses.append(-1)
            continue
        grid, address = found
        order = orders[member]
        cut = [f for f, n in enumerate(grid.matrix_shape) if n > 1]
        for index in product(*(range(int(blocks.high[k, order[f]] - blocks.low[k, order[f]])) for f in cut)):
            low, high, start, size = (np.array(column) for column in whole[1:])
            chunk = [0] * len(order)
            for f, i in zip(cut, index, strict=True):
                d = order[f]
                place = int(start[d]) + i
                chunk[f] = int(size[d]) - 1 - place if flips[member, d] else place
                low[d], start[d], size[d] = low[d] + i, 0, 1
                high[d] = low[d] + 1
            table.append((row, low, high, start, size))
            addresses.append(int(address[np.ravel_multi_index(chunk, grid.matrix_shape)]))
    columns = [np.array(column, np.int64) for column in zip(*table, strict=True)]
    return Blocks(*columns), np.array(addresses, np.int64)


def _fields(place: str, name: str) -> tuple[Grid, Int64] | None:
    """Return the fields of a variable as a grid, and their addresses; `None` if these are not available."""
    reader = open_reader(open_any(place), name)
    if not isinstance(reader, SlabReader) or reader.addresses is None:
        return None
    _, grid, addresses = reader.addresses()
    # Each field has one index along every divided dimension.
    single = all(n == 1 or n == size for n, size in zip(grid.matrix_shape, grid.shape, strict=True))
    return (grid, addresses) if addresses is not None and single else None
