"""Lists of stations that give the places of tables which only name them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from pyarrow import feather

import cfagg
from cfagg.errors import ConventionError, SourceError
from cfagg.observations.creating import create_observations
from cfagg.observations.registry import Config
from cfagg.observations.sources.csv import CsvSource
from cfagg.observations.sources.parquet import ArrowSource, ParquetSource
from tests.observations.sources.reading import rows

LIST = """USW00094728  40.7789  -73.9692   42.7 NY NEW YORK CNTRL PRK TWR
GM000003342  52.3833   13.0667 -999.9    POTSDAM
00123        -1.5       0.25     10.0    ZERO
GM000003342  52.3833   13.0667 -999.9    POTSDAM
TWICE         1.0       2.0      10.0    ONE
TWICE         1.0       3.0      10.0    OTHER
"""
POSITIONS = {"ID": "1-11", "LAT": "13-20", "LON": "22-30", "elevation": "32-37", "name": "42-60"}
STATIONS = {
    "column": "station",
    "id": "ID",
    "latitude": "LAT",
    "longitude": "LON",
    "columns": ["elevation"],
    "positions": POSITIONS,
    "missing": -999.9,
    "attributes": {"elevation": {"units": "m"}},
}
TABLE = pd.DataFrame(
    {
        "station": ["GM000003342", "USW00094728", "GM000003342"],
        "date": pd.to_datetime(["2020-01-03", "2020-01-01", "2020-01-02"]),
        "t": [1.0, 2.0, 3.0],
    }
)


def written(folder: Path, kind: str, table: pd.DataFrame = TABLE, **stations: Any) -> Any:
    """Write a table and a list, and return the source that reads both."""
    (folder / "list.txt").write_text(LIST)
    if kind == "csv":
        table.to_csv(folder / "a.csv", index=False)
    elif kind == "parquet":
        table.to_parquet(folder / "a.parquet")
    else:
        feather.write_feather(pa.Table.from_pandas(table), folder / "a.arrow")
    config = {"path": f"a.{kind}", "stations": {"path": "list.txt", **STATIONS, **stations}}
    return {"csv": CsvSource, "parquet": ParquetSource, "arrow": ArrowSource}[kind](Config(config, "input", folder))


@pytest.mark.parametrize("kind", ["csv", "parquet", "arrow"])
def test_places_and_other_columns_are_those_of_the_list(tmp_path: Path, kind: str) -> None:
    found = rows(written(tmp_path, kind))
    assert found.columns.tolist() == ["date", "latitude", "longitude", "t", "elevation"]
    assert found["date"].tolist() == TABLE["date"].tolist()
    assert found["latitude"].tolist() == [52.3833, 40.7789, 52.3833]
    assert found["longitude"].tolist() == [13.0667, -73.9692, 13.0667]
    np.testing.assert_array_equal(found["elevation"], [np.nan, 42.7, np.nan])
    assert found.attrs["variables"]["elevation"] == {"units": "m"}


def test_numbers_of_stations_keep_their_zeros_and_are_data_if_named(tmp_path: Path) -> None:
    made = written(tmp_path, "csv")
    (tmp_path / "a.csv").write_text("station,date,t\n 00123 ,2020-01-01,1\n")
    assert rows(made)["latitude"].tolist() == [-1.5]
    config = {"path": str(tmp_path / "a.csv"), "columns": ["station", "t"]}
    stations = {"path": str(tmp_path / "list.txt"), **STATIONS}
    found = rows(CsvSource({**config, "stations": stations}))
    assert found[["station", "t", "elevation"]].to_numpy().tolist() == [[123, 1, 10]]


def test_numbers_of_stations_may_lack_zeros_if_the_recipe_says_so(tmp_path: Path) -> None:
    table = TABLE.assign(station=["  123", "00123", "0123"])
    with pytest.raises(SourceError, match=r"row 1 and 1 more: has the station '123', which is not"):
        rows(written(tmp_path, "csv", table))
    assert set(rows(written(tmp_path, "csv", table, numbers=True))["latitude"]) == {-1.5}


@pytest.mark.parametrize(
    ("names", "said"),
    [
        (["GM000003342", "x", "y"], r"a\.csv, column station, row 2 and 1 more: has the station 'x', .*list\.txt"),
        (["GM000003342", None, "TWICE"], "row 2: has no station"),
        (["GM000003342", "TWICE", "TWICE"], r"list\.txt: the station 'TWICE' is listed more than once"),
    ],
)
def test_stations_that_are_not_listed_once_are_refused(tmp_path: Path, names: list[Any], said: str) -> None:
    with pytest.raises(SourceError, match=said):
        rows(written(tmp_path, "csv", TABLE.assign(station=names)))


@pytest.mark.parametrize(
    ("stations", "said"),
    [
        ({"id": "IDS"}, r"list\.txt: columns of stations are not as expected \(.*\n.*IDS: is missing; did you mean ID"),
        ({"path": "gone.txt"}, "gone.txt: no such file"),
        ({"longitude": "name"}, r"list\.txt is not a list of stations: .*NEW YORK"),
        ({"columns": ["name"], "attributes": {}}, r"list\.txt is not a list of stations: .*NEW YORK"),
        ({"columns": ["t"], "attributes": {}, "positions": {**POSITIONS, "t": 1}}, "t: is a column of the list"),
    ],
)
def test_lists_that_do_not_fit_are_refused(tmp_path: Path, stations: dict[str, Any], said: str) -> None:
    with pytest.raises(SourceError, match=said):
        rows(written(tmp_path, "csv", **stations))


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ({"stations": {"path": "b"}}, "stations.column: is missing"),
        ({"stations": {"path": "b", "column": "s"}, "flavour": {"latitude": "lat"}}, "latitude: is in the list of"),
        ({"stations": {"path": "b", "column": "s", "columns": ["s"]}}, "s cannot be one of the data columns"),
        ({"stations": {"path": "b", "column": "s", "attributes": {"h": {}}}}, "h: is not among columns"),
        (
            {"stations": {"path": "b", "column": "s", "columns": ["h"], "attributes": {"h": {"scale_factor": 2}}}},
            "h.scale_factor: is not for lists of stations",
        ),
    ],
)
@pytest.mark.parametrize("kind", [CsvSource, ParquetSource, ArrowSource])
def test_settings_of_lists_that_are_not_understood_are_refused(kind: Any, config: dict[str, Any], said: str) -> None:
    with pytest.raises(ConventionError, match=said):
        kind({"path": "a", **config})


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_a_list_is_a_file_of_the_store_and_a_changed_one_is_read_again(tmp_path: Path, kind: str) -> None:
    made = written(tmp_path, kind)
    assert [Path(p).name for p in made.files()] == [f"a.{kind}", "list.txt"]
    made.prepare(tmp_path / "kept")
    again = written(tmp_path, kind)
    (tmp_path / "list.txt").write_text(LIST.replace("52.3833", "52.5000"))
    again.prepare(tmp_path / "kept")
    assert set(rows(again)["latitude"]) == {52.5, 40.7789}


@pytest.mark.parametrize("kind", ["csv", "parquet", "arrow"])
def test_a_store_is_built_with_the_places_of_a_list(tmp_path: Path, kind: str) -> None:
    written(tmp_path, kind)
    source = {kind: {"path": str(tmp_path / f"a.{kind}"), "stations": {"path": str(tmp_path / "list.txt"), **STATIONS}}}
    recipe = {
        "dates": {"start": "2020-01-01", "end": "2020-01-03", "frequency": "1d"},
        "input": source,
        "build": {"group_by": "daily", "max_workers": 2},
        "output": {"layout": "tabular"},
        "statistics": {"records": "all"},
    }
    create_observations(recipe, tmp_path / "s.zarr")
    found = cfagg.open_observations(tmp_path / "s.zarr", "2020-01-01", "2020-01-03", "[0,1d)", "1d")
    np.testing.assert_array_equal(found[:].latitudes, np.float32([40.7789, 52.3833, 52.3833]))
    assert found.variables == ("t", "elevation")
