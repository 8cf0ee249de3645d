"""Rows kept on disk in pieces sorted by date."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from cfagg.errors import SourceError, StaleError, TargetError
from cfagg.observations.sources.sorted_rows import FileSource, SortedRows, expand


def frame(days: list[int], unit: str = "us") -> pd.DataFrame:
    dates = (np.datetime64("2020-01-01") + np.array(days, "m8[D]")).astype(f"M8[{unit}]")
    return pd.DataFrame({"date": dates, "latitude": 0.0, "longitude": 0.0, "day": np.array(days, float)})


def test_a_range_is_taken_from_every_piece_in_order_of_date(tmp_path: Path) -> None:
    rows = SortedRows.build(tmp_path / "s", iter([frame([5, 1, 3, 1]), frame([]), frame([9]), frame([2, 1])]))
    frames = list(rows.read(datetime(2020, 1, 2), datetime(2020, 1, 4)))
    assert [f["day"].tolist() for f in frames] == [[1, 1], [1, 2]]
    assert [f.index.tolist() for f in frames] == [[1, 3], [1, 0]]


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_dates_of_any_unit_keep_it(tmp_path: Path, unit: str) -> None:
    rows = SortedRows.build(tmp_path / "s", iter([frame([0, 1], unit)]))
    (found,) = rows.read(datetime(2020, 1, 1, 0, 0, 0, 1), datetime(2020, 1, 2, 0, 0, 0, 1))
    assert (found["day"].tolist(), str(found["date"].dtype)) == ([1.0], f"datetime64[{unit}]")


def test_nanoseconds_are_found_between_ends_that_they_cannot_hold(tmp_path: Path) -> None:
    table = frame([0, 1, 2], "ns")
    table.loc[2, "date"] = pd.Timestamp.max
    rows = SortedRows.build(tmp_path / "s", iter([table]))
    assert [f["day"].tolist() for f in rows.read(datetime(1600, 1, 1), datetime(2500, 1, 1))] == [[0, 1, 2]]
    assert [f["day"].tolist() for f in rows.read(datetime(2020, 1, 2), datetime(2500, 1, 1))] == [[1, 2]]
    assert [f["day"].tolist() for f in rows.read(datetime(1400, 1, 1), datetime(1500, 1, 1))] == [[]]


def test_attributes_and_exact_bits_come_back(tmp_path: Path) -> None:
    given = frame([0, 1]).assign(t=np.array([np.nan, 0.1], "f4"), n=np.array([1, 2], "i2"), name=["a", None])
    given.attrs["variables"] = {"t": {"units": "K", "levels": np.array([1, 2])}}
    rows = SortedRows.build(tmp_path / "s", iter([given]))
    (found,) = rows.read(datetime(2020, 1, 1), datetime(2021, 1, 1))
    assert found.attrs["variables"] == {"t": {"units": "K", "levels": [1, 2]}}
    assert found["t"].to_numpy().tobytes() == given["t"].to_numpy().tobytes()
    assert (found["n"].dtype, found["name"].isna().tolist()) == (np.int16, [False, True])


def test_a_spool_that_is_there_is_used_and_its_source_not_touched(tmp_path: Path) -> None:
    SortedRows.build(tmp_path / "s", iter([frame([0])]))

    def never() -> Iterator[pd.DataFrame]:
        raise AssertionError("read again")
        yield

    assert len(SortedRows.build(tmp_path / "s", never()).blocks) == 1


def test_a_source_that_fails_leaves_nothing_behind(tmp_path: Path) -> None:
    def failing() -> Iterator[pd.DataFrame]:
        yield frame([0])
        raise SourceError("row 7 is damaged")

    with pytest.raises(SourceError, match="row 7"):
        SortedRows.build(tmp_path / "s", failing())
    assert list(tmp_path.iterdir()) == []


def test_what_a_killed_process_left_is_not_taken_for_a_spool(tmp_path: Path) -> None:
    (tmp_path / ".rows-left").mkdir()
    (tmp_path / ".rows-left" / "00000.arrow").write_bytes(b"half")
    rows = SortedRows.build(tmp_path / "s", iter([frame([0])]))
    assert len(list(rows.read(datetime(2020, 1, 1), datetime(2021, 1, 1)))) == 1


@pytest.mark.parametrize("way", ["shorter", "longer", "replaced"])
def test_a_file_that_changes_while_it_is_read_is_refused(tmp_path: Path, way: str) -> None:
    path = tmp_path / "a.csv"
    path.write_text("1\n2\n")

    def blocks(_: list[str]) -> Iterator[pd.DataFrame]:
        yield frame([0])
        if way == "replaced":
            (tmp_path / "b").write_text("3\n4\n")
            (tmp_path / "b").replace(path)
        else:
            path.write_text("1\n" * (1 if way == "shorter" else 3))

    source = FileSource("csv", {}, [str(path)], blocks)
    with pytest.raises(StaleError, match=r"a\.csv changed while it was read"):
        source.prepare(tmp_path / "kept")
    assert list((tmp_path / "kept").iterdir()) == []


def test_a_file_is_no_pattern_although_its_name_looks_like_one(tmp_path: Path) -> None:
    for name in ("a[12].csv", "a1.csv", "a2.csv"):
        (tmp_path / name).touch()
    assert expand([str(tmp_path / "a[12].csv")]) == [str(tmp_path / "a[12].csv")]
    assert expand([str(tmp_path / "a[1-2].csv")]) == [str(tmp_path / "a1.csv"), str(tmp_path / "a2.csv")]


def test_a_directory_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(TargetError, match="file"):
        SortedRows.build(tmp_path / "file" / "s", iter([frame([0])]))


def test_a_full_disk_is_told_apart_from_a_bad_source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from pyarrow import feather

    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(feather, "write_feather", full)
    with pytest.raises(TargetError, match="No space left on device"):
        SortedRows.build(tmp_path / "s", iter([frame([0])]))
    assert list(tmp_path.iterdir()) == []
