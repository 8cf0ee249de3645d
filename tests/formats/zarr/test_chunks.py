"""Chunks as zarr-python reads them, whatever their form."""

from __future__ import annotations

import os
import pickle
import tempfile
import threading
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import numcodecs
import numpy as np
import pytest
import zarr
import zarr.codecs as zc
import zarr.codecs.numcodecs as zcn
from hypothesis import given, settings
from hypothesis import strategies as st

from cfagg.arrays.chunked import ZarrReader
from cfagg.errors import FragmentReadError, SelectionError
from cfagg.formats.zarr import chunk_bytes, open_array, partial, read_box, read_chunk
from tests.effort import examples
from tests.formats.zarr.stores import V2, V3, boxes, create, open_peer, values

#: LZMA without a header, which no decoder can recognise.
RAW_LZMA = numcodecs.LZMA(format=3, check=-1, filters=[{"id": 0x21, "preset": 1}])

TYPES = ["?", "i1", "u1", "<i2", ">i2", "<u4", ">i8", "<u8", "<f4", ">f4", "<f8", ">f8"]


def assembled(array):
    """Return the whole array, chunk by chunk."""
    out = np.zeros(array.shape, array.dtype)
    for index, place in boxes(array):
        out[place] = ZarrReader(array).filled(index)
    return out


FORMS = ["v2", "v2-F", "v2-filters", "v3", "rectilinear", "shards", "shards-start", "transposed"]


@st.composite
def arrays(draw, form):
    """What `create` takes for an array of this form, and which part of the array is written."""
    size = st.integers(1, 9) if form == "rectilinear" else st.integers(0, 40).map(lambda n: n % 10)
    shape = tuple(draw(st.lists(size, min_size="shards" in form, max_size=3)))
    chunks = tuple(draw(st.integers(1, 5)) for _ in shape)
    dtype = draw(st.sampled_from(TYPES))
    fill = draw(st.integers(0, 1 if dtype == "?" else 9))
    keywords = {"zarr_format": 2 if "v2" in form else 3, "dtype": dtype, "fill_value": fill}
    separator = draw(st.sampled_from([".", "/"]))
    if "v2" in form:
        keywords["compressors"] = V2[draw(st.sampled_from(list(V2)))]
        keywords["order"] = "F" if form == "v2-F" else "C"
        keywords["chunk_key_encoding"] = {"name": "v2", "separator": separator}
        if form == "v2-filters":
            first = numeric_filters(dtype)
            last = [[numcodecs.Shuffle(np.dtype(dtype).itemsize)], [numcodecs.Fletcher32(), numcodecs.Zlib(1)], []]
            numbers = draw(st.booleans())
            # Filters that change numbers change their size, which sorting bytes does not bear.
            keywords["filters"] = [
                *(draw(st.sampled_from(first)) if numbers else []),
                *draw(st.sampled_from(last[1:] if numbers else last)),
            ]
    else:
        keywords["compressors"] = V3[draw(st.sampled_from(["none", *V3]))]
        keywords["chunk_key_encoding"] = {"name": draw(st.sampled_from(["default", "v2"])), "separator": separator}
        # zarr-python stores v3 arrays of any type as little-endian unless told otherwise.
        keywords["serializer"] = zc.BytesCodec(endian="big" if dtype.startswith(">") else "little")
    if form == "rectilinear":
        chunks = [draw(_lengths(n)) for n in shape] or ()
    elif form.startswith("shards"):
        lengths = tuple(c * draw(st.integers(1, 3)) for c in chunks)
        keywords["shards"] = {"shape": lengths, "index_location": "start" if "start" in form else "end"}
    elif form == "transposed":
        keywords["filters"] = [zc.TransposeCodec(order=tuple(reversed(range(len(shape)))))]
    written = tuple(slice(*sorted(draw(st.tuples(st.integers(0, n), st.integers(0, n))))) for n in shape)
    return shape, chunks, keywords, written if draw(st.booleans()) else (...,)


def numeric_filters(dtype):
    """Return filters that change numbers, each of which can be undone exactly for small whole numbers."""
    kind = np.dtype(dtype).kind
    if kind == "b":
        return [[numcodecs.PackBits()]]
    if kind in "iu":
        return [[numcodecs.Delta(dtype)], [numcodecs.Delta(dtype, astype="<i8")], [numcodecs.AsType("<f8", dtype)]]
    packed = numcodecs.FixedScaleOffset(offset=0.5, scale=2, dtype=dtype, astype="<i2")
    return [
        [packed],
        [packed, numcodecs.Delta("<i2")],
        [numcodecs.Quantize(3, dtype)],
        *([[numcodecs.BitRound(10)]] if dtype.startswith("<") else []),
    ]


