"""Tables of observations to and from Parquet, with units, attributes and statistics in the metadata of its schema."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from cfagg.errors import CfaggError, ConventionError, Problem, SourceError, SourceNotFoundError
from cfagg.errors.arguments import an_integer
from cfagg.errors.extras import require
from cfagg.observations.exchange.documents import KEY, Document, document_of, parse_document, plain, table_of
from cfagg.observations.exchange.netcdf_read import NewStore, place_of, written_aside
from cfagg.observations.exchange.table import BLOCK_ROWS, COLUMNS, META, Table, epochs_of
from cfagg.observations.sources.sorted_rows import as_file
from cfagg.observations.sources.tables import Columns, data_of
from cfagg.observations.sources.tables import Table as FileTable
from cfagg.storage.urls import Url, a_place

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["export_parquet", "import_parquet"]

#: Rows of a row group: enough for useful statistics, and few enough to be read for one window.
ROW_GROUP = 1 << 16

_ABOUT: dict[str, dict[str, str]] = {
    "date": {"standard_name": "time"},
    "latitude": {"standard_name": "latitude", "units": "degrees_north"},
    "longitude": {"standard_name": "longitude", "units": "degrees_east"},
}


def export_parquet(
    source: Any,
    path: str | os.PathLike[str],
    *,
    rows_per_group: int = ROW_GROUP,
    overwrite: bool = False,
    storage_options: Mapping[str, Any] | None = None,
    target_options: Mapping[str, Any] | None = None,
) -> Path | Url:
    """Write observations as a Parquet file, without losing anything.

    The columns are ``date`` (timestamp in seconds, UTC without a zone), ``latitude``, ``longitude`` and the variables,
    float32, NaN where missing.  Attributes of a variable are metadata of its field.  The key ``cfagg`` of the schema
    holds, as JSON, the variables in order, the attributes of the store, and its statistics.

    Parameters
    ----------
    source : path, ObservationStore or Observations
        A store, or a dataset of `cfagg.open_observations`: the rows in any of its windows, each once.
    path : path
        The file to write, or its URL in an object store.
    rows_per_group : int
        Rows of a row group.
    overwrite : bool
        Whether a file may be replaced.
    storage_options, target_options : mapping, optional
        For URLs of the store and of the file, like the ``storage_options`` of `cfagg.read`.

    Returns
    -------
    pathlib.Path
        The file, or its URL in an object store.

    Raises
    ------
    ConventionError
        Times are not whole seconds, or variables have the names of the first columns.
    TargetExistsError, TargetError
        The file exists, or cannot be written.

    Examples
    --------
    >>> import tempfile
    >>> import pyarrow.parquet
    >>> rows = np.array([[0, 0, 51.5, 0, 7], [0, 3600, 51.5, 0, 9]], "f4")
    >>> table = Table.of_rows("reports", ["t2m"], rows, {"t2m": {"units": "degC"}})
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     found = pyarrow.parquet.read_table(export_parquet(table, f"{folder}/reports.parquet"))
    >>> found.column_names, found.schema.field("t2m").metadata
    (['date', 'latitude', 'longitude', 't2m'], {b'units': b'degC'})
    """
    require("Parquet files", "pyarrow")
    import pyarrow as pa
    import pyarrow.parquet as pq

    table, target = table_of(source, storage_options), place_of(path, target_options)
    if not 1 <= an_integer(rows_per_group, "rows_per_group") < 2**31:
        raise ConventionError(f"rows_per_group is {rows_per_group}; it must be 1 or more, and less than 2**31")
    table.check_names()
    schema = _schema(table)
    with (
        written_aside(target, overwrite=overwrite) as aside,
        pq.ParquetWriter(aside, schema, compression="zstd") as file,
    ):
        for start, rows in table.blocks():
            dates = epochs_of(rows, start, table.name).view("M8[s]")
            columns = [pa.array(dates), *(pa.array(np.ascontiguousarray(c)) for c in rows[:, 2:].T)]
            file.write_table(pa.Table.from_arrays(columns, schema=schema), row_group_size=rows_per_group)
    return target


def _schema(table: Table) -> Any:
    import pyarrow as pa

    kinds = [pa.timestamp("s"), *[pa.float32()] * (len(table.variables) + META - 2)]
    about = {**_ABOUT, **table.attributes}
    fields = [
        pa.field(name, kind, nullable=False, metadata=_texts(about.get(name, {})))
        for name, kind in zip((*COLUMNS, *table.variables), kinds, strict=True)
    ]
    document = document_of(table, table.variables, {v: plain(table.attributes.get(v, {})) for v in table.variables})
    return pa.schema(fields, metadata={KEY: json.dumps(document, sort_keys=True)})


def _texts(attributes: Mapping[str, Any]) -> dict[str, str] | None:
    """Return attributes as text for the metadata of a field."""
    return {k: v if isinstance(v, str) else json.dumps(plain(v)) for k, v in attributes.items()} or None


def import_parquet(
    path: str | os.PathLike[str],
    target: str | os.PathLike[str],
    *,
    format: Literal["zarr2", "cfagg"] = "zarr2",  # noqa: A002
    date_indexing: Literal["bisect", "btree"] = "bisect",
    overwrite: bool = False,
    storage_options: Mapping[str, Any] | None = None,
    target_options: Mapping[str, Any] | None = None,
) -> Path | Url:
    """Build a store from a Parquet file of `export_parquet`, or any with the columns date, latitude and longitude.

    Rows are sorted, and duplicates are dropped.  A file that `export_parquet` wrote gives a store with the same rows,
    variables and attributes as the original; its statistics are those of all rows.

    Parameters
    ----------
    path : path
        The file, or its URL.
    target : path
        The store, or its URL in an object store.
    format, date_indexing
        As for the output of a recipe: the layout of the store, and the kind of its index.
    overwrite : bool
        Whether a store may be replaced.
    storage_options, target_options : mapping, optional
        For URLs of the file and of the store, like the ``storage_options`` of `cfagg.read`.

    Returns
    -------
    pathlib.Path
        The store, or its URL in an object store.

    Raises
    ------
    SourceError
        The file cannot be read.
    ConventionError
        It is not a table of observations; columns and rows are named.
    TargetExistsError, TargetError
        The store exists, or cannot be written.

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
    import pyarrow as pa
    import pyarrow.parquet as pq

    where = a_place(path, storage_options, expected="name a Parquet file")
    try:
        file = pq.ParquetFile(as_file(where))
    except CfaggError:  # some of them are also errors of the system
        raise
    except FileNotFoundError:
        raise SourceNotFoundError(f"there is no file {where}; check the path") from None
    except (OSError, UnicodeEncodeError, pa.ArrowException) as error:  # pyarrow takes names in UTF-8 only
        raise SourceError(f"{where} cannot be read as Parquet: {error}") from error
    with file:
        variables, attributes, about = _described(file.schema_arrow, where)
        columns = FileTable(Columns(path=(where,), columns=tuple(variables)), where, file.schema_arrow)
        new = NewStore(target, format, date_indexing, overwrite, target_options)
        return new.assemble(_frames(file, columns), variables, where, {**about, "variables_metadata": attributes})


