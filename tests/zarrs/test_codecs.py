"""Decoding of single chunks: streams of other writers, and streams that are damaged."""

from __future__ import annotations

import gzip
import zlib

import numcodecs
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cfagg.zarrs.codecs import DamagedError, decoder

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
    with pytest.raises(DamagedError, match="no whole number of elements of 4"):
        of_v2(None, [{"id": "shuffle", "elementsize": 4}]).decode(RAW[:-1], len(RAW))


@pytest.mark.parametrize("name", ["zstd", "blosc", "lz4", "gzip", "zlib"])
@pytest.mark.parametrize("expected", [0, 1, len(RAW) - 1, len(RAW) + 1, 2 * len(RAW)])
def test_another_size_than_expected_is_refused(name, expected):
    decode, stored = encoded(name)
    with pytest.raises(DamagedError, match=r"expected|too many"):
        decode.decode(stored, expected)


def test_a_stream_that_grows_without_end_is_stopped():
    stored = zlib.compress(bytes(200_000_000), 9)
    with pytest.raises(DamagedError, match="too many"):
        of_v2({"id": "zlib"}).decode(stored, 1000)


@settings(max_examples=150)
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


@settings(max_examples=60)
@given(st.sampled_from(["zstd", "blosc", "lz4", "gzip", "zlib"]), st.binary(max_size=60))
def test_noise_is_refused(name, noise):
    with pytest.raises(DamagedError):
        encoded(name)[0].decode(noise, len(RAW))
