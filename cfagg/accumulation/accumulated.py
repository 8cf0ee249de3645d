"""What users hold: an array with its accumulation, asked for statistics over any range of any dimensions."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Literal, Self, TypedDict, Unpack

from cfagg.accumulation.grouping import Grouping, grouping_of
from cfagg.accumulation.labels import Dims, Labels, Positions, labels_of
from cfagg.accumulation.query import labelled, query
from cfagg.accumulation.sums import evaluate
from cfagg.errors import CfaggError, SelectionError
from cfagg.errors.arguments import a_number

if TYPE_CHECKING:
    from types import TracebackType

    import xarray as xr

    from cfagg.accumulation.group import Group

__all__ = ["Accumulated", "Statistics", "open_accumulated"]


#: Positions or labels by dimension.
type Selection = Mapping[Any, Any] | None


class Options(TypedDict, total=False):
    """What every statistic takes by name, as `Statistics` says."""

    method: str | None
    tolerance: Any
    keep_attrs: bool
    explain: bool


class Statistics:
    """Statistics of an accumulated array, over all positions or by groups.

    The reductions take dimensions and selections:

    dim : str, sequence of str, ``...`` or None
        Dimensions to reduce.  ``...`` means all; `None` too, or with groups the grouped one.
    isel : mapping of dimension to int, slice, int array or bool array
        Positions to select before, as of `xarray.DataArray.isel`.
    sel : mapping of dimension to label, slice of labels or labels
        Labels to select before, as of `xarray.DataArray.sel`: ``{"time": slice("1990", "1999"), "lat": 50.5}``.
    method, tolerance
        Inexact matches of labels, as of `xarray.DataArray.sel`.
    ddof : int
        Of `std` and `var`: the divisor is the number of values less `ddof`.  0 where there are weights.
    keep_attrs : bool
        Whether the result has the attributes of the variable, with units and ``cell_methods`` of the statistic.
    explain : bool
        Return an `Explanation` of what would be read, and read nothing.

    Missing values and infinities are left out.  Where there are no values the result is NaN, of sum and count 0.  Every
    answer is checked: if something on which it depends has changed since it was accumulated, `StaleError` is raised.
    """

    def __init__(self, group: Group, labels: Labels, key: Grouping | None = None, trust_for: float = 0.0) -> None:
        self._group = group
        self._labels = labels
        self._key = key
        self._trust_for = trust_for

    def __repr__(self) -> str:
        groups = (
            "" if self._key is None else f" by {self._key.name}, {len(self._key.values)} groups along {self._key.dim}"
        )
        return f"<Accumulated {self._labels.name!r}{groups}>"

    def _repr_html_(self) -> str:
        from cfagg.display.facts import facts_html

        key = self._key
        facts = () if key is None else (("by", key.name), ("along", key.dim))
        labels = () if key is None else tuple(map(str, key.values))
        return facts_html(f"Accumulated {self._labels.name}, in groups", facts, [("groups", labels)])

    def sum(self, dim: Dims = None, isel: Selection = None, sel: Selection = None, **options: Unpack[Options]) -> Any:
        """Return the sum, of values times weights where there are weights; float64."""
        return self._reduce("sum", dim, isel, sel, **options)

    def mean(self, dim: Dims = None, isel: Selection = None, sel: Selection = None, **options: Unpack[Options]) -> Any:
        """Return the mean, weighted where there are weights; float64."""
        return self._reduce("mean", dim, isel, sel, **options)

    def count(self, dim: Dims = None, isel: Selection = None, sel: Selection = None, **options: Unpack[Options]) -> Any:
        """Return the number of values that are not missing; int64."""
        return self._reduce("count", dim, isel, sel, **options)

    def min(self, dim: Dims = None, isel: Selection = None, sel: Selection = None, **options: Unpack[Options]) -> Any:
        """Return the smallest value; float64."""
        return self._reduce("min", dim, isel, sel, **options)

    def max(self, dim: Dims = None, isel: Selection = None, sel: Selection = None, **options: Unpack[Options]) -> Any:
        """Return the largest value; float64."""
        return self._reduce("max", dim, isel, sel, **options)

    def std(
        self,
        dim: Dims = None,
        isel: Selection = None,
        sel: Selection = None,
        *,
        ddof: int = 0,
        **options: Unpack[Options],
    ) -> Any:
        """Return the standard deviation, weighted where there are weights; float64."""
        return self._reduce("std", dim, isel, sel, ddof=ddof, **options)

    def var(
        self,
        dim: Dims = None,
        isel: Selection = None,
        sel: Selection = None,
        *,
        ddof: int = 0,
        **options: Unpack[Options],
    ) -> Any:
        """Return the variance, weighted where there are weights; float64, in units squared."""
        return self._reduce("var", dim, isel, sel, ddof=ddof, **options)

    def _reduce(
        self,
        statistic: str,
        dim: Dims,
        isel: Selection,
        sel: Selection,
        *,
        method: str | None = None,
        tolerance: Any = None,
        **options: Any,
    ) -> Any:
        """Return a statistic of a selection."""
        return self.answer(statistic, dim, self._labels.pick(isel, sel, method, tolerance), **options)

    def answer(
        self,
        statistic: str,
        dim: Dims,
        picked: Mapping[str, Positions],
        grouping: Grouping | None = None,
        *,
        keep_attrs: bool = True,
        explain: bool = False,
        ddof: int = 0,
    ) -> Any:
        """Return a statistic of data that were the accumulated ones until it was computed, else raise `StaleError`."""
        from cfagg.accumulation.freshness import check

        a_number(ddof, "ddof", "a number", SelectionError)
        asked = query(self._labels, self._group.source.shape, dim, picked, grouping or self._key)
        group = self._group.asked()
        request = asked.request.resolve(group.source.shape)
        if explain:
            check(group, request, self._trust_for)
            from cfagg.accumulation.explain import explain as explained

            return explained(group, request, statistic)
        try:
            values = evaluate(group, asked.request, statistic, ddof)
        except (CfaggError, OSError):
            # That the data have changed is the better reason, if it is one.
            check(group, request)
            raise
        check(group, request, self._trust_for)
        return labelled(
            asked.arrange(values),
            self._labels,
            statistic,
            reduced=asked.reduced,
            picked=asked.picked,
            grouping=asked.grouping,
            keep_attrs=keep_attrs,
        )


class Accumulated(Statistics):
    """An array of a Zarr store with its accumulation.

    Made by `open_accumulated`.  The methods `sum`, `mean`, `count`, `min`, `max`, `std` and `var` return what those of
    xarray would, computed from stored sums: their cost does not grow with the length of a range.

    Parameters
    ----------
    group : Group
        The accumulation.
    labels : Labels
        Coordinates and attributes of the array.
    trust_for : float
        Seconds for which one look at a stored object holds.
    """

    def __init__(self, group: Group, labels: Labels, trust_for: float = 0.0) -> None:
        super().__init__(group, labels, None, trust_for)

    @property
    def name(self) -> str:
        """Name of the variable."""
        return self._labels.name

    @property
    def dims(self) -> tuple[str, ...]:
        """Dimensions."""
        return self._labels.dims

    @property
    def shape(self) -> tuple[int, ...]:
        """Sizes of the dimensions."""
        return self._labels.shape

    @property
    def sizes(self) -> dict[str, int]:
        """Sizes by dimension."""
        return self._labels.sizes

    @property
    def coords(self) -> xr.Dataset:
        """The coordinates, as a dataset without data variables."""
        return self._labels.coords

    @property
    def labels(self) -> Labels:
        """Dimensions, coordinates and attributes of the array."""
        return self._labels

    @property
    def group(self) -> Group:
        """The accumulation itself: its arrays, samples and settings."""
        return self._group

    @property
    def combinations(self) -> tuple[tuple[str, ...], ...]:
        """Combinations of dimensions along which sums are stored."""
        return tuple(self._group.sums)

    def groupby(self, key: str | xr.DataArray) -> Statistics:
        """Return the array by groups of positions along one dimension.

        Parameters
        ----------
        key : str or xarray.DataArray
            ``"time.month"``, ``"time.season"``, ``"time.year"``, ``"time.day"`` or any other component that xarray's
            ``.dt`` has; the name of a one-dimensional coordinate; or one value for each position of a dimension.

        Returns
        -------
        Statistics
            Its methods return one value for each group, along a dimension that has the name of the key (``month``) and
            stands in place of the grouped one.  ``dim=None`` reduces the grouped dimension only.

        Raises
        ------
        SelectionError
            No such coordinate, or none with dates.
        """
        return Statistics(self._group, self._labels, grouping_of(self._labels, key), self._trust_for)

    def climatology(self, by: str = "month", dim: Dims = None, *, statistic: str = "mean", **options: Any) -> Any:
        """Return a statistic of each calendar month or season over all years.

        Parameters
        ----------
        by : str
            ``"month"``, ``"season"``, ``"dayofyear"``, ``"hour"`` or another component of dates.
        dim : str, sequence of str or ..., optional
            Dimensions to reduce besides time.
        statistic : str
            ``"mean"``, ``"sum"``, ``"min"``, ``"max"``, ``"std"``, ``"var"`` or ``"count"``.
        **options
            ``isel``, ``sel`` and others, as of `mean`.
        """
        from cfagg.accumulation.grouping import climatology

        return climatology(self, by, dim, statistic, options)

    def anomaly(
        self,
        by: str = "month",
        dim: Dims = None,
        *,
        reference: Any = None,
        each: Literal["period", "step"] = "period",
        **options: Any,
    ) -> xr.DataArray:
        """Return the departures of each month or season of the series from its climatology.

        Parameters
        ----------
        by : str
            As of `climatology`.
        dim : str, sequence of str or ..., optional
            Dimensions that are averaged over besides; not that of time.
        reference : slice of labels, optional
            Part of the series that the climatology is made of; all that is selected by default.
        each : {"period", "step"}
            One value for every unbroken stretch of time in one group, such as January 1990 or the winter of 1990,
            or one for each time step.  The label of a stretch is its first time.
        **options
            ``isel``, ``sel`` and others, as of `mean`.
        """
        from cfagg.accumulation.grouping import anomaly

        return anomaly(self, by, dim, reference, each, options)

    def close(self) -> None:
        """Do nothing, since no file is kept open."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        sizes = ", ".join(f"{d}: {n}" for d, n in self.sizes.items())
        sums = ", ".join(" x ".join(c) for c in self.combinations) or "nothing"
        weighted = "" if self._group.weights is None else ", weighted"
        return f"<Accumulated {self.name!r} ({sizes}) {self._group.source.dtype}; sums over {sums}{weighted}>"

    def _repr_html_(self) -> str:
        from cfagg.display.facts import facts_html

        facts = (
            ("store", self._group.source.store),
            ("dimensions", ", ".join(f"{d}: {n:,}" for d, n in self.sizes.items())),
            ("type", self._group.source.dtype),
            ("weights", "none" if self._group.weights is None else "weighted"),
        )
        sums = [" × ".join(c) for c in self.combinations]
        return facts_html(f"Accumulated {self.name}", facts, [("sums over", sums)])