@st.composite
def _lengths(draw, total):
    found = []
    while sum(found) < total:
        found.append(draw(st.integers(1, total - sum(found))))
    return found


@pytest.mark.few(4)
@pytest.mark.parametrize("form", FORMS)
@settings(max_examples=examples(40))
@given(st.data())
def test_every_chunk_and_box_is_what_zarr_python_reads(form, data):
    shape, chunks, keywords, written = data.draw(arrays(form))
    with tempfile.TemporaryDirectory() as store:
        peer = create(store, "group/x", shape, chunks, **keywords)
        peer[written] = values(shape, keywords["dtype"])[written]
        expected = open_peer(store, "group/x")[...]
        array = pickle.loads(pickle.dumps(open_array(store, "group/x")))
        assert array.dtype == expected.dtype.newbyteorder("=")
        np.testing.assert_array_equal(assembled(array), expected)
        for index, place in boxes(array):
            whole = ZarrReader(array).filled(index)
            assert whole.flags.writeable
            assert whole.dtype == array.dtype
            box = tuple(slice(*sorted(data.draw(st.tuples(*[st.integers(0, n)] * 2)))) for n in whole.shape)
            part = read_box(array, index, box)
            if part is None:
                assert read_chunk(array, index) is None
            else:
                np.testing.assert_array_equal(part, expected[place][box])


@pytest.mark.parametrize("name", [n for n in V3 if n != "none"])
def test_codecs_of_v3_are_decoded_without_zarr_python(tmp_path, name):
    create(tmp_path, "x", (5,), (4,), dtype="f4", compressors=V3[name])
    assert open_array(tmp_path, "x").decoder is not None


@pytest.mark.parametrize("name", [n for n in V2 if n != "none"])
def test_codecs_of_v2_are_decoded_without_zarr_python(tmp_path, name):
    create(tmp_path, "x", (5,), (4,), dtype="f4", compressors=V2[name], zarr_format=2)
    assert open_array(tmp_path, "x").decoder is not None


def test_chunks_within_shards_are_decoded_without_zarr_python(tmp_path):
    create(tmp_path, "x", (9, 9), (2, 3), shards=(4, 9), dtype="f4")
    assert open_array(tmp_path, "x").decoder is not None


@pytest.mark.parametrize(
    "keywords",
    [
        {"zarr_format": 2, "filters": [numcodecs.CRC32()]},
        {"zarr_format": 2, "compressors": RAW_LZMA},
        {"compressors": zcn.Adler32()},
    ],
    ids=["crc32", "raw-lzma", "adler32"],
)
def test_other_codecs_go_through_zarr_python(tmp_path, keywords):
    x = values((5, 4), "f4")
    create(tmp_path, "x", x.shape, (4, 3), dtype="f4", **keywords)[...] = x
    array = open_array(tmp_path, "x")
    assert array.decoder is None
    assert not partial(array)
    np.testing.assert_array_equal(assembled(array), x)
    np.testing.assert_array_equal(read_box(array, (0, 0), (slice(1, 3), slice(0, 2))), x[1:3, :2])


def test_shards_within_shards_go_through_zarr_python(tmp_path):
    x = values((12, 12), "i4")
    inner = zc.ShardingCodec(chunk_shape=(2, 2), codecs=[zc.BytesCodec(), zc.ZstdCodec()])
    outer = zc.ShardingCodec(chunk_shape=(4, 4), codecs=[inner])
    create(tmp_path, "x", x.shape, (8, 8), dtype="i4", serializer=outer, compressors=None, filters=None)[...] = x
    array = open_array(tmp_path, "x")
    assert array.grid.matrix_shape == (3, 3)
    np.testing.assert_array_equal(assembled(array), x)


def test_rectilinear_shards_are_read(tmp_path):
    x = values((10, 4), "f8")
    create(tmp_path, "x", x.shape, (2, 2), shards=[[4, 6], [2, 2]], dtype="f8")[...] = x
    array = open_array(tmp_path, "x")
    assert array.objects.sizes == ((4, 6), (2, 2))
    np.testing.assert_array_equal(assembled(array), x)


