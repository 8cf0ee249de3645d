"""Labels of a source array: its coordinates as decoded by xarray, and the positions that they select or group.

Groups along one dimension are months, seasons, periods of time or values of a coordinate.
"""

from __future__ import annotations

import operator
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from types import EllipsisType
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from cfagg.accumulation.coordinates import labelled_array, same_labels
from cfagg.accumulation.ranges import Runs, within
from cfagg.errors import SelectionError
from cfagg.errors.arguments import a_mapping, dimensions

if TYPE_CHECKING:
    import xarray as xr

    from cfagg.accumulation.group import Group

__all__ = [
    "Grouping", "Labels", "Positions", "compose", "forward", "grouping_of", "labels_of", "periods", "selected", "steps",
    "stretches_of", "time_coordinate",
]  # fmt: skip

Int64 = npt.NDArray[np.int64]

#: Parts of the encoding of coordinates that are kept in results.
_KEPT = ("units", "calendar", "dtype")

#: Positions along one dimension: a single one (which drops the dimension), a slice, or non-negative positions.
type Positions = int | slice | Int64

#: Names of dimensions as arguments of methods; `None` and `...` mean all.
type Dims = str | Iterable[Hashable] | EllipsisType | None


@dataclass(frozen=True, eq=False)
class Labels:
    """Dimensions, coordinates and attributes of an accumulated source, or of a selection of one."""

    name: str
    dims: tuple[str, ...]
    shape: tuple[int, ...]
    #: The coordinates, and nothing else.
    coords: xr.Dataset
    #: Attributes of the variable as xarray shows them.
    attrs: Mapping[str, Any]
    #: The axis of the source for each of `dims`, ascending.
    axes: tuple[int, ...]
    #: The part of each axis of the source that is in the array: `None` for all, one position, a slice or positions.
    base: tuple[Positions | None, ...]
    #: Cached groups, by key.
    grouped: dict[str, Any] = field(default_factory=dict, repr=False, compare=False)
    _cache: dict[Any, Any] = field(default_factory=dict, repr=False, compare=False)

    @classmethod
    def of_array(cls, array: xr.DataArray, base: Iterable[Positions | None] | None = None) -> Labels:
        """Return the labels of an array that is the part `base` of the source, without reading its values."""
        picked = tuple(base) if base is not None else (None,) * array.ndim
        at = tuple(a for a, p in enumerate(picked) if not isinstance(p, int))
        dims = tuple(map(str, array.dims))
        coords = array.coords.to_dataset()
        return cls(str(array.name), dims, array.shape, coords, dict(array.attrs), at, picked)

    @property
    def sizes(self) -> dict[str, int]:
        """Size of every dimension."""
        return dict(zip(self.dims, self.shape, strict=True))

    def without(self, dims: Iterable[str]) -> xr.Dataset:
        """Return the coordinates that do not have any of these dimensions, loaded once."""
        key = frozenset(dims)
        found = self._cache.get(key)
        if found is None:
            found = self.coords.drop_dims([d for d in key if d in self.coords.dims])
            # xarray cannot load some empty selections with a negative step.
            empty = {k: (v.dims, np.empty(v.shape, v.dtype), v.attrs) for k, v in found.variables.items() if not v.size}
            # Load coordinates of a result now, since the store may change later.
            found = self._cache[key] = found.assign_coords(empty).copy().load()
            for name, variable in found.variables.items():
                # Results keep the encoding of dates, but not the chunks and codecs of the store.
                variable.encoding = {k: v for k, v in variable.encoding.items() if k in _KEPT}
                if variable.dims == (name,) and "_FillValue" not in variable.attrs:
                    # xarray would write a fill value, which coordinate variables must not have (CF section 2.5.1).
                    variable.encoding["_FillValue"] = None
        return found

    def chosen_dims(self, dim: Dims, picked: Mapping[str, Positions]) -> tuple[str, ...]:
        """Return the dimensions to reduce, in order."""
        left = [d for d in self.dims if not isinstance(picked.get(d), int)]
        if dim is None or dim is ...:
            return tuple(left)
        asked = dimensions(dim)
        for d in asked:
            if d not in self.dims:
                raise SelectionError(f"{self.name!r} has no dimension {d!r}; it has {_listed(self.dims)}")
            if d not in left:
                raise SelectionError(
                    f"dimension {d!r} of {self.name!r} was dropped, because one position of it was selected; "
                    "select a slice of length 1 to reduce over it"
                )
        return tuple(d for d in left if d in asked)

    def pick(
        self,
        isel: Mapping[Any, Any] | None = None,
        sel: Mapping[Any, Any] | None = None,
        method: str | None = None,
        tolerance: Any = None,
    ) -> dict[str, Positions]:
        """Return the positions of selections, as for `xarray.DataArray.isel` and `sel`, by dimension."""
        isel = a_mapping(isel, "isel", "a mapping such as {'time': slice(0, 12)}", SelectionError)
        sel = a_mapping(sel, "sel", "a mapping such as {'time': '2008'}", SelectionError)
        for d in (*isel, *sel):
            if d not in self.dims:
                raise SelectionError(
                    f"{self.name!r} has no dimension {d!r} to select from; it has {_listed(self.dims)}"
                )
        if both := [d for d in isel if d in sel]:
            raise SelectionError(f"{_listed(both)} is selected by index and by label; use one of isel and sel")
        sizes = self.sizes
        out = {d: _by_index(chosen, sizes[d], f"{self.name!r}, {d}") for d, chosen in isel.items()}
        for d, chosen in sel.items():
            out[d] = self._by_label(d, chosen, sizes[d], method, tolerance)
        return out

    def _by_label(self, dim: str, label: Any, length: int, method: str | None, tolerance: Any) -> Positions:
        """Return the positions of labels of one dimension."""
        where = f"{self.name!r}, {dim}"
        index = self.coords.xindexes.get(dim)
        if index is None:
            if method is not None or tolerance is not None:
                raise SelectionError(f"{where}: a dimension without a coordinate has no labels to match; use isel")
            return _by_index(label, length, where)
        options = {} if method is None and tolerance is None else {"method": method, "tolerance": tolerance}
        from pandas.errors import InvalidIndexError

        try:
            found = index.sel({dim: label}, **options).dim_indexers
        except (KeyError, ValueError, TypeError, OverflowError, NotImplementedError, InvalidIndexError) as error:
            raise SelectionError(f"{where}: no such label {label!r} ({_text(error)}){self._range(dim)}") from error
        if set(found) != {dim}:
            raise SelectionError(f"{where}: {label!r} selects along other dimensions; use isel")
        chosen = found[dim]
        if getattr(chosen, "dims", None) not in (None, (), (dim,)):
            raise SelectionError(f"{where}: labels with dimensions {chosen.dims} are not supported; pass a plain list")
        return _by_index(getattr(chosen, "values", chosen), length, where)

    def _range(self, dim: str) -> str:
        """Return a text with the first and last label."""
        values = self.coords[dim].values
        return f"; labels run from {values[0]!s} to {values[-1]!s}" if len(values) else "; there are no labels"


