"""The dimensions of an aggregation that a fragment has, if the convention does not state them.

In CF-1.13 and CFA-0.6.2 a fragment has the dimensions of the aggregation in their order, perhaps without some of size
1, and may have other names for them.  CF-1.13 allows another order if the fragment's names show it.

Sources: CF-1.13 section 2.8.2; CFA-0.6.2, "Fragment Storage".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from cfagg.cf.header import Header
from cfagg.errors import FragmentMismatchError
from cfagg.model import Aggregation, Layout

__all__ = ["layout_of"]

_TRANSPOSED, _ORDERED = "CF-1.13", "CFA-0.6.2"


def layout_of(aggregation: Aggregation, layout: Layout, extent: Sequence[int], header: Header, where: str) -> Layout:
    """Return the layout of a fragment that fills a partition of the sizes `extent`, based on its file."""
    if aggregation.dialect not in (_TRANSPOSED, _ORDERED) or layout.dims == header.dims:
        return layout
    dims, found = aggregation.dims, header.dims
    if len(found) > len(dims):
        raise FragmentMismatchError(
            f"{where}: the fragment {header.variable!r} of {header.file} has {len(found)} dimensions, {found}, more "
            f"than the aggregation, {dims}; refer to a variable without the others"
        )
    if len(set(found)) == len(found) and set(found) <= set(dims):
        ordered = [d for d in dims if d in found]
        if list(found) != ordered and aggregation.dialect != _TRANSPOSED:
            raise FragmentMismatchError(
                f"{where}: the fragment {header.variable!r} of {header.file} has the dimensions {found}, expected the "
                f"order {tuple(ordered)}; write it in the aggregation's order"
            )
        return replace(layout, dims=found, flipped=())
    kept = dims if len(found) == len(dims) else _by_size(dims, extent, found, header.shape)
    if kept is None:
        raise FragmentMismatchError(
            f"{where}: the fragment {header.variable!r} of {header.file} has the dimensions {found} of shape "
            f"{header.shape}, which cannot be matched with {dims} of sizes {tuple(extent)}; only dimensions of size 1 "
            "may be left out"
        )
    # What occurs again in the file has another name in the aggregation.
    misplaced = (n for k, n in enumerate(found) if n in dims and kept[k] != n and kept[found.index(n)] != n)
    wrong = next(misplaced, None)
    if wrong is not None:
        raise FragmentMismatchError(
            f"{where}: the fragment {header.variable!r} of {header.file} has the dimensions {found}, in which "
            f"{wrong!r} is out of place among {dims}; give all its dimensions the names of the aggregation's, or none"
        )
    return layout if kept == layout.dims else replace(layout, dims=kept, flipped=())


def _by_size(
    dims: Sequence[str], extent: Sequence[int], found: Sequence[str], shape: Sequence[int]
) -> tuple[str, ...] | None:
    """Return the dimensions that remain when some of size 1 are left out, selected by name if possible."""
    kept: list[str] = []
    for dim, n in zip(dims, extent, strict=True):
        k = len(kept)
        fits = k < len(shape) and shape[k] == n
        if fits and (n != 1 or dim == found[k] or (dim not in found and found[k] not in dims)):
            kept.append(dim)
        elif n != 1:
            return None
    return tuple(kept) if len(kept) == len(shape) else None
