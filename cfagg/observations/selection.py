"""Selections from a store: dates and windows of samples, and variables, an area and a part of their rows."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from cfagg.errors import OptionError, Problem
from cfagg.errors.arguments import closest, is_one, shown, some
from cfagg.observations.dates import SampleDates, Window, first_second, last_second, parse_frequency
from cfagg.observations.frames import wrap_longitudes

__all__ = [
    "DELTATIME", "Area", "Columns", "Plan", "in_box", "mixed", "parse_area", "parse_thinning", "rows_and_columns",
]  # fmt: skip

type Floats = np.ndarray[Any, np.dtype[np.float32]]
type Mask = np.ndarray[Any, np.dtype[np.bool_]]


# ---- variables -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Columns:
    """A selection of the variables of a store, possibly reordered and renamed."""

    #: Names for the user, and in the store, in the same order.
    names: tuple[str, ...]
    stored: tuple[str, ...]

    @classmethod
    def all_of(cls, variables: Sequence[str]) -> Columns:
        """Return all variables of a store, unchanged."""
        return cls(tuple(variables), tuple(variables))

    def choose(self, select: Any = None, drop: Any = None, reorder: Any = None, rename: Any = None) -> Columns:
        """Return some of these columns; `select` first, then `drop`, `reorder` and `rename`."""
        names = list(self.names)
        if select is not None:
            wanted = _names("select", select, names)
            names = [n for n in names if n in set(wanted)] if isinstance(select, (set, frozenset)) else wanted
        if drop is not None:
            gone = set(_names("drop", drop, names))
            names = [n for n in names if n not in gone]
        if reorder is not None:
            names = _reordered(reorder, names)
        if self.names and not names:
            raise OptionError("no variable is left: select= and drop= leave out all of them")
        stored = dict(zip(self.names, self.stored, strict=True))
        new: dict[str, Any] = dict(zip(names, names, strict=True))
        if rename is not None:
            if not isinstance(rename, Mapping):
                raise OptionError(f"rename={rename!r} must be a mapping of present names to new names")
            _names("rename", list(rename), names)
            new.update(rename)
        if wrong := [n for n in new.values() if not (isinstance(n, str) and n)]:
            raise OptionError(f"rename= gives {wrong[0]!r} as a name; names are text")
        if repeated := sorted({n for n in new.values() if list(new.values()).count(n) > 1}):
            raise OptionError(f"rename= gives several variables the name {', '.join(map(repr, repeated))}")
        return Columns(tuple(new[n] for n in names), tuple(stored[n] for n in names))

    def positions(self, variables: Sequence[str]) -> np.ndarray[Any, np.dtype[np.int64]]:
        """Return the positions of these columns among the variables of the store, int64 (columns,)."""
        places = {name: i for i, name in enumerate(variables)}
        return np.array([places[name] for name in self.stored], np.int64)


def _names(option: str, value: Any, known: Sequence[str]) -> list[str]:
    """Return the names given for an option, which must all be known and unique."""
    if isinstance(value, str):
        names: list[Any] = [value]
    elif isinstance(value, Iterable) and not isinstance(value, Mapping) and getattr(value, "shape", None) != ():
        names = list(value)
    else:
        raise OptionError(f"{option}={value!r} must be the name of a variable or a sequence of names")
    problems = []
    for name in dict.fromkeys(map(str, names)):
        if name not in known:
            problems.append(Problem(option, f"there is no variable {name!r}{closest(name, known)}"))
        elif names.count(name) > 1:
            problems.append(Problem(option, f"{name!r} is named {names.count(name)} times"))
    if problems:
        raise OptionError(f"{option}= does not fit the variables {some(known)}", problems)
    return names


def _reordered(order: Any, names: list[str]) -> list[str]:
    if isinstance(order, str) and order == "sort":
        return sorted(names)
    if isinstance(order, Mapping):
        if any(not isinstance(n, Integral) for n in order.values()) or sorted(order.values()) != list(
            range(len(order))
        ):
            raise OptionError(f"reorder= must list the positions 0 to {len(order) - 1}, each once")
        order = sorted(order, key=order.__getitem__)
    new = _names("reorder", order, names)
    if missing := [n for n in names if n not in new]:
        raise OptionError(f"reorder= leaves out {', '.join(missing)}: it must name all variables; see select=")
    return new


# ---- area ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Area:
    """Latitudes and longitudes between bounds in degrees, all of which belong to the area."""

    # From `west` eastwards to `east`, across 0° or 180° if necessary; 360° or more, also from 180 to -180, is the whole
    # globe.

    north: float
    west: float
    south: float
    east: float

    def __post_init__(self) -> None:
        bounds = (self.north, self.west, self.south, self.east)
        if not all(math.isfinite(b) for b in bounds):
            raise OptionError(f"area={bounds} must be four finite numbers")
        if not -90 <= self.south <= self.north <= 90:
            why = f"from {self.south} to {self.north} is not a range of latitudes"
            raise OptionError(f"area={bounds} is (north, west, south, east): {why}")
        low, high = sorted((self.west, self.east))
        # A whole turn is the same in any convention, such as from -0.5 to 359.5.
        if low < 0 and high > 180 and self.east - self.west < 360:
            raise OptionError(
                f"area={bounds} is (north, west, south, east) with longitudes of two conventions, of which one has "
                f"{low:g} and the other {high:g}; write both from -180 to 180, or both from 0 to 360"
            )
        if self.east < self.west and self.west - self.east > 360:
            raise OptionError(f"area={bounds} is (north, west, south, east): more than 360° from west to east")

    def mask(self, latitudes: Floats, longitudes: Floats) -> Mask:
        """Return which places are in the area; rows without a place are not."""
        return in_box(self.north, self.west, self.south, self.east, latitudes, longitudes)


def in_box(
    north: float, west: float, south: float, east: float, latitudes: NDArray[Any], longitudes: NDArray[Any]
) -> Mask:
    """Return which places are in a box from `west` eastwards to `east`; see `Area`."""
    # Places are stored in single precision with longitudes from 0 to 360, and the bounds are rounded likewise, so that
    # an observation on a bound is inside.
    latitudes, longitudes = latitudes.astype(np.float32, copy=False), wrap_longitudes(longitudes)
    inside: Mask = (latitudes >= np.float32(south)) & (latitudes <= np.float32(north))
    left, right = wrap_longitudes(np.array([west, east], np.float64))
    if east - west >= 360 or west - east == 360 or (left == right and (east - west) % 360 > 180):
        return inside & ~np.isnan(longitudes)
    after, before = longitudes >= left, longitudes <= right
    inside &= (after | before) if left > right else (after & before)
    return inside


def parse_area(value: Any) -> Area | None:
    """Return the area given by ``area=``: (north, west, south, east), a mapping with these names, or None."""
    if value is None or isinstance(value, Area):
        return value
    try:
        if isinstance(value, Mapping):
            return Area(**{str(k): float(v) for k, v in value.items()})
        north, west, south, east = (float(v) for v in value)
    except (TypeError, ValueError) as error:
        if isinstance(error, OptionError):
            raise
        raise OptionError(f"area={value!r} must be four numbers: (north, west, south, east) in degrees") from None
    return Area(north, west, south, east)


_METHODS = ("every", "random", "grid")


@dataclass(frozen=True, slots=True)
class Thinning:
    """A part of the rows of each sample, the same in every read."""

    method: Literal["every", "random", "grid"]
    #: The n of every n-th row; the probability of a row, above 0 and at most 1; or the width of a cell in degrees.
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
            raise OptionError(f"thin={self.amount:g} ({self.method}): the amount must be {must[self.method]}")

    @property
    def option(self) -> dict[str, float]:
        """The value of ``thin=`` for this thinning."""
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
    """Return a number in [0, 1) for each row of a sample."""
    # A counter is mixed (SplitMix64, Steele et al. 2014) instead of drawing from a generator, so that the numbers do
    # not depend on the version of NumPy, on an area, or on the order in which samples are read.
    state: Any = mixed(np.uint64(seed & (2**64 - 1)) ^ mixed(np.array([date], np.int64).view(np.uint64)))
    return np.asarray((mixed(rows.view(np.uint64) ^ state) >> np.uint64(11)) * 2.0**-53)


def mixed(x: Any) -> Any:
    """Return 64 bits, each of which depends on all bits of a number (the finaliser of SplitMix64)."""
    with np.errstate(over="ignore"):
        x = x + np.uint64(0x9E3779B97F4A7C15)
        x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return x ^ (x >> np.uint64(31))


def parse_thinning(value: Any) -> Thinning | None:
    """Return the thinning given by ``thin=``: every n-th row, each row with a probability, or one in each cell."""
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


#: The columns that precede the variables in samples of the kind "deltatime".
DELTATIME = ("deltatime", "latitude", "longitude")

#: The values of ``sample=``.
KINDS = ("data", "deltatime")

#: Seconds up to which single precision is exact; more do not fit into a column "deltatime".
_EXACT = 2**24


@dataclass(frozen=True, slots=True)
class Plan:
    """The samples of a store, and the parts of their rows that are returned."""

    dates: SampleDates
    window: Window
    columns: Columns
    area: Area | None = None
    thin: Thinning | None = None
    #: ``data``, or ``deltatime`` with seconds from the sample's date, latitude and longitude before the variables.
    kind: str = "data"
    #: Statistics other than those of the store, by the names of its variables.
    statistics: Mapping[str, Mapping[str, float]] | None = None

    def __post_init__(self) -> None:
        if not is_one(self.kind, KINDS):
            raise OptionError(f"sample={shown(self.kind)} is not a kind of sample: it must be {' or '.join(KINDS)}")
        if self.kind != "deltatime":
            return
        if taken := sorted(set(DELTATIME) & set(self.columns.names)):
            raise OptionError(
                f"sample='deltatime' has columns of its own named {', '.join(taken)}: rename these variables (rename=)"
            )
        lo, hi = self.window.offsets
        if max(abs(lo), abs(hi - 1)) > _EXACT:
            raise OptionError(
                f"the window {self.window} reaches more than 2**24 seconds (194 days) from the sample's date: a column "
                "'deltatime' of float32 cannot hold that exactly; use sample='data' and ds.details(i).timedeltas"
            )

    def changed(self, changes: dict[str, Any]) -> Plan:
        """Return a plan with some parts replaced; see `Observations.subset`."""
        given = {k: v for k, v in changes.items() if v is not None}
        now = self.dates
        dates = SampleDates(
            first_second(given["start"]) if "start" in given else now.start,
            last_second(given["end"]) if "end" in given else now.end,
            parse_frequency(given["frequency"]) if "frequency" in given else now.frequency,
        )
        names = {k: given.get(k) for k in ("select", "drop", "reorder", "rename")}
        return Plan(
            dates,
            Window.of(given["window"]) if "window" in given else self.window,
            self.columns.choose(**names),
            parse_area(given["area"]) if "area" in given else self.area,
            parse_thinning(given["thin"]) if "thin" in given else self.thin,
            given.get("sample", self.kind),
            self.statistics,
        )


def rows_and_columns(key: Any, ndim: int) -> tuple[Any, Any] | None:
    """Return the rows and columns that a key selects, or None if the result does not consist of rows."""
    # NumPy takes a tuple within a key for a list.
    parts = [list(p) if isinstance(p, tuple) else p for p in (key if isinstance(key, tuple) else (key,))]
    if any(part is None for part in parts):
        return None
    at = next((i for i, p in enumerate(parts) if p is Ellipsis), None)
    if at is not None:
        if any(_dimensions(p) != 1 for p in parts[:at] + parts[at + 1 :]):
            return None
        parts[at : at + 1] = [slice(None)] * (ndim - len(parts) + 1)
    rows, *others = parts or [slice(None)]
    if _dimensions(rows) != 1 or _is_number(rows) or len(others) > 1:
        return None
    if not others:
        return rows, None
    columns = others[0]
    if _dimensions(columns) != 1 or (
        not isinstance(rows, slice) and not isinstance(columns, slice) and not _is_number(columns)
    ):
        # Two arrays of numbers select pairs.
        return None
    return rows, columns


def _is_number(part: Any) -> bool:
    return not isinstance(part, slice) and np.ndim(part) == 0


def _dimensions(part: Any) -> int:
    """Return the number of dimensions of an array that a part of a key covers."""
    if isinstance(part, slice):
        return 1
    array = np.asarray(part)
    if array.dtype == bool:
        return array.ndim
    return 1 if array.ndim <= 1 else -1
