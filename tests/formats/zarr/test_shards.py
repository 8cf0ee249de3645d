"""How shards are laid out, and their indexes where they are damaged."""

from __future__ import annotations

import copy
import os
import time
from types import SimpleNamespace
from typing import Any

import google_crc32c
import numpy as np
import pytest
import zarr

from cfagg.arrays.chunked import ZarrReader
from cfagg.errors import FragmentReadError, LimitError
from cfagg.formats.zarr import shards as module
from cfagg.formats.zarr.chunks import read_chunk
from cfagg.formats.zarr.codecs import DamagedError, decoder
from cfagg.formats.zarr.metadata import open_array
from cfagg.formats.zarr.shards import Opened, find_shards, identity_of
from cfagg.model import Grid

F4 = np.dtype("f4")
BYTES: dict[str, Any] = {"name": "bytes", "configuration": {"endian": "little"}}
DOCUMENT: dict[str, Any] = {
    "codecs": [
        {
            "name": "sharding_indexed",
            "configuration": {
                "chunk_shape": [2, 3], "codecs": [BYTES], "index_codecs": [BYTES, {"name": "crc32c"}],
                "index_location": "end",
            },
        }
    ]
}  # fmt: skip


def changed(key: str, value: Any) -> dict[str, Any]:
    document = copy.deepcopy(DOCUMENT)
    document["codecs"][0]["configuration"][key] = value
    return document


def test_shards_are_those_of_the_metadata() -> None:
    found = find_shards(DOCUMENT, F4)
    assert found is not None
    assert (found.inner, found.at_start, found.checksum) == ((2, 3), False, True)
    plain = find_shards(changed("index_codecs", [BYTES]), F4)
    assert plain is not None
    assert not plain.checksum
    start = find_shards(changed("index_location", "start"), F4)
    assert start is not None
    assert start.at_start


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("codecs", None), ("codecs", []), ("codecs", "bytes"), ("index_codecs", None), ("index_codecs", []),
        ("chunk_shape", 5), ("chunk_shape", None), ("index_location", "middle"), ("index_location", 0),
        ("codecs", [{"name": "unknown"}]), ("index_codecs", [{"name": "zstd"}]),
        ("index_codecs", [{"name": "bytes", "configuration": {"endian": "big"}}]),
        ("index_codecs", [BYTES, {"name": "crc32c"}, {"name": "crc32c"}]), ("index_codecs", [BYTES, {"name": "gzip"}]),
    ],
)  # fmt: skip
def test_shards_in_another_way_are_left_to_zarr(key: str, value: Any) -> None:
    assert find_shards(changed(key, value), F4) is None
    other = copy.deepcopy(DOCUMENT)
    other["codecs"][0]["name"] = "sharding_otherwise"
    assert find_shards(other, F4) is None


@pytest.mark.parametrize(
    "order", ["C", 5, None, [0], [0, 0], [1, 2], [0, 1, 2], [0.0, 1.0], [True, False], ["0", "1"], {"0": 1}]
)
def test_dimensions_in_an_order_that_is_none_are_left_to_zarr(order: Any) -> None:
    turn = {"name": "transpose", "configuration": {"order": order}}
    assert decoder({"shape": [4, 4], "codecs": [turn, BYTES]}, 3, F4) is None
    right = {"name": "transpose", "configuration": {"order": [1, 0]}}
    assert decoder({"shape": [4, 4], "codecs": [right, BYTES]}, 3, F4) is not None


@pytest.mark.parametrize(
    "change",
    [
        {"shape": 5}, {"shape": None}, {"filters": "shuffle"}, {"filters": {"id": "x"}}, {"filters": [5]},
        {"dtype": [["a", "<f4"]]}, {"dtype": "<f8"}, {"compressor": "zstd"}, {"compressor": {"id": 5}},
        {"compressor": {"level": 1}}, {"compressor": {"id": "unknown"}}, {"filters": [{"id": "unknown"}]},
    ],
    ids=str,
)  # fmt: skip
def test_arrays_of_strange_metadata_have_no_decoder(change: dict[str, Any]) -> None:
    document = {"shape": [4], "dtype": "<f4", "compressor": None, "filters": None}
    assert decoder(document, 2, F4) is not None
    assert decoder({**document, **change}, 2, F4) is None


