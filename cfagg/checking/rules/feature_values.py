"""Values of counts, indices, identifiers and coordinates in discrete sampling geometries: CF chapter 9."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from cfagg.checking.context import Context
from cfagg.checking.features import Features, axes_of, features
from cfagg.checking.missing import missing_mask, unpacked, unsigned, unwritten
from cfagg.display.sizes import count_text
from cfagg.findings.finding import Hit
from cfagg.findings.rule import rule
from cfagg.model.dataset import Dimension, Variable


def _present(v: Variable) -> npt.NDArray[np.int64]:
    """Return the integers of a variable, without missing ones."""
    if v.dialect is not None:
        return np.empty(0, np.int64)  # they are in other files
    values = unsigned(v, v.values().ravel())
    present: npt.NDArray[np.int64] = values[~missing_mask(v, values)].astype(np.int64)
    return present


@rule("DSG008", each=lambda c: features(c).counts, needs="data")
def counts_fill_the_sample_dimension(_: Context, v: Variable, sample: Dimension | None) -> Iterator[Hit]:
    """Counts are not negative and add up to the size of the sample dimension."""
    if sample is None or v.kind != "integer" or v.dialect is not None or unwritten(v):
        return
    values = _present(v)
    total = int(values.sum())
    if (values < 0).any():
        yield Hit(v, None, f"the count {int(values.min())} is negative")
    elif total > sample.size:
        yield Hit(v, None, f"the counts add up to {total}, the sample dimension {sample.name!r} has size {sample.size}")
    elif total < sample.size:
        message = f"the counts add up to {total}, but {sample.name!r} has {sample.size}: the rest belongs to no feature"
        yield Hit(v, None, message, "warning")


@rule("DSG009", each=lambda c: features(c).indices, needs="data")
def indices_are_of_instances(_: Context, v: Variable, instance: Dimension | None) -> Iterator[Hit]:
    """Indices refer to elements of the instance dimension, counted from 0."""
    if instance is None or v.kind != "integer":
        return
    values = _present(v)
    bad = values[(values < 0) | (values >= instance.size)]
    if bad.size:
        message = f"it holds {int(bad[0])}; expected 0 to {instance.size - 1}, or a missing value"
        yield Hit(v, None, f"{message}, for the instance dimension {instance.name!r} has size {instance.size}")


@rule("DSG013", each=lambda c: features(c).identifiers, needs="data")
def identifiers_are_unique(_: Context, v: Variable) -> Iterator[Hit]:
    """No two features have the same identifier."""
    if not axes_of(v) or v.dialect is not None:
        return
    if v.is_text:
        values: npt.NDArray[Any] = v.texts()
    elif v.is_numeric:
        values = v.values()
    else:
        return
    # Profiles of several stations may be numbered for each station.
    for row in values.reshape(-1, values.shape[-1]) if values.size else ():
        there = row[row != ""].astype(str) if v.is_text else row[~missing_mask(v, row)]
        names, numbers = np.unique(there, return_counts=True)
        twice = np.flatnonzero(numbers > 1)
        if twice.size:
            found = names[twice[0]].item()
            yield Hit(v, "cf_role", f"{found!r} stands {int(numbers[twice[0]])} times; each feature has its own")
            break


@rule("DSG017", needs="data")
def unused_elements_are_missing(c: Context) -> Iterator[Hit]:
    """If a coordinate of an element is missing, the data are missing too."""
    f = features(c)
    if f.type is None:
        return
    for placed in f.data:
        v = placed.variable
        for axis in ("T", "Z"):
            for t in placed.axes[axis]:
                if len(v.stored) < 2 or t.stored != v.stored or not t.is_numeric:
                    continue
                number = sum(
                    int(np.count_nonzero(missing_mask(t, there) & ~missing_mask(v, data)))
                    for there, data in zip(t.blocks(), v.blocks(), strict=False)
                )
                if number:
                    message = f"{count_text(number, 'value')} given where {t.name!r} is missing; expected none there"
                    yield Hit(v, None, message)


@rule("DSG018", needs="data")
def times_of_a_feature_grow(c: Context) -> Iterator[Hit]:
    """The times of a time series and of a trajectory strictly increase."""
    f = features(c)
    if f.type not in ("timeseries", "trajectory", "timeseriesprofile"):
        return
    times = dict.fromkeys(t for p in f.data for t in p.axes["T"] if t.words("standard_name")[:1] in ([], ["time"]))
    for t in times:
        if not t.is_numeric or t.is_coordinate or not t.stored:
            continue
        raw = t.values().ravel()  # first, since it refuses arrays that are too large
        rows = _rows(f, t)
        if rows is None or rows.shape != raw.shape:
            continue
        there = ~missing_mask(t, raw) & (rows >= 0)
        order = np.argsort(rows[there], kind="stable")
        row, value = rows[there][order], unpacked(t, raw[there])[order]
        bad = np.flatnonzero((value[1:] <= value[:-1]) & (row[1:] == row[:-1]))
        if bad.size:
            message = f"times of feature {int(row[bad[0]])} do not strictly increase: {value[bad[0] + 1]} follows"
            yield Hit(t, None, f"{message} {value[bad[0]]} ({bad.size} in all)")


def _rows(f: Features, t: Variable) -> npt.NDArray[np.int64] | None:
    """Return the index of the feature of each time, negative for none, or `None` if unknown."""
    if len(t.stored) == 1:
        for v, sample in f.counts:
            if sample is t.stored[0] and v.kind == "integer" and len(v.stored) == 1:
                values = unsigned(v, v.values()).astype(np.int64)
                values = np.where(missing_mask(v, v.values()) | (values < 0), 0, values)
                if values.max(initial=0) > sample.size or values.sum() > sample.size:
                    return None  # DSG008
                rows = np.repeat(np.arange(values.size), values)
                return np.concatenate((rows, np.full(sample.size - rows.size, -1)))
        for v, _ in f.indices:
            if v.stored == t.stored and v.kind == "integer":
                values = unsigned(v, v.values()).astype(np.int64, copy=True)
                values[missing_mask(v, v.values())] = -1
                return values
        return np.zeros(t.size, np.int64) if t.stored[0] not in f.instances else None
    where = [i for i, d in enumerate(t.stored) if d in f.instances]
    if len(t.stored) != 2 or len(where) != 1:
        return None
    _, second = (d.size for d in t.stored)
    number = np.arange(t.size, dtype=np.int64)
    return number // max(second, 1) if where[0] == 0 else number % max(second, 1)
