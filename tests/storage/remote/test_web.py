"""What a user names on a web server is read as if it were here, and an untrusted file leads nowhere else."""

from __future__ import annotations

import gc
import os
import socket
from pathlib import Path
from typing import Any

import netCDF4
import numpy as np
import pytest
import xarray as xr

import cfagg
from cfagg.demo import sample
from cfagg.errors import (
    AccessError,
    FragmentMismatchError,
    FragmentNotFoundError,
    FragmentReadError,
    SourceError,
    StaleError,
    UnsupportedError,
)
from cfagg.storage.handles import handles
from cfagg.storage.places import make_source
from tests import nca_files
from tests.aggregation.months import month, months
from tests.cli.test_show import aggregation_file
from tests.formats.pp.making import field
from tests.formats.pp.test_dataset import INSTANT
from tests.observations.servers import Page, served

SAMPLES = Path(sample("sst.nca")).parent


@pytest.fixture
def server():
    with served(SAMPLES) as made:
        yield made


@pytest.mark.parametrize("name", ["temperature.nca", "temperature2.nca", "packed.nca", "storms.nc", "profiles.nc"])
def test_a_file_on_a_web_server_is_what_it_is_here(server, name) -> None:
    there = cfagg.read(f"{server.url}/{name}").load()
    xr.testing.assert_identical(there, cfagg.read(SAMPLES / name).load())
    assert str(cfagg.show(f"{server.url}/{name}")).replace(f"{server.url}/{name}", "") == str(
        cfagg.show(SAMPLES / name)
    ).replace(str(SAMPLES / name), "")


@pytest.mark.parametrize("name", ["air_temp.pp", "umfile.pp", "wgdos_73x96_le.pp", "extra_data.pp"])
def test_a_pp_file_on_a_web_server_is_what_it_is_here(server, name) -> None:
    there = cfagg.read(f"{server.url}/pp/{name}")
    xr.testing.assert_identical(there.load(), cfagg.read(SAMPLES / "pp" / name).load())
    codes = [f.code for f in cfagg.check(SAMPLES / "pp" / name).findings]
    assert [f.code for f in cfagg.check(f"{server.url}/pp/{name}").findings] == codes


def test_files_of_a_server_that_does_not_tell_their_state_are_scanned_again(tmp_path) -> None:
    months(tmp_path / "in", 3)
    with served(tmp_path / "in") as server:
        files = [f"{server.url}/m{n}.nc" for n in range(3)]
        cfagg.aggregate(files[:2], output=tmp_path / "OUT.nc")
        month(tmp_path / "in" / "m0.nc", 9)
        handles.shrink(0)
        found = cfagg.aggregate(files[2:], output=tmp_path / "OUT.nc", append=True, allow=[server.url])
        assert found.tas[:, 0, 0].values.tolist() == [100, 106, 200, 206, 900, 906]
        (note,) = found.cfagg.report.notes
        assert note == "2 files were scanned again: their server does not tell whether they have changed"
        month(tmp_path / "in" / "m1.nc", 9, days=5)
        with pytest.raises(SourceError, match="update=True"):
            cfagg.aggregate(files, output=tmp_path / "OUT.nc", append=True, allow=[server.url])


def test_values_of_a_file_that_changed_since_it_was_scanned_are_refused(tmp_path) -> None:
    for path in months(tmp_path, 5):
        os.utime(path, (10**9, 10**9))
    with served(tmp_path) as server:
        server.dated = True
        found = cfagg.aggregate([f"{server.url}/m{n}.nc" for n in range(5)])
        assert found.tas[:, 0, 0].values.tolist() == [0, 6, 100, 106, 200, 206, 300, 306, 400, 406]
        month(tmp_path / "m1.nc", 9)
        handles.shrink(0)
        with pytest.raises(FragmentMismatchError, match=r"m1\.nc has changed since it was scanned"):
            found.tas.load()


