"""The sections of a recipe but its input: dates, output, build and statistics, each checked key by key.

Keys of the published recipes that say how that software works inside (its buffers, its naming of GRIB fields) are
accepted and have no effect; keys that would change what is stored are honoured or refused.

Source: the recipes of anemoi-datasets; "Support irregular observations datasets", "Statistics".
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, time, timedelta
from fractions import Fraction
from typing import Any

from cfagg.errors import ConventionError, Problem
from cfagg.observations.periods import Part, Period, as_date
from cfagg.observations.settings import Settings

__all__ = ["Build", "Output", "Statistics", "read_build", "read_dates", "read_output", "read_statistics"]

#: Missing dates, ranges unfolded.
_MOST_MISSING = 1_000_000


@dataclass(frozen=True, slots=True)
class Output:
    """How a store is laid out.

    Parameters
    ----------
    format : str
        ``zarr2``, the layout of the published software, or ``cfagg``.
    date_indexing : str
        ``bisect`` or ``btree``.
    rows_per_chunk : int, optional
        Rows of a chunk of the data.
    bytes_per_chunk : int
        Bytes of a chunk where `rows_per_chunk` is not given.
    sanitise : bool
        Whether paths are left out of the recipe that is kept in the store.
    """

    format: str = "zarr2"
    date_indexing: str = "bisect"
    rows_per_chunk: int | None = None
    bytes_per_chunk: int = 64 * 2**20
    sanitise: bool = True


@dataclass(frozen=True, slots=True)
class Build:
    """How a store is built.

    Parameters
    ----------
    group_by : int, str or None
        How the dates are cut into parts (see `cfagg.observations.periods.Period.parts`).
    max_workers : int, optional
        Processes or threads at most.
    allow_nans : bool or tuple of str
        Whether values may be missing, or the columns in which they may; true where the recipe does not say.
    """

    group_by: Any = "monthly"
    max_workers: int | None = None
    allow_nans: bool | tuple[str, ...] = True


@dataclass(frozen=True, slots=True)
class Statistics:
    """Which records the statistics are of.

    Parameters
    ----------
    start, end : datetime, optional
        Only records of these dates, both included.
    records : Fraction, optional
        Only this share of the records, the first ones.
    period : Fraction, optional
        Only records of this share of the period, its first.
    tendencies : tuple of timedelta
        Time steps of the tendencies; none if empty.
    grid : float
        Size in degrees of the cells on which tendencies are computed.
    published : bool
        Only the first part of the period, as the published software chooses it where a recipe says nothing.
    """

    start: datetime | None = None
    end: datetime | None = None
    records: Fraction | None = None
    period: Fraction | None = None
    tendencies: tuple[timedelta, ...] = ()
    grid: float = 1.0
    published: bool = False


def read_dates(values: Any, where: str, frequency: timedelta, problems: list[Problem]) -> Period | None:
    """Return the period of a section ``dates``; `None` and problems if it is not understood.

    Parameters
    ----------
    values : mapping
        ``start``, ``end``, ``frequency``, ``missing``.
    frequency : timedelta
        The step where none is given.
    """
    settings = Settings(values, where)
    problems_at_first = len(problems)
    for key in ("values", "hindcasts", "steps", "years"):
        if key in settings:
            settings.take(key)
            settings.wrong(key, "is not for observations; give start, end and frequency")
    start, end = (_date(settings, key, required=True) for key in ("start", "end"))
    step = settings.duration("frequency", frequency) or frequency
    missing = settings.take("missing", [])
    found = None
    if start is not None and end is not None:
        if end < start:
            settings.wrong("end", f"{end.isoformat()} is before the start, {start.isoformat()}")
        else:
            found = _period(settings, start, end, step, missing)
    settings.unknown()
    problems += settings.problems
    return found if len(problems) == problems_at_first else None


def _period(settings: Settings, start: datetime, end: datetime, step: timedelta, missing: Any) -> Period | None:
    last = start + (end - start) // step * step
    try:
        last + step
    except OverflowError:
        settings.wrong("end", f"{end.isoformat()} is too late for a frequency of {step}")
        return None
    return Period(start, last, step, _gaps(settings, start, last, step, missing))


def _gaps(settings: Settings, start: datetime, last: datetime, step: timedelta, missing: Any) -> tuple[Part, ...]:
    """Return the ranges that missing dates leave out, sorted and joined."""
    dates: set[datetime] = set()
    for i, item in enumerate(missing if isinstance(missing, list | tuple) else [missing]):
        key = f"missing[{i}]"
        if not isinstance(item, dict):
            found = [_as_date(settings, key, item)]
        else:
            inner = Settings(item, f"{settings.where}.{key}")
            ends = [_date(inner, name, required=True) for name in ("start", "end")]
            every = inner.duration("frequency", step) or step
            inner.unknown()
            settings.problems += inner.problems
            first, final = ends
            if first is None or final is None:
                continue
            count = (final - first) // every + 1
            if count > _MOST_MISSING:
                settings.wrong(key, f"has {count} dates, more than {_MOST_MISSING}")
                continue
            found = [first + n * every for n in range(count)]
        for day in found:
            if day is not None and (day - start) % step:
                settings.wrong(key, f"{day.isoformat()} is not one of the dates, start plus a multiple of {step}")
                break
            if day is not None and start <= day <= last:
                dates.add(day)
    gaps: list[Part] = []
    for day in sorted(dates):
        if gaps and gaps[-1][1] == day:
            gaps[-1] = gaps[-1][0], day + step
        else:
            gaps.append((day, day + step))
    return tuple(gaps)


def _date(settings: Settings, key: str, *, required: bool = False) -> datetime | None:
    value = settings.take(key)
    if value is None:
        if required:
            settings.wrong(key, "is missing")
        return None
    return _as_date(settings, key, value)


def _as_date(settings: Settings, key: str, value: Any) -> datetime | None:
    try:
        return as_date(value, end=key == "end")
    except (ValueError, OverflowError) as error:
        settings.wrong(key, str(error))
        return None


def read_output(values: Any, where: str, problems: list[Problem]) -> Output:
    """Return what a section ``output`` says."""
    settings = Settings(values, where)
    layout, form = settings.take("layout"), settings.take("format", "zarr2")
    if form == "tabular":  # the key's older meaning
        layout, form = layout or form, "zarr2"
    if layout is None:
        settings.wrong("layout", "is missing; observations need layout: tabular")
    elif layout != "tabular":
        settings.wrong("layout", f"{layout!r} is not for observations, expected tabular")
    if form == "zarr3":
        settings.wrong("format", "'zarr3' is not written; give zarr2, which the published software reads, or cfagg")
    elif form not in ("zarr2", "cfagg"):
        settings.wrong("format", f"{form!r} is not one of zarr2, cfagg")
    dtype = settings.take("dtype", "float32")
    if dtype != "float32":
        settings.wrong("dtype", f"{dtype!r} cannot be stored: observations are float32")
    found = Output(
        format=str(form),
        date_indexing=settings.one_of("date_indexing", ("bisect", "btree"), "bisect"),
        rows_per_chunk=settings.count("rows_per_chunk"),
        bytes_per_chunk=settings.count("bytes_per_chunk", 64 * 2**20) or 64 * 2**20,
        sanitise=settings.flag("sanitise", True),
    )
    _chunking(settings)
    if settings.take("auto_rows_per_chunk"):
        settings.wrong("auto_rows_per_chunk", "is not supported; give rows_per_chunk, or leave both out")
    settings.unknown(("remapping", "order_by"))
    problems += settings.problems
    return found


def _chunking(settings: Settings) -> None:
    if settings.take("chunking") is not None:
        settings.wrong("chunking", "is not for observations; give rows_per_chunk")


#: Keys of the published software that say how it works inside.
_INSIDE = (  # noqa: SIM905
    "use_grib_paramid variable_naming remapping max_fragment_size validate_date_ranges delete_files "
    "write_zarr_buffer_size chunk_windows chunk_alignment_offset chunk_compression_ratio fs_read_min_bytes "
    "fs_read_max_bytes fs_read_latency_seconds fs_read_bandwidth_bytes_per_s"
).split()


def read_build(values: Any, where: str, problems: list[Problem], group_by: Any = None) -> Build:
    """Return what a section ``build`` says; `group_by` is that of the section ``dates``, its older place."""
    settings = Settings(values, where)
    group = settings.take("group_by", group_by if group_by is not None else "monthly")
    if group in ("all", "none"):
        group = None
    allow: Any = settings.take("allow_nans", True)
    if not isinstance(allow, bool):
        allow = settings.names("allow_nans") or ()
    if settings.take("env"):
        settings.wrong("env", "is not set by cfagg; set the variables before it starts")
    settings.take("additions")  # read with the statistics
    found = Build(group, settings.count("max_workers"), allow)
    settings.unknown(_INSIDE)
    problems += settings.problems
    return found


def read_statistics(
    values: Any, where: str, problems: list[Problem], additions: Any = None, *, published: bool = False
) -> Statistics:
    """Return what a section ``statistics`` says.

    Parameters
    ----------
    values : mapping
        ``start`` and ``end`` (the published keys), or one of ``records: 80%`` and ``period: 80%``;
        ``tendencies`` (true, or a list of durations) with ``grid``, the size of its cells in degrees.
    additions : bool, optional
        The older place of ``tendencies``.
    published : bool
        Whether a recipe without the section is taken as the published software takes it.
    """
    published = published and values is None
    settings = Settings(values, where)
    start, end = _date(settings, "start"), _date(settings, "end")
    if end is not None:
        end = _to_its_end(settings.take("end"), end)
    records, period = _share(settings, "records"), _share(settings, "period")
    chosen = [k for k, v in (("start", start or end), ("records", records), ("period", period)) if v is not None]
    if len(chosen) > 1:
        settings.wrong(chosen[1], f"excludes {chosen[0]}; give one of them")
    if start is not None and end is not None and end < start:
        settings.wrong("end", f"{end.isoformat()} is before the start, {start.isoformat()}")
    steps = settings.take("tendencies", additions)
    grid = settings.number("grid", 1.0) or 0.0
    if not 0 < grid <= 180:
        settings.wrong("grid", f"{grid:g} is not a size of cells, expected degrees above 0 and up to 180")
    durations = _durations(settings, steps)
    if durations and not settings.problems:
        settings.problems += _tendency_problems(durations, grid, settings.where)
    found = Statistics(start, end, records, period, durations, grid, published=published)
    settings.unknown(("allow_nans",))
    problems += settings.problems
    return found


def _to_its_end(given: Any, end: datetime) -> datetime:
    """Return the last second of an end that is a day without a time; observations of that day count."""
    text = str(given).strip()
    a_day = len(text) in (8, 10) and text[-1:].isdigit()
    return end + timedelta(days=1, seconds=-1) if a_day and end.time() == time() else end


def _tendency_problems(steps: tuple[timedelta, ...], grid: float, where: str) -> tuple[Problem, ...]:
    """Return why tendencies could not be computed, before anything is read."""
    from cfagg.observations.tendencies import parse_tendencies

    try:
        parse_tendencies({"grid": grid, "steps": list(steps)}, f"{where}.tendencies")
    except ConventionError as error:
        return error.problems
    return ()


def _durations(settings: Settings, steps: Any) -> tuple[timedelta, ...]:
    if steps is None or steps is False:
        return ()
    if steps is True:
        return (timedelta(days=1),)
    items: Iterable[Any] = steps if isinstance(steps, list | tuple) else [steps]
    found = []
    for i, item in enumerate(items):
        inner = Settings({"step": item})
        step = inner.duration("step")
        if step is not None:
            found.append(step)
        elif inner.problems:
            settings.wrong(f"tendencies[{i}]", inner.problems[0].message)
    return tuple(dict.fromkeys(found))


def _share(settings: Settings, key: str) -> Fraction | None:
    """Return a share such as ``80%``, ``80`` (percent) or ``0.8``."""
    value = settings.take(key)
    if value is None or value == "all":
        return None
    try:
        percent = isinstance(value, str) and value.strip().endswith("%")
        number = Fraction(str(value).strip().removesuffix("%").strip()) if not isinstance(value, bool) else Fraction(0)
        share = number / 100 if percent or number > 1 else number
    except (ValueError, ZeroDivisionError):
        share = Fraction(0)
    if not 0 < share <= 1:
        settings.wrong(key, f"{value!r} is not a share, expected for instance 80%")
        return None
    return share
