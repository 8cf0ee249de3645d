"""Checks with every query that an accumulation still belongs to its data, by comparison with the files.

The metadata of the array (never consolidated ones), of its coordinates and of the arrays that weights were made from
are read again.  For every stored object on which the result depends, size, times and inode are compared with those when
its values were summed.  Nothing is hashed here, and nothing is written.
"""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime
from numbers import Real
from typing import Any

import numpy as np
import numpy.typing as npt

from cfagg.accumulation.description import (
    Differences,
    Neighbour,
    differences,
    differences_of,
    differences_since,
    label_of,
)
from cfagg.accumulation.group import Group, object_counts, stale
from cfagg.accumulation.ranges import Request, chunk_of
from cfagg.conventions.accumulation_record import Related
from cfagg.errors import (
    ConventionError,
    FragmentReadError,
    OptionError,
    Problem,
    SourceError,
    StaleError,
    UnsupportedError,
)
from cfagg.formats.zarr.documents import read_identity
from cfagg.formats.zarr.metadata import ZarrArray, current_signature, open_array
from cfagg.formats.zarr.stamps import stamps
from cfagg.model import Regular
from cfagg.storage.urls import Url

__all__ = ["Changes", "changes", "check", "check_trust", "is_replaced", "touched"]

Int64 = npt.NDArray[np.int64]

#: Largest number of changed objects that are named one by one.
_NAMED = 15

#: Number of concurrent requests for related arrays of a remote store.
_AT_ONCE = 8


@dataclass(frozen=True, eq=False)
class Changes:
    """The changes since an accumulation was built."""

    problems: tuple[Problem, ...]
    #: Dimensions that have grown, with their size then and now.
    grown: Mapping[str, tuple[int, int]]
    #: Whether anything else in the description changed: dimensions, type, chunks, packing, missing values.
    other: bool
    #: Index of each object written, created or removed since, among those at the build; `None` if unknown.
    written: Int64 | None
    #: Changes of coordinates and of the arrays that weights were made from.
    related: tuple[Problem, ...] = field(default=())

    def __bool__(self) -> bool:
        return bool(self.problems)


def check(group: Group, request: Request | None = None, trust_for: float = 0.0) -> None:
    """Raise `StaleError` if anything on which a result depends has changed since the accumulation was built."""
    # To be called after the data of a query have been read: an object that was written before or during the reading now
    # has another stamp, since change times never go back and inodes in use are not reused.  Stamps equal to those of
    # the build prove that no object was written since.  For a group of another writer, only the state in which it was
    # opened can be compared.
    looks, now = group.looks, time.monotonic()
    if now - looks.described >= trust_for:
        _check_description(group)
        looks.described = now
    if request is None or group.extra is None:
        return
    which = touched(group.source, request, group.read or ())
    if not len(which):
        return
    count = group.extra.source.objects
    if trust_for:
        if looks.objects is None:
            looks.objects = np.full(count, -np.inf)
        which = which[now - looks.objects[which] >= trust_for]
    then = group.objects[which, :4]
    found = stamps(group.source, which)
    wrong = np.flatnonzero((found != then).any(axis=1))
    if len(wrong):
        shape = group.source.objects.matrix_shape
        index = np.stack(np.unravel_index(which[wrong], shape), axis=-1) if shape else np.zeros((1, 0), np.int64)
        problems = _named(group.source, index, then[wrong], found[wrong])
        raise stale(group, problems, adoptable=True)
    if looks.objects is not None:
        looks.objects[which] = now


def check_trust(trust_for: float) -> float:
    """Return the number of seconds for which one check is trusted, or raise `OptionError`."""
    given: Any = trust_for
    is_number = isinstance(given, Real) and not isinstance(given, bool)
    if not is_number or not 0 <= given <= sys.float_info.max:
        raise OptionError(f"trust_for={given!r} is not a number of seconds; give 0 or more")
    return float(given)