def test_an_absent_chunk_is_none(tmp_path):
    create(tmp_path, "x", (8,), (4,), dtype="f4", fill_value=7)[4:] = np.ones(4)
    array = open_array(tmp_path, "x")
    assert read_chunk(array, (0,)) is None
    assert read_box(array, (0,), (slice(1, 2),)) is None
    assert ZarrReader(array).filled((0,)).tolist() == [7] * 4


def test_an_absent_chunk_of_a_shard_is_none(tmp_path):
    create(tmp_path, "x", (8,), (2,), shards=(8,), dtype="f4", fill_value=7)[4:] = np.ones(4)
    array = open_array(tmp_path, "x")
    assert read_chunk(array, (0,)) is None
    assert read_chunk(array, (2,)).tolist() == [1, 1]


def test_a_shard_that_was_written_again_is_read_anew(tmp_path):
    peer = create(tmp_path, "x", (8,), (2,), shards=(8,), dtype="i8")
    peer[...] = np.arange(1, 9)
    array = open_array(tmp_path, "x")
    assert read_chunk(array, (3,)).tolist() == [7, 8]
    peer[:2] = np.random.default_rng(0).integers(0, 2**62, 2)
    peer[6:] = [70, 80]
    assert read_chunk(array, (3,)).tolist() == [70, 80]


def test_a_shard_that_was_written_in_place_is_read_anew(tmp_path):
    for name in ("x", "y"):
        peer = create(tmp_path, name, (8,), (2,), shards=(8,), dtype="i8", compressors=None)
        peer[2 if name == "y" else 0 :] = np.arange(2 if name == "y" else 0, 8) + 1
    x, y = open_array(tmp_path, "x"), open_array(tmp_path, "y")
    assert read_chunk(x, (0,)).tolist() == [1, 2]
    other = chunk_file(y).read_bytes()
    with chunk_file(x).open("r+b") as file:
        size = len(file.read())
        # Of the same size, with another index: the first chunk is not stored in it.
        file.seek(0)
        file.write(bytes(size - len(other)) + other)
    os.utime(chunk_file(x), ns=(0, 0))
    assert read_chunk(x, (0,)) is None


@pytest.mark.parametrize("dtype", [">f4", ">i2", ">u8"])
@pytest.mark.parametrize("zarr_format", [2, 3])
def test_big_endian_chunks_and_boxes_are_in_native_order(tmp_path, dtype, zarr_format):
    x = values((9, 8), dtype)
    serializer = {"serializer": zc.BytesCodec(endian="big")} if zarr_format == 3 else {}
    made = create(tmp_path, "x", x.shape, (5, 8), dtype=dtype, compressors=None, zarr_format=zarr_format, **serializer)
    made[...] = x
    array = open_array(tmp_path, "x")
    assert array.decoder.swap
    assert read_chunk(array, (1, 0)).dtype.isnative
    np.testing.assert_array_equal(read_chunk(array, (1, 0)), x[5:])
    np.testing.assert_array_equal(read_box(array, (1, 0), (slice(1, 3), slice(2, 4))), x[6:8, 2:4])


def test_an_uncompressed_chunk_that_is_too_long_is_refused(tmp_path):
    create(tmp_path, "x", (4,), (4,), dtype="i4", compressors=None)[...] = 1
    array = open_array(tmp_path, "x")
    with chunk_file(array).open("ab") as file:
        file.write(b"more")
    with pytest.raises(FragmentReadError, match="it has 20 bytes, expected 16"):
        read_chunk(array, (0,))


def chunk_file(array, index=None):
    index = index or (0,) * array.ndim
    return Path(array.folder) / array.key(array.object_of(index))


@pytest.mark.few(20)
@pytest.mark.parametrize("zarr_format", [2, 3])
@pytest.mark.parametrize("left", [0, 1, 3, 0.5, -1], ids=str)
@pytest.mark.parametrize("name", sorted(V2.keys() & V3.keys() | {"lz4", "zlib", "blosc", "blosc-lz4", "zstd+crc32c"}))
def test_a_truncated_chunk_is_refused_by_name(tmp_path, zarr_format, left, name):
    table = V2 if zarr_format == 2 else V3
    x = np.random.default_rng(0).normal(size=(40, 40)).astype("f4")
    kind = table.get(name, table["none"])
    create(tmp_path, "g/x", x.shape, (40, 40), dtype="f4", compressors=kind, zarr_format=zarr_format)[...] = x
    array = open_array(tmp_path, "g/x")
    path = chunk_file(array)
    stored = path.read_bytes()
    path.write_bytes(stored[: int(len(stored) * left) if isinstance(left, float) else left])
    with pytest.raises(FragmentReadError, match=r"'g/x', chunk \(0, 0\) \(.*\) is damaged") as caught:
        read_chunk(array, (0, 0))
    assert str(path) in str(caught.value)
    with pytest.raises(FragmentReadError, match="is damaged"):
        read_box(array, (0, 0), (slice(3, 4), slice(5, 6)))


