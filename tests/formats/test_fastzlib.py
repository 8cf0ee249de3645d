"""Inflating by libdeflate, by ISA-L and by zlib: the same bytes, and the same verdict on whatever is no such stream."""

import gc
import gzip
import os
import sys
import threading
import zlib
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cfagg.formats import codecs, fastzlib

HAS_LIBDEFLATE = fastzlib.inflate(zlib.compress(b"aaaa"), 4) is not None
needs_libdeflate = pytest.mark.skipif(not HAS_LIBDEFLATE, reason="needs libdeflate")


def oracle(stored, size, *, members):
    """Return what zlib alone makes of it; `None` where that is no chunk of the size."""
    found = b""
    try:
        while stored:
            stream = zlib.decompressobj(47)
            found += stream.decompress(stored, size - len(found) + 1)
            if not stream.eof or len(found) > size:
                return None
            if not members:
                break
            stored = stream.unused_data
    except zlib.error:
        return None
    return found if len(found) == size else None


def ours(stored, size, *, members, out=None):
    try:
        return bytes(codecs.inflate(stored, size, size, out, members=members))
    except codecs.DamagedError:
        return None


#: Of gzip, with the flag of a checksum behind it.
HEAD = b"\x1f\x8b\x08\x02" + bytes(4) + b"\0\xff"


@pytest.fixture(params=["libdeflate", "ISA-L", "zlib"])
def by(request, monkeypatch):
    """Inflate by one of the libraries alone, as where the better ones are not there."""
    if request.param == "libdeflate" and not HAS_LIBDEFLATE:
        pytest.skip("needs libdeflate")
    if request.param != "libdeflate":
        monkeypatch.setattr(fastzlib, "inflate", lambda *_: None)
    if request.param == "zlib":
        monkeypatch.setattr(fastzlib, "decompressobj", zlib.decompressobj)
    return request.param


@st.composite
def streams(draw):
    """Draw a stream of any making, what it may hold, and damage."""
    size = draw(st.integers(0, 3000))
    plain = np.random.default_rng(draw(st.integers(0, 9))).integers(0, draw(st.sampled_from([1, 9, 256])), size, "u1")
    pieces = []
    for part in np.array_split(plain, draw(st.integers(1, 3))):
        form = draw(st.sampled_from([15, 9, 31, -15]))
        packer = zlib.compressobj(draw(st.integers(0, 9)), wbits=form, strategy=draw(st.sampled_from([0, 2, 4])))
        pieces.append(packer.compress(part.tobytes()) + packer.flush())
    stored = bytearray(b"".join(pieces))
    for _ in range(draw(st.sampled_from([0, 0, 1, 2]))):
        stored[draw(st.integers(0, len(stored) - 1))] ^= draw(st.integers(1, 255))
    cut = draw(st.sampled_from([0, 0, 1, 4, 9]))
    stored = stored[: len(stored) - cut] + draw(st.sampled_from([b"", b"", b"\0", b"trailing bytes"]))
    return bytes(stored), max(size + draw(st.sampled_from([0, 0, 0, -1, 1, -500, 70_000])), 0)


@pytest.mark.parametrize("members", [False, True])
def test_the_bytes_and_the_verdict_are_those_of_zlib(by, members):
    @settings(max_examples=150, deadline=None)
    @given(streams())
    def check(drawn):
        stored, size = drawn
        expected = oracle(stored, size, members=members)
        room = np.full(size + 16, 7, np.uint8)
        assert ours(stored, size, members=members) == expected
        assert ours(memoryview(stored), size, members=members, out=room[:size]) == expected
        assert (room[size:] == 7).all()

    check()


