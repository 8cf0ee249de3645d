"""The content to be written: groups of variables with their values, and of aggregations."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from cfagg.model import Aggregation
from cfagg.storage.access import Access

__all__ = ["Aggregated", "Content", "Held", "Read"]

#: Returns the stored values of one slice per dimension.
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
    private: bool = False  # only holds values of partitions


@dataclass(frozen=True)
class Aggregated:
    """An aggregation, the base of its relative references, and the functions that read its values and fragment headers.

    If `computed`, its values are in no file, and all of them are written into fragments.
    """

    aggregation: Aggregation
    home: str
    read: Read | None = None
    says: Callable[[int, str], bool] | None = None  # whether a fragment has an attribute with the aggregation's value
    dims: Callable[[int], tuple[str, ...] | None] | None = None  # of a fragment, `None` if it cannot be opened
    version: Callable[[int], int] | None = None  # of a fragment, the first that opens, 0 if none does
    computed: bool = False
    access: Access | None = None  # the policy for its references, unless they are to files that the user named
    storage: Mapping[str, Any] = field(default_factory=dict)  # of fragments that are written, in terms of netCDF4


@dataclass(frozen=True)
class Content:
    """One group of the content to be written."""

    path: str = "/"
    dimensions: Mapping[str, int] = field(default_factory=dict)
    attributes: Mapping[str, Any] = field(default_factory=dict)
    variables: Mapping[str, Held | Aggregated] = field(default_factory=dict)
    groups: tuple[Content, ...] = ()

    def walk(self) -> Iterator[Content]:
        """Yield this group and all its descendants, parents first."""
        yield self
        for group in self.groups:
            yield from group.walk()
