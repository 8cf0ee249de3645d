"""Fields on a grid as samples, one per time, to be combined with observations."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from cfagg.cf.datetimes import calendar_name
from cfagg.cf.instants import REFORM, epoch_text
from cfagg.cf.roles import AXES_BY_NAME, COMMON_NAMES, place_of
from cfagg.errors import CalendarError, OptionError, Problem, SelectionError
from cfagg.kernels.distinct import distinct
from cfagg.observations.dates import sample_numbers
from cfagg.observations.metadata import as_json

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["FieldDetails", "Fields"]

type Int64 = np.ndarray[Any, np.dtype[np.int64]]
type Dates = np.ndarray[Any, np.dtype[np.datetime64]]


@dataclass(frozen=True, slots=True)
class FieldDetails:
    """Places and dates of the points of a field."""

    latitudes: np.ndarray[Any, Any]
    longitudes: np.ndarray[Any, Any]
    date: int

    def __len__(self) -> int:
        return len(self.latitudes)

    def __repr__(self) -> str:
        return f"<FieldDetails of {len(self)} points, {epoch_text(self.date)}>"

    def _repr_html_(self) -> str:
        from cfagg.display.facts import facts_html

        return facts_html("Places and date of a field", [("points", f"{len(self):,}"), ("date", epoch_text(self.date))])

    @property
    def dates(self) -> Dates:
        """Dates of the points, all equal, datetime64[s] (points,)."""
        return np.full(len(self), np.datetime64(self.date, "s"))

    @property
    def timedeltas(self) -> Int64:
        """Seconds from the sample's date, all 0, int64 (points,)."""
        return np.zeros(len(self), np.int64)


