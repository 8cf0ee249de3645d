"""Chunks that are encoded as an array's metadata say, against what zarr-python reads of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numcodecs
import numpy as np
import pytest
import zarr
import zarr.codecs as zc

from cfagg.errors import ConformError, UnsupportedError
from cfagg.formats.zarr import open_array
from cfagg.formats.zarr.encoding import encoder, encoder_of, padded, shard_bytes
from tests.formats.zarr.stores import V2, V3, create, open_peer

VALUES = np.random.default_rng(1).integers(-999, 999, (5, 7))


def put(folder: Path, name: str) -> None:
    """Write every chunk of an array with our encoder, in the place of zarr-python's."""
    array = open_array(folder, name)
    code = encoder(array)
    for index in np.ndindex(array.grid.matrix_shape):
        box = tuple(slice(a, b) for a, b in array.grid.extent(index))
        chunk = padded(VALUES[box].astype(array.dtype), array.grid.whole(index), array.fill_value)
        path = Path(f"{array.folder}/{array.key(index)}")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(code.encode(chunk))


@pytest.mark.few(16)
@pytest.mark.parametrize("dtype", ["i2", ">i4", "f8", "u1"])
@pytest.mark.parametrize("name", V3)
def test_zarr_python_reads_chunks_of_version_3(tmp_path: Path, name: str, dtype: str) -> None:
    create(tmp_path, "x", (5, 7), (2, 4), dtype=dtype, compressors=V3[name], zarr_format=3)
    put(tmp_path, "x")
    np.testing.assert_array_equal(open_peer(tmp_path, "x")[:], VALUES.astype(dtype))


@pytest.mark.few(10)
@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("dtype", ["<i2", ">f4"])
@pytest.mark.parametrize("name", V2)
def test_zarr_python_reads_chunks_of_version_2(tmp_path: Path, name: str, dtype: str, order: Any) -> None:
    create(tmp_path, "x", (5, 7), (2, 4), dtype=dtype, compressors=V2[name], zarr_format=2, order=order)
    put(tmp_path, "x")
    np.testing.assert_array_equal(open_peer(tmp_path, "x")[:], VALUES.astype(dtype))


def test_transposed_chunks(tmp_path: Path) -> None:
    turned = [zc.TransposeCodec(order=(1, 0))]
    create(tmp_path, "x", (5, 7), (2, 4), dtype="i4", filters=turned, compressors=None)
    put(tmp_path, "x")
    np.testing.assert_array_equal(open_peer(tmp_path, "x")[:], VALUES)


def test_chunks_of_unequal_lengths(tmp_path: Path) -> None:
    create(tmp_path, "x", (5, 7), [[2, 3], [1, 4, 2]], dtype="i4")
    put(tmp_path, "x")
    np.testing.assert_array_equal(open_peer(tmp_path, "x")[:], VALUES)


@pytest.mark.parametrize(
    "filters",
    [[numcodecs.Delta(dtype="<i4")], [numcodecs.Shuffle(4)], [numcodecs.Delta(dtype="<i4"), numcodecs.Shuffle(4)]],
)
def test_filters_of_version_2(tmp_path: Path, filters: Any) -> None:
    create(tmp_path, "x", (5, 7), (2, 4), dtype="<i4", filters=filters, compressors=numcodecs.Zlib(1), zarr_format=2)
    put(tmp_path, "x")
    np.testing.assert_array_equal(open_peer(tmp_path, "x")[:], VALUES)


def test_a_filter_that_would_change_values_is_refused(tmp_path: Path) -> None:
    coarse = [numcodecs.FixedScaleOffset(offset=0, scale=1, dtype="<f4", astype="<i2")]
    create(tmp_path, "x", (4,), (4,), dtype="<f4", filters=coarse, compressors=None, zarr_format=2)
    code = encoder(open_array(tmp_path, "x"))
    whole = np.array([1, 2, 3, 4], "f4")
    assert len(code.encode(whole)) == 8
    with pytest.raises(ConformError, match="would change values"):
        code.encode(whole + np.float32(0.5))


