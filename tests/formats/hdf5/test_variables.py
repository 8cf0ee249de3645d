"""Headers read without the HDF5 library, against those that the library finds, and from damaged files."""

from __future__ import annotations

import dataclasses
import pathlib
import random
import re
import struct

import h5py
import netCDF4
import numpy as np
import pytest

from cfagg.errors import CfaggError
from cfagg.formats.hdf5 import chunks as hdf5_chunks
from cfagg.formats.hdf5 import library_variables as hdf5
from cfagg.formats.hdf5 import variables
from cfagg.formats.hdf5.head import Head
from cfagg.formats.hdf5.indexes import positions
from cfagg.formats.hdf5.objects import Objects
from cfagg.formats.values import read
from cfagg.storage.files import CONTEXT_SOURCE, Borrowed, open_regular
from cfagg.storage.gate import admit
from cfagg.storage.handles import handles
from tests import nca_files
from tests.effort import examples
from tests.fuzzing import checksums


def _found(path, name, group="/"):
    with open_regular(path) as handle:
        return variables.find(handle, handle.some(2**13, 0), name, group)


def _expected(path, name):
    return hdf5.find(handles.get(path), name, CONTEXT_SOURCE)


def _same(a, b):
    return repr(a) == repr(b) and all(
        type(v) is type(b.header.attributes[k]) and np.asarray(v).dtype == np.asarray(b.header.attributes[k]).dtype
        for k, v in a.header.attributes.items()
    )


def test_a_dimension_without_a_variable_is_told_from_others_without_the_library(tmp_path):
    with netCDF4.Dataset(tmp_path / "a.nc", "w") as d:
        for name in ("lat", "lon", "other"):
            d.createDimension(name, 4)
        d.createVariable("lat", "f8", ("lat",))
        d.createVariable("other", "f8", ("lat",))
    with open_regular(str(tmp_path / "a.nc")) as handle:
        head = handle.some(2**13, 0)
        told = {n: variables.is_only_a_dimension(handle, head, n) for n in ("lat", "lon", "other", "none", "")}
    assert [name for name, only in told.items() if only] == ["lon", "other"]


def _write(path, variables, attributes):
    """Write a file with so many variables, each with so many attributes of all kinds."""
    with netCDF4.Dataset(path, "w") as d:
        for name, n in (("time", None), ("lat", 4), ("lon", 5)):
            d.createDimension(name, n)
            d.createVariable(name, "f8", (name,)).units = "degrees"
            d[name][:] = range(n or 3)
        types = ["f4", "i2", "f8", "u1", "i8", "S1"]
        for i in range(variables):
            dims = ("time", "lat", "lon") if i % 2 else ("lat", "lon")
            v = d.createVariable(
                f"v{i}",
                types[i % 6],
                dims,
                fill_value=None if i % 6 == 5 else 7,
                zlib=i % 4 > 1,
                fletcher32=i % 4 == 3,
                chunksizes=(1, 2, 5)[-len(dims) :] if i % 4 > 0 else None,
            )
            v.set_auto_maskandscale(False)
            v.setncatts({f"a{j}": f"text {j} " * j for j in range(attributes)})
            v.setncatts({"units": "°C", "vector": np.arange(3, dtype="i2"), "one": np.float32(2), "n": np.int64(-1)})
            v.setncattr_string("texts", ["a", "bcd"])
            v[:] = np.zeros((3, 4, 5)[-len(dims) :], types[i % 6]) if i % 6 < 5 else b"x"
        d.createVariable("scalar", "f8", ())[...] = 2.0
        d.createVariable("big", ">f8", ("lon",), contiguous=True, endian="big")[:] = 2.0
    return str(path)


@pytest.mark.few(2)
@pytest.mark.parametrize(("variables", "attributes"), [(2, 1), (12, 3), (6, 20), (30, 12)])
def test_headers_are_those_that_the_library_finds(tmp_path, variables, attributes):
    path = _write(tmp_path / "a.nc", variables, attributes)
    for name in ("time", "lat", "scalar", "big", *(f"v{i}" for i in range(variables))):
        found, expected = _found(path, name), _expected(path, name)
        assert found is not None
        assert _same(found, expected)


def test_files_of_other_machines_are_read_by_their_ranges(tmp_path):
    path = _write(tmp_path / "a.nc", 8, 20)
    raw = pathlib.Path(path).read_bytes()
    asked = []

    class Ranges:
        def __len__(self):
            return len(raw)

        def __getitem__(self, where):
            asked.append(where.stop - where.start)
            return raw[where]

    for name in ("time", "v1", "v7"):
        found, expected = variables.find(Borrowed(path, Ranges()), raw[: 2**13], name), _found(path, name)
        assert _same(dataclasses.replace(found, key=expected.key), expected)
    assert asked
    assert sum(asked) < len(raw)


