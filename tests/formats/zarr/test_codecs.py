"""Decoding of single chunks: streams of other writers, and streams that are damaged."""

from __future__ import annotations

import gzip
import os
import tracemalloc
import zlib

import numcodecs
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cfagg.conventions import limits
from cfagg.errors import FragmentReadError, LimitError
from cfagg.formats.zarr import open_array, read_box, read_chunk
from cfagg.formats.zarr.codecs import DamagedError, decoder
from tests.effort import examples
from tests.formats.zarr.stores import create
from tests.poison import damaged_forms, outcome

RAW = np.arange(500, dtype="<i4").tobytes()


def of_v2(compressor, filters=None, dtype="<i4"):
    """Return the decoder of a Zarr v2 array."""
    document = {"shape": [500], "dtype": dtype, "order": "C", "compressor": compressor, "filters": filters}
    return decoder(document, 2, np.dtype(dtype))


def encoded(name):
    """Return the decoder of a codec, and an encoded chunk."""
    codec = {
        "zstd": numcodecs.Zstd(1),
        "blosc": numcodecs.Blosc("lz4"),
        "lz4": numcodecs.LZ4(),
        "gzip": numcodecs.GZip(1),
        "zlib": numcodecs.Zlib(1),
    }[name]
    return of_v2(codec.get_config()), bytes(codec.encode(np.frombuffer(RAW, "<i4")))


def test_gzip_files_of_several_members_are_one_chunk():
    stored = gzip.compress(RAW[:800]) + gzip.compress(RAW[800:])
    assert of_v2({"id": "gzip"}).decode(stored, len(RAW)).tobytes() == RAW


def test_zstd_without_a_size_in_its_header_is_decoded():
    # A frame of one raw block, whose header gives a window and no size (RFC 8878, section 3.1.1).
    block = (len(RAW) << 3 | 1).to_bytes(3, "little")
    stored = b"\x28\xb5\x2f\xfd" + bytes([0x00, 0x58]) + block + RAW
    assert of_v2({"id": "zstd"}).decode(stored, len(RAW)).tobytes() == RAW


@pytest.mark.parametrize("size", [10, 255, 256, 300, 66_000])
@pytest.mark.parametrize("name", ["zstd", "blosc", "lz4", "gzip"])
def test_chunks_of_all_sizes_come_back_writable(name, size):
    raw = np.random.default_rng(size).integers(0, 3, size, np.uint8)
    codec = {"zstd": numcodecs.Zstd(), "blosc": numcodecs.Blosc(), "lz4": numcodecs.LZ4(), "gzip": numcodecs.GZip()}[
        name
    ]
    out = of_v2(codec.get_config(), dtype="|u1").decode(bytes(codec.encode(raw)), size)
    assert out.flags.writeable
    np.testing.assert_array_equal(out, raw)


@pytest.mark.parametrize("size", [1, 2, 4, 8])
def test_the_filter_shuffle_is_undone(size):
    codec, filtering = numcodecs.Zlib(1), numcodecs.Shuffle(size)
    stored = bytes(codec.encode(filtering.encode(np.frombuffer(RAW, "<i4"))))
    found = of_v2(codec.get_config(), [filtering.get_config()]).decode(stored, len(RAW))
    assert found.tobytes() == RAW


def test_bytes_that_are_no_whole_elements_are_refused():
    with pytest.raises(DamagedError, match="not a whole number of elements of 4"):
        of_v2(None, [{"id": "shuffle", "elementsize": 4}]).decode(RAW[:-1], len(RAW))


@pytest.mark.parametrize("name", ["zstd", "blosc", "lz4", "gzip", "zlib"])
@pytest.mark.parametrize("expected", [0, 1, len(RAW) - 1, len(RAW) + 1, 2 * len(RAW)])
def test_another_size_than_expected_is_refused(name, expected):
    decode, stored = encoded(name)
    with pytest.raises(DamagedError, match=r"expected|too many"):
        decode.decode(stored, expected)


