"""How the rows of a store are spread over time and over the Earth."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from cfagg.display.coverage import TimeCoverage

if TYPE_CHECKING:
    from cfagg.observations.indexes.protocol import Index
    from cfagg.observations.store import ObservationStore

__all__ = ["DEGREES", "map_coverage", "time_coverage"]

type Int64 = npt.NDArray[np.int64]

#: Height and width of a cell of the map.
DEGREES = 0.25

_DAY = 86400
#: Lengths of bins of time in seconds; longer ones are 1, 2 or 5 times a power of ten of days.
_STEPS = (1, 10, 60, 600, 3600, 3 * 3600, 6 * 3600, 12 * 3600, _DAY, 2 * _DAY, 5 * _DAY)
#: Most rows that a map is counted from; of larger stores in so many places.
_MOST_ROWS, _PLACES = 2**22, 256


def time_coverage(index: Index, bins: int = 200) -> TimeCoverage:
    """Return how many rows there are at which time, in so many bins of a round length at most; no row is read."""
    if index.first is None or index.last is None:
        empty = np.empty(0, np.int64)
        return TimeCoverage(_DAY, empty, empty)
    bins = max(bins, 2)  # one would not do where 1970 lies within
    step = _round_step((index.last - index.first + 1) / bins)
    while index.last // step - index.first // step >= bins:
        step = _round_step(step + 1)
    starts = np.arange(index.first // step, index.last // step + 1, dtype=np.int64) * step
    ranges = np.asarray(index.find_many(starts, starts + step))
    return TimeCoverage(step, starts, ranges[:, 1] - ranges[:, 0])


def _round_step(least: float) -> int:
    """Return the shortest round length that is not below a number of seconds."""
    for step in _STEPS:
        if step >= least:
            return step
    power = 10
    while True:
        for factor in (1, 2, 5):
            if factor * power * _DAY >= least:
                return factor * power * _DAY
        power *= 10


def map_coverage(store: ObservationStore, start: int = 0, stop: int | None = None) -> tuple[Int64, int]:
    """Return rows in cells of a quarter of a degree, (720, 1440) from 90°S and 0°E, and how many rows were read."""
    stop = store.rows if stop is None else stop
    shape = round(180 / DEGREES), round(360 / DEGREES)
    counts = np.zeros(shape[0] * shape[1], np.int64)
    looked_at = 0
    for a, b in _ranges(start, stop):
        places = store.data.read(a, b, slice(2, 4))
        counts += np.bincount(_cells(places, shape), minlength=counts.size + 1)[:-1]
        looked_at += b - a
    return counts.reshape(shape), looked_at


def _ranges(start: int, stop: int) -> list[tuple[int, int]]:
    if stop - start <= _MOST_ROWS:
        size = 2**18
        return [(a, min(a + size, stop)) for a in range(start, stop, size)]
    size = _MOST_ROWS // _PLACES
    starts = np.linspace(start, stop - size, _PLACES).astype(np.int64).tolist()
    return [(a, a + size) for a in starts]


def _cells(places: npt.NDArray[np.float32], shape: tuple[int, int]) -> npt.NDArray[Any]:
    """Return the cell of each place, one beyond all where there is none."""
    latitude, longitude = np.asarray(places, np.float64).T
    with np.errstate(invalid="ignore"):
        known = (np.abs(latitude) <= 90) & (np.abs(longitude) <= 360)
        row = np.minimum((np.where(known, latitude, 0) + 90) // DEGREES, shape[0] - 1)
        column = np.minimum(np.where(known, longitude, 0) % 360 // DEGREES, shape[1] - 1)
    return np.where(known, row * shape[1] + column, shape[0] * shape[1]).astype(np.int64)
