"""What an existing accumulation still is worth: nothing to do, part of it to keep, or all to be built anew."""

from __future__ import annotations

import numpy as np

from cfagg.accumulation.freshness import Changes
from cfagg.accumulation.group import Group
from cfagg.accumulation.writing import Kept
from cfagg.errors import StaleError
from cfagg.formats.zarr import ZarrArray
from cfagg.model import Regular

__all__ = ["find_kept"]


def find_kept(group: Group, array: ZarrArray, stride: tuple[int, ...], found: Changes) -> Kept | None:
    """Return what stays of an accumulation whose array has grown along one dimension and is the same before."""
    where = f"{group.store}: array {group.variable!r}"
    extra = group.extra
    if extra is None or found.other or len(found.grown) != 1 or found.written is None:
        raise StaleError(
            f"{where} has not only grown along one dimension since its accumulation was built, so nothing can be "
            "appended; rebuild it with refresh=True (--refresh)",
            found.problems,
        )
    (dim,) = found.grown
    axis, old = array.dims.index(dim), extra.source.shape[array.dims.index(dim)]
    # Objects that lie within the old array as a whole; one at its end may have been filled up since.
    edges = array.objects.edges[axis]
    whole = int(np.searchsorted(edges, old, side="right")) - 1
    early = found.written[found.written[:, axis] < whole]
    if len(early):
        raise StaleError(
            f"{where}: {len(early):,} of the chunks that were summed have been written since the accumulation was "
            "built, so nothing can be appended; rebuild it with refresh=True (--refresh)",
            found.problems,
        )
    grid = array.grid.axes[axis]
    position = int(edges[whole])
    chunk = position // grid.chunk if isinstance(grid, Regular) else int(np.searchsorted(grid, position))
    used = any(dim in c for c in group.sums)
    samples = chunk // stride[axis] if used else 0
    chunk = samples * stride[axis] if used else chunk
    if not chunk:
        return None
    return Kept(group, axis, chunk, int(array.grid.edges[axis][chunk]), samples)