@pytest.mark.parametrize(
    "codecs",
    [
        [], ["bytes"], [{"name": "transpose", "configuration": {"order": [0]}}], [BYTES, {"name": "unknown"}],
        [BYTES, "unknown", {"name": "zstd"}], [{"name": "zstd"}, BYTES], "bytes", None,
    ],
    ids=str,
)  # fmt: skip
def test_codecs_that_are_not_done_here_are_left_to_zarr(codecs: Any) -> None:
    assert decoder({"shape": [4], "codecs": [BYTES]}, 3, F4) is not None
    assert decoder({"shape": [4], "codecs": codecs}, 3, F4) is None


def reading(file: Any) -> Any:
    return lambda count, offset: os.pread(file.fileno(), count, offset)


def test_an_index_that_a_shard_is_too_short_for_is_damaged(tmp_path: Any) -> None:
    found = find_shards(DOCUMENT, F4)
    assert found is not None
    (tmp_path / "a").write_bytes(bytes(40))
    with (tmp_path / "a").open("rb") as file:
        with pytest.raises(DamagedError, match="its 40 bytes are too few for an index of 68"):
            found._read(reading(file), 40, 4)
        # Cut off since it was opened.
        with pytest.raises(DamagedError, match="its index ends early"):
            found._read(reading(file), 70, 4)


