"""Stores in Zip files: the same values as of the directory, and no more memory than their metadata declare."""

from __future__ import annotations

import json
import os
import shutil
import threading
import tracemalloc
import zipfile
import zlib
from contextlib import suppress
from pathlib import Path

import dask.base
import numpy as np
import pytest
import xarray as xr
import zarr

import cfagg
from cfagg.conventions import limits
from cfagg.errors import CfaggError, FragmentReadError, LimitError
from cfagg.formats.zarr import zipped as module
from cfagg.formats.zarr.zipped import CheckedZip
from tests.formats.zarr.stores import V2, V3, create


def zipped(folder: Path, change: dict[str, bytes] | None = None) -> Path:
    """Return a Zip file of a store, some members of which are others."""
    path = folder.with_suffix(".zip")
    with zipfile.ZipFile(path, "w") as file:
        for one in sorted(folder.rglob("*")):
            if one.is_file():
                key = str(one.relative_to(folder))
                file.writestr(key, (change or {}).get(key, one.read_bytes()))
    return path


@pytest.mark.few(8)
@pytest.mark.parametrize(("zarr_format", "name"), [*((2, n) for n in V2), *((3, n) for n in V3)])
def test_values_are_those_that_zarr_python_reads(tmp_path: Path, zarr_format: int, name: str) -> None:
    compressors = (V2 if zarr_format == 2 else V3)[name]
    array = create(tmp_path / "s", "a", (5, 4), (2, 3), dtype="i4", zarr_format=zarr_format, compressors=compressors)
    array[:3] = np.arange(12).reshape(3, 4)
    if zarr_format == 2:
        array.attrs["_ARRAY_DIMENSIONS"] = ["y", "x"]
    else:
        document = tmp_path / "s" / "a" / "zarr.json"
        document.write_text(json.dumps({**json.loads(document.read_text()), "dimension_names": ["y", "x"]}))
    with cfagg.read(zipped(tmp_path / "s"), mask_and_scale=False) as found:
        np.testing.assert_array_equal(found["a"].values, array[:])


def test_characters_are_read_as_the_netcdf_library_writes_their_type(tmp_path: Path) -> None:
    array = create(tmp_path / "s", "a", (3,), (3,), dtype="S1", zarr_format=2, compressors=None)
    array[:] = np.array([b"a", b"b", b"c"])
    array.attrs["_ARRAY_DIMENSIONS"] = ["x"]
    document = tmp_path / "s" / "a" / ".zarray"
    document.write_text(document.read_text().replace('"|S1"', '"<S1"'))
    with cfagg.read(zipped(tmp_path / "s")) as found, cfagg.read(tmp_path / "s") as expected:
        assert found["a"].values.tolist() == expected["a"].values.tolist() == b"abc"


def test_shards_texts_and_scalars_are_read(tmp_path: Path) -> None:
    group = zarr.open_group(tmp_path / "s", mode="w", zarr_format=3)
    data = np.arange(24.0).reshape(4, 6)
    group.create_array("a", shape=(4, 6), chunks=(1, 2), shards=(2, 6), dtype="f8", dimension_names=("y", "x"))[:] = (
        data
    )
    group.create_array("s", shape=(), dtype="i2", dimension_names=())[...] = 7
    words = group.create_array("w", shape=(2,), dtype="str", dimension_names=("n",))
    words[:] = np.array(["one", "two"])
    with cfagg.read(zipped(tmp_path / "s")) as found:
        np.testing.assert_array_equal(found["a"].values, data)
        assert found["s"].item() == 7
        assert found["w"].values.tolist() == ["one", "two"]


@pytest.mark.parametrize("sharded", [False, True])
def test_a_chunk_that_decodes_to_more_than_declared_is_refused_in_little_memory(tmp_path: Path, sharded: bool) -> None:
    group = zarr.open_group(tmp_path / "s", mode="w", zarr_format=3)
    form = {"shards": (8,)} if sharded else {}
    codec = zarr.codecs.GzipCodec(level=1)
    array = group.create_array(
        "a", shape=(8,), chunks=(8,), dtype="u1", compressors=codec, dimension_names=("x",), **form
    )
    array[:] = 1
    made = zlib.compressobj(9, wbits=31)
    bomb = made.compress(bytes(1 << 25)) + made.flush()
    if sharded:
        index = np.array([0, len(bomb)], "<u8").tobytes()
        from google_crc32c import value

        bomb += index + int(value(index)).to_bytes(4, "little")
    path = zipped(tmp_path / "s", {"a/c/0": bomb})
    with cfagg.read(path) as found:
        tracemalloc.start()
        with pytest.raises(FragmentReadError, match="damaged"):
            found["a"].values  # noqa: B018
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert peak < 1 << 24


