"""Undoing compression within bounds: what encoders of others make, cut, lengthened, and with false sizes."""

from __future__ import annotations

import bz2
import gzip
import lzma
import zlib

import google_crc32c
import numcodecs
import numpy as np
import pytest
from numcodecs.fletcher32 import Fletcher32

from cfagg.conventions import limits
from cfagg.errors import LimitError
from cfagg.formats import codecs
from cfagg.formats.codecs import DamagedError
from tests.poison import POISONS, poisoned

RAW = bytes(range(256)) * 4
HALF = RAW[:512]


def block(raw, *, last=True, form=0):
    """Return a raw or run-length block of a zstd frame (RFC 8878, section 3.1.1.2)."""
    return (len(raw) << 3 | form << 1 | last).to_bytes(3, "little") + (raw[:1] if form else raw)


def frame(raw, *, size=None, single=False, dictionary=0, blocks=None):
    """Return a zstd frame (RFC 8878, section 3.1.1) of the blocks given, or of one raw block."""
    width = {None: 0, 1: 1, 2: 2, 4: 4, 8: 8}[size]
    flag = {0: 0, 1: 0, 2: 1, 4: 2, 8: 3}[width]
    descriptor = flag << 6 | single << 5 | dictionary
    length = len(raw) - (256 if width == 2 else 0)
    head = b"\x28\xb5\x2f\xfd" + bytes([descriptor]) + (b"" if single else b"\x58")
    head += bytes((0, 1, 2, 4)[dictionary])
    head += length.to_bytes(width, "little") if width else b""
    return head + (block(raw) if blocks is None else blocks)


def skippable(length, mark=0x5A):
    return bytes([mark]) + b"\x2a\x4d\x18" + length.to_bytes(4, "little") + b"\xff" * length


def zstd(raw):
    return bytes(numcodecs.Zstd(3).encode(raw))


DECODERS = {
    "zlib": (codecs.inflate, zlib.compress),
    "gzip": (codecs.inflate, lambda raw: gzip.compress(raw, mtime=0)),
    "bzip2": (codecs.bunzip2, bz2.compress),
    "xz": (codecs.unlzma, lzma.compress),
    "lzma": (codecs.unlzma, lambda raw: lzma.compress(raw, format=lzma.FORMAT_ALONE)),
    "zstd": (codecs.unzstd, zstd),
    "zstd without size": (codecs.unzstd, frame),
    "blosc": (codecs.unblosc, lambda raw: bytes(numcodecs.Blosc("lz4", shuffle=0).encode(raw))),
    "lz4": (codecs.unlz4, lambda raw: bytes(numcodecs.LZ4().encode(raw))),
}
#: Formats of which several may follow each other as one.
STREAMS = ("gzip", "bzip2", "xz", "zstd", "zstd without size")


def told(decode, stored, fewest, most, out=None):
    """Return the decoded bytes, which have to be the same whatever the memory held."""
    found = set()
    for poison in POISONS:
        with poisoned(poison):
            if out is not None:
                out[...] = poison
            found.add(bytes(decode(stored, fewest, most) if out is None else decode(stored, fewest, most, out)))
    assert len(found) == 1
    return found.pop()


@pytest.mark.few(36)
@pytest.mark.parametrize("name", DECODERS)
@pytest.mark.parametrize(
    "view", [bytes, memoryview, lambda raw: np.frombuffer(raw, np.uint8)], ids=["bytes", "memoryview", "array"]
)
@pytest.mark.parametrize(("fewest", "most"), [(1024, 1024), (0, 1024), (1024, 5000), (1000, 1030)])
def test_what_an_encoder_made_comes_back(name, view, fewest, most):
    decode, encode = DECODERS[name]
    stored = view(encode(RAW))
    assert told(decode, stored, fewest, most) == RAW
    assert told(decode, stored, fewest, most, np.empty(most, np.uint8)) == RAW


@pytest.mark.parametrize("name", DECODERS)
@pytest.mark.parametrize(("fewest", "most"), [(1025, 1025), (1025, 2000), (0, 1023), (1023, 1023), (0, 0)])
def test_another_number_of_bytes_is_refused(name, fewest, most):
    decode, encode = DECODERS[name]
    with pytest.raises(DamagedError, match=r"decodes to|expected|too small"):
        decode(encode(RAW), fewest, most)