def _check_description(group: Group) -> None:
    """Raise if metadata, coordinates or weights have changed, or if the accumulation was replaced."""
    if is_replaced(group):
        raise StaleError(
            f"{group.store}: the accumulation of {group.variable!r} was rebuilt or removed since it was opened; "
            "open it again"
        )
    source, described, problem = _described(group)
    if problem is not None or described.problems or source is None:
        raise stale(group, [problem] if problem is not None else described.problems)
    if group.extra is not None:
        found = _related(group)
        if found:
            raise stale(group, [p for p, _ in found], adoptable=all(adoptable for _, adoptable in found))


def is_replaced(group: Group) -> bool:
    """Return whether the accumulation was replaced or removed since it was opened."""
    names = ("zarr.json",) if group.source.zarr_format == 3 else (".zattrs", ".zgroup")
    return group.identity not in [read_identity(group.folder, name, group.store) for name in names]


def changes(group: Group) -> Changes:
    """Return everything that has changed since the accumulation was built, anywhere in the array."""
    source, described, problem = _described(group)
    if source is None:
        return Changes((problem,) if problem is not None else (), {}, True, None)
    if group.extra is None:
        return Changes(described.problems, described.grown, described.other, None)
    try:
        _ = group.objects
    except FragmentReadError as error:
        problems = (*described.problems, Problem("content", str(error)))
        return Changes(problems, described.grown, described.other, None)
    related = tuple(p for p, _ in _related(group))
    written, named = _written(group, source)
    return Changes((*described.problems, *named), described.grown, described.other, written, related)


def _described(group: Group) -> tuple[ZarrArray | None, Differences, Problem | None]:
    """Return the present array (the opened one if its metadata are the same) and the differences of its description."""
    try:
        same = current_signature(group.source) == group.source.signature
        source = group.source if same else open_array(group.store, group.variable, allow=group.source.allow)
    except (SourceError, UnsupportedError, ConventionError) as error:
        return None, Differences(), Problem("array", str(error))
    if group.extra is None:
        return source, Differences() if same else differences_since(group.source, source), None
    return source, group.differences if same else differences(source, group.extra), None


def _related(group: Group) -> list[tuple[Problem, bool]]:
    """Return the changes of related arrays, each with a flag that is true if only stamps differ."""
    if group.extra is None:
        return []
    place = group.extra.source.objects
    cases = []
    for then, opened in zip(group.extra.related, group.neighbours, strict=True):
        cases.append((then, opened, group.objects[place : place + then.objects, :4]))
        place += then.objects

    def problems(case: tuple[Related, Neighbour, Int64]) -> list[tuple[Problem, bool]]:
        then, opened, rows = case
        neighbour = opened.current(group.source)
        described = differences_of(neighbour, then)
        if described or neighbour.array is None:
            return [(problem, False) for problem in described]
        found = stamps(neighbour.array)
        return [
            (Problem(label_of(then), _sentence(rows[i], found[i])), True)
            for i in np.flatnonzero((found != rows).any(axis=1))[:_NAMED]
        ]

    if not isinstance(group.source.store, Url) or len(cases) < 2:
        return [problem for case in cases for problem in problems(case)]
    # A remote store answers several requests as fast as one.
    with ThreadPoolExecutor(min(len(cases), _AT_ONCE)) as pool:
        return [problem for found in pool.map(problems, cases) for problem in found]


def _written(group: Group, source: ZarrArray) -> tuple[Int64 | None, list[Problem]]:
    """Return the index of objects whose stamps have changed since the build, and problems that name the first ones."""
    if group.extra is None or source.dims != group.dims:
        return None, []
    then = group.objects[: group.extra.source.objects, :4]
    now, old = stamps(source), object_counts(group, source)
    if math.prod(old) != len(then):
        return None, [Problem("content", f"it had {len(then)} stored objects, now {len(now)}")]
    both = tuple(map(min, old, source.objects.matrix_shape))
    box = tuple(slice(n) for n in both)
    before = then.reshape(*old, 4)[box].reshape(-1, 4)
    after = now.reshape(*source.objects.matrix_shape, 4)[box].reshape(-1, 4)
    found = np.flatnonzero((before != after).any(axis=1))
    index = np.stack(np.unravel_index(found, both), axis=-1) if both else np.zeros((len(found), 0), np.int64)
    return index.astype(np.int64), _named(source, index, before[found], after[found])


