"""Names of the dimensions of a group's own arrays, which xarray shows beside those of the data.

The convention wants the names of the data in ``_ARRAY_DIMENSIONS`` of sums.  xarray wants one length for each name in a
group and in the groups around it, so everything else has names of its own where it is not as long as the data.
"""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["own_dims", "raw_dims"]


def own_dims(dims: Sequence[str], axes: Sequence[int], word: str) -> tuple[str, ...]:
    """Return names of dimensions of which some, along `axes`, are counted in samples or chunks, as `word` says."""
    out = []
    for a, d in enumerate(dims):
        name = f"{d}_{word}" if a in axes else d
        while a in axes and name in dims:
            name += "_"
        out.append(name)
    return tuple(out)


def raw_dims(names: Sequence[str], dims: Sequence[str], axes: Sequence[int], word: str) -> tuple[str, ...]:
    """Return the dimensions of the data that names stand for, in whatever order; any other name stays."""
    table = dict(zip(own_dims(dims, axes, word), dims, strict=True))
    return tuple(table.get(name, name) for name in names)
