"""The displayed content of a file or an aggregation as plain data, from which text, JSON and HTML are made.

A summary is small for any size of the aggregation: a million partitions become a `Listing` of the first and last few
with a count.  The names of the fields are also the documented JSON form, see `cfagg.display.as_json`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

__all__ = [
    "ROWS", "AggregationSummary", "AxisSummary", "DimensionSummary", "FileSummary", "GroupSummary", "LayoutSummary",
    "Listing", "PartitionSummary", "ReferenceSummary", "UnreadableSummary", "VariableSummary",
]  # fmt: skip

#: Maximum number of lines of one kind that are shown; of more, the first and the last.
ROWS = 12


@dataclass(frozen=True)
class Listing[T]:
    """A list of `count` members without its middle; `last` is empty if `first` contains all."""

    count: int
    first: tuple[T, ...]
    last: tuple[T, ...] = ()

    @property
    def omitted(self) -> int:
        """Number of members left out between `first` and `last`."""
        return self.count - len(self.first) - len(self.last)

    @classmethod
    def of(cls, count: int, member: Callable[[int], T], rows: int | None) -> Listing[T]:
        """Return the listing of ``member(0) … member(count - 1)`` with at most `rows` members, or all for `None`."""
        if rows is None or count <= rows:
            return cls(count, tuple(member(i) for i in range(count)))
        tail = rows // 3
        return cls(
            count, tuple(member(i) for i in range(rows - tail)), tuple(member(i) for i in range(count - tail, count))
        )


@dataclass(frozen=True)
class DimensionSummary:
    """One dimension of a group."""

    name: str
    size: int
    unlimited: bool


@dataclass(frozen=True)
class AxisSummary:
    """The partitions along one dimension: `sizes` are runs (size, number of consecutive partitions of that size)."""

    dimension: str
    size: int
    partitions: int
    increasing: bool
    sizes: Listing[tuple[int, int]]


@dataclass(frozen=True)
class LayoutSummary:
    """One distinct layout of sub-arrays and its frequency; `None` means "as in the master array or the file"."""

    dimensions: tuple[str, ...]
    reversed: tuple[str, ...]
    units: str | None
    calendar: str | None
    dtype: str | None
    fill: float | int | None
    scale_factor: float | None
    add_offset: float | None
    packing: int | None
    format: str | None
    shape: tuple[int, ...] | None
    partitions: int
    endian: str | None = None


@dataclass(frozen=True)
class ReferenceSummary:
    """One distinct file, as written; `None` is the aggregation's own.

    `access` is ``"inside"`` if the access policy permits reading it, ``"needs allow"`` if `allow` must be given,
    ``"refused"`` if it is never permitted and ``"not readable"`` for an unsupported format (both with a `reason`), and
    `None` for an aggregation in memory, which belongs to no file.
    """

    file: str | None
    partitions: int
    access: str | None
    allow: str | None = None
    reason: str | None = None


@dataclass(frozen=True)
class PartitionSummary:
    """One partition: half-open ranges of the master array, the number of its layout, a `value` if it has no file."""

    index: tuple[int, ...]
    location: tuple[tuple[int, int], ...]
    file: str | None
    address: str | None
    offset: int | None
    part: str | None
    layout: int
    missing: bool
    value: Any = None


@dataclass(frozen=True)
class AggregationSummary:
    """The partition matrix of one variable, the layouts of its sub-arrays and the files it refers to."""

    partition_count: int
    missing_count: int
    matrix_shape: tuple[int, ...]
    axes: tuple[AxisSummary, ...]
    partitions: Listing[PartitionSummary]
    layouts: Listing[LayoutSummary]
    references: Listing[ReferenceSummary]
    dialect: str = ""


@dataclass(frozen=True)
class VariableSummary:
    """One variable; `aggregation` is `None` for an ordinary one."""

    name: str
    dimensions: tuple[str, ...]
    shape: tuple[int, ...]
    dtype: str
    attributes: dict[str, Any]
    aggregation: AggregationSummary | None = None


@dataclass(frozen=True)
class UnreadableSummary:
    """One variable that is an aggregation, or looks like one, but cannot be read, with all problems."""

    name: str
    reason: str
    problems: tuple[str, ...]


@dataclass(frozen=True)
class GroupSummary:
    """One group; `private` names the variables that only contain values of partitions."""

    path: str
    attributes: dict[str, Any]
    dimensions: tuple[DimensionSummary, ...]
    variables: tuple[VariableSummary, ...]
    private: tuple[str, ...]
    unreadable: tuple[UnreadableSummary, ...] = ()


@dataclass(frozen=True)
class FileSummary:
    """One file with all its groups, the root first."""

    path: str
    format: str
    groups: tuple[GroupSummary, ...]
