"""Undoing HDF5 filters: as the HDF5 library does, and never with a byte that the chunk does not hold."""

from __future__ import annotations

import bz2
import itertools
import resource
import subprocess
import sys
import textwrap
import uuid
import zlib

import h5py
import netCDF4
import numcodecs
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import cfagg
from cfagg.conventions import limits
from cfagg.errors import CfaggError, FragmentReadError, LimitError
from cfagg.formats.hdf5 import chunks as hdf5_chunks
from cfagg.formats.values import filters, locate, read
from cfagg.formats.values.storage import Chunked
from cfagg.model.chunks import Encoding
from cfagg.storage.files import CONTEXT_SOURCE, Context, open_regular
from cfagg.storage.gate import admit
from tests import nca_files
from tests.effort import examples
from tests.poison import damaged_forms, outcome
from tests.systems import needs_proc

DEFLATE, SHUFFLE, FLETCHER, BZIP2, LZF, BLOSC, ZSTD = 1, 2, 3, 307, 32000, 32001, 32015
PACKING = (DEFLATE, BZIP2, LZF, BLOSC, ZSTD)

#: How libraries order filters: a checksum innermost is netCDF4-python's own order for Zstandard.
PIPELINES = [
    *((p,) for p in (*PACKING, SHUFFLE, FLETCHER)),
    *((SHUFFLE, p) for p in PACKING),
    *((FLETCHER, p) for p in PACKING),
    *((p, FLETCHER) for p in PACKING),
    *((SHUFFLE, FLETCHER, p) for p in PACKING),
    *((FLETCHER, SHUFFLE, p) for p in PACKING),
    *((SHUFFLE, p, FLETCHER) for p in PACKING),
    *((FLETCHER, SHUFFLE, p, FLETCHER) for p in PACKING),
    (SHUFFLE, DEFLATE, ZSTD),
    (ZSTD, BZIP2, DEFLATE),
]


def write(path, values, chunks, pipeline):
    """Write a dataset through the HDF5 library with filters in any order."""
    with h5py.File(path, "w") as file:
        plist = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        plist.set_chunk(chunks)
        for number in pipeline:
            if number == DEFLATE:
                plist.set_deflate(4)
            elif number == SHUFFLE:
                plist.set_shuffle()
            elif number == FLETCHER:
                plist.set_fletcher32()
            else:
                options = {BZIP2: (5,), ZSTD: (3,)}
                plist.set_filter(number, h5py.h5z.FLAG_OPTIONAL, options.get(number, ()))
        space = h5py.h5s.create_simple(values.shape)
        made = h5py.h5d.create(file.id, b"v", h5py.h5t.py_create(values.dtype), space, plist)
        made.write(h5py.h5s.ALL, h5py.h5s.ALL, values)


def storage_of(path):
    """Return how the dataset is stored, as the HDF5 library has it."""
    with h5py.File(path) as file:
        plist = file["v"].id.get_create_plist()
        used = [plist.get_filter(i) for i in range(plist.get_nfilters())]
        encoding = Encoding(file["v"].dtype, tuple((f[0], tuple(f[2])) for f in used))
        return Chunked(file["v"].chunks, encoding, "v")


def admitted(path):
    return admit(open_regular(str(path)), "v", [])


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("filters")


def test_bytes_after_a_deflated_stream_are_ignored_as_by_the_hdf5_library(tmp_path):
    path, values = tmp_path / "a.h5", np.arange(6, dtype="<i4")
    with h5py.File(path, "w") as file:
        made = file.create_dataset("v", (6,), "<i4", chunks=(6,), compression="gzip")
        made.id.write_direct_chunk((0,), zlib.compress(values.tobytes()) + zlib.compress(b"rest"))
    with h5py.File(path) as file:
        assert file["v"][...].tolist() == values.tolist()
    found = hdf5_chunks.read(admitted(path), storage_of(path), [slice(0, 6, 1)], CONTEXT_SOURCE)
    assert found.tolist() == values.tolist()


