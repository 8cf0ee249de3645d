"""Aggregation variables: found by their attributes, and given the dimensions of the aggregated array.

An aggregation variable is stored as a scalar.  An attribute names its dimensions: ``aggregated_dimensions`` in CF-1.13
and CFA-0.6, ``cfa_dimensions`` in CFA 0.3 and 0.4, ``nca_dimensions`` in NCA.
"""

from __future__ import annotations

from typing import Literal

from cfagg.cf.references import Resolver
from cfagg.model.dataset import Dataset, Dimension, Variable

__all__ = ["DIMENSIONS", "MARKS", "aggregated", "dialect_of"]

Dialect = Literal["CF", "CFA", "NCA"]

#: Attributes that only aggregation variables have.
MARKS = frozenset(
    {
        "aggregated_dimensions",
        "aggregated_data",
        "cfa_array",
        "cfa_dimensions",
        "cfa_group",
        "nca_array",
        "nca_dimensions",
    }
)

#: Attributes that name the dimensions of the array.
DIMENSIONS = ("aggregated_dimensions", "cfa_dimensions", "nca_dimensions")


def aggregated(dataset: Dataset) -> None:
    """Mark the aggregation variables of a dataset, and give them the dimensions that their attributes name."""
    # An unknown name represents a dimension of size 0, which a rule reports.
    resolver: Resolver | None = None
    for variable in dataset.variables:
        if MARKS.isdisjoint(variable.attributes) or variable.dialect is not None:
            continue
        dialect = dialect_of(variable, dataset)
        resolver = resolver or Resolver(dataset)
        attribute = next((a for a in DIMENSIONS if a in variable.attributes), "")
        names = (variable.text(attribute) or "").replace("\0", " ").split()
        group = variable.group
        found = [resolver.dimension(n, group) or Dimension(n.rpartition("/")[2], 0, group.path) for n in names]
        variable.stored_dimensions = variable.dimensions
        variable.dimensions = tuple(found)
        variable.dialect = dialect
        variable.__dict__.pop("dims", None)  # the names may have been cached before


def dialect_of(variable: Variable, dataset: Dataset) -> Dialect:
    """Return the dialect of a variable with one of the `MARKS`."""
    # This loads all dialects, and few files contain an aggregation.
    from cfagg.conventions.detection import detect

    attributes = {k: v for k, v in variable.attributes.items() if isinstance(v, str)}
    attributes |= dict.fromkeys(variable.attributes.keys() & MARKS - attributes.keys(), "")
    found = detect(attributes, dataset.root.text("Conventions") or "") or "CFA"
    return "CF" if found.startswith("CF-") else "NCA" if found.startswith("NCA") else "CFA"