@pytest.mark.parametrize("name", STREAMS)
def test_several_streams_are_one(name):
    decode, encode = DECODERS[name]
    assert told(decode, encode(RAW[:200]) + encode(RAW[200:]), 1024, 1024) == RAW
    stored = encode(RAW[:200]) + encode(RAW[200:900]) + encode(RAW[900:])
    assert told(decode, stored, 1024, 1024) == RAW
    assert told(decode, stored, 0, 2000) == RAW
    assert told(decode, stored, 1024, 1024, np.empty(1024, np.uint8)) == RAW
    for fewest, most in ((0, 1023), (1025, 1025), (1025, 3000), (0, 199)):
        with pytest.raises(DamagedError):
            decode(stored, fewest, most)


@pytest.mark.parametrize("name", STREAMS)
def test_many_streams_are_not_copied_again_for_each_of_them(name, monkeypatch):
    decode, encode = DECODERS[name]
    stored, given = encode(b"") * 2000, []
    real = codecs._streams

    class Counted:
        def __init__(self, stream):
            self.stream = stream

        def decompress(self, data, most):
            given.append(len(data))
            return self.stream.decompress(data, most)

        def __getattr__(self, name):
            return getattr(self.stream, name)

    monkeypatch.setattr(codecs, "_streams", lambda make, *a, **k: real(lambda: Counted(make()), *a, **k))
    with pytest.raises(DamagedError, match="decodes to 0 bytes"):
        decode(stored, 10, 20)
    assert sum(given) <= len(stored) + 2000 * 4096


@pytest.mark.parametrize("name", STREAMS)
def test_a_further_stream_may_be_long(name):
    decode, encode = DECODERS[name]
    noise = np.random.default_rng(0).bytes(300_000)
    stored = encode(RAW) + encode(noise) + encode(RAW)
    assert told(decode, stored, 300_000 + 2 * len(RAW), 300_000 + 2 * len(RAW)) == RAW + noise + RAW


def test_a_further_member_may_have_a_long_header():
    named = bytearray(gzip.compress(RAW))
    named[3] |= 8
    stored = gzip.compress(HALF) + bytes(named[:10]) + b"n" * 10_000 + b"\0" + bytes(named[10:])
    assert told(codecs.inflate, stored, 1536, 1536) == HALF + RAW


@pytest.mark.few(24)
@pytest.mark.parametrize("name", [n for n in DECODERS if n != "lzma"])
@pytest.mark.parametrize("missing", [1, 2, 4, 8])
@pytest.mark.parametrize("most", [1024, 5000])
def test_a_stream_without_its_end_is_refused_though_all_its_bytes_may_be_there(name, missing, most):
    decode, encode = DECODERS[name]
    with pytest.raises(DamagedError):
        decode(encode(RAW)[:-missing], 0 if most > 1024 else 1024, most)


@pytest.mark.parametrize("name", DECODERS)
@pytest.mark.parametrize("stored", [b"", b"\0", b"\xff" * 3, b"\xff" * 20, b"no stream of any kind"], ids=str)
def test_what_is_no_stream_is_refused(name, stored):
    decode = DECODERS[name][0]
    with pytest.raises(DamagedError):
        decode(stored, 16, 1024)


@pytest.mark.parametrize("name", DECODERS)
def test_a_changed_byte_is_refused_or_gives_the_right_number_of_bytes(name):
    decode, encode = DECODERS[name]
    stored = encode(RAW)
    for at in range(min(len(stored), 60)):
        changed = stored[:at] + bytes([stored[at] ^ 0x11]) + stored[at + 1 :]
        try:
            assert len(told(decode, changed, 1024, 1024)) == 1024
        except DamagedError:
            continue


def test_hdf5_takes_the_first_stream_of_several():
    stored = zlib.compress(RAW) + b"anything"
    assert bytes(codecs.inflate(stored, 1024, 1024, members=False)) == RAW
    with pytest.raises(DamagedError):
        codecs.inflate(stored, 1024, 1024)
    assert bytes(codecs.inflate(zlib.compress(HALF) + zlib.compress(HALF), 0, 1024, members=False)) == HALF


