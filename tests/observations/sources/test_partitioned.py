"""Parquet files in folders whose names are values of columns."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from pyarrow import dataset

from cfagg.errors import SourceError
from cfagg.observations.sources.parquet import ParquetSource
from tests.observations.sources.reading import rows


def table(n: int = 60) -> pd.DataFrame:
    dates = pd.date_range("2019-12-01", periods=n, freq="3D")
    return pd.DataFrame(
        {
            "date": dates,
            "latitude": np.linspace(-90, 90, n),
            "longitude": 5.0,
            "t": np.arange(n) / 4,
            "year": dates.year,
            "month": dates.month,
            "depth": np.where(np.arange(n) % 2, 0.5, -10),
            "platform": np.where(np.arange(n) % 3, "A b", "c/d=é"),
        }
    )


def hive(path: Path, names: list[str], frame: pd.DataFrame | None = None) -> pd.DataFrame:
    frame = table() if frame is None else frame
    schema = pa.Table.from_pandas(frame[names]).schema.remove_metadata()
    dataset.write_dataset(
        pa.Table.from_pandas(frame), path, format="parquet", partitioning=dataset.partitioning(schema, flavor="hive")
    )
    return frame


@pytest.mark.parametrize("names", [["year", "month"], ["depth"], ["platform", "year"], ["year", "depth", "platform"]])
def test_names_of_folders_are_columns(tmp_path: Path, names: list[str]) -> None:
    expected = hive(tmp_path / "data", names)
    found = rows(ParquetSource({"path": str(tmp_path / "data")})).sort_values("date")
    assert set(found.columns) == set(expected.columns)
    for name in expected.columns:
        assert found[name].tolist() == expected[name].tolist(), name
    for name in names:
        assert (found[name].dtype.kind in "iuf") == (name != "platform")


def test_parts_read_the_rows_of_their_dates(tmp_path: Path) -> None:
    expected = hive(tmp_path / "data", ["year", "month"])
    source = ParquetSource({"path": str(tmp_path / "data"), "columns": ["t", "month"]})
    first, end = datetime(2020, 1, 10), datetime(2020, 3, 4)
    found = rows(source, first, end).sort_values("date")
    kept = expected[(expected["date"] >= first) & (expected["date"] < end)]
    assert found["t"].tolist() == kept["t"].tolist()
    assert found["month"].tolist() == kept["month"].tolist()
    assert rows(source, datetime(1999, 1, 1), datetime(1999, 1, 2)).columns.tolist()[3:] == ["t", "month"]


def test_dates_may_be_in_names_of_folders(tmp_path: Path) -> None:
    frame = table()
    frame["day"] = frame["date"].dt.day
    hive(tmp_path / "data", ["year", "month"], frame.drop(columns=["date", "platform", "depth"]))
    flavour = {"date": ["year", "month", "day"]}
    config = {"path": str(tmp_path / "data"), "flavour": flavour, "date_format": "%Y %m %d", "columns": ["t"]}
    found = rows(ParquetSource(config)).sort_values("date")
    assert found["date"].tolist() == frame["date"].tolist()
    assert found["t"].tolist() == frame["t"].tolist()


def test_folders_without_a_value_are_missing_and_files_of_writers_are_none(tmp_path: Path) -> None:
    frame = table(4).drop(columns="platform").assign(depth=[1, np.nan, 1, np.nan])
    hive(tmp_path / "data", ["depth"], frame)
    (tmp_path / "data" / "_SUCCESS").write_text("")
    (tmp_path / "data" / "_temporary").mkdir()
    (tmp_path / "data" / "_temporary" / "a.parquet").write_text("")
    (tmp_path / "data" / "depth=1" / ".a.parquet.crc").write_text("")
    assert (tmp_path / "data" / "depth=__HIVE_DEFAULT_PARTITION__").is_dir()
    found = rows(ParquetSource({"path": str(tmp_path / "data")})).sort_values("date")
    np.testing.assert_array_equal(found["depth"], [1, np.nan, 1, np.nan])


def test_numbers_of_stations_in_names_of_folders_keep_their_zeros(tmp_path: Path) -> None:
    frame = pd.DataFrame({"date": pd.to_datetime(["2020-01-01"]), "t": 1.0})
    for station in ("01001", "1001"):
        (tmp_path / "data" / f"station={station}").mkdir(parents=True)
        frame.to_parquet(tmp_path / "data" / f"station={station}" / "a.parquet")
    (tmp_path / "list.csv").write_text("id,latitude,longitude\n01001,70,1\n1001,60,2\n")
    stations = {"path": str(tmp_path / "list.csv"), "column": "station", "id": "id"}
    found = rows(ParquetSource({"path": str(tmp_path / "data"), "stations": stations}))
    assert sorted(found["latitude"]) == [60, 70]


def test_long_numbers_in_names_of_folders_are_not_rounded(tmp_path: Path) -> None:
    frame = pd.DataFrame({"date": pd.to_datetime(["2020-01-01"]), "latitude": 1.0, "longitude": 2.0, "t": 1.0})
    for platform in ("12345678901234567", "12345678901234568"):
        (tmp_path / "data" / f"platform={platform}").mkdir(parents=True)
        frame.to_parquet(tmp_path / "data" / f"platform={platform}" / "a.parquet")
    found = rows(ParquetSource({"path": str(tmp_path / "data")}))
    assert sorted(found["platform"]) == ["12345678901234567", "12345678901234568"]


def test_a_column_of_a_file_takes_precedence_over_the_name_of_its_folder(tmp_path: Path) -> None:
    (tmp_path / "year=1").mkdir()
    table(3).to_parquet(tmp_path / "year=1" / "a.parquet")
    found = rows(ParquetSource({"path": str(tmp_path), "columns": ["year"]}))
    assert found["year"].tolist() == [2019, 2019, 2019]


@pytest.mark.parametrize("pattern", ["*.csv", ""])
def test_a_directory_without_tables_is_refused(tmp_path: Path, pattern: str) -> None:
    (tmp_path / "data").mkdir()
    config: dict[str, Any] = {"path": str(tmp_path / "data")}
    said = "no file is in this directory"
    if pattern:
        (tmp_path / "data" / "a.csv").write_text("date")
        said = r"a\.csv is not a Parquet file"
    with pytest.raises(SourceError, match=said):
        rows(ParquetSource(config))