def labels_of(group: Group) -> Labels:
    """Return the labels of an accumulated array, decoded by xarray."""
    return Labels.of_array(labelled_array(group.source, group.dims))


def compose(base: Positions | None, picked: Positions, length: int) -> Positions:
    """Return the positions along an axis of the source, of length `length`, for positions within its part `base`."""
    if base is None:
        return picked
    if isinstance(base, slice):
        inner = range(length)[base]
        if isinstance(picked, int):
            return inner[picked]
        if isinstance(picked, slice):
            return forward(inner[picked])
        return inner.start + inner.step * picked
    at = np.arange(length, dtype=np.int64)[base]
    return int(at[picked]) if isinstance(picked, int) else at[picked]


def _by_index(chosen: Any, length: int, where: str) -> Positions:
    """Return a selection as non-negative positions."""
    if isinstance(chosen, slice):
        try:
            return forward(range(length)[chosen])
        except (TypeError, ValueError) as error:
            raise SelectionError(f"{where}: {chosen!r} is not a slice of whole numbers ({_text(error)})") from error
    try:
        values = np.asarray(chosen)
    except ValueError:  # lists of different lengths
        values = np.empty((0, 0))
    if values.ndim == 0 and values.dtype.kind in "iu":
        return int(within(values.reshape(1), length, where)[0])
    if values.ndim != 1 or (values.size and values.dtype.kind not in "iub"):
        raise SelectionError(
            f"{where}: expected a whole number, a slice, or a list of whole numbers or booleans; found {chosen!r}"
        )
    if values.dtype.kind == "b":
        if len(values) != length:
            raise SelectionError(f"{where}: a mask of length {len(values)} for a dimension of length {length}")
        return np.flatnonzero(values).astype(np.int64)
    return within(values, length, where)


def forward(positions: range) -> slice:
    """Return the slice of these positions, which may have a negative step."""
    if not positions:
        # The start of an empty range may be -1, which in a slice counts from the end.
        return slice(0, 0, 1)
    start, stop, step = positions.start, positions.stop, positions.step
    return slice(start, None if stop < 0 else stop, operator.index(step))


def _listed(names: Iterable[Any]) -> str:
    return ", ".join(repr(n) for n in names) or "none"


def _text(error: Exception) -> str:
    """Return the message of an error, without the quotes that KeyError adds."""
    return str(error.args[0]) if isinstance(error, KeyError) and error.args else str(error)


