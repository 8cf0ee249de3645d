"""Statistics of an accumulated array, and how each follows from sums, extremes and moments."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from cfagg.accumulation.group import Group, missing_weights
from cfagg.accumulation.grouping import Grouping
from cfagg.accumulation.labels import Dims, Labels, Positions
from cfagg.accumulation.query import labelled, query
from cfagg.accumulation.ranges import Request
from cfagg.accumulation.sums import counts, sums, sums_and_counts
from cfagg.errors import CfaggError, SelectionError
from cfagg.errors.arguments import a_number

if TYPE_CHECKING:
    from cfagg.accumulation.explain import Explanation

__all__ = ["Statistics"]

#: Positions or labels by dimension.
type Selection = Mapping[Any, Any] | None


class Statistics:
    """Statistics of an accumulated array, over all positions or by groups.

    The reductions take dimensions and selections:

    dim : str, sequence of str, ``...`` or None
        Dimensions to reduce.  ``...`` means all; `None` too, or with groups the grouped one.
    isel : mapping of dimension to int, slice, int array or bool array
        Positions to select before, as of `xarray.DataArray.isel`.
    sel : mapping of dimension to label, slice of labels or labels
        Labels to select before, as of `xarray.DataArray.sel`: ``{"time": slice("1990", "1999"), "lat": 50.5}``.
    method, tolerance
        Inexact matches of labels, as of `xarray.DataArray.sel`.
    ddof : int
        Of `std` and `var`: the divisor is the number of values less `ddof`.  0 where there are weights.
    keep_attrs : bool
        Whether the result has the attributes of the variable, with units and ``cell_methods`` of the statistic.
    explain : bool
        Return an `Explanation` of what would be read, and read nothing.

    Missing values and infinities are left out.  Where there are no values the result is NaN, of sum and count 0.  Every
    answer is checked: if something on which it depends has changed since it was accumulated, `StaleError` is raised.
    """

    def __init__(self, group: Group, labels: Labels, key: Grouping | None = None, trust_for: float = 0.0) -> None:
        self._group = group
        self._labels = labels
        self._key = key
        self._trust_for = trust_for

    def __repr__(self) -> str:
        groups = (
            "" if self._key is None else f" by {self._key.name}, {len(self._key.values)} groups along {self._key.dim}"
        )
        return f"<Accumulated {self._labels.name!r}{groups}>"

    def _repr_html_(self) -> str:
        from cfagg.display.facts import facts_html

        key = self._key
        facts = () if key is None else (("by", key.name), ("along", key.dim))
        labels = () if key is None else tuple(map(str, key.values))
        return facts_html(f"Accumulated {self._labels.name}, in groups", facts, [("groups", labels)])

    def sum(
        self,
        dim: Dims = None,
        isel: Selection = None,
        sel: Selection = None,
        *,
        method: str | None = None,
        tolerance: Any = None,
        keep_attrs: bool = True,
        explain: bool = False,
    ) -> Any:
        """Return the sum, of values times weights where there are weights; float64."""
        picked = self._labels.pick(isel, sel, method, tolerance)
        return self.answer("sum", dim, picked, keep_attrs=keep_attrs, explain=explain)

    def mean(
        self,
        dim: Dims = None,
        isel: Selection = None,
        sel: Selection = None,
        *,
        method: str | None = None,
        tolerance: Any = None,
        keep_attrs: bool = True,
        explain: bool = False,
    ) -> Any:
        """Return the mean, weighted where there are weights; float64."""
        picked = self._labels.pick(isel, sel, method, tolerance)
        return self.answer("mean", dim, picked, keep_attrs=keep_attrs, explain=explain)

    def count(
        self,
        dim: Dims = None,
        isel: Selection = None,
        sel: Selection = None,
        *,
        method: str | None = None,
        tolerance: Any = None,
        keep_attrs: bool = True,
        explain: bool = False,
    ) -> Any:
        """Return the number of values that are not missing; int64."""
        picked = self._labels.pick(isel, sel, method, tolerance)
        return self.answer("count", dim, picked, keep_attrs=keep_attrs, explain=explain)

    def min(
        self,
        dim: Dims = None,
        isel: Selection = None,
        sel: Selection = None,
        *,
        method: str | None = None,
        tolerance: Any = None,
        keep_attrs: bool = True,
        explain: bool = False,
    ) -> Any:
        """Return the smallest value; float64."""
        picked = self._labels.pick(isel, sel, method, tolerance)
        return self.answer("min", dim, picked, keep_attrs=keep_attrs, explain=explain)

    def max(
        self,
        dim: Dims = None,
        isel: Selection = None,
        sel: Selection = None,
        *,
        method: str | None = None,
        tolerance: Any = None,
        keep_attrs: bool = True,
        explain: bool = False,
    ) -> Any:
        """Return the largest value; float64."""
        picked = self._labels.pick(isel, sel, method, tolerance)
        return self.answer("max", dim, picked, keep_attrs=keep_attrs, explain=explain)

    def std(
        self,
        dim: Dims = None,
        isel: Selection = None,
        sel: Selection = None,
        *,
        ddof: int = 0,
        method: str | None = None,
        tolerance: Any = None,
        keep_attrs: bool = True,
        explain: bool = False,
    ) -> Any:
        """Return the standard deviation, weighted where there are weights; float64."""
        picked = self._labels.pick(isel, sel, method, tolerance)
        return self.answer("std", dim, picked, keep_attrs=keep_attrs, explain=explain, ddof=ddof)

    def var(
        self,
        dim: Dims = None,
        isel: Selection = None,
        sel: Selection = None,
        *,
        ddof: int = 0,
        method: str | None = None,
        tolerance: Any = None,
        keep_attrs: bool = True,
        explain: bool = False,
    ) -> Any:
        """Return the variance, weighted where there are weights; float64, in units squared."""
        picked = self._labels.pick(isel, sel, method, tolerance)
        return self.answer("var", dim, picked, keep_attrs=keep_attrs, explain=explain, ddof=ddof)

    def answer(
        self,
        statistic: str,
        dim: Dims,
        picked: Mapping[str, Positions],
        grouping: Grouping | None = None,
        *,
        keep_attrs: bool = True,
        explain: bool = False,
        ddof: int = 0,
    ) -> Any:
        """Return a statistic of data that were the accumulated ones until it was computed, else raise `StaleError`."""
        from cfagg.accumulation.freshness import check

        a_number(ddof, "ddof", "a number", SelectionError)
        asked = query(self._labels, self._group.source.shape, dim, picked, grouping or self._key)
        group = self._group.asked()
        request = asked.request.resolve(group.source.shape)
        if explain:
            check(group, request, self._trust_for)
            return explained(group, asked.request, statistic)
        try:
            values = evaluate(group, asked.request, statistic, ddof)
        except (CfaggError, OSError):
            # That the data have changed is the better reason, if it is one.
            check(group, request)
            raise
        check(group, request, self._trust_for)
        return labelled(
            asked.arrange(values),
            self._labels,
            statistic,
            reduced=asked.reduced,
            picked=asked.picked,
            grouping=asked.grouping,
            keep_attrs=keep_attrs,
        )


def evaluate(group: Group, request: Request, statistic: str, ddof: int = 0) -> npt.NDArray[Any]:
    """Return a statistic of real values as float64, or int64 counts; of no values 0 for sum and count, else NaN."""
    resolved = request.resolve(group.source.shape)
    if 0 in resolved.shape:
        return np.zeros(resolved.shape, np.int64 if statistic == "count" else np.float64)
    if statistic == "count":
        return counts(group, resolved)
    if statistic in ("min", "max"):
        from cfagg.accumulation.spread import extremes

        return extremes(group, resolved, "min" if statistic == "min" else "max")
    if statistic in ("std", "var"):
        from cfagg.accumulation.spread import moments

        if ddof and group.weights is not None:
            raise SelectionError(f"{group.variable!r}: ddof = {ddof} cannot be used with weighted values; use ddof=0")
        weight, _, m2 = moments(group, resolved)
        with np.errstate(divide="ignore", invalid="ignore"):
            variance = np.where(weight > ddof, m2 / (weight - ddof), np.nan)
        return variance if statistic == "var" else np.sqrt(variance)
    if group.weights is not None and not group.weights.known:
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
    from cfagg.accumulation.nodes import explain_nodes

    return explain_nodes(group, request.resolve(group.source.shape), statistic)


def unweighted(group: Group, request: Request, statistic: str) -> npt.NDArray[Any]:
    """Return sums or means of an array whose weights are not known."""
    # What rounding may have left of a sum is not taken for one: where no value is valid there is no mean, and where
    # all are the same it is theirs.
    from cfagg.accumulation.spread import extremes

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
