"""How often servers are asked: nothing twice while something is opened, and for values what they are stored in."""

from __future__ import annotations

import asyncio
import shutil
import uuid
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr
import zarr
from zarr.core.buffer import default_buffer_prototype

import cfagg
from cfagg.accumulation import accumulating, extending, source
from cfagg.demo import sample
from cfagg.errors import SourceNotFoundError, StaleAccumulationWarning, StaleError, UnsupportedError
from cfagg.storage import recent
from cfagg.storage.transport import Transport
from cfagg.writing.zarr import object_place
from tests.observations.servers import Page, Server, served
from tests.storage.remote.conftest import Bucket, google_token
from tests.storage.remote.google import Google

DOCS = Path(__file__).parents[3] / "docs/remote.md"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    """A web server with a store with consolidated metadata, and with an aggregation file."""
    values = {"tas": (("time", "x"), np.arange(80.0).reshape(20, 4)), "time": np.arange(20)}
    xr.Dataset(values).to_zarr(tmp_path / "a.zarr", encoding={"tas": {"chunks": (5, 4)}}, zarr_format=2)
    for path in sample("temperature.nca").parent.glob("*.nc*"):
        shutil.copy(path, tmp_path)
    with served(tmp_path) as made:
        yield made


def asked(server: Server | Google) -> Counter[tuple[str, str]]:
    """Return what a server was asked for since this was asked last."""
    found = Counter((f"{method} {path}", headers.get("range", "")) for method, path, headers in server.seen)
    server.seen.clear()
    return found


def test_of_a_store_each_document_is_asked_for_once_and_each_chunk_that_is_read(server: Server) -> None:
    dataset = cfagg.read(f"{server.url}/a.zarr", decode_times=False)
    opened = asked(server)
    assert {n for (what, _), n in opened.items() if ".z" in what} == {1}
    dataset.tas[7, 2].load()
    assert [what for what, _ in asked(server)] == ["GET /a.zarr/tas/1.0"]
    dataset.tas[3:12].load()
    assert sorted(what for what, _ in asked(server).elements()) == [f"GET /a.zarr/tas/{n}.0" for n in range(3)]


def test_a_lazy_array_asks_once_for_each_document(server: Server) -> None:
    array = cfagg.open_array(f"{server.url}/a.zarr", "tas")
    assert set(asked(server).values()) == {1}
    assert array[7, 2] == 30
    assert [what for what, _ in asked(server)] == ["GET /a.zarr/tas/1.0"]


def test_a_store_without_consolidated_metadata_is_listed_once(google: Google, tmp_path: Path) -> None:
    values = xr.Dataset({"tas": (("time", "x"), np.arange(80.0).reshape(20, 4)), "time": np.arange(20)})
    values.to_zarr(tmp_path / "a.zarr", encoding={"tas": {"chunks": (5, 4)}}, zarr_format=3, consolidated=False)
    for path in (tmp_path / "a.zarr").rglob("*"):
        if path.is_file():
            google.put(path.relative_to(tmp_path).as_posix(), path.read_bytes())
    options = {**google.options, "credentials": google_token}
    dataset = cfagg.read("gs://bucket/a.zarr", decode_times=False, storage_options=options)
    opened = asked(google)
    assert {n for (what, _), n in opened.items() if "%2Fc%2F" not in what} == {1}
    assert sum("list-type" in what for what, _ in opened) == 1
    # What is there is asked for anew by whoever opens it again.
    google.put("a.zarr/tas/zarr.json", google.objects["a.zarr/tas/zarr.json"].body.replace(b"}", b" }", 1))
    cfagg.read("gs://bucket/a.zarr", decode_times=False, storage_options=options)
    assert {n for (what, _), n in asked(google).items() if what.endswith("json")} == {1}
    np.testing.assert_array_equal(dataset.tas, values.tas)


@pytest.mark.parametrize("consolidated", [True, False])
def test_labels_are_read_once_and_no_document_of_another_format(google: Google, tmp_path: Path, consolidated) -> None:
    times = xr.date_range("2001-01-01", periods=20)
    made = xr.Dataset({"tas": (("time", "x"), np.arange(80.0).reshape(20, 4))}, {"time": times, "x": np.arange(4)})
    made.to_zarr(tmp_path / "a.zarr", zarr_format=3, consolidated=consolidated)
    for path in (tmp_path / "a.zarr").rglob("*"):
        if path.is_file():
            google.put(path.relative_to(tmp_path).as_posix(), path.read_bytes())
    options = {**google.options, "credentials": google_token}
    dataset = cfagg.read("gs://bucket/a.zarr", storage_options=options)
    opened = asked(google)
    assert {n for what, n in opened.items() if "list-type" not in what[0]} == {1}
    assert not any(what.endswith((".zgroup", ".zattrs", ".zarray", ".zmetadata")) for what, _ in opened)
    xr.testing.assert_identical(dataset.time.load(), made.time.assign_attrs(dataset.time.attrs))
    assert dataset.indexes["time"].equals(made.indexes["time"])
    assert not asked(google)
    # What is opened later is what is there then.
    key = "a.zarr/time/c/0"
    values = np.frombuffer(zarr.open_group(str(tmp_path / "a.zarr"), mode="r")["time"][:].tobytes(), "<i8")
    zarr.open_group(str(tmp_path / "a.zarr"), mode="r+")["time"][:] = values[::-1]
    google.put(key, (tmp_path / key).read_bytes())
    again = cfagg.read("gs://bucket/a.zarr", storage_options=options)
    np.testing.assert_array_equal(again.time, made.time[::-1])


