"""What is exported of a store, and of a dataset of samples."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import cfagg
from cfagg.errors import CfaggWarning, SourceError, UnsupportedError
from cfagg.observations.exchange.documents import merged, runs, table_of
from cfagg.observations.exchange.table import Table
from cfagg.observations.store import open_store
from tests.observations.exchange.tables import ABOUT, ATTRIBUTES, table
from tests.observations.written import write_rows


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a store of the reports."""
    wanted = table()
    path = tmp_path_factory.mktemp("store") / "reports.zarr"
    return write_rows(path, wanted.variables, wanted.read(0, wanted.rows), {"variables_metadata": ATTRIBUTES, **ABOUT})


def all_rows(found: Table) -> np.ndarray:
    return np.concatenate([rows for _, rows in found.blocks()])


def test_a_store_gives_its_rows_attributes_and_statistics(store: Path) -> None:
    wanted = table()
    for source in (str(store), store, open_store(store)):
        found = table_of(source)
        np.testing.assert_array_equal(all_rows(found).view("u4"), wanted.read(0, wanted.rows).view("u4"))
        assert found.variables == wanted.variables
        assert found.attributes == ATTRIBUTES
        assert found.about == ABOUT
        assert set(found.statistics) >= {"mean", "minimum", "maximum", "stdev"}


def test_a_dataset_gives_each_row_of_its_windows_once(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cfagg.observations.exchange.table.BLOCK_ROWS", 13)
    ds = cfagg.open_observations(
        store, start="2020-01-02", end="2020-01-03", window="(-3h,6h]", frequency="6h", select=["t2m", "id"]
    )
    found = table_of(ds)
    rows = table().read(0, table().rows)
    epochs = rows[:, 0].astype("i8") * 86400 + rows[:, 1].astype("i8") - 18263 * 86400
    inside = (epochs > -3 * 3600) & (epochs <= 86400 + 6 * 3600 + (ds.dates[-1] - ds.dates[0]).astype("i8") - 86400)
    np.testing.assert_array_equal(all_rows(found).view("u4"), rows[inside][:, [0, 1, 2, 3, 5, 4]].view("u4"))
    assert found.variables == ("t2m", "id")
    assert found.rows == inside.sum() > 100


def test_a_dataset_gives_the_rows_of_its_area_alone(store: Path) -> None:
    ds = cfagg.open_observations(
        store, start="2020-01-01", end="2020-01-05", window="[0,6h)", frequency="6h", area=(90, 0, 0, 360)
    )
    rows = table().read(0, table().rows)
    wanted = rows[(rows[:, 2] >= 0) & (rows[:, 0] >= 18262)]
    np.testing.assert_array_equal(all_rows(table_of(ds)).view("u4"), np.ascontiguousarray(wanted).view("u4"))


def test_windows_without_rows_give_an_empty_table(store: Path) -> None:
    with pytest.warns(CfaggWarning, match="all samples are empty"):
        ds = cfagg.open_observations(store, start="2031-01-01", end="2031-01-05", window="[0,6h)", frequency="6h")
    found = table_of(ds)
    assert found.rows == 0
    assert list(found.blocks()) == []


def test_a_dataset_that_thins_its_samples_and_anything_else_are_refused(store: Path) -> None:
    ds = cfagg.open_observations(store, start=2020, end=2020, window="[0,6h)", frequency="6h", thin=2)
    with pytest.raises(UnsupportedError, match="leave out thin="):
        table_of(ds)
    with pytest.raises(SourceError, match="list cannot be exported"):
        table_of([1, 2])


def test_ranges_are_merged_and_numbers_become_ranges() -> None:
    assert merged(np.array([[5, 5], [0, 4], [4, 6], [4, 5], [8, 9]])[[1, 2, 3, 0, 4]]).tolist() == [[0, 6], [8, 9]]
    assert merged(np.empty((0, 2), np.int64)).shape == (0, 2)
    assert runs(np.array([], np.int64)).shape == (0, 2)
    assert runs(np.array([7])).tolist() == [[7, 8]]
