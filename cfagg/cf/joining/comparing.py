"""Described variables as members: columns of numbers, computed once for each distinct object."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from cfagg.cf.joining.cells import condition_of
from cfagg.cf.joining.described import Companion, Coordinate, Described
from cfagg.cf.joining.identities import DATASETS, MADE_BY, frozen
from cfagg.cf.joining.lining_up import Entry, lined_up
from cfagg.cf.joining.members import Axis, Int64, Members, Points, codes
from cfagg.cf.joining.numbering import distinct_of, numbers_of, pairs_of
from cfagg.cf.joining.options import Options
from cfagg.cf.joining.parts import flags_of, is_along, own_lengths, part_of, stored_order
from cfagg.cf.joining.values import (
    canonical_values,
    first_difference,
    meant,
    plain,
    shown,
    with_units,
)

__all__ = ["members_of"]


def members_of(described: Sequence[Described], options: Options | None = None) -> Members:
    """Return variables as members, with coordinates in the units of the first; unjoinable ones stay unique."""
    options = options or Options()
    signature, labels = _signatures(described)
    axes = []
    each = distinct_of(d.axes for d in described)[1]
    for name in dict.fromkeys(n for a in each for n, own in a.items() if not own.within):
        axis, cells = _axis(name, described, options)
        axes.append(axis)
        if cells is not None:
            column = f"cells of {name}"
            signature[column], labels[column] = cells
    by_name = {axis.name: axis for axis in axes}
    parts = {}
    # Companions along other axes are different ones even under the same name, and irrelevant for these members.
    stated = distinct_of(d.parts for d in described)[1]
    for name, along in dict.fromkeys((n, own.axes) for one in stated for n, own in one.items()):
        part = part_of(name, along, described, by_name, options)
        if part is not None:
            parts[f"{name}, along {', '.join(along)}" if name in parts else name] = part
    for name, lengths, texts in own_lengths(described):
        column = f"lengths of other dimensions of {name}"
        signature[column], labels[column] = lengths, texts
    contents = None
    if options.on_overlap == "equal":
        # Two variables of a file are two quantities, even if all their values are equal, such as zero.
        digests, _ = numbers_of((one.stated.name, one.digest) if one.digest else k for k, one in enumerate(described))
        # Equal numbers are different values if the coordinates have another order.
        contents = codes(digests, *map(stored_order, axes))
    return Members(signature, axes, parts, labels, _Properties(described, options.dimension), contents)


def _signatures(described: Sequence[Described]) -> tuple[dict[str, Int64], dict[str, Sequence[Any]]]:
    """Return the columns of the signature, and the values that their numbers represent."""
    own, distinct = distinct_of(d.signature for d in described)
    signature: dict[str, Int64] = {}
    labels: dict[str, Sequence[Any]] = {}
    for name in dict.fromkeys(n for s in distinct for n in s):
        number, labels[name] = numbers_of(s.get(name) for s in distinct)
        signature[name] = number[own] if own.size else number
    # Each variable that cannot be joined has its own number.
    alone = ((i, d.problem) if d.problem else (-1, None) for i, d in enumerate(described))
    signature["problem"], found = numbers_of(alone)
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
    own, distinct = distinct_of(d.around for d in described)
    mine, stated = distinct_of(d.stated for d in described)
    found: dict[str, tuple[Int64, Sequence[Any]]] = {}
    for name in dict.fromkeys((*DATASETS, *dimension)):
        if any(name in a for a in distinct) or any(name in s.attributes for s in stated):
            around = [frozen(a.get(name)) for a in distinct]
            inner = [frozen(s.attributes.get(name)) for s in stated]
            pairs = zip(own.tolist(), mine.tolist(), strict=True)
            found[name] = numbers_of(around[a] if inner[s] is None else inner[s] for a, s in pairs)
    if any(name in found for name in dimension):
        found = _beyond(dimension, found)
    if len({s.name for s in stated}) > 1:
        # If variables of one file have the same metadata, only their names identify the counterparts in other files.
        found["name"] = numbers_of(stated[s].name for s in mine.tolist())
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


def _axis(
    name: str, described: Sequence[Described], options: Options
) -> tuple[Axis, tuple[Int64, Sequence[Any]] | None]:
    """Return the positions of variables along one axis, and the conditions on cells that they fulfil.

    All variables without the axis have the same position.
    """
    # Variables of a file mostly share their axes and companions.
    both, pairs = pairs_of(described)
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
        of, labels = numbers_of(
            "" if e.coordinate is None else condition_of(e.coordinate, options.cells) for e in entries
        )
        cells = of[code], labels
    return axis, cells


def _along(name: str, coordinate: Coordinate, parts: Mapping[str, Companion]) -> dict[str, Companion]:
    """Return the companions along one axis alone, with one value for each coordinate."""
    return {n: p for n, p in sorted(parts.items()) if is_along(p, name, coordinate)}


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
            found = first_difference(meant(own), meant(other.along[key])) or flags_of(own, other.along[key])
            if found is not None:
                return key, *found
    return name, shown(values[0]), shown(values[1])
