"""Observations from tables in text: CSV, plain or compressed.

Each file is read once for a build, whatever the number of parts (see `cfagg.observations.sources.sorted_rows`).

Source: the source ``csv`` of anemoi-datasets, whose settings ``path``, ``columns`` and ``flavour`` are understood.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Self

from pydantic import AfterValidator, Field, PlainValidator, model_validator

from cfagg.errors import CfaggError, Problem, SourceError
from cfagg.observations.frames import with_attributes
from cfagg.observations.registry import closest
from cfagg.observations.settings import ByName, Names, Paths, Section, Text, Whole, settings_of, wrong
from cfagg.observations.sources.sorted_rows import FileSource, as_file
from cfagg.observations.sources.tables import dates_of_numbers, dates_of_text
from cfagg.storage.urls import Url

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

__all__ = ["CsvSource"]

#: Bytes of text that are read and sorted together, and bytes from which the types of columns are seen.
BLOCK, HEAD = 32 * 2**20, 2**20

#: Text that means missing, besides nothing at all.
_MISSING = ["", "NA", "N/A", "n/a", "NaN", "nan", "NULL", "null", "None", "<NA>", "#N/A", "-nan", "-NaN"]

_COLUMN = re.compile(r"In CSV column #(\d+)")


class CsvSource(FileSource):
    r"""A table in text, with a line of column names.

    Parameters
    ----------
    config : mapping
        ``path``: a file, a pattern, a URL with what its server wants as ``options``, or a list
        of them; names ending in .gz or .bz2 are compressed.
        ``columns``: the data columns, all if not given.
        ``flavour``: names of the columns ``date``, ``latitude`` and ``longitude``; ``date`` may be two, a date and a
        time.  ``date_format``: as for strptime, ISO 8601 if not given.  ``date_units``: for dates that are numbers,
        such as ``seconds since 1970-01-01``.  ``delimiter``, ``decimal``, ``encoding``, ``skip_rows``, ``missing``
        (more words for missing values), ``attributes`` (of columns: units, standard_name and more).

    Raises
    ------
    ConventionError
        Settings that are not understood; all at once.

    Examples
    --------
    >>> import tempfile
    >>> from datetime import datetime
    >>> with tempfile.NamedTemporaryFile("w", suffix=".csv") as file:
    ...     _ = file.write("time,lat,lon,t\n2020-01-01T06:00Z,51.5,-0.1,4.5\n")
    ...     file.flush()
    ...     flavour = {"date": "time", "latitude": "lat", "longitude": "lon"}
    ...     source = CsvSource({"path": file.name, "flavour": flavour})
    ...     print(next(source.read(datetime(2020, 1, 1), datetime(2020, 1, 2))))
                     date  latitude  longitude    t
    1 2020-01-01 06:00:00      51.5       -0.1  4.5
    """

    def __init__(self, config: Mapping[str, Any]) -> None:
        table = settings_of(_Table, config)
        super().__init__("csv", config, table.path, partial(_blocks, table), table.options)


def _dates(value: Any) -> tuple[str, ...]:
    names = value.split(",") if isinstance(value, str) else value
    listed = isinstance(names, list | tuple) and all(isinstance(n, str) for n in names)
    if not listed or not 1 <= len(names) <= 2:
        raise ValueError(f"{value!r} is neither one column nor two, a date and a time")
    return tuple(n.strip() for n in names)


def _sign(value: str) -> str:
    if len(value) != 1 or not value.isascii():
        raise ValueError(f"{value!r} is not one character")
    return value


def _encoding(value: str) -> str:
    try:
        codecs.lookup(value)
    except (LookupError, ValueError):  # of a name with a NUL
        raise ValueError(f"{value!r} is not known") from None
    return value


def _words(value: Any) -> list[str]:
    if isinstance(value, str):
        return [value]
    if not isinstance(value, Iterable):
        raise ValueError(f"{value!r} is not a list of words for missing values")  # noqa: TRY004
    return [str(v) for v in value]


class _Flavour(Section):
    date: Annotated[tuple[str, ...], PlainValidator(_dates)] = ("date",)
    latitude: Text = "latitude"
    longitude: Text = "longitude"


class _Table(Section):
    """How a table is written."""

    path: Paths
    columns: Names | None = None
    flavour: _Flavour = _Flavour()
    delimiter: Annotated[Text, AfterValidator(_sign)] = ","
    decimal: Annotated[Text, AfterValidator(_sign)] = "."
    encoding: Annotated[Text, AfterValidator(_encoding)] = "utf-8"
    skip_rows: Whole = 0
    missing: Annotated[list[str], PlainValidator(_words)] = Field(default_factory=list)
    date_format: Text | None = None
    date_units: Text | None = None
    attributes: ByName = Field(default_factory=dict)
    options: ByName = Field(default_factory=dict)

    @model_validator(mode="after")
    def _agree(self) -> Self:
        problems = []
        if self.decimal == self.delimiter:
            problems.append((("decimal",), f"{self.decimal!r} is also the delimiter"))
        if self.date_units and len(self.flavour.date) > 1:
            problems.append((("date_units",), "is only for dates in one column"))
        if problems:
            raise wrong(*problems)
        return self

    @property
    def places(self) -> list[str]:
        """Columns of dates and places."""
        return [*self.flavour.date, self.flavour.latitude, self.flavour.longitude]


def _blocks(table: _Table, paths: list[str]) -> Iterator[pd.DataFrame]:
    """Give the rows of all files, labelled by their number in the file."""
    for path in paths:
        number = 1
        for batch in _batches(table, path):
            frame = batch.to_pandas()
            frame.index = range(number, number + len(frame))
            number += len(frame)
            yield _observations(table, frame, path)


def _batches(table: _Table, path: str) -> Iterator[pa.RecordBatch]:
    """Give a file's rows in blocks; numbers are float64, all else is text."""
    import pyarrow as pa

    text: set[str] = set()
    done = 0  # rows that were given before a column turned out to be text
    while True:
        seen = 0
        names: list[str] = []
        try:
            reader, names = _open(table, path, text)
            with reader:
                for batch in reader:
                    seen += batch.num_rows
                    if seen > done:
                        yield batch.slice(max(0, done - seen + batch.num_rows))
                        done = seen
                if not seen:
                    yield pa.RecordBatch.from_pylist([], reader.schema)
            return  # noqa: TRY300  # the loop is for another try
        except pa.ArrowInvalid as error:
            column = _COLUMN.search(str(error))
            name = names[int(column[1])] if column is not None and int(column[1]) < len(names) else None
            if name is None or name in text:
                hint = "; give another encoding" if "UTF8" in str(error) else "; correct the file, or give delimiter"
                about = "" if name is None else f", column {name}"
                raise SourceError(f"{path}{about}: {_first_line(error)}{hint}") from error
            text.add(name)
        except UnicodeDecodeError as error:
            raise SourceError(
                f"{path}: column names are not text in {table.encoding}; give another encoding"
            ) from error
        except CfaggError:
            raise
        except OSError as error:
            raise SourceError(f"{path} cannot be read: {error}") from error