def test_what_is_unusual_is_left_to_the_library(tmp_path):
    path = str(nca_files.fragment(tmp_path / "a.nc", "tas", np.zeros((2, 3)), ["y", "x"]))
    nca_files.fragment(path, "inner", np.zeros(2), ["z"], group="g")
    with netCDF4.Dataset(path, "a") as d:
        d.createVariable("unwritten", "f4", ("y",), contiguous=True, fill_value=False)
    with h5py.File(path, "a") as f:
        f["soft"] = h5py.SoftLink("/tas")
        f["outside"] = h5py.ExternalLink("other.nc", "/tas")
        f.create_dataset("stored", (2,), "f8", external=[("raw.bin", 0, 16)])
        f["flag"] = np.array([True, False])
        f["plain"] = np.zeros(3)
    assert _found(path, "tas") is not None
    for name in ("soft", "outside", "stored", "flag", "plain", "g", "g/inner", "none", "y", "unwritten", "", "/"):
        assert _found(path, name) is None
    assert _found(path, "inner", "/g") is None


def test_other_versions_of_the_format_are_left_to_the_library(tmp_path):
    path = str(tmp_path / "a.h5")
    with h5py.File(path, "w", userblock_size=512) as f:
        f["tas"] = np.zeros(3)
    assert _found(path, "tas") is None


def test_a_shorter_variable_along_an_unlimited_dimension_is_left_to_the_library(tmp_path):
    path = str(tmp_path / "a.nc")
    with netCDF4.Dataset(path, "w") as d:
        d.createDimension("t", None)
        d.createVariable("t", "i4", ("t",))[:] = [1, 2]
        d.createVariable("long", "i4", ("t",))[:] = [1, 2, 3]
    assert _found(path, "t") is None
    assert _found(path, "long").header.shape == (3,)


def test_dimensions_are_looked_up_once_for_all_variables_that_are_left_to_the_library(tmp_path, monkeypatch):
    with netCDF4.Dataset(tmp_path / "a.nc", "w") as d:
        d.createDimension("time", None)
        for i in range(20):
            d.createDimension(f"x{i}", 2)
            d.createVariable(f"v{i}", "f4", ("time", f"x{i}"))[:] = np.ones((3, 2))
    calls = []
    for name in ("get_name", "dereference"):
        real = getattr(h5py.h5r, name)
        monkeypatch.setattr(h5py.h5r, name, lambda *given, real=real, name=name: calls.append(name) or real(*given))
    found = [_expected(tmp_path / "a.nc", f"v{i}").header.dims for i in range(20)]
    assert found == [("time", f"x{i}") for i in range(20)]
    assert calls.count("dereference") <= 2 * 20
    assert "get_name" not in calls


