"""Coordinates and sources of weights of a group that grows in place: which of their objects are new."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from cfagg.accumulation.description import Neighbour, differences_of
from cfagg.accumulation.group import Group
from cfagg.accumulation.growing import NotInPlaceError, Rows, keys, split
from cfagg.accumulation.growth_tables import follows, own_row_counts
from cfagg.accumulation.source import settled, write_back
from cfagg.conventions.accumulation_record import Related as Record
from cfagg.errors import StaleError
from cfagg.formats.zarr import ZarrArray, compare, object_checksum, stamps
from cfagg.formats.zarr.stamps import unsure

__all__ = ["Related", "related_rows", "still"]

Int64 = npt.NDArray[np.int64]

#: Parts of a description that change when an array gets longer.
_LENGTH = ("shape", "chunk_grid", "chunks")


@dataclass(frozen=True, eq=False)
class Related:
    """A related array of a group that is extended."""

    neighbour: Neighbour
    #: Whether it gets longer with the dimension that grows.
    longer: bool
    #: Its objects that are new, or may have been written again: numbers, and their stamps now.
    numbers: Int64
    stamps: Int64

    def unchanged(self, source: ZarrArray) -> None:
        """Raise an error if it was written since its stamps were taken."""
        array, now = self.neighbour.array, self.neighbour.current(source)
        which = slice(None) if array is None else unsure(array, self.numbers)
        if now is not self.neighbour or (
            array is not None and compare(self.stamps[which], stamps(array, self.numbers[which]))
        ):
            path = self.neighbour.path
            raise StaleError(f"{source.store}: {path!r} was written to while the array was accumulated; run again")


def still(group: Group) -> tuple[Related, ...]:
    """Return the related arrays of a group, or raise `NotInPlaceError` if they did more than get longer."""
    extra, table = group.extra, group.table
    if extra is None or extra.growth is None or table is None:
        raise NotInPlaceError("it does not grow in place")
    which, numbers = split(table.moving[:, 0])
    out = []
    for i, (then, neighbour) in enumerate(zip(extra.related, group.neighbours, strict=True), 1):
        known = table.moving[which == i]
        array, own = neighbour.array, numbers[which == i]
        if array is None or not follows(neighbour, extra.growth.dim):
            if differences_of(neighbour, then) or len(own) != then.objects:
                raise NotInPlaceError(f"{then.path!r} has changed")
            found = np.empty((0, 4), np.int64) if array is None else settled(array, own)
            if compare(known[:, 1:5], found):
                raise NotInPlaceError(f"{then.path!r} has been written")
            out.append(Related(neighbour, longer=False, numbers=own, stamps=found))
            continue
        if then.use == "weights" or _has_changed(array, neighbour.record.description, then):
            raise NotInPlaceError(f"{then.path!r} has changed by more than its length")
        first = int(own.min()) if len(own) else then.objects
        new = np.arange(first, array.objects.size)
        out.append(Related(neighbour, longer=True, numbers=new, stamps=settled(array, new)))
    return tuple(out)


def _has_changed(array: ZarrArray, now: Mapping[str, Any], then: Record) -> bool:
    """Whether the description of an array has changed, apart from its length."""
    old, new = ({k: v for k, v in each.items() if k not in _LENGTH} for each in (then.description, now))
    shape = json.loads(then.description.get("shape", "[]"))
    return old != new or shape[1:] != list(array.shape[1:]) or not shape or shape[0] > array.shape[0]


def related_rows(related: Related, which: int, known: Int64) -> Rows:
    """Return the rows of the objects of related array number `which`; `known` are its earlier rows."""
    array, numbers = related.neighbour.array, related.numbers
    if array is None or not len(numbers):
        return Rows(np.empty((0, 6), np.int64), np.empty((0, 6), np.int64))
    before = {tuple(row[1:5]): row[5] for row in known.tolist()}
    write_back(array, numbers)
    shape, sums = array.objects.matrix_shape, []
    for number, stamp in zip(numbers.tolist(), related.stamps.tolist(), strict=True):
        crc = before.get(tuple(stamp))
        if crc is None:
            held = [int(i) for i in np.unravel_index(number, shape)] if shape else []
            found = object_checksum(array, held)
            crc = 0 if found is None else found[1]
        sums.append(crc)
    rows = np.column_stack([keys(which, numbers), related.stamps, np.array(sums, np.int64)])
    stand = max(own_row_counts(array, 0)[0] - int(numbers[0]), 0) if related.longer else 0
    return Rows(rows[:stand], rows[stand:])
