"""Values that the HDF5 library must not read: of variable length that are elsewhere, and in chunks that are short."""

import zlib

import h5py
import netCDF4
import numpy as np
import pytest

import cfagg
from cfagg.checking.opening import open_dataset
from cfagg.errors import CfaggError

NUMBERS = np.arange(60.0)
TEXTS = ["one", "", "three", "é" * 40]


def checked(path, name="v"):
    """Read a variable as checks do."""
    with open_dataset(str(path)) as dataset:
        return next(v for v in dataset.variables if v.name == name).values()


def read(path, name="v"):
    """Read a variable as users do."""
    with cfagg.read(path, variables=[name], decode_times=False) as dataset:
        return dataset[name].values


WAYS = [checked, read]


def chunked(path, stored=None, mask=0, **options):
    """Write numbers in chunks, of which the first is replaced."""
    with h5py.File(path, "w") as file:
        made = file.create_dataset("v", data=NUMBERS, chunks=(20,), **options)
        if stored is not None:
            made.id.write_direct_chunk((0,), stored, mask)
    return path


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    ("stored", "mask", "options"),
    [
        (zlib.compress(bytes(16)), 0, {"compression": "gzip"}),
        (zlib.compress(bytes(16)), 0, {"compression": "gzip", "shuffle": True}),
        (bytes(16), 1, {"compression": "gzip"}),
        (bytes(30), 0, {"scaleoffset": 3}),
        (b"\2" + bytes(20), 0, {"scaleoffset": 3}),
        (b"\x41" + bytes(300), 0, {"scaleoffset": 3}),  # more bits than a number has
        (bytes(40), 0, {"compression": "szip"}),
        (b"\xff\xff\xff\x7f" + bytes(40), 0, {"compression": "szip"}),
    ],
)
def test_chunks_that_are_too_short_are_an_error_beyond_which_nothing_is_read(tmp_path, way, stored, mask, options):
    if options == {"scaleoffset": 3} and stored == bytes(30):
        stored = b"\7" + stored[1:]  # 7 bits a number
    path = chunked(tmp_path / "a.h5", stored, mask, **options)
    with pytest.raises(CfaggError, match="damaged"):
        way(path)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    "options",
    [
        {"scaleoffset": 3},
        {"scaleoffset": 3, "shuffle": True, "compression": "gzip"},
        {"compression": "szip"},
        {"compression": "szip", "fletcher32": True},
        {"compression": "lzf", "shuffle": True},
    ],
)
def test_whole_chunks_behind_any_filter_are_read(tmp_path, way, options):
    np.testing.assert_array_equal(way(chunked(tmp_path / "a.h5", **options)), NUMBERS)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("options", [{"compression": "gzip"}, {"shuffle": True}, {}])
def test_no_memory_is_taken_for_what_cannot_come_out_of_a_chunk(tmp_path, monkeypatch, way, options):
    monkeypatch.setattr("cfagg.formats.values.filters.decode", lambda *_: pytest.fail("it is decoded"))
    with h5py.File(tmp_path / "a.h5", "w") as file:
        made = file.create_dataset("v", (1 << 17,), "f8", chunks=(1 << 17,), **options)
        made.id.write_direct_chunk((0,), zlib.compress(bytes(100)))
    with pytest.raises(CfaggError, match="expected 1,048,576"):
        way(tmp_path / "a.h5")


def test_numbers_packed_in_bits_are_read(tmp_path):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        plist = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        plist.set_chunk((20,))
        plist.set_filter(h5py.h5z.FILTER_NBIT)
        made = h5py.h5d.create(file.id, b"v", h5py.h5t.STD_I32LE, h5py.h5s.create_simple((40,)), plist)
        made.write(h5py.h5s.ALL, h5py.h5s.ALL, np.arange(40, dtype="i4"))
    assert checked(tmp_path / "a.h5").tolist() == list(range(40))
    with h5py.File(tmp_path / "a.h5", "a") as file:
        file["v"].id.write_direct_chunk((0,), bytes(3))
    with pytest.raises(CfaggError, match="at least 80"):
        checked(tmp_path / "a.h5")


