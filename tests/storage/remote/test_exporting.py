"""Icechunk repositories of chunks in files on other machines: the values, what detects changes, and no credentials."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr

import cfagg
from cfagg.errors import SourceError, UnsupportedError
from cfagg.storage.urls import Options, Url
from cfagg.writing.exports.virtual import credentials_of, located, places_of
from tests.observations.servers import served

from .conftest import Bucket, Nginx

icechunk = pytest.importorskip("icechunk", reason="icechunk is not installed")


def months(folder: Path, count: int = 3) -> list[Path]:
    """Write files too large to be written inside, with names that have to be quoted."""
    found = []
    for k in range(count):
        values = np.random.default_rng(k).normal(280, 10, (12, 40, 60)).astype("f4")
        coordinates = {
            "time": ("time", np.arange(12) + 12.0 * k, {"units": "days since 2000-01-01", "standard_name": "time"}),
            "lat": ("lat", np.linspace(-78, 78, 40), {"units": "degrees_north", "standard_name": "latitude"}),
            "lon": ("lon", np.arange(60) * 6.0, {"units": "degrees_east", "standard_name": "longitude"}),
        }
        tas = (("time", "lat", "lon"), values, {"units": "K", "standard_name": "air_temperature"})
        found.append(folder / f"month {k} ü.nc")
        encoding = {"tas": {"zlib": True, "chunksizes": (4, 40, 60)}}
        xr.Dataset({"tas": tas}, coordinates).to_netcdf(found[-1], engine="netcdf4", encoding=encoding)
    return found


def opened(path: Path, allowed: dict[str, Any]) -> xr.Dataset:
    given = icechunk.containers_credentials(allowed)
    repository = icechunk.Repository.open(icechunk.local_filesystem_storage(str(path)), None, given)
    return xr.open_zarr(repository.readonly_session("main").store, consolidated=False)


def credentials(bucket: Bucket) -> Any:
    return icechunk.s3_credentials(access_key_id=bucket.key, secret_access_key=bucket.secret)


@pytest.fixture
def exported(bucket: Bucket, tmp_path: Path, request: pytest.FixtureRequest) -> tuple[Path, str, list[Path]]:
    """A repository of files in S3, their place there, and the files here."""
    (tmp_path / "in").mkdir()
    files, place = months(tmp_path / "in"), f"icechunk/{abs(hash(request.node.name))}"
    urls = [bucket.put(one, place) for one in files]
    out = tmp_path / "out.icechunk"
    report = cfagg.index(urls, output=out, to="icechunk", storage_options=bucket.options)
    assert any("s3_from_env_credentials()" in note for note in report.notes)
    return out, f"s3://{bucket.name}/{place}/", files


def test_chunks_in_s3_have_the_values_of_the_files(exported: Any, bucket: Bucket) -> None:
    out, place, files = exported
    found = opened(out, {place: credentials(bucket)})
    own = cfagg.aggregate(files)
    np.testing.assert_array_equal(found.tas.values, own.tas.values)
    xr.testing.assert_equal(found.time, own.time)


def test_no_key_is_in_the_repository(exported: Any, bucket: Bucket) -> None:
    out, _, _ = exported
    held = b"".join(path.read_bytes() for path in out.rglob("*") if path.is_file())
    assert bucket.key.encode() not in held
    assert bucket.secret.encode() not in held


def test_an_object_that_was_written_again_is_refused_whatever_its_time(exported: Any, bucket: Bucket) -> None:
    out, place, files = exported
    changed = bytearray(files[1].read_bytes())
    changed[-1] ^= 1
    files[1].write_bytes(changed)
    bucket.put(files[1], place.removeprefix(f"s3://{bucket.name}/").rstrip("/"))
    with pytest.raises(icechunk.IcechunkError, match="has changed"):
        opened(out, {place: credentials(bucket)}).tas.load()


def test_readers_without_keys_are_refused(exported: Any) -> None:
    out, place, _ = exported
    wrong = icechunk.s3_credentials(access_key_id="AKIA0", secret_access_key="x")
    with pytest.raises(icechunk.IcechunkError):
        opened(out, {place: wrong}).tas.load()


def test_chunks_on_a_web_server_have_the_values_of_the_files(nginx: Nginx, tmp_path: Path) -> None:
    folder = nginx.data / "virtual"
    folder.mkdir(exist_ok=True)
    files = months(folder)
    for one in files:
        os.utime(one, (time.time() - 60,) * 2)
    out = tmp_path / "out.icechunk"
    urls = [f"{nginx.url}/virtual/{one.name}".replace(" ", "%20").replace("ü", "%C3%BC") for one in files]
    report = cfagg.index(urls, output=out, to="icechunk")
    assert any("HttpAccess" in note for note in report.notes)
    allowed = {f"{nginx.url}/virtual/": icechunk.credentials.HttpAccess}
    np.testing.assert_array_equal(opened(out, allowed).tas.values, cfagg.aggregate(files).tas.values)
    files[1].write_bytes(files[1].read_bytes())
    said = ""
    for _ in range(50):
        with pytest.raises(icechunk.IcechunkError) as caught:
            opened(out, allowed).tas.load()
        said = str(caught.value)
        # nginx ends a connection after this answer without a word, and Icechunk may ask there for the next chunk.
        if "connection closed before" not in said:
            break
    assert "has changed" in said


def test_files_of_a_server_that_tells_no_time_are_refused(tmp_path: Path) -> None:
    months(tmp_path, 1)[0].rename(tmp_path / "a.nc")
    with served(tmp_path) as server:
        urls = [f"{server.url}/a.nc"]
        with pytest.raises(SourceError, match="gives no time of its last change"):
            cfagg.index(urls, output=tmp_path / "out.icechunk", to="icechunk")
    assert not (tmp_path / "out.icechunk").exists()


def test_stores_of_which_icechunk_knows_no_state_are_refused() -> None:
    with pytest.raises(UnsupportedError, match="export to kerchunk"):
        places_of([Url("az://archive/a.nc")])


def test_public_buckets_are_read_without_keys() -> None:
    url = Url("s3://archive/ä b%/c.nc", Options({"skip_signature": True}))
    (place,) = places_of([url, url])
    assert (located(place), credentials_of(place)) == ("s3://archive/", "s3_anonymous_credentials()")
    assert located(url) == "s3://archive/%C3%A4 b%25/c.nc"
