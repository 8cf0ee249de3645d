"""Reading what a request takes of stored statistics, chunk by chunk."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy.typing as npt

from cfagg.accumulation.adding import chunks, cut, hull
from cfagg.accumulation.arrays import read_stored
from cfagg.accumulation.cover import Nodes
from cfagg.accumulation.parts import Local
from cfagg.accumulation.writing import read_region
from cfagg.formats.zarr import ZarrArray

__all__ = ["node_blocks"]

Array = npt.NDArray[Any]


def node_blocks(nodes: Nodes, kinds: Sequence[str]) -> Iterator[tuple[tuple[Local, ...], dict[str, Array]]]:
    """Yield each term, one `Local` per source axis, and by kind exactly its ranges of a chunk of statistics."""
    reading = nodes.reading(kinds[0])
    order = [reading.axes.index(a) for a in range(len(reading.axes))]
    for index, terms in chunks(reading):
        box = hull(terms)
        blocks = {k: _read(nodes.level.arrays[k], reading.array, index, box).transpose(order) for k in kinds}
        inner = tuple(box[d] for d in order)
        for stored in terms:
            term = tuple(stored[d] for d in order)
            yield term, {k: block[cut(term, inner)] for k, block in blocks.items()}


def _read(array: ZarrArray, first: ZarrArray, index: tuple[int, ...], box: tuple[slice, ...]) -> Array:
    """Return a box of a chunk of the first array from any of them."""
    if array.grid == first.grid:
        return read_stored(array, index, box)
    starts = [a for a, _ in first.grid.extent(index)]
    return read_region(array, tuple((a + s.start, a + s.stop) for a, s in zip(starts, box, strict=True)))
