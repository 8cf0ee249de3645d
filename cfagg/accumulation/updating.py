"""Deciding how an existing accumulation is brought up to date: by appending, or by building it anew."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from cfagg.accumulation.assembling import assemble
from cfagg.accumulation.documents import codec_of
from cfagg.accumulation.freshness import changes
from cfagg.accumulation.group import Group, command
from cfagg.accumulation.growth import find_kept
from cfagg.accumulation.mask import Meaning
from cfagg.accumulation.opening import open_group
from cfagg.accumulation.options import Settings, check_dims, check_statistics, check_stride, differing
from cfagg.accumulation.orders import Order, Plan
from cfagg.accumulation.related import find_neighbours
from cfagg.accumulation.weights import Weights, find_weights
from cfagg.accumulation.writing import Kept
from cfagg.errors import NotAccumulatedError, StaleError
from cfagg.formats.zarr import ZarrArray

__all__ = ["plan_update", "weights_stay"]


def plan_update(order: Order, array: ZarrArray, meaning: Meaning, existing: tuple[int, int] | None, where: str) -> Plan:
    """Return what is going to be done to an existing accumulation."""
    group = open_group(array.store, array.path, check=False, allow=array.allow)
    extra = group.extra
    if extra is None:
        raise NotAccumulatedError(
            f"{where} has an accumulation by another program, which cannot be brought up to date; replace it with: "
            f"{command(array.store, array.path, '--overwrite')}"
        )
    if extra.source.dims != array.dims:
        raise StaleError(
            f"{where} has the dimensions {list(array.dims)}, its accumulation {list(extra.source.dims)}; rebuild it "
            f"with: {command(array.store, array.path, '--overwrite')}"
        )
    first = next(iter(group.sums.values())).data
    settings = Settings.of(extra, group.sums, codec_of(first.document))
    _same_options(order, settings, extra, where)
    found = changes(group)
    given: Any = order.weights
    if extra.weights is not None and given is None:
        kind, name = extra.weights.kind, extra.weights.name
        given = {"area": "area", "variable": name}.get(kind)
        if given is None and group.weights is not None:
            given = Weights("array", name, group.weights.array, group.weights.axes)
    related = find_neighbours(array, given)
    weights = find_weights(array, given, order.memory)
    integer = meaning.dtype.kind in "iu" and weights is None
    if (settings.sums == "int64") != integer and (settings.sums == "int64" or array.dtype.name != extra.source.dtype):
        settings = replace(settings, sums="int64" if integer else "float64")
    kept = None
    if found:
        try:
            kept = find_kept(group, array, settings.stride, found)
            _same_weights(kept, group, weights, where)
        except StaleError:
            if order.append:
                raise
            kept = None
    action = "rebuilt" if kept is None else "appended"
    plan = assemble(array, meaning, existing, settings, weights, kept, action, related)
    done = not found and weights_stay(group, weights)
    return replace(plan, done=done, renew=done and bool(found.related))


def _same_options(order: Order, settings: Settings, extra: Any, where: str) -> None:
    """Refuse options that contradict those of the existing accumulation; what was left out agrees."""
    given: dict[str, Any] = {}
    if order.dims is not None:
        given["dims"] = sorted(check_dims(order.dims, extra.source.dims, where))
    if order.stride != 1:
        given["stride"] = check_stride(order.stride, settings.dims, extra.source.dims, where)
    statistics = check_statistics(order.statistics)
    if statistics != ("chunks",):
        given["statistics"] = statistics
    if order.precision != "auto":
        given["precision"] = order.precision
    if order.weights is not None:
        given["weights"] = order.weights if isinstance(order.weights, str) else "array"
    known = extra.weights
    existing = {
        "dims": sorted(settings.dims),
        "stride": settings.stride,
        "statistics": settings.statistics,
        "precision": settings.sums,
        "weights": None if known is None else known.kind if known.kind != "variable" else known.name,
    }
    error = differing(given, existing, where)
    if error is not None:
        raise error


def weights_stay(group: Group, weights: Weights | None) -> bool:
    """Whether the weights are those with which an accumulation was built."""
    if group.weights is None or weights is None:
        return group.weights is None and weights is None
    return group.weights.axes == weights.axes and np.array_equal(group.weights.array, weights.values)


def _same_weights(kept: Kept | None, group: Group, weights: Weights | None, where: str) -> None:
    """Refuse to extend sums of other weights."""
    same = (group.weights is None) == (weights is None)
    if same and kept is not None and group.weights is not None and weights is not None:
        same = group.weights.axes == weights.axes
        if same:
            cut = tuple(slice(0, kept.position) if a == kept.axis else slice(None) for a in group.weights.axes)
            same = np.array_equal(group.weights.array[cut], weights.values[cut])
    if not same:
        raise StaleError(
            f"{where}: the weights have changed since its accumulation was built, so nothing can be appended; build it "
            "anew with refresh=True (--refresh)"
        )
