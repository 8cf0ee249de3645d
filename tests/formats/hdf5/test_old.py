"""Old groups and headers, which have no checksums: found as the HDF5 library finds them, or left to it."""

from __future__ import annotations

import io
import random
import re

import h5py
import numpy as np
import pytest

import cfagg
from cfagg.errors import CfaggError
from cfagg.formats.hdf5 import headers, library_variables, variables
from cfagg.formats.values import find, read
from cfagg.storage.files import CONTEXT_SOURCE, open_regular
from tests.effort import examples


def _gridded(file):
    for name, size in (("time", 1), ("lat", 4), ("lon", 6)):
        file.create_dataset(name, data=np.arange(size, dtype="f8")).make_scale(name)
    values = np.arange(24, dtype="f4").reshape(1, 4, 6)
    tas = file.create_dataset("tas", data=values, compression="gzip", shuffle=True, chunks=(1, 4, 6), fillvalue=3)
    tas.attrs.update({"units": "K", "n": np.float32(3), "texts": ["a", "bb"], "fixed": np.bytes_("abc")})
    for axis, name in enumerate(("time", "lat", "lon")):
        tas.dims[axis].attach_scale(file[name])


def _flat(file):
    file.create_dataset("x", data=np.arange(4, dtype="f8")).make_scale("x")
    tas = file.create_dataset("tas", data=np.arange(4, dtype=">i4"), track_times=True)
    tas.attrs.update({f"a{i}": np.arange(i + 1, dtype="i2") for i in range(12)})
    tas.dims[0].attach_scale(file["x"])
    file["soft"] = h5py.SoftLink("/tas")
    file.create_group("g")["x"] = 3


def _many(file):
    for i in range(60):
        file.create_dataset(f"v{i:03}", data=np.int32(i))
    file.create_dataset("t", data=np.arange(4.0), chunks=(2,), maxshape=(None,)).make_scale("t")
    file.create_dataset("tas", data=np.arange(4, dtype="f4"), chunks=(2,), maxshape=(None,)).dims[0].attach_scale(
        file["t"]
    )


FILES = {"gridded": _gridded, "flat": _flat, "many": _many}


def _made(path, what):
    with h5py.File(path, "w") as file:
        FILES[what](file)
    return path.read_bytes()


def _ours(path):
    """Return what is known of a variable, and its values; `None` where the library is to look or values are refused."""
    with open_regular(str(path)) as handle:
        found = variables.find(handle, handle.some(2**14, 0), "tas")
        if found is None:
            return None
        try:
            values = read(found, [slice(0, n, 1) for n in found.header.shape], CONTEXT_SOURCE)
        except (CfaggError, MemoryError):  # a length may have become anything
            return None
    header = found.header
    return header.shape, header.dims, header.dtype, repr(header.attributes), values.tobytes()


def _dims(file, data):
    """Return the names of the dimensions by their places: for names the library goes through all objects."""
    names = [name for name in ("time", "lat", "lon", "x", "t") if name in file]
    try:
        places = {h5py.h5o.get_info(file[name].id).addr: name for name in names}
        return tuple(places[h5py.h5o.get_info(dim[0].id).addr] for dim in data.dims)
    except (RuntimeError, KeyError):  # another object is damaged, or the chunks of a dimension, which are not read
        return None


def _theirs(raw):
    """Return the same, found by the library."""
    with h5py.File(io.BytesIO(raw), "r") as file:
        data = file["tas"]
        names = library_variables._attribute_names(data.id, data.id.get_create_plist())
        dims = _dims(file, data)
        attributes = repr(library_variables._attributes(data.id, names))
        dtype = data.dtype.newbyteorder("=")
        return data.shape, dims, dtype, attributes, data[...].astype(dtype).tobytes()


@pytest.mark.parametrize("what", FILES)
def test_variables_of_files_with_old_structures_are_found_without_the_library(tmp_path, what):
    raw = _made(tmp_path / "a.nc", what)
    assert raw[8] == 0
    assert _ours(tmp_path / "a.nc") == _theirs(raw)


@pytest.mark.parametrize("what", FILES)
def test_all_variables_are_those_that_are_found_each(tmp_path, what):
    path = str(tmp_path / "a.nc")
    _made(tmp_path / "a.nc", what)
    with h5py.File(path, "a") as file:
        for name in {"soft", "g"} & file.keys():
            del file[name]
        for name in [n for n in file if n.startswith("v0")]:
            file[name].attrs["units"] = "1"
    with open_regular(path) as handle, open_regular(path) as aside:
        head = handle.some(2**14, 0)
        every = variables.find_every(handle, head, aside)
        names = list(every)
        assert names == sorted(h5py.File(path))
        assert repr(variables.find_all(handle, head, names)) == repr(every)
        assert {n: repr(variables.find(handle, head, n)) for n in names} == {n: repr(v) for n, v in every.items()}


