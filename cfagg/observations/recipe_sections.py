"""The sections of a recipe except its input, as models: dates, output, build and statistics.

Keys of the published recipes that only affect the working of that software are accepted and ignored; keys that affect
the stored data are honoured or refused.
"""

from __future__ import annotations

from datetime import datetime, time, timedelta
from fractions import Fraction
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import BeforeValidator, Field, PlainValidator, ValidationError, field_validator, model_validator

from cfagg.errors import ConventionError
from cfagg.observations.chosen_statistics import exact_number
from cfagg.observations.dates import Part, Period, as_date, as_duration, union
from cfagg.observations.settings import (
    Count,
    Date,
    Duration,
    End,
    Flag,
    Number,
    Place,
    Section,
    listed,
    places_of,
    refused,
    says,
    wrong,
)

__all__ = ["FREQUENCY", "NO_VARIABLES", "Build", "Output", "Statistics", "period_of"]

#: The default step of dates.
FREQUENCY = timedelta(hours=1)

#: Largest number of missing dates, with ranges expanded.
_MOST_MISSING = 1_000_000

#: The reason why recipes cannot set environment variables.
NO_VARIABLES = "is not set by cfagg; set the variables before it starts"

_NOT_HERE = refused("is not for observations; give start, end and frequency", even_empty=True)


class _Gap(Section):
    """A range of missing dates, both ends inclusive."""

    start: Date
    end: End
    frequency: Duration | None = None


def _missing(value: Any) -> list[datetime | _Gap]:
    found: list[datetime | _Gap] = []
    problems: list[tuple[Place, Any]] = []
    for i, item in enumerate(value if isinstance(value, list | tuple) else [value]):
        try:
            found.append(_Gap.model_validate(item) if isinstance(item, dict) else as_date(item))
        except ValidationError as error:
            problems += [((i, *place), said) for place, said in places_of(error)]
        except (ValueError, OverflowError) as error:
            problems.append(((i,), error))
    if problems:
        raise wrong(*problems)
    return found


class _Dates(Section):
    values: Annotated[Any, _NOT_HERE] = None
    hindcasts: Annotated[Any, _NOT_HERE] = None
    steps: Annotated[Any, _NOT_HERE] = None
    years: Annotated[Any, _NOT_HERE] = None
    start: Date
    end: End
    frequency: Duration | None = None
    missing: Annotated[list[datetime | _Gap], PlainValidator(_missing)] = Field(default_factory=list)


def period_of(values: Any, frequency: timedelta = FREQUENCY) -> Period:
    """Return the dates of a section ``dates``, by default in steps of `frequency`; raise ValidationError if invalid."""
    dates = _Dates.model_validate(values)
    start, end, step = dates.start, dates.end, dates.frequency or frequency
    if end < start:
        raise wrong((("end",), f"{end.isoformat()} is before the start, {start.isoformat()}"))
    last = start + (end - start) // step * step
    try:
        last + step
    except OverflowError:
        raise wrong((("end",), f"{end.isoformat()} is too late for a frequency of {step}")) from None
    return Period(start, last, step, _gaps(dates.missing, start, last, step))


def _gaps(missing: list[datetime | _Gap], start: datetime, last: datetime, step: timedelta) -> tuple[Part, ...]:
    """Return the ranges of the missing dates, sorted and merged."""
    dates: set[datetime] = set()
    problems: list[tuple[Place, Any]] = []
    for i, item in enumerate(missing):
        if isinstance(item, _Gap):
            every = item.frequency or step
            count = (item.end - item.start) // every + 1
            if count > _MOST_MISSING:
                problems.append((("missing", i), f"has {count} dates, more than {_MOST_MISSING}"))
                continue
            found = [item.start + n * every for n in range(count)]
        else:
            found = [item]
        off = next((day for day in found if (day - start) % step), None)
        if off is not None:
            said = f"{off.isoformat()} is not one of the dates, start plus a multiple of {step}"
            problems.append((("missing", i), said))
        dates.update(day for day in found if start <= day <= last)
    if problems:
        raise wrong(*problems)
    return tuple(union((day, day + step) for day in dates))


def _written(form: Any) -> Any:
    if form == "zarr3":
        raise ValueError("'zarr3' is not written; give zarr2, which the published software reads, or cfagg")
    return form


class Output(Section):
    """The layout of a store."""

    ignored: ClassVar[tuple[str, ...]] = ("remapping", "order_by")

    layout: Any = Field(None, validate_default=True)
    format: Annotated[Literal["zarr2", "cfagg"], BeforeValidator(_written)] = "zarr2"
    dtype: Annotated[Literal["float32"], says("cannot be stored: observations are float32")] = "float32"
    date_indexing: Literal["bisect", "btree"] = "bisect"
    rows_per_chunk: Count | None = None
    bytes_per_chunk: Count = 64 * 2**20
    sanitise: Flag = True
    chunking: Annotated[Any, refused("is not for observations; give rows_per_chunk", even_empty=True)] = None
    auto_rows_per_chunk: Annotated[Any, refused("is not supported; give rows_per_chunk, or leave both out")] = None

    @model_validator(mode="before")
    @classmethod
    def _older(cls, values: dict[str, Any]) -> dict[str, Any]:
        if values.get("format") != "tabular":  # the key's older meaning
            return values
        return {"layout": "tabular", **{k: v for k, v in values.items() if k != "format"}}

    @field_validator("layout")
    @classmethod
    def _tabular(cls, layout: Any) -> Any:
        if layout is None:
            raise ValueError("is missing; observations need layout: tabular")
        if layout != "tabular":
            raise ValueError(f"{layout!r} is not for observations, expected tabular")
        return layout


