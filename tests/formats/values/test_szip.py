"""Undoing szip: as the HDF5 library does, and never with a byte that the stream does not hold."""

from __future__ import annotations

import itertools

import h5py
import numpy as np
import pytest

import cfagg
from cfagg.errors import CfaggError
from cfagg.formats.values import filters
from cfagg.model.chunks import Encoding
from tests.poison import damaged_forms, outcome

pytestmark = pytest.mark.skipif(not h5py.h5z.filter_avail(h5py.h5z.FILTER_SZIP), reason="h5py came without szip")

#: Stored as they are, and as steps from one to the next.
PLAIN, STEPS = 4, 32

SHAPES = [(64,), (37, 5), (3, 4097), (4, 4, 4, 6), (20, 33)]


def values(kind, shape, dtype, limit=100):
    """Return values that take each coding: zeros, small steps, noise, few numbers among zeros."""
    random, count = np.random.default_rng(1), int(np.prod(shape))
    made = {
        "zeros": lambda: np.zeros(count),
        "steps": lambda: np.cumsum(random.integers(0, 3, count)) % limit,
        "noise": lambda: random.integers(0, limit, count),
        "few": lambda: random.integers(0, limit, count) * (random.random(count) < 0.03),
    }[kind]()
    return made.reshape(shape).astype(dtype)


def packed(data, options, block, kind=None, before=(), after=()):
    """Return what the HDF5 library makes of one chunk: mask, bytes, and how it is stored."""
    with h5py.File("szip", "w", driver="core", backing_store=False) as file:
        plist = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        plist.set_chunk(data.shape)
        for name in before:
            getattr(plist, f"set_{name}")()
        plist.set_szip(options, block)
        for name in after:
            getattr(plist, f"set_{name}")()
        type_ = h5py.h5t.py_create(data.dtype) if kind is None else kind
        made = h5py.h5d.create(file.id, b"v", type_, h5py.h5s.create_simple(data.shape), plist)
        made.write(h5py.h5s.ALL, h5py.h5s.ALL, data, mtype=type_)
        mask, raw = made.read_direct_chunk((0,) * data.ndim)
        known = made.get_create_plist()
        used = [known.get_filter(k) for k in range(known.get_nfilters())]
    return (
        mask,
        np.frombuffer(raw, np.uint8),
        Encoding(data.dtype, tuple((f[0], f[2]) for f in used)),
        data.shape,
    )


@pytest.mark.few(4)
@pytest.mark.parametrize("dtype", ["u1", "i1", "<i2", ">i2", "<u4", ">i4", "<f4", ">f4", "<i8", "<f8", ">f8"])
@pytest.mark.parametrize("options", [PLAIN, STEPS])
def test_chunks_are_what_the_hdf5_library_has_packed(dtype, options):
    packs = 0
    for shape, block, kind in itertools.product(SHAPES, (2, 10, 32), ("zeros", "steps", "noise", "few")):
        data = values(kind, shape, dtype)
        mask, raw, *storage = packed(data, options, block)
        assert filters.decode(raw, mask, *storage).tobytes() == data.tobytes(), (
            shape,
            block,
            kind,
        )
        packs += not mask
    assert packs > 30


@pytest.mark.few(3)
@pytest.mark.parametrize("size", [1, 2, 4, 8])
@pytest.mark.parametrize("big", [False, True])
def test_numbers_of_fewer_bits_than_their_bytes_are_unpacked(size, big):
    name = f"STD_U{8 * size}{'BE' if big else 'LE'}"
    for bits, options, spread in itertools.product(range(4 * size, 8 * size + 1), (PLAIN, STEPS), (3, 2**40)):
        kind = getattr(h5py.h5t, name).copy()
        kind.set_precision(bits)
        data = values("steps", (7, 50), f"{'>' if big else '<'}u{size}", min(spread, 2**bits - 1))
        mask, raw, *storage = packed(data, options, 8, kind)
        assert filters.decode(raw, mask, *storage).tobytes() == data.tobytes(), (bits, options)