def test_references_to_a_file_that_changed_or_went_since_it_was_scanned_are_not_written(tmp_path) -> None:
    for path in months(tmp_path, 3):
        os.utime(path, (10**9, 10**9))
    with served(tmp_path) as server:
        server.dated = True
        found = cfagg.aggregate([f"{server.url}/m{n}.nc" for n in range(3)])
        server.seen.clear()
        cfagg.write(found, tmp_path / "OUT.nc")
        assert asked(server) == [1, 1, 1]
        month(tmp_path / "m1.nc", 9)
        with pytest.raises(FragmentMismatchError, match=r"m1\.nc has changed since it was scanned"):
            cfagg.write(found, tmp_path / "OUT.nc", overwrite=True)
        (tmp_path / "m1.nc").unlink()
        with pytest.raises(FragmentNotFoundError, match=r"there is no file .*m1\.nc; aggregate the files again"):
            cfagg.write(found, tmp_path / "OUT.nc", overwrite=True)


def test_partitions_on_a_web_server_are_fields_of_pp_files(tmp_path) -> None:
    (tmp_path / "a.pp").write_bytes(b"".join(field(np.arange(6) + 10 * n) for n in range(500)))
    places = [{"file": "a.pp", "file_offset": 296 * n} for n in (499, 3)]
    content = nca_files.array(
        ["t", "y", "x"],
        [[0, 1, 2], [0, 2], [0, 3]],
        lambda i, _: {"data": {"shape": [1, 2, 3], **places[i[0]]}, "format": "PP"},
    )
    nca_files.aggregation(tmp_path / "x.nca", "tas", "f4", {"t": 2, "y": 2, "x": 3}, content)
    with served(tmp_path) as server:
        found = cfagg.read(f"{server.url}/x.nca").tas.values
    assert found[:, 0, 0].tolist() == [4990, 30]


def asked(server: Any) -> list[int]:
    """Return how many bytes each request was for."""
    ends = [headers["range"].removeprefix("bytes=").split("-") for _, _, headers in server.seen]
    return [int(last) - int(first) + 1 for first, last in ends]