def open_accumulated(
    store: str | os.PathLike[str],
    variable: str,
    *,
    weights: Any = None,
    adopt: bool = False,
    trust_for: float = 0.0,
    allow: str | os.PathLike[str] | Iterable[str | os.PathLike[str]] = (),
    storage_options: Mapping[str, Any] | None = None,
) -> Accumulated:
    """Open an array of a Zarr store that has an accumulation.

    Parameters
    ----------
    store : path
        Directory of the store, or its URL.
    variable : str
        Path of the array within the store.
    weights : str or array, optional
        The weights of the cells, as `accumulate` takes them, where another program wrote weighted sums without the
        weights: they are compared with the sums.  Without them ranges are answered that begin and end where sums do.
    adopt : bool
        Whether the store may be a copy of the one that was accumulated: stored objects that are not the very files that
        were read are read once now, and taken for them if their contents are the same.  Nothing is written; see
        ``accumulate(..., adopt=True)`` for stores that can be written to.
    trust_for : float
        Seconds for which one check of a stored object is trusted.  By default every answer checks all objects on
        which it depends, which takes some microseconds for each.
    allow : iterable of path, optional
        Directories and files outside the store that links in it may lead to; of a URL, where it may redirect to.
    storage_options : mapping, optional
        Of a URL, as for `cfagg.read`.

    Returns
    -------
    Accumulated
        Offers `sum`, `mean`, `count`, `min`, `max`, `std`, `var`, over ranges and by groups.

    Raises
    ------
    NotAccumulatedError
        The array has no accumulation.
    StaleError
        The array is described in another way than when it was accumulated, or a coordinate has changed; with `adopt`,
        or some stored object has other contents.
    OptionError
        `trust_for` is not a number of seconds, or `weights` are not those of the accumulation.
    SourceError
        There is no such array, or a coordinate of it cannot be read.

    Examples
    --------
    >>> import tempfile, numpy as np, xarray as xr, cfagg
    >>> store = tempfile.mkdtemp()
    >>> time = xr.date_range("2001-01-01", periods=59, freq="D")
    >>> tas = xr.DataArray(np.arange(59.0), coords={"time": time}, dims="time", name="tas", attrs={"units": "K"})
    >>> _ = tas.chunk(time=10).to_dataset().to_zarr(store, consolidated=False)
    >>> _ = cfagg.accumulate(store, "tas")
    >>> acc = cfagg.open_accumulated(store, "tas")
    >>> acc.mean("time", sel={"time": "2001-02"}).item()
    44.5
    >>> acc.groupby("time.month").mean().values
    array([15. , 44.5])
    """
    from cfagg.accumulation.freshness import check, check_trust
    from cfagg.accumulation.opening import open_group
    from cfagg.errors.arguments import paths
    from cfagg.storage.tree import prefixes
    from cfagg.storage.urls import a_place, is_url

    trusted = check_trust(trust_for)
    place: str | os.PathLike[str] = store
    places: tuple[str, ...] = ()
    if is_url(store) or storage_options:
        place = a_place(store, storage_options, paths(allow), name="store", expected="name a Zarr store")
    else:
        places = prefixes(allow)
    group = open_group(place, variable, weights=weights, allow=places)
    if adopt:
        from cfagg.accumulation.adopting import adopted

        group = adopted(group)
    try:
        labels = labels_of(group)
    finally:
        # Now, so that the labels are those of the data; and if they cannot be read, this may be why.
        check(group)
    return Accumulated(group, labels, trusted)