def test_a_stream_that_grows_without_end_is_stopped():
    stored = zlib.compress(bytes(20_000_000), 9)
    with pytest.raises(DamagedError, match="too many"):
        of_v2({"id": "zlib"}).decode(stored, 1000)


@settings(max_examples=examples(150))
@given(st.sampled_from(["zstd", "blosc", "lz4", "gzip", "zlib"]), st.data())
def test_damaged_streams_decode_to_the_chunks_size_or_are_refused(name, data):
    decode, stored = encoded(name)
    broken = bytearray(stored[: data.draw(st.integers(0, len(stored)))] if data.draw(st.booleans()) else stored)
    for place in data.draw(st.lists(st.integers(0, len(stored) - 1), max_size=3)):
        if place < len(broken):
            broken[place] ^= data.draw(st.integers(1, 255))
    try:
        out = decode.decode(bytes(broken), len(RAW))
    except DamagedError:
        return
    assert out.size == len(RAW)


@settings(max_examples=examples(60))
@given(st.sampled_from(["zstd", "blosc", "lz4", "gzip", "zlib"]), st.binary(max_size=60))
def test_noise_is_refused(name, noise):
    with pytest.raises(DamagedError):
        encoded(name)[0].decode(noise, len(RAW))


CHAINS = [
    *([{"id": n}] for n in ("zstd", "blosc", "lz4", "gzip", "zlib", "bz2", "lzma")),
    *([{"id": n}, {"id": "fletcher32"}] for n in ("zstd", "lz4")),
    *([{"id": "fletcher32"}, {"id": n}] for n in ("zstd", "blosc", "lz4", "gzip", "bz2")),
    *([{"id": "shuffle", "elementsize": 4}, {"id": n}] for n in ("zstd", "zlib", "blosc")),
    *([{"id": n}, {"id": "shuffle", "elementsize": 1}] for n in ("zstd", "zlib", "blosc", "bz2")),
    [{"id": "delta", "dtype": "<i4"}, {"id": "zlib"}],
    [{"id": "delta", "dtype": "<i4", "astype": "<i8"}, {"id": "zstd"}],
    [{"id": "fixedscaleoffset", "scale": 1, "offset": 0, "dtype": "<i4", "astype": "<f8"}, {"id": "zlib"}],
    [{"id": "zlib"}, {"id": "zstd"}],
    [{"id": "zstd"}, {"id": "bz2"}, {"id": "lz4"}],
]


def packed(chain, values):
    """Return bytes encoded by numcodecs."""
    for configuration in chain:
        values = numcodecs.get_codec(configuration).encode(
            np.ascontiguousarray(np.frombuffer(values, np.asarray(values).dtype))
        )
    return bytes(values)


@pytest.mark.parametrize("chain", CHAINS, ids=lambda c: "+".join(s["id"] for s in c))
def test_damaged_chunks_are_refused_or_decode_to_nothing_but_what_they_hold(chain):
    values = (np.arange(500) % 97).astype("<i4")
    stored, other = packed(chain, values), packed(chain, values[:250])
    decode = of_v2(chain[-1], chain[:-1])
    assert outcome(lambda _: decode.decode(stored, values.nbytes)) == values.tobytes()
    for name, raw in damaged_forms(stored, other).items():
        found = outcome(lambda _, raw=raw: decode.decode(raw, values.nbytes))
        if found is not None:
            assert len(found) == values.nbytes, name
            if name.startswith(("cut", "shorter", "empty")):
                assert found == values.tobytes(), name


@pytest.mark.few(3)
@pytest.mark.parametrize("chain", CHAINS, ids=lambda c: "+".join(s["id"] for s in c))
def test_a_chain_that_grows_without_end_is_stopped_at_every_step(chain):
    values = np.zeros(10_000_000, "<i4")
    decode = of_v2(chain[-1], chain[:-1])
    stored = packed(chain, values)
    del values
    tracemalloc.start()
    with pytest.raises(DamagedError):
        decode.decode(stored, 4000)
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    # The dictionary of LZMA has 8 MiB.
    assert most < len(stored) + (9_000_000 if {"id": "lzma"} in chain else 2_000_000)


