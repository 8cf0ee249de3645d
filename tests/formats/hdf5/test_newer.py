"""The newer indexes of chunks, compared with the chunks that the HDF5 library reads, whole, in part and damaged."""

from __future__ import annotations

import itertools
import struct
from math import prod

import h5py
import numpy as np
import pytest

from cfagg.formats.hdf5 import indexes
from cfagg.formats.hdf5.lookup3 import compiled
from cfagg.formats.hdf5.newer import NewerIndex
from cfagg.formats.hdf5.objects import LAYOUT, Objects
from cfagg.formats.hdf5.plain import storage_of
from cfagg.formats.hdf5.space import UNDEFINED, Space

SINGLE, IMPLICIT, FIXED, EXTENSIBLE, TREE = 1, 2, 3, 4, 5

#: Index, shape, chunk, and up to where the dataset may grow.
CASES = [
    (SINGLE, (4, 6), (4, 6), (4, 6)),
    (FIXED, (5, 7), (2, 3), (5, 7)),
    (FIXED, (4, 3), (2, 3), (9, 8)),
    (FIXED, (1500,), (1,), (1500,)),
    (FIXED, (1030,), (1,), (5000,)),
    (EXTENSIBLE, (1, 3), (1, 3), (None, 3)),
    (EXTENSIBLE, (90, 3), (1, 3), (None, 3)),
    (EXTENSIBLE, (3, 90), (2, 7), (3, None)),
    (EXTENSIBLE, (4, 5, 6), (2, 2, 3), (9, None, 8)),
    (TREE, (5, 7), (2, 3), (None, None)),
    (TREE, (500, 3), (1, 3), (None, None)),
]
FILTERS = {"none": {}, "some": {"compression": "gzip", "shuffle": True, "fletcher32": True}}


