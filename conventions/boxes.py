"""Virtual partitions: a hyperrectangular partition matrix from sub-arrays that tile the master array in any way.

The edges of all sub-arrays together cut the master array into cells.  A cell is a partition; if a sub-array covers
several cells, each of them is a `part` of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt

from cfagg.conventions import part as part_module
from cfagg.conventions.closure import matrix_size
from cfagg.conventions.findings import Findings
from cfagg.errors import ConventionError
from cfagg.model import Aggregation, Grid, Layout, Partitions, Strings

__all__ = ["Box", "aggregate", "from_boxes"]

Ranges = Sequence[Sequence[int]]


@dataclass(frozen=True)
class Box:
    """A sub-array and its location.

    Parameters
    ----------
    location : sequence of (int, int)
        Half-open ranges (start, stop) of the master array, one per dimension.
    layout : Layout, optional
        How it is stored; by default like the master array.  Its `shape` is derived from the location.
    file, address : str, optional
        File and address where it is stored.
    offset : int
        Address in the file, -1 for none.
    """

    location: Ranges
    layout: Layout | None = None
    file: str | None = None
    address: str | None = None
    offset: int = -1


def from_boxes(
    shape: Sequence[int],
    boxes: Sequence[Ranges],
    axes: Sequence[Sequence[int]] | None = None,
    flipped: Sequence[Sequence[bool]] | None = None,
) -> tuple[Grid, npt.NDArray[np.int64], list[str | None]]:
    """Return the matrix of (virtual) partitions formed by boxes.

    Parameters
    ----------
    shape : sequence of int
        Shape of the master array.
    boxes : sequence of sequence of (int, int)
        Half-open ranges of each sub-array in the master array.
    axes : sequence of sequence of int, optional
        Per box and per dimension of its sub-array, the dimension of the master array, -1 for an extra one of size 1.
        By default the master array's order.
    flipped : sequence of sequence of bool, optional
        Per box and per dimension of its sub-array, whether it is reversed in the master array.  By default none is.

    Returns
    -------
    Grid
        The matrix.
    int64 array, shape (grid.size,)
        The box of each partition, in C order.
    list of str or None
        The part of each partition as canonical text in the order of its sub-array, None for the whole.

    Raises
    ------
    ConventionError
        Boxes are malformed or overlap, or leave a gap: the message gives the first offending cell.
    LimitError
        The matrix is too large.

    Notes
    -----
    NCA 0.1, "Virtual partitions" and example 1.

    Examples
    --------
    >>> grid, box, part = from_boxes((2, 3), [((0, 1), (0, 3)), ((1, 2), (0, 2)), ((1, 2), (2, 3))])
    >>> grid.edges, box.tolist()
    ((array([0, 1, 2]), array([0, 2, 3])), [0, 0, 1, 2])
    >>> part
    ['[(0, 1, 1), (0, 2, 1)]', '[(0, 1, 1), (2, 3, 1)]', None, None]
    """
    corners = _corners(shape, boxes)
    edges = [np.unique(np.concatenate([[0, n], corners[:, d].ravel()])).astype(np.int64) for d, n in enumerate(shape)]
    matrix_size([len(e) - 1 for e in edges])
    grid = Grid(edges, shape)
    owner = _owners(corners, grid)
    spans = [list(zip(e[:-1].tolist(), e[1:].tolist(), strict=True)) for e in edges]
    parts: list[str | None] = []
    for code, cell in zip(owner.tolist(), product(*spans), strict=True):
        box = corners[code].tolist()
        if all(tuple(r) == c for r, c in zip(box, cell, strict=True)):
            parts.append(None)
            continue
        order = range(len(box)) if axes is None else axes[code]
        flips = [False] * len(order) if flipped is None else flipped[code]
        parts.append(_part(box, cell, order, flips))
    return grid, owner, parts


def aggregate(
    name: str,
    dims: Sequence[str],
    shape: Sequence[int],
    dtype: npt.DTypeLike,
    boxes: Sequence[Box],
    **fields: Any,
) -> Aggregation:
    """Return the aggregation of sub-arrays that tile the master array in any way, with virtual partitions if needed.

    Parameters
    ----------
    name, dims, shape, dtype
        The master array.
    boxes : sequence of Box
        The sub-arrays; they must fill the master array without overlap.
    **fields
        Other fields of `Aggregation`: ``units``, ``calendar``, ``directions``, ``attributes``, ``source``.

    Raises
    ------
    ConventionError
        Boxes are malformed or overlap, or leave a gap: the message gives the first offending cell.

    Examples
    --------
    >>> left, right = Box([(0, 2)], file="a.nc", address="t"), Box([(2, 5)], file="b.nc", address="t")
    >>> aggregate("t", ["x"], [5], "f4", [left, right])
    <Aggregation 't' (x: 5) float32, 2 partitions>
    """
    dims = tuple(dims)
    layouts = [box.layout or Layout(dims) for box in boxes]
    axes = [[dims.index(d) if d in dims else -1 for d in layout.dims] for layout in layouts]
    grid, owner, parts = from_boxes(shape, [b.location for b in boxes], axes, [layout.flipped for layout in layouts])
    _check_dims(dims, boxes, layouts)
    table: dict[Layout, int] = {}
    codes = []
    for code, part in zip(owner.tolist(), parts, strict=True):
        box, layout = boxes[code], layouts[code]
        sizes = [box.location[a][1] - box.location[a][0] if a >= 0 else 1 for a in axes[code]]
        full = replace(layout, shape=None if part is None else tuple(sizes))
        codes.append(table.setdefault(full, len(table)))
    files, file_table = _encode([boxes[k].file for k in owner.tolist()])
    addresses, address_table = _encode([boxes[k].address for k in owner.tolist()])
    part_codes, part_table = _encode(parts)
    partitions = Partitions.build(
        grid.size,
        file=files,
        address=addresses,
        part=part_codes,
        layout=codes,
        offset=[boxes[k].offset for k in owner.tolist()],
        files=file_table,
        addresses=address_table,
        parts=part_table,
        layouts=list(table),
    )
    return Aggregation(name, dims, tuple(int(n) for n in shape), np.dtype(dtype), grid, partitions, **fields)


def _corners(shape: Sequence[int], boxes: Sequence[Ranges]) -> npt.NDArray[np.int64]:
    """Return the ranges of all boxes, shape (n, ndim, 2), if each is a box in the master array."""
    findings = Findings(f"boxes of a master array of shape {tuple(shape)}")
    corners = np.zeros((len(boxes), len(shape), 2), np.int64)
    for k, box in enumerate(boxes):
        if len(box) != len(shape):
            findings.problem(f"boxes[{k}]", f"{len(box)} ranges for {len(shape)} dimensions")
            continue
        for d, (pair, n) in enumerate(zip(box, shape, strict=True)):
            if len(pair) != 2 or not 0 <= pair[0] < pair[1] <= n:
                findings.problem(
                    f"boxes[{k}][{d}]", f"{tuple(pair)} is not a range (start, stop) in a dimension of size {n}"
                )
            else:
                corners[k, d] = pair
    findings.check("not boxes")
    return corners


def _owners(corners: npt.NDArray[np.int64], grid: Grid) -> npt.NDArray[np.int64]:
    """Return the box of each cell, flat in C order."""
    owner = np.full(grid.matrix_shape, -1, np.int64)
    # Edges include every corner, so a search finds the cell that starts (or ends) there.
    cells = [np.searchsorted(e, corners[:, d]) for d, e in enumerate(grid.edges)]
    for k in range(len(corners)):
        span: tuple[Any, ...] = tuple(slice(*c[k].tolist()) for c in cells)
        region = owner[(*span, ...)]
        if (region >= 0).any():
            first = np.argwhere(region >= 0)[0]
            cell = [int(c[k, 0] + i) for c, i in zip(cells, first.tolist(), strict=True)]
            other = int(region[tuple(first)])
            raise ConventionError(
                f"boxes[{k}] {_text(corners[k])} overlaps boxes[{other}] {_text(corners[other])}, "
                f"first in cell {tuple(cell)} of the matrix, indices {_text(grid.extent(cell))}"
            )
        region[...] = k
    if (owner < 0).any():
        cell = np.argwhere(owner < 0)[0].tolist()
        raise ConventionError(
            f"no box fills cell {tuple(cell)} of the matrix, indices {_text(grid.extent(cell))} of the master array; "
            "it is the first gap"
        )
    return owner.ravel()


def _part(box: Sequence[Sequence[int]], cell: Ranges, axes: Sequence[int], flipped: Sequence[bool]) -> str:
    """Return the part of a sub-array that fills a cell, in the sub-array's order and before any reversal."""
    ranges, sizes = [], []
    for axis, flip in zip(axes, flipped, strict=True):
        if axis < 0:
            ranges.append(range(1))
            sizes.append(1)
            continue
        (low, high), (start, stop) = box[axis], cell[axis]
        ranges.append(range(high - stop, high - start) if flip else range(start - low, stop - low))
        sizes.append(high - low)
    return part_module.canonical(ranges, sizes)


def _check_dims(dims: tuple[str, ...], boxes: Sequence[Box], layouts: Sequence[Layout]) -> None:
    """Raise an error if a sub-array lacks a dimension that its location spans."""
    findings = Findings("boxes")
    for k, (box, layout) in enumerate(zip(boxes, layouts, strict=True)):
        for dim, (start, stop) in zip(dims, box.location, strict=True):
            if dim not in layout.dims and stop - start != 1:
                findings.problem(f"boxes[{k}]", f"the location spans {stop - start} of {dim!r}, which the layout lacks")
    findings.check("not sub-arrays of this master array")


def _encode(names: Sequence[str | None]) -> tuple[npt.NDArray[np.int32], Strings]:
    """Return one code per name, -1 for none, and the table."""
    present, table = Strings.encode(n for n in names if n is not None)
    codes = np.full(len(names), -1, np.int32)
    codes[[i for i, n in enumerate(names) if n is not None]] = present
    return codes, table


def _text(ranges: Any) -> str:
    """Return ranges for messages."""
    return " x ".join(f"[{start}, {stop}]" for start, stop in ranges) or "(scalar)"