def _every(path):
    """Return all variables of a file."""
    with open_regular(str(path)) as handle, open_regular(str(path)) as aside:
        return repr(variables.find_every(handle, handle.some(2**14, 0), aside))


def test_old_headers_like_earlier_ones_are_recognised_and_what_differs_is_read(tmp_path, monkeypatch):
    headers.forget()
    new, own = [], headers._remember
    monkeypatch.setattr(headers, "_remember", lambda found, name: new.append(name) or own(found, name))
    for k in range(2):
        with h5py.File(tmp_path / f"{k}.nc", "w") as file:
            file["before"] = np.zeros(1 + 5 * k)
            _gridded(file)
            file["tas"].attrs["n"] = np.float32(k)
            file["tas"][0, 0, 0] = k
        assert _ours(tmp_path / f"{k}.nc") == _theirs((tmp_path / f"{k}.nc").read_bytes())
        assert set(new) - {b""} == (set() if k else {b"tas", b"time", b"lat", b"lon"})
        new.clear()


@pytest.mark.parametrize("what", FILES)
def test_changed_old_headers_are_read_as_if_no_file_had_been_read_before(tmp_path, what):
    raw, chosen = _made(tmp_path / "a.nc", what), random.Random(what)
    for _ in range(examples(100)):
        (tmp_path / "b.nc").write_bytes(_changed(raw, chosen))
        find.forget()
        first = _every(tmp_path / "b.nc"), _ours(tmp_path / "b.nc")
        find.forget()
        _every(tmp_path / "a.nc")
        assert (_every(tmp_path / "b.nc"), _ours(tmp_path / "b.nc")) == first


def _changed(raw, chosen):
    """Return the file with one other byte of its metadata, where it has any meaning."""
    while True:
        at = chosen.randrange(len(raw))
        if any(raw[max(at - 16, 0) : at + 16]):
            new = chosen.choice((raw[at] ^ 1 << chosen.randrange(8), 0, 255, chosen.randrange(256)))
            if new != raw[at]:
                return raw[:at] + bytes([new]) + raw[at + 1 :]


@pytest.mark.parametrize("what", FILES)
def test_a_file_with_one_other_byte_is_read_as_the_library_reads_it_or_left_to_it(tmp_path, what):
    raw, chosen = _made(tmp_path / "a.nc", what), random.Random(what)
    answers = left = 0
    for i in range(examples(1000)):
        changed = _changed(raw, chosen)
        path = tmp_path / f"{i}.nc"  # the library may still have another one open
        path.write_bytes(changed)
        ours = _ours(path)
        if ours is None:
            left += 1
        else:
            answers += 1
            theirs = _theirs(changed)
            if theirs[1] is None:
                ours, theirs = ours[:1] + ours[2:], theirs[:1] + theirs[2:]
            assert ours == theirs
        path.unlink()
    assert left
    assert answers


#: Bytes of a structure, and what stands in their place: what a reader without checksums has to notice itself.
CHANGES = {
    "a level of deflate that does not exist": (b"deflate\0", 8, b"\x84"),
    "two values of deflate": (b"deflate\0", -2, b"\2"),
    "a superblock of another version": (b"\x89HDF\r\n\x1a\n\0", 8, b"\1"),
    "a file that is longer than it says": (b"\x89HDF\r\n\x1a\n\0", 40, b"\0\1"),
    "tables of the root that are not those of its header": (b"\x89HDF\r\n\x1a\n\0", 80, b"\0"),
    "a header with more messages than it has": (b"\1\0\1\0\1\0\0\0", 2, b"\2"),
    "a heap of another version": (b"HEAP", 4, b"\1"),
    "a heap whose free room is beyond its end": (b"HEAP", 17, b"\xff"),
    "a tree of another level": (b"TREE\0", 5, b"\1"),
    "a tree without members": (b"TREE\0", 6, b"\0"),
    "a tree whose last key comes before its names": (b"TREE\0", 40, b"\0"),
    "members of another version": (b"SNOD", 4, b"\2"),
    "fewer members": (b"SNOD", 6, b"\1"),
    "members in another order": (b"SNOD", 8, b"\x08"),
    "a member that is kept in an unknown way": (b"SNOD", 24, b"\7"),
    "a chunk behind the last key": (b"TREE\1", 64, bytes(24)),
}


@pytest.mark.parametrize("what", CHANGES)
def test_what_is_not_proven_is_left_to_the_library(tmp_path, what):
    path = tmp_path / "a.nc"
    with h5py.File(path, "w") as file:
        file.create_dataset("tas", data=np.arange(4.0), chunks=(4,), compression="gzip").make_scale("tas")
        file["alpha"] = file["beta"] = 1
    raw = bytearray(path.read_bytes())
    mark, at, new = CHANGES[what]
    begin = raw.index(mark) + at
    assert _ours(path) is not None
    assert raw[begin : begin + len(new)] != new
    raw[begin : begin + len(new)] = new
    changed = tmp_path / "b.nc"
    changed.write_bytes(raw)
    with open_regular(str(changed)) as handle:
        found = variables.find(handle, handle.some(2**14, 0), "tas")
        assert found is None or what == "a chunk behind the last key"


