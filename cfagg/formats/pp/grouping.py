"""Grouping the fields of a file into arrays by the joining rules, as columns and not as an object per field."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from cfagg.cf.joining import Axis, Members, codes, join
from cfagg.formats.pp.fields import Fields
from cfagg.formats.pp.grids import GRID_WORDS
from cfagg.formats.pp.levels import LEVEL_WORDS, level_codes
from cfagg.formats.pp.times import NONE, Times, time_codes, undated

__all__ = ["AXES", "Box", "boxes_of", "joined"]

Int64 = npt.NDArray[np.int64]

#: Axes of an array of fields, in the order of its dimensions.
AXES = ("realization", "reference", "time", "pseudo_level", "level")


#: Limits of the cache of groupings: fields of a file, files, and bytes of the keys.
_LONGEST, _MOST, _BYTES = 1 << 12, 1 << 8, 1 << 25


class Box(NamedTuple):
    """The indices of the fields of one array, with a dimension for each of `AXES`."""

    numbers: Int64

    def along(self, *axes: str) -> Int64:
        """Return the fields along some axes, at the first position of all others."""
        return self.numbers[tuple(slice(None) if name in axes else 0 for name in AXES)]

    @property
    def first(self) -> int:
        """The first field in the order of the dimensions."""
        return int(self.numbers.reshape(-1)[0])


_known: dict[tuple[bytes, ...], list[Box]] = {}


class _Remembered:
    bytes = 0


def boxes_of(fields: Fields, times: Times, extra: Int64) -> list[Box]:
    """Return the arrays of fields; `extra` numbers their extra data."""
    if len(fields) == 1:
        return [Box(np.zeros((1,) * len(AXES), np.int64))]
    if len(fields) > _LONGEST:
        return joined(fields, times, extra)
    key = _alike(fields, times, extra)
    found = _known.get(key)
    if found is None:
        found = joined(fields, times, extra)
        size = sum(map(len, key))
        _Remembered.bytes += size
        if len(_known) >= _MOST or _Remembered.bytes > _BYTES:
            _known.clear()
            _Remembered.bytes = size
        _known[key] = found
    return list(found)


def _alike(fields: Fields, times: Times, extra: Int64) -> tuple[bytes, ...]:
    """Return the key that decides the joining: the values of most words, and the order and presence of times."""
    columns = [*_signature(fields, times, extra).values(), fields["LBVC"], fields["LBLEV"]]
    columns += [fields[w] for w in (*LEVEL_WORDS, "LBRSVD4", "LBUSER5")]
    half = np.where(times.start == NONE, 0, times.time - np.where(times.start == NONE, 0, times.start))
    for one in (times.time, times.start, times.end, times.reference, times.period, times.month, half):
        columns += [codes(one), one == NONE]
    columns += undated(fields, times)
    return tuple([column.tobytes() for column in columns])


def joined(fields: Fields, times: Times, extra: Int64) -> list[Box]:
    """Return the same as `boxes_of`, by the joining rules."""
    group = codes(*_signature(fields, times, extra).values())
    known = (times.time != NONE) & (times.reference != NONE)
    # Several forecasts of the same time are separate, or form an axis.
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
    """Return boxes along single times, or for several forecasts along times or periods, whichever are fewer."""
    signature = _signature(fields, times, extra)
    level = level_codes(fields)
    realization, pseudo = fields["LBRSVD4"], fields["LBUSER5"]
    none = np.zeros(len(fields), np.int64)
    both = time_codes(fields, times)
    ways = [(none, both)]
    if forecasts:
        # Fields without reference time are not on these axes.
        signature["forecast"] = (times.reference != NONE).astype(np.int64)
        reference = codes(times.reference)
        spans = times.start != NONE
        # For months of different lengths, midpoints may be equally far from the reference times but bounds not.
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
    """Return the properties that are equal in all fields of an array."""
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
