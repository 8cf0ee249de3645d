"""Observations from tables in text: CSV, plain or compressed.

Each file is read once for a build, whatever the number of parts (see `cfagg.observations.sources.sorted_rows`).

Source: the source ``csv`` of anemoi-datasets, whose settings ``path``, ``columns`` and ``flavour`` are supported.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import partial
from math import isinf
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from pydantic import PlainValidator

from cfagg.errors import CfaggError, SourceError
from cfagg.observations.settings import settings_of
from cfagg.observations.sources.sorted_rows import FileSource
from cfagg.observations.sources.tables import Columns, Flavour, Table, date_columns, located
from cfagg.observations.sources.text_format import TextFormat

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

__all__ = ["CsvSource"]

#: Bytes of text that are read and sorted together, and bytes from which the types of columns are inferred.
BLOCK, HEAD = 32 * 2**20, 2**20

_COLUMN = re.compile(r"In CSV column #(\d+)")


class CsvSource(FileSource):
    r"""A table in text, usually with a line of column names.

    Parameters
    ----------
    config : mapping
        ``path``: a file, a pattern, a URL with ``options`` for its server and, in ``allow``, the places that it may
        redirect to, or a list of them; names ending in .gz, .bz2 or .zst are compressed.
        ``columns``: the data columns, all if not given; of several columns of a date, those that it names are data,
        too.
        ``flavour``: names of the columns ``date``, ``latitude`` and ``longitude``; ``date`` may be two, a date and a
        time (``06:00``, or ``60000`` as a number), or a list of more, joined by spaces for ``date_format``; latitude
        and longitude may be numbers, the place of all rows.
        ``date_format``: as for strptime, such as ``%Y %m %d %H``; ISO 8601 if not given.  Hour 24 is the first of the
        next day.
        ``date_units``: for dates that are numbers, such as ``seconds since 1970-01-01``.  ``delimiter`` (a
        character, or ``whitespace`` for any number of spaces and tabs), ``decimal``, ``encoding``, ``skip_rows`` (lines
        before the names of columns), ``skip_after_names`` (lines between the names and the first row, such as one of
        units), ``comment`` (what lines begin with that are left out, such as ``#``, wherever they are; they do not
        count in skip_rows), ``names`` (of all columns, if no line has them), ``positions`` (of columns in lines without
        a delimiter, by the numbers of their characters from 1, such as ``{year: 1-4, month: 5-6}``), ``missing`` (more
        words for missing values; a number stands for all forms of it, as -999 for -999.0), ``attributes`` (of columns:
        units, standard_name and more; scale_factor, add_offset, _FillValue and others by which CF packs values unpack
        those of the column, as 0.01 for hundredths of degrees).
        ``stations``: a list of the places of stations, for files without latitudes and longitudes: ``path``, also in
        text; ``column``, which has the names of stations in the files, and ``id``, which has them in the list if it is
        called otherwise there; ``numbers: true`` if these are numbers that may lack zeros before them; ``latitude`` and
        ``longitude``, columns of the list if not called so; ``columns``, more of the list that become data;
        ``options`` and ``allow`` of its server; and the keys above for the format of the list.

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
        table = located(settings_of(_Text, config), config)
        super().__init__(
            "csv", config, table.path, partial(_blocks, table), table.options, table.allow, beside=table.beside
        )


def _dates(value: Any) -> tuple[str, ...]:
    return date_columns([n.strip() for n in value.split(",")] if isinstance(value, str) else value)


class _Flavour(Flavour):
    date: Annotated[tuple[str, ...], PlainValidator(_dates)] = ("date",)


class _Text(Columns, TextFormat):
    """The columns and the format of a table."""

    of_text: ClassVar[bool] = True

    flavour: _Flavour = _Flavour()


def _blocks(text: _Text, paths: list[str]) -> Iterator[pd.DataFrame]:
    """Yield the rows of all files, labelled by their number in the file."""
    import pyarrow as pa

    for path in paths:
        number = 1
        checked: set[str] = set()
        for table, batch in _batches(text, path):
            _check_finite(text, path, batch, checked)
            yield table.frame(text.masked(pa.Table.from_batches([batch])), number)
            number += batch.num_rows


def _batches(text: _Text, path: str) -> Iterator[tuple[Table, pa.RecordBatch]]:
    """Yield a file's rows in blocks; numbers are float64, everything else is text."""
    import pyarrow as pa

    words: set[str] = set()
    done = 0  # rows that were yielded before a column turned out to be text
    while True:
        seen = 0
        names: list[str] = []
        try:
            schema = text.inferred(path, HEAD)
            names = [str(n) for n in schema.names]
            table = Table(text, path, schema)
            # It converts the first block already.
            with text.open(path, _types(text, table, schema, words), BLOCK) as reader:
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
            raise SourceError(f"{path}: not text in {text.encoding}; give another encoding") from error
        except CfaggError:
            raise
        except OSError as error:
            raise SourceError(f"{path} cannot be read: {error}") from error


def _types(text: _Text, table: Table, schema: pa.Schema, words: set[str]) -> dict[str, pa.DataType]:
    """Return the types of the columns that are read; those in `words` are text, whatever their type in the schema."""
    import pyarrow as pa

    numeric = (pa.types.is_integer, pa.types.is_floating, pa.types.is_null)
    types = {}
    words = words.union([] if text.stations is None else [text.stations.column])
    for name in table.wanted:
        number = any(test(schema.field(name).type) for test in numeric) and name not in words
        types[name] = pa.float64() if number and (name not in text.flavour.date or text.date_units) else pa.string()
    return types


def _check_finite(text: _Text, path: str, batch: pa.RecordBatch, checked: set[str]) -> None:
    """Refuse numbers that float64 cannot hold, such as 1e400, unless the file has the word for infinity itself."""
    import pyarrow as pa
    from pyarrow import compute

    for field in batch.schema:
        if field.name in checked or not pa.types.is_floating(field.type):
            continue
        if not compute.any(compute.is_inf(batch.column(field.name)), min_count=0).as_py():
            continue
        checked.add(field.name)
        number = 1
        with text.open(path, {field.name: pa.string()}, BLOCK) as reader:
            for words in reader:
                column = words.column(0)
                large = compute.match_substring_regex(column, r"^\s*[+-]?[\d.,]").fill_null(False)
                for i in compute.indices_nonzero(large).to_pylist():
                    word = column[i].as_py().strip()
                    if _overflows(word.replace(text.decimal, ".")):
                        raise SourceError(
                            f"{path}, column {field.name}, row {number + i}: {word!r} is more than numbers of 64 bits "
                            "hold; correct the row, or name the word in missing"
                        )
                number += len(words)


def _overflows(word: str) -> bool:
    try:
        return isinf(float(word))
    except ValueError:  # for a word further down, which makes the column one of text
        return False


def _first_line(error: Exception) -> str:
    return str(error).splitlines()[0] if str(error) else type(error).__name__
