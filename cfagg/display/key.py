"""The colours of a picture: one for each file, or for each variable if all partitions are in one file."""

from __future__ import annotations

import posixpath
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from cfagg.display.drawing import DISTINCT, colours
from cfagg.display.escape import printable
from cfagg.display.sizes import count_text
from cfagg.display.text import OWN_FILE
from cfagg.model import Aggregation

__all__ = ["Key", "key_of"]

#: Number of colours in a gradient; more could not be distinguished.
_STEPS = 256


@dataclass(frozen=True)
class Key:
    """One colour per distinct file or variable; code -1 is the aggregation's own file."""

    aggregation: Aggregation
    by: str
    used: np.ndarray[Any, Any]

    @property
    def count(self) -> int:
        """Number of distinct files or variables."""
        return len(self.used)

    @property
    def count_text(self) -> str:
        """Their number with the noun."""
        if self.by == "file":
            return count_text(self.count, "file")
        return f"{count_text(self.count, 'variable')} of {count_text(1, 'file')}"

    @property
    def gradient(self) -> bool:
        """Whether there are too many for distinct colours."""
        return self.count > len(DISTINCT)

    @cached_property
    def palette(self) -> list[str]:
        """The colours: one each, or the steps of a gradient."""
        return colours(min(self.count, _STEPS))

    def samples(self, count: int) -> list[str]:
        """Return some colours from end to end of the gradient."""
        return [self.palette[i * (len(self.palette) - 1) // (count - 1)] for i in range(count)]

    def rank(self, partition: int) -> int:
        """Return the position of the file or variable of a partition among those in use."""
        return int(np.searchsorted(self.used, getattr(self.aggregation.partitions, self.by)[partition]))

    def colour(self, partition: int) -> str:
        """Return a partition's colour."""
        rank = self.rank(partition)
        return self.palette[rank if self.count <= _STEPS else rank * (_STEPS - 1) // (self.count - 1)]

    def names(self, rank: int) -> str:
        """Return the file as written, or the variable, by its position among those in use."""
        code = int(self.used[rank])
        p = self.aggregation.partitions
        if self.by == "file":
            return OWN_FILE if code < 0 else printable(p.files[code])
        return "(no variable name)" if code < 0 else printable(p.addresses[code])

    def name(self, partition: int) -> str:
        """Return the file or variable of a partition."""
        return self.names(self.rank(partition))

    def short(self, partition: int) -> str:
        """Return the file or variable of a partition without the directory."""
        name = self.name(partition)
        return posixpath.basename(name.replace("\\", "/")) or name if self.by == "file" else name


def key_of(aggregation: Aggregation) -> Key:
    """Return the colours of an aggregation: by files, or by variables if one file holds several sub-arrays."""
    p = aggregation.partitions
    files, addresses = (np.unique(codes[p.present]) for codes in (p.file, p.address))
    if len(files) <= 1 < len(addresses):
        return Key(aggregation, "address", addresses)
    return Key(aggregation, "file", files)
