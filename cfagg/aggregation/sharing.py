"""Dimensions without coordinates that are, in the same files, those of arrays that have coordinates along them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from hashlib import blake2b

import numpy as np
import numpy.typing as npt

from cfagg.aggregation.joining import Joined
from cfagg.cf.joining import Described

__all__ = ["Along", "Partners"]

Int64 = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False, slots=True)
class Along:
    """An axis of an array along which each of its files has all places, in the order of the array."""

    rows: Int64
    identity: str
    #: The name of its dimension in all files, whose numbers are sorted.
    name: str
    files: Int64
    size: int
    #: Whether there are no coordinates, only a count.
    counted: bool


class Partners:
    """Finds the arrays that have coordinates along the dimensions of others."""

    def __init__(self, joined: Joined) -> None:
        self._joined = joined
        #: The members of each box; made when they are first needed.
        self._members: dict[int, Int64] = {}
        self._axes: dict[int, list[Along]] = {}
        self._files: dict[int, dict[str, list[Along]]] = {}
        self._found: dict[tuple[bytes, str], list[Along]] = {}

    def of(self, rows: Int64, name: str) -> list[Along]:
        """Return the axes of arrays that have this dimension in all files of some members."""
        files = np.unique(self._joined.file[rows]) if rows.size > 1 else self._joined.file[rows]
        key = blake2b(files.tobytes(), digest_size=16).digest(), name
        if key not in self._found:
            beside = self._beside(int(files[0])).get(name, ())
            self._found[key] = [one for one in beside if np.isin(files, one.files, assume_unique=True).all()]
        return self._found[key]

    def _beside(self, file: int) -> dict[str, list[Along]]:
        """Return the axes of all arrays of a file, by the names of their dimensions."""
        if file not in self._files:
            if not self._members:
                self._members = {int(self._joined.boxes.box[own[0]]): own for own in self._joined.rows() if own.size}
            found: dict[str, list[Along]] = {}
            # Members are in the order of their files.
            own = slice(*np.searchsorted(self._joined.file, [file, file + 1]))
            for box in dict.fromkeys(self._joined.boxes.box[own].tolist()):
                if box in self._members and box not in self._axes:
                    self._axes[box] = list(self._whole(self._members[box]))
                for one in self._axes.get(box, ()):
                    found.setdefault(one.name, []).append(one)
            self._files[file] = found
        return self._files[file]

    def _whole(self, rows: Int64) -> Iterator[Along]:
        """Yield the axes with coordinates along which every file of a box has all, in the order of the box."""
        boxes, files = self._joined.boxes, np.unique(self._joined.file[rows])
        described = [self._joined.described[row] for row in rows.tolist()]
        named = _names(described)
        box = int(boxes.box[rows[0]])
        for k, axis in enumerate(self._joined.members.axes):
            names = named.get(axis.name, set())
            parts = boxes.start[rows, k].any() or (boxes.count[rows, k] != boxes.extent[box, k]).any()
            if len(names) != 1 or parts or boxes.flipped[rows, k].any():
                continue
            if not any((row, k) in of for of in (boxes.scattered, boxes.trimmed) if of for row in rows.tolist()):
                yield Along(rows, axis.name, names.pop(), files, int(boxes.extent[box, k]), axis.counted)


def _names(described: Sequence[Described]) -> dict[str, set[str]]:
    """Return the names of the dimensions of each axis."""
    found: dict[str, set[str]] = {}
    for along in {tuple(d.along.items()) for d in described}:
        for name, identity in along:
            found.setdefault(identity, set()).add(name)
    return found