def _described(schema: Any, where: str) -> tuple[list[str], dict[str, Any], dict[str, Any]]:
    """Return the variables of a file in order, their attributes, and the attributes of the store."""
    import pyarrow as pa

    names = list(schema.names)
    problems = [
        Problem(name, f"is missing; the columns are {', '.join(names[:30])}") for name in COLUMNS if name not in names
    ]
    text = (schema.metadata or {}).get(KEY.encode())
    document = Document((), {}, {}) if text is None else parse_document(text, where)
    variables = list(document.variables) if text is not None else data_of(n for n in names if n not in COLUMNS)
    problems += [Problem(name, "names two columns") for name in dict.fromkeys(names) if names.count(name) > 1]
    problems += [Problem(v, f"is missing, but the key {KEY!r} names it") for v in variables if v not in names]
    kind = schema.field("date").type if names.count("date") == 1 else None
    if kind is not None and (pa.types.is_integer(kind) or pa.types.is_floating(kind)):
        problems.append(Problem("date", f"has type {kind}, expected a timestamp; convert it with to_datetime"))
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


def _frames(file: Any, table: FileTable) -> Iterator[pd.DataFrame]:
    import pyarrow as pa

    row = 1
    try:
        for batch in file.iter_batches(BLOCK_ROWS, columns=table.wanted):
            yield table.frame(pa.table(batch), row)
            row += len(batch)
    except CfaggError:  # some of them are also OSError
        raise
    except (OSError, pa.ArrowException) as error:
        raise SourceError(f"{table.path} cannot be read from row {row} on: {error}") from error
