"""Which fields of a file are one array, by the joining rules: columns of all fields, no object for each."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from cfagg.cf.joining import Axis, Members, codes, join
from cfagg.formats.pp.fields import Fields
from cfagg.formats.pp.grids import GRID_WORDS
from cfagg.formats.pp.levels import level_codes
from cfagg.formats.pp.times import NONE, Times, time_codes

__all__ = ["AXES", "Box", "boxes_of"]

Int64 = npt.NDArray[np.int64]

#: Axes of an array of fields, in the order of its dimensions.
AXES = ("realization", "reference", "time", "pseudo_level", "level")


class Box(NamedTuple):
    """The numbers of the fields of one array, with a dimension for each of `AXES`."""

    numbers: Int64

    def along(self, *axes: str) -> Int64:
        """Return the fields along some axes, at the beginning of all others."""
        return self.numbers[tuple(slice(None) if name in axes else 0 for name in AXES)]

    @property
    def first(self) -> int:
        """The first field in the order of the dimensions."""
        return int(self.numbers.reshape(-1)[0])


def boxes_of(fields: Fields, times: Times, extra: Int64) -> list[Box]:
    """Return the arrays that fields are of; `extra` numbers the extra data that they have."""
    group = codes(*_signature(fields, times, extra).values())
    known = (times.time != NONE) & (times.reference != NONE)
    # The same time in several forecasts: these are apart, or an axis of their own.
    when, pair = codes(group, times.time), codes(group, times.time, times.reference)
    forecasts = np.zeros(int(when.max(initial=-1)) + 1, np.int64)
    np.add.at(forecasts, when[np.unique(pair, return_index=True)[1]], 1)
    several = np.zeros(int(group.max(initial=-1)) + 1, bool)
    several[group[known & (forecasts[when] > 1)]] = True
    out: list[Box] = []
    chosen = several[group]
    for own in (np.flatnonzero(~chosen), np.flatnonzero(chosen)):
        if own.size:
            out += _best(fields.take(own), times.take(own), extra[own], own, forecasts=bool(chosen[own[0]]))
    return sorted(out, key=lambda box: int(box.numbers.min()))


def _best(fields: Fields, times: Times, extra: Int64, own: Int64, *, forecasts: bool) -> list[Box]:
    """Return boxes along single times; of several forecasts along their times, or their periods: which are fewer."""
    signature = _signature(fields, times, extra)
    level = level_codes(fields)
    realization, pseudo = fields["LBRSVD4"], fields["LBUSER5"]
    none = np.zeros(len(fields), np.int64)
    both = time_codes(fields, times)
    ways = [(none, both)]
    if forecasts:
        # What has no reference time stands along no axis of these.
        signature["forecast"] = (times.reference != NONE).astype(np.int64)
        reference = codes(times.reference)
        spans = times.start != NONE
        # Of months of other lengths the middles may be as far from the reference times, and the bounds not.
        half = np.where(spans, times.time - np.where(spans, times.start, 0), 0)
        ways = [(reference, codes(times.time, times.end, times.start)), (reference, codes(times.period, half))]
    made = []
    for reference, time in ways:
        columns = (realization, reference, time, pseudo, level)
        axes = [Axis.of_points(name, codes(c), codes(c)) for name, c in zip(AXES, columns, strict=True)]
        made.append(join(Members(signature, axes)))
    found = min(made, key=len)
    order = np.argsort(found.box, kind="stable")
    ends = np.cumsum(np.bincount(found.box))
    boxes = []
    for number, part in enumerate(np.split(order, ends[:-1])):
        index = np.empty(tuple(found.shape[number]), np.int64)
        index[tuple(found.position[part].T)] = own[part]
        boxes.append(Box(index))
    return boxes


def _signature(fields: Fields, times: Times, extra: Int64) -> dict[str, Int64 | npt.NDArray[np.float64]]:
    """Return what is equal in all fields of an array."""
    words = ("LBUSER7", "LBUSER4", "LBPROC", "LBTIM", "LBVC", "LBSRCE", "LBEXP", *GRID_WORDS)
    return {
        **{word: fields[word] for word in words},
        "LBFC": np.where(fields["LBUSER4"] > 0, 0, fields["LBFC"]),
        "type": np.where(np.isin(np.abs(fields["LBUSER1"]), (2, 3)), np.abs(fields["LBUSER1"]), 1),
        "left out": fields["LBPACK"] // 10 % 100,
        "extra data": extra,
        "period": times.cell,
        "length": np.where((fields["LBROW"] > 0) & (fields["LBNPT"] > 0), 0, fields["LBLREC"]),
    }