@pytest.mark.parametrize("name", [n for n in V3 if n != "none"])
def test_a_chunk_of_other_size_is_refused(tmp_path, name):
    create(tmp_path, "x", (6,), (6,), dtype="i4", compressors=V3[name])[...] = np.arange(1, 7)
    create(tmp_path, "y", (7,), (7,), dtype="i4", compressors=V3[name])[...] = np.arange(1, 8)
    x, y = open_array(tmp_path, "x"), open_array(tmp_path, "y")
    stored = [chunk_file(array).read_bytes() for array in (x, y)]
    for array, other in zip((y, x), stored, strict=True):
        chunk_file(array).write_bytes(other)
        with pytest.raises(FragmentReadError, match="damaged"):
            read_chunk(array, (0,))


@pytest.mark.parametrize("name", ["crc32c", "zstd+crc32c", "zstd-checksum"])
def test_a_flipped_bit_fails_the_checksum(tmp_path, name):
    create(tmp_path, "x", (600,), (600,), dtype="i4", compressors=V3[name])[...] = np.arange(600) ** 2
    array = open_array(tmp_path, "x")
    with chunk_file(array).open("r+b") as file:
        stored = bytearray(file.read())
        stored[len(stored) // 2] ^= 16
        file.seek(0)
        file.write(stored)
    with pytest.raises(FragmentReadError, match="damaged"):
        read_chunk(array, (0,))


@pytest.mark.parametrize("cut", [1, 10, 40])
def test_a_truncated_shard_is_refused(tmp_path, cut):
    create(tmp_path, "x", (8,), (2,), shards=(8,), dtype="i8")[...] = np.arange(8) + 2**40
    array = open_array(tmp_path, "x")
    with chunk_file(array).open("r+b") as file:
        file.truncate(len(file.read()) - cut)
    with pytest.raises(FragmentReadError, match=r"chunk \(1,\).*damaged"):
        read_chunk(array, (1,))


def test_an_index_that_leads_out_of_its_shard_is_refused(tmp_path):
    sharding = zc.ShardingCodec(chunk_shape=(2,), codecs=[zc.BytesCodec()], index_codecs=[zc.BytesCodec()])
    create(tmp_path, "x", (8,), (8,), dtype="i8", serializer=sharding, compressors=None)[...] = np.arange(8) + 1
    array = open_array(tmp_path, "x")
    with chunk_file(array).open("r+b") as file:
        file.seek(-16, 2)
        file.write((50).to_bytes(8, "little") + (10**6).to_bytes(8, "little"))
    with pytest.raises(FragmentReadError, match=r"its index puts the chunk at bytes 50 to 1,000,050 of"):
        read_chunk(array, (3,))
    assert read_chunk(array, (0,)).tolist() == [1, 2]


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_what_zarr_python_cannot_decode_is_refused_by_name(tmp_path, zarr_format):
    keywords = {"compressors": RAW_LZMA if zarr_format == 2 else zcn.Adler32()}
    create(tmp_path, "x", (8, 8), (8, 8), dtype="f4", zarr_format=zarr_format, **keywords)[...] = 1
    array = open_array(tmp_path, "x")
    with chunk_file(array).open("r+b") as file:
        file.truncate(5)
    with pytest.raises(FragmentReadError, match=r"chunk \(0, 0\).*zarr-python raises"):
        read_chunk(array, (0, 0))


def test_a_codec_that_nobody_knows_is_an_error_of_cfagg(tmp_path):
    create(tmp_path, "x", (4,), (4,), dtype="f4", compressors=numcodecs.BZ2(), zarr_format=2)[...] = 1
    path = tmp_path / "x" / ".zarray"
    path.write_text(path.read_text().replace('"bz2"', '"no-such-codec"'))
    with pytest.raises(FragmentReadError, match="can only be read with zarr-python"):
        read_chunk(open_array(tmp_path, "x"), (0,))


def test_an_array_resized_since_is_not_read_by_zarr_python(tmp_path):
    peer = create(tmp_path, "x", (8, 8), (4, 4), dtype="f4", compressors=RAW_LZMA, zarr_format=2)
    peer[...] = 1
    array = open_array(tmp_path, "x")
    peer.resize((6, 8))
    with pytest.raises(FragmentReadError, match=r"from shape \(8, 8\) to \(6, 8\)"):
        read_chunk(array, (1, 1))


def test_a_directory_in_the_place_of_a_chunk_is_an_error(tmp_path):
    create(tmp_path, "x", (8,), (4,), dtype="f4")
    (tmp_path / "x" / "c" / "0").mkdir(parents=True)
    with pytest.raises(FragmentReadError, match=r"chunk \(0,\).*cannot be read"):
        read_chunk(open_array(tmp_path, "x"), (0,))


def test_a_link_to_a_chunk_elsewhere_is_followed_where_that_is_allowed(tmp_path):
    create(tmp_path / "s", "x", (4,), (4,), dtype="i4")[...] = [1, 2, 3, 4]
    moved = tmp_path / "elsewhere"
    array = open_array(tmp_path / "s", "x", allow=[moved])
    (tmp_path / "s/x/c/0").rename(moved)
    (tmp_path / "s/x/c/0").symlink_to(moved)
    assert read_chunk(array, (0,)).tolist() == [1, 2, 3, 4]


@pytest.mark.parametrize("name", ["none", "crc32c", "zstd"])
def test_boxes_of_plain_chunks_are_partial_reads(tmp_path, name):
    create(tmp_path, "x", (4,), (4,), dtype="i4", compressors=V3[name])
    assert partial(open_array(tmp_path, "x")) == (name == "none")


@pytest.mark.parametrize("dtype", ["<i2", ">f8"])
def test_a_box_of_a_plain_chunk_reads_no_other_bytes(tmp_path, dtype, monkeypatch):
    x = values((6, 50, 400), dtype)
    create(tmp_path, "x", x.shape, x.shape, dtype=dtype, compressors=None)[...] = x
    array = open_array(tmp_path, "x")
    read = []
    preadv = os.preadv
    monkeypatch.setattr(os, "preadv", lambda fd, into, at: read.append(sum(map(len, into))) or preadv(fd, into, at))
    got = read_box(array, (0, 0, 0), (slice(2, 3), slice(10, 12), slice(None)))
    np.testing.assert_array_equal(got, x[2:3, 10:12])
    assert sum(read) == 2 * 400 * array.dtype.itemsize


def test_boxes_take_slices_of_step_one(tmp_path):
    create(tmp_path, "x", (4,), (4,), dtype="i4")
    with pytest.raises(ValueError, match="step 1"):
        read_box(open_array(tmp_path, "x"), (0,), (slice(0, 4, 2),))


def test_boxes_are_counted_from_the_chunks_own_start_and_cut_at_the_arrays_end(tmp_path):
    create(tmp_path, "x", (7,), (4,), dtype="i4", compressors=None)[...] = np.arange(7)
    array = open_array(tmp_path, "x")
    assert read_box(array, (1,), (slice(1, 4),)).tolist() == [5, 6]
    assert read_box(array, (1,), (slice(-1, None),)).tolist() == [6]
    assert read_box(array, (1,), (slice(3, 4),)).tolist() == []


@pytest.mark.parametrize("index", [(2,), (-1,), (99,)])
@pytest.mark.parametrize("chunks", [(4,), [[3, 4]]], ids=["regular", "variable"])
def test_a_chunk_that_the_grid_does_not_have_is_no_fill_value(tmp_path, index, chunks):
    create(tmp_path, "x", (7,), chunks, dtype="i4")
    with pytest.raises(IndexError):
        read_chunk(open_array(tmp_path, "x"), index)


def test_the_stored_size_of_a_chunk_is_that_of_its_file(tmp_path):
    create(tmp_path, "x", (8,), (4,), dtype="f8", compressors=None)[4:] = 1
    array = open_array(tmp_path, "x")
    assert [chunk_bytes(array, (i,)) for i in range(2)] == [0, 32]


@pytest.mark.parametrize("name", ["none", "zstd", "blosc-lz4", "gzip"])
def test_threads_read_the_same(tmp_path, name):
    x = values((64, 30), "f4")
    create(tmp_path, "x", x.shape, (4, 30), dtype="f4", compressors=V3[name])[...] = x
    array = open_array(tmp_path, "x")
    wrong = []

    def read():
        for index, place in boxes(array):
            if not np.array_equal(read_chunk(array, index), x[place]):
                wrong.append(index)

    threads = [threading.Thread(target=read) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong


@pytest.mark.parametrize("index", [-1, -9, 4, 40])
@pytest.mark.parametrize(
    "read",
    [
        read_chunk,
        lambda array, index: ZarrReader(array).filled(index),
        lambda array, index: read_box(array, index, (slice(0, 1),)),
    ],
)
@pytest.mark.parametrize("chunks", [(3,), [[3, 3, 2, 2]]])
@pytest.mark.parametrize("own", [True, False])
def test_chunks_that_are_not_there_are_refused(tmp_path, chunks, read, index, own):
    create(tmp_path, "x", (10,), chunks, dtype="i4", compressors=V3["zstd"] if own else zcn.Adler32())
    with pytest.raises(SelectionError, match=rf"no chunk \({index},\), only \(4,\)"):
        read(open_array(tmp_path, "x"), (index,))


def test_an_empty_array_of_irregular_chunks_has_no_first_one(tmp_path):
    array = create(tmp_path, "x", (10,), [[3, 3, 4]], dtype="i4")
    with zarr.config.set({"array.rectilinear_chunks": True}):
        array.resize((0,))
    with pytest.raises(SelectionError, match="no chunk"):
        read_chunk(open_array(tmp_path, "x"), (0,))


KINDS = {
    "plain": {"compressors": None},
    "compressed": {"compressors": zc.ZstdCodec()},
    "sharded": {"compressors": None, "shards": (8, 4)},
}


@pytest.mark.parametrize("kind", ["plain", "compressed"])
def test_the_stored_bytes_of_a_chunk_are_shown_to_whoever_asks(tmp_path, kind):
    create(tmp_path, "x", (8, 4), (4, 4), dtype="i4", **KINDS[kind])[...] = values((8, 4), "i4")
    array = open_array(tmp_path, "x")
    seen = []
    read_chunk(array, (1, 0), lambda stored: seen.append(bytes(stored)))
    assert seen == [(tmp_path / "x/c/1/0").read_bytes()]


@pytest.mark.parametrize("kind", ["plain", "compressed"])
@pytest.mark.parametrize("read", [read_chunk, lambda a, i: read_box(a, i, (slice(2, 4), slice(1, 2)))])
def test_a_chunk_that_is_cut_short_after_it_was_opened_is_damaged(tmp_path, kind, read):
    create(tmp_path, "x", (8, 4), (4, 4), dtype="i4", **KINDS[kind])[...] = values((8, 4), "i4")

    def opens(path):
        file = os.open(path, os.O_RDONLY)
        status = os.fstat(file)
        os.truncate(path, 10)
        return file, status

    array = replace(open_array(tmp_path, "x"), opens=opens)
    with pytest.raises(FragmentReadError, match=r"chunk \(1, 0\).* is damaged"):
        read(array, (1, 0))


@pytest.mark.parametrize("kind", KINDS)
def test_a_chunk_that_the_system_does_not_let_one_read_is_named(tmp_path, kind):
    create(tmp_path, "x", (8, 4), (4, 4), dtype="i4", **KINDS[kind])[...] = values((8, 4), "i4")

    def opens(path):
        file = os.open(path, os.O_WRONLY)
        return file, os.fstat(file)

    array = replace(open_array(tmp_path, "x"), opens=opens)
    with pytest.raises(FragmentReadError, match=r"chunk \(1, 0\).* cannot be read: Bad file descriptor"):
        read_chunk(array, (1, 0))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("damage", ["none", "absent", "cut", "not readable"])
def test_no_file_is_left_open(tmp_path, kind, damage):
    create(tmp_path, "x", (8, 4), (4, 4), dtype="i4", **KINDS[kind])[...] = values((8, 4), "i4")
    array = open_array(tmp_path, "x")
    path = chunk_file(array)

    def lowest_free():
        number = os.open(tmp_path, os.O_RDONLY)
        os.close(number)
        return number

    if damage == "absent":
        path.unlink()
    elif damage == "cut":
        os.truncate(path, 7)
    elif damage == "not readable":
        array = replace(array, opens=lambda path: (os.open(path, os.O_WRONLY), Path(path).stat()))
    before = lowest_free()
    with nullcontext() if damage in ("none", "absent") else pytest.raises(FragmentReadError):
        read_chunk(array, (0, 0))
    assert lowest_free() == before
