"""Variables along a dimension of an outer group which a later one of the same name hides from their own group.

Programs find dimensions by their names from the group outwards, and so does the netCDF library's interface for Python,
which gives such variables the wrong length.  Which dimension is meant is decided by the references that HDF5 stores.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from cfagg.errors import SourceError

if TYPE_CHECKING:
    from cfagg.arrays.scoping import Stated
    from cfagg.model.dataset import Group
    from cfagg.storage.files import Handle

__all__ = ["hidden", "hidden_in"]


def hidden(stated: Stated, handle: Handle) -> dict[str, str]:
    """Return the variables of an HDF5 file along hidden dimensions by path, and why they are not read.

    Files in which no group has a dimension of the same name as one further out are not opened again.
    """
    if not any(_doubtful(stated, frozenset())):
        return {}
    from cfagg.formats.hdf5 import FORMAT
    from cfagg.storage.files import open_regular

    with FORMAT.open(own := open_regular(handle.key.path)) as dataset:
        if own.key != handle.key:
            raise SourceError(f"{handle.key.path} was changed while it was read; open it again")
        return hidden_in(dataset.root)


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
                    f"{other.size:,}) hides; rename one of the two"
                )
    for inner in group.groups.values():
        found |= hidden_in(inner)
    return found