def test_a_member_larger_than_any_chunk_is_refused_unread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    words = zarr.open_group(tmp_path / "s", mode="w").create_array("w", shape=(2,), dtype="str", dimension_names=("n",))
    words[:] = np.array(["a" * 3000, "b" * 3000])
    monkeypatch.setattr(limits, "MAX_CHUNK", 1000)
    path = zipped(tmp_path / "s", {"w/c/0": bytes(5000)})
    with cfagg.read(path) as found, pytest.raises(LimitError, match="w/c/0"):
        found["w"].values  # noqa: B018


@pytest.mark.parametrize("cut", [0.3, 0.6, 0.9])
def test_a_truncated_or_changed_zip_file_raises_errors_of_cfagg(tmp_path: Path, cut: float) -> None:
    xr.Dataset({"a": ("x", np.arange(50))}).to_zarr(tmp_path / "s", consolidated=False)
    path = zipped(tmp_path / "s")
    data = bytearray(path.read_bytes())
    at = int(len(data) * cut)
    path.write_bytes(bytes(data[:at]))
    with pytest.raises(CfaggError):
        cfagg.read(path)
    path.write_bytes(bytes(data[:at]) + bytes(40) + bytes(data[at + 40 :]))
    with suppress(CfaggError), cfagg.read(path) as found:
        _ = found["a"].values


def test_a_zip_file_whose_codec_runs_code_is_refused(tmp_path: Path) -> None:
    xr.Dataset({"a": ("x", np.arange(5))}).to_zarr(tmp_path / "s", zarr_format=2, consolidated=False)
    document = json.loads((tmp_path / "s" / "a" / ".zarray").read_text())
    (tmp_path / "s" / "a" / ".zarray").write_text(json.dumps({**document, "filters": [{"id": "pickle"}]}))
    with pytest.raises(CfaggError, match="pickle"), cfagg.read(zipped(tmp_path / "s")) as found:
        found["a"].values  # noqa: B018
    shutil.rmtree(tmp_path / "s")


@pytest.mark.parametrize(("flags", "method", "why"), [(1, 0, "encrypted"), (0, 97, "compression method")])
def test_a_zip_file_that_is_not_unpacked_here_is_not_called_damaged(
    tmp_path: Path, flags: int, method: int, why: str
) -> None:
    create(tmp_path / "s", "a", (4,), (4,), dtype="i4")[:] = 1
    path = zipped(tmp_path / "s")
    raw = bytearray(path.read_bytes())
    for mark, at in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        begin = raw.find(mark)
        while begin >= 0:
            raw[begin + at] |= flags
            raw[begin + at + 2] |= method
            begin = raw.find(mark, begin + 1)
    path.write_bytes(raw)
    with pytest.raises(CfaggError, match=f"{why}.*without encryption, stored or deflated"):
        cfagg.read(path)


def test_a_thread_that_reads_chunks_does_not_block_one_that_reads_other_members(tmp_path: Path) -> None:
    create(tmp_path / "s", "a", (4,), (2,), dtype="i4", zarr_format=3)[:] = 7
    store = CheckedZip(str(zipped(tmp_path / "s")))
    array = store.decoded("a")
    assert array is not None
    assert array.opens is not None
    with module._OPENING:
        reader = threading.Thread(target=array.opens, args=(f"{store.path}/a/c/0",), daemon=True)
        reader.start()
        while not array.opens._lock.locked():  # until it waits for the other lock
            pass
        free = store._lock.acquire(timeout=60)
        store._lock.release()
    reader.join()
    assert free


def test_dask_tells_a_zip_file_from_another_that_was_copied_over_it_with_its_time(tmp_path: Path) -> None:
    tokens = []
    for value in (1, 2):
        create(tmp_path / "s", "a", (4,), (2,), dtype="i4", zarr_format=3)[:] = value
        path = zipped(tmp_path / "s")
        os.utime(path, (0, 0))
        tokens.append(dask.base.tokenize(CheckedZip(str(path))))
        shutil.rmtree(tmp_path / "s")
        path.unlink()
    assert tokens[0] != tokens[1]
