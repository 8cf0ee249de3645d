"""Tables of files as frames of observations: the selected columns, with values as numbers and times as dates.

Source for values and times: CF sections 2.5, 4.4 and 8.1.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from fractions import Fraction
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
from cfagg.observations.settings import ByName, Names, Paths, Place, Section, Text, wrong

if TYPE_CHECKING:
    import pandas as pd

__all__ = [
    "Columns", "Flavour", "Table", "data_of", "date_columns", "dates_of_numbers", "dates_of_text", "described",
    "numbers_of",
]  # fmt: skip


def date_columns(value: Any) -> tuple[str, ...]:
    """Return the names of the columns that make up a date."""
    names = [value] if isinstance(value, str) else value
    # They may begin or end with spaces, as those of some files do.
    if not isinstance(names, list | tuple) or not names or not all(isinstance(n, str) and n for n in names):
        raise ValueError(f"{value!r} is neither a column nor a list of columns, such as a date and a time")
    return tuple(names)


def _format(value: str) -> str:
    if not re.search("%[YyG]", value) and value != "ISO8601":
        raise ValueError(f"{value!r} has no year (%Y), which dates need")
    if "%p" in value and "%I" not in value:
        raise ValueError(f"{value!r} has %p for the half of the day, which only %I counts, not %H")
    return value


class Flavour(Section):
    """Names of the columns of dates and places."""

    date: Annotated[tuple[str, ...], PlainValidator(date_columns)] = ("date",)
    latitude: Text = "latitude"
    longitude: Text = "longitude"


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
        if problems:
            raise wrong(*problems)
        return self

    @property
    def places(self) -> list[str]:
        """Names of the columns of dates and places."""
        return [*self.flavour.date, self.flavour.latitude, self.flavour.longitude]


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
        problems = [Problem(n, f"is missing{closest(n, have)}") for n in self.wanted if n not in have]
        problems += [Problem(n, "names two columns") for n in self.wanted if have.count(n) > 1]
        clash = [n for n in COMPULSORY if n not in places and n in data]
        said = "exists as a column besides the one named in flavour; select the data columns with columns"
        problems += [Problem(n, said) for n in clash]
        strange = [n for n in columns.attributes if n not in have]
        problems += [Problem(n, f"has attributes, but is not a column{closest(n, have)}") for n in strange]
        if problems:
            hint = f"the columns are {', '.join(have)}; name them in flavour"
            raise SourceError(f"{path}: columns are not as expected ({hint})", problems)
        self.attributes = {n: _attributes(schema.field(n).metadata) for n in self.wanted if n not in places}
        self.attributes.update({k: {**self.attributes.get(k, {}), **v} for k, v in columns.attributes.items()})

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
        flavour = self.columns.flavour
        found = {"date": self._dates(frame), "latitude": frame[flavour.latitude], "longitude": frame[flavour.longitude]}
        found.update({n: frame[n] for n in self.wanted if n not in self.columns.places})
        return with_attributes(pd.DataFrame(found, copy=False), self.attributes, str(self.path))

    def _dates(self, frame: pd.DataFrame) -> Any:
        import pandas as pd

        names, units, form = self.columns.flavour.date, self.columns.date_units, self.columns.date_format
        dates: Any = frame[names[0]]
        where = f"{self.path}, column {' and '.join(names)}"
        if len(names) > 1 or form is not None:
            dates = _words(dates)
            for name in names[1:-1]:
                dates = dates + " " + _words(frame[name])
            if len(names) > 1:
                dates = dates + " " + _clocks(_words(frame[names[-1]]), form, where)
            dates = dates_of_text(dates, form, where)
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


def _words(column: pd.Series[Any]) -> pd.Series[Any]:
    """Return parts of dates as text: whole numbers without a fraction, and days without a time."""
    import pandas as pd

    if pd.api.types.is_datetime64_any_dtype(column.dtype):
        days = column.dt.tz is None and (column.isna() | (column == column.dt.normalize())).all()
        return column.dt.strftime("%Y-%m-%d" if days else "%Y-%m-%dT%H:%M:%S.%f%z").astype(object)
    if not pd.api.types.is_numeric_dtype(column.dtype):
        found = column.astype(object).map(lambda value: value if isinstance(value, str) else str(value), "ignore")
    else:
        found = column.astype(object).map(lambda value: str(int(value) if value % 1 == 0 else value), "ignore")
    return found.astype(object)


#: The largest number that is a time of day in hours and minutes.
_LATEST = 2400


def _clocks(times: pd.Series[Any], form: str | None, where: str) -> pd.Series[Any]:
    """Return times of day in which those that were numbers, such as 60000, have all their digits, such as 060000."""
    width = 6 if form is None or "%H%M%S" in form else 4 if "%H%M" in form else 0
    digits = times.map(lambda value: value.strip().removesuffix(".0") if isinstance(value, str) else "")
    numbers = digits.map(str.isdecimal)
    short = numbers & digits.map(lambda text: text != "0" and text.startswith("0") and len(text) < width)
    if short.any():
        i = int(np.argmax(short))
        raise SourceError(
            f"{where}, row {times.index[i]}: the time {times.iloc[i]!r} has leading zeros, but not {width} digits; "
            "give date_format, such as '%Y%m%d %H%M' for hours and minutes"
        )
    few = numbers & digits.map(lambda text: text != "0" and len(text) < width)
    if form is None and few.any() and all(int(text) <= _LATEST for text in digits[numbers]):
        raise SourceError(
            f"{where}, row {times.index[int(np.argmax(few))]}: the time {times[few].iloc[0]!r} may be hours, hours and "
            "minutes, or seconds of the first minutes of a day; give date_format: %H, %H%M or %H%M%S after the day, "
            "such as '%Y%m%d %H%M'"
        )
    return times.mask(numbers, digits.map(lambda text: text.zfill(width)))


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


#: A number of years that pandas takes for a month: 2000.5 for May.
_YEARS = re.compile(r"\s*\d{4}\.\d+")

#: An offset from UTC that is neither hours nor hours and minutes.
_ODD_ZONE = re.compile(r"[+-](?:\d{3}|\d\d?:\d)\Z")

#: Names of zones that pandas takes for those with summer time, though they are names of standard time.
_STANDARD_TIME = re.compile(r"\b[CEMW]ET\b", re.IGNORECASE)

#: Numbers of a format that follow each other without a sign in between, and the digits of each.
_RUN = re.compile(r"((?:%[YymdjHIMS]){2,})|%(.)")
_DIGITS = {"Y": 4, "j": 3}


def _of_all_digits(form: str) -> re.Pattern[str] | None:
    """Return what texts match whose adjacent numbers have all their digits, or `None` if a format has none such."""
    # pandas reads 1122020 by %d%m%Y as 11 February, although it may be 1 December, whose leading zero is lost.
    if not any(found[1] for found in _RUN.finditer(form)):
        return None
    pattern, end = "", 0
    for found in _RUN.finditer(form):
        run = found[1]
        width = sum(_DIGITS.get(letter, 2) for letter in run[1::2]) if run else 0
        pattern += re.escape(form[end : found.start()]) + (
            f"[\\d ]{{{width}}}" if run else "%" if found[2] == "%" else ".+"
        )
        end = found.end()
    pattern = re.sub(r"(?:\\\s)+", r"\\s+", pattern + re.escape(form[end:]))
    return re.compile(pattern, re.IGNORECASE)


def dates_of_text(text: pd.Series[Any], form: str | None, where: str) -> pd.Series[Any]:
    """Return text as dates in UTC: ISO 8601, also as ``20200131 060000``, or in a format of ``strptime``."""
    import pandas as pd

    given = {"format": form or "ISO8601", "errors": "coerce"}
    dates: pd.Series[Any]
    try:
        dates = pd.to_datetime(text, **given)
    except ValueError:  # the rows have different zones
        dates = pd.to_datetime(text, **given, utc=True)
    # For pandas these words are the time of the call, and +100 is ten hours.
    wrong = dates.isna().to_numpy() | text.isin(["now", "today"]).to_numpy()
    digits = None if form is None else _of_all_digits(form)
    if digits is not None:
        wrong |= ~np.array([digits.fullmatch(str(value).strip()) is not None for value in text], bool)
    if form is not None and "%Z" in form:
        wrong |= [_STANDARD_TIME.search(str(value)) is not None for value in text]
    if form is None and len(text) and _YEARS.fullmatch(str(text.iloc[0])):
        wrong[:] = True
    if dates.dt.tz is not None:
        wrong |= [_ODD_ZONE.search(value) is not None for value in text.astype(str)]
        dates = dates.dt.tz_convert(None)
    if wrong.any():
        i = int(np.argmax(wrong))
        value = text.iloc[i]
        more = int(wrong.sum()) - 1
        all_digits = "" if digits is None else ", with all digits"
        said = "the date is missing" if pd.isna(value) or not str(value).strip() else f"{value!r} is not a date"
        raise SourceError(
            f"{where}, row {text.index[i]}{f' and {more} more' if more else ''}: {said}, expected "
            f"{form or 'ISO 8601 such as 2020-01-31T06:00:00'}{all_digits}; correct the row, or give date_format"
        )
    return dates


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
