"""Observations from netCDF: all discrete sampling geometries of CF, and fields as points.

A file is read once per build, in blocks (see `cfagg.observations.sources.sorted_rows`).  Links of HDF5 to other files
are refused.

Source: CF chapter 9 and appendix H.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from pydantic import Field

from cfagg.arrays.netcdf_source import open_source
from cfagg.arrays.stored import NetcdfReader
from cfagg.cf.units import linear
from cfagg.errors import ConventionError, SourceError, UnitsError, UnknownConventionWarning
from cfagg.formats.values import netcdf
from cfagg.model import Aggregation
from cfagg.observations.frames import with_attributes
from cfagg.observations.settings import ByName, Names, Paths, Section, Text, settings_of
from cfagg.observations.sources.geometry import Described, Geometry, find_geometry, slabs
from cfagg.observations.sources.presence import Presence
from cfagg.observations.sources.sorted_rows import FileSource
from cfagg.observations.sources.tables import dates_of_numbers, described, numbers_of
from cfagg.storage.urls import Url

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["NetcdfSource", "read_netcdf"]

type Int64 = npt.NDArray[np.int64]

#: Number of observations that are read at once.
BLOCK = 1 << 18

#: Largest number of elements that another dimension may count or index, which are in memory.
_MOST_INSTANCES = 1 << 27


class _Flavour(Section):
    date: Text | None = None
    latitude: Text | None = None
    longitude: Text | None = None


class _Files(Section):
    path: Paths
    columns: Names | None = None
    flavour: _Flavour = _Flavour()
    options: ByName = Field(default_factory=dict)
    allow: Names = ()


class NetcdfSource(FileSource):
    """A netCDF file, or several, with observations.

    Supported are CF's points, time series, profiles, trajectories and their combinations, as contiguous or indexed
    ragged arrays, orthogonal or incomplete multidimensional arrays, or a single feature; and fields with times,
    latitudes and longitudes, each grid point of which is an observation.

    Parameters
    ----------
    config : mapping
        ``path``: a file, a pattern, a URL with ``options`` for its server and, in ``allow``, the places that it may
        redirect to, or a list of them.  ``columns``:
        the variables, all numeric ones of observations if not given.  ``flavour``: names of the variables
        ``date``, ``latitude`` and ``longitude`` if attributes do not identify them.

    Notes
    -----
    Times are converted from their calendar by date.  Elements of arrays that are only padding, without time and data,
    are left out, as are elements of multidimensional arrays without any data.  Where a variable in units along fewer
    dimensions that have times and places, such as the wind above a mooring, has a value but there are no data along the
    others, the first of the elements is kept for it.  Dimensions of one element that only times and places have, as in
    files of OceanSITES, number no observations.  Data without a latitude or longitude, such as those of floats under
    ice, are refused unless a filter drops them (``drop_nans: [latitude, longitude]``).  Text, such as names of
    stations, is left out.  Units and other attributes of the variables are kept.

    Examples
    --------
    >>> NetcdfSource({"path": "buoys.nc", "colums": ["sst"]})
    Traceback (most recent call last):
    ...
    cfagg.errors.ConventionError: recipe: cannot be used as written
      - colums: is not known here (known: allow, columns, flavour, options, path); did you mean columns?
    """

    def __init__(self, config: Mapping[str, Any]) -> None:
        files = settings_of(_Files, config)
        flavour = files.flavour.model_dump(exclude_none=True)
        super().__init__(
            "netcdf", config, files.path, partial(_all, flavour, files.columns), files.options, files.allow
        )


def _all(flavour: dict[str, str], columns: tuple[str, ...] | None, paths: list[str]) -> Iterator[pd.DataFrame]:
    told: set[tuple[str, ...]] | None = set() if len(paths) > 1 else None
    for path in paths:
        yield from read_netcdf(path, flavour=flavour, columns=columns, told=told)


def read_netcdf(
    path: str,
    *,
    flavour: Mapping[str, str] | None = None,
    columns: Iterable[str] | None = None,
    told: set[tuple[str, ...]] | None = None,
) -> Iterator[pd.DataFrame]:
    """Yield the observations of a netCDF file in blocks, in the order of the file."""
    # `told` has the variables that a warning about another file has named as left out.
    variables, sizes, feature, groups = _described(path)
    geometry = find_geometry(variables, sizes, path, flavour=flavour, columns=columns, groups=groups)
    if geometry.left_out and (told is None or geometry.left_out not in told):
        here = "" if told is None else ", here and in other files"
        warnings.warn(
            f"{path}: {', '.join(geometry.left_out)} belong to no observation ({feature or 'without featureType'}, "
            f"numbered by {', '.join(geometry.dims)}) and are left out{here}; choose the others with columns",
            UnknownConventionWarning,
            stacklevel=2,
        )
        if told is not None:
            told.add(geometry.left_out)
    # Errors are raised before the first block, not in the middle of a build.
    readers = {name: NetcdfReader(path, "/", name, workers=1) for name in geometry.used()}
    yield from _Reader(path, geometry, variables, readers).blocks()


def _described(path: str) -> tuple[dict[str, Described], dict[str, int], str, list[str]]:
    """Return the variables and sizes of dimensions of a file, its feature type, and the names of its groups."""
    if isinstance(path, Url):
        root = open_source(path).root
        own = {n: v for n, v in {**root.variables, **root.private}.items() if not isinstance(v, Aggregation)}
        found = {n: Described(n, v.dims, v.dtype, v.attributes) for n, v in own.items()}
        return found, root.dimensions, str(root.attributes.get("featureType", "")), list(root.groups)
    with netcdf.opened(path) as dataset:
        variables = {
            name: Described(name, tuple(v.dimensions), netcdf.dtype_of(v), netcdf.attributes_of(v))
            for name, v in dataset.variables.items()
        }
        sizes = {name: len(dimension) for name, dimension in dataset.dimensions.items()}
        return variables, sizes, str(getattr(dataset, "featureType", "")), list(dataset.groups)


class _Reader:
    """Reads the observations of one file."""

    def __init__(
        self, path: str, geometry: Geometry, variables: Mapping[str, Described], readers: Mapping[str, NetcdfReader]
    ) -> None:
        self.path, self.geometry, self.variables, self.readers = path, geometry, variables, readers
        self.small: dict[str, npt.NDArray[Any]] = {}
        self.edges: dict[str, Int64] = {}
        names: dict[str, str] = {}
        for name in geometry.data:
            # Not stripped, since spaces around a name are part of it.
            given = variables[name].attributes.get("cfagg_name")
            column = given if isinstance(given, str) and given else name
            # A variable may have the name of a column that all frames have.
            names[name] = f"{column}_1" if column in ("date", "latitude", "longitude") else column
        self.names = names
        self.presence = Presence(geometry, variables)
        self.attributes = {names[n]: described(variables[n].attributes) for n in geometry.data}
        for start, (target, kind, name) in geometry.links.items():
            if kind == "count":
                self.edges[start] = self._edges(start, target, name)

    def blocks(self) -> Iterator[pd.DataFrame]:
        """Yield the observations in blocks."""
        some = False
        sizes = [self.geometry.sizes[d] for d in self.geometry.dims]
        for slices in slabs(sizes, BLOCK):
            columns, keep = self._block(slices, self.presence.telling)
            self.presence.mark(slices, keep)
            if keep.any() or not some:
                some = True
                yield self._frame(slices, columns, keep)
        for shape, names, absent in self.presence.absent():
            for slices in slabs(list(shape), BLOCK):
                columns, keep = self._block(slices, names)
                keep &= absent[slices].ravel()
                self.presence.mark(slices, keep)
                if keep.any():
                    yield self._frame(slices, columns, keep)

    def _frame(
        self, slices: tuple[slice, ...], columns: Mapping[str, npt.NDArray[Any]], keep: npt.NDArray[np.bool_]
    ) -> pd.DataFrame:
        """Return the observations of a block, labelled by their number among all elements, from 1."""
        import pandas as pd

        rows = np.flatnonzero(keep)
        found = {k: v[rows] for k, v in columns.items()}
        frame = pd.DataFrame(found, index=self._numbers(slices, rows), copy=False)
        return with_attributes(frame, self.attributes, str(self.path))

    def _numbers(self, slices: tuple[slice, ...], elements: npt.NDArray[np.intp]) -> npt.NDArray[np.intp]:
        """Return the numbers of a block's elements among all of the file, from 1."""
        shape = tuple(s.stop - s.start for s in slices)
        if not shape or not len(elements):
            return elements + 1
        at = [i + s.start for i, s in zip(np.unravel_index(elements, shape), slices, strict=True)]
        numbers: npt.NDArray[np.intp] = np.ravel_multi_index(at, [self.geometry.sizes[d] for d in self.geometry.dims])
        return numbers + 1

    def _block(
        self, slices: tuple[slice, ...], telling: set[str]
    ) -> tuple[dict[str, npt.NDArray[Any]], npt.NDArray[np.bool_]]:
        """Return the columns of a block, and which of its elements exist, as values of `telling` show."""
        geometry = self.geometry
        shape = tuple(s.stop - s.start for s in slices)
        at = self._positions(slices, shape)
        there = np.ones(int(np.prod(shape, dtype=np.int64)), bool)
        for index in at.values():
            there &= index >= 0
        time = self.variables[geometry.places["date"]]
        where = f"{self.path}, variable {time.name!r}"
        dates = dates_of_numbers(
            self._values(time.name, slices, shape, at), time.text("units"), time.text("calendar") or None, where
        )
        columns = {"date": dates}
        for kind in ("latitude", "longitude"):
            columns[kind] = self._degrees(geometry.places[kind], self._values(geometry.places[kind], slices, shape, at))
        data = np.zeros(len(there), bool)
        for name in geometry.data:
            values = self._values(name, slices, shape, at)
            columns[self.names[name]] = values
            if name in telling:
                data |= ~np.isnan(values) if values.dtype.kind == "f" else True
        lost = there & np.isnat(dates) & data & (telling is self.presence.telling)
        if lost.any():
            first = self._numbers(slices, np.flatnonzero(lost)[:1])[0]
            raise SourceError(
                f"{self.path}: observation {first}{_more(lost)} has data but no date; "
                "correct the file, or leave such observations out of it"
            )
        # Data without a place are kept, since a filter may drop them.
        placed = ~(np.isnan(columns["latitude"]) | np.isnan(columns["longitude"])) | data
        kept = there & ~np.isnat(dates) & placed
        return columns, kept & (data if len(geometry.dims) > 1 and telling else True)

    def _positions(self, slices: tuple[slice, ...], shape: tuple[int, ...]) -> dict[str, Int64]:
        """Return the position of each element along each dimension that another refers to, or -1."""
        geometry = self.geometry
        found: dict[str, Int64] = {}
        own: dict[str, Int64] = {}
        for i, dim in enumerate(geometry.dims):
            own[dim] = _along(i, slices, shape)
        todo = [d for d in geometry.dims if d in geometry.links]
        while todo:
            dim = todo.pop()
            target, kind, name = geometry.links[dim]
            index = own.get(dim, found.get(dim))
            if index is None:
                continue
            found[target] = self._lead(dim, target, kind, name, index)
            if target in geometry.links:
                todo.append(target)
        return found

    def _lead(self, dim: str, target: str, kind: str, name: str, index: Int64) -> Int64:
        """Return the elements of `target` that elements of `dim` belong to; -1 is kept."""
        if kind == "count":
            edges = self.edges[dim]
            led = np.searchsorted(edges, index, side="right") - 1
            led[(index < 0) | (index >= edges[-1])] = -1
            return led
        values = self._whole_numbers(name, index)
        size = self.geometry.sizes[target]
        wrong = values >= size
        if wrong.any():
            i = int(np.argmax(wrong))
            raise ConventionError(
                f"{self.path}: variable {name!r} says that element {int(index[i]) + 1} of {dim} belongs to number "
                f"{int(values[i])} of {target}, counted from 0, which has {size}"
            )
        return values

    def _whole_numbers(self, name: str, index: Int64) -> Int64:
        """Return values of an index variable at some positions, with -1 for missing values and for positions of -1."""
        variable = self.variables[name]
        low, high = (int(index.min()), int(index.max()) + 1) if len(index) else (0, 0)
        low = max(low, 0)
        stored = self.readers[name].read((slice(low, max(low, high)),))
        values = numbers_of(stored, variable.attributes, f"{self.path}, variable {name!r}")
        missing = np.isnan(values) if values.dtype.kind == "f" else np.zeros(len(values), bool)
        whole = np.where(missing, -1, values).astype(np.int64)
        wrong = ((whole < 0) | (whole != values)) & ~missing
        if wrong.any():
            i = int(np.argmax(wrong))
            raise ConventionError(
                f"{self.path}: variable {name!r} is {values[i]:g} for element {low + i + 1}, expected whole numbers "
                "from 0"
            )
        return np.where(index < 0, -1, whole[np.maximum(index - low, 0)]) if len(index) else whole

    def _edges(self, dim: str, target: str, name: str) -> Int64:
        """Return where the elements of each instance start and end along the dimension that is counted."""
        size = self.geometry.sizes[target]
        if size > _MOST_INSTANCES:
            raise ConventionError(f"{self.path}: dimension {target} has {size} elements, more than {_MOST_INSTANCES}")
        stored = self.readers[name].read((slice(0, size),))
        counts = numbers_of(stored, self.variables[name].attributes, f"{self.path}, variable {name!r}")
        counts = np.where(np.isnan(counts), 0, counts) if counts.dtype.kind == "f" else counts
        if (odd := counts[counts != np.trunc(counts)]).size:
            raise ConventionError(f"{self.path}: variable {name!r} has the count {odd[0]:g}, expected whole numbers")
        edges = np.concatenate([[0], np.cumsum(counts.astype(np.int64))])
        total = self.geometry.sizes[dim]
        if (counts < 0).any() or edges[-1] != total:
            found = f"sum to {edges[-1]}" if (counts >= 0).all() else f"fall to {int(counts.min())}"
            raise ConventionError(
                f"{self.path}: the counts of variable {name!r} {found}, expected {total}, the size of {dim}"
            )
        return edges

    def _values(
        self, name: str, slices: tuple[slice, ...], shape: tuple[int, ...], at: Mapping[str, Int64]
    ) -> npt.NDArray[Any]:
        """Return a variable's values for each element of a block."""
        variable = self.variables[name]
        where = f"{self.path}, variable {name!r}"
        dims = self.geometry.dims
        if not any(d in at for d in variable.dims):
            # Dimensions of one element, such as that of the latitude of a mooring, do not number observations.
            key = tuple(slices[dims.index(d)] if d in dims else slice(0, 1) for d in variable.dims)
            own = [d for d in variable.dims if d in dims]
            values = numbers_of(self.readers[name].read(key), variable.attributes, where)
            values = values.reshape([n for n, d in zip(values.shape, variable.dims, strict=True) if d in dims])
            order = sorted(range(len(own)), key=lambda i: dims.index(own[i]))
            sizes = [shape[i] if d in variable.dims else 1 for i, d in enumerate(dims)]
            return np.broadcast_to(values.transpose(order).reshape(sizes), shape).ravel()
        if name not in self.small:
            size = int(np.prod([self.geometry.sizes[d] for d in variable.dims], dtype=np.int64))
            if size > _MOST_INSTANCES:
                raise ConventionError(f"{where}: {size} values are more than {_MOST_INSTANCES}")
            everything = tuple(slice(0, self.geometry.sizes[d]) for d in variable.dims)
            stored = self.readers[name].read(everything)
            self.small[name] = numbers_of(stored, variable.attributes, where)
        index = []
        for dim in variable.dims:
            if dim in at:
                index.append(np.maximum(at[dim], 0))
            elif dim in dims:
                index.append(_along(dims.index(dim), slices, shape))
            else:
                index.append(np.zeros_like(next(iter(at.values()))))
        found: npt.NDArray[Any] = self.small[name][tuple(index)]
        return found

    def _degrees(self, name: str, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Return latitudes or longitudes in degrees, as real numbers."""
        units = self.variables[name].text("units")
        if values.dtype.kind != "f":
            values = values.astype(np.float64)
        if not units or _EAST_OR_NORTH.match(units):
            return values
        try:
            scale, offset = linear(units, "degrees")
        except UnitsError as error:
            raise SourceError(f"{self.path}: variable {name!r} is not an angle: {error.message}") from error
        return values if (scale, offset) == (1.0, 0.0) else values * scale + offset


#: Units of degrees, unless to the west or south.
_EAST_OR_NORTH = re.compile(r"degrees?(?![ _]?[ws])", re.IGNORECASE)


def _along(i: int, slices: tuple[slice, ...], shape: tuple[int, ...]) -> Int64:
    """Return the position of each element of a block along one of its dimensions."""
    view = [-1 if d == i else 1 for d in range(len(shape))]
    return np.broadcast_to(np.arange(slices[i].start, slices[i].stop).reshape(view), shape).ravel()


def _more(wrong: npt.NDArray[np.bool_]) -> str:
    count = int(np.count_nonzero(wrong)) - 1
    return f" and {count} more" if count else ""
