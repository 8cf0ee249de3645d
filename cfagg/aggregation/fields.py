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
from cfagg.arrays.source import Source
from cfagg.arrays.store_fragments import changed
from cfagg.cf.joining import Stated
from cfagg.storage.handles import handles

__all__ = ["Fields", "by_fields"]

Int64 = npt.NDArray[np.int64]


class Fields:
    """The addresses of the fields in PP files, each of which is opened once for all of its variables."""

    def __init__(self, joined: Joined) -> None:
        self._scanned = joined.scanned
        self._known: dict[int, dict[str, tuple[tuple[int, ...], Int64] | None]] = {}

    def of(self, file: int, name: str) -> tuple[tuple[int, ...], Int64] | None:
        """Return the shape of the grid of a variable's fields, and their addresses; `None` if these are unavailable."""
        one = self._scanned[file]
        if one.format != "PP":
            return None
        if file not in self._known:
            source = open_any(one.place)
            large = (p.stated for d in one.described for p in d.parts.values() if p.values is None)
            names = dict.fromkeys(stated.name for stated in (*(d.stated for d in one.described), *large))
            self._known[file] = {known: _fields(source, known) for known in names}
            key, then = handles.get(one.place).key, one.state
            if then is not None and (key.size, key.modified, key.inode) != (then.size, then.mtime_ns, then.inode):
                raise changed(one.place, f"variable {name!r}")
        return self._known[file][name]


def by_fields(
    fields: Fields,
    files: Int64,
    rows: Int64,
    stated: Sequence[Stated],
    blocks: Blocks,
    flips: npt.NDArray[np.bool_],
    orders: Sequence[Sequence[int]],
) -> tuple[Blocks, Int64]:
    """Return blocks, with those of PP files divided into fields, and the address of each, or -1 for other files.

    `files` gives the file of each member, and `flips` the dimensions along which it is stored in reverse.
    """
    table: list[tuple[Any, ...]] = []
    addresses: list[int] = []
    for k, row in enumerate(blocks.row.tolist()):
        member = int(np.searchsorted(rows, row))
        whole = (row, blocks.low[k], blocks.high[k], blocks.start[k], blocks.size[k])
        found = fields.of(int(files[member]), stated[member].name)
        if found is None:
            table.append(whole)
            addresses.append(-1)
            continue
        shape, address = found
        order = orders[member]
        cut = [f for f, n in enumerate(shape) if n > 1]
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
            addresses.append(int(address[np.ravel_multi_index(chunk, shape)]))
    columns = [np.array(column, np.int64) for column in zip(*table, strict=True)]
    return Blocks(*columns), np.array(addresses, np.int64)


def _fields(source: Source, name: str) -> tuple[tuple[int, ...], Int64] | None:
    """Return the shape of the grid of a variable's fields, and their addresses; `None` if these are unavailable."""
    reader = open_reader(source, name)
    if not isinstance(reader, SlabReader) or reader.addresses is None:
        return None
    _, grid, addresses = reader.addresses()
    # Each field has one index along every divided dimension.
    single = all(n == 1 or n == size for n, size in zip(grid.matrix_shape, grid.shape, strict=True))
    return (grid.matrix_shape, addresses) if addresses is not None and single else None
