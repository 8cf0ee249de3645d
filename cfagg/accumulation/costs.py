"""What reading parts of stored arrays is estimated to cost, by which plans are chosen.

Only ratios of costs matter, and these little: choices differ by factors.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from cfagg.accumulation.arrays import takes_parts
from cfagg.accumulation.parts import Extent
from cfagg.formats.codecs import unblosc
from cfagg.formats.zarr import ZarrArray

__all__ = ["reading_cost"]

#: Nanoseconds of a chunk beyond its bytes, and of a read beyond its bytes.
_CHUNK, _READ = 60_000.0, 2_000.0

#: Nanoseconds of a byte that is stored as it is, of one from Blosc, and of one from other compression.
_PLAIN, _BLOSC, _DECODED = 0.15, 0.35, 1.5


def reading_cost(array: ZarrArray, extents: Sequence[Extent]) -> float:
    """Return the estimated nanoseconds of reading what is needed along each axis of an array."""
    chunks, size = math.prod(e.chunks for e in extents), float(array.dtype.itemsize)
    if not takes_parts(array):
        return chunks * _CHUNK + size * math.prod(e.decoded for e in extents) * _rate(array)
    # One read runs along some dimension: those before are looped over, those after read whole, as `read_box` does.
    best, looped = math.inf, 1.0
    for d, e in enumerate(extents):
        reads = looped * math.prod(later.chunks for later in extents[d:])
        looped *= e.boxed
        read = size * looped * math.prod(later.decoded for later in extents[d + 1 :])
        best = min(best, reads * _READ + read * _PLAIN)
    return chunks * _CHUNK + (best if extents else size * _PLAIN)


def _rate(array: ZarrArray) -> float:
    """Return the nanoseconds of a byte of a decoded chunk."""
    steps = None if array.decoder is None else array.decoder.steps
    if steps is None:
        return _DECODED
    return _PLAIN + sum(_BLOSC if step.undo is unblosc else _DECODED for step in steps)
