"""Datasets behind URLs are what they are on this machine, and little is asked of the server."""

from __future__ import annotations

import re
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import h5py
import netCDF4
import numpy as np
import pytest
import xarray as xr

import cfagg
from cfagg.checking.opening import open_dataset
from cfagg.checking.options import Options
from cfagg.cli.main import main
from cfagg.errors import AccessError, CfaggError, SourceError
from tests.checking.writing import write_cdl
from tests.formats.metadata.seen import seen
from tests.observations.servers import served

CDL = """netcdf a { dimensions: x = 2 ; t = UNLIMITED ; variables: float t(t) ; float v(t, x) ; v:units = "K" ;
:Conventions = "CF-1.13" ; data: t = 1, 2, 3 ; v = 1, 2, 3, 4, 5, 6 ; }"""


@pytest.mark.parametrize("format_", ["NETCDF3_CLASSIC", "NETCDF3_64BIT_DATA", "NETCDF4"])
def test_a_file_behind_a_url_is_what_it_is_here(tmp_path: Path, format_: Any) -> None:
    path = write_cdl(CDL, tmp_path / "a%20file.nc", format_)  # the server takes names as they come
    with open_dataset(path) as here:
        expected = seen(here, values=True)
    with served(tmp_path) as server, open_dataset(f"{server.url}/a%20file.nc") as there:
        assert seen(there, values=True) == expected
        assert there.source == f"{server.url}/a%20file.nc"


@pytest.mark.parametrize("size", [512, 1 << 17])
def test_hdf5_behind_a_user_block_behind_a_url_is_what_it_is_here(tmp_path: Path, size: int) -> None:
    with h5py.File(tmp_path / "a.nc", "w", userblock_size=size) as made:
        made["v"] = np.arange(3.0)
        made["v"].attrs["units"] = "K"
    with open_dataset(tmp_path / "a.nc") as here:
        expected = seen(here, values=True)
    with served(tmp_path) as server, open_dataset(f"{server.url}/a.nc") as there:
        assert seen(there, values=True) == expected


@pytest.mark.parametrize("format_", ["NETCDF3_64BIT_OFFSET", "NETCDF4"])
def test_the_metadata_of_a_large_file_take_few_bytes(tmp_path: Path, format_: Any) -> None:
    with netCDF4.Dataset(tmp_path / "a.nc", "w", format=format_) as file:
        file.createDimension("x", 4_000_000)
        v = file.createVariable("v", "f8", ("x",), contiguous=True)
        v.units = "K"
        v[:] = 0
        file.setncattr("history", "h" * 100_000)
    with served(tmp_path) as server, open_dataset(f"{server.url}/a.nc") as dataset:
        assert dataset.variables[0].attributes["units"] == "K"
        assert len(server.seen) < 8
        assert all("range" in headers for _, _, headers in server.seen)


@pytest.mark.filterwarnings("ignore:Consolidated metadata")
@pytest.mark.parametrize("zarr_format", [2, 3])
def test_a_zarr_store_behind_a_url_is_read_by_its_consolidated_metadata(tmp_path: Path, zarr_format: Any) -> None:
    made = xr.Dataset({"v": (("y", "x"), np.arange(6.0).reshape(2, 3), {"units": "m"})}, attrs={"title": "t"})
    made.to_zarr(tmp_path / "a.zarr", zarr_format=zarr_format, consolidated=True)
    made.to_zarr(tmp_path / "a.zarr", zarr_format=zarr_format, group="below", mode="a", consolidated=False)
    import zarr

    zarr.consolidate_metadata(str(tmp_path / "a.zarr"), zarr_format=zarr_format)
    with open_dataset(tmp_path / "a.zarr") as here:
        expected = seen(here, values=True)
    with served(tmp_path) as server:
        for url in (f"{server.url}/a.zarr", f"{server.url}/a.zarr/"):
            with open_dataset(url) as there:
                assert seen(there, values=True) == expected


