"""Groups of positions along one dimension: months, seasons, stretches of time or values of a coordinate."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from cfagg.accumulation.labels import Labels, Positions
from cfagg.accumulation.ranges import Runs
from cfagg.errors import SelectionError

if TYPE_CHECKING:
    import xarray as xr

    from cfagg.accumulation.labels import Labels


__all__ = ["Grouping", "grouping_of", "periods", "selected", "steps", "stretches_of", "time_coordinate"]

Int64 = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Grouping:
    """A group for every position along dimension `dim`, which the dimension `name` of groups replaces."""

    dim: str
    name: str
    #: Label of each group.
    values: npt.NDArray[Any]
    #: Group of each position of the dimension; -1 for none.
    codes: Int64
    attrs: tuple[tuple[Any, Any], ...] = ()

    def of(self, picked: Positions | None) -> tuple[Grouping, Int64]:
        """Return the groups that occur among selected positions, and those positions."""
        positions = np.arange(len(self.codes), dtype=np.int64)
        if picked is not None:
            positions = positions[picked]
        codes = self.codes[positions]
        there = np.zeros(len(self.values), bool)
        there[codes[codes >= 0]] = True
        if not there.all():
            renumbered = np.cumsum(there) - 1
            codes = np.where(codes >= 0, renumbered[codes], -1)
        return Grouping(self.dim, self.name, self.values[there], codes, self.attrs), positions

    def runs(self, positions: Int64) -> Runs:
        """Return the ranges of the source's axis that each group has, `positions` being those of the codes."""
        return Runs.of_positions(positions, self.codes, len(self.values), keep=True)

    def coords(self) -> dict[str, Any]:
        """Return the coordinate of the groups."""
        import xarray as xr

        return {self.name: xr.Variable(self.name, self.values, dict(self.attrs))}


def grouping_of(labels: Labels, key: str | xr.DataArray) -> Grouping:
    """Return the groups of a key, numbered in ascending order of their labels, as xarray does."""
    if not isinstance(key, str):
        if not hasattr(key, "name") or not hasattr(key, "dims"):
            raise SelectionError(
                f"{labels.name!r}: cannot group by an object of type {type(key).__name__}; expected a name such as "
                "'time.month', or an xarray.DataArray"
            )
        return _of_values(labels, str(key.name if key.name is not None else "group"), key)
    found = labels.grouped.get(key)
    if found is None:
        coordinate, dot, component = key.partition(".")
        if key in labels.coords:
            coordinate, dot = key, ""
        if coordinate not in labels.coords:
            raise SelectionError(
                f"{labels.name!r} has no coordinate {coordinate!r} to group by; it has "
                f"{', '.join(map(repr, labels.coords)) or 'none'}"
            )
        array = labels.coords[coordinate]
        found = _of_values(labels, component, _component(array, component)) if dot else _of_values(labels, key, array)
        labels.grouped[key] = found
    return found


def time_coordinate(labels: Labels) -> tuple[str, str]:
    """Return the one dimension that has dates, and the name of the coordinate that holds them."""
    # A dimension without dates of its own, such as the step of a forecast, may have them in an auxiliary coordinate.
    from cfagg.cf.dimension_kinds import date_coordinate

    found = [(d, str(name)) for d in labels.dims if (name := date_coordinate(labels.coords, d)) is not None]
    if len(found) != 1:
        named = f" ({', '.join(name for _, name in found)})" if found else ""
        raise SelectionError(
            f"{labels.name!r} has {len(found) or 'no'} dimensions whose coordinates are dates{named}, expected 1; use "
            "groupby with the name of a coordinate"
        )
    return found[0]


def periods(grouping: Grouping) -> tuple[Int64, Int64]:
    """Return the first position and the code of every unbroken stretch of one group: each January, each winter."""
    codes = grouping.codes
    first = np.ones(len(codes), bool)
    first[1:] = codes[1:] != codes[:-1]
    first &= codes >= 0
    at = np.flatnonzero(first)
    return at, codes[at]


def steps(grouping: Grouping) -> tuple[Int64, Int64]:
    """Return every position that belongs to a group, and its code."""
    at = np.flatnonzero(grouping.codes >= 0)
    return at, grouping.codes[at]


def _component(array: xr.DataArray, name: str) -> xr.DataArray:
    """Return a component of dates, missing where a date is missing."""
    if not _has_dates(array):
        raise SelectionError(f"coordinate {array.name!r} has no dates; found {array.dtype} values")
    found: Any = getattr(array.dt, name, None)
    if name.startswith("_") or not hasattr(found, "dims"):
        raise SelectionError(
            f"dates of {array.name!r} have no component {name!r}; use month, season, year, day, dayofyear, hour or "
            "another component of xarray's .dt"
        )
    there = array.notnull()
    out: xr.DataArray = found if bool(there.all()) else found.where(there)
    # A month is not a time: the attributes of dates do not describe it.
    return out.drop_attrs()


def _has_dates(array: xr.DataArray) -> bool:
    if array.dtype.kind == "M":
        return True
    if array.dtype.kind != "O" or not array.size:
        return False
    import cftime

    return isinstance(array.values.flat[0], cftime.datetime)


def _of_values(labels: Labels, name: str, array: xr.DataArray) -> Grouping:
    """Return the groups of equal values of a one-dimensional array."""
    sizes = labels.sizes
    if array.ndim != 1 or array.sizes.get(array.dims[0]) != sizes.get(str(array.dims[0])):
        raise SelectionError(
            f"groups need one value for each position of one of the dimensions {sizes}; {name!r} has "
            f"{dict(array.sizes)}"
        )
    dim = str(array.dims[0])
    if name != dim and name in labels.dims:
        raise SelectionError(f"the groups would have the name of the dimension {name!r}; rename the array to group by")
    known = array.notnull().values
    values, inverse = np.unique(array.values[known], return_inverse=True)
    codes = np.full(known.shape, -1, np.int64)
    codes[known] = inverse
    return Grouping(dim, name, values, codes, tuple(array.attrs.items()))


def selected(labels: Labels, time: str, dates: str, chosen: Any) -> Any:
    """Return the positions along the dimension of time whose dates are chosen by labels."""
    import xarray as xr

    if dates != time:
        values = labels.coords[dates].values
        array = xr.DataArray(np.zeros(len(values), bool), {dates: values}, (dates,), labels.name)
        labels = labels.of_array(array)
    return labels.pick(sel={dates: chosen})[dates]


def stretches_of(labels: Labels, time: str, dates: str, positions: Int64, first: Int64, groups: Grouping) -> Grouping:
    """Return a group for each stretch, labelled with its first time."""
    number = np.zeros(len(positions), np.int64)
    number[first] = 1
    number = np.where(groups.codes >= 0, np.cumsum(number) - 1, -1)
    codes = np.full(labels.sizes[time], -1, np.int64)
    codes[positions] = number
    coordinate = labels.coords[dates]
    return Grouping(time, dates, coordinate.values[positions[first]], codes, tuple(coordinate.attrs.items()))
