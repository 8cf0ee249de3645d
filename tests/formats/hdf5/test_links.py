"""What links, layouts and attributes of an HDF5 file lead to, seen before any library follows them."""

from __future__ import annotations

import os

import h5py
import netCDF4
import numpy as np
import pytest

import cfagg
from cfagg.errors import FragmentReadError, UnsupportedError
from cfagg.formats.hdf5 import links as hdf5_links
from cfagg.formats.hdf5.library import release
from cfagg.formats.hdf5.links import LeavesError, followed, outside, reach
from cfagg.storage.files import Context, open_regular
from cfagg.storage.gate import Reference
from tests.formats.hdf5.test_proof import garbled


@pytest.fixture
def path(tmp_path):
    return tmp_path / "a.h5"


def follow(path):
    """Return what a library would follow out of a file."""
    with open_regular(str(path)) as handle:
        try:
            return followed(handle, Context("partition 3"))
        finally:
            release(handle)


def refused(path):
    with pytest.raises(FragmentReadError, match=r"^partition 3: .*is damaged") as caught:
        follow(path)
    return str(caught.value)


class TestReach:
    @pytest.fixture
    def file(self, path):
        with h5py.File(path, "w") as file:
            file["g/x"] = 1
            file["g/up"] = h5py.SoftLink("/top")
            file["g/beside"] = h5py.SoftLink("x")
            file["top"] = 2
            file["out"] = h5py.ExternalLink("other.h5", "/x")
            file["to out"] = h5py.SoftLink("/out")
            file["hanging"] = h5py.SoftLink("nothing")
            file["circle"] = h5py.SoftLink("circle")
            for k in range(20):
                file[f"s{k + 1}"] = h5py.SoftLink(f"/s{k}")
            file["s0"] = 3
            file["é"] = 4
            yield file

    @pytest.mark.parametrize(
        ("name", "value"),
        [
            ("g/x", 1), ("/g/x", 1), ("g//x", 1), ("./g/./x", 1), ("g/up", 2), ("g/beside", 1), ("s16", 3), ("é", 4),
        ],
    )  # fmt: skip
    def test_objects_of_the_file_are_reached(self, file, name, value):
        assert h5py.Dataset(reach(file.id, name))[()] == value

    @pytest.mark.parametrize("name", ["nothing", "g/nothing", "top/x", "hanging", "hanging/x", "circle", "s17", "x"])
    def test_what_is_not_there_is_none(self, file, name):
        assert reach(file.id, name) is None

    @pytest.mark.parametrize("name", ["out", "out/x", "to out", "to out/x/y", "g/../out"])
    def test_a_path_that_leads_out_of_the_file_is_not_taken(self, file, name):
        if ".." in name:
            assert reach(file.id, name) is None
            return
        with pytest.raises(LeavesError) as caught:
            reach(file.id, name)
        assert caught.value.reference == Reference("an external link", "other.h5:/x")

    def test_a_link_of_any_other_kind_leads_anywhere(self, file):
        assert hdf5_links._leaving(file.id, b"g", 65) == Reference("a user-defined link", "g")


def stored(file, name="x", files=("a.bin",)):
    return file.create_dataset(name, (4 * len(files),), "f8", external=[(f, 0, 32) for f in files])


def virtual(file, name="x", count=1, shape=(8,), most=None, source=slice(None)):
    layout = h5py.VirtualLayout(shape, "f8", maxshape=most)
    for k in range(count):
        layout[2 * k : 2 * k + 2] = h5py.VirtualSource(f"{k}.h5", "x", (2,))
    return file.create_virtual_dataset(name, layout)


def unlimited(file, name="x"):
    layout = h5py.VirtualLayout((4,), "f8", maxshape=(None,))
    found = h5py.VirtualSource("b.h5", "x", (4,), maxshape=(None,))
    layout[: h5py.h5s.UNLIMITED] = found[: h5py.h5s.UNLIMITED]
    file.create_virtual_dataset(name, layout)


def listed(kind, *targets):
    return [Reference(kind, target) for target in targets]