def test_structures_that_share_bytes_are_left_to_the_library(tmp_path):
    raw = bytearray(_made(tmp_path / "a.nc", "many"))
    nodes = [m.start() for m in re.finditer(rb"SNOD\x01\x00", bytes(raw))]
    tree = raw.index(b"TREE\0")
    # Two children of the tree of names become one.
    raw[tree + 48 : tree + 56] = raw[tree + 32 : tree + 40]
    assert len(nodes) > 2
    (tmp_path / "b.nc").write_bytes(raw)
    assert _ours(tmp_path / "b.nc") is None


def test_a_dimension_that_the_library_cannot_open_is_left_to_it(tmp_path):
    raw = bytearray(_made(tmp_path / "a.nc", "flat"))
    contiguous = raw.index(b"\3\1", 800)  # the first layout is that of the dimension
    raw[contiguous + 10] ^= 1
    (tmp_path / "b.nc").write_bytes(raw)
    assert _ours(tmp_path / "b.nc") is None


def test_values_behind_the_end_of_an_old_file_are_left_to_the_library(tmp_path):
    raw = bytearray(_made(tmp_path / "a.nc", "flat"))
    layouts = [m.start() for m in re.finditer(rb"\x03\x01.{6}\0\0\x10\0{7}", bytes(raw), re.DOTALL)]
    assert len(layouts) == 1  # that of "tas", of sixteen bytes
    raw[layouts[0] + 6] = 255
    (tmp_path / "b.nc").write_bytes(raw)
    with open_regular(str(tmp_path / "b.nc")) as handle:
        assert variables.find(handle, handle.some(2**14, 0), "tas") is None


def test_chunks_of_four_gigabytes_in_an_old_tree_are_left_to_the_library(tmp_path):
    with h5py.File(tmp_path / "a.nc", "w") as file:
        file.create_dataset("tas", data=np.zeros((2, 3)), chunks=(2, 3), maxshape=(None, None)).attrs["units"] = "K"
        for axis, name in enumerate(("y", "x")):
            file.create_dataset(name, data=np.arange(2.0 + axis), chunks=(2 + axis,), maxshape=(None,)).make_scale(name)
            file["tas"].dims[axis].attach_scale(file[name])
    assert _ours(tmp_path / "a.nc") is not None
    raw = bytearray((tmp_path / "a.nc").read_bytes())
    chunk = raw.index(bytes.fromhex("020000000300000008000000"))
    raw[chunk + 3] = raw[chunk + 6] = 1
    (tmp_path / "b.nc").write_bytes(raw)
    with pytest.raises((OSError, KeyError)):
        _theirs(bytes(raw))
    with open_regular(str(tmp_path / "b.nc")) as handle:
        assert variables.find(handle, handle.some(2**14, 0), "tas") is None


@pytest.mark.parametrize(
    ("what", "name", "at", "new"),
    [("many", b"v001\0", 2, b"z"), ("flat", b"a11\0", 32, b"\2")],
    ids=["order", "length"],
)
def test_names_out_of_order_and_attributes_of_other_lengths_are_left_to_the_library(tmp_path, what, name, at, new):
    raw = bytearray(_made(tmp_path / "a.nc", what))
    begin = raw.index(name) + at
    assert raw[begin] in b"0\x0c"
    raw[begin : begin + 1] = new
    (tmp_path / "b.nc").write_bytes(raw)
    assert _ours(tmp_path / "b.nc") is None


@pytest.mark.parametrize(("level", "row", "byte", "new"), [(1, 0, 1, 70), (0, 12, 7, 255)])
def test_a_tree_with_chunks_that_the_library_does_not_find_is_refused(tmp_path, level, row, byte, new):
    """A key unlike the first of the node below, or one beyond what is signed: chunks are listed, and read as fill."""
    values = np.arange(1, 211.0, dtype="f4").reshape(6, 7, 5)
    with h5py.File(tmp_path / "a.nc", "w") as file:
        file.create_dataset("tas", data=values, chunks=(1, 2, 2))
    raw = bytearray((tmp_path / "a.nc").read_bytes())
    nodes = [m.start() + 24 for m in re.finditer(b"TREE\x01" + bytes([level]), bytes(raw))]
    first = min(nodes, key=lambda at: raw[at + 8])  # by the first key
    raw[first + 48 * row + 24 + byte] = new  # in the third number of a place
    (tmp_path / "b.nc").write_bytes(raw)
    with h5py.File(io.BytesIO(raw)) as file:
        assert (file["tas"][...] == 0).any()
    with pytest.raises(CfaggError, match="index of chunks is damaged"):
        cfagg.open_array(tmp_path / "b.nc", "tas")[...]
