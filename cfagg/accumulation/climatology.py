"""Climatologies and anomalies: means of calendar months or seasons over all years, and departures from them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import numpy.typing as npt

from cfagg.accumulation.evaluate import STATISTICS
from cfagg.accumulation.grouping import Grouping, grouping_of, periods, steps, time_coordinate
from cfagg.errors import SelectionError

if TYPE_CHECKING:
    import xarray as xr

    from cfagg.accumulation.labels import Dims, Labels

__all__ = ["anomaly", "climatology"]

Int64 = npt.NDArray[np.int64]


class Answering(Protocol):
    """What a climatology is made of: an array that gives statistics of any part of it, by groups as well."""

    @property
    def labels(self) -> Labels:
        """Its dimensions and coordinates."""

    def groupby(self, key: Any) -> Any:
        """Return it grouped by a component of dates."""

    def answer(self, *asked: Any, **options: Any) -> Any:
        """Return a statistic."""


def climatology(acc: Answering, by: str, dim: Dims, statistic: str, options: Mapping[str, Any]) -> Any:
    """Return a statistic of each group of times, over all years."""
    if statistic not in STATISTICS:
        raise SelectionError(f"no statistic {statistic!r}; {', '.join(STATISTICS)} are known")
    time, dates = time_coordinate(acc.labels)
    dims = (time,) if dim is None else (time, dim) if isinstance(dim, str) else dim if dim is ... else (time, *dim)
    return getattr(acc.groupby(f"{dates}.{by}"), statistic)(dims, **options)


def anomaly(acc: Answering, by: str, dim: Dims, reference: Any, each: str, options: Mapping[str, Any]) -> xr.DataArray:
    """Return the mean of each stretch of time less the climatology of its group."""
    if each not in ("period", "step"):
        raise SelectionError(f"each = {each!r}; expected 'period' or 'step'")
    labels, options = acc.labels, dict(options)
    keep_attrs = options.pop("keep_attrs", True)
    if options.pop("explain", False):
        raise SelectionError("an anomaly is the difference of two means; explain climatology() and groupby() instead")
    time, dates = time_coordinate(labels)
    key = grouping_of(labels, f"{dates}.{by}")
    picked = labels.pick(**options)
    dims = () if dim is None else tuple(d for d in labels.chosen_dims(dim, picked) if d != time)
    if isinstance(picked.get(time), int):
        raise SelectionError(f"anomalies need a range along {time!r}; one position of it was selected")
    groups, positions = key.of(picked.get(time))
    if (np.diff(positions) <= 0).any():
        raise SelectionError(f"anomalies need ascending positions along {time!r}")
    first, codes = periods(groups) if each == "period" else steps(groups)
    if each == "step":
        part = acc.answer("mean", dims, {**picked, time: positions[first]}, keep_attrs=keep_attrs)
    else:
        stretches = _stretches(labels, time, dates, positions, first, groups)
        part = acc.answer("mean", (time, *dims), picked, stretches, keep_attrs=keep_attrs)
    base = positions if reference is None else _selected(labels, time, dates, reference)
    usual = acc.answer("mean", (time, *dims), {**picked, time: base}, key)
    expected = usual.reindex({key.name: groups.values}).isel({key.name: codes})
    out: xr.DataArray = part.copy(data=part.values - expected.values)
    return out.assign_coords({key.name: (dates if each == "period" else time, groups.values[codes])})


def _selected(labels: Labels, time: str, dates: str, chosen: Any) -> Any:
    """Return the positions along the dimension of time whose dates are chosen by labels."""
    import xarray as xr

    if dates != time:
        values = labels.coords[dates].values
        array = xr.DataArray(np.zeros(len(values), bool), {dates: values}, (dates,), labels.name)
        labels = labels.of_array(array)
    return labels.pick(sel={dates: chosen})[dates]


def _stretches(labels: Labels, time: str, dates: str, positions: Int64, first: Int64, groups: Grouping) -> Grouping:
    """Return a group for each stretch, labelled with its first time."""
    number = np.zeros(len(positions), np.int64)
    number[first] = 1
    number = np.where(groups.codes >= 0, np.cumsum(number) - 1, -1)
    codes = np.full(labels.sizes[time], -1, np.int64)
    codes[positions] = number
    coordinate = labels.coords[dates]
    return Grouping(time, dates, coordinate.values[positions[first]], codes, tuple(coordinate.attrs.items()))
