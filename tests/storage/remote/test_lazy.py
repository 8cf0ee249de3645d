"""Lazy arrays of object stores, and stores that are written there."""

from __future__ import annotations

import pickle
import re
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import dask.array as da
import numpy as np
import pytest
import xarray as xr
import zarr
from obstore.store import S3Store
from zarr.storage import ObjectStore

import cfagg
from cfagg.errors import CfaggWarning, StaleError, TargetError, TargetExistsError
from cfagg.storage.transport import Transport
from tests.storage.remote.conftest import Bucket, Nginx, google_token
from tests.storage.remote.google import Google

VALUES = np.arange(23 * 3.0).reshape(23, 3)


@pytest.fixture
def source(tmp_path: Path, keyed: Bucket) -> str:
    store, dims = str(tmp_path / "a.zarr"), ("t", "x")
    zarr.create_array(store, name="tas", data=VALUES, chunks=(10, 2), attributes={"units": "K"}, dimension_names=dims)
    return keyed.put(tmp_path / "a.zarr", f"lazy/{tmp_path.name}")


def test_an_array_of_an_object_store_is_read_pickled_and_cut(source: str) -> None:
    found = cfagg.open_array(source, "tas")
    assert found.chunks == ((10, 10, 3), (2, 1))
    assert np.array_equal(found[[22, 0], ::-1], VALUES[[22, 0], ::-1])
    assert np.array_equal(pickle.loads(pickle.dumps(found))[5], VALUES[5])
    assert np.array_equal(found.to_dask().compute(scheduler="synchronous"), VALUES)


