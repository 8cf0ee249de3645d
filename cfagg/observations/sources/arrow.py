"""Observations from Arrow files, which are also Feather files: tables of pandas without pickle."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from cfagg.errors import SourceError
from cfagg.observations.settings import settings_of
from cfagg.observations.sources.sorted_rows import FileSource
from cfagg.observations.sources.tables import Columns, Table

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["ArrowSource"]

#: Rows that are read at once.
BATCH = 1 << 18


class ArrowSource(FileSource):
    """An Arrow or Feather file, or several.

    Parameters
    ----------
    config : mapping
        As for Parquet: ``path``, ``columns``, ``flavour``, ``date_units``, ``attributes``.

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
        columns = settings_of(Columns, config)
        super().__init__("arrow", config, columns.path, partial(_blocks, columns))


def _blocks(columns: Columns, paths: list[str]) -> Iterator[pd.DataFrame]:
    """Give the rows of all files, labelled by their number in the file."""
    import pyarrow as pa

    for path in paths:
        number = 1
        try:
            reader = pa.ipc.open_file(pa.memory_map(path))
            table = Table(columns, path, reader.schema)
            yield table.frame(reader.schema.empty_table(), number)
            for i in range(reader.num_record_batches):
                record = reader.get_batch(i)
                record.validate(full=True)  # offsets are used unseen otherwise
                batch = pa.Table.from_batches([record])
                for start in range(0, len(batch), BATCH):
                    frame = table.frame(batch.slice(start, BATCH), number)
                    number += len(frame)
                    yield frame
        except SourceError:
            raise
        except (pa.ArrowException, OSError) as error:
            said = str(error).splitlines()[0]
            raise SourceError(f"{path} is not an Arrow file that can be read: {said}") from error