def _open(table: _Table, path: str, text: set[str]) -> tuple[Any, list[str]]:
    """Return a reader of a file and the names of its columns in the order in which errors count them."""
    import pyarrow as pa
    from pyarrow import csv

    parse = csv.ParseOptions(delimiter=table.delimiter, newlines_in_values=False)
    how: dict[str, Any] = {
        "null_values": [*_MISSING, *table.missing],
        "strings_can_be_null": True,
        "decimal_point": table.decimal,
    }
    skip, encoding = table.skip_rows, table.encoding
    with _stream(path) as stream:
        options = csv.ReadOptions(block_size=HEAD, skip_rows=skip, encoding=encoding)
        head = csv.open_csv(stream, options, parse, csv.ConvertOptions(**how))
        schema = head.schema
    have = [str(n) for n in schema.names]
    wanted = have if table.columns is None else [*table.places, *(c for c in table.columns if c not in table.places)]
    missing = [n for n in dict.fromkeys([*table.places, *wanted]) if n not in have]
    twice = sorted({n for n in have if have.count(n) > 1 and n in wanted})
    if missing or twice:
        hint = f"the columns are {', '.join(have)}; name them in flavour"
        problems = [Problem(n, f"is missing{closest(n, have)}") for n in missing]
        problems += [Problem(n, "names two columns") for n in twice]
        raise SourceError(f"{path}: columns are not as expected ({hint})", problems)
    numeric = (pa.types.is_integer, pa.types.is_floating, pa.types.is_null)
    types = {}
    for name in wanted:
        kind = schema.field(name).type
        number = any(test(kind) for test in numeric) and name not in text
        types[name] = pa.float64() if number and (name not in table.flavour.date or table.date_units) else pa.string()
    convert = csv.ConvertOptions(column_types=types, include_columns=wanted, **how)
    options = csv.ReadOptions(block_size=BLOCK, skip_rows=skip, encoding=encoding)
    return csv.open_csv(_stream(path), options, parse, convert), have


def _stream(path: str) -> Any:
    import pyarrow as pa

    if not isinstance(path, Url):
        return pa.input_stream(path, compression="detect")
    try:
        packed = pa.Codec.detect(str(path)).name
    except TypeError:  # it says so of a name that tells of none
        packed = None
    return pa.input_stream(pa.PythonFile(as_file(path), mode="r"), compression=packed)


def _first_line(error: Exception) -> str:
    return str(error).splitlines()[0] if str(error) else type(error).__name__


def _observations(table: _Table, frame: pd.DataFrame, path: str) -> pd.DataFrame:
    """Return rows with the columns of observations first."""
    import pandas as pd

    where = f"{path}, column {' and '.join(table.flavour.date)}"
    first = frame[table.flavour.date[0]]
    if table.date_units:
        if first.dtype == object or isinstance(first.dtype, pd.StringDtype):
            raise SourceError(f"{where}: not all dates are numbers, as date_units says")
        dates = pd.Series(dates_of_numbers(first.to_numpy(), table.date_units, None, where), frame.index)
        if dates.isna().any():
            raise SourceError(f"{where}, row {dates.index[dates.isna().argmax()]}: there is no date; correct the row")
    else:
        text = first.astype(object)
        if len(table.flavour.date) == 2:
            text = text + " " + frame[table.flavour.date[1]].astype(object).map(_clock)
        dates = dates_of_text(text, table.date_format, where)
    columns = {"date": dates, "latitude": frame[table.flavour.latitude], "longitude": frame[table.flavour.longitude]}
    others = [c for c in frame.columns if c not in table.places]
    clash = [c for c in others if c in columns]
    if clash:
        raise SourceError(
            f"{path}: {', '.join(clash)} is a column beside the one that flavour names; choose the data with columns"
        )
    found = pd.DataFrame({**columns, **{c: frame[c] for c in others}}, copy=False)
    return with_attributes(found, table.attributes)


def _clock(value: Any) -> Any:
    """Return a time of day such as 600 as 000600."""
    return value.strip().removesuffix(".0").zfill(6) if isinstance(value, str) else value
