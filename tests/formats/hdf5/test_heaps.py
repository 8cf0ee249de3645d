"""Heaps and trees that the HDF5 library has written: all is found, and damage is refused however sums are compared."""

import struct
from random import Random

import h5py
import numpy as np
import pytest

from cfagg.formats.hdf5.heaps import Heap
from cfagg.formats.hdf5.lookup3 import compiled, damaged
from cfagg.formats.hdf5.messages import attribute_of
from cfagg.formats.hdf5.objects import Objects
from cfagg.formats.hdf5.space import ERRORS, BrokenError, OverlapError, Space
from cfagg.formats.hdf5.trees import records
from tests.fuzzing.checksums import places, put_right


@pytest.fixture(scope="module", params=[12, 25, 400])
def file(request, tmp_path_factory):
    """A file with many attributes, in one block of a heap or several, and where their heap and tree are."""
    path = tmp_path_factory.mktemp("heaps") / "a.h5"
    with h5py.File(path, "w", libver="latest") as made:
        for k in range(request.param):
            made.attrs[f"name{k}"] = np.arange(k)
    raw = path.read_bytes()
    return path, raw, raw.index(b"FRHP"), raw.index(b"BTHD")


def messages(space, heap, tree):
    found = Heap(space, heap)
    return found.messages([record[:8] for record in records(space, tree, 8, 17)])


def at_once(raw, heap, tree):
    try:
        return messages(Space(raw, checksum=compiled()), heap, tree)
    except (OverlapError, *ERRORS):
        return None


def in_the_end(raw, heap, tree):
    space = Space(raw)
    try:
        found = messages(space, heap, tree)
    except (OverlapError, *ERRORS):
        return None
    return None if damaged(raw, space.checked) else found


@pytest.mark.parametrize("read", [at_once, in_the_end])
def test_attributes_are_those_that_the_library_has_written(file, read):
    path, *rest = file
    found = {name: (kind, data[begin:]) for data in read(*rest) for name, _, kind, _, begin in [attribute_of(data)]}
    with h5py.File(path) as opened:
        assert len(found) == len(opened.attrs)
        for name, value in opened.attrs.items():
            assert found[name.encode()] == (h5py.h5t.py_create(value.dtype).encode()[2:], value.tobytes())


def test_each_block_of_a_heap_is_taken_once(file, monkeypatch):
    _, raw, heap, tree = file
    taken, real = [], Space.take
    monkeypatch.setattr(Space, "take", lambda self, at, size: taken.append(size) or real(self, at, size))
    messages(Space(raw), heap, tree)
    # Its structure is read, and then its bytes are taken.
    assert sum(taken) < 3 * len(raw)


def test_blocks_without_checksums_count_as_those_with_one():
    heap = Heap.__new__(Heap)
    heap.space, heap.verified, heap.offset_size, heap.length_size, heap.id_size = Space(bytes(4096)), False, 2, 2, 7
    heap.root, heap.rows, heap.start, heap._seen_blocks = 0, 0, 4096, set()
    before = heap.space.state()[0]
    with pytest.raises(BrokenError):
        heap.messages([bytes([0, 0, 0, 1, 0, 0, 0])])
    assert before - heap.space.state()[0] == 4096


@pytest.mark.few(1)
@pytest.mark.parametrize("seed", range(8))
def test_damaged_structures_are_read_alike_however_sums_are_compared(file, seed):
    _, raw, heap, tree = file
    random = Random(seed)
    spans = [(at, end) for at, end, _ in places(raw) if raw[at : at + 4] in (b"FRHP", b"BTHD", b"BTLF", b"FHIB")]
    taken = 0
    for _ in range(20):
        at = random.randrange(*random.choice(spans))
        changed = bytearray(raw)
        changed[at] = random.choice((0, 1, 255, changed[at] ^ 1 << random.randrange(8), random.randrange(256)))
        assert changed == raw or at_once(bytes(changed), heap, tree) is None, at
        whole = put_right(bytes(changed), [raw])
        found = at_once(whole, heap, tree)
        assert found == in_the_end(whole, heap, tree), (at, changed[at])
        taken += found is not None
    assert taken


def test_where_sums_are_compared_at_once_what_has_none_is_read_as_it_is_written(tmp_path):
    with h5py.File(tmp_path / "a.h5", "w", libver="earliest") as made:
        made["a"] = 1
    good = (tmp_path / "a.h5").read_bytes()
    root = Objects(Space(good)).top()
    bad = good[: root + 1] + b"\1" + good[root + 2 :]  # a byte without meaning
    for raw, checksum, refused in (
        (good, None, False),
        (bad, None, False),
        (good, compiled(), False),
        (bad, compiled(), True),
    ):
        objects = Objects(Space(raw, checksum=checksum))
        objects.top()
        if refused:
            with pytest.raises(ERRORS[0]):
                objects.read(root)
        else:
            assert [name for name, _ in objects.links(objects.read(root))] == [b"a"]


def test_a_checksum_of_fewer_bytes_than_it_has_is_refused():
    with pytest.raises(BrokenError):
        Space(struct.pack("<I", 0xDEADBEEF), checksum=compiled()).structure(0, 3)


@pytest.fixture(scope="module")
def long_values(tmp_path_factory):
    path = tmp_path_factory.mktemp("heaps") / "a.h5"
    texts = ["a", "some text", "", "of eight", "more"]
    with h5py.File(path, "w", libver="latest") as made:
        for k, text in enumerate(texts):
            made.attrs[f"t{k}"] = text
    raw = path.read_bytes()
    return raw, raw.find(b"GCOL"), [text.encode() for text in texts if text]


def values(raw, at):
    space = Space(raw)
    try:
        sizes = [(k, space.long_size(at, k)) for k in range(1, 10)]
        return [space.long_value(size, at, k) for k, size in sizes if size > 0]
    except ERRORS:
        return None


def test_long_values_are_those_that_the_library_has_written(long_values):
    raw, at, texts = long_values
    assert set(texts) <= {value.rstrip(b"\0") for value in values(raw, at)}


@pytest.mark.parametrize("place", range(8, 160, 4))
def test_long_values_of_a_damaged_heap_stand_in_it_or_are_refused(long_values, place):
    raw, at, _ = long_values
    end = at + struct.unpack_from("<Q", raw, at + 8)[0]
    for value in [*np.random.default_rng(place).integers(0, 256, 6).tolist(), 0, 1, 7, 255]:
        changed = bytearray(raw)
        changed[at + place] = value
        found = values(bytes(changed), at)
        assert found is None or all(v in changed[at:end] for v in found), (place, value)
