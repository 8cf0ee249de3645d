"""Pictures of the partition matrices of a dataset's aggregations."""

from __future__ import annotations

from cfagg.checking.context import Context
from cfagg.model.dataset import Dataset

__all__ = ["partition_matrices"]

#: Pictures of one dataset at most: a page with hundreds helps nobody.
MOST = 20


def partition_matrices(dataset: Dataset, most: int = MOST) -> list[tuple[str, str]]:
    """Return path and picture (SVG) of the partition matrix of each aggregation that is understood.

    >>> from cfagg.formats.metadata.cdl import parse_cdl
    >>> partition_matrices(parse_cdl("netcdf a { dimensions: x = 2 ; variables: float t(x) ; }"))
    []
    """
    if all(v.dialect is None for v in dataset.variables):
        return []
    from cfagg.checking.described import described
    from cfagg.display.matrix import draw
    from cfagg.display.svg import svg

    found: list[tuple[str, str]] = []
    for variable, description in described(Context(dataset)).items():
        if description.aggregation is not None and len(found) < most:
            found.append(
                (variable.path, svg(draw(description.aggregation), label=f"Partition matrix of {variable.path}"))
            )
    return found
