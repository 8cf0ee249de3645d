"""The coordinates of fragments beside those of the aggregation: a file in the place of another one shows in them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from cfagg.cf.calendars import transform
from cfagg.cf.roles import place_of
from cfagg.errors import CfaggError
from cfagg.model.dataset import Variable

__all__ = ["Line", "Place", "coordinate_of", "lines", "misplaced"]

#: Coordinates of more values than this are not compared.
_MOST = 1 << 20

#: Attributes of coordinates whose values are not the stored numbers.
_PACKED = ("scale_factor", "add_offset", "_Unsigned")

Reals = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Line:
    """The coordinates along a dimension of an aggregation, and by how much those of a fragment may differ."""

    variable: Variable
    values: Reals
    tolerance: float


class Place(NamedTuple):
    """The place of a fragment along a dimension of the aggregation, and how the fragment names and directs it."""

    dim: str
    line: Line
    start: int
    stop: int
    name: str
    flipped: bool


def coordinate_of(variable: Variable, dimension: str) -> Variable | None:
    """Return the variable with the name of a dimension, seen from the group of another variable."""
    return next((g.variables[dimension] for g in variable.group.ancestors() if dimension in g.variables), None)


def lines(variable: Variable, dims: Sequence[str]) -> dict[str, Line]:
    """Return the coordinates along those dimensions of an aggregation that have several, all different."""
    found = {}
    for dim in dims:
        coordinate = coordinate_of(variable, dim)
        values = None if coordinate is None or coordinate.dims != (dim,) else _numbers(coordinate)
        if coordinate is None or values is None or values.size < 2:
            continue
        least = np.abs(np.diff(np.sort(values))).min()
        if least > 0:  # neither equal ones nor NaN
            found[dim] = Line(coordinate, values, float(least) / 2)
    return found


def misplaced(fragment: Variable, places: Iterable[Place]) -> Iterator[str]:
    """Yield a message for each dimension along which a fragment has the coordinates of another place.

    Coordinates that cannot be compared, for they are packed or in other units, are no problem.
    """
    for dim, line, start, stop, name, flipped in places:
        coordinate = coordinate_of(fragment, name)
        own = None if coordinate is None else _numbers(coordinate)
        if coordinate is None or own is None or own.size != stop - start:
            continue
        change = _change(coordinate, line.variable)
        if change is None:
            continue
        expected = line.values[start:stop]
        with np.errstate(all="ignore"):  # numbers of any size
            own = (own[::-1] if flipped else own) * change[0] + change[1]
            apart = own - expected
            if place_of(line.variable.attributes) == "longitude":
                apart = (apart + 180) % 360 - 180
        if (np.abs(apart) > line.tolerance).any():
            units = line.variable.text("units") or ""
            yield (
                f"{fragment.path!r} has {name!r} {_said(own)} where the aggregation has {dim!r} {_said(expected)}"
                f"{' ' * bool(units)}{units}; refer to the file of this place, or correct the coordinates"
            )


def _numbers(variable: Variable) -> Reals | None:
    """Return the values of a coordinate, or `None` if they are no plain numbers, too many, or cannot be read."""
    if variable.kind not in ("integer", "float") or variable.dialect is not None or variable.size > _MOST:
        return None
    if any(name in variable.attributes for name in _PACKED):
        return None
    try:
        return variable.values().astype(np.float64).reshape(-1)
    except CfaggError:
        return None


def _change(own: Variable, master: Variable) -> tuple[float, float] | None:
    """Return the factor and the offset to the units of the aggregation, `None` if coordinates cannot be compared."""
    names = own.text("standard_name"), master.text("standard_name")
    source, target = own.text("units"), master.text("units")
    if (None not in names and names[0] != names[1]) or (source is None) != (target is None):
        return None
    try:
        change = transform(source, own.text("calendar"), target, master.text("calendar"))
    except CfaggError:
        return None
    return (float(change[0]), float(change[1])) if isinstance(change, tuple) else None


def _said(values: Reals) -> str:
    first, last = (f"{v:.15g}" for v in (values[0], values[-1]))
    return first if values.size == 1 else f"{first} … {last}"