def _named(source: ZarrArray, index: Int64, before: Int64, after: Int64) -> list[Problem]:
    """Return problems that name the first of some objects whose stamps differ, and count the others."""
    kind = "chunk" if source.objects is source.grid else "shard"
    problems = [
        Problem(f"{kind} {tuple(i.tolist())}", _sentence(before[k], after[k])) for k, i in enumerate(index[:_NAMED])
    ]
    if len(index) > _NAMED:
        problems.append(Problem("", f"{len(index) - _NAMED:,} more {kind}s were written"))
    return problems


def _sentence(before: Int64, after: Int64) -> str:
    """Return a text that describes the change of an object, from its stamps."""
    if after[0] < 0:
        return "no longer stored"
    size = f", {before[0]:,} bytes before, now {after[0]:,}" if before[0] not in (-1, after[0]) else ""
    if before[0] < 0:
        return f"stored at {_moment(after[1])}"
    if before[1] != after[1]:
        return f"written at {_moment(after[1])}{size}"
    if before[3] != after[3]:
        return f"replaced by another file at {_moment(after[2])}{size}"
    return f"changed at {_moment(after[2])}, with the same modification time{size}"


def _moment(nanoseconds: int) -> str:
    when = datetime.fromtimestamp(int(nanoseconds) // 10**9, UTC)
    return f"{when:%Y-%m-%d %H:%M:%S}.{int(nanoseconds) // 10**6 % 1000:03d} UTC"


def touched(source: ZarrArray, request: Request, read: Iterable[tuple[int, ...]]) -> Int64:
    """Return the numbers of the objects on which a result depends, in ascending order."""
    # Let a result be the sum of a_c·x_c + b_c·y_c over all cells c, where x_c is the value at the time of the build,
    # and y_c the value now, if it was read.  Whatever the plan, a_c + b_c is the number of ranges that contain the
    # cell, and 0 outside.  So the result is right if x_c = y_c wherever a_c or b_c is not 0.  Outside the ranges,
    # a_c = -b_c, and both are 0 unless the cell itself was read, as edges are with strides, to subtract them from the
    # core.  Extremes and centred squares use nodes and cells within the ranges only.  Hence a result depends on the
    # objects that contain a cell of the ranges, and on those of which a chunk was read.
    along = []
    for a, (axis, length) in enumerate(zip(source.objects.axes, source.shape, strict=True)):
        runs = request.reduced.get(a)
        if runs is not None:
            some = runs.stop > runs.start
            starts, stops = runs.start[some], runs.stop[some]
        else:
            starts = np.asarray(request.kept[a], np.int64)
            stops = starts + 1
        along.append(_held(axis, length, starts, stops))
    shape = source.objects.matrix_shape
    found = np.zeros(1, np.int64)
    for n, held in zip(shape, along, strict=True):
        found = (found[:, None] * n + held).reshape(-1)
    more = {source.object_of(index) for index in read}
    if more:
        extra = np.array([np.ravel_multi_index(held, shape) if held else 0 for held in more], np.int64)
        found = np.union1d(found, extra)
    return found


def _held(axis: Regular | Int64, length: int, starts: Int64, stops: Int64) -> Int64:
    """Return the objects along one dimension that contain cells of the ranges, each once."""
    count = axis.count if isinstance(axis, Regular) else len(axis) - 1
    if not len(starts) or not length:
        return np.empty(0, np.int64)
    first, last = chunk_of(axis, starts), chunk_of(axis, stops - 1)
    if len(first) == 1:
        return np.arange(int(first[0]), int(last[0]) + 1, dtype=np.int64)
    change = np.zeros(count + 1, np.int64)
    np.add.at(change, first, 1)
    np.add.at(change, last + 1, -1)
    return np.flatnonzero(np.cumsum(change))
