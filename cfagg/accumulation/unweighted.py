"""Sums and means of ranges from sample to sample, where only the sums of the weights are known."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from cfagg.accumulation.extremes import extremes
from cfagg.accumulation.foreign_weights import missing_weights
from cfagg.accumulation.group import Group
from cfagg.accumulation.request import Request
from cfagg.accumulation.sums import counts, sums

__all__ = ["unweighted"]


def unweighted(group: Group, request: Request, statistic: str) -> npt.NDArray[Any]:
    """Return sums or means of an array whose weights are not known."""
    # What rounding may have left of a sum is not taken for one: where no value is valid there is no mean, and where
    # all are the same it is theirs.
    total, weight = sums(group, request)
    doubtful, light = np.isnan(total), np.isnan(weight)
    with np.errstate(divide="ignore", invalid="ignore"):
        out = total if statistic == "sum" else np.where(weight == 0, np.nan, total / weight)
    if not (doubtful | light).any():
        return out
    low, high, number = extremes(group, request, "min"), extremes(group, request, "max"), counts(group, request)
    # A mean of equal values needs no weights, if there are any; a sum of zeros neither.
    same = (low == high) & (~light if statistic == "mean" else low == 0)
    lost = (doubtful | light) & (number > 0) & ~same
    if lost.any():
        raise missing_weights(
            f"{group.store}: {group.variable!r}",
            f"rounding may have left nothing of {int(lost.sum()):,} of {lost.size:,} differences of sums",
        )
    out = np.where(doubtful & same, low, out)
    return np.where((doubtful | light) & (number == 0), 0.0 if statistic == "sum" else np.nan, out)
