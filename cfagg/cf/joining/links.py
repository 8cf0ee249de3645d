"""What links the samples of a ragged array to its features: counts, or indices."""

from __future__ import annotations

from dataclasses import dataclass

from cfagg.cf.joining.identities import length
from cfagg.cf.joining.plans import Variables
from cfagg.cf.packing import STORAGE_ATTRIBUTES
from cfagg.model.dataset import Variable

__all__ = ["Link", "is_plain", "links_of"]

#: What a file says of how values are stored by which numbers of its instances are not what they stand for.
_STORED = frozenset(STORAGE_ATTRIBUTES) - {"_FillValue", "missing_value"}


@dataclass(frozen=True, slots=True)
class Link:
    """A variable that says which elements of the dimension `inner` belong to which of `outer`: counts, or indices."""

    variable: Variable
    inner: str
    outer: str
    counts: bool


def links_of(variable: Variable, known: Variables) -> list[Link]:
    """Return what leads from the samples of a ragged array to its features; nothing where that is not clear."""
    shared = [d for d in variable.dims if d in known.shared]
    links: list[Link] = []
    while len(shared) == 1 and len(links) < 3:
        found = [link for v in known.ragged if (link := _link(v, shared[0])) is not None]
        if not found:
            return links
        if len(found) > 1 or not is_plain(found[0].variable):
            return []
        links += found
        shared = [found[0].outer]
    return []


def _link(variable: Variable, inner: str) -> Link | None:
    """Return what a variable says of a dimension."""
    if variable.text("sample_dimension") == inner and len(variable.dims) == 1:
        return Link(variable, inner, variable.dims[0], counts=True)
    outer = variable.text("instance_dimension")
    return None if outer is None or variable.dims != (inner,) else Link(variable, inner, outer, counts=False)


def is_plain(variable: Variable) -> bool:
    """Return whether numbers are what they stand for."""
    return variable.kind == "integer" and length(variable) == variable.dims and _STORED.isdisjoint(variable.attributes)
