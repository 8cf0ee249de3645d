"""What of the rows of a window becomes the sample: variables and an area."""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from cfagg.errors import OptionError, Problem

__all__ = ["Area", "Columns", "parse_area"]

type Floats = np.ndarray[Any, np.dtype[np.float32]]
type Mask = np.ndarray[Any, np.dtype[np.bool_]]


# ---- variables -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Columns:
    """Variables of a store, chosen, ordered and renamed."""

    #: Names as the user sees them, and in the store, in the same order.
    names: tuple[str, ...]
    stored: tuple[str, ...]

    @classmethod
    def all_of(cls, variables: Sequence[str]) -> Columns:
        """Return all variables of a store, as they are."""
        return cls(tuple(variables), tuple(variables))

    def choose(
        self,
        select: Any = None,
        drop: Any = None,
        reorder: Any = None,
        rename: Any = None,
    ) -> Columns:
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
        if not names:
            raise OptionError("no variable is left: select= and drop= leave out all of them")
        stored = dict(zip(self.names, self.stored, strict=True))
        new: dict[str, Any] = dict(zip(names, names, strict=True))
        if rename is not None:
            if not isinstance(rename, Mapping):
                raise OptionError(f"rename={rename!r} must be a mapping of present names to new names")
            _names("rename", list(rename), names)
            new.update(rename)
        if wrong := [n for n in new.values() if not (isinstance(n, str) and n)]:
            raise OptionError(f"rename= gives {wrong[0]!r} as a name: names are text")
        if repeated := sorted({n for n in new.values() if list(new.values()).count(n) > 1}):
            raise OptionError(f"rename= gives several variables the name {', '.join(map(repr, repeated))}")
        return Columns(tuple(new[n] for n in names), tuple(stored[n] for n in names))

    def positions(self, variables: Sequence[str]) -> np.ndarray[Any, np.dtype[np.int64]]:
        """Return where these columns stand among the variables of the store, int64 (columns,)."""
        places = {name: i for i, name in enumerate(variables)}
        return np.array([places[name] for name in self.stored], np.int64)


def _names(option: str, value: Any, known: Sequence[str]) -> list[str]:
    """Return the names of an option, all of which must be known and none repeated."""
    if isinstance(value, str):
        names: list[Any] = [value]
    elif isinstance(value, Iterable) and not isinstance(value, Mapping):
        names = list(value)
    else:
        raise OptionError(f"{option}={value!r} must be the name of a variable or a sequence of names")
    problems = []
    for name in dict.fromkeys(map(str, names)):
        if name not in known:
            near = difflib.get_close_matches(name, known, 1)
            problems.append(
                Problem(option, f"there is no variable {name!r}" + (f"; did you mean {near[0]!r}?" if near else ""))
            )
        elif names.count(name) > 1:
            problems.append(Problem(option, f"{name!r} is named {names.count(name)} times"))
    if problems:
        there = ", ".join(known[:30]) + (", …" if len(known) > 30 else "")
        raise OptionError(f"{option}= does not fit the variables {there}", problems)
    return names


def _reordered(order: Any, names: list[str]) -> list[str]:
    if isinstance(order, str) and order == "sort":
        return sorted(names)
    if isinstance(order, Mapping):
        if sorted(order.values()) != list(range(len(order))):
            raise OptionError(f"reorder= must give the places 0 to {len(order) - 1}, each once")
        order = sorted(order, key=order.__getitem__)
    new = _names("reorder", order, names)
    if missing := [n for n in names if n not in new]:
        raise OptionError(f"reorder= leaves out {', '.join(missing)}: it must name all variables; see select=")
    return new


# ---- area ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Area:
    """Latitudes and longitudes between bounds in degrees, all four of which belong to the area."""

    # From `west` eastwards to `east`, over 0° or 180° where that lies between; 360° or more is all around the globe.
    # Places are stored in single precision; the bounds are rounded likewise, so that an observation on a bound is
    # inside.

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
        # A whole turn is the same in any convention, as from -0.5 to 359.5.
        if low < 0 and high > 180 and self.east - self.west < 360:
            raise OptionError(
                f"area={bounds} is (north, west, south, east) with longitudes of two conventions, of which one has "
                f"{low:g} and the other {high:g}; write both from -180 to 180, or both from 0 to 360"
            )
        if self.east < self.west and self.west - self.east > 360:
            raise OptionError(f"area={bounds} is (north, west, south, east): more than a turn from west to east")

    def mask(self, latitudes: Floats, longitudes: Floats) -> Mask:
        """Return which places lie in the area; those without a place do not."""
        south, north = np.float32(self.south), np.float32(self.north)
        inside: Mask = (latitudes >= south) & (latitudes <= north)
        if self.east - self.west >= 360:
            return inside & ~np.isnan(longitudes)
        west, east = _wrapped(self.west), _wrapped(self.east)
        after, before = longitudes >= west, longitudes <= east
        return inside & ((after | before) if west > east else (after & before))


def _wrapped(longitude: float) -> np.float32:
    rounded = np.float32(longitude % 360)
    # Just west of 0° rounds to 360°, which is stored as 0°.
    return np.float32(0) if rounded == 360 else rounded


def parse_area(value: Any) -> Area | None:
    """Return the area that ``area=`` asks for: (north, west, south, east), a mapping with these names, or None."""
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
