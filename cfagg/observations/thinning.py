"""Thinning: a part of the rows of each sample, the same whenever and wherever the sample is read."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from cfagg.errors import OptionError

__all__ = ["Thinning", "parse_thinning"]

type Floats = np.ndarray[Any, np.dtype[np.float32]]

_METHODS = ("every", "random", "grid")


@dataclass(frozen=True, slots=True)
class Thinning:
    """A part of the rows of each sample, the same whenever and wherever the sample is read."""

    method: Literal["every", "random", "grid"]
    #: n of every n-th row; the chance of a row, above 0 and at most 1; or the width of a cell in degrees.
    amount: float
    seed: int = 0

    def __post_init__(self) -> None:
        good = {
            "every": self.amount >= 1 and self.amount == int(self.amount),
            "random": 0 < self.amount <= 1,
            "grid": 0.001 <= self.amount <= 180,
        }
        if not good[self.method]:
            must = {"every": "a whole number from 1", "random": "above 0 and at most 1", "grid": "from 0.001 to 180"}
            raise OptionError(f"thin={{{self.method!r}: {self.amount}}}: the amount must be {must[self.method]}")

    @property
    def option(self) -> dict[str, float]:
        """What ``thin=`` takes for this thinning."""
        return {self.method: self.amount, **({"seed": self.seed} if self.method == "random" else {})}

    def keep(self, date: int, rows: np.ndarray[Any, np.dtype[np.int64]], lats: Floats, lons: Floats) -> Any:
        """Return which rows of a sample to keep, in order: a slice, a mask or numbers."""
        if self.method == "every":
            return slice(None, None, int(self.amount))
        if self.method == "random":
            return _random(rows, date, self.seed) < self.amount
        down = np.floor((lats.astype(np.float64) + 90) / self.amount)
        along = np.floor(lons.astype(np.float64) / self.amount)
        # At most 360,000 cells along a parallel; rows without a place share one cell.
        cells = np.where(np.isnan(down + along), -1, down * 1e6 + along)
        return np.sort(np.unique(cells, return_index=True)[1])


def _random(rows: np.ndarray[Any, np.dtype[np.int64]], date: int, seed: int) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Return a number from 0 up to 1 for each row of a sample."""
    # A counter is mixed (SplitMix64, Steele et al. 2014) rather than a generator drawn from: the numbers do not depend
    # on the version of NumPy, on an area, or on the order in which samples are read.
    mixed: Any = _mix(np.uint64(seed & (2**64 - 1)) ^ _mix(np.array([date], np.int64).view(np.uint64)))
    return np.asarray((_mix(rows.view(np.uint64) ^ mixed) >> np.uint64(11)) * 2.0**-53)


def _mix(x: Any) -> Any:
    with np.errstate(over="ignore"):
        x = x + np.uint64(0x9E3779B97F4A7C15)
        x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return x ^ (x >> np.uint64(31))


def parse_thinning(value: Any) -> Thinning | None:
    """Return the thinning that ``thin=`` asks for: every n-th row, each with a chance, or one in each cell."""
    if value is None or isinstance(value, Thinning):
        return value
    wrong = OptionError(
        f'thin={value!r} must be a whole number n (every n-th row), a fraction below 1, or {{"every": n}}, '
        '{"random": fraction, "seed": number} or {"grid": degrees}'
    )
    if isinstance(value, Mapping):
        methods = [m for m in _METHODS if m in value]
        seed = value.get("seed", 0)
        allowed = {*methods, *(["seed"] if methods == ["random"] else [])}
        if len(methods) != 1 or set(value) - allowed or not isinstance(seed, (int, np.integer)):
            raise wrong
        amount: Any = value[methods[0]]
        method = methods[0]
    else:
        amount, seed = value, 0
        method = "random" if isinstance(value, (float, np.floating)) and value <= 1 else "every"
    if isinstance(amount, bool) or not isinstance(amount, (int, float, np.integer, np.floating)):
        raise wrong
    if not math.isfinite(amount):
        raise wrong
    return Thinning(method, float(amount), int(seed))  # type: ignore[arg-type]