def test_a_zarr_store_without_consolidated_metadata_cannot_be_listed(tmp_path: Path) -> None:
    xr.Dataset({"v": ("x", [1.0])}).to_zarr(tmp_path / "a", zarr_format=3, consolidated=False)
    with served(tmp_path) as server, pytest.raises(SourceError, match="consolidate"):
        open_dataset(f"{server.url}/a")


def test_cdl_behind_a_url_is_read(tmp_path: Path) -> None:
    (tmp_path / "a.cdl").write_text(CDL)
    with served(tmp_path) as server, open_dataset(f"{server.url}/a.cdl") as dataset:
        assert [v.name for v in dataset.variables] == ["t", "v"]


def test_plain_hdf5_behind_a_url_is_read_through_the_library(tmp_path: Path) -> None:
    import h5py

    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["v"] = np.arange(3)
    with served(tmp_path) as server, open_dataset(f"{server.url}/a.h5") as dataset:
        assert dataset.variables[0].values().tolist() == [0, 1, 2]


def test_redirects_out_of_the_place_are_refused_unless_allowed(tmp_path: Path) -> None:
    write_cdl(CDL, tmp_path / "a.nc")
    with served(tmp_path) as server, served(tmp_path) as other:
        server.rules["a.nc"] = [f"{other.url}/a.nc"] * 50
        with pytest.raises(AccessError, match="redirects"):
            open_dataset(f"{server.url}/a.nc")
        with open_dataset(f"{server.url}/a.nc", options=Options(allow=(other.url,))) as dataset:
            assert len(dataset.variables) == 2


@pytest.mark.parametrize(
    "url", ["gopher://a/b.nc", "http://127.0.0.1:1/a.nc?token=x", "file://other.host/a.nc", "http://", "s3://"]
)
def test_other_urls_are_refused(url: str) -> None:
    with pytest.raises(CfaggError):
        open_dataset(url)


@pytest.mark.parametrize("name", ["absent.nc", "absent.zarr", "absent"])
def test_what_is_not_there_is_told_with_the_answer_of_the_server(tmp_path: Path, name: str) -> None:
    said = rf"{name} is neither a file that can be read nor a Zarr store: the server answers 404 \(not found\)"
    with served(tmp_path) as server:
        for ask in (open_dataset, cfagg.read, cfagg.show):
            with pytest.raises(FileNotFoundError, match=said):
                ask(f"{server.url}/{name}")


@pytest.mark.parametrize("name", ["a.nc", "a.zarr", "a"])
def test_a_page_instead_of_what_was_asked_is_called_a_page(tmp_path: Path, name: str) -> None:
    (tmp_path / name).mkdir()
    (tmp_path / name / "zarr.json").write_bytes(b"<!DOCTYPE html><html><title>Sign in</title></html>")
    with served(tmp_path) as server:
        for ask in (open_dataset, cfagg.read, cfagg.show):
            with pytest.raises(SourceError, match=r"zarr\.json is not JSON: it is a web page, as .* login"):
                ask(f"{server.url}/{name}")


def test_a_cut_off_file_is_an_error(tmp_path: Path) -> None:
    path = write_cdl(CDL, tmp_path / "a.nc")
    for size in (0, 100, 3000):
        (tmp_path / "cut.nc").write_bytes(path.read_bytes()[:size])
        with served(tmp_path) as server, pytest.raises(CfaggError, match="cut"):
            open_dataset(f"{server.url}/cut.nc")


def test_a_url_of_a_file_is_its_path(tmp_path: Path) -> None:
    write_cdl(CDL, tmp_path / "a b.nc")
    with open_dataset(f"file://{tmp_path}/a%20b.nc#mode=bytes") as dataset:
        assert len(dataset.variables) == 2


