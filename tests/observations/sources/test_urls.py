"""Sources of observations whose files are on other machines: read as those here, and no secret of theirs is kept."""

from __future__ import annotations

import pickle
import shutil
from pathlib import Path

import pandas as pd
import pytest
from pandas.testing import assert_frame_equal

import cfagg
from cfagg.demo import sample
from cfagg.errors import AccessError, SourceNotFoundError, StaleError
from cfagg.observations.recipe import load_recipe
from cfagg.observations.sources.csv import CsvSource
from cfagg.observations.sources.netcdf import NetcdfSource
from cfagg.observations.sources.observations import ObservationsSource
from cfagg.observations.sources.parquet import ArrowSource, ParquetSource
from tests.observations.servers import served

SECRET = {"headers": {"Authorization": "Bearer an-unlikely-secret"}}
DATES = pd.date_range("2020-01-01", periods=40, freq="6h")


@pytest.fixture
def server(tmp_path: Path):
    (tmp_path / "data").mkdir()
    with served(tmp_path / "data") as made:
        made.dated = True
        yield made


def frame() -> pd.DataFrame:
    return pd.DataFrame({"date": DATES, "latitude": 51.5, "longitude": 1.0 * DATES.day, "sst": 280.0 + DATES.hour})


def rows(source) -> pd.DataFrame:
    return pd.concat(list(source.read(pd.Timestamp("2019-01-01"), pd.Timestamp("2030-01-01"))))


KINDS = {
    "a.csv": (CsvSource, lambda path: frame().to_csv(path, index=False)),
    "a.csv.gz": (CsvSource, lambda path: frame().to_csv(path, index=False)),
    "a.parquet": (ParquetSource, lambda path: frame().to_parquet(path)),
    "a.feather": (ArrowSource, lambda path: frame().to_feather(path)),
    "a.nc": (NetcdfSource, lambda path: shutil.copy(sample("profiles.nc"), path)),
}


KIND_OF = {"a.csv": "csv", "a.parquet": "parquet", "a.feather": "arrow"}


@pytest.mark.parametrize("name", KINDS)
def test_a_file_on_a_web_server_gives_the_rows_of_the_file_here(server, name) -> None:
    source, write = KINDS[name]
    write(server.folder / name)
    there = source({"path": f"{server.url}/{name}", "options": SECRET})
    assert_frame_equal(rows(there), rows(source({"path": str(server.folder / name)})))
    assert {headers.get("authorization") for _, _, headers in server.seen} == {"Bearer an-unlikely-secret"}


@pytest.mark.parametrize("name", [*KINDS, "a.zarr"])
def test_a_redirect_is_followed_only_where_allow_admits_it(server, tmp_path, name) -> None:
    if name == "a.zarr":
        source, path = ObservationsSource, server.folder / name
        dates = {"start": "2020-01-01", "end": "2020-01-31", "frequency": "1d"}
        cfagg.create_observations({"dates": dates, "input": lambda *_: frame(), "output": {"layout": "tabular"}}, path)
    else:
        source, write = KINDS[name]
        path = server.folder / name
        write(path)
    here = rows(source({"path": str(path)}))
    with served(server.folder) as other:
        inner = "/.zgroup" if name == "a.zarr" else ""
        server.rules = {name + inner: [f"{other.url}/{name}{inner}"] * 9}
        config = {"path": f"{server.url}/{name}", "options": SECRET}
        with pytest.raises(AccessError, match=f"redirects to {other.url}.*allow="):
            rows(source(config))
        assert other.seen == []
        assert_frame_equal(rows(source({**config, "allow": other.url})), here)
        assert other.seen
        assert not any("authorization" in headers for _, _, headers in other.seen)


@pytest.mark.parametrize("name", KINDS)
def test_a_file_that_is_not_there_is_said_so(server, name) -> None:
    with pytest.raises(SourceNotFoundError, match="no such file"):
        rows(KINDS[name][0]({"path": f"{server.url}/{name}"}))


def test_a_parquet_file_that_changes_on_its_server_between_two_parts_is_refused(server) -> None:
    frame().to_parquet(server.folder / "a.parquet")
    source = ParquetSource({"path": f"{server.url}/a.parquet"})
    rows(source)
    frame().assign(sst=1.0).to_parquet(server.folder / "a.parquet")
    with pytest.raises(StaleError, match="changed while it was read"):
        rows(source)