def test_a_file_that_is_cut_off_is_left_to_the_library(tmp_path):
    path = str(nca_files.fragment(tmp_path / "a.nc", "tas", np.zeros((2, 3)), ["y", "x"], {"units": "K"}))
    whole = (tmp_path / "a.nc").read_bytes()
    for size in (0, 7, 8, 47, 48, 300, len(whole) // 2, len(whole) - 1):
        (tmp_path / "a.nc").write_bytes(whole[:size])
        assert _found(path, "tas") is None


def test_a_file_that_is_longer_than_it_says_is_left_to_the_library(tmp_path):
    path = str(nca_files.fragment(tmp_path / "a.nc", "tas", np.zeros((2, 3)), ["y", "x"], {"units": "K"}))
    assert _found(path, "tas") is not None
    (tmp_path / "a.nc").write_bytes((tmp_path / "a.nc").read_bytes() + bytes(8))
    assert _found(path, "tas") is None


@pytest.mark.parametrize("libver", ["earliest", "v110"])
def test_a_group_of_many_members_is_not_read_for_each_of_them(tmp_path, monkeypatch, libver):
    with h5py.File(tmp_path / "a.nc", "w", libver=libver) as file:
        for i in range(300):
            file[f"v{i}"] = i
    looked = []
    links = Objects.links
    monkeypatch.setattr(Objects, "links", lambda *a, **k: looked.append(1) or links(*a, **k))
    with open_regular(str(tmp_path / "a.nc")) as handle:
        head = handle.some(2**14, 0)
        assert [variables.find(handle, head, f"v{i}") for i in range(300)] == [None] * 300
        assert len(looked) == 1
        # All at once they are found.
        assert len(variables.find_all(handle, head, [f"v{i}" for i in range(300)])) == 300


@pytest.mark.few(1)
@pytest.mark.parametrize("variables", [1, 12])
def test_damaged_structures_give_the_undamaged_header_or_none(tmp_path, variables):
    path = _write(tmp_path / "a.nc", variables, 12)
    name = f"v{variables - 1}"
    intact = _found(path, name)
    whole = (tmp_path / "a.nc").read_bytes()
    places = [m.start() for m in re.finditer(rb"\x89HDF|OHDR|OCHK|FRHP|BTHD|BTLF|FHDB|FHIB", whole)]
    random = np.random.default_rng(variables)
    refused = 0
    tries = examples(1500)
    for _ in range(tries):
        data = bytearray(whole)
        at = min(int(random.choice(places) + random.exponential(60)), len(data) - 1)
        if 0 <= at - whole.find(b"GCOL") < 4096:
            continue
        data[at] ^= int(random.integers(1, 256))
        (tmp_path / "a.nc").write_bytes(data)
        found = _found(path, name)
        refused += found is None
        if found is not None:
            # What checksums do not cover is not looked at.
            assert found.header.shape == intact.header.shape
            assert found.storage == intact.storage
            assert repr(found.header.attributes) == repr(intact.header.attributes)
    assert refused > tries / 15


def test_a_damaged_heap_of_values_ends_the_search(tmp_path):
    path = _write(tmp_path / "a.nc", 1, 3)
    whole = (tmp_path / "a.nc").read_bytes()
    at = whole.find(b"GCOL")
    random = np.random.default_rng(3)
    refused = 0
    for _ in range(1000):
        data = bytearray(whole)
        for k in random.integers(0, 200, 3):
            data[at + k] = random.integers(256)
        (tmp_path / "a.nc").write_bytes(data)
        refused += _found(path, "v0") is None
    assert refused > 100


def _positions(path, located, indices):
    with open_regular(path) as handle:
        return positions(
            Head(handle), located.storage.tree, located.storage.chunks, indices, located.header.dtype.itemsize
        )


def _chunked(tmp_path):
    """Write four chunks; return the file, what is known of the variable, and the library's table of chunks."""
    values = np.arange(48, dtype="i4").reshape(8, 6)
    path = str(nca_files.fragment(tmp_path / "a.nc", "tas", values, ["y", "x"], chunksizes=(4, 3), zlib=True))
    with h5py.File(path) as f:
        infos = [f["tas"].id.get_chunk_info(k) for k in range(4)]
    table = {tuple(np.floor_divide(i.chunk_offset, (4, 3))): (i.filter_mask, i.byte_offset, i.size) for i in infos}
    return path, _found(path, "tas"), table


def test_positions_of_chunks_are_those_that_the_library_finds(tmp_path):
    path, located, table = _chunked(tmp_path)
    assert _positions(path, located, list(table)) == list(table.values())


def test_an_unwritten_chunk_is_left_to_the_library(tmp_path):
    path, located, _ = _chunked(tmp_path)
    assert _positions(path, located, [(0, 0), (2, 0)]) is None


@pytest.mark.few(1)
@pytest.mark.parametrize("count", [65, 200, 900])
def test_positions_in_a_table_of_several_nodes_are_those_that_the_library_finds(tmp_path, count):
    values = np.arange(3 * count, dtype="i2").reshape(count, 3)
    path = str(nca_files.fragment(tmp_path / "a.nc", "tas", values, ["y", "x"], chunksizes=(1, 2)))
    with h5py.File(path) as f:
        infos = [f["tas"].id.get_chunk_info(k) for k in range(2 * count)]
    located = _found(path, "tas")
    indices = [(i.chunk_offset[0], i.chunk_offset[1] // 2) for i in infos]
    expected = [(i.filter_mask, i.byte_offset, i.size) for i in infos]
    assert _positions(path, located, indices) == expected
    assert _positions(path, located, indices[-1:]) == expected[-1:]
    assert _positions(path, located, [(count, 0)]) is None
    np.testing.assert_array_equal(read(located, [slice(0, count, 1), slice(0, 3, 1)], CONTEXT_SOURCE), values)


def test_damaged_tables_of_several_nodes_give_stored_values_or_are_left_to_the_library(tmp_path):
    values = np.arange(100, dtype="i4")
    path = str(nca_files.fragment(tmp_path / "a.nc", "tas", values, ["x"], chunksizes=(1,)))
    located = _found(path, "tas")
    whole = pathlib.Path(path).read_bytes()
    nodes = [at for at in range(len(whole)) if whole[at : at + 5] == b"TREE\1"]
    expected = positions(whole, located.storage.tree, (1,), [(i,) for i in range(100)], 4)
    chosen, left = random.Random(3), 0
    for _ in range(examples(200)):
        data = bytearray(whole)
        data[chosen.choice(nodes) + chosen.randrange(8)] ^= chosen.randrange(1, 256)
        found = positions(bytes(data), located.storage.tree, (1,), [(i,) for i in range(100)], 4)
        left += found is None
        assert found in (None, expected)
    assert left


def test_a_table_that_goes_round_in_circles_is_left_to_the_library():
    row = struct.pack("<IIQQQ", 24, 0, 0, 0, 0)
    for level in range(4):
        node = struct.pack("<6sHQQ", b"TREE\1" + bytes([level]), 1, 2**64 - 1, 2**64 - 1) + row
        assert positions(node, 0, (2,), [(0,)], 4) is None or not level


def test_damaged_tables_of_chunks_raise_or_give_stored_values(tmp_path):
    path, located, _ = _chunked(tmp_path)
    whole = pathlib.Path(path).read_bytes()
    random = np.random.default_rng(5)
    refused = 0
    for _ in range(400):
        data = bytearray(whole)
        data[located.storage.tree + int(random.integers(200))] ^= int(random.integers(1, 256))
        pathlib.Path(path).write_bytes(data)
        found = _positions(path, located, [(0, 0), (0, 1), (1, 0), (1, 1)])
        refused += found is None
        if found is not None:
            try:
                block = hdf5_chunks.read(
                    admit(handles.get(path), "tas", ()),
                    located.storage,
                    [slice(0, 8, 1), slice(0, 6, 1)],
                    CONTEXT_SOURCE,
                )
            except CfaggError:
                refused += 1
            else:
                assert block.shape == (8, 6)
    assert refused > 100


def _one_by_one(handle, data, names):
    """Return what is found of several variables, each by itself."""
    found = {name: variables.find(handle, data[: 2**13], name) for name in names}
    return {name: repr(one) for name, one in found.items() if one is not None}


def _together(handle, data, names):
    found = variables.find_all(handle, data[: 2**13], names)
    return {name: repr(one) for name, one in found.items()}


def test_variables_that_are_found_together_are_those_that_are_found_each(tmp_path):
    path = pathlib.Path(_write(tmp_path / "a.nc", 12, 3))
    with h5py.File(path, "a") as f:
        f["soft"] = h5py.SoftLink("/v1")
        f["flag"] = np.array([True, False])
    names = ["time", "lat", "scalar", "big", "/v1", "soft", "flag", "none", "", "g/x", *(f"v{i}" for i in range(12))]
    data = path.read_bytes()
    handle = Borrowed("a.nc", data)
    assert _together(handle, data, names) == _one_by_one(handle, data, names)
    assert len(_together(handle, data, names)) == 17


def test_variables_of_changed_files_that_are_found_together_are_those_that_are_found_each(tmp_path):
    sound = pathlib.Path(_write(tmp_path / "a.nc", 4, 2)).read_bytes()
    names = ["time", "lat", "v0", "v1", "v2", "v3"]
    chosen = random.Random(1)
    structures = checksums.places(sound)
    for _ in range(examples(100)):
        changed = bytearray(sound)
        begin, end, _ = chosen.choice(structures)
        at = chosen.randrange(begin, end)
        changed[at] = chosen.choice((changed[at] ^ 1 << chosen.randrange(8), 0, 255))
        data = checksums.put_right(bytes(changed), [sound])
        # Where work is bounded for all together, some may be left out.
        one = Borrowed("a.nc", data)
        assert _together(one, data, names).items() <= _one_by_one(one, data, names).items()
        other = Borrowed("a.nc", sound)
        assert _together(other, sound, names) == _one_by_one(other, sound, names)


@pytest.mark.parametrize("alike", [False, True], ids=["the first file", "one like another"])
@pytest.mark.parametrize(("lists", "right"), [([1], True), ([1, 1, 1], False), ([2], False)])
def test_a_list_of_dimensions_that_is_not_one_for_each_is_left_to_the_library(tmp_path, lists, right, alike):
    for name in ("a.nc", "b.nc"):
        with h5py.File(tmp_path / name, "w", libver="latest", track_order=True) as file:
            file.create_dataset("x", data=np.arange(4.0)).make_scale("x")
            y = file.create_dataset("y", data=np.zeros(4))
            y.attrs["CLASS"] = np.bytes_(b"DIMENSION_SCALE")
            made = np.empty(len(lists), object)
            made[:] = [np.array([file["x"].ref] * n, h5py.ref_dtype) for n in lists]
            y.attrs.create("DIMENSION_LIST", made, dtype=h5py.vlen_dtype(h5py.ref_dtype))
    for name in ("a.nc", "b.nc") if alike else ("a.nc",):
        with open_regular(str(tmp_path / name)) as handle:
            head = handle.some(2**13, 0)
            found = variables.find_every(handle, head, handle)
            assert (found is not None and found["y"].header.dims == ("x",)) if right else found is None
