"""Observations from Parquet.

A part of a build reads only the row groups whose dates may fall within it, as their statistics tell.  Where a file's
rows are in no order of time, or its row groups are very large, that would read the same rows again and again; the file
is then read once, as others are (see `cfagg.observations.sources.spool`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from cfagg.errors import Problem, SourceError
from cfagg.observations.frames import with_attributes
from cfagg.observations.settings import Settings, closest
from cfagg.observations.sources.csv import paths_of
from cfagg.observations.sources.spool import SpooledSource, expand
from cfagg.observations.sources.times import dates_of_numbers, dates_of_text

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["ParquetSource"]

#: Rows that are read at once, rows of a row group from which a file is read once, and how many row groups may hold
#: the same date before it is.
BATCH, LARGE, DEEP = 1 << 18, 1 << 18, 4.0


class ParquetSource(SpooledSource):
    """A Parquet file, or several.

    Parameters
    ----------
    config : mapping
        ``path``: a file, a pattern, or a list of them.  ``columns``: the data columns, all if not given.
        ``flavour``: names of the columns ``date``, ``latitude`` and ``longitude``.  ``date_units``: for dates that are
        numbers, such as ``seconds since 1970-01-01``.  ``attributes``: of columns (units, standard_name and more),
        besides those that the file has as metadata of its columns.

    Examples
    --------
    >>> import tempfile
    >>> import pandas as pd
    >>> frame = pd.DataFrame({"date": pd.to_datetime(["2020-01-01"]), "lat": 51.5, "lon": 359.9, "t": 4.5})
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     frame.to_parquet(f"{folder}/a.parquet")
    ...     flavour = {"latitude": "lat", "longitude": "lon"}
    ...     source = ParquetSource({"path": f"{folder}/a.parquet", "flavour": flavour})
    ...     print(next(source.read(datetime(2020, 1, 1), datetime(2020, 1, 2))))
            date  latitude  longitude    t
    1 2020-01-01      51.5      359.9  4.5
    """

    def __init__(self, config: Mapping[str, Any]) -> None:
        settings = Settings(config)
        paths = paths_of(config, settings)
        columns = settings.names("columns")
        flavour = Settings(settings.take("flavour"), f"{settings.where}.flavour".strip("."))
        names = {key: flavour.text(key, key) for key in ("date", "latitude", "longitude")}
        flavour.unknown()
        settings.problems += flavour.problems
        units = settings.text("date_units") or None
        attributes = settings.mapping("attributes")
        settings.finish()
        self._table = _Table(names, columns, units, attributes)
        self._files: list[_File] | None = None
        super().__init__("parquet", config, paths, self._everything)

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "_files": None}

    def prepare(self, directory: Path) -> None:
        """Look at the files; read them now if their rows are in no order of time.

        Raises
        ------
        SourceError
            A file is not there, cannot be read, or lacks columns.
        TargetError
            The directory cannot be written.
        """
        if self._spool is None and not all(f.in_order for f in self._opened()):
            super().prepare(directory)

    def read(self, start: datetime, end: datetime) -> Iterator[pd.DataFrame]:
        """Give the rows from `start` up to `end`, which is not included."""
        files = self._opened()
        if self._spool is not None or not all(f.in_order for f in files):
            yield from super().read(start, end)
            return
        some = False
        for file in files:
            for frame in file.frames(start, end):
                some = True
                yield frame
        if not some and files:
            yield files[0].empty()

    def _opened(self) -> list[_File]:
        if self._files is None:
            self._files = [_File(self._table, path) for path in expand(self._paths)]
        return self._files

    def _everything(self, paths: list[str]) -> Iterator[pd.DataFrame]:
        for path in paths:
            yield from _File(self._table, path).frames(None, None)


class _Table:
    """Which columns are wanted and how they are called."""

    def __init__(
        self, names: dict[str, str], columns: tuple[str, ...] | None, units: str | None, attributes: dict[str, Any]
    ) -> None:
        self.names, self.columns, self.units, self.attributes = names, columns, units, attributes


class _File:
    """One file, its metadata read."""

    def __init__(self, table: _Table, path: str) -> None:
        import pyarrow as pa
        from pyarrow import parquet

        self.table, self.path = table, path
        try:
            self.file = parquet.ParquetFile(path, memory_map=True)
        except (pa.ArrowException, OSError, ValueError) as error:
            raise SourceError(f"{path} is no Parquet file that can be read: {str(error).splitlines()[0]}") from error
        schema = self.file.schema_arrow
        have = list(schema.names)
        places = list(table.names.values())
        chosen = [n for n in have if not n.startswith("__index_level_")] if table.columns is None else table.columns
        self.wanted = list(dict.fromkeys([*places, *chosen]))
        problems = [Problem(n, f"is missing{closest(n, have)}") for n in self.wanted if n not in have]
        problems += [Problem(n, "names two columns") for n in self.wanted if have.count(n) > 1]
        problems += [
            Problem(n, "is a column besides the one of flavour") for n in table.names if n not in places and n in chosen
        ]
        if problems:
            raise SourceError(f"{path}: columns are not as expected; the columns are {', '.join(have)}", problems)
        self.attributes = {n: _attributes(schema.field(n).metadata) for n in self.wanted if n not in places}
        self.attributes.update({k: {**self.attributes.get(k, {}), **v} for k, v in table.attributes.items()})
        groups = [self.file.metadata.row_group(i) for i in range(self.file.num_row_groups)]
        paths = [self.file.schema.column(i).path for i in range(len(self.file.schema.names))]
        date = paths.index(table.names["date"]) if table.names["date"] in paths else None
        self.rows = [group.num_rows for group in groups]
        self.spans = [None if date is None else _span(group.column(date).statistics) for group in groups]
        self.in_order = self._in_order()

    def _in_order(self) -> bool:
        """Tell whether parts of a build may read the row groups with their dates, without reading most twice."""
        if max(self.rows, default=0) > LARGE:
            return False
        known = [s for s in self.spans if s is not None]
        if len(known) < len(self.spans) or len(known) < 2:
            return len(self.spans) < 2
        whole = (max(s[1] for s in known) - min(s[0] for s in known)).total_seconds()
        return sum((s[1] - s[0]).total_seconds() for s in known) <= DEEP * whole

    def frames(self, start: datetime | None, end: datetime | None) -> Iterator[pd.DataFrame]:
        """Give the rows from `start` up to `end`; all without them."""
        import pyarrow as pa
        from pyarrow import parquet

        number = 1
        for group, span in enumerate(self.spans):
            # Statistics may be cut to the microsecond; a date of the next one is still looked at.
            if start is None or end is None or span is None or (span[1] >= start and span[0] <= end):
                try:
                    at = number
                    # Threads may read parts of one file at once; a reader is for one of them.
                    file = parquet.ParquetFile(self.path, metadata=self.file.metadata, memory_map=True)
                    for batch in file.iter_batches(BATCH, row_groups=[group], columns=self.wanted):
                        frame = self._frame(pa.table(batch), at)
                        at += len(frame)
                        if start is not None and end is not None:
                            dates = frame["date"].to_numpy()
                            frame = frame[(dates >= np.datetime64(start)) & (dates < np.datetime64(end))]
                        if len(frame):
                            yield frame
                except SourceError:
                    raise
                except (pa.ArrowException, OSError) as error:
                    said = str(error).splitlines()[0]
                    raise SourceError(f"{self.path}: row group {group} cannot be read: {said}") from error
            number += self.rows[group]

    def empty(self) -> pd.DataFrame:
        """Return a frame without rows."""
        return self._frame(self.file.schema_arrow.empty_table().select(self.wanted), 1)

    def _frame(self, table: Any, number: int) -> pd.DataFrame:
        import pandas as pd
        import pyarrow as pa

        table = table.select(self.wanted).replace_schema_metadata(None)
        for i, field in enumerate(table.schema):
            if pa.types.is_boolean(field.type):
                table = table.set_column(i, field.name, table.column(i).cast(pa.uint8()))
            elif pa.types.is_dictionary(field.type):
                table = table.set_column(i, field.name, table.column(i).cast(field.type.value_type))
        frame = table.to_pandas(date_as_object=False)
        frame.index = range(number, number + len(frame))
        names = self.table.names
        where = f"{self.path}, column {names['date']}"
        dates = frame[names["date"]]
        if pd.api.types.is_numeric_dtype(dates.dtype):
            if self.table.units is None:
                raise SourceError(f"{where}: dates are numbers; give date_units, such as seconds since 1970-01-01")
            dates = pd.Series(dates_of_numbers(dates.to_numpy(), self.table.units, None, where), frame.index)
        elif not pd.api.types.is_datetime64_any_dtype(dates.dtype):
            dates = dates_of_text(dates.astype(object), None, where)
        elif dates.dt.tz is not None:
            dates = dates.dt.tz_convert("UTC").dt.tz_localize(None)
        if dates.isna().any():
            row = frame.index[int(np.argmax(dates.isna().to_numpy()))]
            raise SourceError(f"{where}, row {row}: there is no date; correct the row")
        columns = {"date": dates, "latitude": frame[names["latitude"]], "longitude": frame[names["longitude"]]}
        columns.update({n: frame[n] for n in self.wanted if n not in names.values()})
        return with_attributes(pd.DataFrame(columns, copy=False), self.attributes)


def _attributes(metadata: Mapping[bytes, bytes] | None) -> dict[str, Any]:
    """Return the attributes of a column that a file has as metadata."""
    found = {k.decode("utf-8", "replace"): v.decode("utf-8", "replace") for k, v in (metadata or {}).items()}
    return {k: v for k, v in found.items() if not k.startswith(("PARQUET:", "ARROW:"))}


def _span(statistics: Any) -> tuple[datetime, datetime] | None:
    """Return the first and last date that statistics of a row group tell; `None` where they do not."""
    if statistics is None or not statistics.has_min_max:
        return None
    try:
        first, last = _as_datetime(statistics.min), _as_datetime(statistics.max)
    except (OverflowError, ValueError):
        return None  # dates that Python does not have; the rows tell
    return None if first is None or last is None else (first, last)


def _as_datetime(value: object) -> datetime | None:
    """Return a date of a row group's statistics."""
    if isinstance(value, datetime):
        return value.astimezone(UTC).replace(tzinfo=None) if value.tzinfo is not None else value
    if isinstance(value, date):
        return datetime(value.year, value.month, value.day)
    return None
