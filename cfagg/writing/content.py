"""What is to be written: groups of variables with their values, and of aggregations."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from cfagg.model import Aggregation

__all__ = ["Aggregated", "Content", "Held", "Read"]

#: Returns values as stored of one slice per dimension.
Read = Callable[[tuple[slice, ...]], npt.NDArray[Any]]


@dataclass(frozen=True)
class Held:
    """An ordinary variable, whose values are written into the file."""

    dims: tuple[str, ...]
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    attributes: Mapping[str, Any]
    read: Read
    compression: Mapping[str, Any] = field(default_factory=dict)
    private: bool = False  # it only holds values of partitions


@dataclass(frozen=True)
class Aggregated:
    """An aggregation, where its relative references start, and what reads its values and headers of its fragments.

    With `computed` its values stand in no file, and fragments are written of all of them.
    """

    aggregation: Aggregation
    home: str
    read: Read | None = None
    says: Callable[[int, str], bool] | None = None  # whether a fragment has an attribute, as the aggregation says it
    dims: Callable[[int], tuple[str, ...] | None] | None = None  # of a fragment, `None` where it cannot be opened
    computed: bool = False


@dataclass(frozen=True)
class Content:
    """One group of what is to be written."""

    path: str = "/"
    dimensions: Mapping[str, int] = field(default_factory=dict)
    attributes: Mapping[str, Any] = field(default_factory=dict)
    variables: Mapping[str, Held | Aggregated] = field(default_factory=dict)
    groups: tuple[Content, ...] = ()

    def walk(self) -> Iterator[Content]:
        """Yield this group and all below it, parents first."""
        yield self
        for group in self.groups:
            yield from group.walk()
