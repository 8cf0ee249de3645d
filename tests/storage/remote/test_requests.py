"""How often servers are asked: nothing twice while something is opened, and for values what they are stored in."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import xarray as xr
import zarr

import cfagg
from cfagg.accumulation import source
from cfagg.demo import sample
from cfagg.errors import UnsupportedError
from tests.observations.servers import Page, Server, served
from tests.storage.remote.conftest import google_token
from tests.storage.remote.google import Google


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


def test_of_an_aggregation_the_head_is_asked_for_once_and_of_fragments_what_is_read(server: Server) -> None:
    dataset = cfagg.read(f"{server.url}/temperature.nca")
    assert set(asked(server).values()) == {1}
    dataset.tas[0, 0, 0].load()
    assert [what for what, _ in asked(server).elements()] == ["GET /test1.nc"]
    dataset.tas[0, 0, 1].load()
    assert not asked(server)


def test_a_page_in_place_of_data_is_called_one(server: Server) -> None:
    page = Page(200, headers={"Content-Type": "text/html; charset=utf-8"})
    server.rules = {"": [page] * 9}
    with pytest.raises(UnsupportedError, match=r"sends a page \(text/html\), perhaps to log in"):
        cfagg.read(f"{server.url}/temperature.nca")
