"""Metadata that the netCDF library adds to its Zarr stores (NCZarr): dimensions and types of attributes.

It has used several names for them: ``_nczarr_array`` among the attributes, ``_NCZARR_ARRAY`` in ``.zarray``.

Source: "NCZarr" in the netCDF user guide.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

__all__ = ["HIDDEN", "Notes", "notes_of"]

_NAMES = ("superblock", "group", "array", "attr", "attrs")

#: Attributes of the library itself.
HIDDEN = frozenset(
    {"_ARRAY_DIMENSIONS", "_NCProperties", *(f"_nczarr_{n}" for n in _NAMES)} | {f"_NCZARR_{n.upper()}" for n in _NAMES}
)


@dataclass(slots=True)
class Notes:
    """The notes of one group or array."""

    found: bool = False
    #: Dimensions of a group: size, and whether it is unlimited.
    dimensions: dict[str, tuple[int, bool]] = field(default_factory=dict)
    #: Arrays and groups of a group, in order.
    order: list[str] = field(default_factory=list)
    #: Paths of the dimensions of an array.
    references: list[Any] | None = None
    #: Whether an array of one element represents a scalar.
    scalar: bool = False
    #: NumPy's names of the types of attributes, and whether they are given at all.
    types: dict[str, str] = field(default_factory=dict)
    typed: bool = False


def notes_of(attributes: Mapping[str, Any], document: Mapping[str, Any]) -> Notes:
    """Return the notes among the attributes of a node or in its document.

    >>> notes_of({"_nczarr_array": {"dimension_references": ["/x"]}}, {}).references
    ['/x']
    """
    notes = Notes()
    for holder in (document, attributes):
        for name, held in holder.items():
            if name.lower().startswith("_nczarr_") and isinstance(held, Mapping):
                notes.found = True
                _read(notes, name.lower().removeprefix("_nczarr_"), held)
    return notes


def _read(notes: Notes, name: str, held: Mapping[str, Any]) -> None:
    if name == "group":
        dimensions = held.get("dimensions", held.get("dims"))
        if isinstance(dimensions, Mapping):
            for dimension, given in dimensions.items():
                size = given.get("size") if isinstance(given, Mapping) else given
                if isinstance(size, int) and 0 <= size < 2**63:
                    notes.dimensions[dimension] = (size, isinstance(given, Mapping) and bool(given.get("unlimited")))
        for key in ("arrays", "vars", "groups"):
            names = held.get(key)
            if isinstance(names, list):
                notes.order += [n for n in names if isinstance(n, str)]
    elif name == "array":
        references = held.get("dimension_references", held.get("dimrefs"))
        notes.references = references if isinstance(references, list) else None
        notes.scalar = held.get("storage") == "scalar" or references == []
    elif name in ("attr", "attrs"):
        types = held.get("types")
        if isinstance(types, Mapping):
            notes.typed = True
            notes.types = {k: v for k, v in types.items() if isinstance(v, str)}