def test_an_accumulation_asks_once_for_each_document_for_itself_and_once_for_its_proof(
    google: Google, tmp_path: Path, monkeypatch
) -> None:
    monkeypatch.setattr(source, "_COARSE_TICK", 0.0)
    made = zarr.create_group(str(tmp_path / "a.zarr"))
    made.create_array("tas", data=np.ones((20, 2)), chunks=(4, 2), dimension_names=("time", "x"))
    made.create_array("time", data=np.arange(20.0), chunks=(20,), dimension_names=("time",))
    for path in (tmp_path / "a.zarr").rglob("*"):
        if path.is_file():
            google.put(path.relative_to(tmp_path).as_posix(), path.read_bytes())
    options = {**google.options, "credentials": google_token}
    cfagg.accumulate("gs://bucket/a.zarr", "tas", dims=["time"], statistics=None, storage_options=options)
    asked(google)
    there = cfagg.open_accumulated("gs://bucket/a.zarr", "tas", storage_options=options)
    # To open it with its labels, and for the proof that these belong to the data.
    assert max(asked(google).values()) <= 2
    there.mean("time")
    first = asked(google)
    there.mean("time")
    proof = asked(google)
    assert max(proof.values()) == 1
    assert sum(proof.values()) <= sum(first.values())
    assert sum("HEAD" in what and "tas" in what for what, _ in proof) == 5  # one for each chunk of the range


@pytest.fixture
def sent(monkeypatch) -> Counter[str]:
    """What is asked of S3, by method."""
    found, ask = Counter[str](), Transport.ask

    def counted(self, method, url, *args, **options):
        found[method] += 1
        found[f"{method} {url.rpartition('/')[2]}"] += 1
        return ask(self, method, url, *args, **options)

    monkeypatch.setattr(Transport, "ask", counted)
    return found


def growing(bucket: Bucket, folder: Path, *, sums: bool, width: int = 40) -> str:
    """Return the URL of a store that was appended to before, so that its accumulation grows in place."""
    made = zarr.create_group(str(folder / "a.zarr"))
    made.create_array("tas", data=np.ones((6, width)), chunks=(4, 4), dimension_names=("time", "x"))
    made.create_array("time", data=np.arange(6.0), chunks=(100,), dimension_names=("time",))
    zarr.consolidate_metadata(made.store)
    url = bucket.put(folder / "a.zarr", uuid.uuid4().hex)
    if sums:
        cfagg.accumulate(url, "tas", dims=["time"])
    step(url, 6, width)
    return url


def step(url: str, at: int, width: int = 40, **options: Any) -> Any:
    return cfagg.append(url, {"tas": np.full((1, width), float(at)), "time": [float(at)]}, "time", **options)


@pytest.mark.filterwarnings("ignore:Consolidated metadata")
@pytest.mark.usefixtures("no_waits")
@pytest.mark.parametrize(
    ("width", "sums", "writes", "reads"), [(4, False, 8, 6), (4, True, 21, 20), (40, True, 30, 38)]
)
def test_a_step_is_appended_with_one_look_at_what_the_call_did_not_write_itself(
    keyed: Bucket, tmp_path: Path, sent, monkeypatch, width, sums, writes, reads
) -> None:
    url = growing(keyed, tmp_path, sums=sums, width=width)
    sent.clear()
    report = step(url, 7, width)
    found = sent["PUT"] + sent["DELETE"], sent["GET"] + sent["HEAD"]
    assert found == (writes, reads)
    assert width > 4 or f"{writes + reads}, of which {writes} write" in DOCS.read_text()
    assert report.target.recent is None
    monkeypatch.setattr(object_place, "BELIEVED", 1.5)  # in a call that takes longer the claim is renewed, not read
    step(url, 8, width)
    assert not sent["GET .cfagg-append"]
    expected = [*[1.0] * 6, 6.0, 7.0, 8.0]
    assert cfagg.open_array(url, "tas")[:, 0].tolist() == expected
    if sums:
        np.testing.assert_allclose(cfagg.open_accumulated(url, "tas").mean("time"), np.full(width, np.mean(expected)))


def overtaken(monkeypatch, owner: Any, name: str, work: Any) -> None:
    """Let somebody else do something once, just before a function is called."""
    real = getattr(owner, name)

    def call(*args, **options):
        monkeypatch.setattr(owner, name, real)
        work()
        return real(*args, **options)

    monkeypatch.setattr(owner, name, call)


