"""Reading Parquet back into a store of observations."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from cfagg.errors import ConventionError, Problem, SourceError, SourceNotFoundError
from cfagg.errors.arguments import a_path
from cfagg.errors.extras import require
from cfagg.observations.exchange.assembling import assemble
from cfagg.observations.exchange.documents import KEY, Document, parse_document
from cfagg.observations.exchange.table import BLOCK_ROWS, COLUMNS
from cfagg.observations.frames import check_frame, check_rows
from cfagg.storage.urls import refuse_url

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["import_parquet"]


def import_parquet(
    path: str | os.PathLike[str],
    target: str | os.PathLike[str],
    *,
    format: Literal["zarr2", "cfagg"] = "zarr2",  # noqa: A002
    date_indexing: Literal["bisect", "btree"] = "bisect",
    overwrite: bool = False,
) -> Path:
    """Make a store of a Parquet file: one of `export_parquet`, or any with columns date, latitude and longitude.

    Rows are sorted, and of equal ones one is kept.  The store of a file that `export_parquet` wrote has the same rows,
    variables and attributes as the one it was written from; its statistics are those of all rows.

    Parameters
    ----------
    path : path
        The file.
    target : path
        The store.
    format, date_indexing
        As of the recipe's output: the layout of the store, and the kind of its index.
    overwrite : bool
        Whether a store may be replaced.

    Returns
    -------
    pathlib.Path
        The store.

    Raises
    ------
    SourceError
        The file cannot be read.
    ConventionError
        It is not a table of observations; columns and rows are named.
    TargetExistsError, TargetError
        The store is there, or cannot be written.

    Examples
    --------
    >>> import tempfile
    >>> import pandas as pd
    >>> import cfagg
    >>> dates = pd.to_datetime(["2020-01-01T06:00"])
    >>> frame = pd.DataFrame({"date": dates, "latitude": 51.5, "longitude": -0.25, "t": 281.5})
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     frame.to_parquet(f"{folder}/a.parquet")
    ...     store = import_parquet(f"{folder}/a.parquet", f"{folder}/a.zarr")
    ...     print(cfagg.open_observations(store, "2020-01-01", "2020-01-01", "[0,24)", "24h")[0].tolist())
    [[281.5]]
    """
    require("Parquet files", "pyarrow")
    refuse_url(path, "imported")
    import pyarrow as pa
    import pyarrow.parquet as pq

    where = a_path(path, expected="name a Parquet file")
    try:
        file = pq.ParquetFile(where)
    except FileNotFoundError:
        raise SourceNotFoundError(f"there is no file {where}; check the path") from None
    except (OSError, UnicodeEncodeError, pa.ArrowException) as error:  # pyarrow takes names in UTF-8 only
        raise SourceError(f"{where} cannot be read as Parquet: {error}") from error
    with file:
        variables, attributes, about = _described(file.schema_arrow, where)
        return assemble(
            _frames(file, [*COLUMNS, *variables], where),
            variables,
            target,
            where,
            {**about, "variables_metadata": attributes},
            format=format,
            date_indexing=date_indexing,
            overwrite=overwrite,
        )


def _described(schema: Any, where: str) -> tuple[list[str], dict[str, Any], dict[str, Any]]:
    """Return the variables of a file in order, their attributes, and what it tells of a store."""
    names = list(schema.names)
    problems = [
        Problem(name, f"is missing; the columns are {', '.join(names[:30])}") for name in COLUMNS if name not in names
    ]
    text = (schema.metadata or {}).get(KEY.encode())
    document = Document((), {}, {}) if text is None else parse_document(text, where)
    variables = list(document.variables) if text is not None else [n for n in names if n not in COLUMNS]
    problems += [Problem(v, f"is missing, but the key {KEY!r} names it") for v in variables if v not in names]
    if problems:
        raise ConventionError(f"{where} is not a table of observations", problems)
    attributes = {}
    for name in variables:
        metadata = schema.field(name).metadata or {}
        told = {k.decode(): v.decode(errors="replace") for k, v in metadata.items() if not k.startswith(b"PARQUET:")}
        found = {**told, **document.attributes.get(name, {})}
        if found:
            attributes[name] = found
    return variables, attributes, document.of_store


def _frames(file: Any, columns: list[str], where: str) -> Iterator[pd.DataFrame]:
    from datetime import datetime

    import pyarrow as pa

    row = 0
    try:
        for batch in file.iter_batches(BLOCK_ROWS, columns=columns):
            frame = batch.to_pandas()
            frame.index = range(row, row + len(frame))
            row += len(frame)
            frame = check_frame(frame, where, datetime.min, datetime.max)
            check_rows(frame, where)
            yield frame
    except (OSError, pa.ArrowException) as error:
        raise SourceError(f"{where} cannot be read from row {row} on: {error}") from error