class Fields:
    """Fields of a gridded Dataset as samples.

    ``fields[i]`` is the field of ``fields.dates[i]``: an array (variables, …) with the dimensions of the grid.

    Parameters
    ----------
    dataset : xarray.Dataset
        Gridded variables with a time, such as `cfagg.read` returns; it stays lazy.
    variables : str or sequence of str, optional
        Variables to take, in this order; by default all that have the time.  All must have the same grid.  A variable
        without time is the same in every sample.
    time : str, optional
        Name of the time dimension; by default it is detected.

    Raises
    ------
    OptionError
        There is no time; variables do not exist, are not numbers or have different grids; times are not whole seconds,
        or occur twice.
    CalendarError
        The times are not of the standard calendar.

    Examples
    --------
    >>> import xarray as xr
    >>> times = np.array(["2020-01-01", "2020-01-02"], "datetime64[ns]")
    >>> fields = Fields(xr.Dataset({"t": (("time", "cell"), [[1.0, 2.0], [3.0, 4.0]])}, {"time": times}))
    >>> fields[1].tolist(), str(fields.dates[1])
    ([[3.0, 4.0]], '2020-01-02T00:00:00')
    """

    def __init__(self, dataset: xr.Dataset, variables: Any = None, time: str | None = None) -> None:
        self._time = _time_of(dataset) if time is None else time
        if self._time not in dataset.dims or self._time not in dataset.coords:
            raise OptionError(f"the fields have no time {self._time!r}; their dimensions are {dict(dataset.sizes)}")
        self.variables = _chosen(dataset, self._time, variables)
        self.dims = tuple(d for d in map(str, dataset[_first(dataset, self)].dims) if d != self._time)
        _check_grids(dataset, self)
        self._dataset = dataset
        self.epochs = _epochs(dataset, self._time)
        self.dtype = np.result_type(*(dataset[name].dtype for name in self.variables))

    def __len__(self) -> int:
        return len(self.epochs)

    def __getstate__(self) -> dict[str, Any]:
        return {k: v for k, v in self.__dict__.items() if k != "_places"}

    @property
    def dates(self) -> Dates:
        """Times of the fields, datetime64[s] (samples,)."""
        return self.epochs.view("datetime64[s]")

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of a sample: variables, and the grid."""
        return len(self.variables), *(self._dataset.sizes[d] for d in self.dims)

    @property
    def name_to_index(self) -> dict[str, int]:
        """Numbers of the variables by their names."""
        return {name: i for i, name in enumerate(self.variables)}

    @property
    def dataset(self) -> xr.Dataset:
        """The Dataset that the fields are read from."""
        return self._dataset

    def __getitem__(self, key: Any) -> np.ndarray[Any, Any]:
        """Return a field, (variables, …), or the fields of several numbers, (k, variables, …)."""
        numbers = sample_numbers(key, len(self))
        arrays = [self._values(name, numbers) for name in self.variables]
        return np.stack([a.astype(self.dtype, copy=False) for a in arrays], axis=np.ndim(numbers))

    def _values(self, name: str, numbers: Any) -> np.ndarray[Any, Any]:
        variable = self._dataset[name]
        if self._time not in variable.dims:
            values = np.asarray(variable.transpose(*self.dims).values)
            return np.broadcast_to(values, (*np.shape(numbers), *values.shape))
        picked = variable.isel({self._time: numbers})
        return np.asarray(picked.transpose(*([self._time] if np.ndim(numbers) else []), *self.dims).values)

    def details(self, number: int) -> FieldDetails:
        """Return places and dates of the points of ``fields[number]``, in the order of the flattened grid.

        Raises
        ------
        OptionError
            If the Dataset has no latitudes or longitudes, or they do not describe the grid.
        """
        latitudes, longitudes = self._places
        picked = sample_numbers(number, len(self))
        if not isinstance(picked, int):
            raise SelectionError(f"details of {number!r:.80}: ask for one field by its number")
        return FieldDetails(latitudes, longitudes, int(self.epochs[picked]))

    @cached_property
    def _places(self) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
        shape = self.shape[1:]
        found = []
        for kind in ("latitude", "longitude"):
            name = _coordinate(self._dataset, kind)
            if name is None or not set(map(str, self._dataset[name].dims)) <= set(self.dims):
                raise OptionError(f"the fields have no coordinate {kind} along the dimensions {self.dims}")
            coordinate = self._dataset[name]
            places = [1 if d not in coordinate.dims else self._dataset.sizes[d] for d in self.dims]
            ordered = coordinate.transpose(*(d for d in self.dims if d in coordinate.dims))
            found.append(np.broadcast_to(np.asarray(ordered.values).reshape(places), shape).reshape(-1))
        return found[0], found[1]

    def metadata(self) -> dict[str, Any]:
        """Return a description of the fields in JSON types."""
        known = {n: {k: v for k, v in self._dataset[n].attrs.items() if k != "history"} for n in self.variables}
        ends = [epoch_text(int(e)) for e in (self.epochs.min(), self.epochs.max())] if len(self) else [None, None]
        described: dict[str, Any] = as_json(
            {
                "kind": "fields",
                "sources": [{"path": self._dataset.encoding.get("source"), "attributes": self._dataset.attrs}],
                "start": ends[0],
                "end": ends[1],
                "samples": len(self),
                "variables": list(self.variables),
                "variables_metadata": known,
                "dims": list(self.dims),
                "shape": list(self.shape),
            }
        )
        return described

    def __repr__(self) -> str:
        grid = ", ".join(f"{d}: {self._dataset.sizes[d]}" for d in self.dims)
        return f"<Fields: {len(self)} samples of {len(self.variables)} variables on ({grid})>"

    def _repr_html_(self) -> str:
        from cfagg.display.facts import facts_html

        facts: list[tuple[str, object]] = [("samples", f"{len(self):,}")]
        if len(self):
            facts.append(("dates", f"{self.dates.min()} to {self.dates.max()}"))
        facts.append(("grid", ", ".join(f"{d}: {self._dataset.sizes[d]:,}" for d in self.dims)))
        return facts_html("Fields", facts, [("variables", self.variables)])


def _time_of(dataset: xr.Dataset) -> str:
    """Return the time dimension, by its type or its CF attributes."""
    found = []
    for name in map(str, dataset.dims):
        if name not in dataset.coords:
            continue
        coordinate = dataset[name]
        is_dates = coordinate.dtype.kind == "M" or (coordinate.size and hasattr(coordinate.values.flat[0], "calendar"))
        if is_dates or coordinate.attrs.get("standard_name") == "time" or coordinate.attrs.get("axis") == "T":
            found.append(name)
    if len(found) != 1:
        raise OptionError(
            f"the fields have {'no' if not found else 'several'} time dimensions ({', '.join(found) or 'none'} of "
            f"{', '.join(map(str, dataset.dims))}); name one: Fields(dataset, time=...)"
        )
    return found[0]


def _chosen(dataset: xr.Dataset, time: str, variables: Any) -> tuple[str, ...]:
    if variables is None:
        bounds = {
            str(c.attrs[k]) for c in dataset.variables.values() for k in ("bounds", "climatology") if k in c.attrs
        }
        names = [
            str(n) for n, v in dataset.data_vars.items() if time in v.dims and v.dtype.kind in "fiu" and n not in bounds
        ]
    else:
        names = [variables] if isinstance(variables, str) else [str(v) for v in variables]
    problems = [Problem(n, "does not exist") for n in names if n not in dataset.data_vars]
    problems += [
        Problem(n, f"is of type {dataset[n].dtype}, which is not a number")
        for n in names
        if n in dataset.data_vars and dataset[n].dtype.kind not in "fiu"
    ]
    if problems:
        raise OptionError(f"the fields are {', '.join(map(str, dataset.data_vars))}", problems)
    if not names:
        raise OptionError(f"the Dataset has no variable of numbers with the dimension {time!r}")
    return tuple(names)


def _first(dataset: xr.Dataset, fields: Fields) -> str:
    """Return the variable whose dimensions determine the order: the first with time."""
    timed = [n for n in fields.variables if fields._time in dataset[n].dims]
    return (timed or list(fields.variables))[0]


def _check_grids(dataset: xr.Dataset, fields: Fields) -> None:
    problems = [
        Problem(n, f"has the dimensions {dataset[n].dims}; expected {fields.dims} besides {fields._time!r}")
        for n in fields.variables
        if {str(d) for d in dataset[n].dims} - {fields._time} != set(fields.dims)
    ]
    if problems:
        raise OptionError(
            "the fields have different grids; name variables of one grid: Fields(dataset, variables=[...])", problems
        )


def _epochs(dataset: xr.Dataset, time: str) -> Int64:
    """Return the times in seconds since 1970."""
    times = dataset[time].values
    if times.dtype.kind == "M":
        if np.isnat(times).any():
            raise OptionError(f"the time {time!r} of the fields has missing values")
        seconds = times.astype("datetime64[s]")
        uneven = seconds != times
        if uneven.any():
            raise OptionError(f"the field at {times[uneven][0]} is not at a whole second")
        epochs: Int64 = seconds.astype(np.int64)
    else:
        epochs = np.array([_of_cftime(t, time) for t in times.tolist()], np.int64)
    if len(distinct(epochs)) != len(epochs):
        values, counts = np.unique(epochs, return_counts=True)
        raise OptionError(f"the fields have the time {epoch_text(values[counts > 1][0])} several times")
    return epochs


def _of_cftime(value: Any, time: str) -> int:
    calendar = getattr(value, "calendar", None)
    if calendar is None:
        raise OptionError(f"the time {time!r} of the fields holds {value!r}, which is not a date")
    text = f"{value.year:04}-{value.month:02}-{value.day:02}T{value.hour:02}:{value.minute:02}:{value.second:02}"
    name = calendar_name(calendar)
    if name not in ("standard", "proleptic_gregorian"):
        raise CalendarError(f"the field at {text} has the calendar {calendar!r}; observations need the standard one")
    if value.microsecond:
        raise OptionError(f"the field at {value} is not at a whole second")
    epoch = int(np.datetime64(text, "s").astype(np.int64))
    if name == "standard" and epoch < REFORM:
        raise CalendarError(f"the field at {text} is before 1582-10-15, where calendars differ")
    return epoch


def _coordinate(dataset: xr.Dataset, kind: str) -> str | None:
    for name, coordinate in dataset.coords.items():
        if place_of(coordinate.attrs) == kind:
            return str(name)
    # Rotated and projected coordinates are recognised by their attributes, whatever their names are.
    named = (n for n in dataset.coords if COMMON_NAMES.get(str(n).lower()) == kind)
    return next((str(n) for n in named if dataset[n].attrs.get("standard_name") not in AXES_BY_NAME), None)
