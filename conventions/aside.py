"""Parts of a dataset that follow another convention than CF, and are checked by the rules of that convention only.

Accumulation groups (ZEP 5) are in a Zarr store next to the array whose sums they contain.  Stores of observations are
tables with a special layout.
"""

from __future__ import annotations

from cfagg.model.dataset import Dataset, Group, Variable

__all__ = ["is_observations", "set_aside"]

#: The attribute that marks an accumulation group.
_ACCUMULATION = "_ACCUMULATION_GROUP"


def is_observations(dataset: Dataset) -> bool:
    """Return whether a dataset is a store of observations."""
    attributes = dataset.root.attributes
    return (
        dataset.format == "zarr"
        and attributes.get("layout", attributes.get("format")) == "tabular"
        and ("variables" in attributes or "data" in dataset.root.variables)
    )


def set_aside(dataset: Dataset) -> frozenset[Group | Variable]:
    """Return the groups and variables that follow another convention."""
    found: set[Group | Variable] = set()
    for group in dataset.groups:
        if _ACCUMULATION in group.attributes or group.parent in found:
            found.add(group)
            found.update(group.variables.values())
    return frozenset(found)
