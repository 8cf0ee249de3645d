"""Observations from Parquet and Arrow (Feather) files, the tables that pandas writes without pickle.

A part of a build reads only the row groups whose statistics allow dates of the part.  For a file whose rows are not in
order of time, or whose row groups are very large, that would read the same rows many times; such a file is read once,
like others (see `cfagg.observations.sources.sorted_rows`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, date, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cfagg.errors import CfaggError, SourceError, StaleError
from cfagg.observations.frames import dates_within
from cfagg.observations.settings import settings_of
from cfagg.observations.sources.partitioned import columns_of_folders, files_below
from cfagg.observations.sources.sorted_rows import FileSource, as_file, expand, stamp
from cfagg.observations.sources.tables import Columns, Table, located
from cfagg.storage.remote_file import open_remote
from cfagg.storage.urls import Url

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

__all__ = ["ArrowSource", "ParquetSource"]

#: Rows that are read at once; rows of a row group, and row groups with the same date, above which a file is read only
#: once.
BATCH, LARGE, DEEP = 1 << 18, 1 << 18, 4.0

#: How files are opened: dates of the older type INT96 would overflow as nanoseconds before 1677 and after 2262.
_OPTIONS: Mapping[str, Any] = {"memory_map": True, "coerce_int96_timestamp_unit": "us"}


class ParquetSource(FileSource):
    """A Parquet file, or several.

    Parameters
    ----------
    config : mapping
        ``path``: a file, a pattern, a directory, a URL with ``options`` for its server and, in ``allow``, the places
        that it may redirect to, or a list of them.  Of a directory all files are read, and names of folders in it such
        as ``year=2020`` are columns, too.  ``columns``: the data columns, all if not given.
        ``flavour``: names of the columns ``date``, ``latitude`` and ``longitude``, as for `CsvSource`.
        ``date_units``: for dates that are numbers, such as ``seconds since 1970-01-01``.
        ``date_format``: as for `CsvSource`, also for numbers such as 20200131.
        ``attributes``: of columns (units, standard_name and more), in addition to those in the metadata of the file's
        columns; scale_factor and others unpack values, as for `CsvSource`.
        ``stations``: a list of the places of stations, as for `CsvSource`.

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
        self._columns = located(settings_of(Columns, config), config)
        self._files: list[_File] | None = None
        super().__init__(
            "parquet",
            config,
            self._columns.path,
            self._everything,
            self._columns.options,
            self._columns.allow,
            beside=self._columns.beside,
        )

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "_files": None}

    def prepare(self, directory: Path) -> None:
        """Examine the files, and read them now if their rows are not in order of time."""
        if self._sorted is None and not all(f.in_order for f in self._opened()):
            super().prepare(directory)

    def read(self, start: datetime, end: datetime) -> Iterator[pd.DataFrame]:
        """Yield the rows from `start` up to but excluding `end`."""
        files = self._opened()
        if self._sorted is not None or not all(f.in_order for f in files):
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
            self._files = self._as_files(self.tables())
        return self._files

    def tables(self) -> list[str]:
        """Return the paths of the files that have the rows, also those in folders."""
        places = ([p] if isinstance(p, Url) or not Path(p).is_dir() else files_below(p) for p in self.places)
        return expand(path for found in places for path in found)

    def _as_files(self, paths: list[str]) -> list[_File]:
        stations = self._columns.stations
        columns = columns_of_folders(self.places, paths, as_text="" if stations is None else stations.column)
        return [_File(self._columns, path, columns[path]) for path in paths]

    def _everything(self, paths: list[str]) -> Iterator[pd.DataFrame]:
        for file in self._as_files(paths):
            yield from file.frames(None, None)