@pytest.fixture
def made(tmp_path):
    """Return a function that makes a dataset, and gives bytes and description of its file, its shape and chunks."""

    def make(shape, chunk, most, filters, write, libver="v110"):
        with h5py.File(tmp_path / "a.h5", "w", libver=(libver, libver)) as file:
            data = file.create_dataset("v", shape, "<i4", chunks=chunk, maxshape=most, **filters)
            write(data, np.random.default_rng(1).integers(0, 99, shape))
        with h5py.File(tmp_path / "a.h5") as file:
            data, rows = file["v"], []
            for index in itertools.product(*(range(-(-n // c)) for n, c in zip(data.shape, chunk, strict=True))):
                try:
                    rows.append((*index, *data.id.read_direct_chunk(tuple(np.multiply(index, chunk)))))
                except (ValueError, RuntimeError):
                    continue  # never written
            found = data.shape, rows
        raw = (tmp_path / "a.h5").read_bytes()
        return raw, storage(raw, found[0]), *found

    return make


def storage(raw, shape, name=b"v"):
    """Return how a dataset of a file is stored."""
    objects = Objects(Space(raw))
    links = dict(objects.links(objects.read(objects.top())))
    return storage_of(objects.read(links[name]).messages, shape, np.dtype("<i4"), "v")


def whole(data, values):
    data[...] = values


def listed(raw, stored, shape):
    """Return index, mask and bytes of all chunks, `None` where the library has to list them."""
    rows = indexes.listed(raw, stored.tree, stored.chunks, shape, 1 << 20)
    if rows is None:
        return None
    cells = np.ndindex(*(-(-n // c) for n, c in zip(shape, stored.chunks, strict=True)))
    columns = (column.tolist() for column in (rows.masks, rows.offset, rows.size))
    return [(*cell, mask, raw[at : at + n]) for cell, mask, at, n in zip(cells, *columns, strict=True)]


def alone(raw, stored, cell):
    """Return mask and bytes of one chunk, `None` where the library has to look."""
    found = indexes.positions(raw, stored.tree, stored.chunks, [tuple(cell)])
    return None if found is None else next((mask, raw[at : at + n]) for mask, at, n in found)


@pytest.mark.parametrize("libver", ["v110", "latest"])
@pytest.mark.parametrize("filters", FILTERS)
@pytest.mark.parametrize(("kind", "shape", "chunk", "most"), CASES)
def test_chunks_are_those_that_the_library_reads(made, kind, shape, chunk, most, filters, libver):
    raw, stored, shape, expected = made(shape, chunk, most, FILTERS[filters], whole, libver)
    assert isinstance(stored.tree, NewerIndex)
    assert stored.tree.layout.kind == kind
    assert listed(raw, stored, shape) == expected
    if len(expected) <= indexes.MOST:
        some = [row[:-2] for row in expected[::-3]]
        found = indexes.positions(raw, stored.tree, chunk, some)
        assert [(*i, m, raw[at : at + n]) for i, (m, at, n) in zip(some, found, strict=True)] == expected[::-3]
        for *cell, mask, data in expected[:: len(expected) // 9 + 1]:
            assert alone(raw, stored, cell) == (mask, data)


def test_chunks_in_a_row_are_those_that_the_library_reads(tmp_path):
    values = np.arange(35, dtype="<i4").reshape(5, 7)
    with h5py.File(tmp_path / "a.h5", "w", libver=("v110", "v110")) as file:
        creation = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        creation.set_chunk((2, 3))
        creation.set_alloc_time(h5py.h5d.ALLOC_TIME_EARLY)
        space = h5py.h5s.create_simple((5, 7), (6, 20))
        h5py.Dataset(h5py.h5d.create(file.id, b"v", h5py.h5t.STD_I32LE, space, creation))[...] = values
    raw = (tmp_path / "a.h5").read_bytes()
    stored = storage(raw, (5, 7))
    assert stored.tree.layout.kind == IMPLICIT
    padded = np.zeros((6, 9), "<i4")
    padded[:5, :7] = values
    expected = [(i, j, 0, padded[2 * i : 2 * i + 2, 3 * j : 3 * j + 3].tobytes()) for i in range(3) for j in range(3)]
    assert listed(raw, stored, (5, 7)) == expected


@pytest.mark.parametrize("filters", FILTERS)
@pytest.mark.parametrize(("kind", "shape", "chunk", "most"), CASES[1:])
def test_where_chunks_were_never_written_the_library_has_to_look(made, kind, shape, chunk, most, filters):
    def half(data, values):
        data[: chunk[0]] = values[: chunk[0]]

    raw, stored, shape, written = made(shape, chunk, most, FILTERS[filters], half)
    counts = [-(-n // c) for n, c in zip(shape, chunk, strict=True)]
    assert (listed(raw, stored, shape) is None) == (len(written) < prod(counts))
    if prod(counts) <= indexes.MOST:
        there = {tuple(cell): (mask, data) for *cell, mask, data in written}
        for cell in np.ndindex(*counts):
            # A single one of an array stands by itself.
            assert alone(raw, stored, cell) == (there.get(cell) if kind in (FIXED, EXTENSIBLE) else None)


@pytest.mark.parametrize("filters", FILTERS)
@pytest.mark.parametrize(("kind", "shape", "chunk", "most"), [c for c in CASES if None in c[3][:1]])
def test_a_dataset_that_grew_and_shrank_has_the_chunks_of_its_shape(made, kind, shape, chunk, most, filters):
    def change(data, values):
        data[...] = values
        data.resize(2 * shape[0], 0)
        data[shape[0] :] = values
        data.resize(shape[0] + 1, 0)

    raw, stored, shape, expected = made(shape, chunk, most, FILTERS[filters], change)
    assert listed(raw, stored, shape) == expected


def test_the_mask_of_a_chunk_that_passed_no_filter_is_told(made):
    def write(data, values):
        data[...] = values
        data.id.write_direct_chunk((0, 0), bytes(24), 7)

    for most in ((4, 6), (None, 6), (None, None)):
        raw, stored, shape, expected = made((4, 6), (2, 3), most, FILTERS["some"], write)
        assert listed(raw, stored, shape) == expected
        assert expected[0] == (0, 0, 7, bytes(24))


def test_pages_of_extensible_arrays_are_read(tmp_path):
    """Blocks of more than 1,024 elements have pages; the first of these is the 131,061st element."""
    values = np.random.default_rng(1).integers(0, 99, 134_000).astype("<i4")
    with h5py.File(tmp_path / "a.h5", "w", libver=("v110", "v110")) as file:
        file.create_dataset("v", data=values, chunks=(1,), maxshape=(None,))
    raw = (tmp_path / "a.h5").read_bytes()
    stored = storage(raw, values.shape)
    rows = indexes.listed(raw, stored.tree, (1,), values.shape, 1 << 20)
    places = rows.offset[:, None] + np.arange(4)
    np.testing.assert_array_equal(np.frombuffer(raw, np.uint8)[places].view("<i4")[:, 0], values)


def test_tables_of_more_chunks_than_are_asked_for_are_left_to_the_library(made):
    raw, stored, shape, _ = made((20,), (1,), (20,), {}, whole)
    assert indexes.listed(raw, stored.tree, (1,), shape, 19) is None
    assert indexes.listed(raw, stored.tree, (1,), shape, 20) is not None


@pytest.mark.parametrize("filters", FILTERS)
@pytest.mark.parametrize(("kind", "shape", "chunk", "most"), [CASES[i] for i in (0, 1, 7, 9)])
def test_a_damaged_index_is_never_believed(made, kind, shape, chunk, most, filters):
    raw, stored, shape, expected = made(shape, chunk, most, FILTERS[filters], whole)
    begin = stored.tree.layout.at
    is_index = np.ones(len(raw), np.bool_)
    rows = indexes.listed(raw, stored.tree, chunk, shape, 1 << 20)
    for place, size in zip(rows.offset.tolist(), rows.size.tolist(), strict=True):
        is_index[place : place + size] = False
    for at in np.flatnonzero(is_index).tolist():
        damaged = bytearray(raw)
        damaged[at] ^= 1 + at % 255
        found = listed(bytes(damaged), stored, shape)
        assert found is None or found == expected
        if kind != SINGLE and begin <= at < begin + 28:
            assert found is None


@pytest.mark.parametrize(("kind", "shape", "chunk", "most"), [CASES[i] for i in (0, 3, 6, 10)])
def test_an_index_that_ends_early_is_left_to_the_library(made, kind, shape, chunk, most):
    raw, stored, shape, _ = made(shape, chunk, most, {}, whole)
    for end in range(0, len(raw), 97):
        if kind != SINGLE:
            rows = indexes.listed(raw[:end], stored.tree, chunk, shape, 1 << 20)
            assert rows is None or rows.offset.max() < len(raw)
    assert (
        indexes.listed(raw[: stored.tree.layout.at + 20], stored.tree, chunk, shape, 1 << 20) is None or kind == SINGLE
    )


@pytest.mark.parametrize("at", [UNDEFINED, UNDEFINED - 1, 2**62, 0, 7])
@pytest.mark.parametrize(("kind", "shape", "chunk", "most"), [CASES[i] for i in (0, 1, 6, 9)])
def test_places_that_lead_nowhere_are_not_followed(made, kind, shape, chunk, most, at):
    raw, stored, shape, _ = made(shape, chunk, most, {}, whole)
    moved = stored.tree._replace(layout=stored.tree.layout._replace(at=at))
    found = indexes.listed(raw, moved, chunk, shape, 1 << 20)
    # The chunk itself stands there where there is but one, and is not looked at.
    assert found is None or (kind == SINGLE and at < 8)


@pytest.mark.parametrize(
    "settings", [b"", bytes(5), b"\xff" * 5, b"\x20\x04\x03\x10\x0a", b"\x20\x04\x04\x11\x0a"], ids=str
)
def test_settings_that_contradict_each_other_are_left_to_the_library(made, settings):
    raw, stored, shape, _ = made((90,), (1,), (None,), {}, whole)
    moved = stored.tree._replace(layout=stored.tree.layout._replace(settings=settings))
    assert indexes.listed(raw, moved, (1,), shape, 1 << 20) is None


def test_layouts_without_an_index_that_is_known_are_left_to_the_library(made):
    raw, _, shape, _ = made((8,), (2,), (8,), {}, whole)
    objects = Objects(Space(raw))
    links = dict(objects.links(objects.read(objects.top())))
    messages = dict(objects.read(links[b"v"]).messages)
    layout = bytearray(messages[LAYOUT])
    layout[5 + layout[3] * layout[4]] = 6
    messages[LAYOUT] = bytes(layout)
    assert storage_of(messages, shape, np.dtype("<i4"), "v").tree is None


@pytest.mark.parametrize(("at", "number"), [(44, 89), (44, 2**32), (52, 89), (52, 2**32)], ids=str)
def test_an_array_of_other_numbers_of_elements_than_it_has_is_left_to_the_library(made, at, number):
    raw, stored, shape, expected = made((90,), (1,), (None,), {}, whole)
    assert listed(raw, stored, shape) == expected
    forged, begin = bytearray(raw), stored.tree.layout.at
    struct.pack_into("<Q", forged, begin + at, number)
    struct.pack_into("<I", forged, begin + 68, compiled()(bytes(forged[begin : begin + 68])))
    assert listed(bytes(forged), stored, shape) is None


@pytest.mark.parametrize(("mark", "at", "new"), [(b"FAHD", 8, 10), (b"FADB", 6, 8)], ids=str)
def test_an_array_of_other_chunks_or_of_another_dataset_is_left_to_the_library(made, mark, at, new):
    raw, stored, shape, expected = made((5, 7), (2, 3), (5, 7), {}, whole)
    assert listed(raw, stored, shape) == expected
    forged, begin = bytearray(raw), raw.index(mark)
    # A header of 24 bytes; a block of nine places behind fourteen bytes.
    end = begin + (24 if mark == b"FAHD" else 14 + 72)
    struct.pack_into("<Q", forged, begin + at, new)
    assert struct.unpack_from("<I", raw, end) == (compiled()(raw[begin:end]),)
    struct.pack_into("<I", forged, end, compiled()(bytes(forged[begin:end])))
    assert listed(bytes(forged), stored, shape) is None
