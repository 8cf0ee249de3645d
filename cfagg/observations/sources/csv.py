"""Observations from tables in text: CSV, plain or compressed.

Each file is read once for a build, whatever the number of parts (see `cfagg.observations.sources.sorted_rows`).

Source: the source ``csv`` of anemoi-datasets, whose settings ``path``, ``columns`` and ``flavour`` are supported.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Self

from pydantic import AfterValidator, Field, PlainValidator, model_validator

from cfagg.errors import CfaggError, SourceError
from cfagg.observations.settings import Names, Text, Whole, settings_of, wrong
from cfagg.observations.sources.sorted_rows import FileSource, as_file
from cfagg.observations.sources.tables import Columns, Flavour, Table, date_columns
from cfagg.storage.urls import Url

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

__all__ = ["CsvSource"]

#: Bytes of text that are read and sorted together, and bytes from which the types of columns are inferred.
BLOCK, HEAD = 32 * 2**20, 2**20

#: Text for missing values, besides empty text.
_MISSING = ["", "NA", "N/A", "n/a", "NaN", "nan", "NULL", "null", "None", "<NA>", "#N/A", "-nan", "-NaN"]

#: The delimiter that stands for any number of spaces and tabs.
_SPACES = "whitespace"

#: Ends of names of packed files that are not unpacked here.
_PACKED = (".xz", ".zip", ".z", ".7z", ".tar")

_COLUMN = re.compile(r"In CSV column #(\d+)")


class CsvSource(FileSource):
    r"""A table in text, usually with a line of column names.

    Parameters
    ----------
    config : mapping
        ``path``: a file, a pattern, a URL with ``options`` for its server and, in ``allow``, the places that it may
        redirect to, or a list of them; names ending in .gz, .bz2 or .zst are compressed.
        ``columns``: the data columns, all if not given.
        ``flavour``: names of the columns ``date``, ``latitude`` and ``longitude``; ``date`` may be two, a date and a
        time (``06:00``, or ``60000`` as a number), or a list of more, joined by spaces for ``date_format``; latitude
        and longitude may be numbers, the place of all rows.
        ``date_format``: as for strptime, such as ``%Y %m %d %H``; ISO 8601 if not given.
        ``date_units``: for dates that are numbers, such as ``seconds since 1970-01-01``.  ``delimiter`` (a
        character, or ``whitespace`` for any number of spaces and tabs), ``decimal``, ``encoding``, ``skip_rows`` (lines
        before the names of columns), ``skip_after_names`` (lines between the names and the first row, such as one of
        units), ``names`` (of all columns, if no line has them), ``missing`` (more words for missing values; a number
        stands for all forms of it, as -999 for -999.0), ``attributes`` (of columns: units, standard_name and more).

    Raises
    ------
    ConventionError
        Settings are invalid; all problems are listed.

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
        table = settings_of(_Text, config)
        super().__init__("csv", config, table.path, partial(_blocks, table), table.options, table.allow)


def _dates(value: Any) -> tuple[str, ...]:
    return date_columns([n.strip() for n in value.split(",")] if isinstance(value, str) else value)


def _delimiter(value: str) -> str:
    if value != _SPACES and (len(value) != 1 or not value.isascii()):
        raise ValueError(f"{value!r} is neither one character nor {_SPACES}")
    return value


def _sign(value: str) -> str:
    if len(value) != 1 or not value.isascii():
        raise ValueError(f"{value!r} is not one character")
    return value


def _encoding(value: str) -> str:
    try:
        "".encode(value)
    except (LookupError, ValueError):  # for a name with a NUL
        raise ValueError(f"{value!r} is not the name of an encoding of text") from None
    return value


def _words(value: Any) -> list[str]:
    if isinstance(value, str | int | float) and not isinstance(value, bool):
        return [str(value)]
    if not isinstance(value, list | tuple) or not all(isinstance(v, str | int | float) for v in value):
        raise ValueError(f"{value!r} is not a list of words and numbers for missing values")
    return [str(v) for v in value]