def test_single_elements_of_several_chunks_are_requested_at_the_same_time(
    source: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = cfagg.open_array(source, "tas")
    ask, together = Transport.ask, threading.Barrier(6, timeout=20)

    def all_at_once(*args: Any, **options: Any) -> Any:
        together.wait()
        return ask(*args, **options)

    monkeypatch.setattr(Transport, "ask", all_at_once)
    places = [0, 0, 12, 12, 22, 22], [0, 2, 1, 2, 0, 2]
    assert np.array_equal(found[places], VALUES[places])


def test_chunks_go_from_one_object_store_into_another_as_they_are(source: str, keyed: Bucket, tmp_path: Path) -> None:
    here = cfagg.open_array(tmp_path / "a.zarr", "tas")
    array = cfagg.concatenate([cfagg.open_array(source, "tas"), here])
    target = f"s3://{keyed.name}/lazy/{tmp_path.name}/out.zarr"
    report = cfagg.write(array, target)
    assert (report.chunks, report.copied) == (12, 10)
    assert np.array_equal(cfagg.open_array(target, "tas")[...], np.concatenate([VALUES] * 2))
    prefix = f"lazy/{tmp_path.name}"
    stored = keyed.client.get_object(Bucket=keyed.name, Key=f"{prefix}/out.zarr/tas/c/0/1")["Body"].read()
    assert stored == (tmp_path / "a.zarr/tas/c/0/1").read_bytes()
    with pytest.raises(TargetExistsError):
        cfagg.write(array, target)
    cfagg.write(array, tmp_path / "here.zarr")
    assert np.array_equal(cfagg.open_array(tmp_path / "here.zarr", "tas")[...], np.concatenate([VALUES] * 2))


def test_a_source_is_not_removed_by_what_is_made_of_it(source: str) -> None:
    array = cfagg.open_array(source, "tas")
    with pytest.raises(TargetError, match="would be replaced"):
        cfagg.write(cfagg.concatenate([array, array]), source, overwrite=True)
    with pytest.raises(TargetError, match="would be replaced"):
        cfagg.write(cfagg.read(source), source, overwrite=True)
    assert np.array_equal(array[...], VALUES)


def test_no_source_is_removed_whatever_reads_it(source: str, keyed: Bucket, tmp_path: Path) -> None:
    prefix = f"lazy/{tmp_path.name}/a.zarr"
    stored = keyed.keys(prefix)
    store = S3Store(keyed.name, prefix=prefix, config=keyed.options, client_options={"allow_http": True})
    theirs = zarr.open_array(ObjectStore(store), path="tas", mode="r")
    opened = cfagg.read(source)
    given: list[Any] = [
        da.from_array(theirs, chunks=(10, 2)) + 1,  # which no attribute says the source of
        {"tas": da.from_array(theirs, chunks=(10, 2))},
        xr.Dataset({"tas": opened.tas.variable}),
        cfagg.read(source, chunks={}) + 1,
        cfagg.concatenate([theirs, theirs]),
        cfagg.concatenate([cfagg.open_array(source, "tas").to_dask() + 1]),
    ]
    for what in given:
        with pytest.raises(TargetError, match="are read from it"):
            cfagg.write(what, source, overwrite=True)
        assert keyed.keys(prefix) == stored
    with pytest.raises(TargetError, match="are read from it"):
        cfagg.write(given[0], f"s3://{keyed.name}/lazy/{tmp_path.name}", overwrite=True)
    with pytest.warns(CfaggWarning, match="is removed before"):
        cfagg.write(opened.load() + 1, source, overwrite=True)
    assert np.array_equal(cfagg.open_array(source, "tas")[...], VALUES + 1)


def test_a_source_that_is_gone_is_no_fill_value(source: str, keyed: Bucket, tmp_path: Path) -> None:
    array = cfagg.open_array(source, "tas")
    for key in keyed.keys(f"lazy/{tmp_path.name}/a.zarr"):
        keyed.client.delete_object(Bucket=keyed.name, Key=key)
    with pytest.raises(StaleError):
        cfagg.write(array, tmp_path / "b.zarr")
    assert not (tmp_path / "b.zarr").exists()


def test_datasets_are_written_into_object_stores(keyed: Bucket, tmp_path: Path) -> None:
    target = f"s3://{keyed.name}/lazy/{tmp_path.name}/ds.zarr"
    ds = xr.Dataset({"v": (("t", "x"), da.from_array(VALUES, chunks=((3, 20), 3))), "n": ("t", np.arange(23))})
    report = cfagg.write(ds, target)
    assert report.chunks == 3
    found = cfagg.read(target, chunks={})
    assert found.v.chunks == ((3, 20), (3,))
    xr.testing.assert_equal(found.load(), ds.load())
    with pytest.warns(CfaggWarning, match="is removed before"):
        cfagg.write(ds[["n"]], target, overwrite=True)
    assert list(cfagg.read(target)) == ["n"]


def test_arrays_of_a_web_server_are_read_and_their_chunks_are_copied(nginx: Nginx, tmp_path: Path) -> None:
    name = f"{tmp_path.name}.zarr"
    # A web server lists nothing, so that a store is known by the table of its metadata.
    ds = xr.Dataset({"tas": (("t", "x"), VALUES)})
    ds.to_zarr(nginx.data / name, encoding={"tas": {"chunks": (10, 2)}}, consolidated=True)
    found = cfagg.open_array(f"{nginx.url}/{name}", "tas")
    assert np.array_equal(found[[20, 3], ::2], VALUES[[20, 3], ::2])
    report = cfagg.write(cfagg.concatenate([found, found]), tmp_path / "a.zarr")
    assert (report.chunks, report.copied) == (12, 10)
    assert np.array_equal(cfagg.open_array(tmp_path / "a.zarr", "tas")[...], np.concatenate([VALUES] * 2))
    partitions = cfagg.open_array(f"{nginx.url}/temperature.nca", "tas")
    assert partitions.chunks == ((12, 36), (64,), (128,))


def hardly_stored(folder: Path) -> Any:
    array = zarr.create_array(str(folder / "s.zarr"), name="tas", shape=(280, 2), chunks=(1, 2), dtype="f4")
    array[7], array[279] = 1, [2, 3]
    return array


def test_of_chunks_that_are_hardly_ever_stored_a_listing_tells_which_are(google: Google, tmp_path: Path) -> None:
    array = hardly_stored(tmp_path)
    for path in (tmp_path / "s.zarr").rglob("*"):
        if path.is_file():
            google.put(path.relative_to(tmp_path).as_posix(), path.read_bytes())
    there = cfagg.open_array(
        "gs://bucket/s.zarr", "tas", storage_options={**google.options, "credentials": google_token}
    )
    google.seen.clear()
    assert cfagg.write(there, tmp_path / "c.zarr").copied == 2
    assert len(google.seen) < 10
    assert np.array_equal(zarr.open(str(tmp_path / "c.zarr"), mode="r")["tas"][:], array[:])  # type: ignore[index]


LISTINGS = {
    "may not": lambda text: None,
    "of something else": lambda text: re.sub(rb"<Contents>.*</Contents>", b"", text),
    "not whole": lambda text: re.sub(
        rb"<Contents>(?!.*<Contents>).*?</Contents>", b"", text.replace(b"Truncated>false", b"Truncated>true")
    ),
    "without sizes": lambda text: re.sub(rb"<Size>\d+</Size>", b"", text),
}


@pytest.mark.few(1)
@pytest.mark.parametrize("odd", LISTINGS)
def test_a_listing_that_cannot_be_believed_costs_time_and_no_chunk(
    keyed: Bucket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, odd: str
) -> None:
    array = hardly_stored(tmp_path)
    there = cfagg.open_array(keyed.put(tmp_path / "s.zarr", f"lazy/{tmp_path.name}"), "tas")
    ask, listings = Transport.ask, []

    def answer(self: Transport, method: str, url: str, query: str = "", **options: Any) -> Any:
        reply = ask(self, method, url, query, **options)
        if "list-type" not in query:
            return reply
        body = LISTINGS[odd](reply.body)
        listings.append(body)
        return replace(reply, status=403) if body is None else replace(reply, body=body)

    monkeypatch.setattr(Transport, "ask", answer)
    assert cfagg.write(there, tmp_path / "c.zarr").copied == 2
    assert listings
    assert listings[0] is None or b"<ListBucketResult" in listings[0]
    assert np.array_equal(zarr.open(str(tmp_path / "c.zarr"), mode="r")["tas"][:], array[:])  # type: ignore[index]
