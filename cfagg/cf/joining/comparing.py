"""Described variables as members: columns of numbers, computed once for each distinct object."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from functools import partial
from itertools import pairwise
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from cfagg.cf.joining.cells import condition_of
from cfagg.cf.joining.described import Companion, Coordinate, Described, Stated, root_of
from cfagg.cf.joining.equality import close_values, equal_arrays, numbered_texts
from cfagg.cf.joining.identities import DATASETS, MADE_BY, frozen, units_key
from cfagg.cf.joining.lining_up import Entry, lined_up
from cfagg.cf.joining.members import Axis, Int64, Members, Part, Points, codes
from cfagg.cf.joining.mixing import mixed
from cfagg.cf.joining.options import Options
from cfagg.cf.joining.values import (
    canonical_values,
    first_difference,
    in_units_of,
    meanings,
    meant,
    plain,
    shown,
    with_units,
)

__all__ = ["members_of"]

#: Maximum number of elements that are compared one by one in companions along several axes.
_ELEMENTS = 1 << 22


def members_of(described: Sequence[Described], options: Options | None = None) -> Members:
    """Return variables as members, with coordinates in the units of the first; unjoinable ones stay unique."""
    options = options or Options()
    signature, labels = _signatures(described)
    axes = []
    each = _distinct(d.axes for d in described)[1]
    for name in dict.fromkeys(n for a in each for n, own in a.items() if not own.within):
        axis, cells = _axis(name, described, options)
        axes.append(axis)
        if cells is not None:
            column = f"cells of {name}"
            signature[column], labels[column] = cells
    by_name = {axis.name: axis for axis in axes}
    parts = {}
    # Companions along other axes are different ones even under the same name, and irrelevant for these members.
    stated = _distinct(d.parts for d in described)[1]
    for name, along in dict.fromkeys((n, own.axes) for one in stated for n, own in one.items()):
        part = _part(name, along, described, by_name, options)
        if part is not None:
            parts[f"{name}, along {', '.join(along)}" if name in parts else name] = part
    contents = None
    if options.on_overlap == "equal":
        # Two variables of a file are two quantities, even if all their values are equal, such as zero.
        digests, _ = _numbers((one.stated.name, one.digest) if one.digest else k for k, one in enumerate(described))
        # Equal numbers are different values if the coordinates have another order.
        contents = codes(digests, *map(_stored_order, axes))
    return Members(signature, axes, parts, labels, _Properties(described, options.dimension), contents)


def _distinct(objects: Iterable[Any]) -> tuple[Int64, list[Any]]:
    """Return the numbers of objects, and the distinct objects, by identity."""
    number: dict[int, int] = {}
    distinct: list[Any] = []
    out = []
    for one in objects:
        known = number.get(id(one))
        if known is None:
            known = number[id(one)] = len(distinct)
            distinct.append(one)
        out.append(known)
    return np.array(out, np.int64), distinct


def _signatures(described: Sequence[Described]) -> tuple[dict[str, Int64], dict[str, Sequence[Any]]]:
    """Return the columns of the signature, and the values that their numbers represent."""
    own, distinct = _distinct(d.signature for d in described)
    signature: dict[str, Int64] = {}
    labels: dict[str, Sequence[Any]] = {}
    for name in dict.fromkeys(n for s in distinct for n in s):
        number, labels[name] = _numbers(s.get(name) for s in distinct)
        signature[name] = number[own] if own.size else number
    # Each variable that cannot be joined has its own number.
    alone = ((i, d.problem) if d.problem else (-1, None) for i, d in enumerate(described))
    signature["problem"], found = _numbers(alone)
    labels["problem"] = [problem for _, problem in found]
    return signature, labels


class _Properties:
    """Attributes that may separate variables, computed on first use: few joins need them, but reasons often do."""

    def __init__(self, described: Sequence[Described], dimension: Sequence[str]) -> None:
        self._described = described
        self._dimension = dimension
        self._found: dict[str, tuple[Int64, Sequence[Any]]] | None = None

    def __call__(self) -> dict[str, tuple[Int64, Sequence[Any]]]:
        if self._found is None:
            self._found = _properties(self._described, self._dimension)
        return self._found


def _properties(described: Sequence[Described], dimension: Sequence[str]) -> dict[str, tuple[Int64, Sequence[Any]]]:
    """Return the attributes that distinguish datasets, and names in files, as numbers, with their values.

    Attributes of a `dimension` are coordinates, which need not distinguish anything else.
    """
    own, distinct = _distinct(d.around for d in described)
    mine, stated = _distinct(d.stated for d in described)
    found: dict[str, tuple[Int64, Sequence[Any]]] = {}
    for name in dict.fromkeys((*DATASETS, *dimension)):
        if any(name in a for a in distinct) or any(name in s.attributes for s in stated):
            around = [frozen(a.get(name)) for a in distinct]
            inner = [frozen(s.attributes.get(name)) for s in stated]
            pairs = zip(own.tolist(), mine.tolist(), strict=True)
            found[name] = _numbers(around[a] if inner[s] is None else inner[s] for a, s in pairs)
    if any(name in found for name in dimension):
        found = _beyond(dimension, found)
    if len({s.name for s in stated}) > 1:
        # If variables of one file have the same metadata, only their names identify the counterparts in other files.
        found["name"] = _numbers(stated[s].name for s in mine.tolist())
    return found


def _beyond(
    dimension: Sequence[str], found: Mapping[str, tuple[Int64, Sequence[Any]]]
) -> dict[str, tuple[Int64, Sequence[Any]]]:
    """Return the attributes that do not follow from those of dimensions and from what made the data.

    The index of a realization follows from its label, for example, and would separate what has this label as an axis.
    """
    always = () if any(name in MADE_BY for name in dimension) else tuple(n for n in MADE_BY if n in found)
    known = codes(*(found[n][0] for n in (*dimension, *always) if n in found))
    kept = {}
    for name, column in found.items():
        finer = codes(known, column[0])
        if name in always or (name not in dimension and finer.max(initial=0) > known.max(initial=0)):
            kept[name], known = column, finer
    return kept


def _numbers(values: Iterable[Hashable]) -> tuple[Int64, list[Any]]:
    """Return the numbers of values, and the values by number."""
    known: dict[Any, int] = {}
    return np.array([known.setdefault(v, len(known)) for v in values], np.int64), list(known)


def _axis(
    name: str, described: Sequence[Described], options: Options
) -> tuple[Axis, tuple[Int64, Sequence[Any]] | None]:
    """Return the positions of variables along one axis, and the conditions on cells that they fulfil.

    All variables without the axis have the same position.
    """
    # Variables of a file mostly share their axes and companions.
    both, pairs = _pairs(described)
    keys: dict[tuple[Hashable, ...], int] = {}
    entries: list[Entry] = []
    number = []
    for axes, parts in pairs:
        coordinate = axes.get(name)
        along = {} if coordinate is None else _along(name, coordinate, parts)
        loose = any(one.within == name for one in axes.values())
        key = (loose, id(coordinate), *map(id, along.values()))
        if key not in keys:
            keys[key] = len(entries)
            entries.append(Entry(coordinate, with_units(along), loose))
        number.append(keys[key])
    code = np.array(number, np.int64)[both] if both.size else np.zeros(0, np.int64)
    found = lined_up(entries, options)
    axis = Axis(
        name,
        code,
        first=found.first[code],
        last=found.last[code],
        low=found.low[code],
        high=found.high[code],
        points=Points(found.offset, found.point, found.value, found.unordered),
        differing=partial(_differing, name, entries),
        base=found.base,
        counted=any(e.coordinate is not None and e.coordinate.index for e in entries),
        grows=np.array([e.coordinate is not None and e.coordinate.grows for e in entries], bool)[code],
        label=partial(_label, entries),
        size=found.size,
    )
    cells = None
    if options.cells:
        of, labels = _numbers(
            "" if e.coordinate is None else condition_of(e.coordinate, options.cells) for e in entries
        )
        cells = of[code], labels
    return axis, cells


def _pairs(
    described: Sequence[Described],
) -> tuple[Int64, list[tuple[Mapping[str, Coordinate], Mapping[str, Companion]]]]:
    """Return the distinct pairs of axes and companions, and the number of the pair of each variable."""
    number: dict[tuple[int, int], int] = {}
    pairs: list[tuple[Mapping[str, Coordinate], Mapping[str, Companion]]] = []
    out = []
    for one in described:
        key = id(one.axes), id(one.parts)
        known = number.get(key)
        if known is None:
            known = number[key] = len(pairs)
            pairs.append((one.axes, one.parts))
        out.append(known)
    return np.array(out, np.int64), pairs


def _along(name: str, coordinate: Coordinate, parts: Mapping[str, Companion]) -> dict[str, Companion]:
    """Return the companions along one axis alone, with one value for each coordinate."""
    return {n: p for n, p in sorted(parts.items()) if _is_along(p, name, coordinate)}


def _is_along(part: Companion, name: str, of: Coordinate) -> bool:
    axes = [a for a in part.axes if a]
    if axes != [name] or part.axes[0] != name or part.values is None or of.index:
        return False
    return not part.shape if not part.stated.dims[: len(part.shape)] else part.shape[:1] == of.values.shape


def _label(entries: Sequence[Entry], code: int, place: int) -> Any:
    """Return one of the coordinates of a code."""
    own = entries[code].coordinate
    return None if own is None else plain(own.values[place])


def _differing(name: str, entries: Sequence[Entry], a: int, b: int) -> tuple[str, Any, Any]:
    """Return what differs between two coordinates or their companions along the axis, and both values."""
    one, other = entries[a], entries[b]
    if one.coordinate is None or other.coordinate is None:
        said = ["none" if e.coordinate is None else "there" for e in (one, other)]
        return name, said[0], said[1]
    values = canonical_values(one.coordinate), canonical_values(other.coordinate, one.coordinate)
    found = first_difference(*values)
    if found is not None:
        return name, *found
    if one.coordinate.bounds is not None and other.coordinate.bounds is not None:
        bounds = [
            np.sort(canonical_values(e.coordinate, one.coordinate, bounds=True), axis=1)
            for e in (one, other)
            if e.coordinate
        ]
        found = first_difference(*bounds)
        if found is not None:
            return f"bounds of {name}", *found
    for key, own in one.along.items():
        if key in other.along:
            found = first_difference(meant(own), meant(other.along[key])) or _flags(own, other.along[key])
            if found is not None:
                return key, *found
    return name, shown(values[0]), shown(values[1])


def _part(
    name: str, along: tuple[str, ...], described: Sequence[Described], axes: Mapping[str, Axis], options: Options
) -> Part | None:
    """Return the companions of variables along these axes; `None` for those along a single axis, which belong to it."""
    both, pairs = _pairs(described)
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
        if part is not None and any(_is_along(part, a, of[a]) for a in along[:1] if a in of):
            part = None
        found.append(part)
    if all(p is None for p in found):
        return None
    own, distinct = _distinct(found)
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
        column = codes(column, *(_stored_order(axes[a]) for a in sorted(spans)))
    differing = partial(_differing_part, distinct, own[both] if both.size else own)
    there = np.array([p is not None for p in found])[both] if inner else None
    return Part(column, spans, sums, differing, name, there)


def _stored_order(axis: Axis) -> Int64:
    """Return a number for the stored order of the points of each member, the same for equal points in equal order."""
    own: Any = axis.points
    turns = (own.point[a:b].tobytes() for a, b in pairwise(own.offset.tolist()))
    return _numbers(turns)[0][axis.code]


def _differing_part(distinct: Sequence[Companion | None], own: Int64, a: int, b: int) -> tuple[Any, Any]:
    """Return the differing values of two members of a companion."""
    one, other = distinct[own[a]], distinct[own[b]]
    if one is None or other is None or one.values is None or other.values is None:
        return _unkept(one), _unkept(other)
    values = meant(one), in_units_of(meant(other), other.stated, one.stated)[0]
    return first_difference(*values) or _flags(one, other) or (shown(values[0]), shown(values[1]))


def _flags(one: Companion, other: Companion) -> tuple[Any, Any] | None:
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
