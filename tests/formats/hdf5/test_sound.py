"""Attributes of variable length: those of good files are proven, those whose lengths or places are changed are not."""

from __future__ import annotations

import struct
from pathlib import Path

import h5py
import netCDF4
import numpy as np
import pytest

from cfagg.arrays.netcdf_source import open_source
from cfagg.errors import FragmentReadError, SourceError
from cfagg.formats.hdf5.lookup3 import compiled
from cfagg.formats.hdf5.sound import Sound
from cfagg.formats.hdf5.space import BrokenError


def addresses(path: Path) -> dict[str, int]:
    with h5py.File(path, "r") as file:
        found = {"/": int(h5py.h5o.get_info(file.id).addr)}
        file.visititems(lambda name, item: found.update({name: int(h5py.h5o.get_info(item.id).addr)}))
    return found


def made(path: Path, libver: str) -> Path:
    with h5py.File(path, "w", libver=libver, track_order=True) as file:
        x = file.create_dataset("x", data=np.arange(3.0))
        x.make_scale("x")
        data = file.create_dataset("data", data=np.zeros((3, 3)))
        data.dims[0].attach_scale(x)
        data.dims[1].attach_scale(x)
        data.attrs["text"] = "a text"
        data.attrs["texts"] = ["one", "", "three"]
        data.attrs.create("numbers", [np.arange(2), np.arange(5)], dtype=h5py.vlen_dtype("i2"))
        for i in range(40):
            file.attrs[f"many{i}"] = "text" * i
    return path


@pytest.mark.parametrize("libver", ["earliest", "latest"])
def test_every_attribute_of_a_file_of_h5py_is_proven(tmp_path: Path, libver: str) -> None:
    path = made(tmp_path / "a.h5", libver)
    sound = Sound(path.read_bytes())
    found = {name: sound.unproven(at) for name, at in addresses(path).items()}
    assert found == {"/": frozenset(), "x": frozenset(), "data": frozenset()}


def test_every_attribute_of_a_netcdf_file_is_proven(tmp_path: Path) -> None:
    path = tmp_path / "a.nc"
    with netCDF4.Dataset(path, "w") as file:
        file.createDimension("x", 3)
        for i in range(20):
            file.createVariable(f"v{i}", "f4", ("x",)).setncattr_string("flags", ["a", "b" * i])
    sound = Sound(path.read_bytes())
    assert {sound.unproven(at) for at in addresses(path).values()} == {frozenset()}


@pytest.mark.parametrize(
    ("what", "change"),
    [
        ("longer", lambda n, heap, index: (n + 1, heap, index)),
        ("much longer", lambda n, heap, index: (2**31, heap, index)),
        ("shorter", lambda n, heap, index: (n - 1, heap, index)),
        ("in another heap", lambda n, heap, index: (n, heap + 8, index)),
        ("beyond the end", lambda n, heap, index: (n, 2**62, index)),
        ("at another index", lambda n, heap, index: (n, heap, index + 500)),
    ],
)
def test_a_text_that_is_not_where_the_file_says_is_not_proven_and_never_read(
    tmp_path: Path, what: str, change: object
) -> None:
    path = made(tmp_path / "a.h5", "earliest")
    raw = bytearray(path.read_bytes())
    at = raw.index(b"text\0") + 5
    # Behind the name stand type, space, and then length, heap and index of the text.
    place = next(i for i in range(at, at + 200) if struct.unpack_from("<I", raw, i)[0] == len("a text"))
    raw[place : place + 16] = struct.pack("<IQI", *change(*struct.unpack_from("<IQI", raw, place)))  # type: ignore[operator]
    damaged = tmp_path / "b.h5"
    damaged.write_bytes(raw)
    sound = Sound(bytes(raw))
    assert [sound.unproven(addresses(path)["data"]) for _ in range(2)] == [{b"text"}] * 2
    with pytest.raises((SourceError, FragmentReadError), match=r"b\.h5 is damaged: attribute 'text'"):
        open_source(damaged)


def test_a_reference_to_what_is_no_object_is_not_proven(tmp_path: Path) -> None:
    path = made(tmp_path / "a.h5", "earliest")
    where = addresses(path)
    raw = path.read_bytes()
    assert raw.count(struct.pack("<Q", where["x"])) >= 2
    changed = raw.replace(struct.pack("<Q", where["x"]), struct.pack("<Q", where["x"] + 16))
    # Links lead there too; the object itself still stands at its place.
    assert Sound(changed).unproven(where["data"]) == {b"DIMENSION_LIST"}


