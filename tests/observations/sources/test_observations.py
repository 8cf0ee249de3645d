"""Another store as a source."""

from __future__ import annotations

import pickle
from datetime import datetime, timedelta
from pathlib import Path

import numpy as np
import pytest
import zarr

from cfagg.errors import CfaggError, ConventionError
from cfagg.observations.registry import Config
from cfagg.observations.sources import observations as module
from cfagg.observations.sources.observations import ObservationsSource
from tests.observations.small_stores import epochs_of, hourly
from tests.observations.sources.reading import rows

START = datetime(2020, 1, 1)


def test_rows_of_a_part_come_back_bit_by_bit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "BATCH", 37)
    path, table = hourly(tmp_path / "a.zarr")
    found = rows(ObservationsSource({"path": str(path)}), START + timedelta(hours=7), START + timedelta(hours=31))
    inside = (epochs_of(table) >= 1577836800 + 7 * 3600) & (epochs_of(table) < 1577836800 + 31 * 3600)
    assert found.columns.tolist() == ["date", "latitude", "longitude", "t", "u", "v"]
    assert found.index.tolist() == np.flatnonzero(inside).tolist()
    assert found["date"].to_numpy().astype("M8[s]").astype(int).tolist() == epochs_of(table)[inside].tolist()
    assert found.iloc[:, 1:].to_numpy(np.float32).tobytes() == table[inside, 2:].tobytes()


def test_a_date_within_a_second_begins_with_the_next_one(tmp_path: Path) -> None:
    path, table = hourly(tmp_path / "a.zarr")
    first = datetime(1970, 1, 1) + timedelta(seconds=int(epochs_of(table)[0]))
    count = int((epochs_of(table) == epochs_of(table)[0]).sum())
    source = ObservationsSource({"path": str(path)})
    assert len(rows(source, first, first + timedelta(microseconds=1))) == count
    assert len(rows(source, first + timedelta(microseconds=1), first + timedelta(seconds=1))) == 0


def test_columns_are_chosen_and_attributes_kept(tmp_path: Path) -> None:
    about = {"t": {"units": "K"}, "u": {"units": "m s-1"}, "v": {}}
    path, table = hourly(tmp_path / "a.zarr", variables_metadata=about)
    source = ObservationsSource(Config({"path": path.name, "columns": ["v", "t"]}, "input.observations", tmp_path))
    found = next(pickle.loads(pickle.dumps(source)).read(START, START + timedelta(days=9)))
    assert found.columns.tolist() == ["date", "latitude", "longitude", "v", "t"]
    assert found.attrs["variables"] == {"t": {"units": "K"}}
    assert found["v"].tolist() == table[:, 6].tolist()
    assert source.files() == [str(path)]


def test_columns_and_stores_that_are_not_there_are_named(tmp_path: Path) -> None:
    path, _ = hourly(tmp_path / "a.zarr")
    with pytest.raises(ConventionError, match="w: is not a variable"):
        rows(ObservationsSource({"path": str(path), "columns": ["w"]}))
    with pytest.raises(CfaggError, match=r"none\.zarr"):
        rows(ObservationsSource({"path": str(tmp_path / "none.zarr")}))
    with pytest.raises(ConventionError, match="path: is missing"):
        ObservationsSource({})


def test_a_path_may_be_an_object_of_pathlib(tmp_path: Path) -> None:
    path, table = hourly(tmp_path / "a.zarr")
    assert len(rows(ObservationsSource({"path": path}))) == len(table)


def test_an_index_of_other_rows_is_refused_and_does_not_lose_some(tmp_path: Path) -> None:
    path, _ = hourly(tmp_path / "a.zarr")
    index = zarr.open_array(path / "date_index_ranges")
    index[:, 0] = index[:, 0] + 3600
    with pytest.raises(
        ConventionError, match=r"a\.zarr: not all of the rows 0 to .*the index \(bisect\) does not belong to the data"
    ):
        rows(ObservationsSource({"path": str(path)}), START + timedelta(hours=1), START + timedelta(hours=9))