@dataclass(frozen=True, eq=False)
class Grouping:
    """A group for every position along dimension `dim`, which is replaced by the dimension `name` of groups."""

    dim: str
    name: str
    #: Label of each group.
    values: npt.NDArray[Any]
    #: Group of each position of the dimension; -1 for none.
    codes: Int64
    attrs: tuple[tuple[Any, Any], ...] = ()

    def of(self, picked: Positions | None) -> tuple[Grouping, Int64]:
        """Return the groups that occur among selected positions, and those positions."""
        positions = np.arange(len(self.codes), dtype=np.int64)[slice(None) if picked is None else picked]
        codes = self.codes[positions]
        there = np.zeros(len(self.values), bool)
        there[codes[codes >= 0]] = True
        if not there.all():
            renumbered = np.cumsum(there) - 1
            codes = np.where(codes >= 0, renumbered[codes], -1)
        return Grouping(self.dim, self.name, self.values[there], codes, self.attrs), positions

    def runs(self, positions: Int64) -> Runs:
        """Return the ranges along the source's axis of each group; `positions` are those of the codes."""
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
        made = _of_values(labels, str(key.name if key.name is not None else "group"), key)
        dim, own, given = made.dim, labels.coords.coords, getattr(key, "coords", {})
        if dim in own and dim in given and not same_labels(own[dim].values, given[dim].values):
            raise SelectionError(
                f"{labels.name!r}: the groups {made.name!r} have other labels along {dim!r} than the array, or the "
                "same in another order; reindex them to those of the array"
            )
        return made
    found = labels.grouped.get(key)
    if found is None:
        coordinate, dot, component = key.partition(".")
        if key in labels.coords:
            coordinate, dot = key, ""
        if coordinate not in labels.coords:
            raise SelectionError(
                f"{labels.name!r} has no coordinate {coordinate!r} to group by; it has {_listed(labels.coords.coords)}"
            )
        array = labels.coords[coordinate]
        found = _of_values(labels, component, _component(array, component)) if dot else _of_values(labels, key, array)
        labels.grouped[key] = found
    return found


def time_coordinate(labels: Labels) -> tuple[str, str]:
    """Return the only dimension that has dates, and the name of their coordinate."""
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


def periods(grouping: Grouping, dates: xr.DataArray | None = None, component: str = "") -> tuple[Int64, Int64]:
    """Return the first position and the code of every unbroken period of one group, such as each January or winter."""
    codes = grouping.codes
    first = np.ones(len(codes), bool)
    first[1:] = codes[1:] != codes[:-1]
    if dates is not None:
        alike = np.flatnonzero(~first[1:] & (codes[1:] >= 0))
        first[1 + alike[_apart(dates[alike], dates[alike + 1], component)]] = True
    first &= codes >= 0
    at = np.flatnonzero(first)
    return at, codes[at]


def _apart(start: xr.DataArray, stop: xr.DataArray, component: str) -> npt.NDArray[np.bool_]:
    """Return whether dates of one group belong to different periods, as of Januaries if only these were selected."""
    out = np.zeros(len(start), bool)
    for part in (2, 3, 5, 7) if len(start) else ():
        # A date on the way from one to the other is in another group; only after 210 years might none of these four be.
        between = start.copy(data=start.values + (stop.values - start.values) // part)
        out |= _component(between, component).values != _component(start, component).values
    return out


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
    # A month is not a time, so the attributes of dates do not describe it.
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
    try:
        values, inverse = np.unique(array.values[known], return_inverse=True)
    except TypeError as error:
        raise SelectionError(f"{labels.name!r}: the values of {name!r} have no order ({error})") from error
    codes = np.full(known.shape, -1, np.int64)
    codes[known] = inverse
    return Grouping(dim, name, values, codes, tuple(array.attrs.items()))


def selected(labels: Labels, time: str, dates: str, chosen: Any) -> Any:
    """Return the positions along the time dimension whose dates are selected by labels."""
    import xarray as xr

    if dates != time:
        values = labels.coords[dates].values
        array = xr.DataArray(np.zeros(len(values), bool), {dates: values}, (dates,), labels.name)
        labels = labels.of_array(array)
    return labels.pick(sel={dates: chosen})[dates]


def stretches_of(labels: Labels, time: str, dates: str, positions: Int64, first: Int64, groups: Grouping) -> Grouping:
    """Return a group for each period, labelled with its first time."""
    number = np.zeros(len(positions), np.int64)
    number[first] = 1
    number = np.where(groups.codes >= 0, np.cumsum(number) - 1, -1)
    codes = np.full(labels.sizes[time], -1, np.int64)
    codes[positions] = number
    coordinate = labels.coords[dates]
    return Grouping(time, dates, coordinate.values[positions[first]], codes, tuple(coordinate.attrs.items()))