def texts(path, layout):
    """Write texts of variable length in one of several layouts, and return where the reference to one stands."""
    plist = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    if layout.startswith("chunks"):
        plist.set_chunk((3,))
    else:
        plist.set_layout(h5py.h5d.COMPACT if layout == "compact" else h5py.h5d.CONTIGUOUS)
    with h5py.File(path, "w") as file:
        kind = h5py.h5t.py_create(h5py.string_dtype(), logical=True)
        made = h5py.h5d.create(file.id, b"v", kind, h5py.h5s.create_simple((4,)), plist)
        made.write(h5py.h5s.ALL, h5py.h5s.ALL, np.array(TEXTS, object))
    raw = path.read_bytes()
    heap = raw.index(b"GCOL").to_bytes(8, "little")
    return raw.index((3).to_bytes(4, "little") + heap)


LAYOUTS = ["compact", "contiguous", "chunks"]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_texts_are_read_from_any_layout(tmp_path, way, layout):
    texts(tmp_path / "a.h5", layout)
    assert [t.decode() if isinstance(t, bytes) else t for t in way(tmp_path / "a.h5")] == TEXTS


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize(("place", "new"), [(0, 2), (0, 200), (4, 8), (12, 99), (3, 255)])
def test_texts_that_are_not_where_the_file_says_are_never_read(tmp_path, way, layout, place, new):
    path = tmp_path / "a.h5"
    at = texts(path, layout) + place
    raw = bytearray(path.read_bytes())
    assert raw[at] != new
    raw[at] = new
    path.write_bytes(raw)
    with pytest.raises(CfaggError, match="values that are not where the file says"):
        way(path)


@pytest.mark.parametrize("way", WAYS)
def test_texts_in_a_heap_in_which_the_library_runs_in_circles_are_never_read(tmp_path, way):
    path = tmp_path / "a.h5"
    texts(path, "contiguous")
    raw = bytearray(path.read_bytes())
    heap = raw.index(b"GCOL")
    at = heap + 16
    while raw[at]:
        size = int.from_bytes(raw[at + 8 : at + 16], "little")
        at += 16 + size + (-size & 7)
    raw[at + 8 : at + 16] = bytes(8)
    path.write_bytes(raw)
    with pytest.raises(CfaggError, match="values that are not where the file says"):
        way(path)


@pytest.mark.parametrize("way", WAYS)
def test_many_texts_that_are_one_long_text_in_the_file_are_never_read(tmp_path, way):
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as file:
        texts = ["x" * (1 << 20), *["y"] * 3000]
        at = file.create_dataset("v", data=texts, dtype=h5py.string_dtype()).id.get_offset()
    raw = path.read_bytes()
    path.write_bytes(raw[:at] + raw[at : at + 16] * len(texts) + raw[at + 16 * len(texts) :])
    with pytest.raises(CfaggError, match="values that are not where the file says"):
        way(path)


@pytest.mark.parametrize("changed", [False, True])
def test_a_fill_value_of_variable_length_is_looked_at_before_the_library_opens_the_file(tmp_path, changed):
    path = tmp_path / "a.nc"
    with netCDF4.Dataset(path, "w") as file:
        file.createDimension("x", 2)
        file.createVariable("v", str, ("x",), fill_value="missing")[0] = "a"
    raw = bytearray(path.read_bytes())
    if changed:
        (at,) = [i for i in range(len(raw) - 16) if raw[i : i + 4] == b"\7\0\0\0" and at_heap(raw, i) == b"GCOL"][-1:]
        raw[at] = 200
        # The checksum of the header is put right.
        path.write_bytes(put_right(bytes(raw), path.read_bytes()))
        with pytest.raises(CfaggError, match="damaged"):
            read(path)
    else:
        assert read(path)[0] == "a"


def at_heap(raw, i):
    place = int.from_bytes(raw[i + 4 : i + 12], "little")
    return bytes(raw[place : place + 4]) if place < len(raw) else b""


def put_right(raw, good):
    from tests.fuzzing.checksums import put_right

    return put_right(raw, [good])


def test_values_within_values_are_read_and_those_elsewhere_are_not(tmp_path):
    path = tmp_path / "a.h5"
    inner = h5py.h5t.vlen_create(h5py.h5t.STD_I16LE)
    kind = h5py.h5t.create(h5py.h5t.COMPOUND, 8 + 2 * 16)
    kind.insert(b"n", 0, h5py.h5t.STD_I64LE)
    kind.insert(b"a", 8, h5py.h5t.array_create(inner, (2,)))
    values = np.empty(3, np.dtype([("n", "i8"), ("a", h5py.vlen_dtype("i2"), (2,))]))
    for i in range(3):
        values[i]["n"] = i
        values[i]["a"][:] = [np.arange(i + 1, dtype="i2"), np.arange(30, dtype="i2")]
    with h5py.File(path, "w") as file:
        made = h5py.h5d.create(file.id, b"v", kind, h5py.h5s.create_simple((3,)))
        made.write(h5py.h5s.ALL, h5py.h5s.ALL, values)
        at = made.get_offset()
    assert checked(path)[2]["a"][0].tolist() == [0, 1, 2]
    raw = bytearray(path.read_bytes())
    raw[at + 40 + 24] += 1
    path.write_bytes(raw)
    with pytest.raises(CfaggError, match="values that are not where the file says"):
        checked(path)


