"""Attributes that the HDF5 library must not read: those of a variable length that are not where the file says."""

from __future__ import annotations

import struct

import h5py
import numpy as np
import pytest
from h5py import h5t

from cfagg.formats.hdf5 import proof as hdf5_proof
from cfagg.formats.hdf5.bytes import HandleBytes
from cfagg.formats.hdf5.proof import prove, prove_file
from cfagg.formats.hdf5.space import UnsoundError
from cfagg.storage.files import open_regular


def compound(*members):
    made = h5t.create(h5t.COMPOUND, sum(m.get_size() for m in members))
    at = 0
    for k, member in enumerate(members):
        made.insert(f"m{k}".encode(), at, member)
        at += member.get_size()
    return made


INT = h5t.NATIVE_INT32
TEXT = h5t.py_create(h5py.string_dtype(), logical=True)
SEQUENCE = h5t.vlen_create(INT)
FIXED = h5t.py_create(np.dtype("S5"))

FIXED_TYPES = {
    "integer": INT,
    "real": h5t.IEEE_F64BE,
    "text of five bytes": FIXED,
    "reference": h5t.STD_REF_OBJ,
    "enumeration": h5t.py_create(h5py.enum_dtype({"a": 1}), logical=True),
    "opaque": h5t.py_create(np.dtype("V7")),
    "array": h5t.array_create(INT, (2, 3)),
    "compound": compound(INT, FIXED),
    "compound of arrays": compound(h5t.array_create(FIXED, (2,)), INT),
}
VARYING_TYPES = {
    "text": TEXT,
    "sequence": SEQUENCE,
    "sequence of sequences": h5t.vlen_create(SEQUENCE),
    "array of sequences": h5t.array_create(SEQUENCE, (2,)),
    "compound, first": compound(TEXT, INT),
    "compound, last": compound(INT, FIXED, SEQUENCE),
    "compound in a compound": compound(INT, compound(INT, TEXT)),
    "array of compounds": h5t.array_create(compound(INT, SEQUENCE), (2,)),
}


@pytest.mark.parametrize("name", FIXED_TYPES)
def test_a_type_of_fixed_size_does_not_vary(name):
    assert not hdf5_proof._varies(FIXED_TYPES[name])


@pytest.mark.parametrize("name", VARYING_TYPES)
def test_a_type_varies_where_anything_in_it_does(name):
    assert hdf5_proof._varies(VARYING_TYPES[name])


def written(path, kind, userblock=0):
    """Write a file whose root has an attribute of a type, and a text beside it that is sound."""
    with h5py.File(path, "w", userblock_size=userblock) as file:
        file.attrs["sound"] = "a text"
        h5py.h5a.create(file.id, b"doubtful", kind, h5py.h5s.create(h5py.h5s.SCALAR))
    return path


def garbled(path, userblock=0):
    """Overwrite the value of the attribute, which was never written."""
    raw = bytearray(path.read_bytes())
    at = raw.index(b"doubtful", userblock)
    name, kind, space = struct.unpack_from("<HHH", raw, at - 6)
    begin = at + sum(n + -n % 8 for n in (name, kind, space))
    (size,) = struct.unpack_from("<I", raw, at + name + -name % 8 + 4)
    assert not any(raw[begin : begin + size])
    raw[begin : begin + size] = b"\1" * size
    path.write_bytes(raw)
    return path


def proven(path):
    with open_regular(str(path)) as handle, h5py.File(path, "r") as file:
        prove(handle, file.id, file["/"].id)


@pytest.mark.parametrize("userblock", [0, 512])
@pytest.mark.parametrize("name", [n for n in VARYING_TYPES if n.startswith(("array", "compound", "sequence of"))])
def test_an_attribute_that_cannot_be_proven_is_refused_where_it_varies(tmp_path, name, userblock):
    path = written(tmp_path / "a.h5", VARYING_TYPES[name], userblock)
    proven(path)
    garbled(path, userblock)
    with pytest.raises(UnsoundError, match="attribute 'doubtful' has values that are not where the file says"):
        proven(path)


@pytest.mark.parametrize("userblock", [0, 512])
@pytest.mark.parametrize("name", FIXED_TYPES)
def test_an_attribute_of_fixed_size_needs_no_proof(tmp_path, name, userblock):
    proven(written(tmp_path / "a.h5", FIXED_TYPES[name], userblock))


@pytest.mark.parametrize("userblock", [0, 512])
def test_a_text_whose_length_was_changed_is_refused(tmp_path, userblock):
    path = written(tmp_path / "a.h5", INT, userblock)
    proven(path)
    raw = bytearray(path.read_bytes())
    heap = raw.index(b"GCOL", userblock) - userblock
    at = raw.index((6).to_bytes(4, "little") + heap.to_bytes(8, "little"))
    raw[at] = 7
    path.write_bytes(raw)
    with pytest.raises(UnsoundError, match="attribute 'sound'"):
        proven(path)


def test_of_an_object_that_cannot_be_looked_at_no_varying_attribute_is_read(tmp_path, monkeypatch):
    monkeypatch.setattr(hdf5_proof.Sound, "unproven", lambda self, at: None)
    with pytest.raises(UnsoundError, match="attribute 'sound'"):
        proven(written(tmp_path / "a.h5", INT))
    with h5py.File(tmp_path / "b.h5", "w") as file:
        file.attrs["n"] = 1
    proven(tmp_path / "b.h5")


def test_the_bytes_of_a_file_begin_behind_its_user_block(tmp_path):
    (tmp_path / "a").write_bytes(bytes(range(20)))
    with open_regular(str(tmp_path / "a")) as handle:
        found = HandleBytes(handle, 5)
        assert len(found) == 15
        assert found[0:3] == bytes((5, 6, 7))
        assert found[:2] == bytes((5, 6))
        assert found[13:99] == bytes((18, 19))
        assert found[15:16] == found[9:9] == found[9:2] == b""
        assert len(HandleBytes(handle, 21)) == 0


def test_a_file_whose_structures_contradict_each_other_is_refused_each_time(tmp_path):
    path = tmp_path / "a.h5"
    with h5py.File(path, "w", libver="latest") as file:
        file.create_dataset("fixed", data=np.zeros((4, 2)), chunks=(1, 2))
    raw = path.read_bytes()
    path.write_bytes(raw.replace(b"FAHD", b"ABCD"))
    with open_regular(str(path)) as handle, h5py.File(path, "r") as file:
        for _ in range(2):
            with pytest.raises(UnsoundError, match="contradict each other"):
                prove_file(handle, file.id)


def test_a_file_that_is_sound_is_looked_at_once(tmp_path, monkeypatch):
    path = written(tmp_path / "a.h5", INT)
    looked = []
    below = hdf5_proof.Sound._below
    monkeypatch.setattr(hdf5_proof.Sound, "_below", lambda self, at: (looked.append(at), below(self, at))[1])
    with open_regular(str(path)) as handle, h5py.File(path, "r") as file:
        for _ in range(3):
            prove_file(handle, file.id)
    assert looked
    assert len(looked) == len(set(looked))
