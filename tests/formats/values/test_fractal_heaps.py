"""Fractal heaps and version 2 B-trees, which two parsers read: what the fast one takes, the strict one takes alike."""

import struct
from random import Random

import h5py
import numpy as np
import pytest

from cfagg.formats.hdf5 import space
from cfagg.formats.values import hdf5_bytes, hdf5_heap
from tests.fuzzing.checksums import places, put_right

#: What refuses damaged bytes.
ERRORS = (
    *(space.UnusualError, space.OverlapError, hdf5_bytes.UnusualError),
    *(struct.error, ValueError, LookupError, OverflowError),
)


@pytest.fixture(scope="module", params=[12, 25])
def file(request, tmp_path_factory):
    """A file with many attributes, in one block of a heap or several, and where their heap and tree are."""
    path = tmp_path_factory.mktemp("heaps") / "a.h5"
    with h5py.File(path, "w", libver="latest") as made:
        for k in range(request.param):
            made.attrs[f"name{k}"] = np.arange(8 * k)
    raw = path.read_bytes()
    return path, raw, raw.index(b"FRHP"), raw.index(b"BTHD")


def fast(path, raw, heap, tree):
    path.write_bytes(raw)
    with path.open("rb") as opened:
        try:
            source = hdf5_bytes.Bytes(opened.fileno(), raw[:48], len(raw))
            found = hdf5_heap.Heap(source, heap)
            records = list(hdf5_heap.records(source, tree, 8, found.id_size + 9))
            return records, [found.get(record[: found.id_size]) for record in records]
        except ERRORS:
            return None


def strict(raw, heap, tree):
    try:
        source = space.Space(raw)
        found = space.Heap(source, heap)
        records = list(space.records(source, tree, 8, 17))
        return records, found.messages([record[:8] for record in records])
    except ERRORS:
        return None


def test_both_read_what_the_library_has_written(file):
    path, raw, heap, tree = file
    found = strict(raw, heap, tree)
    assert fast(path, raw, heap, tree) == found
    with h5py.File(path) as opened:
        assert len(found[0]) == len(opened.attrs)
    assert all(any(f"name{k}".encode() in message for message in found[1]) for k in range(len(found[0])))


@pytest.mark.parametrize("seed", range(8))
def test_what_the_fast_parser_takes_of_damaged_structures_the_strict_one_takes_alike(file, seed):
    path, raw, heap, tree = file
    random = Random(seed)
    spans = [(at, end) for at, end, _ in places(raw) if raw[at : at + 4] in (b"FRHP", b"BTHD", b"BTLF", b"FHIB")]
    taken = 0
    for _ in range(60):
        at = random.randrange(*random.choice(spans))
        damaged = bytearray(raw)
        damaged[at] = random.choice((0, 1, 255, damaged[at] ^ 1 << random.randrange(8), random.randrange(256)))
        whole = put_right(bytes(damaged), [raw])
        found = fast(path, whole, heap, tree)
        assert found is None or found == strict(whole, heap, tree), (at, damaged[at])
        taken += found is not None
    assert taken