@pytest.mark.parametrize("name", ["gzip", "zlib", "bzip2", "xz"])
def test_a_stream_that_would_grow_is_stopped_one_byte_too_late(name):
    decode, encode = DECODERS[name]
    with pytest.raises(DamagedError, match="decodes to too many bytes, expected 1,000"):
        decode(encode(bytes(10**6)), 0, 1000)


def test_lzma_that_asks_for_much_memory_is_refused():
    filters = [{"id": lzma.FILTER_LZMA2, "preset": 0, "dict_size": 1 << 29}]
    with pytest.raises(DamagedError, match=r"[Mm]emory"):
        codecs.unlzma(lzma.compress(RAW, filters=filters), 1024, 1024)
    strongest = lzma.compress(RAW, preset=9)
    assert bytes(codecs.unlzma(strongest, 1024, 1024)) == RAW


@pytest.mark.parametrize("size", [None, 2, 4, 8])
@pytest.mark.parametrize("single", [False, True])
def test_sizes_of_all_widths_in_headers_of_zstd(size, single):
    if single and size is None:
        size = 1
    raw = RAW[:200] if size == 1 else RAW
    stored = frame(raw, size=size, single=single)
    for fewest, most in ((len(raw), len(raw)), (0, 3000)):
        assert told(codecs.unzstd, stored, fewest, most) == raw
    for cut in range(4, len(stored)):
        with pytest.raises(DamagedError):
            codecs.unzstd(stored[:cut], len(raw), len(raw))


def test_frames_of_zstd_may_be_skipped():
    for mark in range(0x50, 0x60):
        stored = skippable(3, mark) + frame(RAW) + skippable(5, mark)
        assert told(codecs.unzstd, stored, 1024, 1024) == told(codecs.unzstd, stored, 0, 2000) == RAW
    for stored in (skippable(3) + zstd(RAW), zstd(RAW) + skippable(0), skippable(9) + frame(RAW) + skippable(2)):
        assert told(codecs.unzstd, stored, 1024, 1024) == RAW
    assert bytes(codecs.unzstd(skippable(4), 0, 10)) == b""
    with pytest.raises(DamagedError):
        codecs.unzstd(skippable(4), 1, 10)
    with pytest.raises(DamagedError):
        codecs.unzstd(zstd(RAW) + skippable(9)[:-1], 1024, 1024)
    with pytest.raises(DamagedError, match="not compressed with zstd"):
        codecs.unzstd(b"\x60" + skippable(4)[1:], 0, 10)


def test_a_run_of_zstd_counts_with_its_length():
    stored = frame(b"", blocks=block(bytes(1000), form=1))
    assert told(codecs.unzstd, stored, 1000, 1000) == bytes(1000)
    assert told(codecs.unzstd, stored, 0, 1000) == bytes(1000)


def test_frames_of_zstd_without_sizes_that_could_become_far_too_much_are_not_decoded():
    stored = frame(b"", blocks=block(bytes(100_000), form=1)) * 3
    with pytest.raises(DamagedError, match="does not give its decoded size"):
        codecs.unzstd(stored, 0, 1000)
    assert told(codecs.unzstd, stored, 0, 300_000) == bytes(300_000)
    for length, said in ((67_786, "decodes to 67,786 bytes"), (67_787, "does not give its decoded size")):
        with pytest.raises(DamagedError, match=said):
            codecs.unzstd(frame(b"", blocks=block(bytes(length), form=1)), 0, 1000)


def test_a_packed_block_of_zstd_without_a_size_may_become_as_much_as_a_block_can():
    packed = zstd(bytes(100_000))
    kind = packed[4]
    begin = 5 + (1 - (kind >> 5 & 1)) + (kind >> 5 & 1, 2, 4, 8)[kind >> 6]
    stored = frame(b"", blocks=packed[begin:])
    assert len(stored) < 100
    assert told(codecs.unzstd, stored, 0, 100_000) == bytes(100_000)
    with pytest.raises(DamagedError, match="does not give its decoded size"):
        codecs.unzstd(stored, 0, 1000)


@pytest.mark.parametrize("dictionary", [1, 2, 3])
@pytest.mark.parametrize("size", [None, 2, 4, 8])
def test_a_frame_of_zstd_may_name_no_dictionary_in_a_field_of_any_width(dictionary, size):
    stored = frame(RAW, size=size, dictionary=dictionary)
    assert told(codecs.unzstd, stored, 1024, 1024) == RAW
    assert told(codecs.unzstd, stored + stored, 0, 2048) == RAW + RAW