@pytest.mark.few(8)
@pytest.mark.parametrize("dtype", ["u1", "<i2", "<f4", "<f8"])
@pytest.mark.parametrize("options", [PLAIN, STEPS])
@pytest.mark.parametrize("kind", ["steps", "few"])
def test_a_damaged_stream_is_refused_or_unpacked_to_nothing_but_what_it_holds(dtype, options, kind):
    data = values(kind, (300,), dtype)
    mask, raw, *storage = packed(data, options, 8)
    assert filters.decode(raw, mask, *storage).tobytes() == data.tobytes()
    other = packed(data[:150], options, 8)[1].tobytes()
    for name, form in damaged_forms(raw.tobytes(), other).items():
        found = outcome(lambda _, form=form: filters.decode(np.frombuffer(form, np.uint8), 0, *storage))
        assert found in (None, data.tobytes()) or not name.startswith(("cut", "shorter", "empty")), name
    for at in range(8 * min(raw.size, 60)):
        form = raw.copy()
        form[at // 8] ^= 1 << at % 8
        outcome(lambda _, form=form: filters.decode(form, 0, *storage))


@pytest.mark.parametrize("kind", ["zeros", "steps", "noise", "few"])
@pytest.mark.parametrize("options", [PLAIN, STEPS])
def test_a_stream_without_its_last_bytes_is_refused_wherever_it_is_cut(kind, options):
    mask, raw, *storage = packed(values(kind, (96,), "<i2"), options, 8)
    assert not mask
    for cut in range(raw.size):
        with pytest.raises(filters.DamagedError):
            filters.decode(raw[:cut], 0, *storage)


@pytest.mark.parametrize(
    "parameters",
    [(), (133, 8, 16), (133, 0, 16, 64), (133, 7, 16, 64), (133, 64, 16, 64), (133, 8, 0, 64), (133, 8, 25, 64),
     (133, 8, 16, 0), (133, 8, 16, 2**31)],
)  # fmt: skip
def test_parameters_that_szip_cannot_have_are_refused(parameters):
    _, raw, *storage = packed(values("steps", (64,), "<i2"), STEPS, 8)
    with pytest.raises(filters.DamagedError):
        filters.decode(raw, 0, Encoding(storage[0].dtype, ((4, parameters),)), storage[1])


def test_a_size_beyond_the_chunk_takes_no_memory():
    _, raw, *storage = packed(values("zeros", (64,), "<i2"), STEPS, 8)
    raw = np.concatenate([np.frombuffer(b"\xff\xff\xff\xff", np.uint8), raw[4:]])
    with pytest.raises(filters.DamagedError, match="4,294,967,295 bytes, expected 128"):
        filters.decode(raw, 0, *storage)


@pytest.mark.parametrize("dtype", ["u1", "<i2", "<f4"])
@pytest.mark.parametrize("before", [True, False])
def test_checksums_on_either_side_are_checked(dtype, before):
    data = values("few", (200,), dtype)
    steps = {"before" if before else "after": ("fletcher32",)}
    mask, raw, *storage = packed(data, STEPS, 8, **steps)
    assert filters.decode(raw, mask, *storage).tobytes() == data.tobytes()
    raw = raw.copy()
    raw[raw.size // 2] ^= 16
    with pytest.raises(filters.DamagedError):
        filters.decode(raw, mask, *storage)


def test_a_checksum_that_szip_has_dropped_is_an_error_as_it_is_to_the_hdf5_library():
    _, raw, *storage = packed(values("steps", (200,), "<f8"), STEPS, 8, before=("fletcher32",))
    with pytest.raises(filters.DamagedError, match="1,604 bytes are not a multiple of 8 bytes"):
        filters.decode(raw, 0, *storage)


@pytest.mark.parametrize("dtype", ["<i2", "<f8"])
@pytest.mark.parametrize("whole", [True, False])
def test_files_with_a_stream_cut_off_are_refused(tmp_path, dtype, whole):
    data = values("noise", (100,), dtype)
    _, raw, *_ = packed(data, STEPS, 8)
    with h5py.File(tmp_path / "a.h5", "w") as file:
        made = file.create_dataset("v", (100,), dtype, chunks=(100,), compression="szip", compression_opts=("nn", 8))
        made.id.write_direct_chunk((0,), raw.tobytes() if whole else raw[: raw.size // 2].tobytes())
    with cfagg.read(tmp_path / "a.h5") as opened:
        if whole:
            np.testing.assert_array_equal(opened["v"].values, data)
        else:
            with pytest.raises(CfaggError, match="damaged"):
                _ = opened["v"].values