@settings(max_examples=examples(100))
@given(
    # Blosc as the netCDF library brings it does not take the other library's calls.
    st.sampled_from([p for p in PIPELINES if BLOSC not in p]),
    st.sampled_from(["i1", "<i2", ">i2", "<f4", ">f8", "<u4"]),
    st.tuples(st.integers(1, 40), st.integers(1, 50)),
    st.tuples(st.integers(1, 40), st.integers(1, 50)),
    st.integers(1, 2**31),
)
def test_any_order_of_filters_reads_as_the_hdf5_library_does(folder, pipeline, dtype, shape, chunks, most):
    path = folder / f"{uuid.uuid4().hex}.h5"
    values = np.random.default_rng(1).integers(0, most, shape).astype(dtype)
    chunks = tuple(min(n, c) for n, c in zip(shape, chunks, strict=True))
    write(path, values, chunks, pipeline)
    with h5py.File(path) as file:
        expected = file["v"][...]
    storage = storage_of(path)
    whole = [slice(0, n, 1) for n in shape]
    assert hdf5_chunks.can_read(storage)
    np.testing.assert_array_equal(hdf5_chunks.read(admitted(path), storage, whole, CONTEXT_SOURCE), expected)


@pytest.mark.parametrize("compression", ["zlib", "zstd", "bzip2", "blosc_lz4", "blosc_zstd", "szip"])
@pytest.mark.parametrize("checksum", [False, True])
@pytest.mark.parametrize("shuffle", [False, True])
def test_every_compression_of_netcdf4_reads_as_netcdf4_does(tmp_path, compression, checksum, shuffle):
    values = (np.arange(60_000) % 977).astype("i4").reshape(300, 200)
    extra = {"fletcher32": checksum, "shuffle": shuffle, "chunksizes": [70, 130]}
    try:
        path = nca_files.fragment(tmp_path / "a.nc", "v", values, ["x", "y"], compression=compression, **extra)
    except RuntimeError as error:
        if "undefined filter" not in str(error):
            raise
        pytest.skip(f"this netCDF4 {netCDF4.__version__} came without the filter of {compression}")
    found = read(locate(str(path), "v", CONTEXT_SOURCE), [slice(0, 300, 1), slice(0, 200, 1)], CONTEXT_SOURCE)
    np.testing.assert_array_equal(found, values)


def test_lzf_of_h5py_is_read_though_the_netcdf_library_cannot(tmp_path):
    values = np.repeat(np.arange(500, dtype="f4"), 40).reshape(100, 200)
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("v", data=values, chunks=(30, 50), compression="lzf", shuffle=True, fletcher32=True)
        for name, n in (("x", 100), ("y", 200)):
            file[name] = np.arange(n)
            file[name].make_scale(name)
            file["v"].dims["xy".index(name)].attach_scale(file[name])
    located = locate(str(tmp_path / "a.h5"), "v", CONTEXT_SOURCE)
    for box in ([slice(0, 100, 1), slice(0, 200, 1)], [slice(3, 5, 1), slice(7, 9, 1)]):
        np.testing.assert_array_equal(read(located, box, CONTEXT_SOURCE), values[tuple(box)])


VALUES = (np.arange(1500) % 251).astype("<i4")


def encoded(pipeline, values=VALUES):
    """Return the bytes of a chunk by encoders that are not ours."""
    raw = values.tobytes()
    for number in pipeline:
        if number == SHUFFLE:
            whole = len(raw) // 4 * 4
            raw = bytes(numcodecs.Shuffle(4).encode(np.frombuffer(raw[:whole], "u1"))) + raw[whole:]
        elif number == FLETCHER:
            raw = bytes(numcodecs.Fletcher32().encode(np.frombuffer(raw, "u1")))
        elif number == LZF:
            raw = lzf(raw)
        else:
            pack = {
                DEFLATE: zlib.compress,
                BZIP2: bz2.compress,
                BLOSC: lambda r: numcodecs.Blosc("lz4").encode(np.frombuffer(r, "u1")),
                ZSTD: numcodecs.Zstd().encode,
            }[number]
            raw = bytes(pack(raw))
    return raw


def lzf(raw):
    """Return LZF as h5py writes it."""
    with h5py.File("lzf", "w", driver="core", backing_store=False) as file:
        data = np.frombuffer(raw, "u1")
        made = file.create_dataset("v", data=data, chunks=data.shape, compression="lzf")
        mask, stored = made.id.read_direct_chunk((0,))
        assert not mask, "these bytes do not pack"
        return stored


def chunk_of(pipeline):
    return Encoding(np.dtype("<i4"), tuple((f, (4,) if f == SHUFFLE else ()) for f in pipeline)), (len(VALUES),)


