"""Columns of tables that the attributes of a recipe unpack."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from cfagg.errors import ConformError, SourceError
from cfagg.observations.sources.csv import CsvSource
from cfagg.observations.sources.parquet import ArrowSource, ParquetSource
from tests.observations.sources.reading import rows

TABLE = pd.DataFrame(
    {
        "day": [0, 5, 10, 15],
        "lat": [4567, 1, -9000, 9],
        "longitude": 0,
        "t": pd.array([10, 20, -999, None], dtype="Int64"),
    }
)


def source(path: Path, kind: str, attributes: dict[str, Any], **config: Any) -> Any:
    file = path / f"a.{kind}"
    {"csv": TABLE.to_csv, "parquet": TABLE.to_parquet, "arrow": TABLE.to_feather}[kind](file)
    flavour = {"date": "day", "latitude": "lat"}
    settings = {"path": str(file), "flavour": flavour, "date_units": "days since 2020-01-01", "columns": ["t"]}
    made = {"csv": CsvSource, "parquet": ParquetSource, "arrow": ArrowSource}[kind]
    return made({**settings, "attributes": attributes, **config})


@pytest.mark.parametrize("kind", ["csv", "parquet", "arrow"])
def test_attributes_of_a_recipe_unpack_columns(tmp_path: Path, kind: str) -> None:
    packed = {
        "t": {"scale_factor": 0.5, "add_offset": 1, "missing_value": -999, "units": "K", "axis": "Z"},
        "lat": {"scale_factor": 0.01},
        "day": {"scale_factor": 0.1},
    }
    found = rows(source(tmp_path, kind, packed))
    assert found["latitude"].tolist() == [4567 * 0.01, 0.01, -90, 9 * 0.01]
    np.testing.assert_array_equal(found["t"], [6, 11, np.nan, np.nan])
    assert (found["date"] - pd.Timestamp(2020, 1, 1)).dt.total_seconds().tolist() == [0, 43200, 86400, 129600]
    assert found.attrs["variables"] == {"t": {"units": "K", "axis": "Z"}}


def test_valid_ranges_are_those_of_packed_values(tmp_path: Path) -> None:
    found = rows(source(tmp_path, "csv", {"t": {"scale_factor": 0.5, "valid_range": [0, 15]}}))
    np.testing.assert_array_equal(found["t"], [5, np.nan, np.nan, np.nan])


@pytest.mark.parametrize("value", ["0.1", [1, 2], 0, True])
def test_attributes_that_unpack_nothing_are_refused_by_file_and_column(tmp_path: Path, value: object) -> None:
    with pytest.raises(ConformError, match=r"a\.csv, column t: .*scale_factor"):
        rows(source(tmp_path, "csv", {"t": {"scale_factor": value}}))


def test_dates_of_text_are_not_unpacked(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match=r"attributes\.day: has scale_factor, but is a date"):
        rows(source(tmp_path, "csv", {"day": {"scale_factor": 2}}, date_units=None, date_format="%Y"))
