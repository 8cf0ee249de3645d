"""Companions of described variables as members: what their values have in common, and what differs."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from functools import partial
from itertools import pairwise
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from cfagg.cf.joining.described import UNNAMED, Companion, Coordinate, Described, Stated, root_of
from cfagg.cf.joining.equality import close_values, equal_arrays, numbered_texts
from cfagg.cf.joining.identities import units_key
from cfagg.cf.joining.members import Axis, Int64, Part, codes
from cfagg.cf.joining.mixing import mixed
from cfagg.cf.joining.numbering import distinct_of, numbers_of, pairs_of
from cfagg.cf.joining.options import Options
from cfagg.cf.joining.values import first_difference, in_units_of, meanings, meant, shown, with_units

__all__ = ["flags_of", "is_along", "own_lengths", "part_of", "stored_order"]

#: Maximum number of elements that are compared one by one in companions along several axes.
_ELEMENTS = 1 << 22


def part_of(
    name: str, along: tuple[str, ...], described: Sequence[Described], axes: Mapping[str, Axis], options: Options
) -> Part | None:
    """Return the companions of variables along these axes; `None` for those along a single axis, which belong to it."""
    both, pairs = pairs_of(described)
    found = []
    made: dict[tuple[int, int], Companion] = {}
    for of, parts in pairs:
        part = parts.get(name)
        if part is not None and part.axes != along:
            part = None
        if part is not None and part.role == "bounds":
            # Bounds with equal numbers differ if their coordinates have other units.
            key = id(part), id(parts.get(name.removeprefix("bounds of ")))
            part = made[key] if key in made else made.setdefault(key, with_units(parts)[name])
        if part is not None and any(is_along(part, a, of[a]) for a in along[:1] if a in of):
            part = None
        found.append(part)
    if all(p is None for p in found):
        return None
    own, distinct = distinct_of(found)
    arrays: list[npt.NDArray[Any]] = []
    bases: dict[Hashable, Stated] = {}
    for k, part in enumerate(distinct):
        if part is None:
            arrays.append(np.zeros(0))
        elif part.values is not None:
            base = bases.setdefault(units_key(part.stated.text("units"), part.stated.text("calendar")), part.stated)
            arrays.append(in_units_of(meant(part), part.stated, base)[0])
        else:
            # Values that were not compared count as different in each; a digest represents values that were not kept.
            arrays.append(np.array([part.digest.hex() or f"{k}"], object))
    code = equal_arrays(arrays, options.rtol, options.atol)
    flags = meanings(distinct)
    code = code if flags is None else codes(code, flags)
    column = code[own][both] if both.size else code
    sums = _sums(distinct, arrays, own[both] if both.size else own, axes, options)
    # Ranges along an inner axis follow their features.
    inner = {a: root_of(a) for a in along if root_of(a) and a not in axes}
    spans = frozenset(inner.get(a, a) for a in along if a)
    if sums is None:  # equal numbers are different values if the coordinates have another order
        column = codes(column, *(stored_order(axes[a]) for a in sorted(spans)))
    differing = partial(_differing_part, distinct, own[both] if both.size else own)
    there = np.array([p is not None for p in found])[both] if inner else None
    return Part(column, spans, sums, differing, name, there)


def own_lengths(described: Sequence[Described]) -> Iterable[tuple[str, Int64, Sequence[Any]]]:
    """Return the unequal lengths of dimensions that only companions or bounds have, which cannot be joined."""
    own, distinct = distinct_of(d.axes for d in described)
    for name in dict.fromkeys(n for axes in distinct for n, c in axes.items() if c.bounds is not None):
        bounds = [axes[name].bounds if name in axes else None for axes in distinct]
        of, labels = numbers_of(None if one is None else f"{one.shape[-1]}" for one in bounds)
        if len(labels) > 1:
            yield f"bounds of {name}", of[own], labels
    own, distinct = distinct_of(d.parts for d in described)
    for name in dict.fromkeys(n for parts in distinct for n, p in parts.items() if "" in p.axes and any(p.axes)):
        parts = [parts.get(name) for parts in distinct]
        of, labels = numbers_of(
            None
            if p is None or p.role in ("mesh", "ragged")
            else " x ".join(f"{n}" for n, a in zip(p.shape, p.axes, strict=False) if not a)
            for p in parts
        )
        if len(labels) > 1:
            yield name.removeprefix(UNNAMED), of[own], labels


def is_along(part: Companion, name: str, of: Coordinate) -> bool:
    """Return whether a companion has one value for each coordinate of one axis alone."""
    axes = [a for a in part.axes if a]
    if axes != [name] or part.axes[0] != name or part.values is None or of.index:
        return False
    return not part.shape if not part.stated.dims[: len(part.shape)] else part.shape[:1] == of.values.shape


def stored_order(axis: Axis) -> Int64:
    """Return a number for the stored order of the points of each member, the same for equal points in equal order."""
    own: Any = axis.points
    turns = (own.point[a:b].tobytes() for a, b in pairwise(own.offset.tolist()))
    return numbers_of(turns)[0][axis.code]


def _differing_part(distinct: Sequence[Companion | None], own: Int64, a: int, b: int) -> tuple[Any, Any]:
    """Return the differing values of two members of a companion."""
    one, other = distinct[own[a]], distinct[own[b]]
    if one is None or other is None or one.values is None or other.values is None:
        return _unkept(one), _unkept(other)
    values = meant(one), in_units_of(meant(other), other.stated, one.stated)[0]
    return first_difference(*values) or flags_of(one, other) or (shown(values[0]), shown(values[1]))


def flags_of(one: Companion, other: Companion) -> tuple[Any, Any] | None:
    """Return what the flags of two companions mean, if that differs."""
    if meanings([one, other]) is None:
        return None
    return one.stated.text("flag_meanings"), other.stated.text("flag_meanings")


def _unkept(part: Companion | None) -> str:
    """Return a description of values that are too many to be kept."""
    if part is None:
        return "none"
    size = f"{prod(part.shape):,} values"
    return f"{size} with the digest {part.digest.hex()[:8]}" if part.digest else f"{size}, too many to be compared"


def _sums(
    distinct: Sequence[Companion | None],
    arrays: Sequence[npt.NDArray[Any]],
    own: Int64,
    axes: Mapping[str, Axis],
    options: Options,
) -> npt.NDArray[np.uint64] | None:
    """Return sums over the elements of each companion, if these are few enough and along several axes."""
    spans = {p.axes for p in distinct if p is not None}
    if len(spans) != 1 or any(p is not None and (p.values is None or p.values.shape != p.shape) for p in distinct):
        return None
    (names,) = spans
    known = [n for n in names if n]
    if len(known) < 2 or set(known) - set(axes) or len(set(known)) < len(known):
        return None
    stacked = np.stack([own, *(axes[n].code for n in known)], axis=1)
    table, inverse = np.unique(stacked, axis=0, return_inverse=True)
    size = sum(arrays[k].size for k in table[:, 0].tolist())
    if len(table) == 1 or size > _ELEMENTS:
        return None
    flat = np.concatenate([a.ravel() for a in arrays])
    if flat.dtype == object or any(a.dtype == object for a in arrays):
        number = numbered_texts(flat.tolist())
    else:
        number = close_values(flat, options.rtol, options.atol)
    flags = meanings(distinct)
    number = number if flags is None else codes(number, np.repeat(flags, [a.size for a in arrays]))
    ends = np.cumsum([0, *(a.size for a in arrays)])
    out = np.zeros((len(table), 2), np.uint64)
    for k, (part, *at) in enumerate(table.tolist()):
        if distinct[part] is None:
            continue
        shape = arrays[part].shape
        value = number[ends[part] : ends[part + 1]].reshape(shape)
        columns: list[Any] = []
        turn = iter(at)
        for d, name in enumerate(names):
            size = shape[d] if d < len(shape) else 1
            place = np.arange(size)
            if name:
                code = next(turn)
                points: Any = axes[name].points
                own_size = axes[name].size
                counted = 1 if own_size is None else int(own_size[code])
                place = points.point[points.offset[code] : points.offset[code + 1]]
                place = np.arange(counted) if counted > 1 else place
            if place.size != size:
                return None
            columns.append(place.reshape([-1 if i == d else 1 for i in range(len(shape))] if d < len(shape) else ()))
        out[k] = mixed(*columns, value).reshape(-1, 2).sum(axis=0)
    return out[inverse.ravel()]
