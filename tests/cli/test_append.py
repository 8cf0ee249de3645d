"""``cfagg append``."""

from __future__ import annotations

import json
from pathlib import Path
from unittest.mock import Mock

import pytest

import cfagg
from cfagg.accumulation import accumulating
from cfagg.cli.main import main
from tests.writing.zarr.test_appending import read, same, series, write

pytestmark = pytest.mark.filterwarnings("ignore:Consolidated metadata:UserWarning")


@pytest.fixture
def store(tmp_path: Path) -> Path:
    for name, (start, count) in {"b.nc": (5, 2), "c.nc": (7, 4), "x.nc": (20, 1)}.items():
        series(start, count, **({"comment": "other"} if name == "x.nc" else {})).to_netcdf(tmp_path / name)
    return write(tmp_path / "a.zarr", series(0, 5))


def test_files_are_appended_one_after_the_other(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = [str(store.parent / name) for name in ("b.nc", "c.nc")]
    assert main(["append", str(store), *files, "--dim", "time", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["form"], found["start"], found["stop"], found["losses"]) == ("cfagg append", 5, 11, [])
    same(store, series(0, 11))


def test_what_would_be_lost_is_listed_and_nothing_of_that_file_appended(
    store: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = [str(store.parent / name) for name in ("b.nc", "x.nc")]
    assert main(["append", str(store), *files, "--dim", "time"]) == 1
    said = capsys.readouterr()
    assert "lost: variable 'tas': attribute 'comment' (other)" in said.out
    assert f"1 of 2 files was appended; {files[1]} was not" in said.err
    assert "--on-loss drop" in said.err
    assert read(store).sizes["time"] == 7
    assert main(["append", str(store), files[1], "--dim", "time", "--on-loss", "drop"]) == 0
    assert "\nlost: " in "\n" + capsys.readouterr().err
    assert read(store).sizes["time"] == 8


def test_overlap_is_an_error_with_a_way_out(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = str(store.parent / "b.nc")
    assert main(["append", str(store), file, "--dim", "time", "--quiet"]) == 0
    assert main(["append", str(store), file, "--dim", "time"]) == 2
    assert "--any-order" in capsys.readouterr().err
    assert main(["append", str(store), file, "--dim", "time", "--any-order"]) == 0
    assert read(store).sizes["time"] == 9


def test_no_files_are_wrong_usage(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["append", str(store), "--dim", "time"]) == 2
    assert "name files to append" in capsys.readouterr().err


def test_a_file_named_twice_is_counted_each_time(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = str(store.parent / "b.nc")
    assert main(["append", str(store), file, file, "--dim", "time"]) == 2
    assert f"note: 1 of 2 files was appended; {file} was not" in capsys.readouterr().err


def test_an_interruption_after_the_data_says_that_they_were_appended_and_how_the_sums_are(
    store: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    files = [str(store.parent / name) for name in ("b.nc", "c.nc")]
    cfagg.accumulate(store, "tas", dims="time")
    monkeypatch.setattr(accumulating, "update", Mock(side_effect=[None, KeyboardInterrupt]))
    assert main(["append", str(store), *files, "--dim", "time"]) == 130
    said = capsys.readouterr().err
    assert f"note: 1 of 2 files was appended before {files[1]}\n" in said
    assert f"interrupted: {store}: everything was appended, but the accumulation of 'tas' was not extended" in said
    assert f"append nothing again, but extend it with: cfagg accumulate {store} tas --refresh" in said
    assert read(store).sizes["time"] == 11