def test_an_unknown_codec_is_refused_by_name(tmp_path: Path) -> None:
    document = {"codecs": ["bytes", {"name": "packet", "configuration": {}}]}
    with pytest.raises(UnsupportedError, match="array of mine is stored with the codec 'packet'"):
        encoder_of(document, 3, np.dtype("u1"), "array of mine")
    with pytest.raises(UnsupportedError, match="'pickle'"):
        encoder_of({"dtype": "|u1", "filters": [{"id": "pickle"}]}, 2, np.dtype("u1"), "x")


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_text(tmp_path: Path, zarr_format: Any) -> None:
    made = zarr.create_array(tmp_path, name="x", shape=(3,), chunks=(3,), dtype=str, zarr_format=zarr_format)
    names = np.array(["a", "", "äöü"], object)
    document: Any = made.metadata.to_dict()
    if zarr_format == 2:
        document = {"dtype": "|O", "filters": [{"id": "vlen-utf8"}], "compressor": {"id": "zstd", "level": 0}}
    path = tmp_path / "x" / ("c/0" if zarr_format == 3 else "0")
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(encoder_of(document, zarr_format, np.dtype(object), "x").encode(names))
    assert list(zarr.open_array(tmp_path / "x", mode="r")[:]) == list(names)


@pytest.mark.parametrize("place", ["start", "end"])
@pytest.mark.parametrize("check", [True, False])
def test_shards(tmp_path: Path, place: Any, check: bool) -> None:
    last = [zc.Crc32cCodec()] if check else []
    shards = zc.ShardingCodec(
        chunk_shape=(1, 2), index_location=place, index_codecs=[zc.BytesCodec(), *last],
        codecs=[zc.BytesCodec(), zc.ZstdCodec()],
    )  # fmt: skip
    create(tmp_path, "x", (4, 4), (2, 4), dtype="i4", serializer=shards, compressors=None, fill_value=9)
    array = open_array(tmp_path, "x")
    code = encoder(array)
    expected = np.full((4, 4), 9)
    for shard in range(2):
        inner: list[bytes | None] = []
        for k, (i, j) in enumerate(np.ndindex(2, 2)):
            box = slice(2 * shard + i, 2 * shard + i + 1), slice(2 * j, 2 * j + 2)
            inner.append(None if k == 1 else code.encode(VALUES[box]))
            expected[box] = 9 if k == 1 else VALUES[box]
        path = Path(f"{array.folder}/{array.key((shard, 0))}")
        path.parent.mkdir(parents=True, exist_ok=True)
        stored = shard_bytes(array, inner)
        assert stored is not None
        path.write_bytes(stored)
    np.testing.assert_array_equal(open_peer(tmp_path, "x")[:], expected)


def test_a_shard_without_chunks_is_not_stored(tmp_path: Path) -> None:
    create(tmp_path, "x", (4,), (2,), dtype="i4", shards=(4,))
    assert shard_bytes(open_array(tmp_path, "x"), [None, None]) is None


@pytest.mark.parametrize("level", [-7, 0, 1, 3, 22, 99])
def test_zstd_gives_the_frames_of_numcodecs(level: int) -> None:
    document = {"codecs": [{"name": "bytes"}, {"name": "zstd", "configuration": {"level": level, "checksum": False}}]}
    code = encoder_of(document, 3, np.dtype("i8"), "x")
    for values in (VALUES, VALUES[:1] * 0):
        assert code.encode(values) == numcodecs.Zstd(level=level).encode(np.ascontiguousarray(values, "<i8"))


def test_zstd_of_what_zstd_gave_is_not_mixed_up_with_it() -> None:
    zstd = {"name": "zstd", "configuration": {"level": 1, "checksum": False}}
    code = encoder_of({"codecs": [{"name": "bytes"}, zstd, zstd]}, 3, np.dtype("i8"), "x")
    once = numcodecs.Zstd(level=1).encode(np.ascontiguousarray(VALUES, "<i8"))
    assert numcodecs.Zstd().decode(code.encode(VALUES)) == once