class _Flavour(Flavour):
    date: Annotated[tuple[str, ...], PlainValidator(_dates)] = ("date",)


class _Text(Columns):
    """The format of a table."""

    of_text: ClassVar[bool] = True

    flavour: _Flavour = _Flavour()
    delimiter: Annotated[Text, AfterValidator(_delimiter)] = ","
    decimal: Annotated[Text, AfterValidator(_sign)] = "."
    encoding: Annotated[Text, AfterValidator(_encoding)] = "utf-8"
    skip_rows: Whole = 0
    skip_after_names: Whole = 0
    names: Names | None = None
    missing: Annotated[list[str], PlainValidator(_words)] = Field(default_factory=list)

    @model_validator(mode="after")
    def _apart(self) -> Self:
        if self.names == ():
            raise wrong((("names",), "is an empty list; leave it out if the file has a line of names"))
        if self.decimal == self.delimiter:
            raise wrong((("decimal",), f"{self.decimal!r} is also the delimiter"))
        if self.delimiter == _SPACES and " ".encode(self.encoding) != b" ":
            raise wrong(
                (("delimiter",), f"{_SPACES} is not found in text in {self.encoding}; convert the file to utf-8")
            )
        return self

    @property
    def missing_numbers(self) -> list[float]:
        """The words for missing values that are numbers."""
        found = []
        for word in self.missing:
            with suppress(ValueError):
                found.append(float(word.strip().replace(self.decimal, ".")))
        return found


def _blocks(text: _Text, paths: list[str]) -> Iterator[pd.DataFrame]:
    """Yield the rows of all files, labelled by their number in the file."""
    import pyarrow as pa

    for path in paths:
        number = 1
        for table, batch in _batches(text, path):
            yield table.frame(_masked(pa.Table.from_batches([batch]), text.missing_numbers), number)
            number += batch.num_rows


def _masked(table: pa.Table, numbers: list[float]) -> pa.Table:
    """Return a table whose numbers are missing where they are among `numbers`, however the file writes them."""
    import pyarrow as pa
    from pyarrow import compute

    for i, field in enumerate(table.schema if numbers else ()):
        if pa.types.is_floating(field.type):
            column = table.column(i)
            gone = compute.is_in(column, value_set=pa.array(numbers, field.type))
            table = table.set_column(i, field, compute.if_else(gone, pa.scalar(None, field.type), column))
    return table


def _batches(text: _Text, path: str) -> Iterator[tuple[Table, pa.RecordBatch]]:
    """Yield a file's rows in blocks; numbers are float64, everything else is text."""
    import pyarrow as pa

    if path.lower().endswith(_PACKED):
        raise SourceError(f"{path}: a file packed in this way is not read; unpack it, or pack it as .gz, .bz2 or .zst")
    words: set[str] = set()
    done = 0  # rows that were yielded before a column turned out to be text
    while True:
        seen = 0
        names: list[str] = []
        try:
            schema = _schema(text, path)
            names = [str(n) for n in schema.names]
            table = Table(text, path, schema)
            # It converts the first block already.
            with _open(text, path, table, schema, words) as reader:
                for batch in reader:
                    seen += batch.num_rows
                    if seen > done:
                        yield table, batch.slice(max(0, done - seen + batch.num_rows))
                        done = seen
                if not seen:
                    yield table, pa.RecordBatch.from_pylist([], reader.schema)
            return  # noqa: TRY300  # the loop is for another try
        except pa.ArrowInvalid as error:
            column = _COLUMN.search(str(error))
            name = names[int(column[1])] if column is not None and int(column[1]) < len(names) else None
            if name is None or name in words:
                hint = (
                    f"correct the file, or give {'the names of all columns, ' * bool(text.names)}delimiter or skip_rows"
                )
                hint = "give another encoding" if "UTF8" in str(error) else hint
                about = "" if name is None else f", column {name}"
                raise SourceError(f"{path}{about}: {_first_line(error)}; {hint}") from error
            words.add(name)
        except UnicodeDecodeError as error:
            raise SourceError(f"{path}: column names are not text in {text.encoding}; give another encoding") from error
        except CfaggError:
            raise
        except OSError as error:
            raise SourceError(f"{path} cannot be read: {error}") from error


