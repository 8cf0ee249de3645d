"""An array with its accumulation, which gives statistics over any range of any dimensions."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np

from cfagg.accumulation.labels import (
    Dims,
    Labels,
    grouping_of,
    labels_of,
    periods,
    selected,
    steps,
    stretches_of,
    time_coordinate,
)
from cfagg.accumulation.query import METHODS, Statistics, check_options
from cfagg.display.escape import printable
from cfagg.errors import SelectionError
from cfagg.errors.arguments import a_text, dimensions, flags, is_one, shared, shown

if TYPE_CHECKING:
    from types import TracebackType

    import xarray as xr

    from cfagg.accumulation.group import Group

__all__ = ["Accumulated", "open_accumulated"]


class Accumulated(Statistics):
    """An array of a Zarr store with its accumulation.

    Returned by `open_accumulated`.  The methods `sum`, `mean`, `count`, `min`, `max`, `std` and `var` agree with
    xarray's but use stored sums, so that their cost does not grow with the length of a range.

    Parameters
    ----------
    group : Group
        The accumulation.
    labels : Labels
        Coordinates and attributes of the array.
    trust_for : float
        Seconds for which one check of a stored object is trusted.
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
        """Return the array grouped by positions along one dimension.

        Parameters
        ----------
        key : str or xarray.DataArray
            ``"time.month"``, ``"time.season"``, ``"time.year"``, ``"time.day"`` or any other component of xarray's
            ``.dt``; the name of a one-dimensional coordinate; or one value for each position of a dimension.

        Returns
        -------
        Statistics
            Its methods return one value for each group, along a dimension that is named after the key (``month``) and
            replaces the grouped one.  ``dim=None`` reduces the grouped dimension only.

        Raises
        ------
        SelectionError
            There is no such coordinate, or its values are not dates.
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
            Options of `mean`, such as ``isel`` and ``sel``.
        """
        if a_text(statistic, "statistic", "its name") not in METHODS and statistic != "count":
            raise SelectionError(f"no statistic {statistic!r}; expected one of {', '.join([*METHODS, 'count'])}")
        time, dates = time_coordinate(self._labels)
        dims = (time,) if dim is None else dim if dim is ... else (time, *dimensions(dim))
        return getattr(self.groupby(f"{dates}.{by}"), statistic)(dims, **options)

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
            As for `climatology`.
        dim : str, sequence of str or ..., optional
            Further dimensions to average over, apart from time.
        reference : slice of labels, optional
            Part of the series from which the climatology is computed; by default the whole selection.
        each : {"period", "step"}
            One value for every unbroken period in one group, such as January 1990 or the winter of 1990, or one for
            each time step.  The label of a period is its first time.
        **options
            Options of `mean`, such as ``isel`` and ``sel``.
        """
        if not is_one(each, ("period", "step")):
            raise SelectionError(f"each = {shown(each)}; expected 'period' or 'step'")
        labels, keep_attrs = self._labels, options.pop("keep_attrs", True)
        if options.pop("explain", False):
            raise SelectionError(
                "an anomaly is the difference of two means and cannot be explained; explain climatology() or groupby() "
                "instead"
            )
        time, dates = time_coordinate(labels)
        key = grouping_of(labels, f"{dates}.{by}")
        check_options("anomaly", options, ("isel", "sel", "method", "tolerance", "keep_attrs"), labels.dims)
        picked = labels.pick(**options)
        dims = () if dim is None else tuple(d for d in labels.chosen_dims(dim, picked) if d != time)
        if isinstance(picked.get(time), int):
            raise SelectionError(f"anomalies need a range along {time!r}; one position of it was selected")
        groups, positions = key.of(picked.get(time))
        if (np.diff(positions) <= 0).any():
            raise SelectionError(
                f"anomalies need ascending positions along {time!r}: select each position once, in order"
            )
        of_dates = labels.coords[dates][positions]
        first, codes = periods(groups, of_dates, by) if each == "period" else steps(groups)
        if each == "step":
            part = self.answer("mean", dims, {**picked, time: positions[first]}, keep_attrs=keep_attrs)
        else:
            stretches = stretches_of(labels, time, dates, positions, first, groups)
            part = self.answer("mean", (time, *dims), picked, stretches, keep_attrs=keep_attrs)
        base = positions if reference is None else selected(labels, time, dates, reference)
        usual = self.answer("mean", (time, *dims), {**picked, time: base}, key)
        expected = usual.reindex({key.name: groups.values}).isel({key.name: codes})
        out: xr.DataArray = part.copy(data=part.values - expected.values)
        return out.assign_coords({key.name: (dates if each == "period" else time, groups.values[codes])})

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
        of = f"{self.name!r} ({sizes}) {self._group.source.dtype}"
        return printable(f"<Accumulated {of}; sums over {sums}{weighted}>")

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
        The weights of the cells, as for `accumulate`, if another program wrote weighted sums without the weights.  They
        are compared with the sums.  Without them, only ranges that begin and end at stored sums can be computed.
    adopt : bool
        Whether the store may be a copy of the one that was accumulated.  Stored objects that are not the files that
        were summed are then read once, and accepted if their contents are the same.  Nothing is written; for writable
        stores, use ``accumulate(..., adopt=True)``.
    trust_for : float
        Seconds for which one check of a stored object is trusted.  By default every query checks all objects on which
        its result depends, which takes some microseconds for each.
    allow : iterable of path, optional
        Directories and files outside the store that its links may point to; for a URL, allowed targets of redirects.
    storage_options : mapping, optional
        For a URL, as for `cfagg.read`.

    Returns
    -------
    Accumulated
        The array, with `sum`, `mean`, `count`, `min`, `max`, `std` and `var` over ranges and by groups.

    Raises
    ------
    NotAccumulatedError
        The array has no accumulation.
    StaleError
        The description of the array or a coordinate has changed since it was accumulated; with `adopt`, also if the
        contents of a stored object have changed.
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
    from cfagg.formats.zarr.remote import one_look
    from cfagg.storage.tree import prefixes
    from cfagg.storage.urls import a_place, is_url

    flags(adopt=adopt)
    shared(storage_options=storage_options)
    trusted = check_trust(trust_for)
    place: str | os.PathLike[str] = store
    places: tuple[str, ...] = ()
    if is_url(store) or storage_options:
        place = a_place(store, storage_options, paths(allow), name="store", expected="name a Zarr store")
    else:
        places = prefixes(allow)
    with ExitStack() as stack:
        stack.enter_context(one_look())
        group = open_group(place, variable, weights=weights, allow=places)
        if adopt:
            from cfagg.accumulation.adopting import adopted

            group = adopted(group)
        try:
            labels = labels_of(group)
        finally:
            stack.close()
            # After reading the labels, so that they match the data; a change may also be why reading failed.
            check(group)
    return Accumulated(group, labels, trusted)
