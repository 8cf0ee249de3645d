"""Tables of files as frames of observations: the selected columns, with values as numbers and times as dates.

Source for values and times: CF sections 2.5, 4.4 and 8.1.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from fractions import Fraction
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
from pydantic import AfterValidator, Field, PlainValidator, model_validator

from cfagg.cf.calendars import DateChange, canonical, parse, time_transform
from cfagg.cf.instants import REFORM
from cfagg.cf.missing import Missing
from cfagg.cf.packing import STORAGE_ATTRIBUTES, Packing, as_meant, read_as
from cfagg.cf.references import REFERRING
from cfagg.errors import CalendarError, Problem, SourceError
from cfagg.errors.arguments import closest
from cfagg.observations.frames import COMPULSORY, with_attributes
from cfagg.observations.registry import Config
from cfagg.observations.settings import ByName, Names, Paths, Place, Section, Text, wrong
from cfagg.observations.sources.stations import Stations
from cfagg.observations.sources.text_dates import dates_of_text, joined, words_of
from cfagg.storage.urls import a_place, is_url

if TYPE_CHECKING:
    import pandas as pd

__all__ = [
    "Columns", "Flavour", "Table", "data_of", "date_columns", "dates_of_numbers", "described", "located", "numbers_of",
]  # fmt: skip


def date_columns(value: Any) -> tuple[str, ...]:
    """Return the names of the columns that make up a date."""
    names = [value] if isinstance(value, str) else value
    # They may begin or end with spaces, as those of some files do.
    if not isinstance(names, list | tuple) or not names or not all(isinstance(n, str) and n for n in names):
        raise ValueError(f"{value!r} is neither a column nor a list of columns, such as a date and a time")
    return tuple(names)


def _format(value: str) -> str:
    """Return a format of dates that has a year, and does not lose part of a date."""
    used = set(re.findall("%(.)", value))
    if not used & set("YyG") and value != "ISO8601":
        raise ValueError(f"{value!r} has no year (%Y), which dates need")
    if "p" in used and "I" not in used:
        raise ValueError(f"{value!r} has %p for the half of the day, which only %I counts, not %H")
    if "I" in used and "p" not in used:
        raise ValueError(f"{value!r} has %I without %p for the half of the day; hours from 0 to 23 are %H")
    if "f" in used and "S" not in used:
        raise ValueError(
            f"{value!r} has %f, a fraction of a second, but no second (%S); fractions of days are not read"
        )
    if "d" in used and not used & set("mbB"):
        raise ValueError(f"{value!r} has %d, a day of the month, but no month (%m); days of the year are %j")
    return value


def _place(most: float, value: Any) -> str | float:
    """Return the name of a column, or a number of degrees of at most `most`."""
    if isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= most:
        return float(value)
    if not isinstance(value, str) or not value:
        raise ValueError(f"{value!r} is neither a column nor a number of degrees from -{most} to {most}")
    return value


class Flavour(Section):
    """Names of the columns of dates and places; numbers are the place of all rows."""

    date: Annotated[tuple[str, ...], PlainValidator(date_columns)] = ("date",)
    latitude: Annotated[str | float, PlainValidator(partial(_place, 90))] = "latitude"
    longitude: Annotated[str | float, PlainValidator(partial(_place, 360))] = "longitude"


class Columns(Section):
    """The settings of a source of tables."""

    #: Whether everything except numbers is text.
    of_text: ClassVar[bool] = False

    path: Paths
    columns: Names | None = None
    flavour: Flavour = Flavour()
    date_units: Text = ""
    date_format: Annotated[Text, AfterValidator(_format)] | None = None
    attributes: dict[str, ByName] = Field(default_factory=dict)
    stations: Stations | None = None
    options: ByName = Field(default_factory=dict)
    allow: Names = ()

    @model_validator(mode="after")
    def _agree(self) -> Self:
        several = len(self.flavour.date)
        problems: list[tuple[Place, str]] = []
        if self.date_units and (several > 1 or self.date_format):
            problems.append((("date_units",), "is only for dates in one column, without date_format"))
        if several > 2 and not self.date_format:
            problems.append((("date_format",), "is required for dates in more than two columns, such as '%Y %m %d %H'"))
        if self.stations is not None and (given := self.flavour.model_fields_set - {"date"}):
            said = "is in the list of stations; leave it out, or leave out stations"
            problems += [(("flavour", name), said) for name in sorted(given)]
        if problems:
            raise wrong(*problems)
        return self

    @property
    def beside(self) -> list[str]:
        """Paths of files besides the tables."""
        return [] if self.stations is None else [self.stations.path]

    @property
    def places(self) -> list[str]:
        """Names of the columns of dates and places."""
        if self.stations is not None:
            return [*self.flavour.date, self.stations.column]
        return [*self.flavour.date, *(n for n in (self.flavour.latitude, self.flavour.longitude) if isinstance(n, str))]


def located[T: Columns](columns: T, config: Mapping[str, Any]) -> T:
    """Return settings whose list of stations has an absolute path."""
    if columns.stations is None:
        return columns
    path = columns.stations.path
    if isinstance(config, Config):
        path = config.path(path)
    if is_url(path):
        # The options of the tables may have a secret of their server, which is not that of the list.
        path = a_place(path, columns.stations.options, columns.stations.allow, options_name="stations.options")
    return columns.model_copy(update={"stations": columns.stations.model_copy(update={"path": path})})


class Table:
    """A file's columns, and their conversion to those of frames."""

    def __init__(self, columns: Columns, path: str, schema: Any) -> None:
        self.columns, self.path = columns, path
        try:
            have, places = list(schema.names), columns.places
        except UnicodeDecodeError as error:
            raise SourceError(f"{path}: names of columns are not text ({error}); is the file damaged?") from error
        data = data_of(have) if columns.columns is None else columns.columns
        self.wanted = list(dict.fromkeys([*places, *data]))
        # Published recipes name the columns of dates and places among the others, which have one or two of dates.
        parts = list(columns.flavour.date if len(columns.flavour.date) > 2 else ())
        parts += [columns.stations.column] if columns.stations is not None else []
        self.data = [n for n in self.wanted if n not in places or (n in parts and n in (columns.columns or ()))]
        problems = [Problem(n, f"is missing{closest(n, have)}") for n in self.wanted if n not in have]
        problems += [Problem(n, "names two columns") for n in self.wanted if have.count(n) > 1]
        clash = [n for n in COMPULSORY if n not in places and n in data]
        said = "exists as a column besides the one named in flavour; select the data columns with columns"
        problems += [Problem(n, said) for n in clash]
        more = () if columns.stations is None else columns.stations.columns
        problems += [Problem(n, "is a column of the list of stations and of the table") for n in more if n in data]
        strange = [n for n in columns.attributes if n not in have]
        problems += [Problem(n, f"has attributes, but is not a column{closest(n, have)}") for n in strange]
        packings = {k: {n: v[n] for n in STORAGE_ATTRIBUTES if n in v} for k, v in columns.attributes.items()}
        self.packings = {k: v for k, v in packings.items() if v}
        said = "is a date, which cannot be packed; leave them out"
        text = () if columns.date_units else columns.flavour.date
        problems += [
            Problem(f"attributes.{n}", f"has {', '.join(v)}, but {said}") for n, v in self.packings.items() if n in text
        ]
        if problems:
            hint = f"the columns are {', '.join(have)}; name them in flavour"
            raise SourceError(f"{path}: columns are not as expected ({hint})", problems)
        self.attributes = {n: _attributes(schema.field(n).metadata) for n in self.data}
        for name, given in columns.attributes.items():
            own = {k: v for k, v in given.items() if k not in STORAGE_ATTRIBUTES}
            self.attributes[name] = {**self.attributes.get(name, {}), **own}
        self.attributes.update({} if columns.stations is None else columns.stations.attributes)

    def frame(self, table: Any, number: int) -> pd.DataFrame:
        """Return rows as a frame; `number` is the label of the first one."""
        import pandas as pd

        try:
            frame = _plain(table.select(self.wanted)).to_pandas(date_as_object=False)
        except UnicodeDecodeError as error:
            raise SourceError(
                f"{self.path}: a text column is not valid text ({error}); choose other columns"
            ) from error
        frame.index = range(number, number + len(frame))
        for packed, packing in self.packings.items():
            if packed in frame and pd.api.types.is_numeric_dtype(frame[packed].dtype):
                stored = frame[packed].to_numpy(np.float64, na_value=np.nan)
                frame[packed] = numbers_of(stored, packing, f"{self.path}, column {packed}")
        flavour = self.columns.flavour
        found: dict[str, Any] = {"date": self._dates(frame)}
        parts = set(flavour.date)
        if (stations := self.columns.stations) is not None:
            parts.add(stations.column)
            names = words_of(frame[stations.column])
            listed = dict(stations.of(names, f"{self.path}, column {stations.column}"))
            found.update({kind: listed.pop(kind) for kind in ("latitude", "longitude")})
        else:
            listed = {}
            for kind, name in (("latitude", flavour.latitude), ("longitude", flavour.longitude)):
                found[kind] = frame[name] if isinstance(name, str) else np.full(len(frame), name)
        found.update({n: _part(frame[n]) if n in parts else frame[n] for n in self.data})
        found.update(listed)
        return with_attributes(pd.DataFrame(found, copy=False), self.attributes, str(self.path))

    def _dates(self, frame: pd.DataFrame) -> Any:
        import pandas as pd

        names, units, form = self.columns.flavour.date, self.columns.date_units, self.columns.date_format
        dates: Any = frame[names[0]]
        where = f"{self.path}, column {' and '.join(names)}"
        if len(names) > 1 or form is not None:
            dates = dates_of_text(joined([frame[name] for name in names], form, where), form, where)
        elif pd.api.types.is_numeric_dtype(dates.dtype):
            if not units:
                raise SourceError(
                    f"{where}: dates are numbers; give date_units, such as seconds since 1970-01-01, or date_format"
                )
            dates = pd.Series(dates_of_numbers(dates.to_numpy(), units, None, where), dates.index)
        elif not pd.api.types.is_datetime64_any_dtype(dates.dtype):
            if units and self.columns.of_text:
                raise SourceError(f"{where}: not all dates are numbers, as date_units says")
            dates = dates_of_text(dates.astype(object), form, where)
        elif dates.dt.tz is not None:
            dates = dates.dt.tz_convert("UTC").dt.tz_localize(None)
        missing = dates.isna().to_numpy()
        if missing.any():
            raise SourceError(
                f"{where}, row {dates.index[int(np.argmax(missing))]}: the date is missing; correct the row"
            )
        return dates


