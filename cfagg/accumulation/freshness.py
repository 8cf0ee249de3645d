"""Whether an accumulation still belongs to its data: asked after every query, and answered from the files themselves.

The array's own metadata are read again, never consolidated ones, and size and time of every stored object are compared
with those of the moment when its values were summed.  A single value written by any program changes one of them.
Where an accumulation is asked often, the system is asked to tell of changes, and files are compared only after it did.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt

from cfagg.accumulation.arrays import read_whole
from cfagg.accumulation.description import Differences, differences
from cfagg.accumulation.group import Group, stale
from cfagg.errors import ConventionError, FragmentReadError, Problem, SourceError, StaleError, UnsupportedError
from cfagg.model import Regular
from cfagg.zarrs.documents import read_identity
from cfagg.zarrs.metadata import ZarrArray, current_signature, open_array
from cfagg.zarrs.stamps import digest, stamps
from cfagg.zarrs.watching import Watch

__all__ = ["Changes", "changes", "check", "is_replaced"]

Int64 = npt.NDArray[np.int64]

#: Checks of one query: when the accumulation is opened, and after the data were read.
_SINGLE = 2

#: Number of checks and watch of each opened accumulation.
_guards: WeakKeyDictionary[Group, tuple[int, Watch | None]] = WeakKeyDictionary()

#: So many objects that were written since are named one by one.
_NAMED = 15


@dataclass(frozen=True, eq=False)
class Changes:
    """What is no longer as it was when an accumulation was built.

    Parameters
    ----------
    problems : tuple of Problem
        Everything, in words.
    grown : mapping of str to (int, int)
        Dimensions that are longer now: their size then and now.
    other : bool
        Whether anything else in the array's description changed: dimensions, type, chunks, packing, missing values.
    written : int64, shape (n, dimensions), or None
        Index of each stored object that was written, made or removed since, among those that there were then; `None`
        where that cannot be known.
    """

    problems: tuple[Problem, ...]
    grown: Mapping[str, tuple[int, int]]
    other: bool
    written: Int64 | None

    def __bool__(self) -> bool:
        return bool(self.problems)


def check(group: Group) -> None:
    """Raise if the data, or the accumulation itself, are not as they were when the accumulation was built.

    To be called after the data of a query were read: what was written meanwhile is found too.  Of a group of another
    writer nothing can be compared but what the group was opened with.

    Parameters
    ----------
    group : Group
        The opened accumulation.

    Raises
    ------
    StaleError
        Something changed; it is named, with the command that refreshes the accumulation.
    """
    guard = _guard(group)
    if guard is not None and guard.quiet():
        return
    armed = guard is not None and guard.arm()
    if is_replaced(group):
        raise _replaced(group)
    found = changes(group)
    if found:
        raise stale(group, found.problems)
    if guard is not None and armed:
        guard.trust()


def _replaced(group: Group) -> StaleError:
    return StaleError(
        f"{group.store}: the accumulation of {group.variable!r} was built anew or removed since it was opened; "
        "open it again"
    )


def _guard(group: Group) -> Watch | None:
    """Return what watches the data and the accumulation of a group; `None` where it would not pay, for one query."""
    number, watch = _guards.get(group, (0, None))
    if watch is None:
        if number >= _SINGLE and group.extra is not None:
            watch = Watch([group.source.folder], [group.folder])
        _guards[group] = number + 1, watch
    return watch


def is_replaced(group: Group) -> bool:
    """Return whether another accumulation, or none, is in the place of the one that was opened."""
    names = ("zarr.json",) if group.source.zarr_format == 3 else (".zattrs", ".zgroup")
    return group.identity not in [read_identity(group.folder, name) for name in names]


def changes(group: Group) -> Changes:
    """Return what changed in the data since the accumulation was built.

    Parameters
    ----------
    group : Group
        The opened accumulation.
    """
    try:
        source = _current(group)
    except (SourceError, UnsupportedError, ConventionError) as error:
        return Changes((Problem("array", str(error)),), {}, True, None)
    same = source is group.source
    if group.extra is None:
        described = Differences() if same else _since_opening(group, source)
        return Changes(described.problems, described.grown, described.other, None)
    described = group.differences if same else differences(source, group.extra)
    now = stamps(source)
    if not described and digest(now) == group.extra.source.token:
        return Changes((), {}, False, np.empty((0, len(group.dims)), np.int64))
    written, named = _written(group, source, now)
    return Changes((*described.problems, *named), described.grown, described.other, written)


def _current(group: Group) -> ZarrArray:
    """Return the array as it is now; the opened one where its metadata are the same."""
    if current_signature(group.source) == group.source.signature:
        return group.source
    return open_array(group.store, group.variable)


def _since_opening(group: Group, source: ZarrArray) -> Differences:
    """Return how an array differs from what it was when the group of another writer was opened."""
    names = ("dims", "shape", "dtype", "grid")
    problems = tuple(
        Problem(name, f"{getattr(group.source, name)}, now {getattr(source, name)}")
        for name in names
        if getattr(group.source, name) != getattr(source, name)
    )
    return Differences(problems, other=bool(problems))


def _written(group: Group, source: ZarrArray, now: Int64) -> tuple[Int64 | None, list[Problem]]:
    """Return which of the objects that were there have other stamps now, and name the first of them."""
    if group.stamps is None or source.dims != group.dims:
        return None, []
    try:
        then = read_whole(group.stamps)
    except FragmentReadError as error:
        return None, [Problem("content", str(error))]
    old = _objects(group, source)
    if math.prod(old) != len(then):
        return None, [Problem("content", f"it had {len(then)} stored objects, now {len(now)}")]
    both = tuple(map(min, old, source.objects.matrix_shape))
    box = tuple(slice(n) for n in both)
    before = then.reshape(*old, 2)[box].reshape(-1, 2)
    after = now.reshape(*source.objects.matrix_shape, 2)[box].reshape(-1, 2)
    found = np.flatnonzero((before != after).any(axis=1))
    index = np.stack(np.unravel_index(found, both), axis=-1) if both else np.zeros((len(found), 0), np.int64)
    kind = "chunk" if source.objects is source.grid else "shard"
    problems = [
        Problem(f"{kind} {tuple(i.tolist())}", _sentence(before[k], after[k]))
        for i, k in zip(index[:_NAMED], found[:_NAMED], strict=True)
    ]
    if len(found) > _NAMED:
        problems.append(Problem("", f"{len(found) - _NAMED:,} more {kind}s were written"))
    if not len(found) and old == source.objects.matrix_shape:
        problems.append(Problem("content", "the stamps that the accumulation keeps contradict its token"))
    return index.astype(np.int64), problems


def _objects(group: Group, source: ZarrArray) -> tuple[int, ...]:
    """Return how many objects there were along each dimension."""
    then = group.source.grid if group.extra is None else group.extra.source.grid
    if source.objects is source.grid:
        return then.matrix_shape
    # Shards are not described by the accumulation; they were cut then as they are now.
    return tuple(
        -(-n // axis.chunk) if isinstance(axis, Regular) else min(int(np.searchsorted(axis, n)), len(axis) - 1)
        for axis, n in zip(source.objects.axes, then.shape, strict=True)
    )


def _sentence(before: Int64, after: Int64) -> str:
    """Return what happened to one object."""
    if after[0] < 0:
        return "no longer stored"
    size = f", {before[0]:,} bytes before, now {after[0]:,}" if before[0] not in (-1, after[0]) else ""
    when = datetime.fromtimestamp(int(after[1]) // 10**9, UTC)
    text = f"{when:%Y-%m-%d %H:%M:%S}.{int(after[1]) // 10**6 % 1000:03d} UTC"
    return f"{'written' if before[0] >= 0 else 'made'} at {text}{size}"