def test_a_heap_with_free_space_of_no_bytes_is_not_proven_in_which_the_library_would_run_in_circles(
    tmp_path: Path,
) -> None:
    path = made(tmp_path / "a.h5", "earliest")
    raw = bytearray(path.read_bytes())
    heap = raw.index(b"GCOL")
    at, end = heap + 16, heap + struct.unpack_from("<Q", raw, heap + 8)[0]
    while struct.unpack_from("<H", raw, at)[0]:
        (size,) = struct.unpack_from("<Q", raw, at + 8)
        at += 16 + size + (-size & 7)
        assert at < end
    raw[at + 8 : at + 16] = bytes(8)
    sound = Sound(bytes(raw))
    assert {b"text", b"texts"} <= (sound.unproven(addresses(path)["data"]) or set())
    assert {b"text", b"texts"} <= (sound.unproven(addresses(path)["data"]) or set())


def test_an_object_may_be_looked_at_as_often_as_one_likes(tmp_path: Path) -> None:
    path = made(tmp_path / "a.h5", "latest")
    sound = Sound(path.read_bytes())
    at = addresses(path)["data"]
    assert {sound.unproven(at) for _ in range(10_000)} == {frozenset()}


@pytest.mark.parametrize("libver", ["earliest", "latest"])
def test_a_file_of_h5py_is_sound_as_a_whole(tmp_path: Path, libver: str) -> None:
    path = made(tmp_path / "a.h5", libver)
    with h5py.File(path, "a", libver=libver) as file:
        for i, limit in enumerate(((3, 3), (None, 3), (None, None))):
            file.create_dataset(f"chunks{i}", data=np.zeros((3, 3)), chunks=(1, 2), maxshape=limit)
        file.create_dataset("one chunk", data=np.zeros((3, 3)), chunks=(3, 3))
        file["group/soft"] = h5py.SoftLink("/x")
        file["group/external"] = h5py.ExternalLink("other.h5", "/x")
        for i in range(30):
            file.create_group(f"many/{i}")
    Sound(path.read_bytes()).check()


#: First bytes of a structure, where in it bytes are changed, and what they become.
CHANGES = {
    "a tree with more records than its nodes have": (b"BTHD", 26, b"\xff\x00\x00"),
    "a tree whose node is longer than a node": (b"BTHD", 6, b"\x10\x00\x00\x00"),
    "a tree of other records": (b"BTHD", 5, b"\x01"),
    "a tree of orders of other records": (b"BTHD\0\x06", 5, b"\x05"),
    "a tree whose root is no node": (b"BTHD", 16, b"\x08"),
    "a tree of links that lead into no block": (b"BTLF", 12, b"\xff\xff\xff"),
    "a heap without rows or columns": (b"FRHP", 110, bytes(24)),
    "an index of chunks that is none": (b"EAHD", 0, b"ABCD"),
    "another index of chunks that is none": (b"FAHD", 0, b"ABCD"),
    "an index of chunks with two billion entries": (b"EAHD", 44, (2**31).to_bytes(8, "little")),
    "another index of chunks with two billion entries": (b"FAHD", 8, (2**31).to_bytes(8, "little")),
    "an attribute among shared messages, of which there are none": (b"BTLF\0\x08", 14, b"\x02"),
}


@pytest.mark.parametrize("what", CHANGES)
def test_structures_that_contradict_each_other_are_refused_by_every_way_in(tmp_path: Path, what: str) -> None:
    from cfagg.errors import CfaggError
    from tests.fuzzing.checksums import put_right

    path = tmp_path / "a.h5"
    with h5py.File(path, "w", libver="latest", track_order=True) as file:
        file.create_dataset("grows", data=np.zeros((4, 2)), chunks=(1, 2), maxshape=(None, 2))
        file.create_dataset("fixed", data=np.zeros((4, 2)), chunks=(1, 2))
        for i in range(20):
            file.create_group(f"many/{i}")
            file.attrs[f"a{i}"] = i
    good = path.read_bytes()
    mark, place, new = CHANGES[what]
    at = good.index(mark) + place
    bad = put_right(good[:at] + new + good[at + len(new) :], [good])
    Sound(good).check()
    with pytest.raises(BrokenError):
        Sound(bad).check()
    path.write_bytes(bad)
    with pytest.raises(CfaggError, match="damaged"):
        open_source(str(path))