def _part(column: Any) -> Any:
    """Return a part of dates, or the numbers of stations, as data: numbers, if all of it are."""
    import pandas as pd

    try:
        return pd.to_numeric(column)
    except (ValueError, TypeError):
        return column


def data_of(names: Iterable[str]) -> list[str]:
    """Return the names of columns except those in which pandas stores an index."""
    return [n for n in names if not n.startswith("__index_level_")]


def _plain(table: Any) -> Any:
    """Return a table whose columns pandas reads as numbers where possible: no truth values, dictionaries, decimals."""
    import pyarrow as pa

    table = table.replace_schema_metadata(None)
    for i, field in enumerate(table.schema):
        if pa.types.is_boolean(field.type):
            table = table.set_column(i, field.name, table.column(i).cast(pa.uint8()))
        elif pa.types.is_decimal(field.type):
            table = table.set_column(i, field.name, table.column(i).cast(pa.float64()))
        elif pa.types.is_dictionary(field.type):
            table = table.set_column(i, field.name, table.column(i).cast(field.type.value_type))
    return table


def _attributes(metadata: Mapping[bytes, bytes] | None) -> dict[str, Any]:
    """Return the attributes of a column from the metadata of a file."""
    found = {k.decode("utf-8", "replace"): v.decode("utf-8", "replace") for k, v in (metadata or {}).items()}
    return {k: v for k, v in found.items() if not k.startswith(("PARQUET:", "ARROW:"))}


