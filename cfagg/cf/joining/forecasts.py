"""Forecasts at the same steps after several starts, which fill an array along starts and steps, not along times."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from cfagg.cf.joining.described import Companion, Coordinate, Described
from cfagg.cf.joining.values import canonical_values

__all__ = ["along_steps"]

_START, _TIME, _STEP = "forecast_reference_time", "time", "forecast_period"


def along_steps(described: Sequence[Described]) -> list[Described]:
    """Return descriptions of one signature with the two axes, of start, time and step, that they fill best.

    Each follows from the other two.  Starts and times are axes unless there are more of one of these than steps: of
    forecasts over two days from each of ten days there are 10 starts, 12 times and 3 steps.
    """
    gone = _dependent(described)
    if gone is None:
        return list(described)
    memo: dict[tuple[int, ...], Described] = {}
    out = []
    for one in described:
        key = id(one.axes), id(one.parts), id(one.along)
        new = memo[key] = memo.get(key) or _exchanged(one, gone)
        out.append(replace(one, axes=new.axes, parts=new.parts, along=new.along))
    return out


def _dependent(described: Sequence[Described]) -> str | None:
    """Return which of the axes of starts and times has more values than there are steps, the most of all."""
    if not described or not all({_START, _TIME} <= one.axes.keys() and _STEP in one.parts for one in described):
        return None
    values: dict[str, list[npt.NDArray[Any]]] = {}
    first: dict[str, Coordinate] = {}
    for one in {(id(one.axes), id(one.parts)): one for one in described}.values():
        start, time, step = one.axes[_START], one.axes[_TIME], _step(one)
        if step is None or start.stated.dims or time.stated.dims != step.stated.dims:
            return None
        for name, own in ((_TIME, time), (_START, start), (_STEP, step)):
            values.setdefault(name, []).append(canonical_values(own, first.setdefault(name, own)).astype(float))
    count = {name: np.unique(np.concatenate(own).round(6)) for name, own in values.items()}
    if any(np.isnan(own).any() for own in count.values()):
        return None
    names = [_STEP, _TIME] if any(one.axes[_TIME].stated.dims for one in described) else [_STEP, _TIME, _START]
    most = max(names, key=lambda name: count[name].size)
    return None if most == _STEP else most


def _step(one: Described) -> Coordinate | None:
    """Return the steps as a coordinate with their bounds, if they are numbers that were kept."""
    own, bounds = one.parts[_STEP], one.parts.get(f"bounds of {_STEP}")
    kept = own.values is not None and (bounds is None or bounds.values is not None)
    if own.values is None or not kept or own.values.dtype.kind not in "iuf" or len(own.shape) > 1:
        return None
    if bounds is None:
        return Coordinate(_STEP, own.stated, np.atleast_1d(own.values))
    return Coordinate(_STEP, own.stated, np.atleast_1d(own.values), bounds.values, bounds.stated)


def _exchanged(one: Described, gone: str) -> Described:
    """Return a description in which the steps are an axis instead of starts or times."""
    own, step = one.axes[gone], _step(one)
    if step is None:
        raise ValueError(f"{one.stated.name} has no steps")
    left = {_STEP, f"bounds of {_STEP}"}
    parts = {
        n: replace(p, axes=tuple(_STEP if a == gone else a for a in p.axes)) if gone in p.axes else p
        for n, p in one.parts.items()
        if n not in left
    }
    parts.update(_companions(own, ({_START, _TIME} - {gone}).pop()))
    axes = {_STEP if n == gone else n: step if n == gone else axis for n, axis in one.axes.items()}
    return replace(one, axes=axes, parts=parts, along={d: _STEP if n == gone else n for d, n in one.along.items()})


def _companions(own: Coordinate, other: str) -> Iterator[tuple[str, Companion]]:
    """Yield the coordinate of an axis, and its bounds, as companions along steps and another axis."""
    dims = len(own.stated.dims)
    shape = own.values.shape[:dims]
    along = [_STEP, other] if dims or other == _TIME else [other, _STEP]
    yield own.identity, Companion(own.stated, shape, tuple(along), own.values.reshape(shape))
    if own.bounds is not None and own.bounds_stated is not None:
        along[dims:dims] = [""] * (own.bounds.ndim - dims)
        yield (
            f"bounds of {own.identity}",
            Companion(own.bounds_stated, own.bounds.shape, tuple(along), own.bounds, "bounds"),
        )
