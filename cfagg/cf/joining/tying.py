"""Scalar coordinates on which others depend: starting times of forecasts, model levels, and what names one itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from cfagg.cf.joining.described import Companion, Coordinate, Described
from cfagg.cf.joining.forecasts import along_steps
from cfagg.cf.joining.options import Options
from cfagg.cf.joining.values import canonical_values

__all__ = ["tied"]

_LEVEL = "model_level_number"

#: Scalar coordinates, and others that they may depend on, in this order.
_DEPENDENT = {
    "forecast_reference_time": ("realization", "time"),
    **dict.fromkeys(
        (
            "atmosphere_hybrid_height_coordinate",
            "atmosphere_hybrid_sigma_pressure_coordinate",
            "atmosphere_ln_pressure_coordinate",
            "atmosphere_sigma_coordinate",
            "atmosphere_sleve_coordinate",
        ),
        (_LEVEL,),
    ),
}

#: The roles of scalars without a standard name that may depend on a model level, such as its sigma.
_OF_LEVELS = frozenset({"coordinates", "formula_terms"})


def tied(described: Sequence[Described], options: Options | None = None) -> list[Described]:
    """Return descriptions in which what depends on a scalar coordinate belongs to it.

    A reference time does if each member of an ensemble, or else each time, has one, and these differ, or the time if
    forecasts have the same steps; heights and terms of model levels do if each level has one; flags and the like do if
    they name the scalar coordinate themselves in all files.  It must be called before `members_of`.
    """
    out = list(described)
    groups = _groups(out)
    _spread(out, groups)
    if options is not None and options.axes is not None:
        return out
    for members in groups:
        named = [n for n in out[members[0]].axes if n.startswith("long_name=")]  # if identities are relaxed
        for name, others in (_DEPENDENT | dict.fromkeys(named, (_LEVEL,))).items():
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
        _level(out, members)
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


def _level(described: list[Described], members: Sequence[int]) -> None:
    """Give scalars without a standard name the axis of the model level, if each level has one of its own."""
    first: dict[str, Coordinate] = {}
    levels: list[Any] = []
    for k in members:
        own = described[k].axes.get(_LEVEL)
        if own is None or own.stated.dims:
            return
        levels.append(_key(own, first.setdefault(_LEVEL, own)))
    one = described[members[0]]
    names = [n for n, p in one.parts.items() if p.role in _OF_LEVELS and not p.axes and not p.shape]
    moved = {name for name in names if _has_one_for_each(levels, [described[k].parts.get(name) for k in members])}
    if not moved:
        return
    memo: dict[int, Mapping[str, Companion]] = {}
    for k in members:
        parts = described[k].parts
        if id(parts) not in memo:
            memo[id(parts)] = {
                n: replace(p, axes=(*p.axes, *[""] * (len(p.shape) - len(p.axes)), _LEVEL))
                if n.removeprefix("bounds of ") in moved else p
                for n, p in parts.items()
            }  # fmt: skip
        described[k] = replace(described[k], parts=memo[id(parts)])


def _has_one_for_each(levels: Sequence[Any], parts: Sequence[Companion | None]) -> bool:
    """Return whether scalars have one value for each level, and several values overall."""
    found: dict[Any, Any] = {}
    first: dict[str, Coordinate] = {}
    for level, part in zip(levels, parts, strict=True):
        if part is None or part.values is None or part.shape or part.axes:
            return False
        own = Coordinate("", part.stated, np.atleast_1d(part.values))
        value = _key(own, first.setdefault("", own))
        if found.setdefault(level, value) != value:
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
