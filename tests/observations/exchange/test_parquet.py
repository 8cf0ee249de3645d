"""Tables are written as Parquet, value for value, with what describes them."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from cfagg.errors import ConventionError, TargetExistsError
from cfagg.observations.exchange import export_parquet
from cfagg.observations.exchange.table import Table
from tests.observations.exchange.tables import ABOUT, table


def test_every_bit_of_every_row_is_in_the_file(tmp_path: Path) -> None:
    wanted = table()
    rows = wanted.read(0, wanted.rows)
    found = pq.read_table(export_parquet(wanted, tmp_path / "a.parquet"))
    assert found.column_names == ["date", "latitude", "longitude", *wanted.variables]
    epochs = found["date"].to_numpy().astype("M8[s]").astype("i8")
    np.testing.assert_array_equal(epochs, rows[:, 0].astype("i8") * 86400 + rows[:, 1].astype("i8"))
    values = np.stack([found[n].to_numpy() for n in found.column_names[1:]], axis=1)
    assert values.dtype == "f4"
    np.testing.assert_array_equal(values.view("u4"), np.ascontiguousarray(rows[:, 2:]).view("u4"))


def test_units_and_names_are_metadata_of_the_fields(tmp_path: Path) -> None:
    schema = pq.read_schema(export_parquet(table(), tmp_path / "a.parquet"))
    assert schema.field("wind/speed").metadata == {b"units": b"m s-1", b"standard_name": b"wind_speed"}
    assert schema.field("t2m").metadata[b"levels"] == b'{"of": [1, 2]}'
    assert schema.field("longitude").metadata[b"units"] == b"degrees_east"
    assert schema.field("time").metadata is None


def test_the_schema_has_what_describes_the_store_and_its_statistics(tmp_path: Path) -> None:
    rows = table(9)
    mean = np.array([1.5, np.nan, 2, 3, 4])
    wanted = Table(rows.name, rows.variables, rows.rows, rows.read, rows.attributes, ABOUT, {"mean": mean})
    kept = json.loads(pq.read_schema(export_parquet(wanted, tmp_path / "a.parquet")).metadata[b"cfagg"])
    assert kept["about"] == ABOUT
    assert kept["variables"] == list(rows.variables)
    assert kept["statistics"] == {"mean": [1.5, "nan", 2, 3, 4]}
    assert kept["attributes"]["t2m"]["precision"] == 0.5


def test_row_groups_have_the_size_that_is_asked_for(tmp_path: Path) -> None:
    path = export_parquet(table(250), tmp_path / "a.parquet", rows_per_group=100)
    file = pq.ParquetFile(path)
    assert [file.metadata.row_group(i).num_rows for i in range(file.num_row_groups)][:2] == [100, 100]
    assert file.metadata.num_rows == table(250).rows
    dates = file.metadata.row_group(1).column(0).statistics
    assert dates.min <= dates.max


def test_an_empty_table_is_a_file_with_columns(tmp_path: Path) -> None:
    found = pq.read_table(export_parquet(table(0), tmp_path / "a.parquet"))
    assert (found.num_rows, found.num_columns) == (0, 8)


def test_what_does_not_fit_is_refused(tmp_path: Path) -> None:
    rows = np.zeros((1, 6), "f4")
    with pytest.raises(ConventionError, match=r"some variables have names.*\n  - latitude: rename it"):
        export_parquet(Table.of_rows("x", ["latitude", "t"], rows), tmp_path / "a.parquet")
    with pytest.raises(ConventionError, match="rows_per_group is 0; it must be 1 or more"):
        export_parquet(table(1), tmp_path / "a.parquet", rows_per_group=0)
    path = export_parquet(table(1), tmp_path / "a.parquet")
    with pytest.raises(TargetExistsError):
        export_parquet(table(1), path)
    assert [p.name for p in tmp_path.iterdir()] == ["a.parquet"]