def test_indexes_of_so_many_shards_are_kept(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_KEPT", 2)
    made = zarr.create_array(tmp_path, name="x", shape=(40,), chunks=(2,), shards=(8,), dtype="f4", fill_value=-1)
    made[...] = np.arange(40)
    array = open_array(str(tmp_path), "x")
    assert array.shards is not None
    for held in (0, 1, 2, 3, 4, 0):
        path = f"{array.folder}/{array.key((held,))}"
        with open(path, "rb") as file:  # noqa: PTH123
            index = (4 * held + 1,)
            size = os.fstat(file.fileno()).st_size
            shard = Opened(reading(file), size, (held, size))
            assert array.shards.locate(shard, array.objects, (held,), index) is not None
        assert len(array.shards._known) <= 2


def test_a_shard_that_was_written_just_now_is_known_by_nothing() -> None:
    now = time.time_ns()
    one = SimpleNamespace(st_ino=5, st_size=9, st_mtime_ns=1, st_ctime_ns=now)
    assert identity_of(one) is None  # type: ignore[arg-type]
    one.st_ctime_ns = now - 2 * module.SETTLED
    other = SimpleNamespace(**{**vars(one), "st_ctime_ns": one.st_ctime_ns + 1})
    assert None is not identity_of(one) != identity_of(other) is not None  # type: ignore[arg-type]


@pytest.mark.parametrize("together", [True, False], ids=["batched", "alone"])
def test_a_shard_that_was_written_in_place_within_one_step_of_time_is_read_anew(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch, together: bool
) -> None:
    made = zarr.create_array(tmp_path, name="x", shape=(4,), chunks=(2,), shards=(4,), dtype="i4", compressors=None)
    texts = []
    for values in ([1, 1, 0, 0], [0, 0, 2, 2]):  # as many bytes, other chunks
        made[:] = values
        texts.append((tmp_path / "x/c/0").read_bytes())
    array = open_array(str(tmp_path), "x")

    def read() -> Any:
        if together:
            return ZarrReader(array).read([slice(None)]).tolist()
        return [None if (c := read_chunk(array, (k,))) is None else c.tolist() for k in (0, 1)]

    # A file system whose clock stands still.
    fstat, when = os.fstat, time.time_ns()

    def still(fd: int) -> Any:
        s = fstat(fd)
        return SimpleNamespace(
            st_dev=s.st_dev, st_ino=s.st_ino, st_size=s.st_size, st_mode=s.st_mode, st_mtime_ns=when, st_ctime_ns=when
        )

    monkeypatch.setattr(os, "fstat", still)
    for text, expected in zip(texts, ([[1, 1], None], [None, [2, 2]]), strict=True):
        with (tmp_path / "x/c/0").open("r+b") as file:
            file.write(text)
        assert read() == ([v for e in expected for v in e or [0, 0]] if together else expected)
    assert array.shards is not None
    assert not array.shards._known


def test_indexes_are_kept_while_other_threads_add_to_them() -> None:
    found = find_shards(DOCUMENT, F4)
    assert found is not None

    class Entry:
        @property
        def nbytes(self) -> int:
            found._known[len(found._known),] = self  # type: ignore[index]  # what another thread does
            return 0

    found._known[0,] = found._known[1,] = Entry()  # type: ignore[assignment]
    grid = Grid.regular((4, 6), (4, 6))
    found.table(Opened(lambda count, _: _checked(bytes(count - 4)), 68, (7,)), grid, (0, 0))
    assert (7, 0, 0) in found._known


def _checked(text: bytes) -> bytes:
    return text + google_crc32c.value(text).to_bytes(4, "little")


@pytest.mark.parametrize("kind", ["FIFO", "directory"])
def test_what_is_no_shard_is_refused_by_the_name_of_array_and_chunk(tmp_path: Any, kind: str) -> None:
    zarr.create_array(tmp_path, name="x", data=np.arange(8), chunks=(2,), shards=(4,))
    (tmp_path / "x/c/1").unlink()
    os.mkfifo(tmp_path / "x/c/1") if kind == "FIFO" else (tmp_path / "x/c/1").mkdir()
    with pytest.raises(FragmentReadError, match=rf"array 'x', chunk \(2,\).*it is a {kind}"):
        ZarrReader(open_array(str(tmp_path), "x")).read([slice(None)])


def test_an_index_that_is_too_large_is_refused_by_the_name_of_array_and_chunk(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    zarr.create_array(tmp_path, name="x", data=np.arange(80), chunks=(2,), shards=(40,))
    monkeypatch.setattr("cfagg.conventions.limits.MAX_INDEX", 100)
    with pytest.raises(LimitError, match=r"array 'x', chunk \(0,\) .*index of a shard takes 324 bytes.*MAX_INDEX"):
        ZarrReader(open_array(str(tmp_path), "x")).read([slice(None)])


@pytest.mark.parametrize(
    "places",
    [
        range(6), range(5, -1, -1), [0, 1, 2, 4, 5, 6], [0, 1, 2.25, 3.25, 4.25, 5.25], [0, 0, 2, 3, 1, 1],
        [0, 90, 1, 2, 3, 4],
    ],
    ids=["in order", "backward", "with a gap", "with an odd gap", "shared", "far away"],
)  # fmt: skip
@pytest.mark.parametrize("some", [slice(None), slice(4, 22, 3)])
def test_chunks_that_are_stored_as_they_are_are_found_wherever_they_lie(
    tmp_path: Any, places: Any, some: slice
) -> None:
    made = zarr.create_array(tmp_path, name="x", shape=(24,), chunks=(4,), shards=(24,), dtype="i4", compressors=None)
    made[:] = 1
    stored = np.random.default_rng(0).integers(0, 256, 100 * 16, dtype=np.uint8).tobytes()
    index = np.array([[16 * p, 16] for p in places], "<u8").tobytes()
    checksum = google_crc32c.value(index).to_bytes(4, "little")
    (tmp_path / "x" / "c" / "0").write_bytes(stored + index + checksum)
    found = ZarrReader(open_array(tmp_path, "x")).read([some])
    assert found.tolist() == made[some].tolist()


def test_a_chunk_beyond_the_end_of_its_shard_is_damage_among_others(tmp_path: Any) -> None:
    made = zarr.create_array(tmp_path, name="x", shape=(24,), chunks=(4,), shards=(24,), dtype="i4", compressors=None)
    made[:] = 1
    index = np.array([[16 * k, 16] for k in (0, 1, 2, 3, 4, 2**59)], "<u8").tobytes()
    checksum = google_crc32c.value(index).to_bytes(4, "little")
    (tmp_path / "x" / "c" / "0").write_bytes(bytes(96) + index + checksum)
    reader = ZarrReader(open_array(tmp_path, "x"))
    assert reader.read([slice(20)]).tolist() == [0] * 20
    with pytest.raises(FragmentReadError, match=r"chunk \(5,\)"):
        reader.read([slice(None)])
