"""Ranges of indices along one dimension that are summed, singly or by groups."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from cfagg.errors import SelectionError

__all__ = ["Runs"]

Int64 = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Runs:
    """Half-open ranges along one dimension, each of a group; what several ranges of a group hold counts as often."""

    #: The ranges, ``0 <= start <= stop``; empty ones are dropped.
    start: Int64
    stop: Int64
    #: The group of each range, in ``0..groups - 1``; a group may have no range.
    group: Int64
    groups: int = 1
    #: Whether the result keeps the dimension although there is one group only.
    keep: bool = False

    def __post_init__(self) -> None:
        start, stop, group = (np.array(column, np.int64) for column in (self.start, self.stop, self.group))
        if start.ndim != 1 or not start.shape == stop.shape == group.shape:
            raise SelectionError(f"ranges need columns of one length; found {start.shape}, {stop.shape}, {group.shape}")
        for wrong, what in ((start > stop, "ends before it starts"), (start < 0, "starts before 0")):
            if wrong.any():
                i = int(np.flatnonzero(wrong)[0])
                raise SelectionError(f"range {i} ({start[i]}:{stop[i]}) {what}")
        if self.groups < 0 or (group.size and not 0 <= group.min() <= group.max() < self.groups):
            raise SelectionError(f"groups of ranges lie in 0..{self.groups - 1}; found {np.unique(group).tolist()[:9]}")
        some = stop > start
        if not some.all():
            start, stop, group = start[some], stop[some], group[some]
        for name, column in (("start", start), ("stop", stop), ("group", group)):
            column.flags.writeable = False
            object.__setattr__(self, name, column)

    @classmethod
    def whole(cls, length: int, *, keep: bool = False) -> Runs:
        """Return the range of a whole dimension."""
        return cls(np.array([0]), np.array([length]), np.array([0]), 1, keep)

    @classmethod
    def of_slice(cls, chosen: slice, length: int, *, keep: bool = False) -> Runs:
        """Return the positions of a slice, of any step, on a dimension of `length`."""
        positions = range(length)[chosen]
        if abs(positions.step) == 1 and len(positions):
            low, high = min(positions[0], positions[-1]), max(positions[0], positions[-1])
            return cls(np.array([low]), np.array([high + 1]), np.array([0]), 1, keep)
        return cls.of_positions(np.arange(positions.start, positions.stop, positions.step), keep=keep)

    @classmethod
    def of_positions(
        cls, positions: npt.ArrayLike, codes: npt.ArrayLike | None = None, groups: int = 1, *, keep: bool = False
    ) -> Runs:
        """Return positions in any order, each perhaps with the code of its group, -1 for one that is left out."""
        at = np.asarray(positions, np.int64).reshape(-1)
        group = np.zeros(at.size, np.int64) if codes is None else np.asarray(codes, np.int64).reshape(-1)
        if group.size != at.size:
            raise SelectionError(f"{group.size} groups are given for {at.size} positions")
        at, group = at[group >= 0], group[group >= 0]
        order = np.lexsort((at, group))
        at, group = at[order], group[order]
        first = np.ones(at.size, bool)
        first[1:] = (at[1:] != at[:-1] + 1) | (group[1:] != group[:-1])
        begin = np.flatnonzero(first)
        start = at[begin]
        stop = start + np.diff(np.append(begin, at.size))
        by_start = np.lexsort((group[begin], start))
        return cls(start[by_start], stop[by_start], group[begin][by_start], groups, keep)

    @property
    def stays(self) -> bool:
        """Whether the result has this dimension, of length `groups`."""
        return self.keep or self.groups != 1

    @cached_property
    def sizes(self) -> Int64:
        """Number of positions in each group, shape (groups,); repeated ones count as often."""
        out = np.zeros(self.groups, np.int64)
        np.add.at(out, self.group, self.stop - self.start)
        return out

    @cached_property
    def end(self) -> int:
        """The first position behind all ranges; 0 where there is none."""
        return int(self.stop.max(initial=0))

    def __len__(self) -> int:
        return len(self.start)