class _File:
    """One file and its metadata."""

    def __init__(self, columns: Columns, path: str, of_folders: Mapping[str, Any]) -> None:
        import pyarrow as pa
        from pyarrow import parquet

        self.path = path
        try:
            opened, self._state = _open(path)
            # Closed at once, for a source may have more files than a process may open.
            with parquet.ParquetFile(opened, **_OPTIONS) as file:
                self.metadata, self.schema, names = file.metadata, file.schema_arrow, file.schema
        except CfaggError:
            raise
        except (pa.ArrowException, OSError, ValueError) as error:
            raise SourceError(f"{path} is not a Parquet file that can be read: {str(error).splitlines()[0]}") from error
        # As for others who read such files, a column of a file takes precedence.
        more = {name: pa.array([v], pa.float64() if v is None else None) for name, v in of_folders.items()}
        self.more = {name: value for name, value in more.items() if name not in self.schema.names}
        for name, value in self.more.items():
            self.schema = self.schema.append(pa.field(name, value.type))
        self.table = Table(columns, path, self.schema)
        groups = [self.metadata.row_group(i) for i in range(self.metadata.num_row_groups)]
        paths = [names.column(i).path for i in range(len(names.names))]
        names_of_date = columns.flavour.date
        # A day beside a time is not the date of a row.
        date = paths.index(names_of_date[0]) if len(names_of_date) == 1 and names_of_date[0] in paths else None
        self.rows = [group.num_rows for group in groups]
        self.spans = [None if date is None else _span(group.column(date).statistics) for group in groups]
        self.in_order = self._in_order()

    def _in_order(self) -> bool:
        """Return whether parts of a build can read the row groups of their dates without reading most of them twice."""
        if max(self.rows, default=0) > LARGE:
            return False
        known = [s for s in self.spans if s is not None]
        if len(known) < len(self.spans) or len(known) < 2:
            return len(self.spans) < 2
        whole = (max(s[1] for s in known) - min(s[0] for s in known)).total_seconds()
        return sum((s[1] - s[0]).total_seconds() for s in known) <= DEEP * whole

    def frames(self, start: datetime | None, end: datetime | None) -> Iterator[pd.DataFrame]:
        """Yield the rows from `start` up to `end`, or all rows."""
        import pyarrow as pa
        from pyarrow import parquet

        number = 1
        own = [name for name in self.table.wanted if name not in self.more]
        for group, span in enumerate(self.spans):
            # Statistics may be truncated to microseconds, so the end of a span is included.
            if start is None or end is None or span is None or (span[1] >= start and span[0] <= end):
                try:
                    at = number
                    # Threads may read parts of one file concurrently, and each needs its own reader.
                    opened, state = _open(self.path)
                    self._check_same(state)
                    file = parquet.ParquetFile(opened, metadata=self.metadata, **_OPTIONS)
                    for batch in file.iter_batches(BATCH, row_groups=[group], columns=own):
                        frame = self.table.frame(self._whole(batch), at)
                        at += len(frame)
                        if start is not None and end is not None:
                            frame = frame[dates_within(frame["date"].to_numpy(), start, end)]
                        self._check_same(state if isinstance(self.path, Url) else stamp([self.path]))
                        if len(frame):
                            yield frame
                except CfaggError:
                    raise
                except (pa.ArrowException, OSError) as error:
                    self._check_same(stamp([self.path]))
                    said = str(error).splitlines()[0]
                    raise SourceError(f"{self.path}: row group {group} cannot be read: {said}") from error
            number += self.rows[group]

    def _whole(self, batch: pa.RecordBatch) -> pa.Table:
        """Return rows with the columns that the names of folders give."""
        import pyarrow as pa

        table = pa.table(batch)
        for name, value in self.more.items():
            table = table.append_column(name, pa.repeat(value[0], len(batch)))
        return table

    def _check_same(self, state: object) -> None:
        """Check that the file is the one whose metadata were read, since each part of a build opens it again."""
        if state != self._state:
            raise StaleError(f"{self.path} changed while it was read; build again when it is complete")

    def empty(self) -> pd.DataFrame:
        """Return a frame without rows."""
        return self.table.frame(self.schema.empty_table(), 1)


def _open(path: str) -> tuple[Any, object]:
    """Return the file object for pyarrow, and a state that changes with the file."""
    if not isinstance(path, Url):
        return path, stamp([path])
    handle = open_remote(path)
    return handle.data, [[str(path), handle.key.size, handle.key.modified]]


def _span(statistics: Any) -> tuple[datetime, datetime] | None:
    """Return the first and last date in the statistics of a row group, or `None` if they have none."""
    if statistics is None or not statistics.has_min_max:
        return None
    try:
        first, last = _as_datetime(statistics.min), _as_datetime(statistics.max)
    except (OverflowError, ValueError):
        return None  # dates that Python cannot represent; the rows are examined instead
    return None if first is None or last is None else (first, last)


def _as_datetime(value: object) -> datetime | None:
    """Return a date of a row group's statistics."""
    if isinstance(value, datetime):
        return value.astimezone(UTC).replace(tzinfo=None) if value.tzinfo is not None else value
    if isinstance(value, date):
        return datetime(value.year, value.month, value.day)
    return None


class ArrowSource(FileSource):
    """An Arrow or Feather file, or several.

    Parameters
    ----------
    config : mapping
        As for Parquet: ``path``, ``columns``, ``flavour``, ``date_units``, ``date_format``, ``attributes``,
        ``stations``.

    Examples
    --------
    >>> import tempfile
    >>> from datetime import datetime
    >>> import pandas as pd
    >>> frame = pd.DataFrame({"date": pd.to_datetime(["2020-01-01"]), "latitude": 51.5, "longitude": 359.9, "t": 4.5})
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     frame.to_feather(f"{folder}/a.feather")
    ...     source = ArrowSource({"path": f"{folder}/a.feather"})
    ...     print(next(source.read(datetime(2020, 1, 1), datetime(2020, 1, 2))))
            date  latitude  longitude    t
    1 2020-01-01      51.5      359.9  4.5
    """

    def __init__(self, config: Mapping[str, Any]) -> None:
        columns = located(settings_of(Columns, config), config)
        super().__init__(
            "arrow",
            config,
            columns.path,
            partial(_blocks, columns),
            columns.options,
            columns.allow,
            beside=columns.beside,
        )


def _blocks(columns: Columns, paths: list[str]) -> Iterator[pd.DataFrame]:
    """Yield the rows of all files, labelled by their number in the file."""
    import pyarrow as pa

    for path in paths:
        number = 1
        try:
            reader = pa.ipc.open_file(as_file(path) if isinstance(path, Url) else pa.memory_map(path))
            table = Table(columns, path, reader.schema)
            yield table.frame(reader.schema.empty_table(), number)
            for i in range(reader.num_record_batches):
                record = reader.get_batch(i)
                record.validate(full=True)  # otherwise offsets are used without a check
                batch = pa.Table.from_batches([record])
                for start in range(0, len(batch), BATCH):
                    frame = table.frame(batch.slice(start, BATCH), number)
                    number += len(frame)
                    yield frame
        except CfaggError:
            raise
        except (pa.ArrowException, OSError) as error:
            said = str(error).splitlines()[0]
            raise SourceError(f"{path} is not an Arrow file that can be read: {said}") from error