def test_a_dataset_of_many_chunks_of_which_few_are_written_is_sound(tmp_path: Path) -> None:
    path = tmp_path / "a.h5"
    with h5py.File(path, "w", libver="latest") as file:
        grows = file.create_dataset("grows", (3_000_000,), "i1", chunks=(1,), maxshape=(None,))
        grows[2_999_999:] = 1
        shrunk = file.create_dataset("shrunk", (500_000,), "i1", chunks=(1,), maxshape=(None,))
        shrunk[499_999:] = 1
        shrunk.resize((3,))
    Sound(path.read_bytes()).check()


def test_a_dataset_is_asked_for_its_type_and_for_values_in_its_header(tmp_path: Path) -> None:
    path = tmp_path / "a.h5"
    with h5py.File(path, "w", libver="latest") as file:
        layout = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        layout.set_layout(h5py.h5d.COMPACT)
        space = h5py.h5s.create_simple((3,))
        h5py.h5d.create(file.id, b"here", h5py.h5t.STD_I16LE, space, dcpl=layout).write(
            h5py.h5s.ALL, h5py.h5s.ALL, np.array([1, 2, 3], "i2")
        )
        file["elsewhere"] = np.arange(3, dtype="i2")
        file["texts"] = ["a", "b"]
        file.create_group("group")
    where, sound = addresses(path), Sound(path.read_bytes())
    assert sound.compact(where["here"]) == b"\1\0\2\0\3\0"
    with pytest.raises(BrokenError):
        sound.compact(where["elsewhere"])
    assert sound.type(where["here"]) == (2, ())
    assert sound.type(where["texts"])[0] == 16
    with pytest.raises(BrokenError):
        sound.type(where["group"])
    # Its size is that of what follows.
    raw = path.read_bytes().replace(b"\0\6\0\1\0\2\0\3\0", b"\0\xff\0\1\0\2\0\3\0")
    with pytest.raises(BrokenError):
        Sound(raw).compact(where["here"])


def test_groups_that_hold_each_other_are_looked_at_once(tmp_path: Path) -> None:
    path = tmp_path / "a.h5"
    with h5py.File(path, "w", libver="latest") as file:
        file["a/b/up"] = file.create_group("c")
        file["c/down"] = file["a"]
    sound = Sound(path.read_bytes())
    # As often as one likes.
    for _ in range(300):
        sound.check()


def test_the_index_of_one_dataset_is_looked_at_by_itself(tmp_path: Path) -> None:
    path = tmp_path / "a.h5"
    with h5py.File(path, "w", libver="latest") as file:
        file.create_dataset("grows", data=np.zeros((4, 2)), chunks=(1, 2), maxshape=(None, 2))
        file.create_dataset("fixed", data=np.zeros((4, 2)), chunks=(1, 2))
    where, good = addresses(path), path.read_bytes()
    bad = good.replace(b"FAHD", b"ABCD")
    for _ in range(2):
        Sound(good).index(where["fixed"])
        Sound(bad).index(where["grows"])
    sound = Sound(bad)
    for at in (where["fixed"], where["fixed"], len(good) - 3):
        with pytest.raises(BrokenError):
            sound.index(at)


def test_an_index_whose_layout_ends_too_early_is_refused_when_looked_at_by_itself(tmp_path: Path) -> None:
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as file:
        file.create_dataset("x", data=np.zeros((4, 2)), chunks=(1, 2))
    raw = bytearray(path.read_bytes())
    at = addresses(path)["x"]
    # A layout message in chunks of version 3: its type, its bytes, flags, and what it begins with.
    message = raw.index(b"\x08\0", at)
    while raw[message + 8 : message + 10] != b"\3\2":
        message = raw.index(b"\x08\0", message + 1)
    (size,) = struct.unpack_from("<H", raw, message + 2)
    # What is left of it becomes a message of no meaning.
    struct.pack_into("<H", raw, message + 2, 8)
    struct.pack_into("<HH4x", raw, message + 16, 0, size - 16)
    sound = Sound(bytes(raw))
    with pytest.raises(BrokenError):
        sound.index(at)


def test_a_tree_of_chunks_out_of_order_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.h5"
    with h5py.File(path, "w", libver="v110") as file:
        file.create_dataset("x", data=np.zeros((4, 2)), chunks=(1, 2), maxshape=(None, None))
    raw = bytearray(path.read_bytes())
    Sound(bytes(raw)).index(addresses(path)["x"])
    # Records of a place and two indices: the first two change places.
    at = raw.index(b"BTLF\0\x0a")
    raw[at + 6 : at + 54] = raw[at + 30 : at + 54] + raw[at + 6 : at + 30]
    struct.pack_into("<I", raw, at + 102, compiled()(bytes(raw[at : at + 102])))
    with pytest.raises(BrokenError):
        Sound(bytes(raw)).index(addresses(path)["x"])
