"""Arrow and Feather files."""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from cfagg.errors import SourceError
from cfagg.observations.sources import parquet as module
from cfagg.observations.sources.parquet import ArrowSource
from tests.observations.sources.reading import rows


def frame(n: int = 100) -> pd.DataFrame:
    dates = pd.date_range("2020-01-01", periods=n, freq="1h")
    found = pd.DataFrame({"date": dates, "latitude": 50.0, "longitude": 5.0, "n": np.arange(n)})
    return found.sample(frac=1, random_state=1).reset_index(drop=True)


@pytest.mark.parametrize("options", [{}, {"compression": "zstd"}, {"chunksize": 7}])
def test_rows_of_a_part_are_found_in_any_order(
    tmp_path: Path, options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "BATCH", 30)
    given = frame()
    given.to_feather(tmp_path / "a.feather", **options)
    source = ArrowSource({"path": str(tmp_path / "a.feather")})
    found = rows(source, datetime(2020, 1, 2), datetime(2020, 1, 3))
    assert sorted(found["n"]) == list(range(24, 48))
    assert given["n"].to_numpy()[found.index.to_numpy() - 1].tolist() == found["n"].tolist()


def test_a_file_without_rows_has_its_columns(tmp_path: Path) -> None:
    frame(0).to_feather(tmp_path / "a.feather")
    found = rows(ArrowSource({"path": str(tmp_path / "a.feather"), "columns": ["n"]}))
    assert (len(found), found.columns.tolist()) == (0, ["date", "latitude", "longitude", "n"])


def test_decimals_are_numbers(tmp_path: Path) -> None:
    given = frame(3).assign(n=[Decimal("1.25"), None, Decimal(-3)])
    given.to_feather(tmp_path / "a.feather")
    found = rows(ArrowSource({"path": str(tmp_path / "a.feather")}))
    assert found["n"].dtype == np.float64
    np.testing.assert_array_equal(found["n"], [1.25, np.nan, -3])


def test_what_is_no_arrow_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.feather"
    frame().to_feather(path)
    for content in (b"", b"text", path.read_bytes()[:500]):
        path.write_bytes(content)
        with pytest.raises(SourceError, match=r"a\.feather"):
            rows(ArrowSource({"path": str(path)}))
    frame().drop(columns="date").to_feather(path)
    with pytest.raises(SourceError, match="date: is missing"):
        rows(ArrowSource({"path": str(path)}))
