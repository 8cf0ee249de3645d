"""`open_observations`: a store of observations, divided into samples."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Literal

from cfagg.cf.instants import epoch_text
from cfagg.errors import CfaggWarning, OptionError
from cfagg.errors.arguments import a_mapping, about
from cfagg.observations.dataset import Observations, with_statistics
from cfagg.observations.dates import SampleDates, Window, sample_dates
from cfagg.observations.selection import Columns, Plan, parse_area, parse_thinning

if TYPE_CHECKING:
    from cfagg.observations.indexes.protocol import Index
    from cfagg.observations.store import ObservationStore

__all__ = ["open_observations"]


def open_observations(
    path: str | os.PathLike[str],
    start: Any = None,
    end: Any = None,
    window: str | Window = "(-3,+0]",
    frequency: Any = "3h",
    *,
    select: Any = None,
    drop: Any = None,
    reorder: Any = None,
    rename: Mapping[str, str] | None = None,
    area: Any = None,
    thin: Any = None,
    statistics: Any = None,
    sample: Literal["data", "deltatime"] = "data",
    index: str | None = None,
    options: Mapping[str, Any] | None = None,
    allow: Iterable[str] = (),
    storage_options: Mapping[str, Any] | None = None,
) -> Observations:
    """Open a store of observations as samples, one per date, of the observations in a window around it.

    The samples have the dates `start`, `start` + `frequency`, … up to `end`: ``(end - start) // frequency + 1`` dates.
    `start` and `end` may be any dates: samples without observations in the store have no rows, and a `CfaggWarning` is
    issued if there are several and none has any.  Only metadata are read; stores of anemoi-datasets can be opened
    directly.

    Parameters
    ----------
    path : path or str
        A directory, or a URL ``http://``, ``https://`` or ``s3://``.
    start, end : int, str, datetime.date, datetime.datetime or numpy.datetime64, optional
        First and last date: a year ``1979``, a month ``"1979-05"`` or ``197905``, a day ``"1979-05-31"`` or
        ``19790531``, or a full time ``"1979-05-31T06:00:00"``; in UTC unless a time zone is given.  A year, month or
        day as `end` includes its last second.  By default, the date of the first or last observation.
    window : str
        The time window of a sample, relative to its date: ``"(-3,+3]"``, ``"(-1d,0]"``, ``"[-PT90M,06:00)"``.  A round
        bracket excludes its end, a square one includes it; numbers are hours.
    frequency : int, str, datetime.timedelta or numpy.timedelta64
        Step between samples: ``"6h"``, ``"1d"``, ``"30min"``, ``"PT6H"``; numbers are hours.
    select, drop : str, sequence of str or set of str, optional
        Variables to keep, in this order (for a set, in the store's order), and variables to leave out.
    reorder : sequence of str, mapping of str to int, or "sort", optional
        Order of all variables that are left.
    rename : mapping of str to str, optional
        New names by the store's names.
    area : (north, west, south, east), optional
        Area to keep, bounds included, in degrees; it may cross 0° or 180°.
    thin : int, float or mapping, optional
        Part of each sample to keep: every n-th row (``4`` or ``{"every": 4}``), each row with a probability (``0.1`` or
        ``{"random": 0.1, "seed": 7}``, always the same ones), or the earliest row in each cell of a grid
        (``{"grid": 1.0}``, in degrees).  It is applied after `area`.
    statistics : mapping, Observations, str or path, optional
        The source of ``ds.statistics``, by default the store.  Otherwise a mapping of names to one number per variable,
        another dataset or the path of its store, or a choice of rows from which they are calculated now: ``"all"``,
        ``"80% of records"`` or ``"80% of period"``.
    sample : {"data", "deltatime"}
        Columns of ``ds[i]``: the variables, or before them ``deltatime`` (seconds from the sample's date),
        ``latitude`` and ``longitude``.
    index : str, optional
        Kind of index for looking up dates: ``"pages"``, ``"bisect"``, ``"btree"`` or that of an entry point in
        ``cfagg.indexes``.  By default the fastest that the store has.
    options : mapping, optional
        The former name of `storage_options`.
    allow : iterable of str
        Prefixes of URLs to which the server may redirect; none by default.
    storage_options : mapping, optional
        Options of a URL, as for `cfagg.read`.

    Returns
    -------
    Observations
        ``ds[i]``, ``len(ds)``, ``ds.dates``, ``ds.details(i)``, ``ds.variables``, ``ds.statistics``,
        ``ds.metadata()``, ``ds.subset(...)`` and more.

    Raises
    ------
    OptionError
        Dates, windows, variables, areas or thinnings are invalid or do not exist.
    SourceError
        There is no such store, or its metadata are damaged.
    ConventionError
        It is not an observation store; every problem is listed.

    Notes
    -----
    Source: "Support irregular observations datasets", sections Using the dataset and Sample format.

    Examples
    --------
    A store of two reports, on 2020-01-01 at 03:00:00 and 06:00:08:

    >>> import tempfile
    >>> import pandas as pd
    >>> from cfagg import create_observations
    >>> def reports(start, end):
    ...     dates = pd.to_datetime(["2020-01-01T03:00:00", "2020-01-01T06:00:08"])
    ...     places = {"latitude": [51.5, 48.75], "longitude": [-0.25, 2.25]}
    ...     return pd.DataFrame({"date": dates, **places, "pressure": [1013, 1008]})
    >>> recipe = {"dates": {"start": 2020, "end": 2020}, "input": reports, "output": {"layout": "tabular"}}
    >>> folder = tempfile.TemporaryDirectory()
    >>> store = create_observations(recipe, f"{folder.name}/synop.zarr").path

    and its samples:

    >>> ds = open_observations(store, start=2020, end="2020-01-02", window="(-3,+3]", frequency="6h")
    >>> len(ds), [len(x) for x in ds]
    (8, [1, 1, 0, 0, 0, 0, 0, 0])
    >>> ds[1].tolist(), ds[1].latitudes.tolist(), ds.details(1).timedeltas.tolist()
    ([[1008.0]], [48.75], [8])
    >>> folder.cleanup()
    """
    from cfagg.observations.store import open_store

    if isinstance(path, (list, tuple)):
        raise OptionError(
            "open_observations opens one store; open each, and give the datasets to cfagg.join_observations"
        )
    # Arguments that do not depend on the store are checked first, so that mistakes are reported at once.
    span, region, thinning = about("window", Window.of, window), parse_area(area), parse_thinning(thin)
    if options is not None and storage_options is not None:
        raise OptionError("storage_options and options are the same; give storage_options")
    a_mapping(storage_options, "storage_options", "a mapping such as {'timeout': 30}")
    options = storage_options if options is None else options
    store = open_store(path, options=options, allow=allow)
    columns = Columns.all_of(store.variables).choose(select, drop, reorder, rename)
    found = store.index(index)
    # Only if needed, since it may require a remote read.
    held = None
    if (start is None or end is None) and found.first is not None and found.last is not None:
        held = found.first, found.last
    dates = sample_dates(start, end, frequency, held)
    _warn_of_nothing(store, found, dates, span)
    dataset = Observations(store, found, Plan(dates, span, columns, region, thinning, sample))
    if statistics is None:
        return dataset
    return with_statistics(dataset, statistics, options, allow)


def _warn_of_nothing(store: ObservationStore, index: Index, dates: SampleDates, window: Window) -> None:
    """Warn if none of several samples has a row; for remote stores only if no further read is needed."""
    if len(dates) == 1:
        return
    low, high = (date + offset for date, offset in zip((dates.start, dates.last), window.offsets, strict=True))
    if not store.source.remote:
        found, after = index.find(low, high)
        if found < after:
            return
    elif index.kind != "pages":
        return
    held, first, last = "holds none", index.first, index.last
    if first is not None and last is not None:
        if store.source.remote and first < high and low <= last:
            return
        held = f"has those of {epoch_text(first)} to {epoch_text(last)}"
    warnings.warn(
        f"{store.path}: no observation is in the windows {window} of {dates}, so that all samples are empty; the store "
        f"{held}",
        CfaggWarning,
        stacklevel=3,
    )
