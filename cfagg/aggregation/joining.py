"""Which variables of many files form one array, as columns: a row is a variable of a file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from cfagg.cf.joining import (
    Boxes,
    Described,
    Members,
    Options,
    check_units,
    in_one_calendar,
    join,
    members_of,
    tied,
    turned,
    with_samples,
    without_features,
)
from cfagg.errors import ConventionError, OptionError

if TYPE_CHECKING:
    from cfagg.aggregation.scanning import Scanned

__all__ = ["Joined", "join_files"]

Int64 = npt.NDArray[np.int64]

#: What `cells` may name instead of a coordinate.
_LETTERS = frozenset("TZYX")


@dataclass(frozen=True, eq=False, slots=True)
class Joined:
    """The scanned files and the arrays they form; `file` and `described` have an entry for each member."""

    scanned: Sequence[Scanned]
    file: Int64
    described: Sequence[Described]
    members: Members
    boxes: Boxes
    options: Options

    def rows(self) -> list[Int64]:
        """Return the members of each box, in the order of the files, without those entirely replaced by others.

        Variables without elements, which join nothing, come last and so leave the names to the others.
        """
        box = self.boxes.box
        order = np.argsort(box, kind="stable")
        ends = np.cumsum(np.bincount(box, minlength=len(self.boxes)))
        dropped = self.boxes.dropped
        found = [own[~dropped[own]] for own in np.split(order, ends[:-1])] if box.size else []
        return sorted(found, key=lambda own: 0 in self.described[int(own[0])].shape)


def join_files(scanned: Sequence[Scanned], options: Options | None = None) -> Joined:
    """Return which variables of files form one array, by the rules of CF."""
    options = options or Options()
    described = turned(tied(in_one_calendar([one for file in scanned for one in file.described]), options))
    file = np.repeat(np.arange(len(scanned)), [len(one.described) for one in scanned])
    members = members_of(described, options)
    _check_axes(members, options)
    if options.cells:
        distinct = {id(one.axes): one.axes for one in described}
        check_units(options.cells, (axis for axes in distinct.values() for axis in axes.values()))

    def named(row: int) -> str:
        return f"{described[row].stated.name!r} of {scanned[file[row]].place!r}"

    for attempt in range(3):
        boxes = join(members, options, named)
        grown, placed, apart = with_samples(described, members, boxes)
        if not apart.size:
            return Joined(scanned, file, described, grown, placed, options)
        members = without_features(described, members, apart, alone=attempt > 0)
    raise ConventionError("ranges of features were joined that do not follow each other; report this")


def _check_axes(members: Members, options: Options) -> None:
    """Raise an error for an axis, or an attribute for one, that nothing has, since misspelt names would be ignored."""
    names = [axis.name for axis in members.axes]
    # A letter stands for whatever coordinates have that axis, which may be none.
    of_cells = [name for name, _ in options.cells if name not in _LETTERS]
    for option, given in (("axes", options.axes or ()), ("cells", of_cells)):
        unknown = ", ".join(repr(name) for name in given if name not in names)
        if unknown and len(members):
            there = ", ".join(map(repr, names)) or "none"
            raise OptionError(f"{option}={unknown}: no file has such an axis; those there are: {there}")
    absent = [name for name in options.dimension if name not in names]
    if absent and len(members):
        raise OptionError(f"dimension={', '.join(map(repr, absent))}: no variable and no file has such an attribute")
