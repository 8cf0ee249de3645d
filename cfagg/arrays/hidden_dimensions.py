"""Variables along a dimension of an outer group which a later one of the same name hides from their own group.

Programs find dimensions by their names from the group outwards, and so does the netCDF library's interface for Python,
which gives such variables the wrong length.  Which dimension is meant is decided by the references that HDF5 stores.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from cfagg.errors import SourceError

if TYPE_CHECKING:
    from cfagg.arrays.scoping import Stated
    from cfagg.model.dataset import Dataset, Group
    from cfagg.storage.files import Handle

__all__ = ["hidden", "hidden_in", "shape_along"]


def hidden(stated: Stated, handle: Handle) -> dict[str, str]:
    """Return the variables of an HDF5 file along hidden dimensions by path, and why they are not read.

    Files in which no group has a dimension of the same name as one further out are not opened again.
    """
    if not any(_doubtful(stated, frozenset())):
        return {}
    with _described(handle) as dataset:
        return hidden_in(dataset.root)


def shape_along(handle: Handle, path: str) -> tuple[int, ...] | None:
    """Return the shape of a variable along a hidden dimension, or `None` for others; alone, it can be read."""
    with _described(handle) as dataset:
        if path not in hidden_in(dataset.root):
            return None
        return next(v.shape for v in dataset.variables if f"/{v.path.lstrip('/')}" == path)


@contextmanager
def _described(handle: Handle) -> Iterator[Dataset]:
    """Yield the description of an HDF5 file without the netCDF library."""
    from cfagg.formats.hdf5 import FORMAT
    from cfagg.storage.files import open_regular

    if handle.data is not None:
        from cfagg.formats.metadata.url import of_handle

        with of_handle(handle) as dataset:
            yield dataset
        return
    with FORMAT.open(own := open_regular(handle.key.path)) as dataset:
        if own.key != handle.key:
            raise SourceError(f"{handle.key.path} was changed while it was read; open it again")
        yield dataset


def _doubtful(stated: Stated, above: frozenset[str]) -> Iterator[str]:
    """Yield names of dimensions that a group and one further out have."""
    yield from above & stated.dimensions.keys()
    for group in stated.groups.values():
        yield from _doubtful(group, above | stated.dimensions.keys())


def hidden_in(group: Group) -> dict[str, str]:
    """Return the variables of a described group and those below along hidden dimensions, as `hidden` does."""
    found: dict[str, str] = {}
    for name, variable in group.variables.items():
        for dimension in variable.dimensions:
            nearest = group
            while dimension.name not in nearest.dimensions and nearest.parent is not None:
                nearest = nearest.parent
            other = nearest.dimensions.get(dimension.name)
            if other is not None and other is not dimension and nearest.path != dimension.group:
                found[f"{group.path.rstrip('/')}/{name}"] = (
                    f"it lies along the dimension {dimension.name!r} of group {dimension.group!r} (length "
                    f"{dimension.size:,}), which that of the same name in group {nearest.path!r} (length "
                    f"{other.size:,}) hides; rename one of the two, or read it alone with "
                    "cfagg.open_array"
                )
    for inner in group.groups.values():
        found |= hidden_in(inner)
    return found