def test_the_files_of_values_are_listed(path):
    with h5py.File(path, "w") as file:
        plain = file.create_dataset("plain", data=np.zeros(4), chunks=(2,))
        assert outside(plain.id) == []
        assert outside(stored(file, "s", ("a.bin", "b.bin")).id) == listed("external storage", "a.bin", "b.bin")
        for count in (1, 3, 4):
            found = outside(virtual(file, f"v{count}", count).id)
            assert found == listed("a virtual dataset", *[f"{k}.h5" for k in range(min(count, 3))])


def test_a_virtual_dataset_without_sources_is_one_all_the_same(path):
    with h5py.File(path, "w", libver="latest") as file:
        plist = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        plist.set_layout(h5py.h5d.VIRTUAL)
        made = h5py.h5d.create(file.id, b"v", h5py.h5t.IEEE_F64LE, h5py.h5s.create_simple((4,)), plist)
        assert outside(made) == listed("a virtual dataset", "nothing")


def test_links_to_other_files_are_followed_by_a_library_wherever_they_are(path):
    with h5py.File(path, "w") as file:
        file["a"] = h5py.ExternalLink("b.h5", "/x")
        file["g/h/i"] = h5py.ExternalLink("c.h5", "/")
        file["soft"] = h5py.SoftLink("g/h/i")
        file["into"] = h5py.SoftLink("/a/below")
    assert sorted(follow(path)) == sorted(
        listed("an external link", "b.h5:/x", "c.h5:/", "c.h5:/", "b.h5:/x")
    )  # fmt: skip


def test_a_file_without_any_leads_nowhere(path):
    with h5py.File(path, "w") as file:
        file["g/x"] = np.zeros(3)
        file["soft"] = h5py.SoftLink("/g/x")
        file["type"] = np.dtype("f8")
    assert follow(path) == []


@pytest.mark.parametrize("group", ["/", "g"])
def test_a_file_with_a_link_to_nothing_is_read_without_the_netcdf_library(path, group):
    with h5py.File(path, "w") as file:
        file["x"] = np.arange(3.0)
        file.require_group(group)["hanging"] = h5py.SoftLink("nowhere")
    with pytest.raises(UnsupportedError, match=r"link 'hanging' of .* leads to nothing"):
        follow(path)
    with pytest.raises(OSError, match="HDF error"):
        netCDF4.Dataset(path)
    assert cfagg.read(path).x.values.tolist() == [0, 1, 2]


def test_values_elsewhere_are_not_followed_when_a_file_is_opened(path):
    with h5py.File(path, "w") as file:
        stored(file, "s")
        virtual(file, "v")
        virtual(file, "w", 2)
    assert follow(path) == []


def test_sources_by_which_the_extent_is_known_are_followed_once_by_all_names(path):
    with h5py.File(path, "w", libver="latest") as file:
        unlimited(file)
        file["y"] = file["x"]
        file["g/z"] = file["x"]
    assert follow(path) == listed("a virtual dataset", "b.h5")


def test_groups_in_a_circle_have_no_end(path):
    with h5py.File(path, "w") as file:
        file.create_group("g/h")
        file["g/h/back"] = file["g"]
    assert follow(path) is None
    with h5py.File(path, "w") as file:
        file.create_group("g")
        file["g/root"] = file["/"]
    assert follow(path) is None


@pytest.mark.parametrize(("depth", "ends"), [(127, True), (128, False)])
def test_groups_may_be_so_deep(path, depth, ends):
    with h5py.File(path, "w") as file:
        file.create_group("/".join(["g"] * depth))
    assert (follow(path) is not None) == ends


def test_groups_may_be_so_many_by_all_their_paths(path, monkeypatch):
    with h5py.File(path, "w") as file:
        for name in "abcd":
            file[f"g/{name}"] = file.require_group("inner")
    # g, inner, and inner by four more names
    monkeypatch.setattr(hdf5_links, "MOST", 6)
    assert follow(path) == []
    monkeypatch.setattr(hdf5_links, "MOST", 5)
    assert follow(path) is None