@pytest.mark.parametrize(("count", "rows", "most"), [(2000, 2, 1), (8, 400, 8)])
def test_headers_of_a_pp_file_take_a_request_for_each_field_or_for_many_that_are_small(
    tmp_path, count, rows, most
) -> None:
    when = [{"LBMON": 1 + n // 28 % 12, "LBDAT": 1 + n % 28, "LBYR": 1900 + n // 336} for n in range(count)]
    fields = [field(np.full(rows * 200, n), **INSTANT | t | {"LBROW": rows, "LBNPT": 200}) for n, t in enumerate(when)]
    (tmp_path / "a.pp").write_bytes(b"".join(fields))
    size = (tmp_path / "a.pp").stat().st_size
    with served(tmp_path) as server:
        tas = cfagg.read(f"{server.url}/a.pp").air_temperature
        assert tas.sizes["time"] == count
        # Where HDF5 might begin behind a user block is looked at once, and the file is opened anew twice.
        assert len(server.seen) <= most + 3 + size.bit_length() - 9
        server.seen.clear()
        assert (tas[count // 2] == count // 2).all()
        assert sum(asked(server)) <= max(rows * 200 * 4, 1 << 16)
        for verb in (cfagg.show, cfagg.check):
            server.seen.clear()
            verb(f"{server.url}/a.pp")
            assert len(server.seen) <= most + 3 + size.bit_length() - 9


def test_an_aggregation_of_a_pp_file_on_a_web_server_refers_to_its_fields(server, tmp_path) -> None:
    report = cfagg.convert(f"{server.url}/pp/umfile.pp", tmp_path / "a.nca")
    assert (report.fragments, report.losses) == (0, ())
    found = cfagg.open_aggregation(tmp_path / "a.nca", "surface_air_pressure")
    assert found.partitions.files[:] == [f"{server.url}/pp/umfile.pp"]
    here = cfagg.read(SAMPLES / "pp" / "umfile.pp").surface_air_pressure
    with pytest.raises(AccessError, match="pass allow="):
        cfagg.read(tmp_path / "a.nca").surface_air_pressure.load()
    there = cfagg.read(tmp_path / "a.nca", allow=[server.url]).surface_air_pressure
    np.testing.assert_array_equal(there, here)


def test_a_pp_file_that_is_replaced_while_it_is_read_is_an_error(tmp_path) -> None:
    fields = [field([n] * 60_000, **INSTANT | {"LBDAT": 1 + n, "LBROW": 200, "LBNPT": 300}) for n in range(4)]
    (tmp_path / "a.pp").write_bytes(b"".join(fields))
    with served(tmp_path) as server:
        server.dated = True
        found = cfagg.read(f"{server.url}/a.pp").air_temperature
        (tmp_path / "a.pp").write_bytes(b"".join(fields[::-1]))
        os.utime(tmp_path / "a.pp", (1e9, 1e9))
        with pytest.raises((StaleError, FragmentReadError), match="written"):
            found.load()


def test_strings_and_types_of_their_own_are_read_or_left_out_by_name(tmp_path) -> None:
    with netCDF4.Dataset(tmp_path / "a.nc", "w") as file:
        file.createDimension("x", 3)
        file.createVariable("s", str, ("x",))[:] = np.array(["a", "bé", ""], object)
        file.createVariable("v", "i2", ("x",))[:] = [1, 2, 3]
    with served(tmp_path) as server:
        xr.testing.assert_identical(cfagg.read(f"{server.url}/a.nc").load(), cfagg.read(tmp_path / "a.nc").load())


def test_a_large_array_is_read_by_the_bytes_of_its_selection(tmp_path) -> None:
    with netCDF4.Dataset(tmp_path / "a.nc", "w", format="NETCDF3_64BIT_OFFSET") as file:
        file.createDimension("x", 1_000_000)
        file.createVariable("v", "f8", ("x",))[:] = np.arange(1_000_000)
    with served(tmp_path) as server:
        found = cfagg.read(f"{server.url}/a.nc")
        assert found.v[500_000:500_010].values.tolist() == list(range(500_000, 500_010))
        ends = [headers["range"].removeprefix("bytes=").split("-") for _, _, headers in server.seen]
        assert sum(int(b) - int(a) + 1 for a, b in ends) < 300_000


def test_partitions_that_are_not_there_are_missing_or_filled(tmp_path) -> None:
    aggregation_file(tmp_path / "x.nca", ["absent.nc"])
    with served(tmp_path) as server:
        name = next(iter(cfagg.read(f"{server.url}/x.nca").data_vars))
        with pytest.raises(FragmentNotFoundError, match=r"absent\.nc"):
            cfagg.read(f"{server.url}/x.nca")[name].load()
        assert cfagg.read(f"{server.url}/x.nca", missing="fill")[name].isnull().all()


@pytest.mark.parametrize("reference", ["/etc/passwd", "../x.nc", "http://127.0.0.1:9/x.nc", "file:///etc/passwd"])
def test_an_aggregation_on_a_web_server_leads_nowhere_else(tmp_path, reference) -> None:
    aggregation_file(tmp_path / "x.nca", [reference])
    with served(tmp_path) as server:
        found = cfagg.read(f"{server.url}/x.nca")
        with pytest.raises((AccessError, UnsupportedError)):
            found[next(iter(found.data_vars))].load()
        assert {path for _, path, _ in server.seen} == {"/x.nca", "/x.nca.cfagg-index"}


def test_an_aggregation_here_reads_from_a_web_server_that_is_allowed(tmp_path) -> None:
    with served(SAMPLES) as server:
        path = aggregation_file(tmp_path / "x.nca", [f"{server.url}/absent.nc"])
        found = cfagg.read(path)
        name = next(iter(found.data_vars))
        with pytest.raises(AccessError, match=rf"pass allow=\['{server.url}'\]"):
            found[name].load()
        assert not server.seen
        with pytest.raises(FragmentNotFoundError):
            cfagg.read(path, allow=[server.url])[name].load()
        assert server.seen


def test_what_an_untrusted_file_leads_to_is_no_address_of_this_network(server, monkeypatch) -> None:
    port = server.url.rpartition(":")[2]
    monkeypatch.setenv("no_proxy", "*")
    asked = socket.getaddrinfo

    def rebound(host: str, *rest: Any, **options: Any) -> Any:
        return asked("127.0.0.1" if host == "data.example.org" else host, *rest, **options)

    monkeypatch.setattr(socket, "getaddrinfo", rebound)
    url = f"http://data.example.org:{port}"
    with pytest.raises(AccessError, match=r"data\.example\.org is at the address 127\.0\.0\.1"):
        make_source(url, guarded=True).read("test1.nc")
    assert not server.seen
    assert make_source(url).read("test1.nc") == (SAMPLES / "test1.nc").read_bytes()


def test_a_redirect_to_a_name_that_stands_for_this_machine_is_refused_even_if_allowed(server, monkeypatch) -> None:
    port = server.url.rpartition(":")[2]
    monkeypatch.setenv("no_proxy", "*")
    asked = socket.getaddrinfo
    monkeypatch.setattr(
        socket, "getaddrinfo", lambda host, *rest, **o: asked("127.0.0.1" if "example" in host else host, *rest, **o)
    )
    server.rules = {"test1": [f"http://data.example.org:{port}/test2.nc"]}
    with pytest.raises(AccessError, match="this machine or its network"):
        make_source(server.url, allow=[f"http://data.example.org:{port}"]).read("test1.nc")


def test_an_error_that_passes_is_not_seen_and_one_that_stays_is_told(server, monkeypatch) -> None:
    from cfagg.storage import transport

    monkeypatch.setattr(transport.time, "sleep", lambda _: None)
    server.rules = {"test1": [Page(503), Page(500), "cut"]}
    xr.testing.assert_identical(cfagg.read(f"{server.url}/test1.nc").load(), cfagg.read(SAMPLES / "test1.nc").load())
    server.rules = {"test1": [Page(503)] * 9}
    with pytest.raises(SourceError, match="after 4 attempts: the server answers 503"):
        cfagg.read(f"{server.url}/test1.nc")


def test_a_store_that_was_written_anew_is_read_when_it_is_opened_again(tmp_path) -> None:
    import zarr

    with served(tmp_path) as server:
        server.dated = True
        for value in (1, 2):
            group = zarr.create_group(tmp_path / "a.zarr", zarr_format=3, overwrite=True)
            made = group.create_array("v", shape=(64,), chunks=(8,), shards=(64,), dtype="f8", dimension_names=("x",))
            made[:] = np.arange(64) * value + value
            for path in (tmp_path / "a.zarr").rglob("*"):
                os.utime(path, (value * 1e8, value * 1e8))
            with pytest.warns(UserWarning, match="Consolidated"):
                zarr.consolidate_metadata(str(tmp_path / "a.zarr"))
            assert cfagg.read(f"{server.url}/a.zarr").v[3] == 4 * value


@pytest.mark.parametrize("code", ["ExpiredToken", "TokenRefreshRequired"])
def test_credentials_that_have_expired_are_told_as_that(server, code) -> None:
    page = Page(400, f"<Error><Code>{code}</Code></Error>".encode())
    server.rules = {"b1": [page] * 9}
    options = {"endpoint": server.url, "access_key_id": "a", "secret_access_key": "b", "session_token": "c"}
    with pytest.raises(AccessError, match="credentials have expired; renew them"):
        cfagg.read("s3://b1/a.zarr", storage_options=options)


def test_a_file_of_equal_size_that_takes_the_place_of_another_is_an_error(tmp_path) -> None:
    with netCDF4.Dataset(tmp_path / "a.nc", "w", format="NETCDF3_CLASSIC") as file:
        file.createDimension("x", 100_000)
        file.createVariable("v", "f8", ("x",))[:] = 1
    with served(tmp_path) as server:
        server.dated = True
        found = cfagg.read(f"{server.url}/a.nc")
        os.utime(tmp_path / "a.nc", (1, 1))
        with pytest.raises(StaleError, match="written since"):
            found.v.load()


@pytest.mark.few(1)
@pytest.mark.parametrize("name", ["temperature.nca", "storms.nc", "a.zarr"])
def test_a_conversion_from_a_web_server_has_the_values_of_one_from_here(tmp_path, name) -> None:
    import shutil

    shutil.copytree(SAMPLES, tmp_path / "data", ignore=shutil.ignore_patterns("*.py", "sst"))
    cfagg.convert(SAMPLES / "test1.nc", tmp_path / "data" / "a.zarr")
    with served(tmp_path / "data") as server:
        report = cfagg.convert(f"{server.url}/{name}", tmp_path / "there.zarr", verify=True)
    cfagg.convert(tmp_path / "data" / name, tmp_path / "here.zarr")
    assert report.verified
    xr.testing.assert_identical(
        xr.open_zarr(tmp_path / "there.zarr", decode_cf=False).load(),
        xr.open_zarr(tmp_path / "here.zarr", decode_cf=False).load(),
    )


def test_functions_that_know_no_urls_yet_refuse_them_by_one_sentence_and_class(tmp_path) -> None:
    for call in (
        lambda: cfagg.accumulate("https://b1/a.zarr", "v"),
        lambda: cfagg.create_observations("s3://b1/a.zarr", tmp_path / "o"),
        lambda: cfagg.create_observations({}, "https://b1/a.zarr"),
    ):
        with pytest.raises(UnsupportedError, match=r"://b1/a\.\w+ is a URL, which cannot be .* yet; use a path"):
            call()


@pytest.mark.parametrize(
    ("told", "message"),
    [
        ("bytes 5-14/600", "gives their range as 'bytes 5-14/600'"),
        ("bytes 6-10/600", "sends those from 6"),
        ("5", "gives '5' as the range"),
    ],
)
def test_an_answer_that_contradicts_its_place_is_refused(server, told, message) -> None:
    server.rules = {"test1": [Page(206, b"12345", {"Content-Range": told})]}
    with pytest.raises(FragmentReadError, match=message):
        make_source(server.url).read_range("test1.nc", 5, 10)


def test_a_url_with_a_query_is_refused_without_repeating_it() -> None:
    with pytest.raises(SourceError, match="query") as caught:
        cfagg.read("https://example.org/a.nc?token=unlikely")
    assert "unlikely" not in str(caught.value)


def test_a_check_takes_the_same_options(server) -> None:
    options = {"headers": {"Authorization": "Bearer an unlikely secret"}}
    report = cfagg.check(f"{server.url}/test1.nc", storage_options=options)
    assert "unlikely" not in str(report)
    assert {headers["authorization"] for _, _, headers in server.seen} == {"Bearer an unlikely secret"}


def test_a_source_that_is_dropped_closes_its_connections(server, recwarn) -> None:
    gc.collect()  # what other tests left
    recwarn.clear()
    for wrap in (lambda made: made, lambda made: {"circle": made}):
        held = wrap(make_source(server.url))
        store = held if not isinstance(held, dict) else held["circle"]
        if isinstance(held, dict):
            held["itself"] = held
        assert store.read_range("test1.nc", 0, 4)
        del held, store
        gc.collect()
    assert [str(w.message) for w in recwarn if issubclass(w.category, ResourceWarning)] == []