@pytest.mark.parametrize(
    "stored",
    [
        pytest.param(zlib.compress(b"a" * 100)[:-1], id="truncated checksum"),
        pytest.param(zlib.compress(b"a" * 100)[:-1] + b"\0", id="wrong checksum"),
        pytest.param(zlib.compress(b"a" * 99), id="fewer bytes"),
        pytest.param(zlib.compress(b"a" * 101), id="more bytes"),
        pytest.param(gzip.compress(b"a" * 100)[:-4] + b"\0\0\0\0", id="wrong length of gzip"),
        pytest.param(HEAD + b"\0\0" + gzip.compress(b"a" * 100)[10:], id="wrong checksum of the header"),
        pytest.param(b"\x1f", id="one byte"),
        pytest.param(b"", id="nothing"),
        pytest.param(zlib.compress(b"a" * 100, wbits=-15), id="no header"),
    ],
)
def test_what_is_no_chunk_of_the_size_is_refused_in_the_same_words(by, stored, monkeypatch):
    with pytest.raises(codecs.DamagedError) as found:
        codecs.inflate(stored, 100, 100)
    monkeypatch.setattr(fastzlib, "inflate", lambda *_: None)
    monkeypatch.setattr(fastzlib, "decompressobj", zlib.decompressobj)
    with pytest.raises(codecs.DamagedError) as expected:
        codecs.inflate(stored, 100, 100)
    assert str(found.value) == str(expected.value)


def test_members_of_gzip_are_joined_and_what_follows_a_stream_of_hdf5_does_not_count(by):
    both = gzip.compress(b"ab") + gzip.compress(b"cd")
    assert bytes(codecs.inflate(both, 4, 4)) == b"abcd"
    assert bytes(codecs.inflate(both, 2, 2, members=False)) == b"ab"
    with pytest.raises(codecs.DamagedError, match="too many bytes"):
        codecs.inflate(both, 2, 2)


def test_an_empty_chunk_is_an_empty_stream(by):
    assert bytes(codecs.inflate(zlib.compress(b""), 0, 0)) == b""


@needs_libdeflate
def test_memory_is_not_made_for_a_stream_that_cannot_fill_it(monkeypatch):
    stored = zlib.compress(b"a")
    monkeypatch.setattr(np, "empty", lambda *_: pytest.fail("memory was made"))
    assert fastzlib.inflate(stored, 2**40) is None


@needs_libdeflate
def test_memory_that_is_not_fit_is_never_written():
    stored = zlib.compress(b"a" * 8)
    for out in (np.zeros(16, np.uint8)[::2], np.frombuffer(bytes(8), np.uint8)):
        with pytest.raises((TypeError, ValueError)):
            fastzlib.inflate(stored, 8, out)
        assert not out.any()
    assert fastzlib.inflate(stored, 8, np.zeros(4, np.uint8)) is None


def test_threads_inflate_at_the_same_time(by):
    chunks = [np.full(1000 + i, i % 251, np.uint8).tobytes() for i in range(200)]
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda c: bytes(codecs.inflate(zlib.compress(c), len(c), len(c))), chunks))
    assert found == chunks


@needs_libdeflate
@pytest.mark.parametrize("pack", [zlib.compress, gzip.compress])
def test_streams_of_either_format_are_inflated_by_libdeflate(pack):
    found = fastzlib.inflate(pack(b"abcd"), 4)
    assert found is not None
    assert (bytes(found[0]), found[1]) == (b"abcd", True)
    assert fastzlib.inflate(pack(b"abcd") + b"x", 4)[1] is False


@needs_libdeflate
def test_the_memory_of_a_thread_goes_with_it():
    made, freed = [], threading.Event()

    def work():
        fastzlib.inflate(zlib.compress(b"aaaa"), 4)
        state = fastzlib._kept.state
        free = state._free
        made.append(state.made)
        state._free = lambda one: (free(one), one == made[0] and freed.set())

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    gc.collect()
    assert freed.wait(60)


@pytest.mark.skipif(sys.platform != "linux", reason="forks")
def test_a_forked_process_inflates():
    codecs.inflate(zlib.compress(b"aaaa"), 4, 4)
    child = os.fork()
    if not child:
        right = False
        try:
            right = bytes(codecs.inflate(zlib.compress(b"aaaa"), 4, 4)) == b"aaaa"
        finally:
            os._exit(not right)
    assert os.waitpid(child, 0)[1] == 0


def test_without_the_package_its_functions_or_its_memory_zlib_inflates(monkeypatch):
    fastzlib._library.cache_clear()
    monkeypatch.setitem(sys.modules, "deflate", None)
    monkeypatch.setattr(fastzlib, "_kept", threading.local())
    try:
        assert fastzlib._library() is None
        assert fastzlib.inflate(zlib.compress(b"aaaa"), 4) is None
        assert bytes(codecs.inflate(zlib.compress(b"aaaa"), 4, 4)) == b"aaaa"
    finally:
        fastzlib._library.cache_clear()