@pytest.mark.few(15)
@pytest.mark.parametrize("pipeline", [p for p in PIPELINES if p], ids=str)
def test_a_damaged_chunk_is_refused_or_decodes_to_nothing_but_what_it_holds(pipeline):
    stored, other = encoded(pipeline), encoded(pipeline, VALUES[: len(VALUES) // 2])
    encoding, shape = chunk_of(pipeline)
    out = np.empty(VALUES.nbytes, np.uint8)

    def decode(raw, poison):
        out[...] = poison
        return filters.decode(np.frombuffer(raw, np.uint8), 0, encoding, shape, out)

    assert outcome(lambda p: decode(stored, p)) == VALUES.tobytes()
    for name, raw in damaged_forms(stored, other).items():
        found = outcome(lambda p, raw=raw: decode(raw, p))
        # Zeros are a right checksum of zeros.
        if found is not None and (FLETCHER in pipeline or name.startswith(("cut", "shorter", "empty"))):
            assert found == VALUES.tobytes() or name == "zeros", name


@pytest.mark.parametrize("pipeline", [p for p in PIPELINES if p], ids=str)
def test_filters_that_a_chunk_skipped_are_not_undone(pipeline):
    for skipped in itertools.product([0, 1], repeat=len(pipeline)):
        kept = [f for f, s in zip(pipeline, skipped, strict=True) if not s]
        mask = sum(s << k for k, s in enumerate(skipped))
        raw = np.frombuffer(encoded(kept), np.uint8)
        assert filters.decode(raw, mask, *chunk_of(pipeline)).tolist() == VALUES.tolist()


@pytest.mark.parametrize("nbytes", [0, 5996, 6004, 12_000])
@pytest.mark.parametrize(("pipeline", "mask"), [((), 0), ((DEFLATE,), 1), ((SHUFFLE,), 0)])
def test_a_chunk_that_no_filter_measures_is_refused_where_its_size_is_another(pipeline, mask, nbytes):
    with pytest.raises(filters.DamagedError, match=rf"decodes to {nbytes:,} bytes, expected 6,000"):
        filters.decode(np.zeros(nbytes, np.uint8), mask, *chunk_of(pipeline))


@pytest.mark.parametrize("missing", [1, 4])
def test_a_stream_that_gives_all_bytes_but_has_no_end_is_refused(missing):
    raw = np.frombuffer(encoded((DEFLATE,))[:-missing], np.uint8)
    with pytest.raises(filters.DamagedError, match="ends early"):
        filters.decode(raw, 0, *chunk_of((DEFLATE,)))


def test_a_checksum_inside_of_zstandard_is_checked():
    raw = bytearray(encoded((FLETCHER,)))
    raw[17] ^= 4
    with pytest.raises(filters.DamagedError, match="checksum"):
        filters.decode(np.frombuffer(bytes(numcodecs.Zstd().encode(raw)), np.uint8), 0, *chunk_of((FLETCHER, ZSTD)))


@pytest.mark.parametrize("outer", [(), (DEFLATE,)])
def test_a_checksum_inside_of_a_filter_of_a_plug_in_is_refused(outer):
    raw = np.frombuffer(encoded(outer), np.uint8)
    filters.check_unknown(raw, 0, *chunk_of((SHUFFLE, 32004, *outer)))
    with pytest.raises(filters.DamagedError, match="filter 32004 lies between it and its checksum"):
        filters.check_unknown(raw, 0, *chunk_of((FLETCHER, 32004, *outer)))


def test_a_checksum_of_hdf5_up_to_1_6_2_is_accepted():
    raw = bytearray(encoded((FLETCHER,)))
    raw[-4:] = bytes((raw[-3], raw[-4], raw[-1], raw[-2]))
    assert filters.decode(np.frombuffer(raw, np.uint8), 0, *chunk_of((FLETCHER,))).tolist() == VALUES.tolist()


@pytest.mark.parametrize("packing", [DEFLATE, BZIP2, LZF, ZSTD])
def test_a_short_chunk_in_a_file_is_refused_and_not_filled_up(tmp_path, packing):
    values = np.arange(40_000, dtype="i4") % 1000
    write(tmp_path / "a.h5", values, (40_000,), (packing,))
    short = encoded((packing,), values[:30_000])
    with h5py.File(tmp_path / "a.h5", "r+") as file:
        file["v"].id.write_direct_chunk((0,), short)
    storage = storage_of(tmp_path / "a.h5")
    with pytest.raises(FragmentReadError, match=r"chunk .* is damaged"):
        hdf5_chunks.read(admitted(tmp_path / "a.h5"), storage, [slice(0, 40_000, 1)], Context())


def test_a_chunk_larger_than_allowed_is_refused_with_the_setting_that_allows_it(tmp_path, monkeypatch):
    values = np.zeros(50_000, "f8")
    path = nca_files.fragment(tmp_path / "a.nc", "v", values, ["x"], zlib=True, chunksizes=[50_000])
    located = locate(str(path), "v", CONTEXT_SOURCE)
    monkeypatch.setattr(limits, "MAX_CHUNK", 399_999)
    for last in (10, 50_000):
        with pytest.raises(LimitError, match=r"'v' in .*a.nc takes 400,000 bytes.*CFAGG_MAX_CHUNK=400000"):
            read(located, [slice(0, last, 1)], CONTEXT_SOURCE)
    monkeypatch.setattr(limits, "MAX_CHUNK", 400_000)
    assert not read(located, [slice(0, 10, 1)], CONTEXT_SOURCE).any()


def test_the_environment_raises_the_limit_of_a_chunk():
    code = "from cfagg.conventions import limits; print(limits.MAX_CHUNK)"
    done = subprocess.run([sys.executable, "-c", code], env={"CFAGG_MAX_CHUNK": "123"}, capture_output=True, check=True)
    assert done.stdout.split() == [b"123"]


@pytest.mark.few(1)
@needs_proc
@pytest.mark.parametrize("pipeline", [(DEFLATE,), (BZIP2,), (ZSTD,), (SHUFFLE, ZSTD), (DEFLATE, DEFLATE), (ZSTD, ZSTD)])
def test_a_stream_that_grows_without_end_takes_no_memory(pipeline):
    packs = {DEFLATE: "zlib.compress", BZIP2: "bz2.compress", ZSTD: "numcodecs.Zstd(1).encode"}
    packed = "raw"
    for number in pipeline:
        packed = f"bytes({packs[number]}({packed}))" if number in packs else packed
    code = f"""
        import bz2, zlib, resource, numcodecs, numpy as np
        from cfagg.formats.values import filters
        from cfagg.model.chunks import Encoding
        raw = bytes(200_000_000)
        stored = {packed}
        del raw
        encoding = Encoding(np.dtype("i4"), {tuple((f, (4,)) for f in pipeline)!r})
        space = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize() + 60_000_000
        resource.setrlimit(resource.RLIMIT_AS, (space, space))
        try:
            filters.decode(np.frombuffer(stored, np.uint8), 0, encoding, (1000,))
        except filters.DamagedError as error:
            print("refused", error)
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, check=False)
    assert done.stdout.startswith("refused"), done.stderr[-2000:]
    assert resource.RLIMIT_AS


@pytest.mark.parametrize(
    "raw",
    [bytes(3000), b"ab" * 700, bytes(range(256)) * 40, b"x" + bytes(300) + b"x" + bytes(range(200)) * 3],
    ids=["zeros", "pairs", "far", "mixed"],
)
def test_repetitions_from_the_first_byte_on_are_unpacked(raw):
    from cfagg.kernels.unpacking import unpack_lzf

    out = np.empty(len(raw), np.uint8)
    stored = np.frombuffer(lzf(raw), np.uint8)
    assert unpack_lzf(stored, out) == len(raw)
    assert out.tobytes() == raw
    for cut in range(1, min(len(stored), 12)):
        assert unpack_lzf(stored[:-cut], out) < len(raw)
        assert unpack_lzf(stored, out[:-cut]) == -1


@settings(max_examples=examples(200))
@given(st.binary(max_size=200), st.integers(0, 64))
def test_any_bytes_are_an_lzf_block_or_refused(raw, size):
    from cfagg.kernels.unpacking import unpack_lzf

    out = np.full(size + 32, 77, np.uint8)
    found = unpack_lzf(np.frombuffer(raw, np.uint8), out[:size])
    assert -1 <= found <= size
    assert (out[size:] == 77).all()


def test_an_unknown_compression_is_not_taken_for_damage(tmp_path):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        plist = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        plist.set_chunk((4,))
        plist.set_filter(32199, h5py.h5z.FLAG_OPTIONAL)
        made = h5py.h5d.create(file.id, b"v", h5py.h5t.STD_I32LE, h5py.h5s.create_simple((4,)), plist)
        made.write_direct_chunk((0,), b"compressed")
    with pytest.raises(CfaggError, match=r"'v' of .*a.h5 .*undefined filter.*HDF5_PLUGIN_PATH") as caught:
        cfagg.open_array(tmp_path / "a.h5", "v")[...]
    assert "restore" not in str(caught.value)