@pytest.fixture
def silent() -> Iterator[str]:
    """A server that takes connections and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"


@pytest.mark.parametrize("name", ["a.nc", "a.zarr"])
def test_a_server_that_says_nothing_is_given_up_in_time(silent: str, name: str) -> None:
    start = time.monotonic()
    with pytest.raises(CfaggError, match=rf"{re.escape(silent)}/{name}.* cannot be read within 0.5 s"):
        cfagg.check(f"{silent}/{name}", timeout=0.5)
    assert time.monotonic() - start < 60


AGGREGATION = """netcdf a { dimensions: x = 2 ; f = 1 ; variables:
float v ; v:units = "1" ; v:aggregated_dimensions = "x" ; v:aggregated_data = "map: m uris: u identifiers: i" ;
int m(f, f) ; string u(f) ; string i ; :Conventions = "CF-1.13" ; data: m = 2 ; u = "%s" ; i = "v" ; }"""


@pytest.mark.parametrize("is_remote", [True, False])
def test_a_server_of_fragments_that_says_nothing_is_given_up_in_time(
    tmp_path: Path, silent: str, is_remote: bool
) -> None:
    path = write_cdl(AGGREGATION % f"{silent}/b.nc", tmp_path / "a.nc")
    with served(tmp_path) as server:
        source = f"{server.url}/a.nc" if is_remote else path
        found = cfagg.check(source, references=True, allow=[silent], timeout=0.5, select=["REF003"]).findings
    assert [f.code for f in found] == ["REF003"]
    assert "b.nc cannot be read within 0.5 s" in found[0].message


def test_fragments_on_a_server_may_be_aggregations(tmp_path: Path) -> None:
    write_cdl("netcdf c { dimensions: x = 2 ; variables: float v(x) ; data: v = 1, 2 ; }", tmp_path / "c.nc")
    write_cdl(AGGREGATION % "c.nc", tmp_path / "b.nc")
    write_cdl(AGGREGATION % "b.nc", tmp_path / "a.nc")
    with served(tmp_path) as server:
        assert cfagg.read(f"{server.url}/a.nc").v.values.tolist() == [1, 2]
        found = cfagg.check(f"{server.url}/a.nc", references=True, select=["REF"], ignore=["REF001"]).findings
    assert [f for f in found if f.severity == "error"] == []


def test_the_command_says_that_a_server_says_nothing(silent: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "--timeout", "0.5", f"{silent}/a.nc"]) == 2
    assert "cannot be read within 0.5 s" in capsys.readouterr().out


@pytest.mark.parametrize("rule", ["drip", "drip headers", "hang up", "cut", 500, 503])
def test_a_server_that_misbehaves_all_the_time_is_given_up_in_time(tmp_path: Path, rule: Any) -> None:
    write_cdl(CDL, tmp_path / "a.nc", "NETCDF4")
    start = time.monotonic()
    with served(tmp_path) as server:
        server.rules["a.nc"] = [rule] * 1000
        with pytest.raises(CfaggError, match=re.escape(server.url)):
            cfagg.check(f"{server.url}/a.nc", timeout=1)
    assert time.monotonic() - start < 90


def test_a_server_that_redirects_in_circles_is_given_up(tmp_path: Path) -> None:
    with served(tmp_path) as server:
        server.rules["a.nc"] = [f"{server.url}/a.nc"] * 1000
        with pytest.raises(CfaggError, match="redirects form a circle"):
            cfagg.check(f"{server.url}/a.nc")
        assert len(server.seen) < 20


def test_all_requests_for_a_dataset_together_end_in_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from cfagg.formats.metadata import url

    monkeypatch.setattr(url, "_WAITS", 0)
    with served(tmp_path) as server, pytest.raises(CfaggError, match=r"the server is too slow; copy"):
        cfagg.check(f"{server.url}/a.nc", timeout=1e-3)


@pytest.mark.parametrize("seconds", ["0", "-1", "nan", "inf", "a"])
def test_a_time_that_is_none_is_an_error_of_use(seconds: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "--timeout", seconds, "a.nc"]) == 2
    assert "is not a number of seconds above 0" in capsys.readouterr().err
