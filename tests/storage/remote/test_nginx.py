"""What a real web server does, nginx: ranges, redirects, error pages, TLS, files that change."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import netCDF4
import numpy as np
import pytest
import xarray as xr

import cfagg
from cfagg.demo import sample
from cfagg.errors import AccessError, CfaggError, FragmentReadError, SourceError, StaleError, UnsupportedError

SAMPLES = Path(sample("sst.nca")).parent


def same(url: str, **options) -> None:
    xr.testing.assert_identical(cfagg.read(url, **options).load(), cfagg.read(SAMPLES / "test1.nc").load())


@pytest.mark.parametrize("place", ["", "packed/", "slow/", "inside/new/"])
def test_a_file_is_read_by_ranges_whatever_the_server_would_do_with_whole_files(nginx, place) -> None:
    same(f"{nginx.url}/{place}test1.nc")


def test_a_redirect_out_of_the_place_is_refused(nginx) -> None:
    with pytest.raises(AccessError, match="outside the store"):
        cfagg.read(f"{nginx.url}/inside/old/test1.nc")
    same(f"{nginx.url}/inside/old/test1.nc", allow=[f"{nginx.url}/inside/new"])


def test_an_error_page_is_no_data(nginx) -> None:
    with pytest.raises(SourceError, match="after 4 attempts: the server answers 503"):
        cfagg.read(f"{nginx.url}/busy/test1.nc")
    with pytest.raises(SourceError, match="nor a Zarr store"):
        cfagg.read(f"{nginx.url}/absent.nc")


def test_headers_open_what_is_private_and_their_absence_is_told(nginx) -> None:
    with pytest.raises(AccessError, match="answers 401"):
        cfagg.read(f"{nginx.url}/private/test1.nc")
    same(f"{nginx.url}/private/test1.nc", storage_options={"headers": {"Authorization": "Bearer x"}})


def test_a_server_without_ranges_is_told(nginx) -> None:
    with netCDF4.Dataset(nginx.data / "whole" / "large.nc", "w", format="NETCDF3_CLASSIC") as file:
        file.createDimension("x", 100_000)
        file.createVariable("v", "f8", ("x",))[:] = 1
    with pytest.raises(UnsupportedError, match="does not support byte ranges"):
        cfagg.read(f"{nginx.url}/whole/large.nc")


def test_a_certificate_that_nobody_vouches_for_is_refused_and_one_that_is_known_is_taken(nginx, monkeypatch) -> None:
    monkeypatch.delenv("SSL_CERT_FILE", raising=False)
    with pytest.raises(SourceError, match="certificate"):
        cfagg.read(f"{nginx.secure}/test1.nc")
    monkeypatch.setenv("SSL_CERT_FILE", str(nginx.certificate))
    same(f"{nginx.secure}/test1.nc")


def test_a_file_that_is_replaced_while_it_is_read_is_an_error(nginx) -> None:
    def write(value: float) -> None:
        with netCDF4.Dataset(nginx.data / "new.nc", "w", format="NETCDF3_CLASSIC") as file:
            file.createDimension("x", 100_000)
            file.createVariable("v", "f8", ("x",))[:] = value
        (nginx.data / "new.nc").replace(nginx.data / "changing.nc")

    write(1)
    os.utime(nginx.data / "changing.nc", (1e9, 1e9))
    found = cfagg.read(f"{nginx.url}/changing.nc")
    write(2)
    with pytest.raises(StaleError, match="written since"):
        found.v.load()
    assert np.all(cfagg.read(f"{nginx.url}/changing.nc").v == 2)


def test_a_file_that_grows_shorter_while_it_is_read_is_an_error(nginx) -> None:
    shutil.copy(SAMPLES / "test1.nc", nginx.data / "cut.nc")
    with (nginx.data / "cut.nc").open("r+b") as file:
        file.truncate(3000)
    with pytest.raises(CfaggError):
        cfagg.read(f"{nginx.url}/cut.nc").load()


def test_an_aggregation_reads_its_fragments_from_the_same_server(nginx) -> None:
    shutil.copytree(SAMPLES, nginx.data / "samples", dirs_exist_ok=True)
    here = cfagg.read(SAMPLES / "temperature2.nca").load()
    xr.testing.assert_identical(cfagg.read(f"{nginx.url}/samples/temperature2.nca").load(), here)


def test_a_missing_fragment_is_named_by_its_url(nginx) -> None:
    with pytest.raises((SourceError, FragmentReadError, FileNotFoundError), match=f"{nginx.url}/"):
        cfagg.read(f"{nginx.url}/temperature.nca").load()
