"""An array of members, and its partitions as columns: file, address, layout and part for each cell."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from cfagg.aggregation.fields import Fields, by_fields
from cfagg.aggregation.joining import Joined
from cfagg.aggregation.masters import distinct, in_part, master_of, with_missing, with_texts
from cfagg.aggregation.matrix import Blocks, Matrix, blocks_of, matrix_of
from cfagg.aggregation.names import Contents
from cfagg.cf.joining import Stated
from cfagg.model import Aggregation, Layout, Partitions, Strings

__all__ = ["Arrays"]

Int64 = npt.NDArray[np.int64]

#: Formats of files, as named by the scan, with their names in partitions; others are netCDF.
_FORMATS = {"PP": "PP", "zarr": "zarr", "nczarr": "zarr", "Fields file": "UM", "kerchunk": "kerchunk"}


class Arrays:
    """Adds aggregations of members to the contents of datasets, which share tables of file names."""

    def __init__(self, joined: Joined, where: str, *, fields: bool) -> None:
        self._joined = joined
        self._where = where
        self._fields = Fields(joined) if fields else None
        self._tables: dict[bytes, tuple[Int64, Strings]] = {}

    def add(
        self,
        contents: Contents,
        name: str,
        rows: Int64,
        stated: Sequence[Stated],
        sizes: Sequence[Sequence[int]],
        axes: Sequence[int | None],
        spans: Sequence[str],
        orders: Sequence[Sequence[int]],
    ) -> tuple[str, ...]:
        """Add an aggregation to the contents; `orders` gives the indices in `spans` of each member's dimensions.

        Return the attributes that differ between members.
        """
        joined, boxes = self._joined, self._joined.boxes
        own = np.asarray(sizes, np.int64).reshape(len(rows), len(spans))
        box = int(boxes.box[rows[0]])
        shape = tuple(int(own[0, d]) if a is None else int(boxes.extent[box, a]) for d, a in enumerate(axes))
        several = distinct(stated)
        master = with_missing(master_of(several), several)
        if joined.options.concatenate:
            master = with_texts(master, several)
        if boxes.trimmed and {row for row, _ in boxes.trimmed}.intersection(rows.tolist()):
            master = in_part(master)
        if 0 in shape:  # there are no partitions, and nothing to read from files
            contents.add(name, spans, np.empty(shape, master.dtype), master.all_attributes())
            return master.differing
        blocks = blocks_of(boxes, rows, axes, own)
        flips = np.zeros((len(rows), len(spans)), bool)
        for d, axis in enumerate(axes):
            if axis is not None:
                flips[:, d] = boxes.flipped[rows, axis]
        offsets = None
        if self._fields is not None:
            blocks, offsets = by_fields(self._fields, joined.file[rows], rows, stated, blocks, flips, orders)
        where = f"{self._where}, variable {name!r}"
        matrix = matrix_of(blocks, shape, where)
        partitions = _partitions(joined, rows, stated, blocks, matrix, flips, spans, orders, self._files(rows), offsets)
        contents.variables[name] = Aggregation(
            name, tuple(spans), shape, master.dtype, matrix.grid, partitions, master.units, master.calendar,
            attributes=master.attributes, source=self._where,
        )  # fmt: skip
        return master.differing

    def _files(self, rows: Int64) -> tuple[Int64, Strings]:
        """Return the codes of members' files, and the table of file names."""
        file = self._joined.file[rows]
        key = file.tobytes()
        if key not in self._tables:
            used, codes = np.unique(file, return_inverse=True)
            self._tables[key] = codes, Strings(str(self._joined.scanned[k].place) for k in used.tolist())
        return self._tables[key]


def _partitions(
    joined: Joined,
    rows: Int64,
    stated: Sequence[Stated],
    blocks: Blocks,
    matrix: Matrix,
    flips: npt.NDArray[np.bool_],
    spans: Sequence[str],
    orders: Sequence[Sequence[int]],
    named: tuple[Int64, Strings],
    offsets: Int64 | None,
) -> Partitions:
    """Return the partitions.

    `flips` and `orders` give, for each member, the dimensions along which it is stored in reverse, and the indices of
    its dimensions in `spans`; `offsets` are addresses of blocks that are fields.
    """
    count = matrix.grid.size
    if not count:
        return Partitions.build(0, layouts=[Layout(tuple(spans))])
    codes, files = named
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
    of = np.searchsorted(rows, blocks.row)[matrix.block]  # the index in `rows`, which are increasing, of each cell
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
