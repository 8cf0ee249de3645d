"""Collections of values of variable length, which two parsers read: what the fast one takes, the strict one takes."""

import h5py
import numpy as np
import pytest

from cfagg.formats.hdf5.space import BrokenError, Space
from cfagg.formats.hdf5.space import UnusualError as SpaceError
from cfagg.formats.values.hdf5_bytes import Bytes, UnusualError


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    path = tmp_path_factory.mktemp("heaps") / "a.h5"
    with h5py.File(path, "w", libver="latest") as made:
        for k, text in enumerate(("a", "some text", "", "of eight", "more")):
            made.attrs[f"t{k}"] = text
    raw = path.read_bytes()
    return path, raw, raw.find(b"GCOL")


def fast(path, raw, at):
    path.write_bytes(raw)
    with path.open("rb") as opened:
        try:
            return Bytes(opened.fileno(), raw[:64], len(raw))._heap(at)
        except (UnusualError, OSError):
            return None


def strict(raw, at):
    try:
        return {k: raw[a : a + n] for k, (a, n) in Space(raw)._objects(at).items()}
    except (BrokenError, SpaceError):
        return None


def test_both_read_what_the_library_has_written(file):
    found = fast(*file)
    assert found == strict(*file[1:])
    assert b"some text" in found.values()


@pytest.mark.parametrize("place", range(8, 160, 4))
def test_what_the_fast_parser_takes_the_strict_one_takes_alike(file, place):
    path, raw, at = file
    for value in [*np.random.default_rng(place).integers(0, 256, 6).tolist(), 0, 1, 7, 255]:
        damaged = bytearray(raw)
        damaged[at + place] = value
        found = fast(path, bytes(damaged), at)
        assert found is None or found == strict(bytes(damaged), at), (place, value)