def test_a_frame_of_zstd_may_have_several_blocks_and_a_checksum():
    blocks = block(RAW[:100], last=False) + block(b"", last=False) + block(RAW[100:])
    checked = bytes(numcodecs.Zstd(3, checksum=True).encode(HALF))
    for stored in (frame(b"", blocks=blocks), frame(RAW, size=2, blocks=blocks), checked + checked):
        for fewest, most in ((1024, 1024), (0, 2000)):
            found = told(codecs.unzstd, stored, fewest, most)
            assert found == (HALF + HALF if stored == checked + checked else RAW)
            with pytest.raises(DamagedError):
                codecs.unzstd(stored[:-1], fewest, most)


def test_a_frame_of_zstd_may_hold_nothing():
    for fewest, most in ((0, 0), (0, 10)):
        assert bytes(codecs.unzstd(frame(b""), fewest, most)) == b""
    for stored in (frame(b"x"), skippable(4) + zstd(b"x")):
        with pytest.raises(DamagedError, match="decodes to 1 bytes, expected 0"):
            codecs.unzstd(stored, 0, 0)
    with pytest.raises(DamagedError):
        codecs.unzstd(frame(b"") * 2, 1, 10)


@pytest.mark.parametrize("order", [1, -1])
def test_frames_of_zstd_with_and_without_sizes_may_follow_each_other(order):
    first, second = frame(HALF), frame(HALF, size=4)
    stored = b"".join([first, second, first][::order])
    for fewest, most in ((1536, 1536), (0, 2000)):
        assert told(codecs.unzstd, stored, fewest, most) == HALF * 3


def test_a_header_of_zstd_that_is_cut_off_is_told_from_a_stream_that_is():
    stored = frame(RAW, size=8)
    with pytest.raises(DamagedError, match="its header ends early"):
        codecs.unzstd(stored[:13], 1024, 1024)
    with pytest.raises(DamagedError) as caught:
        codecs.unzstd(stored[:14], 1024, 1024)
    assert "header" not in str(caught.value)


def test_damage_within_a_block_of_zstd_is_refused():
    blocks = (40 << 3 | 2 << 1 | 1).to_bytes(3, "little") + b"\xff" * 40
    for fewest, most in ((1024, 1024), (0, 2000)):
        with pytest.raises(DamagedError):
            codecs.unzstd(frame(b"", blocks=blocks), fewest, most)


@pytest.mark.parametrize(("fewest", "most", "said"), [(9, 9, "expected 9$"), (0, 9, "expected 0 to 9$")])
def test_the_number_of_bytes_that_was_expected_is_named(fewest, most, said):
    with pytest.raises(DamagedError, match=f"decodes to 1,024 bytes, {said}"):
        codecs.unblosc(bytes(numcodecs.Blosc().encode(RAW)), fewest, most)


@pytest.mark.parametrize("length", [0, 4, 15])
def test_blosc_without_room_for_its_header_is_refused(length):
    stored = bytes(numcodecs.Blosc().encode(RAW))[:length]
    with pytest.raises(DamagedError, match=f"its {length} bytes are too few for the header of blosc"):
        codecs.unblosc(stored, 1024, 1024)


def test_blosc_of_nothing_is_nothing():
    stored = bytes(numcodecs.Blosc().encode(b""))
    assert len(stored) == 16
    assert bytes(codecs.unblosc(stored, 0, 10)) == b""


def test_blosc_that_claims_more_bytes_than_there_are_is_refused():
    stored = bytes(numcodecs.Blosc().encode(RAW))
    with pytest.raises(DamagedError, match=r"it has [\d,]+ of the [\d,]+ bytes that its header gives"):
        codecs.unblosc(stored[:-1], 1024, 1024)
    assert bytes(codecs.unblosc(stored + b"x", 1024, 1024)) == RAW


def test_lz4_of_nothing_is_nothing():
    stored = bytes(4) + b"\0"
    assert bytes(codecs.unlz4(stored, 0, 1024)) == b""


@pytest.mark.parametrize("length", [0, 4])
def test_lz4_without_room_for_a_stream_is_refused(length):
    with pytest.raises(DamagedError, match="too few for a size and a stream"):
        codecs.unlz4(bytes(length), 0, 1024)