@pytest.mark.parametrize("owner", ["/", "g", "g/h", "x", "g/h/y"])
def test_an_attribute_that_is_not_proven_is_refused_wherever_it_is(path, owner):
    with h5py.File(path, "w") as file:
        file.create_group("g/h")
        file["x"] = file["g/h/y"] = 1
        file["g/h/z"] = 2
        kind = h5py.h5t.array_create(h5py.h5t.vlen_create(h5py.h5t.NATIVE_INT32), (2,))
        h5py.h5a.create(file[owner].id, b"doubtful", kind, h5py.h5s.create(h5py.h5s.SCALAR))
    assert follow(path) == []
    garbled(path)
    assert "attribute 'doubtful'" in refused(path)


def test_texts_of_fixed_length_in_utf8_are_read_to_find_scales(path):
    with h5py.File(path, "w") as file:
        file["x"] = 1
        file["x"].attrs.create("CLASS", "ARRÄY".encode(), dtype=h5py.string_dtype("utf-8", 6))
    assert follow(path) == []


ATTRIBUTES = {
    "_NCProperties": ("g", ["a", "b"], "a"),
    "CLASS": ("d", ["a", "b"], "DIMENSION_SCALE"),
    "NAME": ("c", ["a", "b"], "x"),
    "_Netcdf4Dimid": ("d", np.arange(2, dtype="i4"), np.int32(0)),
    "_Netcdf4Coordinates": ("d", np.arange(3, dtype="i4"), np.arange(2, dtype="i4")),
}


@pytest.mark.parametrize("deep", [False, True])
@pytest.mark.parametrize("name", ATTRIBUTES)
def test_attributes_with_too_many_elements_for_the_netcdf_library_are_refused(path, name, deep):
    owner, wrong, right = ATTRIBUTES[name]
    for value, damaged in ((right, False), (wrong, True)):
        with h5py.File(path, "w") as file:
            home = file.create_group("g") if deep else file["/"]
            at = home
            if owner != "g":
                at = home.create_dataset("x", data=np.zeros((2, 2)))
            if owner == "c":
                at.attrs["CLASS"] = np.bytes_("DIMENSION_SCALE")
            at.attrs[name] = value
        if damaged and not (owner == "g" and deep):
            assert f"attribute {name!r}" in refused(path)
        else:
            # Only the root has properties, as far as the library looks.
            assert follow(path) == []


def test_a_name_without_a_class_is_of_no_account(path):
    with h5py.File(path, "w") as file:
        file.create_dataset("x", data=np.zeros(2)).attrs["NAME"] = ["a", "b"]
        file["x"].attrs["CLASSES"] = ["a", "b"]
    assert follow(path) == []


@pytest.mark.parametrize("dtype", ["f4", "i2", "i8"])
def test_coordinates_of_another_type_are_refused(path, dtype):
    with h5py.File(path, "w") as file:
        file.create_dataset("x", data=np.zeros((2, 2))).attrs["_Netcdf4Coordinates"] = np.arange(2).astype(dtype)
    assert "attribute '_Netcdf4Coordinates'" in refused(path)


@pytest.mark.parametrize(("value", "right"), [([[1], [2]], True), ([[1], [2], [3]], False), (None, False)])
def test_a_list_of_dimensions_has_one_sequence_for_each(path, value, right):
    with h5py.File(path, "w") as file:
        x = file.create_dataset("x", data=np.zeros((2, 2)))
        if value is None:
            x.attrs["DIMENSION_LIST"] = np.arange(2)
        else:
            lists = np.empty(len(value), object)
            lists[:] = [np.array([file["x"].ref], h5py.ref_dtype) for _ in value]
            x.attrs.create("DIMENSION_LIST", lists, dtype=h5py.vlen_dtype(h5py.ref_dtype))
    if right:
        assert follow(path) == []
    else:
        assert "attribute 'DIMENSION_LIST'" in refused(path)


