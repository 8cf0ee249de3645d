"""Writing a table of observations as Parquet, with units, attributes and statistics in the metadata of its schema."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from cfagg.errors import ConventionError
from cfagg.errors.extras import require
from cfagg.observations.exchange.aside import written_aside
from cfagg.observations.exchange.documents import KEY, document_of, plain, table_of
from cfagg.observations.exchange.table import COLUMNS, META, Table, epochs_of

__all__ = ["export_parquet"]

#: Rows of a row group: enough for statistics to be worth looking at, and few enough to be read for one window.
ROW_GROUP = 1 << 16

_ABOUT: dict[str, dict[str, str]] = {
    "date": {"standard_name": "time"},
    "latitude": {"standard_name": "latitude", "units": "degrees_north"},
    "longitude": {"standard_name": "longitude", "units": "degrees_east"},
}


def export_parquet(
    source: Any, path: str | os.PathLike[str], *, rows_per_group: int = ROW_GROUP, overwrite: bool = False
) -> Path:
    """Write observations as a Parquet file, without losing anything.

    The columns are ``date`` (timestamp in seconds, UTC without a zone), ``latitude``, ``longitude`` and the variables,
    float32, NaN where missing.  Attributes of a variable are metadata of its field.  The key ``cfagg`` of the schema
    has, as JSON, the variables in order, what the store tells of itself, and its statistics.

    Parameters
    ----------
    source : path, ObservationStore or Observations
        A store, or a dataset of `cfagg.open_observations`: the rows in any of its windows, each once.
    path : path
        The file to write.
    rows_per_group : int
        Rows of a row group.
    overwrite : bool
        Whether a file may be replaced.

    Returns
    -------
    pathlib.Path
        The file.

    Raises
    ------
    ConventionError
        Times that are not whole seconds, or variables with the names of the first columns.
    TargetExistsError, TargetError
        The file is there, or cannot be written.

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

    table = table_of(source)
    if rows_per_group < 1:
        raise ConventionError(f"rows_per_group is {rows_per_group}; it must be 1 or more")
    table.check_names()
    schema = _schema(table)
    with written_aside(path, overwrite=overwrite) as aside, pq.ParquetWriter(aside, schema, compression="zstd") as file:
        for start, rows in table.blocks():
            dates = epochs_of(rows, start, table.name).view("M8[s]")
            columns = [pa.array(dates), *(pa.array(np.ascontiguousarray(c)) for c in rows[:, 2:].T)]
            file.write_table(pa.Table.from_arrays(columns, schema=schema), row_group_size=rows_per_group)
    return Path(path)


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
    """Return attributes as the text that metadata of a field are."""
    return {k: v if isinstance(v, str) else json.dumps(plain(v)) for k, v in attributes.items()} or None