@pytest.mark.parametrize("size", [2, 3, 4, 8])
@pytest.mark.parametrize("rest", [0, 1])
@pytest.mark.parametrize("out", [None, 1000, 1020, 1021, 1025])
def test_sorted_bytes_come_back_and_what_fills_no_element_stays_at_the_end(size, rest, out):
    raw = np.frombuffer(RAW[: 1020 // size * size] + RAW[:rest], np.uint8)
    whole = raw.size - rest
    stored = b"".join(raw[:whole].reshape(-1, size)[:, k].tobytes() for k in range(size)) + raw[whole:].tobytes()
    for poison in POISONS:
        with poisoned(poison):
            memory = None if out is None else np.empty(out, np.uint8)
            found = codecs.unshuffle(stored, size, memory)
        assert bytes(found) == raw.tobytes()
        assert memory is None or np.shares_memory(found, memory) == (memory.size >= raw.size)


@pytest.mark.parametrize("size", [0, 1, 9])
def test_bytes_of_no_whole_element_are_as_they_are(size):
    assert bytes(codecs.unshuffle(b"12345678", size)) == b"12345678"


@pytest.mark.parametrize("raw", [b"", b"x", RAW])
def test_crc32c_is_checked_and_removed(raw):
    stored = raw + int(google_crc32c.value(raw)).to_bytes(4, "little")
    assert bytes(codecs.strip_crc32c(stored)) == raw
    with pytest.raises(DamagedError, match=r"its checksum is [0-9a-f]{8}, expected"):
        codecs.strip_crc32c(stored[:-1] + bytes([stored[-1] ^ 1]))
    with pytest.raises(DamagedError, match="its 3 bytes are too few for a checksum"):
        codecs.strip_crc32c(stored[:3] if raw else b"123")


@pytest.mark.parametrize("raw", [b"1", b"12", RAW, RAW[:-1]])
def test_fletcher32_is_checked_and_removed(raw):
    stored = bytes(Fletcher32().encode(np.frombuffer(raw, np.uint8)))
    assert bytes(codecs.strip_fletcher32(stored)) == raw
    a, b, c, d = stored[-4:]
    assert bytes(codecs.strip_fletcher32(raw + bytes([b, a, d, c]))) == raw
    for other in ((a, b, c, d ^ 1), (a ^ 1, b, c, d), (b, a, d, c ^ 1), (b ^ 1, a, d, c)):
        expected = int.from_bytes(other, "little")
        with pytest.raises(DamagedError, match=f"its checksum is [0-9a-f]{{8}}, expected {expected:08x}"):
            codecs.strip_fletcher32(raw + bytes(other))


@pytest.mark.parametrize("length", [0, 3, 4])
def test_a_checksum_of_hdf5_without_values_is_refused(length):
    with pytest.raises(DamagedError, match=f"its {length} bytes are too few for a checksum and values"):
        codecs.strip_fletcher32(bytes(length))


def test_chunks_and_indexes_up_to_the_limit_are_allowed(monkeypatch):
    monkeypatch.setattr(limits, "MAX_CHUNK", 1000)
    monkeypatch.setattr(limits, "MAX_INDEX", 100)
    codecs.check_chunk(1000, "a chunk")
    codecs.check_index(100, "an index")
    with pytest.raises(LimitError, match=r"a chunk takes 1,001 bytes .* CFAGG_MAX_CHUNK=1001 "):
        codecs.check_chunk(1001, "a chunk")
    with pytest.raises(LimitError, match="an index takes 101 bytes, expected at most 100;"):
        codecs.check_index(101, "an index")


@pytest.mark.parametrize("most", [0, 1, 1000, 10**6, 10**9])
def test_an_encoder_may_make_more_than_it_was_given_but_not_by_far(most):
    for encode in (zlib.compress, bz2.compress, lzma.compress, zstd, numcodecs.LZ4().encode, numcodecs.Blosc().encode):
        if most <= 1000:
            raw = np.random.default_rng(1).bytes(most)
            assert len(encode(raw or b"")) <= codecs.encoded_most(most) if raw else True
    assert most + most / 8 <= codecs.encoded_most(most) <= 1.2 * most + 100_000
    assert 2 * most <= codecs.stored_most(most) <= 2 * most + 2**21