def _options(text: _Text, block: int, **convert: Any) -> tuple[Any, Any, Any]:
    """Return pyarrow's options for reading, parsing and converting text."""
    from pyarrow import csv

    return (
        csv.ReadOptions(
            block_size=block,
            skip_rows=text.skip_rows,
            skip_rows_after_names=text.skip_after_names,
            column_names=text.names,
            encoding=text.encoding,
        ),
        csv.ParseOptions(delimiter="\t" if text.delimiter == _SPACES else text.delimiter, newlines_in_values=True),
        csv.ConvertOptions(
            null_values=[*_MISSING, *text.missing], strings_can_be_null=True, decimal_point=text.decimal, **convert
        ),
    )


def _schema(text: _Text, path: str) -> Any:
    """Return the names of a file's columns, and their types as the first rows suggest."""
    from pyarrow import csv

    with _stream(path) as stream:
        return csv.open_csv(_separated(text, stream), *_options(text, HEAD)).schema


def _open(text: _Text, path: str, table: Table, schema: Any, words: set[str]) -> Any:
    """Return a reader of a file; columns in `words` are text, whatever their type in the schema."""
    import pyarrow as pa
    from pyarrow import csv

    numeric = (pa.types.is_integer, pa.types.is_floating, pa.types.is_null)
    types = {}
    for name in table.wanted:
        number = any(test(schema.field(name).type) for test in numeric) and name not in words
        types[name] = pa.float64() if number and (name not in text.flavour.date or text.date_units) else pa.string()
    stream = _separated(text, _stream(path))
    return csv.open_csv(stream, *_options(text, BLOCK, column_types=types, include_columns=table.wanted))


def _separated(text: _Text, stream: Any) -> Any:
    """Return text in which one character separates columns."""
    import pyarrow as pa

    return pa.PythonFile(_Spaced(stream), mode="r") if text.delimiter == _SPACES else stream


class _Spaced:
    """Text whose columns any number of spaces and tabs separate, as text in which one tab does."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream
        self._line = self._ready = b""
        self.closed = False

    def read(self, size: int) -> bytes:
        """Return at most `size` bytes, none at the end."""
        while len(self._ready) < size and (more := self._stream.read(size)):
            lines, end, self._line = (self._line + more).rpartition(b"\n")
            self._ready += self._of_tabs(lines + end)
        if len(self._ready) < size:
            self._ready, self._line = self._ready + self._of_tabs(self._line), b""
        found, self._ready = self._ready[:size], self._ready[size:]
        return found

    def close(self) -> None:
        """Close the file."""
        self.closed = True
        self._stream.close()

    @staticmethod
    def _of_tabs(lines: bytes) -> bytes:
        """Return lines without spaces at their ends, and with one tab for those between columns."""
        return re.sub(rb"[ \t]+", b"\t", re.sub(rb"(?m)^[ \t]+|[ \t]+(?=\r?$)", b"", lines))


def _stream(path: str) -> Any:
    import pyarrow as pa

    if not isinstance(path, Url):
        return pa.input_stream(path, compression="detect")
    try:
        packed = pa.Codec.detect(str(path)).name
    except TypeError:  # raised for names that do not indicate a compression
        packed = None
    return pa.input_stream(pa.PythonFile(as_file(path), mode="r"), compression=packed)


def _first_line(error: Exception) -> str:
    return str(error).splitlines()[0] if str(error) else type(error).__name__
