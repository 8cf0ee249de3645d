"""Reading many chunks of Zarr arrays on other machines: the values of NumPy, by few requests, each of one state."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr
import zarr.codecs as zc

import cfagg
from cfagg.arrays.chunked import ZarrReader
from cfagg.arrays.opening import open_reader
from cfagg.formats.zarr import open_array
from cfagg.storage.urls import a_place
from tests.observations.servers import Server, served

SELECTIONS: list[Any] = [
    [slice(None), slice(None)],
    [slice(None, None, -3), np.array([5, 0, 0, 17])],
    [3, np.arange(20) % 3 == 0],
    [slice(2, 2), slice(None)],
]


@pytest.fixture
def server(tmp_path: Path) -> Any:
    with served(tmp_path) as found:
        found.dated = True
        yield found


def values() -> np.ndarray[Any, Any]:
    return np.random.default_rng(3).integers(0, 99, (30, 20)).astype("f4")


def store(folder: Path, name: str, **more: Any) -> np.ndarray[Any, Any]:
    """Write an array, of which some chunks are not stored."""
    found = values()
    found[10:15] = 7
    group = zarr.open_group(folder / "s.zarr", zarr_format=more.pop("zarr_format", 3))
    made = group.create_array(name, shape=(30, 20), dtype="f4", fill_value=7, **more)
    zarr.consolidate_metadata(folder / "s.zarr")
    made[:10], made[15:] = found[:10], found[15:]
    return found


def reader(server: Server, name: str) -> ZarrReader:
    found = open_reader(f"{server.url}/s.zarr", name)
    assert type(found) is ZarrReader
    return found


@pytest.mark.few(5)
@pytest.mark.parametrize("selection", SELECTIONS, ids=["all", "turned", "one row", "none"])
@pytest.mark.parametrize(
    "more",
    [
        {"chunks": (5, 7)},
        {"chunks": (5, 7), "compressors": None, "zarr_format": 2},
        {"chunks": (5, 4), "shards": (10, 20)},
        {"chunks": (5, 4), "shards": {"shape": (10, 20), "index_location": "start"}},
    ],
    ids=["v3", "v2", "shards", "index first"],
)
@pytest.mark.filterwarnings("ignore:Consolidated metadata")
def test_any_selection_is_that_of_numpy(tmp_path: Path, server: Server, more: dict[str, Any], selection: Any) -> None:
    expected = store(tmp_path, "x", **dict(more))
    found = reader(server, "x")
    picked = [np.atleast_1d(np.arange(n)[s]) for n, s in zip((30, 20), selection, strict=True)]
    wanted = expected[np.ix_(*picked)]
    wanted = wanted[0] if isinstance(selection[0], int) else wanted
    for _ in range(2):  # the second time where the shards are known
        np.testing.assert_array_equal(found.read(selection), wanted)


def test_close_chunks_of_a_shard_are_one_request_and_its_index_is_asked_for_once(tmp_path, server) -> None:
    rng = np.random.default_rng(0)
    data = rng.integers(0, 2**31, 100_000).astype("i4")
    zarr.create_array(tmp_path / "s.zarr", name="x", data=data, chunks=(1000,), shards=(100_000,), compressors=None)
    os.utime(tmp_path / "s.zarr/x/c/0", (10**9, 10**9))
    found = ZarrReader(open_array(a_place(f"{server.url}/s.zarr"), "x"))
    server.seen.clear()
    np.testing.assert_array_equal(found.read([slice(1000, 9000)]), data[1000:9000])
    assert len(server.seen) == 2
    np.testing.assert_array_equal(found.read([slice(21_500, 80_000, 7)]), data[21_500:80_000:7])
    assert len(server.seen) == 3
    places = np.array([90_500, 500, 40_500])
    np.testing.assert_array_equal(found.read([places]), data[places])
    assert len(server.seen) == 4


def test_a_shard_that_was_written_since_is_read_as_it_is_now(tmp_path, server) -> None:
    def write(data: np.ndarray[Any, Any]) -> None:
        zarr.create_array(tmp_path / "s.zarr", name="x", data=data, chunks=(10,), shards=(100,), overwrite=True)
        times.append(times[-1] + 10)
        os.utime(tmp_path / "s.zarr/x/c/0", (times[-1], times[-1]))

    times = [10**9]
    write(np.arange(100))
    found = ZarrReader(open_array(a_place(f"{server.url}/s.zarr"), "x"))
    assert found.read([slice(None)]).tolist() == list(range(100))
    write(np.arange(100)[::-1] * 12345)
    assert found.read([slice(None)]).tolist() == (np.arange(100)[::-1] * 12345).tolist()
    write(np.concatenate([np.zeros(50, int), np.arange(50)]))  # half of its chunks are not stored any more
    assert found.read([slice(0, 50)]).tolist() == [0] * 50


@pytest.mark.parametrize("dated", [False, True], ids=["never told", "within a second"])
def test_no_index_is_kept_of_a_shard_whose_state_is_not_told(tmp_path, server, dated) -> None:
    server.dated = dated
    made = zarr.create_array(
        tmp_path / "s.zarr", name="x", shape=(4,), chunks=(2,), shards=(4,), dtype="i4", compressors=None
    )
    found = ZarrReader(open_array(a_place(f"{server.url}/s.zarr"), "x"))
    for values in ([1, 1, 0, 0], [0, 0, 2, 2], [3, 3, 0, 0]):  # as many bytes, other chunks
        made[:] = values
        now = time.time()
        os.utime(tmp_path / "s.zarr/x/c/0", (now, now))
        assert found.read([slice(None)]).tolist() == values
        assert [0 if (c := found.chunk((k,))) is None else c[0] for k in (0, 1)] == [values[0], values[2]]


def test_a_chunk_that_was_not_stored_is_asked_for_again(tmp_path, server) -> None:
    made = zarr.create_array(tmp_path / "s.zarr", name="x", shape=(4,), chunks=(2,), shards=(4,), dtype="i4")
    found = ZarrReader(open_array(a_place(f"{server.url}/s.zarr"), "x"))
    for when, values in enumerate(([0, 0, 7, 7], [5, 5, 7, 7], [6, 6, 7, 7])):
        made[:] = values
        os.utime(tmp_path / "s.zarr/x/c/0", (10**9 + when, 10**9 + when))
        assert found.read([slice(0, 2)]).tolist() == values[:2]
        assert found.read([slice(None)]).tolist() == values


def test_no_more_is_read_of_an_object_than_a_chunk_can_take(tmp_path, server) -> None:
    zarr.create_array(tmp_path / "s.zarr", name="x", data=np.arange(4), chunks=(2,))
    (tmp_path / "s.zarr/x/c/0").write_bytes(bytes(2**22))
    found = ZarrReader(open_array(a_place(f"{server.url}/s.zarr"), "x"))
    server.seen.clear()
    with pytest.raises(cfagg.errors.FragmentReadError, match=r"chunk \(0,\).*is stored in 4,194,304 bytes"):
        found.read([slice(None)])
    ranges = [headers["range"] for _, path, headers in server.seen if path.endswith("/c/0")]
    assert ranges == ["bytes=0-1048607"] * 2


def test_a_server_that_fails_is_not_waited_for_chunk_by_chunk(tmp_path, server, monkeypatch) -> None:
    monkeypatch.setattr("cfagg.storage.transport._ATTEMPTS", 1)
    zarr.create_array(tmp_path / "s.zarr", name="x", data=np.arange(64), chunks=(1,))
    found = ZarrReader(open_array(a_place(f"{server.url}/s.zarr"), "x"), workers=2)
    server.rules["/c/"] = [500] * 1000
    server.seen.clear()
    with pytest.raises(cfagg.errors.FragmentReadError, match=r"array 'x', chunk .*the server answers 500"):
        found.read([slice(None)])
    assert len(server.seen) <= 8


def test_requests_wait_for_each_other_no_more_than_they_must(tmp_path, server, monkeypatch) -> None:
    import threading

    data = np.arange(64)
    zarr.create_array(tmp_path / "s.zarr", name="x", data=data, chunks=(1,))
    found = ZarrReader(open_array(a_place(f"{server.url}/s.zarr"), "x"))
    answer, waiting, most, lock, enough = server.answer, [0], [0], threading.Lock(), threading.Event()

    def slow(request: Any) -> None:
        with lock:
            waiting[0] += 1
            most[0] = max(most[0], waiting[0])
            if waiting[0] == 8:
                enough.set()
        enough.wait(60)  # however slowly they come
        time.sleep(0.02)
        with lock:
            waiting[0] -= 1
        answer(request)

    monkeypatch.setattr(server, "answer", slow)
    assert found.read([slice(None)]).tolist() == data.tolist()
    assert 8 <= most[0] <= 16
    most[0] = 0
    found.workers = 2
    assert found.read([slice(None)]).tolist() == data.tolist()
    assert most[0] <= 2


def test_a_dataset_in_a_bucket_is_read_without_zarr_python(bucket, tmp_path, monkeypatch) -> None:
    import xarray as xr

    made = xr.Dataset({"v": (("t", "x"), values(), {"units": "K"})})
    made.to_zarr(tmp_path / "b.zarr", encoding={"v": {"chunks": (5, 10), "shards": (10, 20)}}, zarr_format=3)
    url = bucket.put(tmp_path / "b.zarr", "batches")
    monkeypatch.setattr(zarr.Array, "__getitem__", None)
    found = cfagg.read(url, storage_options=bucket.options)
    np.testing.assert_array_equal(found.v.isel(t=slice(None, None, -2)).values, made.v.values[::-2])


def test_a_damaged_chunk_elsewhere_is_named(tmp_path, server) -> None:
    store(tmp_path, "x", chunks=(5, 7), compressors=zc.ZstdCodec())
    (tmp_path / "s.zarr/x/c/1/1").write_bytes(b"nothing")
    with pytest.raises(cfagg.errors.FragmentReadError, match=r"array 'x', chunk \(1, 1\)"):
        reader(server, "x").read([slice(None), slice(None)])


def test_a_shard_in_a_bucket_is_read_again_where_its_tag_has_changed(keyed, tmp_path) -> None:
    def write(data: np.ndarray[Any, Any]) -> str:
        zarr.create_array(
            tmp_path / "t.zarr", name="x", data=data, chunks=(10,), shards=(100,), compressors=None, overwrite=True
        )
        return keyed.put(tmp_path / "t.zarr", "tags")

    found = ZarrReader(open_array(a_place(write(np.arange(100))), "x"))
    assert found.read([slice(10, 70, 30)]).tolist() == [10, 40]
    write(np.arange(100) + 1)  # as many bytes, within the same second
    assert found.read([slice(10, 70, 30)]).tolist() == [11, 41]
