"""Statistics over any ranges along any dimensions, from stored sums and as few cells of the array as possible."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from cfagg.accumulation.adding import add_up
from cfagg.accumulation.contract import contract_raw, locate, place_of
from cfagg.accumulation.group import Group, command, missing_weights
from cfagg.accumulation.proof import Proof, add_outliers, read_instead
from cfagg.accumulation.query_plan import Plan, Quantity, make_plan
from cfagg.accumulation.ranges import Pick, Request, along, part_of
from cfagg.errors import SelectionError, StaleError
from cfagg.model import Regular

__all__ = ["counts", "evaluate", "plan_sums", "quantities", "raw_sums", "sums", "sums_and_counts"]

Float = npt.NDArray[np.float64]
Int64 = npt.NDArray[np.int64]

#: Numbers of at least this size do not fit into int64, even allowing for rounding.
_BEYOND = 2.0**63 * (1 - 1e-9)


_NONE = np.empty(0, np.int64)


@dataclass(frozen=True, eq=False)
class Totals:
    """Sums of stored values, each with one axis per axis of the source, or empty if not requested."""

    #: Sums of stored (packed) values, multiplied by weights if there are any.
    data: npt.NDArray[np.float64] | npt.NDArray[np.int64]
    #: Sums of the weights of valid cells, or counts if there are no weights.
    weights: npt.NDArray[np.float64] | npt.NDArray[np.int64]
    #: Numbers of valid cells.
    counts: Int64
    #: Low parts, to be added to `data`, if sums have twice the digits of float64.
    data_low: Float | None = None


def evaluate(group: Group, request: Request, statistic: str, ddof: int = 0) -> npt.NDArray[Any]:
    """Return a statistic of real values as float64 (count: int64); without values 0 for sum and count, else NaN."""
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
            variance = np.where(weight > max(ddof, 0), m2 / (weight - ddof), np.nan)
        return variance if statistic == "var" else np.sqrt(variance)
    if group.weights is not None and not group.weights.known:
        return _unweighted(group, resolved, statistic)
    if "counts" in quantities(group, statistic):
        total, weight, number = sums_and_counts(group, resolved)
        empty = number == 0
    else:
        total, weight = sums(group, resolved)
        empty = weight == 0
    if statistic == "sum":
        # If no dimension is reduced, missing values remain missing; cells of weight 0 are not missing.
        return np.where(empty, 0.0 if resolved.reduced or group.complete else np.nan, total)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(empty | (weight == 0), np.nan, total / weight)


def quantities(group: Group, statistic: str) -> tuple[Quantity, ...]:
    """Return the quantities from which a sum, mean or count is computed."""
    if statistic == "count":
        return ("counts",)
    if group.weights is None or group.complete or group.extra is None:
        # Other writers' sums of weights that may be mere rounding errors were replaced by sums of cells.
        return ("data", "weights")
    # Differences of sums of weights may be rounding errors where all values are missing.
    return ("data", "weights", "counts")


def _unweighted(group: Group, request: Request, statistic: str) -> npt.NDArray[Any]:
    """Return sums or means of an array whose weights are unknown."""
    # If a sum may consist of rounding errors, extremes and counts are used: without valid values there is no mean, and
    # the mean of equal values is that value.
    from cfagg.accumulation.spread import extremes

    total, weight = sums(group, request)
    doubtful, light = np.isnan(total), np.isnan(weight)
    with np.errstate(divide="ignore", invalid="ignore"):
        out = total if statistic == "sum" else np.where(weight == 0, np.nan, total / weight)
    if not (doubtful | light).any():
        return out
    low, high, number = extremes(group, request, "min"), extremes(group, request, "max"), counts(group, request)
    # A mean of equal values and a sum of zeros need no weights.
    same = (low == high) & (~light if statistic == "mean" else low == 0)
    lost = (doubtful | light) & (number > 0) & ~same
    if lost.any():
        raise missing_weights(
            f"{group.store}: {group.variable!r}",
            f"{int(lost.sum()):,} of {lost.size:,} differences of sums may consist of rounding errors only",
        )
    out = np.where(doubtful & same, low, out)
    return np.where((doubtful | light) & (number == 0), 0.0 if statistic == "sum" else np.nan, out)


def sums(group: Group, request: Request) -> tuple[Float, Float]:
    """Return sums of unpacked values, and of their weights or counts, over the ranges of a request."""
    request = request.resolve(group.source.shape)
    return _decoded(group, request, raw_sums(group, request, ("data", "weights")))


def sums_and_counts(group: Group, request: Request) -> tuple[Float, Float, Int64]:
    """Return sums of values, of weights and of ones over the ranges of a request, from one pass."""
    request = request.resolve(group.source.shape)
    found = raw_sums(group, request, ("data", "weights", "counts"))
    return *_decoded(group, request, found), found.counts.reshape(request.shape)


def counts(group: Group, request: Request) -> Int64:
    """Return the numbers of valid cells in the ranges of a request."""
    request = request.resolve(group.source.shape)
    return raw_sums(group, request, ("counts",)).counts.reshape(request.shape)


def plan_sums(group: Group, request: Request, wanted: Sequence[Quantity] = ("data", "weights")) -> Plan:
    """Return the plan for a request, without reading data."""
    _check_shape(group)
    if group.weights is None:
        wanted = tuple(dict.fromkeys("weights" if q == "counts" else q for q in wanted))
    return make_plan(group, request.resolve(group.source.shape), wanted)


def raw_sums(group: Group, request: Request, wanted: Sequence[Quantity] = ("data", "weights")) -> Totals:
    """Return sums of stored (packed) values, of weights and of counts."""
    plan = plan_sums(group, request, wanted)
    proof = Proof(group, plan)
    doubtful = proof.needed and not proof.at_once()
    found = add_up(group, plan, integer=group.kind == "int64", measure=doubtful)
    totals = dict(found.high)
    if "data" in totals and found.bound >= 2.0**63:
        # Some sum may not fit; int64 is exact modulo 2**64, and float64 gives its size.
        rough = add_up(group, plan, integer=False).high["data"]
        beyond = np.abs(rough) >= _BEYOND
        if beyond.any():
            totals["data"] = np.where(beyond, rough, totals["data"].astype(np.float64))
    for q in plan.analytic:
        totals[q] = _known(group, plan.request, q)
    low = found.low.get("data")
    if doubtful:
        count = totals.get("counts") if group.weights is not None else None
        total = totals["data"] if low is None else totals["data"] + low
        if group.weights is not None and not group.weights.known:
            data, weight = proof.lost(found, total, totals["weights"])
            # Use NaN where they may consist of rounding errors.
            return Totals(np.where(data, np.nan, total), np.where(weight, np.nan, totals["weights"]), _NONE)
        bad = proof.wrong(found, total, totals.get("weights"), count)
        if bad.any():
            read_instead(group, plan, bad, totals, found.low)
    if group.outliers is not None:
        add_outliers(group, plan, totals, found.low)
    if "counts" in wanted and group.weights is None:
        totals["counts"] = totals["weights"]
    return Totals(totals.get("data", _NONE), totals.get("weights", _NONE), totals.get("counts", _NONE), low)


def _check_shape(group: Group) -> None:
    """Refuse an array whose shape has changed since its sums were built, since positions would denote other cells."""
    if group.extra is None or group.extra.source.shape == group.source.shape:
        return
    from cfagg.accumulation.freshness import check

    check(group)
    raise StaleError(
        f"{group.store}: {group.variable!r} has shape {group.source.shape}, but had {group.extra.source.shape} when "
        f"its accumulation was built; refresh it with: {command(group.store, group.variable, '--refresh')}"
    )


def _decoded(group: Group, request: Request, found: Totals) -> tuple[Float, Float]:
    """Return sums of unpacked values, and of weights."""
    total: npt.NDArray[Any] = found.data.reshape(request.shape)
    weight = _real(found.weights.reshape(request.shape))
    if found.data_low is not None:
        total = total + found.data_low.reshape(request.shape)
    total = _real(total) if group.scale == 1 else total * group.scale
    if group.offset:
        total = total + group.offset * weight
    return total, weight


def _real(values: npt.NDArray[Any]) -> Float:
    """Return values as float64; broadcast axes stay broadcast and take no memory."""
    if values.dtype == np.float64:
        return values
    once = tuple(slice(0, 1) if stride == 0 else slice(None) for stride in values.strides)
    narrow = values[once].astype(np.float64)
    return narrow if narrow.shape == values.shape else np.broadcast_to(narrow, values.shape)


def _known(group: Group, request: Request, quantity: Quantity) -> npt.NDArray[np.float64] | npt.NDArray[np.int64]:
    """Return counts or sums of weights of an array without missing values."""
    lengths = request.lengths
    if quantity == "counts" or group.weights is None:
        out = np.ones([1] * len(lengths), np.int64)
        for a, runs in request.reduced.items():
            out = out * along(runs.sizes, a, len(lengths))
        return np.broadcast_to(out, lengths)
    field = group.weights
    shape = [group.source.shape[a] if a in field.axes else 1 for a in range(len(lengths))]
    if 0 in lengths or 0 in shape:
        return np.zeros(lengths)
    # Treat the weights as one chunk, of length 1 along the axes that they do not span.
    term = []
    for a, n in enumerate(shape):
        part = part_of(request, a) if a in field.axes else Pick(np.zeros(1, np.int64))
        term += locate(part, Regular(n, n), n)
    if len(term) < len(shape):
        return np.zeros(lengths)
    block = field.array.reshape(shape)[tuple(slice(t.low, t.high) for t in term)]
    narrow = [n if a in field.axes else 1 for a, n in enumerate(lengths)]
    total = np.zeros(narrow)
    total[place_of(term)] = contract_raw(block, term, None, None, integer=False)[0]
    for a, runs in request.reduced.items():
        if a not in field.axes:
            total = total * along(runs.sizes, a, len(lengths))
    return np.broadcast_to(total, lengths)
