"""Deciding what a build of sums is going to do, without reading data."""

from __future__ import annotations

from dataclasses import replace

from cfagg.accumulation.assembling import assemble, existing_group
from cfagg.accumulation.documents import codec_of
from cfagg.accumulation.freshness import changes
from cfagg.accumulation.horizontal import horizontal_dims
from cfagg.accumulation.mask import read_meaning
from cfagg.accumulation.opening import open_group
from cfagg.accumulation.options import Settings
from cfagg.accumulation.orders import Order, Plan
from cfagg.accumulation.related import find_neighbours
from cfagg.accumulation.updating import plan_update, weights_stay
from cfagg.accumulation.weights import find_weights
from cfagg.conventions.accumulation_schema import KINDS, is_dimension
from cfagg.errors import ConventionError, NotAccumulatedError, StaleError, TargetExistsError, UnsupportedError
from cfagg.formats.zarr import open_array

__all__ = ["plan_build"]


def plan_build(order: Order) -> Plan:
    """Return what is going to be done, without reading data."""
    array = open_array(order.store, order.variable, allow=order.allow)
    where = f"{array.store}: array {array.path!r}"
    if not array.path:
        raise UnsupportedError(f"{array.store} is itself an array; an accumulation stands beside an array in a group")
    reserved = [d for d in array.dims if not is_dimension(d)]
    if reserved:
        raise UnsupportedError(
            f"{where} has the dimension {reserved[0]!r}; the convention (ZEP 5) keeps names with line breaks, and "
            f"those that begin with {', '.join(KINDS)}, from dimensions: rename it"
        )
    meaning = read_meaning(array)
    existing = existing_group(array)
    if order.append or order.refresh:
        return plan_update(order, array, meaning, existing, where)
    integer = meaning.dtype.kind in "iu" and order.weights is None
    default = [(d,) for d in array.dims]
    if order.dims is None and (pair := horizontal_dims(array)):
        default.append(pair)  # type: ignore[arg-type]
    settings = Settings.build(
        where,
        array.dims,
        dims=order.dims,
        default=default,
        stride=order.stride,
        statistics=order.statistics,
        precision=order.precision,
        codec=order.codec,
        integer=integer,
    )
    # Before weights are read: what is written from here on is found when the sums are done.
    related = find_neighbours(array, order.weights)
    weights = find_weights(array, order.weights, order.memory)
    plan = assemble(array, meaning, existing, settings, weights, None, "rebuilt" if existing else "built", related)
    if existing and not order.overwrite:
        if order.resume and _is_that(plan):
            return replace(plan, done=True)
        raise TargetExistsError(
            f"{where} has an accumulation; extend it with append=True (--append), bring it up to date with "
            "refresh=True (--refresh), or replace it with overwrite=True (--overwrite)"
        )
    return plan


def _is_that(plan: Plan) -> bool:
    """Whether the existing group is fresh and what would be built."""
    try:
        group = open_group(plan.array.store, plan.array.path, allow=plan.array.allow)
    except (ConventionError, NotAccumulatedError, StaleError):
        return False
    if group.extra is None or (found := changes(group)) or found.related or not weights_stay(group, plan.weights):
        return False
    codec = codec_of(next(iter(group.sums.values())).data.document)
    return Settings.of(group.extra, group.sums, codec).identity() == plan.settings.identity()