#: The origin of dates.
_EPOCH = "microseconds since 1970-01-01"

#: Number of microseconds that an int64 holds with room for sums.
_LARGEST = 2.0**62


def dates_of_numbers(values: npt.NDArray[Any], units: str, calendar: str | None, where: str) -> npt.NDArray[Any]:
    """Return reference times as datetime64[us], to the nearest microsecond; NaN becomes NaT."""
    values = np.asarray(values)
    missing = np.isnan(values) if values.dtype.kind == "f" else np.zeros(values.shape, bool)
    try:
        micros = _micros(np.where(missing, 0, values), units, calendar, where)
    except CalendarError as error:
        said = error.message if error.message.startswith(where) else f"{where}: {error.message}"
        raise CalendarError(said, error.problems) from error
    found = micros.astype("M8[us]")
    found[missing] = np.datetime64("NaT", "us")
    return found


def _micros(values: npt.NDArray[Any], units: str, calendar: str | None, where: str) -> npt.NDArray[np.int64]:
    """Return microseconds since 1970 in the proleptic Gregorian calendar."""
    name = canonical(calendar)
    reference = parse(units, name)
    if reference.unit is None:
        raise CalendarError(
            f"units {units!r} count {reference.word}, which have no fixed length; write the times in days"
        )
    if name in ("utc", "tai"):
        raise CalendarError(f"times of calendar {name} count leap seconds; write them in the standard one")
    if name in ("standard", "proleptic_gregorian"):
        change = time_transform(units, name, _EPOCH, name)
        if isinstance(change, tuple):
            micros = _exact(values, *change, units)
            if name != "standard" or not (micros < REFORM * 10**6).any():
                return micros
    days = time_transform(units, name, "days since 1970-01-01", "proleptic_gregorian")
    if not isinstance(days, DateChange):
        raise CalendarError(f"units {units!r} in calendar {name} cannot be converted")
    remedy = "stores of observations have dates of the Gregorian calendar: leave such times out of the file"
    found = np.asarray(days(values.astype(np.float64), where=where, remedy=remedy), np.float64)
    return _exact(found, Fraction(86400 * 10**6), Fraction(0), units)