def test_zstd_of_several_frames_with_and_without_sizes_is_one_chunk():
    parts = [numcodecs.Zstd(1).encode(RAW[:700]), numcodecs.Zstd(1).encode(RAW[700:])]
    skipped = b"\x50\x2a\x4d\x18" + (5).to_bytes(4, "little") + b"aside"
    decode = of_v2({"id": "zstd"})
    assert decode.decode(b"".join(parts), len(RAW)).tobytes() == RAW
    assert decode.decode(skipped + b"".join(parts), len(RAW)).tobytes() == RAW
    assert decode.decode(parts[0] + skipped + parts[1], len(RAW)).tobytes() == RAW
    unsized = bytes(parts[0]) + b"\x28\xb5\x2f\xfd" + bytes([0x00, 0x58])
    unsized += (len(RAW[700:]) << 3 | 1).to_bytes(3, "little") + RAW[700:]
    assert decode.decode(unsized, len(RAW)).tobytes() == RAW
    for wrong in (len(RAW) - 1, len(RAW) + 1, 700):
        with pytest.raises(DamagedError):
            decode.decode(unsized, wrong)


def test_more_codecs_than_any_array_needs_are_refused():
    with pytest.raises(LimitError, match="40 codecs"):
        of_v2({"id": "zlib"}, [{"id": "zlib"}] * 39)


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_a_chunk_larger_than_allowed_is_refused_with_the_setting_that_allows_it(tmp_path, monkeypatch, zarr_format):
    create(tmp_path, "x", (50_000,), (50_000,), dtype="f8", zarr_format=zarr_format)[...] = 1
    array = open_array(tmp_path, "x")
    monkeypatch.setattr(limits, "MAX_CHUNK", 399_999)
    for read in (lambda: read_chunk(array, (0,)), lambda: read_box(array, (0,), (slice(0, 2),))):
        with pytest.raises(LimitError, match=r"'x' takes 400,000 bytes.*CFAGG_MAX_CHUNK=400000"):
            read()
    monkeypatch.setattr(limits, "MAX_CHUNK", 400_000)
    assert read_box(array, (0,), (slice(0, 2),)).tolist() == [1, 1]


def test_a_chunk_of_hundreds_of_gigabytes_is_an_error_of_cfagg(tmp_path):
    create(tmp_path, "x", (10**11,), (10**11,), dtype="f8")
    (tmp_path / "x/c").mkdir()
    (tmp_path / "x/c/0").write_bytes(numcodecs.Zstd().encode(bytes(1000)))
    with pytest.raises(LimitError, match="800,000,000,000 bytes"):
        read_chunk(open_array(tmp_path, "x"), (0,))


def test_a_stored_chunk_far_larger_than_its_content_is_refused_unread(tmp_path):
    create(tmp_path, "x", (10,), (10,), dtype="f8")[...] = 1
    os.truncate(tmp_path / "x/c/0", 2**40)
    with pytest.raises(FragmentReadError, match="is stored in 1,099,511,627,776 bytes"):
        read_chunk(open_array(tmp_path, "x"), (0,))


def test_the_index_of_a_shard_of_very_many_chunks_is_refused_unread(tmp_path):
    create(tmp_path, "x", (10**9,), (1,), shards=(10**9,), dtype="u1")
    (tmp_path / "x/c").mkdir()
    (tmp_path / "x/c/0").write_bytes(b"")
    os.truncate(tmp_path / "x/c/0", 2**40)
    with pytest.raises(LimitError, match=r"16,000,000,004 bytes.*MAX_INDEX"):
        read_chunk(open_array(tmp_path, "x"), (0,))


@pytest.mark.parametrize("given", ["<<i4", "<>|i4", "|<i4", "", "<", "i8"])
def test_a_type_that_is_not_that_of_the_elements_has_no_decoder(given):
    document = {"shape": [4], "dtype": given, "compressor": None, "filters": None}
    assert decoder(document, 2, np.dtype("<i4")) is None
    assert decoder({**document, "dtype": ">i4"}, 2, np.dtype("<i4")).swap