def _allowed(value: Any) -> bool | tuple[str, ...]:
    return value if isinstance(value, bool) else listed(value, "names")


def _group(value: Any) -> Any:
    """Return the rule that divides the dates into parts, tried on one date."""
    day = datetime(2000, 1, 1)
    try:
        Period(day, day, FREQUENCY).parts(None if value in ("all", "none") else value)
    except ValueError:
        raise ValueError(
            f"{value!r} is not daily, weekly, monthly, yearly, all, a number of dates or a duration"
        ) from None
    return None if value in ("all", "none") else value


class Build(Section):
    """The settings of a build: `group_by` divides the dates into parts, and `allow_nans` may name columns."""

    ignored: ClassVar[tuple[str, ...]] = (
        "additions", "use_grib_paramid", "variable_naming", "remapping", "max_fragment_size", "validate_date_ranges",
        "delete_files", "write_zarr_buffer_size", "chunk_windows", "chunk_alignment_offset", "chunk_compression_ratio",
        "fs_read_min_bytes", "fs_read_max_bytes", "fs_read_latency_seconds", "fs_read_bandwidth_bytes_per_s",
    )  # fmt: skip

    group_by: Annotated[Any, PlainValidator(_group)] = "monthly"
    max_workers: Count | None = None
    allow_nans: Annotated[bool | tuple[str, ...], PlainValidator(_allowed)] = True
    env: Annotated[Any, refused(NO_VARIABLES)] = None


def _share(value: Any) -> Fraction | None:
    """Return a share such as ``80%``, ``80`` (percent) or ``0.8``."""
    if value == "all":
        return None
    try:
        percent = isinstance(value, str) and value.strip().endswith("%")
        number = Fraction(0) if isinstance(value, bool) else exact_number(str(value).strip().removesuffix("%").strip())
        share = number / 100 if percent or number > 1 else number
    except (ValueError, ZeroDivisionError):
        share = Fraction(0)
    if not 0 < share <= 1:
        raise ValueError(f"{value!r} is not a share, expected for instance 80%")
    return share


def _whole_day(value: Any) -> datetime:
    """Return an end date; a day without a time becomes its last second, so that its observations are included."""
    text = str(value).strip()
    end = as_date(value, end=True)
    a_day = len(text) in (8, 10) and text[-1:].isdigit()
    return end + timedelta(days=1, seconds=-1) if a_day and end.time() == time() else end


def _steps(value: Any) -> tuple[timedelta, ...]:
    if isinstance(value, bool):
        return (timedelta(days=1),) if value else ()
    found: list[timedelta] = []
    problems: list[tuple[Place, Any]] = []
    for i, item in enumerate(value if isinstance(value, list | tuple) else [value]):
        try:
            found += [] if item is None else [as_duration(item)]
        except ValueError as error:
            problems.append(((i,), error))
    if problems:
        raise wrong(*problems)
    return tuple(dict.fromkeys(found))


class Statistics(Section):
    """The records that the statistics cover."""

    ignored: ClassVar[tuple[str, ...]] = ("allow_nans",)

    start: Date | None = None
    end: Annotated[datetime, PlainValidator(_whole_day)] | None = None
    records: Annotated[Fraction | None, PlainValidator(_share)] = None
    period: Annotated[Fraction | None, PlainValidator(_share)] = None
    tendencies: Annotated[tuple[timedelta, ...], PlainValidator(_steps)] = ()
    grid: Number = 1.0

    @field_validator("grid")
    @classmethod
    def _size(cls, grid: float) -> float:
        if not 0 < grid <= 180:
            raise ValueError(f"{grid:g} is not a size of cells, expected degrees above 0 and up to 180")
        return grid

    @model_validator(mode="after")
    def _one_choice(self) -> Self:
        """Check before reading that there is one choice, and that the tendencies can be computed."""
        from cfagg.observations.statistics import tendency_grid

        choices = {"start": self.start or self.end, "records": self.records, "period": self.period}
        chosen = [key for key, value in choices.items() if value is not None]
        problems: list[tuple[Place, Any]] = []
        if len(chosen) > 1:
            problems.append(((chosen[1],), f"excludes {chosen[0]}; give one of them"))
        if self.start is not None and self.end is not None and self.end < self.start:
            problems.append((("end",), f"{self.end.isoformat()} is before the start, {self.start.isoformat()}"))
        if self.tendencies and not problems:
            try:
                tendency_grid(self.grid, self.tendencies)
            except ConventionError as error:
                problems.append((("tendencies",), error))
        if problems:
            raise wrong(*problems)
        return self
