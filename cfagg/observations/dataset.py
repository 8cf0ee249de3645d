"""A store of observations as samples: one per date, of the observations in a window around it."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from cfagg.cf.instants import epoch_text
from cfagg.errors import ConventionError, SelectionError
from cfagg.kernels.lookup import epochs_of_rows
from cfagg.observations.dates import Window, sample_numbers
from cfagg.observations.sample import Details, Header, Sample
from cfagg.observations.selection import DELTATIME, Plan

if TYPE_CHECKING:
    from cfagg.observations.indexes.protocol import Index
    from cfagg.observations.store import ObservationStore

__all__ = ["Observations", "with_statistics"]

type Int64 = np.ndarray[Any, np.dtype[np.int64]]
type Floats = np.ndarray[Any, np.dtype[np.float32]]

#: Columns before the variables in every store: day, second of the day, latitude, longitude.
_META = 4

#: Number of single samples before the windows of all are looked up, and the largest number of samples for that.
_SINGLY, _ALL = 32, 2**20

#: Number of index entries beyond which looking up all windows could take seconds.
_ENTRIES = 2**25

#: Number of rows read at once for several samples.
_AT_ONCE = 2**22


class Observations:
    """Samples of a store of observations, opened by `cfagg.open_observations`.

    ``ds[i]`` is the sample of ``ds.dates[i]``: a `Sample`, float32 (rows, columns), of the observations in the window
    around this date.  ``i`` may be negative.  Slices with any step, lists of numbers and masks give the rows of several
    samples one after the other; ``boundaries`` of the result separates them.

    Datasets are immutable, can be pickled, and can be read in threads and in forked or spawned processes.
    """

    def __init__(self, store: ObservationStore, index: Index, plan: Plan) -> None:
        self._store = store
        self._index = index
        self._plan = plan
        self._lo, self._hi = plan.window.offsets
        self._looked_up = 0
        self._few = len(plan.dates) <= _ALL and index.entries <= _ENTRIES and not store.source.remote
        positions = plan.columns.positions(store.variables)
        whole = np.array_equal(positions, np.arange(len(store.variables)))
        self._columns = None if whole else np.concatenate([np.arange(_META), positions + _META])
        leading = DELTATIME if plan.kind == "deltatime" else ()
        self._header = Header((*leading, *plan.columns.names), self.variables_metadata, frozenset(leading))

    def __getstate__(self) -> dict[str, Any]:
        return {k: v for k, v in self.__dict__.items() if k not in {"dates", "ranges"}}

    def __len__(self) -> int:
        return len(self._plan.dates)

    @cached_property
    def dates(self) -> np.ndarray[Any, np.dtype[np.datetime64]]:
        """Dates of the samples, datetime64[s] (samples,), UTC; read-only."""
        dates = self._plan.dates.epochs().view("datetime64[s]")
        dates.flags.writeable = False
        return dates

    @property
    def path(self) -> str:
        """Path of the store."""
        return str(self._store.path)

    @property
    def store(self) -> ObservationStore:
        """The store that the samples are read from."""
        return self._store

    @property
    def index(self) -> Index:
        """The index by which rows are found."""
        return self._index

    @property
    def plan(self) -> Plan:
        """The parsed and checked arguments of `cfagg.open_observations`."""
        return self._plan

    @property
    def window(self) -> Window:
        """The window that determines which observations belong to a sample."""
        return self._plan.window

    @property
    def frequency(self) -> dt.timedelta:
        """Time between two samples."""
        return dt.timedelta(seconds=self._plan.dates.frequency)

    @property
    def variables(self) -> tuple[str, ...]:
        """Names of the variables, in order."""
        return self._plan.columns.names

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns of ``ds[i]``: the variables, after the columns that ``sample="deltatime"`` adds."""
        return self._header.names

    @property
    def name_to_index(self) -> dict[str, int]:
        """Numbers of the columns of ``ds[i]`` by their names."""
        return {name: i for i, name in enumerate(self.columns)}

    @property
    def dtype(self) -> np.dtype[np.float32]:
        """Type of the samples."""
        return np.dtype(np.float32)

    @property
    def shape(self) -> tuple[None, int]:
        """Shape of a sample: any number of rows, and the number of columns."""
        return None, len(self.columns)

    @property
    def variables_metadata(self) -> dict[str, dict[str, Any]]:
        """Attributes of the variables, such as ``units``, if the store has any."""
        stored = self._store.attributes.variables_metadata
        pairs = zip(self._plan.columns.names, self._plan.columns.stored, strict=True)
        return {name: dict(stored[old]) for name, old in pairs if old in stored}

    @property
    def statistics(self) -> dict[str, np.ndarray[Any, np.dtype[np.float64]]]:
        """Statistics of the variables by name, such as ``mean``: float64 (variables,), in the order of `variables`.

        They are those of the store or those chosen with ``statistics=``, whatever the area, thinning and dates.
        """
        names = self._plan.columns.stored
        if (chosen := self._plan.statistics) is not None:
            return {k: np.array([v[n] for n in names], np.float64) for k, v in chosen.items()}
        positions = self._plan.columns.positions(self._store.variables)
        return {k: np.asarray(v)[positions] for k, v in self._store.statistics.items()}

    def statistics_tendencies(self, step: Any = None) -> dict[str, np.ndarray[Any, np.dtype[np.float64]]]:
        """Return statistics of how the variables change over a time step, float64 (variables,) by name.

        They are stored statistics of means over the cells of a grid, if the recipe of the store requested them.

        Parameters
        ----------
        step : int, str, datetime.timedelta or numpy.timedelta64, optional
            The time step, such as ``"6h"``; by default the time between two samples.

        Raises
        ------
        SelectionError
            If the store has none for this step.
        """
        from cfagg.observations.chosen_statistics import stored_tendencies

        return stored_tendencies(self._store, self._plan, step)

    def metadata(self) -> dict[str, Any]:
        """Return the facts on training data that inference needs: sources, recipe, versions, statistics, selections.

        The result consists of JSON types.
        """
        from cfagg.observations.metadata import describe

        return describe(self)

    def __repr__(self) -> str:
        plan = self._plan
        return (
            f"<Observations of {self.path}: {len(self)} samples, {plan.dates}, window {plan.window}, "
            f"{len(self.variables)} variable{'s'[: len(self.variables) != 1]}>"
        )

    def _repr_html_(self) -> str:
        from cfagg.display.facts import facts_html

        facts = (
            ("store", self.path),
            ("samples", f"{len(self):,}"),
            ("dates", self._plan.dates),
            ("window", self._plan.window),
        )
        return facts_html("Observations", facts, [("variables", self.variables)])

    @cached_property
    def ranges(self) -> Int64:
        """Rows in the windows of all samples, int64 (samples, 2): first row and the row after the last; read-only.

        They are looked up once for all samples, before any area or thinning.
        """
        dates = self._plan.dates.epochs()
        ranges = np.asarray(self._index.find_many(dates + self._lo, dates + self._hi), np.int64)
        ranges.flags.writeable = False
        return ranges

    @property
    def counts(self) -> Int64:
        """Number of rows in the window of each sample, int64 (samples,), before any area or thinning."""
        counts: Int64 = self.ranges[:, 1] - self.ranges[:, 0]
        return counts

    def __getitem__(self, key: Any) -> Any:
        """Return a sample, or the rows of several; ``ds[i, columns]`` selects columns of it."""
        if isinstance(key, tuple):
            if len(key) != 2:
                raise SelectionError(f"ds[{key}]: expected a sample, or a sample and columns: ds[i] or ds[i, columns]")
            return self[key[0]][:, key[1]]
        which = self._positions(key)
        if isinstance(which, int):
            block, details = self._one(which, self._columns)
        else:
            block, details = self._several(which, self._columns)
        return self._sample(block, details)

    def __iter__(self) -> Iterator[Sample]:
        return (self[i] for i in range(len(self)))

    def details(self, key: Any) -> Details:
        """Return places and dates of the rows of ``ds[key]``.

        Parameters
        ----------
        key : int, slice, sequence of int, or mask
            As for ``ds[key]``.

        Returns
        -------
        Details
            ``latitudes`` and ``longitudes`` float32 (rows,), ``dates`` datetime64[s] (rows,), ``timedeltas`` int64
            (rows,): seconds from the sample's date to the observation.
        """
        which = self._positions(key)
        columns = np.arange(_META)
        return (self._one(which, columns) if isinstance(which, int) else self._several(which, columns))[1]

    def prefetch(self, *keys: Any) -> None:
        """Start reading samples in the background, so that ``ds[i]`` finds their rows in memory.

        Parameters
        ----------
        *keys : int, slice, sequence of int, or mask
            The next samples, as for ``ds[key]``.
        """
        numbers = [np.atleast_1d(np.asarray(self._positions(key), np.int64)) for key in keys]
        if numbers:
            which = np.concatenate(numbers)
            if "ranges" in self.__dict__ or (len(self) <= _ALL and not self._store.source.remote):
                ranges = self.ranges[which]
            else:
                dates = self._plan.dates.start + which * self._plan.dates.frequency
                ranges = np.asarray(self._index.find_many(dates + self._lo, dates + self._hi))
            self._store.data.prefetch(ranges)

    def subset(
        self,
        *,
        start: Any = None,
        end: Any = None,
        window: str | Window | None = None,
        frequency: Any = None,
        select: Any = None,
        drop: Any = None,
        reorder: Any = None,
        rename: Mapping[str, str] | None = None,
        area: Any = None,
        thin: Any = None,
        statistics: Any = None,
        sample: Literal["data", "deltatime"] | None = None,
    ) -> Observations:
        """Return another dataset of the same store; this one is unchanged.

        Parameters
        ----------
        start, end, window, frequency, select, drop, reorder, rename, area, thin, statistics, sample
            As for `cfagg.open_observations`; omitted arguments stay the same.  Names of variables are those of this
            dataset.  An area or thinning replaces the present one.

        Returns
        -------
        Observations
        """
        changes = {
            "start": start, "end": end, "window": window, "frequency": frequency, "select": select, "drop": drop,
            "reorder": reorder, "rename": rename, "area": area, "thin": thin, "sample": sample,
        }  # fmt: skip
        changed = Observations(self._store, self._index, self._plan.changed(changes))
        return changed if statistics is None else with_statistics(changed, statistics)

    def _positions(self, key: Any) -> int | Int64:
        """Return the number of a sample, or the numbers of several, int64 (k,), none of them negative."""
        dates = self._plan.dates
        return sample_numbers(key, len(dates), lambda: f", from {epoch_text(dates.start)} to {epoch_text(dates.last)}")

    def _one(self, number: int, columns: Int64 | None) -> tuple[Floats, Details]:
        date = self._plan.dates.start + number * self._plan.dates.frequency
        start, stop = self._range(number, date)
        block = self._chosen(self._store.data.read(start, stop, columns), start, stop, date)
        return block, Details(block[:, :_META], np.array([date], np.int64))

    def _range(self, number: int, date: int) -> tuple[int, int]:
        """Return the rows in the window of a sample; after some single look-ups, all windows are looked up at once."""
        if "ranges" not in self.__dict__ and self._few:
            self._looked_up += 1
        if "ranges" in self.__dict__ or self._looked_up > _SINGLY:
            start, stop = self.ranges[number].tolist()
            return start, stop
        return self._index.find(date + self._lo, date + self._hi)

    def _several(self, numbers: Int64, columns: Int64 | None) -> tuple[Floats, Details]:
        dates = self._plan.dates.start + numbers * self._plan.dates.frequency
        ranges = np.asarray(self._index.find_many(dates + self._lo, dates + self._hi))
        blocks: list[Floats] = []
        for few in _groups(ranges):
            read = self._store.data.read_many(ranges[few], columns)
            pairs = zip(read, ranges[few].tolist(), dates[few].tolist(), strict=True)
            blocks += [self._chosen(block, start, stop, date) for block, (start, stop), date in pairs]
        width = _META + len(self._store.variables) if columns is None else len(columns)
        block = np.concatenate([np.empty((0, width), np.float32), *blocks])
        which = np.repeat(np.arange(len(blocks), dtype=np.int64), [len(b) for b in blocks])
        return block, Details(block[:, :_META], dates, which)

    def _chosen(self, block: Floats, start: int, stop: int, date: int) -> Floats:
        """Return the rows of a sample that remain after area and thinning, float32 (rows, 4 + variables)."""
        if len(block):
            self._check(block, start, stop, date)
        area, thin = self._plan.area, self._plan.thin
        if area is None and thin is None:
            return block
        rows = np.arange(start, stop)
        if area is not None:
            inside = area.mask(block[:, 2], block[:, 3])
            block, rows = block[inside], rows[inside]
        if thin is not None:
            block = np.ascontiguousarray(block[thin.keep(date, rows, block[:, 2], block[:, 3])])
        return block

    def _check(self, block: Floats, start: int, stop: int, date: int) -> None:
        """Refuse rows outside the window, which mean that the index belongs to other data."""
        ends = block[:: max(len(block) - 1, 1), :2].tolist()
        first, last = ends[0], ends[-1]
        lo, hi = date + self._lo, date + self._hi
        # False for NaN, too.
        if lo <= first[0] * 86400 + first[1] <= last[0] * 86400 + last[1] < hi:
            return
        raise ConventionError(
            f"{self.path}: rows {start} to {stop - 1} should have dates from {epoch_text(lo)} to "
            f"{epoch_text(hi - 1)}, but have (day, second) {first} to {last}: the index ({self._index.kind}) does not "
            "belong to the data; see details with: cfagg obs check; write a new one with: cfagg obs index"
        )

    def _sample(self, block: Floats, details: Details) -> Sample:
        if self._plan.kind == "data":
            return Sample(block[:, _META:], details, self._header)
        epochs = epochs_of_rows(block)
        first = details.references[0] if details.which is None else details.references[details.which]
        # The difference replaces the second of the day, as the block is not shared and its dates are known.
        block[:, 1] = epochs - first
        known = Details(block[:, :_META], details.references, details.which, epochs)
        return Sample(block[:, 1:], known, self._header)


def _groups(ranges: Int64) -> Iterator[slice]:
    """Split ranges of rows into groups that are read at once, since an area may keep few of their rows."""
    edges = np.cumsum(ranges[:, 1] - ranges[:, 0])
    at = 0
    while at < len(ranges):
        before = edges[at - 1] if at else 0
        end = max(at + 1, int(np.searchsorted(edges, before + _AT_ONCE, "right")))
        yield slice(at, end)
        at = end


def with_statistics(dataset: Observations, value: Any, options: Any = None, allow: Iterable[str] = ()) -> Observations:
    """Return a dataset with other statistics; see `cfagg.observations.chosen_statistics.chosen_statistics`."""
    from cfagg.observations.chosen_statistics import Taken, chosen_statistics

    if isinstance(value, Observations):
        value = Taken(value.statistics, value.variables, value.path)
    found = chosen_statistics(dataset.store, dataset.index, dataset.plan, value, options, allow)
    return Observations(dataset.store, dataset.index, replace(dataset.plan, statistics=found))
