"""The partitions of an array, as columns: file, address, layout and part of what fills each cell of its matrix."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from cfagg.aggregation.joining import Joined
from cfagg.aggregation.matrix import Blocks, Matrix
from cfagg.cf.joining import Stated
from cfagg.model import Layout, Partitions, Strings

__all__ = ["Layouts", "partitions_of"]

Int64 = npt.NDArray[np.int64]

#: Formats of files, as the scan names them, and how partitions call them; others are netCDF.
_FORMATS = {"PP": "PP", "zarr": "zarr", "nczarr": "zarr", "Fields file": "UM", "kerchunk": "kerchunk"}


class Layouts:
    """Layouts and tables of names that arrays share."""

    def __init__(self) -> None:
        self._files: dict[bytes, tuple[Int64, Strings]] = {}

    def files(self, joined: Joined, file: Int64) -> tuple[Int64, Strings]:
        """Return codes and the table of the names of files."""
        key = file.tobytes()
        if key not in self._files:
            used, codes = np.unique(file, return_inverse=True)
            self._files[key] = codes, Strings(str(joined.scanned[k].place) for k in used.tolist())
        return self._files[key]


def partitions_of(
    joined: Joined,
    rows: Int64,
    stated: Sequence[Stated],
    blocks: Blocks,
    matrix: Matrix,
    flips: npt.NDArray[np.bool_],
    spans: Sequence[str],
    orders: Sequence[Sequence[int]],
    tables: Layouts,
    offsets: Int64 | None = None,
) -> Partitions:
    """Return the partitions.

    `flips` and `orders` are, for each member, the dimensions along which it is stored against the array, and which of
    `spans` its dimensions are; `offsets` are addresses of blocks that are fields.
    """
    count = matrix.grid.size
    if not count:
        return Partitions.build(0, layouts=[Layout(tuple(spans))])
    codes, files = tables.files(joined, joined.file[rows])
    bits = flips @ (1 << np.arange(len(spans), dtype=np.int64)) if spans else np.zeros(len(rows), np.int64)
    formats = [joined.scanned[k].format for k in joined.file[rows].tolist()]
    addresses: dict[str, int] = {}
    layouts: dict[Any, int] = {}
    table: list[Layout] = []
    address = np.empty(len(rows), np.int64)
    layout = np.empty(len(rows), np.int64)
    for k, (one, order, flip, form) in enumerate(zip(stated, orders, bits.tolist(), formats, strict=True)):
        name = one.name if "/" not in one.name else f"/{one.name}"
        address[k] = addresses.setdefault(name, len(addresses))
        key = (tuple(order), flip, form)
        if key not in layouts:
            layouts[key] = len(table)
            dims = tuple(spans[d] for d in order)
            flipped = tuple(bool(flips[k, d]) for d in order)
            table.append(Layout(dims, flipped, format=_FORMATS.get(form)))
        layout[k] = layouts[key]
    of = np.searchsorted(rows, blocks.row)[matrix.block]  # the entry in `rows`, which increase, of each cell
    columns: dict[str, Any] = {"file": codes[of], "address": address[of], "layout": layout[of]}
    if offsets is not None:
        offset = offsets[matrix.block]
        columns |= {"offset": offset, "address": np.where(offset >= 0, -1, columns["address"])}
    size = blocks.size[matrix.block]
    partial = np.flatnonzero(((matrix.start != 0) | (matrix.count != size)).any(axis=1))
    parts: dict[str, int] = {}
    if partial.size:
        part = np.full(count, -1)
        shapes: dict[Any, int] = {}
        for cell in partial.tolist():
            k = int(of[cell])
            texts, shape = [], []
            for d in orders[k]:
                n, a = int(size[cell, d]), int(matrix.start[cell, d])
                b = a + int(matrix.count[cell, d])
                a, b = (n - b, n - a) if flips[k, d] else (a, b)
                texts.append(f"({a}, {b}, 1)")
                shape.append(n)
            part[cell] = parts.setdefault(f"[{', '.join(texts)}]", len(parts))
            own = (int(layout[k]), tuple(shape))
            if own not in shapes:
                shapes[own] = len(table)
                base = table[int(layout[k])]
                table.append(Layout(base.dims, base.flipped, format=base.format, shape=tuple(shape)))
            columns["layout"][cell] = shapes[own]
        columns["part"] = part
    return Partitions.build(count, **columns, files=files, addresses=list(addresses), parts=list(parts), layouts=table)
