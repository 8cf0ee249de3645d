"""Parquet files."""

from __future__ import annotations

import pickle
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from pyarrow import parquet

from cfagg.errors import ConventionError, SourceError, StaleError
from cfagg.observations.sources import parquet as module
from cfagg.observations.sources.parquet import ParquetSource
from tests.observations.sources.reading import rows

START = datetime(2020, 1, 1)


def frame(n: int = 100) -> pd.DataFrame:
    dates = pd.date_range(START, periods=n, freq="1h")
    return pd.DataFrame({"date": dates, "latitude": 50.0, "longitude": 5.0, "n": np.arange(n)})


def write(path: Path, found: pd.DataFrame, group: int = 10, **options: Any) -> str:
    parquet.write_table(pa.Table.from_pandas(found), path, row_group_size=group, **options)
    return str(path)


def test_only_row_groups_with_dates_of_the_part_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = ParquetSource({"path": write(tmp_path / "a.parquet", frame())})
    groups: list[int] = []
    batches = parquet.ParquetFile.iter_batches
    monkeypatch.setattr(
        parquet.ParquetFile,
        "iter_batches",
        lambda self, size, row_groups, columns: groups.extend(row_groups) or batches(self, size, row_groups, columns),
    )
    found = rows(source, datetime(2020, 1, 2, 1), datetime(2020, 1, 2, 8))
    assert found["n"].tolist() == list(range(25, 32))
    assert found.index.tolist() == list(range(26, 33))
    assert groups == [2, 3]


def test_nanoseconds_are_found_between_ends_that_they_cannot_hold(tmp_path: Path) -> None:
    source = ParquetSource({"path": write(tmp_path / "a.parquet", frame().astype({"date": "M8[ns]"}))})
    assert len(rows(source, datetime(1600, 1, 1), datetime(2500, 1, 1))) == 100
    assert len(rows(source, datetime(2020, 1, 2), datetime(2500, 1, 1))) == 76


@pytest.mark.parametrize("way", ["replaced", "rewritten"])
def test_a_file_that_changes_between_two_parts_is_refused(tmp_path: Path, way: str) -> None:
    path = tmp_path / "a.parquet"
    source = ParquetSource({"path": write(path, frame())})
    rows(source, datetime(2020, 1, 1), datetime(2020, 1, 2))
    write(tmp_path / "b.parquet", frame().assign(n=-1))
    if way == "replaced":
        (tmp_path / "b.parquet").replace(path)
    else:
        path.write_bytes((tmp_path / "b.parquet").read_bytes())
    with pytest.raises(StaleError, match=r"a\.parquet changed while it was read"):
        rows(source, datetime(2020, 1, 2), datetime(2020, 1, 3))


def test_a_file_that_changes_under_a_reader_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.parquet"
    source = ParquetSource({"path": write(path, frame())})
    convert = module.Table.frame

    def changed(table: Any, rows: Any, number: int) -> pd.DataFrame:
        write(path, frame().assign(n=-1))
        return convert(table, rows, number)

    monkeypatch.setattr(module.Table, "frame", changed)
    with pytest.raises(StaleError, match=r"a\.parquet changed while it was read"):
        next(iter(source.read(datetime(2020, 1, 1), datetime(2020, 1, 2))))


def test_a_file_in_no_order_of_time_is_read_once(tmp_path: Path) -> None:
    shuffled = frame().sample(frac=1, random_state=1).reset_index(drop=True)
    source = ParquetSource({"path": write(tmp_path / "a.parquet", shuffled)})
    source.prepare(tmp_path / "kept")
    assert len(list((tmp_path / "kept").iterdir())) == 1
    found = rows(pickle.loads(pickle.dumps(source)), datetime(2020, 1, 2, 1), datetime(2020, 1, 2, 8))
    assert sorted(found["n"].tolist()) == list(range(25, 32))
    assert shuffled["n"].to_numpy()[found.index.to_numpy() - 1].tolist() == found["n"].tolist()


def test_a_file_in_order_is_not_copied(tmp_path: Path) -> None:
    source = ParquetSource({"path": write(tmp_path / "a.parquet", frame())})
    source.prepare(tmp_path / "kept")
    assert not (tmp_path / "kept").exists()


def test_very_large_row_groups_are_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LARGE", 50)
    source = ParquetSource({"path": write(tmp_path / "a.parquet", frame(), group=100)})
    source.prepare(tmp_path / "kept")
    assert len(list((tmp_path / "kept").iterdir())) == 1
    assert len(rows(source)) == 100


@pytest.mark.parametrize("kind", ["s", "ns", "zone", "day", "text", "number", "no statistics"])
def test_dates_of_all_types_are_read(tmp_path: Path, kind: str) -> None:
    found, config, options = frame(48), {}, {}
    match kind:
        case "s" | "ns":
            found["date"] = found["date"].astype(f"datetime64[{kind}]")
        case "zone":
            found["date"] = found["date"].dt.tz_localize("UTC").dt.tz_convert("Asia/Kolkata")
        case "day":
            found["date"] = found["date"].dt.date
        case "text":
            found["date"] = found["date"].dt.strftime("%Y-%m-%dT%H:%M:%SZ")
        case "number":
            found["date"] = (found["date"] - pd.Timestamp(START)).dt.total_seconds()
            config["date_units"] = "seconds since 2020-01-01"
        case _:
            options["write_statistics"] = False
    source = ParquetSource({"path": write(tmp_path / "a.parquet", found, **options), **config})
    part = rows(source, datetime(2020, 1, 2), datetime(2020, 1, 3))
    assert part["n"].tolist() == list(range(24, 48))
    assert part["date"].iloc[0] == pd.Timestamp("2020-01-02")


