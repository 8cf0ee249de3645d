"""What a real web server does, nginx: ranges, redirects, error pages, TLS, files that change."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import netCDF4
import numpy as np
import pytest
import xarray as xr

import cfagg
from cfagg.demo import sample
from cfagg.errors import AccessError, CfaggError, FragmentReadError, SourceError, StaleError, UnsupportedError
from tests.storage.remote.conftest import free_port, started

SAMPLES = Path(sample("sst.nca")).parent

CONFIGURATION = """
daemon off; master_process off; pid {folder}/pid; error_log {folder}/error.log;
events {{ worker_connections 64; }}
http {{
  access_log off; default_type application/octet-stream;
  client_body_temp_path {folder}/t1; proxy_temp_path {folder}/t2; fastcgi_temp_path {folder}/t3;
  uwsgi_temp_path {folder}/t4; scgi_temp_path {folder}/t5;
  server {{
    listen 127.0.0.1:{port}; root {folder}/data; error_page 503 /page.html;
    location /moved/ {{ rewrite ^/moved/(.*) /moved/../data/$1 permanent; }}
    location /inside/ {{ rewrite ^/inside/old/(.*) /inside/new/$1 redirect; }}
    location /away/ {{ return 302 http://127.0.0.1:{port}/$arg_x; }}
    location /busy/ {{ return 503; }}
    location /private/ {{ if ($http_authorization != "Bearer x") {{ return 401; }} }}
    location /whole/ {{ max_ranges 0; }}
    location /packed/ {{ gzip on; gzip_types *; gzip_min_length 1; }}
    location /slow/ {{ limit_rate 300k; }}
  }}
  server {{
    listen 127.0.0.1:{tls} ssl; root {folder}/data;
    ssl_certificate {folder}/own.pem; ssl_certificate_key {folder}/own.key;
  }}
}}
"""


@dataclass
class Nginx:
    """nginx, the folder that it serves, and its certificate."""

    url: str
    secure: str
    data: Path
    certificate: Path


@pytest.fixture(scope="session")
def _nginx(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nginx]:
    program = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin")
    if program is None or shutil.which("openssl") is None:
        pytest.skip("nginx or openssl is not installed")
    folder = tmp_path_factory.mktemp("nginx")
    port, tls = free_port(), free_port()
    for place in (".", "private", "whole", "packed", "slow", "inside/new", "data"):
        (folder / "data" / place).mkdir(parents=True, exist_ok=True)
        for name in ("test1.nc", "temperature.nca"):
            shutil.copy(SAMPLES / name, folder / "data" / place / name)
    (folder / "data" / "page.html").write_text("<html>" + "busy " * 30_000 + "</html>")
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2",
         "-keyout", folder / "own.key", "-out", folder / "own.pem", "-subj", "/CN=localhost",
         "-addext", "subjectAltName=DNS:localhost"],
        check=True, capture_output=True,
    )  # fmt: skip
    (folder / "nginx.conf").write_text(CONFIGURATION.format(folder=folder, port=port, tls=tls))
    with started([program, "-c", str(folder / "nginx.conf"), "-e", str(folder / "error.log")], port, folder / "log"):
        yield Nginx(f"http://127.0.0.1:{port}", f"https://localhost:{tls}", folder / "data", folder / "own.pem")


@pytest.fixture
def nginx(_nginx: Nginx, monkeypatch: pytest.MonkeyPatch) -> Nginx:
    """Nginx, with no waits between attempts."""
    from cfagg.storage import transport

    monkeypatch.setattr(transport.time, "sleep", lambda _: None)
    return _nginx


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
    with pytest.raises(SourceError, match="is not a Zarr store"):
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
