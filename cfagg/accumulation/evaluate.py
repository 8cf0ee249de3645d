"""One statistic of a request, from the sums and statistics of an accumulation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from cfagg.accumulation.request import Request
from cfagg.errors import SelectionError

if TYPE_CHECKING:
    from cfagg.accumulation.explain import Explanation
    from cfagg.accumulation.group import Group

__all__ = ["STATISTICS", "evaluate", "explained"]

STATISTICS = ("sum", "mean", "count", "min", "max", "std", "var")


def evaluate(group: Group, request: Request, statistic: str, ddof: int = 0) -> npt.NDArray[Any]:
    """Return a statistic of real values as float64, or int64 counts; of no values 0 for sum and count, else NaN."""
    from cfagg.accumulation.sums import counts, sums, sums_and_counts

    resolved = request.resolve(group.source.shape)
    if 0 in resolved.shape:
        return np.zeros(resolved.shape, np.int64 if statistic == "count" else np.float64)
    if statistic == "count":
        return counts(group, resolved)
    if statistic in ("min", "max"):
        from cfagg.accumulation.extremes import extremes

        return extremes(group, resolved, "min" if statistic == "min" else "max")
    if statistic in ("std", "var"):
        from cfagg.accumulation.moments import moments

        if ddof and group.weights is not None:
            raise SelectionError(f"{group.variable!r}: ddof = {ddof} cannot be used with weighted values; use ddof=0")
        weight, _, m2 = moments(group, resolved)
        with np.errstate(divide="ignore", invalid="ignore"):
            variance = np.where(weight > ddof, m2 / (weight - ddof), np.nan)
        return variance if statistic == "var" else np.sqrt(variance)
    if group.weights is not None and not group.weights.known:
        from cfagg.accumulation.unweighted import unweighted

        return unweighted(group, resolved, statistic)
    if group.weights is None or group.complete or group.extra is None:
        # Sums of weights of other writers that rounding may have left have been read from the cells.
        total, weight = sums(group, resolved)
        empty = weight == 0
    else:
        # Differences of sums of weights may leave a trace of rounding where all values are missing.
        total, weight, number = sums_and_counts(group, resolved)
        empty = number == 0
    if statistic == "sum":
        # A sum over no dimension at all leaves what is missing missing.
        return np.where(empty, 0.0 if resolved.reduced else np.nan, total)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(empty | (weight == 0), np.nan, total / weight)


def explained(group: Group, request: Request, statistic: str) -> Explanation:
    """Return what would be read for a statistic; nothing is read."""
    from cfagg.accumulation.explain import explain

    if statistic in ("sum", "mean", "count"):
        return explain(group, request, statistic)
    from cfagg.accumulation.cover import explain_cover

    return explain_cover(group, request.resolve(group.source.shape), statistic)