@pytest.mark.filterwarnings("ignore:Consolidated metadata")
@pytest.mark.usefixtures("no_waits")
@pytest.mark.parametrize("kept", [1 << 26, 0])
@pytest.mark.parametrize("when", ["before", "after"])
def test_what_others_write_meanwhile_is_never_taken_for_what_the_call_wrote(
    keyed: Bucket, tmp_path: Path, monkeypatch, kept, when
) -> None:
    monkeypatch.setattr(recent, "_BYTES", kept)
    url = growing(keyed, tmp_path, sums=True)
    prefix = url.removeprefix(f"s3://{keyed.name}/")

    def write() -> None:
        chunk = zarr.create_array({}, shape=(4, 4), chunks=(4, 4), dtype="f8")
        chunk[:] = 9
        data = asyncio.run(chunk.store.get("c/0/0", default_buffer_prototype())).to_bytes()
        keyed.client.put_object(Bucket=keyed.name, Key=f"{prefix}/tas/c/1/3", Body=data)

    overtaken(
        monkeypatch, *((accumulating, "open_group") if when == "before" else (extending.Extension, "unchanged")), write
    )
    if when == "after" and not kept:
        with pytest.warns(StaleAccumulationWarning, match="chunks were written while it was accumulated"):
            step(url, 7)
    else:
        step(url, 7)
    if when == "before":
        expected = cfagg.open_array(url, "tas")[...].mean(0)
        np.testing.assert_allclose(cfagg.open_accumulated(url, "tas").mean("time"), expected)
    else:
        with pytest.raises(StaleError):
            cfagg.open_accumulated(url, "tas").mean("time")


@pytest.mark.filterwarnings("ignore:Consolidated metadata")
@pytest.mark.usefixtures("no_waits")
@pytest.mark.parametrize("name", ["tas", "time"])
def test_documents_that_others_write_meanwhile_are_seen(keyed: Bucket, tmp_path: Path, monkeypatch, name) -> None:
    url = growing(keyed, tmp_path, sums=True)
    key = f"{url.removeprefix(f's3://{keyed.name}/')}/{name}/zarr.json"

    def write() -> None:
        text = keyed.client.get_object(Bucket=keyed.name, Key=key)["Body"].read()
        text = text.replace(b'"attributes": {}', b'"attributes": {"units": "K"}')
        keyed.client.put_object(Bucket=keyed.name, Key=key, Body=text)

    overtaken(monkeypatch, extending.Extension, "unchanged", write)
    with pytest.warns(StaleAccumulationWarning, match="written"):
        step(url, 7)


@pytest.mark.filterwarnings("ignore:Consolidated metadata")
@pytest.mark.usefixtures("no_waits")
def test_functions_that_run_after_an_append_look_for_themselves(keyed: Bucket, tmp_path: Path) -> None:
    url, found = growing(keyed, tmp_path, sums=False), []
    step(url, 7, after=[lambda store, _: found.append((store, store.recent))])
    assert found == [(url, None)]


def test_of_an_aggregation_the_head_is_asked_for_once_and_of_fragments_what_is_read(server: Server) -> None:
    dataset = cfagg.read(f"{server.url}/temperature.nca")
    assert set(asked(server).values()) == {1}
    dataset.tas[0, 0, 0].load()
    assert [what for what, _ in asked(server).elements()] == ["GET /test1.nc"]
    dataset.tas[0, 0, 1].load()
    assert not asked(server)


def test_of_several_files_no_index_is_asked_for_under_their_common_name(server: Server) -> None:
    urls = [f"{server.url}/test{n}.nc" for n in (1, 2)]
    cfagg.read(urls, allow=[server.url]).load()
    assert {what for what, _ in asked(server)} == {"GET /test1.nc", "GET /test2.nc"}


def test_a_page_in_place_of_data_is_called_one(server: Server) -> None:
    page = Page(200, headers={"Content-Type": "text/html; charset=utf-8"})
    server.rules = {"": [page] * 9}
    with pytest.raises(UnsupportedError, match=r"sends an HTML page, perhaps a login page"):
        cfagg.read(f"{server.url}/temperature.nca")
    server.rules = {
        r"temperature\.nca$": [Page(200, b"<!DOCTYPE html><p>Log in</p>")] * 9
    }  # as small as of a directory
    with pytest.raises(SourceNotFoundError, match="check the address, and in a browser whether a login page is sent"):
        cfagg.read(f"{server.url}/temperature.nca")


def test_a_page_as_long_as_a_chunk_is_no_chunk(server: Server, tmp_path: Path) -> None:
    zarr.create_array(tmp_path / "b.zarr", name="a", data=np.arange(100, dtype="u1"), chunks=(50,), compressors=None)
    page = b"\n<!DOCTYPE html><p>Please log in.</p></html>".ljust(50)
    for status, headers in ((200, {}), (206, {"Content-Range": "bytes 0-49/50"})):
        server.rules = {"/c/1$": [Page(status, page, {"Content-Type": "text/html", **headers})] * 9}
        array = cfagg.open_array(f"{server.url}/b.zarr", "a")
        assert array[:50].tolist() == list(range(50))
        with pytest.raises(UnsupportedError, match=r"b\.zarr/a/c/1: the server sends an HTML page"):
            array[:]