@pytest.mark.parametrize("way", WAYS)
def test_a_tree_of_chunks_that_leads_to_itself_is_refused(tmp_path, way):
    path = tmp_path / "a.h5"
    with h5py.File(path, "w", libver="earliest") as file:
        file.create_dataset("v", data=np.arange(2000.0), chunks=(1,))
    raw = bytearray(path.read_bytes())
    at = raw.index(b"TREE\1\1")
    # Keys of 24 bytes stand between the places of the nodes below.
    raw[at + 48 : at + 56] = at.to_bytes(8, "little")
    path.write_bytes(raw)
    with pytest.raises(CfaggError, match=r"contradict each other|its index of chunks is damaged"):
        way(path)


def test_a_dimension_scale_without_a_dimension_is_kept_from_the_netcdf_library_which_crashes_on_it(tmp_path):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["x"] = 1.5
        file["x"].make_scale("x")
    with pytest.raises(CfaggError, match="a dimension scale of no dimension"):
        cfagg.read(tmp_path / "a.h5")
    assert checked(tmp_path / "a.h5", "x") == 1.5


@pytest.mark.parametrize("text", ["", "D", "DIMENSION_SCALES", "D\0AY"])
def test_a_scalar_of_another_class_is_read_unless_the_library_may_take_it_for_a_dimension(tmp_path, text):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["x"] = 1.5
        file["x"].attrs["CLASS"] = np.bytes_("ARRAY")  # as PyTables writes it
    assert cfagg.read(tmp_path / "a.h5")["x"] == 1.5
    with h5py.File(tmp_path / "b.h5", "w") as file:
        file["x"] = 1.5
        file["x"].attrs["CLASS"] = np.array(text.encode(), f"S{len(text) + 1}")
    with pytest.raises(CfaggError, match="a dimension scale of no dimension"):
        cfagg.read(tmp_path / "b.h5")


def test_values_of_files_that_others_have_open_are_read_as_from_their_paths(tmp_path):
    path = chunked(tmp_path / "a.h5", fletcher32=True, compression="gzip")
    with h5py.File(path) as file, open_dataset(file) as dataset:
        np.testing.assert_array_equal(dataset.variables[0].values(), NUMBERS)
    with h5py.File(path, driver="core", backing_store=False) as file, open_dataset(file) as dataset:
        np.testing.assert_array_equal(dataset.variables[0].values(), NUMBERS)


def test_checks_do_not_read_what_a_file_of_its_size_cannot_hold(tmp_path):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        time = file.create_dataset("time", (2**47,), "f8", chunks=(1024,), maxshape=(None,))
        time.make_scale("time")
        time.attrs["units"] = "days since 2000-01-01"
        time[:3] = [0, 1, 2]
    result = cfagg.check(tmp_path / "a.h5", data=True)
    (found,) = [f for f in result.findings if f.code == "INT004"]
    assert "140,737,488,355,328 values, but a file of its size can hold" in found.message
    assert (found.severity, result.sources[0].failed) == ("warning", False)
    assert all(code in found.message for code in result.skipped if "a file of its size" in result.skipped[code])
    assert not [f for f in cfagg.check(tmp_path / "a.h5").findings if f.code == "INT004"]


def test_checks_say_whose_values_lie_where_nothing_allows_to_read(tmp_path):
    (tmp_path / "values").write_bytes(bytes(32))
    with h5py.File(tmp_path / "a.h5", "w") as file:
        time = file.create_dataset("time", (4,), "f8", external=[(str(tmp_path / "values"), 0, 32)])
        time.make_scale("time")
        time.attrs["units"] = "days since 2000-01-01"
    result = cfagg.check(tmp_path / "a.h5", data=True)
    (found,) = [f for f in result.findings if f.code == "INT004"]
    assert "not checked by " in found.message
    assert "external storage" in found.message