def _exact(values: npt.NDArray[Any], scale: Fraction, offset: Fraction, units: str) -> npt.NDArray[np.int64]:
    """Return ``values * scale + offset``, rounded; whole units are computed in integers."""
    whole = np.floor(values)
    with np.errstate(over="ignore"):
        near = np.abs(whole.astype(np.float64)) * float(abs(scale)) + float(abs(offset)) < _LARGEST
    if not near.all():
        raise CalendarError(f"the time {values[~near].flat[0]} ({units}) is not a date")
    part = np.asarray(values - whole, np.float64)
    if scale.denominator == 1:
        counted = whole.astype(np.int64) * int(scale)
        shift = int(offset)
        return counted + shift + np.rint(part * float(scale) + float(offset - shift)).astype(np.int64)
    return np.rint(np.asarray(values, np.float64) * float(scale) + float(offset)).astype(np.int64)


#: Attributes about the storage of values, or that name variables of the file.
_OF_STORAGE = frozenset({*STORAGE_ATTRIBUTES, *REFERRING, "cf_role", "axis", "cfagg_name", "_ChunkSizes"})


def numbers_of(stored: npt.NDArray[Any], attributes: Mapping[str, Any], where: str) -> npt.NDArray[Any]:
    """Return stored values unpacked, as numbers; missing values become NaN."""
    # Real values that are not packed, and integers without missing ones, keep their type; all others become float64.
    meant = read_as(stored.dtype, attributes)
    packing = Packing.of(attributes, where=where)
    missing = Missing.of(attributes, stored.dtype, meant, scale=packing.scale, offset=packing.offset, where=where)
    values = as_meant(stored, attributes)
    gone = missing.mask(values)
    if values.dtype.kind == "f":
        gone &= ~np.isnan(values)  # NaN keep their bits
    if packing:
        values = packing.undo(values)
    if gone.any():
        values = values.astype(values.dtype if values.dtype.kind == "f" else np.float64)
        values[gone] = np.nan
    return values


def described(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """Return the attributes that describe a column, as JSON values."""
    found = {}
    for name, value in attributes.items():
        if name in _OF_STORAGE:
            continue
        if isinstance(value, np.generic | np.ndarray):
            value = value.tolist()  # noqa: PLW2901
        if isinstance(value, str | int | float | list):
            found[name] = value
    return found
