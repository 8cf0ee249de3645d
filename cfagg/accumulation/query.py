"""A question to an accumulation: dimensions, selections and groups by name, resolved into a request by axis."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from cfagg.accumulation.grouping import Grouping
from cfagg.accumulation.labels import Dims, Labels, Picked, compose
from cfagg.accumulation.request import Request
from cfagg.accumulation.runs import Runs

__all__ = ["Query", "query"]

Int64 = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Query:
    """What is asked, by name and by axis: selected positions, and reduced dimensions, a grouped one included."""

    labels: Labels
    picked: Mapping[str, Picked]
    reduced: tuple[str, ...]
    #: Groups that stand in place of one reduced dimension.
    grouping: Grouping | None
    #: The same in positions along the axes of the source.
    request: Request

    def arrange(self, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Return values of the request with the dimensions that results have, in the order of the labels."""
        # Axes of one position go; the order need not be that of the source.
        gone = {a for a, p in enumerate(self.labels.base) if isinstance(p, int)}
        gone |= {
            a for d, a in zip(self.labels.dims, self.labels.axes, strict=True) if isinstance(self.picked.get(d), int)
        }
        axes = self.request.axes
        out = values.reshape([n for a, n in zip(axes, values.shape, strict=True) if a not in gone])
        left = [a for a in axes if a not in gone]
        order = [left.index(a) for a in self.labels.axes if a in left]
        return out if order == sorted(order) else out.transpose(order)


def query(
    labels: Labels,
    shape: tuple[int, ...],
    dim: Dims,
    picked: Mapping[str, Picked],
    grouping: Grouping | None = None,
) -> Query:
    """Return the question that names and selections make of a source of this shape."""
    if grouping is not None:
        labels.chosen_dims((grouping.dim,), picked)
        reduced = (grouping.dim,) if dim is None else labels.chosen_dims(dim, picked)
        # Groups along a dimension that is not reduced have one position each: nothing is grouped.
        grouping = grouping if grouping.dim in reduced else None
    else:
        reduced = labels.chosen_dims(dim, picked)
    grouped: Int64 | None = None
    if grouping is not None:
        grouping, grouped = grouping.of(picked.get(grouping.dim))
    sums: dict[int, Runs] = {}
    kept: dict[int, slice | Int64] = {a: np.array([p]) for a, p in enumerate(labels.base) if isinstance(p, int)}
    for d, axis in zip(labels.dims, labels.axes, strict=True):
        base, length = labels.base[axis], shape[axis]
        if grouping is not None and grouped is not None and d == grouping.dim:
            at = compose(base, grouped, length)
            sums[axis] = grouping.runs(at)  # type: ignore[arg-type]  # positions stay positions
            continue
        along = compose(base, picked.get(d, slice(0, length if base is None else labels.sizes[d], 1)), length)
        if d not in reduced:
            kept[axis] = np.array([along]) if isinstance(along, int) else along
        elif isinstance(along, slice):
            sums[axis] = Runs.of_slice(along, length)
        else:
            sums[axis] = Runs.of_positions(np.atleast_1d(along))
    return Query(labels, picked, reduced, grouping, Request(sums, kept))
