"""Scalar coordinates on which others depend: starting times of forecasts, and what names a scalar coordinate itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from cfagg.cf.joining.described import Companion, Coordinate, Described
from cfagg.cf.joining.forecasts import along_steps
from cfagg.cf.joining.options import Options
from cfagg.cf.joining.values import canonical_values

__all__ = ["tied"]

#: Scalar coordinates, and others that they may depend on, in this order.
_DEPENDENT = {"forecast_reference_time": ("realization", "time")}


def tied(described: Sequence[Described], options: Options | None = None) -> list[Described]:
    """Return descriptions in which what depends on a scalar coordinate belongs to it.

    A reference time does if each member of an ensemble, or else each time, has one, and these differ, or the time if
    forecasts have the same steps; flags and the like do if they name the scalar coordinate themselves in all files.
    It must be called before `members_of`.
    """
    out = list(described)
    groups = _groups(out)
    _spread(out, groups)
    if options is not None and options.axes is not None:
        return out
    for members in groups:
        for name, others in _DEPENDENT.items():
            behind = next((o for o in others if _depends(out, members, name, o)), None)
            if behind is None:
                continue
            memo: dict[tuple[int, int], tuple[Mapping[str, Any], Mapping[str, Any]]] = {}
            for k in members:
                key = id(out[k].axes), id(out[k].parts)
                if key not in memo:
                    memo[key] = _moved(out[k], name, behind)
                axes, parts = memo[key]
                out[k] = replace(out[k], axes=axes, parts=parts)
        for k, one in zip(members, along_steps([out[k] for k in members]), strict=True):
            out[k] = one
    return out


def _groups(described: Sequence[Described]) -> list[list[int]]:
    """Return the numbers of the descriptions with each signature."""
    groups: dict[int, list[int]] = {}
    known: dict[int, int] = {}
    numbers: dict[Any, int] = {}
    for k, one in enumerate(described):
        if id(one.signature) not in known:
            known[id(one.signature)] = numbers.setdefault(tuple(one.signature.items()), len(numbers))
        groups.setdefault(known[id(one.signature)], []).append(k)
    return list(groups.values())


def _spread(described: list[Described], groups: Sequence[Sequence[int]]) -> None:
    """Take from companions the scalar coordinates that they name themselves, unless those of all files name them."""
    for members in groups:
        sets = {id(described[k].parts): described[k].parts for k in members}
        named: dict[str, set[tuple[str, ...]]] = {}
        for parts in sets.values():
            for name, part in parts.items():
                named.setdefault(name, set()).add(part.named)
        mixed = {name for name, own in named.items() if len(own) > 1}
        if not mixed:
            continue
        new = {
            key: {n: replace(p, axes=p.axes[: len(p.shape)]) if n in mixed and p.named else p for n, p in parts.items()}
            for key, parts in sets.items()
        }
        for k in members:
            described[k] = replace(described[k], parts=new[id(described[k].parts)])


def _depends(described: Sequence[Described], members: Sequence[int], name: str, other: str) -> bool:
    """Return whether a scalar coordinate has one value for each value of another, and several values overall."""
    found: dict[Any, Any] = {}
    first: dict[str, Coordinate] = {}
    for k in members:
        both = [described[k].axes.get(n) for n in (other, name)]
        if any(own is None or own.stated.dims for own in both):
            return False
        of, value = (_key(own, first.setdefault(own.identity, own)) for own in both if own is not None)
        if found.setdefault(of, value) != value:
            return False
    return len(set(found.values())) > 1


def _key(own: Coordinate, first: Coordinate) -> Any:
    """Return the value of a scalar coordinate in the units of another, without the rounding errors of conversions."""
    value = canonical_values(own, first).tolist()[0]
    return round(value, 6) if isinstance(value, float) else value


def _moved(one: Described, name: str, behind: str) -> tuple[dict[str, Coordinate], dict[str, Companion]]:
    """Return the axes of a description without a coordinate, and its companions with that coordinate and its bounds."""
    own = one.axes[name]
    axes = {n: a for n, a in one.axes.items() if n != name}
    parts = {}
    for key, part in one.parts.items():
        spans = [behind if a == name else a for a in part.axes]
        parts[key] = replace(part, axes=tuple(dict.fromkeys(spans))) if name in part.axes else part
    parts[name] = Companion(own.stated, (), (behind,), own.values.reshape(()))
    if own.bounds is not None and own.bounds_stated is not None:
        along = *[""] * own.bounds.ndim, behind
        parts[f"bounds of {name}"] = Companion(own.bounds_stated, own.bounds.shape, along, own.bounds, "bounds")
    return axes, parts