def test_a_pattern_behind_a_url_says_that_it_is_not_expanded(server) -> None:
    with pytest.raises(SourceNotFoundError, match="name each file"):
        rows(CsvSource({"path": f"{server.url}/*.csv"}))


@pytest.mark.parametrize("source", [CsvSource, ObservationsSource])
def test_secrets_among_options_are_not_sent_to_other_processes(source) -> None:
    made = source({"path": "https://example.org/a", "options": SECRET})
    with pytest.raises(AccessError, match="are not sent to other processes"):
        pickle.dumps(made)
    assert "unlikely" not in repr(made)


def headers() -> dict[str, str]:
    """Return what a server wants."""
    return SECRET["headers"]


@pytest.mark.parametrize("source", ["csv", "parquet", "netcdf", "observations"])
def test_a_recipe_with_secrets_is_not_sent_to_other_processes(source) -> None:
    read = {source: {"path": "https://example.org/a", "options": dict(SECRET)}}
    dates = {"start": "2020-01-01", "end": "2020-01-10", "frequency": "1d"}
    recipe = {"dates": dates, "input": {"pipe": [{"join": [read]}, {"drop": ["t"]}]}, "output": {"layout": "tabular"}}
    with pytest.raises(AccessError, match="are not sent to other processes"):
        pickle.dumps(load_recipe(recipe))
    read[source]["options"]["headers"] = headers
    assert b"unlikely" not in pickle.dumps(load_recipe(recipe))


def test_a_store_keeps_no_secret_of_the_sources_it_was_made_from(server, tmp_path) -> None:
    frame().to_csv(server.folder / "a.csv", index=False)
    recipe = {
        "dates": {"start": "2020-01-01", "end": "2020-01-10", "frequency": "1d"},
        "input": {"csv": {"path": f"{server.url}/a.csv", "options": {**SECRET, "timeout": 7}}},
        "output": {"layout": "tabular"},
    }
    assert cfagg.create_observations(recipe, tmp_path / "a.zarr").rows == 40
    recipe["input"] = {"pipe": [{"observations": {"path": f"{server.url}/b.zarr", "options": SECRET}}]}
    shutil.copytree(tmp_path / "a.zarr", server.folder / "b.zarr")
    assert cfagg.create_observations(recipe, tmp_path / "b.zarr").rows == 40
    kept = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    assert not [path for path, data in kept.items() if b"unlikely" in data]
    assert b'"timeout": 7' in kept[tmp_path / "a.zarr" / ".zattrs"]


@pytest.mark.parametrize("name", ["a.csv", "a.parquet", "a.feather"])
def test_a_list_of_stations_on_a_web_server_is_read_with_options_of_its_own(server, tmp_path, name) -> None:
    source, _ = KINDS[name]
    table = frame().drop(columns=["latitude", "longitude"]).assign(station="A")
    write = {"a.csv": table.to_csv, "a.parquet": table.to_parquet, "a.feather": table.to_feather}[name]
    write(server.folder / name, **({"index": False} if name == "a.csv" else {}))
    (server.folder / "list.csv").write_text("station,latitude,longitude\nA,1,2\n")
    with served(server.folder) as other:
        stations = {"path": f"{other.url}/list.csv", "column": "station", "options": {"headers": {"X-Key": "own"}}}
        made = source({"path": f"{server.url}/{name}", "options": SECRET, "stations": stations})
        found = rows(made)
        assert {headers.get("x-key") for _, _, headers in other.seen} == {"own"}
        assert not [headers for _, _, headers in other.seen if "authorization" in headers]
        assert not [headers for _, _, headers in server.seen if "x-key" in headers]
        recipe = {
            "dates": {"start": "2020-01-01", "end": "2020-01-10", "frequency": "1d"},
            "input": {KIND_OF[name]: {"path": f"{server.url}/{name}", "options": SECRET, "stations": stations}},
            "output": {"layout": "tabular"},
        }
        assert cfagg.create_observations(recipe, tmp_path / "s.zarr").rows == 40
        recipe["input"] = {
            KIND_OF[name]: {"path": str(server.folder / name), "stations": {**stations, "options": SECRET}}
        }
        with pytest.raises(AccessError, match="are not sent to other processes"):
            pickle.dumps(load_recipe(recipe))
    assert set(found["latitude"]) == {1}
    kept = [p.read_bytes() for p in (tmp_path / "s.zarr").rglob("*") if p.is_file()]
    assert not [data for data in kept if b"X-Key" in data or b"unlikely" in data]
