"""Parquet files become stores again, with every bit and every attribute."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from cfagg.errors import ConventionError, SourceError, TargetExistsError
from cfagg.observations.exchange import export_parquet, import_parquet
from cfagg.observations.exchange.table import Table
from cfagg.observations.store import open_store
from tests.observations.exchange.tables import ABOUT, ATTRIBUTES, table


def write(path: Path, **columns: object) -> Path:
    """Write a file of someone else."""
    frame = pd.DataFrame({"date": pd.to_datetime(["2020-01-02", "2020-01-01"]), "latitude": 1.0, "longitude": -1.0})
    frame.assign(**columns).to_parquet(path)
    return path


@pytest.mark.parametrize("layout", ["zarr2", "cfagg"])
def test_rows_variables_and_attributes_come_back(tmp_path: Path, layout: str) -> None:
    wanted = table()
    file = export_parquet(wanted, tmp_path / "a.parquet", rows_per_group=99)
    store = open_store(import_parquet(file, tmp_path / "a.zarr", format=layout))
    found = store.data.read(0, store.rows)
    np.testing.assert_array_equal(found.view("u4"), wanted.read(0, wanted.rows).view("u4"))
    assert store.variables == wanted.variables
    assert store.attributes.variables_metadata == ATTRIBUTES
    assert {k: store.attributes.all[k] for k in ABOUT} == ABOUT


def test_a_second_way_round_gives_the_same_bytes(tmp_path: Path) -> None:
    first = import_parquet(export_parquet(table(), tmp_path / "a.parquet"), tmp_path / "a.zarr")
    second = import_parquet(export_parquet(first, tmp_path / "b.parquet"), tmp_path / "b.zarr")
    for name in ("data/0.0", "data/.zarray", "mean/0", "date_index_ranges/0.0"):
        assert (first / name).read_bytes() == (second / name).read_bytes(), name


def test_many_runs_are_merged_in_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cfagg.observations.exchange.netcdf_read.RUN_BYTES", 2000)
    monkeypatch.setattr("cfagg.observations.exchange.parquet.BLOCK_ROWS", 17)
    wanted = table()
    shuffled = np.random.default_rng(1).permutation(wanted.read(0, wanted.rows))
    rows = np.concatenate([shuffled, shuffled[:40]])
    file = export_parquet(Table.of_rows("x", wanted.variables, rows), tmp_path / "a.parquet")
    store = open_store(import_parquet(file, tmp_path / "a.zarr"))
    np.testing.assert_array_equal(store.data.read(0, store.rows), wanted.read(0, wanted.rows))
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.parquet", "a.zarr"]


def test_files_of_others_are_read_with_their_own_columns(tmp_path: Path) -> None:
    store = open_store(import_parquet(write(tmp_path / "a.parquet", t=[1.5, 2.5], n=[7, 8]), tmp_path / "a.zarr"))
    assert store.variables == ("t", "n")
    np.testing.assert_array_equal(store.data.read(0, 2), [[18262, 0, 1, 359, 2.5, 8], [18263, 0, 1, 359, 1.5, 7]])


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        ({"t": ["a", "b"]}, r"a\.parquet gave rows that cannot be stored\n  - row 1.*: t is 'a'"),
        ({"latitude": [1.0, 99.0]}, r"row 2: latitude is 99\.0, expected -90 to 90 degrees"),
        ({"date": [1, 2]}, r"not a table of observations\n  - date: has type int64, expected a timestamp"),
    ],
)
def test_rows_that_cannot_be_stored_are_named(tmp_path: Path, columns: dict[str, object], said: str) -> None:
    with pytest.raises(ConventionError, match=said):
        import_parquet(write(tmp_path / "a.parquet", **columns), tmp_path / "a.zarr")
    assert [p.name for p in tmp_path.iterdir()] == ["a.parquet"]


def test_rows_without_a_date_are_named(tmp_path: Path) -> None:
    file = write(tmp_path / "a.parquet", date=pd.to_datetime(["2020-01-01", None]))
    with pytest.raises(SourceError, match=r"a\.parquet, column date, row 2: the date is missing"):
        import_parquet(file, tmp_path / "a.zarr")


@pytest.mark.parametrize("index", ["rows", "date"])
def test_a_frame_with_an_index_is_read_as_the_columns_of_its_file(tmp_path: Path, index: str) -> None:
    frame = pd.DataFrame({"date": pd.to_datetime(["2020-01-02", "2020-01-01"]), "latitude": 1.0, "longitude": 2.0})
    frame = frame.assign(t=[1.5, 2.5])
    frame = frame.set_axis(["a", "b"]) if index == "rows" else frame.set_index("date")
    frame.to_parquet(tmp_path / "a.parquet")
    store = open_store(import_parquet(tmp_path / "a.parquet", tmp_path / "a.zarr"))
    assert store.variables == ("t",)
    np.testing.assert_array_equal(store.data.read(0, 2), [[18262, 0, 1, 2, 2.5], [18263, 0, 1, 2, 1.5]])


def test_columns_of_one_name_are_refused(tmp_path: Path) -> None:
    found = pq.read_table(write(tmp_path / "a.parquet", t=[1.0, 2.0]))
    pq.write_table(found.append_column("t", found["t"]), tmp_path / "a.parquet")
    with pytest.raises(ConventionError, match="t: names two columns"):
        import_parquet(tmp_path / "a.parquet", tmp_path / "a.zarr")


def test_dates_beyond_the_year_9999_are_kept(tmp_path: Path) -> None:
    file = write(tmp_path / "a.parquet", date=np.array(["2020-01-01", "12020-01-01"], "M8[s]"), t=[1.5, 2.5])
    store = open_store(import_parquet(file, tmp_path / "a.zarr"))
    np.testing.assert_array_equal(store.data.read(0, store.rows)[:, 4], [1.5, 2.5])


def test_a_file_without_the_columns_is_refused(tmp_path: Path) -> None:
    pq.write_table(pa.table({"time": [1], "lat": [2.0]}), tmp_path / "a.parquet")
    with pytest.raises(
        ConventionError, match=r"not a table of observations\n  - date: is missing; the columns are time"
    ):
        import_parquet(tmp_path / "a.parquet", tmp_path / "a.zarr")


@pytest.mark.parametrize(
    ("document", "said"),
    [
        ("{", "is not JSON"),
        ("[1]", "expected an object of version 1"),
        (json.dumps({"version": 1, "variables": "t"}), "variables: expected different names"),
        (json.dumps({"version": 1, "variables": ["gone"]}), "gone: is missing, but the key 'cfagg' names it"),
        (json.dumps({"version": 1, "variables": ["t"], "about": {"recipe": 3}}), r"about\.recipe: expected an object"),
        (json.dumps({"version": 1, "variables": ["t"], "attributes": {"t": 3}}), "attributes: expected objects"),
        ("[" * 200_000, "is not JSON"),
    ],
)
def test_what_a_file_says_of_a_store_is_checked(tmp_path: Path, document: str, said: str) -> None:
    found = pq.read_table(write(tmp_path / "a.parquet", t=[1.0, 2.0]))
    pq.write_table(found.replace_schema_metadata({"cfagg": document}), tmp_path / "a.parquet")
    with pytest.raises(ConventionError, match=said):
        import_parquet(tmp_path / "a.parquet", tmp_path / "a.zarr")


def test_a_file_cannot_say_how_the_arrays_of_the_store_are(tmp_path: Path) -> None:
    found = pq.read_table(write(tmp_path / "a.parquet", t=[1.0, 2.0]))
    about = {"shape": [9, 9], "variables": ["x"], "layout": "other", "licence": "CC0-1.0"}
    document = json.dumps({"version": 1, "variables": ["t"], "about": about})
    pq.write_table(found.replace_schema_metadata({"cfagg": document}), tmp_path / "a.parquet")
    store = open_store(import_parquet(tmp_path / "a.parquet", tmp_path / "a.zarr"))
    assert (store.rows, store.variables, store.attributes.all["licence"]) == (2, ("t",), "CC0-1.0")
    assert store.attributes.all["shape"] == [2, 5]


def test_damaged_and_missing_files_are_named(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match=r"there is no file .*b\.parquet"):
        import_parquet(tmp_path / "b.parquet", tmp_path / "a.zarr")
    path = export_parquet(table(), tmp_path / "a.parquet")
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(SourceError, match=r"a\.parquet cannot be read as Parquet"):
        import_parquet(path, tmp_path / "a.zarr")


def test_a_store_is_replaced_only_on_request(tmp_path: Path) -> None:
    file = export_parquet(table(9), tmp_path / "a.parquet")
    import_parquet(file, tmp_path / "a.zarr")
    with pytest.raises(TargetExistsError):
        import_parquet(file, tmp_path / "a.zarr")
    assert import_parquet(file, tmp_path / "a.zarr", overwrite=True) == tmp_path / "a.zarr"
