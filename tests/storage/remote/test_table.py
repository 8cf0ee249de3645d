"""The table of docs/remote.md: each function asks the server of a URL that it takes, and no server of any other."""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import xarray as xr

import cfagg
from cfagg.cli.main import main
from cfagg.demo import sample
from cfagg.errors import AccessError, CfaggError, UnsupportedError
from cfagg.observations import exchange
from cfagg.observations.sources.csv import CsvSource
from tests.observations.servers import Server, served

pytest.importorskip("obstore", reason="object stores are written by obstore, which is not installed")

ROOT = Path(__file__).parents[3]
SECRET = "dW5saWtlbHlzZWNyZXQ="
TABLE = {
    row[0]: row[1:]
    for line in (ROOT / "docs/remote.md").read_text(encoding="utf-8").splitlines()
    if len(row := [cell.strip() for cell in line.strip("|").split("|")]) == 5 and row[1] in ("yes", "no")
}
RECIPE = {
    "dates": {"start": "2020-01-01", "end": "2020-01-02", "frequency": "1d"},
    "input": {"csv": {"path": "a.csv"}},
    "output": {"layout": "tabular"},
}


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A server that has nothing."""
    monkeypatch.chdir(tmp_path)
    for name, value in {"AWS_ACCESS_KEY_ID": "some", "AWS_SECRET_ACCESS_KEY": SECRET}.items():
        monkeypatch.setenv(name, value)
    (tmp_path / "empty").mkdir()
    with served(tmp_path / "empty") as made:
        monkeypatch.setenv("AWS_ENDPOINT_URL", made.url)
        monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_NAME", "some")
        monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_KEY", SECRET)
        monkeypatch.setenv("AZURE_STORAGE_ENDPOINT", made.url)
        account = {"gcs_base_url": made.url, "disable_oauth": True, "client_email": "", "private_key": SECRET}
        monkeypatch.setenv("GOOGLE_SERVICE_ACCOUNT_KEY", json.dumps({**account, "private_key_id": ""}))
        yield made


def url_of(scheme: str, server: Server, name: str) -> str:
    return f"{server.url}/{name}" if scheme == "http" else f"{scheme}://bucket/{name}"


def command(*words: str) -> None:
    """Run a command; raise what it says."""
    status = main([*words])
    assert status in (0, 1, 2)


def dataset() -> xr.Dataset:
    return xr.Dataset({"v": ("x", np.arange(3.0))})


def sources(url: str) -> None:
    list(CsvSource({"path": f"{url}.csv"}).read(*map(np.datetime64, ("2020-01-01", "2020-01-02"))))


def buoy(start: Any, end: Any) -> pd.DataFrame:
    dates = pd.date_range(start, end, freq="6h", inclusive="left")
    return pd.DataFrame({"date": dates, "latitude": 45.0, "longitude": -20.0, "sst": 288.0})


@cache
def store() -> str:
    """Make a store of observations, once in a run."""
    path = f"{tempfile.mkdtemp()}/a.zarr"
    cfagg.create_observations({**RECIPE, "input": buoy}, path)
    return path


@cache
def fixable() -> str:
    """Make a file with something to fix, once in a run."""
    path = f"{tempfile.mkdtemp()}/a.nc"
    xr.Dataset({"v": ("x", np.arange(3.0), {"units": "degC", "standard_name": "Air_Temperature"})}).to_netcdf(path)
    return path


def here(name: str) -> str:
    return str(sample(name))


#: What is called for each row, with a URL that has no suffix.
CALLS: dict[str, list[Callable[[str], Any]]] = {
    "`read`, `show`, `check`, `open_array`, `open_rows`, `open_aggregation`, `xarray.open_dataset`": [
        lambda url: cfagg.open_array(f"{url}.zarr", "v"),
        lambda url: cfagg.open_rows(f"{url}.zarr"),
        lambda url: cfagg.read(f"{url}.nc"),
        lambda url: cfagg.show(f"{url}.nc"),
        lambda url: cfagg.check(f"{url}.nc"),
        lambda url: cfagg.open_aggregation(f"{url}.nc", "v"),
        lambda url: xr.open_dataset(f"{url}.nc", engine="cfagg"),
    ],
    "source of `convert`": [lambda url: cfagg.convert(f"{url}.nc", "out.zarr")],
    "`rebase`": [lambda url: cfagg.rebase(f"{url}.nc", "a", "b", output="out.nc")],
    "`open_observations`, sources of recipes": [
        lambda url: cfagg.open_observations(f"{url}.zarr"),
        sources,
    ],
    "`open_accumulated`": [lambda url: cfagg.open_accumulated(f"{url}.zarr", "v")],
    "target of `convert`, if a Zarr store": [lambda url: cfagg.convert(here("sst.nca"), f"{url}.zarr")],
    "target of `create_observations`": [lambda url: cfagg.create_observations(RECIPE, f"{url}.zarr")],
    "`accumulate`": [lambda url: cfagg.accumulate(f"{url}.zarr", "v")],
    "store of `append`, or of `convert` with `region=`": [
        lambda url: cfagg.append(f"{url}.zarr", dataset(), "x"),
        lambda url: cfagg.convert(here("sst.nca"), f"{url}.zarr", region={"time": slice(0, 3)}),
    ],
    "output of `rebase`": [lambda url: cfagg.rebase(here("temperature.nca"), "a", "b", output=f"{url}.nc")],
    "`-o` and `--plot` of `show`, `mean`, `check` and `obs`": [
        lambda url: command("show", here("sst.nca"), "-o", f"{url}.txt"),
        lambda url: command("show", here("sst.nca"), "--plot", f"{url}.svg"),
        lambda url: command("check", here("sst.nca"), "-o", f"{url}.txt"),
        lambda url: command("mean", "a.zarr", "v", "--over", "time", "-o", f"{url}.nc"),
        lambda url: command("obs", "window", "a.zarr", "2020-01-01", "-o", f"{url}.nc"),
    ],
    "target of `write` (of a Zarr store too) and `write_rows`, and of `convert` if an aggregation or netCDF file": [
        lambda url: cfagg.write(dataset(), f"{url}.zarr"),
        lambda url: cfagg.write_rows((np.ones(2), np.array([0, 2])), f"{url}.zarr"),
        lambda url: cfagg.convert(here("sst.nca"), f"{url}.nc"),
        lambda url: cfagg.write(dataset(), f"{url}.nc"),
        lambda url: cfagg.convert(here("temperature.nca"), f"{url}.nc", to="CF-1.13"),
        lambda url: cfagg.convert(here("sst.nca"), f"{url}.nca"),
    ],
    "`import_netcdf`, `import_parquet`": [
        lambda url: exchange.import_netcdf(f"{url}.nc", "out.zarr"),
        lambda url: exchange.import_parquet(f"{url}.parquet", "out.zarr"),
    ],
    "their stores, and files of `export_netcdf`, `export_parquet`": [
        lambda url: exchange.import_netcdf(here("storms.nc"), f"{url}.zarr"),
        lambda url: exchange.export_netcdf(store(), f"{url}.nc"),
        lambda url: exchange.export_parquet(store(), f"{url}.parquet"),
    ],
    "output of `check --fix`": [lambda url: command("check", "--fix", fixable(), "-o", f"{url}.nc")],
    "recipes": [lambda url: cfagg.create_observations(f"{url}.yaml", "out.zarr")],
}

CASES = [
    pytest.param(call, scheme, answer == "yes", id=f"{scheme}-{row}-{number}")
    for row, answers in TABLE.items()
    for scheme, answer in zip(("http", "s3", "gs", "az"), answers, strict=True)
    for number, call in enumerate(CALLS[row])
]


def test_the_table_says_something_of_every_call() -> None:
    assert TABLE.keys() == CALLS.keys()


@pytest.mark.few(25)
@pytest.mark.parametrize(("call", "scheme", "taken"), CASES)
def test_a_url_is_asked_for_or_refused_as_the_table_says(call, scheme, taken, server, capsys) -> None:
    error: CfaggError | None = None
    try:
        call(url_of(scheme, server, "x"))
    except CfaggError as raised:
        error = raised
    said = "".join(capsys.readouterr()) + (str(error) if error else "")
    assert SECRET not in said
    assert bool(server.seen) == taken, said
    if not taken:
        assert error is None or isinstance(error, UnsupportedError)
        refused = r"is a URL, which cannot be \w+( as a recipe)? yet; use a path of this machine"
        assert re.search(f"{refused}|cannot be written to; stores at s3://, gs:// and az:// can", said), said


def provider() -> dict[str, str]:
    """Give what signs requests to Google."""
    return {"token": SECRET}


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda url: cfagg.read(f"{url}.nc", storage_options={"credentials": provider}), AccessError),
        (
            lambda url: cfagg.convert(here("sst.nca"), f"{url}.zarr", target_options={"credentials": provider}),
            AccessError,
        ),
    ],
)
def test_credentials_for_google_are_sent_to_the_server_that_is_named_and_stand_in_no_message(
    call, error, server
) -> None:
    server.rules = {"": [403] * 9}
    with pytest.raises(error) as caught:
        call("gs://bucket/x")
    assert SECRET not in str(caught.value) + repr(caught.value)
    assert {headers.get("authorization") for _, _, headers in server.seen} == {f"Bearer {SECRET}"}


def test_a_setting_of_the_environment_that_changes_is_seen(server, tmp_path, monkeypatch) -> None:
    (call,) = CALLS["`open_accumulated`"]
    with pytest.raises(CfaggError):
        call("az://bucket/x")
    before = len(server.seen)
    with served(tmp_path / "empty") as other:
        monkeypatch.setenv("AZURE_STORAGE_ENDPOINT", other.url)
        with pytest.raises(CfaggError):
            call("az://bucket/x")
        assert other.seen
    assert len(server.seen) == before