def test_a_list_of_dimensions_of_a_kind_that_may_name_files_is_followed(path):
    with h5py.File(path, "w") as file:
        x = file.create_dataset("x", data=np.zeros(2))
        kind = h5py.h5t.vlen_create(h5py.h5t.STD_REF_DSETREG)
        h5py.h5a.create(x.id, b"DIMENSION_LIST", kind, h5py.h5s.create_simple((1,)))
    with h5py.File(path) as file:
        assert hdf5_links._scales(file["x"].id) == listed("a dimension's reference", "an object of any file")


def test_what_is_no_hdf5_is_damaged(path):
    path.write_bytes(b"\x89HDF\r\n\x1a\n" + bytes(100))
    assert "the library reports" in refused(path)


def test_a_file_whose_structures_contradict_each_other_is_refused_before_it_is_gone_through(path):
    with h5py.File(path, "w", libver="latest") as file:
        file.create_dataset("fixed", data=np.zeros((4, 2)), chunks=(1, 2))
    path.write_bytes(path.read_bytes().replace(b"FAHD", b"ABCD"))
    assert "contradict each other" in refused(path)


def test_a_virtual_dataset_mapped_as_a_whole_has_an_extent_of_its_own(path):
    with h5py.File(path, "w", libver="latest") as file:
        plist = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        space = h5py.h5s.create_simple((4,))
        plist.set_virtual(space, b"b.h5", b"x", h5py.h5s.create_simple((4,)))
        h5py.h5d.create(file.id, b"v", h5py.h5t.IEEE_F64LE, space, plist)
    assert follow(path) == []


def test_attributes_of_other_types_by_the_same_names_are_of_no_account(path):
    with h5py.File(path, "w") as file:
        x = file.create_dataset("x", data=np.zeros(2))
        x.attrs["CLASS"] = np.arange(3)
        h5py.h5a.create(
            x.id, b"DIMENSION_LIST", h5py.h5t.vlen_create(h5py.h5t.NATIVE_INT32), h5py.h5s.create_simple((1,))
        )
        assert hdf5_links._scales(x.id) == []
    assert follow(path) == []


def test_a_list_of_dimensions_shorter_than_the_rank_is_refused(tmp_path):
    """The netCDF library reads an element for each dimension, those that are not there out of what was in memory."""
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["x"] = np.arange(4.0)
        file["x"].make_scale("x")
        file["v"] = np.zeros((4, 3))
        file["v"].dims[0].attach_scale(file["x"])
        file["v"].attrs.create(
            "DIMENSION_LIST", file["v"].attrs["DIMENSION_LIST"][:1], dtype=h5py.vlen_dtype(h5py.ref_dtype)
        )
    with pytest.raises(FragmentReadError, match="has 1 elements, expected 2"):
        follow(tmp_path / "a.h5")


def test_a_file_is_searched_once_while_it_stays_as_it_is(path, monkeypatch):
    with h5py.File(path, "w") as file:
        file["out"] = h5py.ExternalLink("other.h5", "/x")
    with open_regular(str(path)) as handle:
        first = followed(handle, Context())
        release(handle)
        monkeypatch.setattr(hdf5_links, "_followed", None)
        assert followed(handle, Context()) == first == [Reference("an external link", "other.h5:/x")]
        first.clear()
        assert len(followed(handle, Context())) == 1


def test_a_link_written_into_an_open_file_is_found_though_its_size_and_time_of_writing_are_as_before(tmp_path, path):
    for name, link in ((path, h5py.SoftLink("/g")), (tmp_path / "b.h5", h5py.ExternalLink("other.h5", "/x"))):
        with h5py.File(name, "w") as file:
            file["g/y"] = link
        name.write_bytes(name.read_bytes().ljust(8192, b"\0"))
    before = path.stat()
    with open_regular(str(path)) as handle:
        assert followed(handle, Context(), strange=True) is None  # a circle
        release(handle)
        path.write_bytes((tmp_path / "b.h5").read_bytes())
        while path.stat().st_ctime_ns == before.st_ctime_ns or path.stat().st_mtime_ns != before.st_mtime_ns:
            os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))  # the clock of a file system has long ticks
        assert followed(handle, Context(), strange=True) == [Reference("an external link", "other.h5:/x")]