@pytest.mark.parametrize(
    ("columns", "config"),
    [
        ({"day": [20200131, 20200131], "time": [60000, 180000]}, {}),
        ({"day": [20200131.0, 20200131.0], "time": [60000.0, 180000.0]}, {}),
        ({"day": pd.to_datetime(["2020-01-31"] * 2).date, "time": [60000, 180000]}, {}),
        ({"day": pd.to_datetime(["2020-01-31"] * 2).date, "time": ["06:00", "18:00"]}, {}),
        ({"year": [2020, 2020], "day": [31, 31], "hour": [6, 18]}, {"date_format": "%Y %j %H"}),
        ({"when": [2020013106, 2020013118]}, {"date_format": "%Y%m%d%H"}),
    ],
)
def test_dates_may_be_in_several_columns_or_numbers_in_a_format(
    tmp_path: Path, columns: dict[str, Any], config: dict[str, Any]
) -> None:
    path = write(tmp_path / "a.parquet", pd.DataFrame({**columns, "latitude": 50.0, "longitude": 5.0, "n": range(2)}))
    found = rows(ParquetSource({"path": path, "flavour": {"date": list(columns)}, **config}))
    assert found["date"].tolist() == [pd.Timestamp("2020-01-31T06:00"), pd.Timestamp("2020-01-31T18:00")]
    assert found.columns.tolist() == ["date", "latitude", "longitude", "n"]


@pytest.mark.parametrize("lacking", ["day", "time"])
def test_a_part_of_a_date_that_is_missing_is_named_with_its_row(tmp_path: Path, lacking: str) -> None:
    found = pd.DataFrame({"day": [20200131] * 2, "time": [60000] * 2, "latitude": 50.0, "longitude": 5.0})
    path = write(tmp_path / "a.parquet", found.assign(**{lacking: [found[lacking][0], None]}))
    with pytest.raises(SourceError, match="row 2: the date is missing"):
        rows(ParquetSource({"path": path, "flavour": {"date": ["day", "time"]}}))


def test_dates_of_the_older_type_are_read_beyond_the_range_of_nanoseconds(tmp_path: Path) -> None:
    dates = [datetime(1500, 1, 31, 6), datetime(2020, 1, 31, 6), datetime(2500, 1, 31, 6)]
    found = pd.DataFrame({"date": np.array(dates, "M8[us]"), "latitude": 50.0, "longitude": 5.0, "n": range(3)})
    path = write(tmp_path / "a.parquet", found, group=1, use_deprecated_int96_timestamps=True)
    assert rows(ParquetSource({"path": path}))["date"].tolist() == dates


def test_columns_names_and_attributes(tmp_path: Path) -> None:
    schema = pa.schema(
        [("when", pa.timestamp("s")), ("lat", pa.float32()), ("lon", pa.float32()), ("a", pa.int8()), ("b", pa.bool_())]
    )
    schema = schema.set(3, schema.field("a").with_metadata({"units": "K"}))
    table = pa.table([[START, START], [1, 2], [3, 4], [5, None], [True, None]], schema=schema)
    parquet.write_table(table, tmp_path / "a.parquet")
    config = {
        "path": str(tmp_path / "*.parquet"),
        "flavour": {"date": "when", "latitude": "lat", "longitude": "lon"},
        "columns": ["b", "a"],
        "attributes": {"a": {"standard_name": "air_temperature"}},
    }
    (found,) = ParquetSource(config).read(START, datetime(2021, 1, 1))
    assert found.columns.tolist() == ["date", "latitude", "longitude", "b", "a"]
    np.testing.assert_array_equal(found[["b", "a"]], [[1, 5], [np.nan, np.nan]])
    assert found.attrs["variables"] == {"a": {"units": "K", "standard_name": "air_temperature"}}


def test_a_part_without_rows_is_a_frame_with_the_columns(tmp_path: Path) -> None:
    source = ParquetSource({"path": write(tmp_path / "a.parquet", frame())})
    found = rows(source, datetime(1999, 1, 1), datetime(2000, 1, 1))
    assert (len(found), found.columns.tolist()) == (0, ["date", "latitude", "longitude", "n"])


def test_bad_files_are_refused_by_name(tmp_path: Path) -> None:
    for made, said in (
        (frame().drop(columns="longitude"), "longitude: is missing"),
        (frame().assign(date=np.arange(100)), "dates are numbers; give date_units"),
        (frame().assign(date=frame()["date"].where(frame().index != 42)), "row 43: the date is missing"),
    ):
        with pytest.raises(SourceError, match=said) as error:
            rows(ParquetSource({"path": write(tmp_path / "a.parquet", made)}))
        assert "a.parquet" in str(error.value)
    whole = (tmp_path / "a.parquet").read_bytes()
    (tmp_path / "a.parquet").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(SourceError, match=r"a\.parquet is not a Parquet file"):
        rows(ParquetSource({"path": str(tmp_path / "a.parquet")}))
    with pytest.raises(ConventionError, match="path: is missing"):
        ParquetSource({"columns": ["a"]})


def test_dates_that_python_does_not_have_are_no_reason_to_fail(tmp_path: Path) -> None:
    found = frame(2).assign(date=np.array(["2020-01-01", "+12000-01-01"], "M8[s]"))
    assert rows(ParquetSource({"path": write(tmp_path / "a.parquet", found)}))["n"].tolist() == [0]


def test_damage_within_a_row_group_is_found(tmp_path: Path) -> None:
    path = write(tmp_path / "a.parquet", frame(5000), group=5000, compression="zstd")
    data = bytearray(Path(path).read_bytes())
    data[40:400] = bytes(360)
    Path(path).write_bytes(data)
    with pytest.raises(SourceError, match=r"a\.parquet: row group 0 cannot be read"):
        rows(ParquetSource({"path": path}))
