"""Object headers, groups, types and shapes of HDF5: what each byte means, and what is refused where it means nothing.

The headers are made here, byte by byte; types and shapes by the HDF5 library.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from pathlib import Path

import h5py
import numpy as np
import pytest
from h5py import h5s, h5t

from cfagg.formats.hdf5 import objects, old
from cfagg.formats.hdf5 import space as spaces
from cfagg.formats.hdf5.attributes import Attributes
from cfagg.formats.hdf5.headers import fixed_messages
from cfagg.formats.hdf5.messages import (
    CHUNKED,
    CONTIGUOUS,
    attribute_of,
    fill_of,
    filters_of,
    layout_of,
    shape_of,
    type_of,
)
from cfagg.formats.hdf5.objects import (
    ATTRIBUTES,
    CONTINUED,
    FILL,
    FILTERS,
    LAYOUT,
    LINK,
    LINKS,
    OLD_FILL,
    SPACE,
    SYMBOLS,
    TYPE,
    Object,
    Objects,
)
from cfagg.formats.hdf5.slots import Slot, slots_of
from cfagg.formats.hdf5.sound import Sound
from cfagg.formats.hdf5.space import ERRORS, UNDEFINED, BrokenError, OverlapError, Space, TooManyError, UnusualError
from cfagg.formats.hdf5.variables import _File

UNKNOWN, NIL, ATTRIBUTE = 25, 0, 12
INT = h5t.STD_I32LE.encode()[2:]


@pytest.fixture(autouse=True)
def small_heaps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Heaps of any length, so that those made here need not be filled up."""
    monkeypatch.setattr(spaces, "_SMALLEST", 0)


def message(kind: int, data: bytes, flags: int = 0, *, order: int | None = None) -> bytes:
    more = b"" if order is None else struct.pack("<H", order)
    return struct.pack("<BHB", kind, len(data), flags) + more + data


def header(*messages: bytes, flags: int = 2) -> bytes:
    """An object header of version 2, without a checksum: it is compared elsewhere."""
    body = b"".join(messages)
    optional = bytes(16 if flags & 32 else 0) + bytes(4 if flags & 16 else 0)
    return b"OHDR\2" + bytes([flags]) + optional + len(body).to_bytes(1 << (flags & 3), "little") + body + bytes(4)


def reader(*pieces: bytes) -> tuple[Objects, list[int]]:
    """A reader of pieces that stand one behind the other, and where each does."""
    places = [0]
    for piece in pieces:
        places.append(places[-1] + len(piece))
    return Objects(Space(b"".join(pieces) + bytes(64))), places


@pytest.mark.parametrize("times", [0, 32])
@pytest.mark.parametrize("phase", [0, 16])
@pytest.mark.parametrize("width", [0, 1, 2, 3])
@pytest.mark.parametrize("order", [None, 7])
def test_a_header_is_read_whatever_stands_before_its_messages(
    times: int, phase: int, width: int, order: int | None
) -> None:
    made = [message(*m, order=order) for m in ((TYPE, INT), (NIL, b"123"), (ATTRIBUTE, b"one"), (LINK, b"two"))]
    found = reader(header(*made, flags=times | phase | width | (0 if order is None else 4)))[0].read(0)
    assert found.messages == {TYPE: INT}
    assert found.attributes == [(order or 0, b"one")]
    assert found.links == [b"two"]
    assert found.ordered is (order is not None)


@pytest.mark.parametrize(
    ("data", "error"),
    [
        (b"OHDR\3" + header()[5:], UnusualError),
        (header(message(UNKNOWN, b"")), UnusualError),
        (header(message(TYPE, INT)[:-1]), BrokenError),
        (header(message(TYPE, INT), flags=0)[:7] + b"\xff\xff\xff\xff", BrokenError),
        (b"\2" + bytes(40), BrokenError),
    ],
    ids=["another version", "an unknown message", "a message behind the end", "a header behind the end", "no header"],
)
def test_a_header_that_is_none_is_refused(data: bytes, error: type[Exception]) -> None:
    with pytest.raises(error) as caught:
        reader(data)[0].read(0)
    assert caught.type is error


def test_a_header_goes_on_in_blocks_that_are_not_met_twice() -> None:
    block = b"OCHK" + message(TYPE, INT) + bytes(4)

    def first(place: int, length: int = len(block)) -> bytes:
        return header(message(CONTINUED, struct.pack("<QQ", place, length)))

    at = len(first(0))
    assert reader(first(at), block)[0].read(0).messages == {TYPE: INT}
    for damaged in (b"OCHX" + block[4:], b"OCHK" + block[4:5] + b"\xff" + block[6:]):
        with pytest.raises(BrokenError):
            reader(first(at), damaged)[0].read(0)
    # A block that leads to itself.
    circle = b"OCHK" + message(CONTINUED, struct.pack("<QQ", at, 4 + 20 + 4)) + bytes(4)
    with pytest.raises(BrokenError):
        reader(first(at, len(circle)), circle)[0].read(0)


@pytest.mark.parametrize("extended", [True, False])
def test_only_types_are_shared_by_their_place(extended: bool) -> None:
    named, place = header(message(TYPE, INT)), len(header(message(TYPE, INT)))
    to_type = struct.pack("<Q", 0)
    for version in (b"\1" + bytes(7) + struct.pack("<Q", 16), b"\2\0", b"\3\2"):
        found, _ = reader(named, header(message(TYPE, version + to_type, 2)))
        assert found.read(place).messages == {TYPE: INT}
    wrong = [(SPACE, b"\2\0"), (TYPE, b"\0\0"), (TYPE, b"\4\2"), (TYPE, b"\3\1")]
    for kind, version in wrong:
        found, _ = reader(named, header(message(kind, version + to_type, 2)))
        found.extended = extended
        with pytest.raises(UnusualError) as caught:
            found.read(place)
        assert isinstance(caught.value, BrokenError) is not extended


def test_filters_that_stand_elsewhere_are_not_taken_for_none() -> None:
    found, _ = reader(header(message(FILTERS, b"\2\0", 2)))
    with pytest.raises(ERRORS):
        list(filters_of(found.read(0).messages[FILTERS]))


@pytest.mark.parametrize("kind", [7, 15, SYMBOLS, 20, 23, 24])
def test_objects_with_files_of_values_and_the_like_are_left_to_the_library(kind: int) -> None:
    plain = _File(reader(header(message(TYPE, INT)))[0])
    assert fixed_messages(plain.object(0)) == {TYPE: INT}
    with pytest.raises(UnusualError):
        _File(reader(header(message(TYPE, INT), message(kind, bytes(16))))[0]).object(0)


def test_a_type_that_is_named_by_itself_is_refused() -> None:
    found, _ = reader(header(message(TYPE, b"\2\0" + struct.pack("<Q", 0), 2)))
    with pytest.raises(UnusualError):
        found.read(0)


def link(name: str, place: int, *, order: int | None = None, kind: int | None = None, more: int = 0) -> bytes:
    flags = more | (0 if order is None else 4) | (0 if kind is None else 8)
    found = bytes([1, flags]) + (b"" if kind is None else bytes([kind]))
    found += b"" if order is None else struct.pack("<Q", order)
    found += b"\1" if flags & 16 else b""
    return found + len(name).to_bytes(1 << (flags & 3), "little") + name.encode() + struct.pack("<Q", place)


def group(*links: bytes) -> Object:
    found = Object()
    found.links = list(links)
    return found


def test_links_come_in_the_order_of_their_making_else_by_name() -> None:
    read = Objects(Space(bytes(9))).links
    assert read(group(link("b", 5), link("a", 6, more=3), link("c", 7, more=17))) == [(b"a", 6), (b"b", 5), (b"c", 7)]
    made = [link("a", 5, order=2), link("b", 6, order=1, kind=0), link("c", 7, order=300, kind=0, more=16)]
    assert read(group(*made)) == [(b"b", 6), (b"a", 5), (b"c", 7)]


def test_links_by_name_are_passed_over_or_left_to_the_library() -> None:
    read = Objects(Space(bytes(9))).links
    soft = group(link("a", 5), link("s", 6, kind=1))
    assert read(soft, hard=True) == [(b"a", 5)]
    with pytest.raises(UnusualError):
        read(soft)


def test_damaged_links_are_refused() -> None:
    read = Objects(Space(bytes(9))).links
    with pytest.raises(BrokenError):
        read(group(link("long", 5)[:5]))
    with pytest.raises(UnusualError):
        read(group(b"\2" + link("a", 5)[1:]))


def test_more_objects_than_are_counted_are_left_to_the_library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(objects, "MOST", 3)
    found = Objects(Space(bytes(9)))
    assert len(found.links(group(link("a", 5), link("b", 6), link("c", 7)))) == 3
    with pytest.raises(TooManyError):
        found.links(group(link("d", 8)))


def superblock(version: int = 2, **changes: int) -> bytes:
    said = {"offsets": 8, "lengths": 8, "flags": 0, "base": 0, "extension": UNDEFINED, "end": 96, "root": 77, **changes}
    start = b"\x89HDF\r\n\x1a\n" + bytes([version])
    if version < 2:
        start += bytes(4) + bytes([said["offsets"], said["lengths"]]) + bytes(9 if version == 0 else 13)
        tail = (said["base"], UNDEFINED, said["end"], UNDEFINED, 0, said["root"])
        return (start + struct.pack("<6Q", *tail)).ljust(200, b"\0")
    start += bytes([said["offsets"], said["lengths"], said["flags"]])
    return (start + struct.pack("<4Q", *(said[k] for k in ("base", "extension", "end", "root")))).ljust(200, b"\0")


@pytest.mark.parametrize("version", range(4))
def test_the_root_of_a_file_is_found(version: int) -> None:
    found = Objects(Space(superblock(version)))
    assert found.top() == found.root == 77
    assert found.extended is False


@pytest.mark.parametrize(
    ("version", "changes", "root"),
    [
        (4, {}, None), (2, {"offsets": 4}, None), (3, {"lengths": 4}, None), (0, {"offsets": 4}, None),
        (1, {"lengths": 4}, None), (0, {"base": 1}, 77), (2, {"base": 1}, 77), (1, {"end": 201}, 77),
        (2, {"end": 201}, 77), (3, {"flags": 1}, 77),
    ],
)  # fmt: skip
def test_an_unusual_beginning_of_a_file_is_told(version: int, changes: dict[str, int], root: int | None) -> None:
    found = Objects(Space(superblock(version, **changes)))
    with pytest.raises(UnusualError):
        found.top()
    assert found.root == root
    if root is None:
        # Nothing is known of such a file, and so nothing is proven of it.
        with pytest.raises(BrokenError):
            Sound(superblock(version, **changes)).check()


@pytest.mark.parametrize(("table", "extended"), [(True, True), (False, False)])
def test_an_extension_tells_whether_messages_may_be_shared(table: bool, extended: bool) -> None:
    extension = header(message(15 if table else 20, b""))
    found = Objects(Space(superblock(2, extension=200)[:200] + extension + bytes(40)))
    with pytest.raises(UnusualError):
        found.top()
    assert (found.root, found.extended) == (77, extended)


@pytest.mark.parametrize(("number", "place"), [(LINKS, 8), (ATTRIBUTES, 2)])
@pytest.mark.parametrize("first", [0, 1])
def test_trees_of_orders_are_looked_at_where_there_are_some(number: int, place: int, first: int) -> None:
    found = Objects(Space(bytes(200)))
    for tracked, heap, tree, sound in (
        (2, 100, 50, False), (0, 100, 50, True), (2, UNDEFINED, 50, True), (2, 100, UNDEFINED, True),
    ):  # fmt: skip
        info = bytes([0, tracked | first]) + bytes(place * first) + struct.pack("<QQQ", heap, 0, tree)
        made = Object()
        made.messages[number] = info
        if sound:
            found.check_orders(made)
        else:
            with pytest.raises(BrokenError):
                found.check_orders(made)


def old_header(*messages: tuple[int, bytes], version: int = 1, more: int = 0) -> bytes:
    body = b"".join(struct.pack("<HHB3x", kind, len(data), 0) + data for kind, data in messages)
    return struct.pack("<BxHII4x", version, len(messages) + more, 1, len(body)) + body


def test_old_headers_have_the_messages_that_they_count() -> None:
    made = old_header((TYPE, INT), (SPACE, b"12345678"))
    assert list(old.messages(Space(made), 0)) == [(TYPE, 0, INT), (SPACE, 0, b"12345678")]
    fewer = old_header((TYPE, INT), (SPACE, b"12345678"), more=-1)
    assert list(old.messages(Space(fewer), 0)) == [(TYPE, 0, INT)]
    for damaged in (old_header((TYPE, INT), version=2), made[:18] + b"\xff" + made[19:]):
        with pytest.raises(BrokenError):
            list(old.messages(Space(damaged), 0))
    with pytest.raises(UnusualError):
        Objects(Space(old_header((UNKNOWN, b"")))).read(0)


def symbol_table(members: Sequence[tuple[int, int, int]], names: bytes, **marks: bytes) -> bytes:
    """A heap of names at 0, a tree of two keys at 100, and its nodes at 200 and 300."""
    made = bytearray(400)
    made[0:32] = struct.pack("<4s4xQQQ", marks.get("heap", b"HEAP"), len(names), 0, 32)
    made[32 : 32 + len(names)] = names
    made[100:124] = struct.pack("<4sBBH16x", marks.get("tree", b"TREE"), marks.get("kind", b"\0")[0], 0, 2)
    made[124:156] = struct.pack("<4Q", 0, 200, 0, 300)
    for at, (name, place, cached) in zip((200, 300), members, strict=True):
        made[at : at + 48] = struct.pack("<4sHHQQI20x", marks.get("node", b"SNOD"), 1, 1, name, place, cached)
    return bytes(made)


def test_members_of_old_groups_come_in_the_order_of_their_tree() -> None:
    made = symbol_table([(0, 11, 0), (2, 12, 1)], b"a\0b\0")
    message = struct.pack("<QQ", 100, 0)
    assert list(old.symbols(Space(made), message)) == [(b"a", 11), (b"b", 12)]
    soft = Space(symbol_table([(0, 11, 0), (2, 12, 2)], b"a\0b\0"))
    assert list(old.symbols(soft, message, hard=True)) == [(b"a", 11)]
    with pytest.raises(UnusualError):
        list(old.symbols(soft, message))


@pytest.mark.parametrize(
    "damaged",
    [
        symbol_table([(0, 11, 0), (2, 12, 0)], b"a\0b\0", heap=b"HEAX"),
        symbol_table([(0, 11, 0), (2, 12, 0)], b"a\0b\0", tree=b"TREX"),
        symbol_table([(0, 11, 0), (2, 12, 0)], b"a\0b\0", kind=b"\1"),
        symbol_table([(0, 11, 0), (2, 12, 0)], b"a\0b\0", node=b"SNOX"),
        symbol_table([(0, 11, 0), (2, 12, 0)], b"a\0b"),
        symbol_table([(0, 11, 0), (4, 12, 0)], b"a\0b\0"),
        symbol_table([(0, 11, 0), (2**63, 12, 0)], b"a\0b\0"),
    ],
    ids=["heap", "tree", "kind", "node", "no end of a name", "a name behind all", "a name far behind all"],
)
def test_damaged_old_groups_are_refused(damaged: bytes) -> None:
    with pytest.raises((BrokenError, OverflowError)):
        list(old.symbols(Space(damaged), struct.pack("<QQ", 100, 0)))


@pytest.mark.parametrize(
    ("shape", "most"), [((), ()), ((3,), (3,)), ((3, 4), (None, 4)), ((0, 2), (5, None)), ((2,) * 32, (2,) * 32)]
)
def test_shapes_are_those_of_the_hdf5_library(shape: tuple[int, ...], most: tuple[int | None, ...]) -> None:
    limits = tuple(h5s.UNLIMITED if n is None else n for n in most)
    data = (h5s.create_simple(shape, limits) if shape else h5s.create(h5s.SCALAR)).encode()[7:]
    assert shape_of(data) == (shape, tuple(UNDEFINED if n is None else n for n in most), False)


def test_no_element_at_all_is_no_scalar() -> None:
    assert shape_of(h5s.create(h5s.NULL).encode()[7:]) == ((), (), True)
    # Version 1, which has no such thing.
    assert shape_of(struct.pack("<BBB5xQ", 1, 1, 0, 4)) == ((4,), (4,), False)


@pytest.mark.parametrize(
    "data",
    [
        struct.pack("<BBBBQ", 3, 1, 0, 1, 4), struct.pack("<BBBBQ", 0, 1, 0, 1, 4),
        struct.pack("<BBBBQ", 2, 1, 2, 1, 4),
        struct.pack("<BBBB33Q", 2, 33, 0, 1, *[1] * 33), struct.pack("<BBBBQ", 2, 1, 0, 1, 2**63),
        struct.pack("<BBBBQ", 2, 1, 0, 0, 4), struct.pack("<BBBBQ", 2, 1, 0, 3, 4),
    ],
    ids=["version 3", "version 0", "permuted", "33 dimensions", "a length of 2**63", "a scalar of one", "no class"],
)  # fmt: skip
def test_shapes_that_no_sound_file_has_are_unusual(data: bytes) -> None:
    with pytest.raises(UnusualError):
        shape_of(data)


def test_a_size_beyond_its_limit_is_broken() -> None:
    shape_of(struct.pack("<BBB5xQQ", 1, 1, 1, 4, 4))
    with pytest.raises(BrokenError):
        shape_of(struct.pack("<BBB5xQQ", 1, 1, 1, 5, 4))


@pytest.mark.parametrize("order", "<>")
@pytest.mark.parametrize("kind", ["i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f4", "f8"])
def test_types_of_numbers_are_those_of_the_hdf5_library(order: str, kind: str) -> None:
    dtype = np.dtype(order + kind)
    assert type_of(h5t.py_create(dtype).encode()[2:]) == ("number", dtype)


STRANGE = {
    "precision": (h5t.STD_I32LE, lambda t: t.set_precision(20)),
    "offset": (h5t.STD_I32LE, lambda t: (t.set_precision(24), t.set_offset(8))),
    "three bytes": (h5t.STD_I32LE, lambda t: t.set_size(3)),
    "bias": (h5t.IEEE_F32LE, lambda t: t.set_ebias(126)),
    "places": (h5t.IEEE_F32LE, lambda t: t.set_fields(31, 22, 9, 0, 22)),
    "sign": (h5t.IEEE_F32LE, lambda t: t.set_fields(30, 23, 7, 0, 23)),
    "padding": (h5t.IEEE_F32LE, lambda t: t.set_inpad(h5t.PAD_ONE)),
    "first digit": (h5t.IEEE_F64BE, lambda t: t.set_norm(h5t.NORM_NONE)),
    "two bytes": (h5t.IEEE_F16LE, lambda t: None),
}


@pytest.mark.parametrize("what", STRANGE)
def test_numbers_that_numpy_does_not_have_are_unusual(what: str) -> None:
    usual, change = STRANGE[what]
    kind = usual.copy()
    change(kind)
    with pytest.raises(UnusualError):
        type_of(kind.encode()[2:])


@pytest.mark.parametrize(
    ("dtype", "expected"),
    [
        ("S5", ("fixed", 5)), (h5py.string_dtype(), ("text", None)), (h5py.ref_dtype, ("other", None)),
        (h5py.vlen_dtype(h5py.ref_dtype), ("references", None)), (h5py.vlen_dtype("i2"), ("other", None)),
        (h5py.vlen_dtype(h5py.regionref_dtype), ("other", None)), (np.dtype([("a", "i4")]), ("other", None)),
    ],
    ids=str,
)  # fmt: skip
def test_types_that_are_no_numbers_are_told_in_a_word(dtype: object, expected: tuple[str, object]) -> None:
    assert type_of(h5t.py_create(dtype, logical=True).encode()[2:]) == expected


def test_texts_end_with_a_null_or_have_a_length() -> None:
    terminated = h5t.C_S1.copy()
    terminated.set_size(4)
    assert type_of(terminated.encode()[2:]) == ("terminated", 4)
    with pytest.raises(UnusualError):
        type_of(struct.pack("<BBBBI", 0x13, 0, 0, 0, 0))


@pytest.mark.parametrize(
    ("number", "data", "expected"),
    [
        (5, struct.pack("<BBBBi", 1, 0, 0, 0, 2) + b"ab", b"ab"),
        (5, struct.pack("<BBBBi", 2, 0, 0, 1, 2) + b"ab", b"ab"),
        (5, struct.pack("<BBBBi", 2, 0, 0, 0, 2) + b"ab", b""), (5, struct.pack("<BBi", 3, 32, 2) + b"ab", b"ab"),
        (5, struct.pack("<BBi", 3, 0, 2) + b"ab", b""), (5, struct.pack("<BBi", 3, 32, -1), b""),
        (4, struct.pack("<i", 2) + b"ab", b"ab"), (4, struct.pack("<i", 0), b""),
    ],
)  # fmt: skip
def test_fill_values_of_every_version_are_found(number: int, data: bytes, expected: bytes) -> None:
    assert fill_of({number: data}, number) == expected
    assert fill_of({number: data}, 9 - number) == b""


@pytest.mark.parametrize("data", [struct.pack("<BBi", 4, 32, 2) + b"ab", struct.pack("<BBi", 3, 32, 3) + b"ab"])
def test_fill_values_that_cannot_be_are_unusual(data: bytes) -> None:
    with pytest.raises(UnusualError):
        fill_of({5: data}, 5)


def attribute(version: int = 3, flags: int = 0, kind: bytes = INT, shape: Sequence[int] = (2,), cut: int = 0) -> bytes:
    space = h5s.create_simple(tuple(shape)).encode()[7:] if shape else h5s.create(h5s.SCALAR).encode()[7:]
    parts, name = [b"name\0", kind, space], struct.pack("<BBHHH", version, flags, 5, len(kind), len(space))
    if version == 1:
        parts = [part + bytes(-len(part) % 8) for part in parts]
    made = name + (b"\0" if version == 3 else b"") + b"".join(parts) + bytes(4 * int(np.prod(shape)))
    return made[: len(made) - cut]


@pytest.mark.parametrize("version", [1, 2, 3])
def test_attributes_of_every_version_are_proven_if_all_of_their_values_are_there(version: int) -> None:
    sound = Sound(bytes(99))
    assert sound._attribute(attribute(version)) == (b"name", True)
    assert sound._attribute(attribute(version, shape=())) == (b"name", True)
    for cut in (1, 4, 8):
        assert sound._attribute(attribute(version, cut=cut)) == (b"name", False)
    with pytest.raises(BrokenError):
        sound._attribute(attribute(version, cut=9))


def test_an_attribute_without_a_name_is_broken() -> None:
    made = bytearray(attribute())
    made[2:4] = b"\0\0"
    with pytest.raises(BrokenError):
        attribute_of(bytes(made))


def test_several_attributes_of_one_name_are_left_to_the_library() -> None:
    read = Attributes(Objects(Space(bytes(99)))).of
    found = Object()
    found.attributes = [(0, attribute()), (1, attribute().replace(b"name", b"more"))]
    assert sorted(read(found)[0]) == ["more", "name"]
    for again in (attribute(), attribute(version=2)):
        found.attributes.append((2, again))
        with pytest.raises(UnusualError):
            read(found)
        found.attributes.pop()


@pytest.mark.parametrize("version", [0, 6, 15])
def test_types_of_versions_that_do_not_exist_are_unusual(version: int) -> None:
    assert type_of(bytes([INT[0] & 15 | 3 << 4]) + INT[1:]) == ("number", np.dtype("<i4"))
    with pytest.raises(UnusualError):
        type_of(bytes([INT[0] & 15 | version << 4]) + INT[1:])


def test_references_to_objects_have_eight_bytes() -> None:
    references = bytes.fromhex("19000000100000001700000008000000")
    assert type_of(references)[0] == "references"
    assert type_of(references[:12] + b"\x0c\0\0\0")[0] == "other"


@pytest.mark.parametrize("libver", ["earliest", "v110", "latest"])
def test_layouts_are_those_of_the_hdf5_library(tmp_path: Path, libver: str) -> None:
    with h5py.File(tmp_path / "a.h5", "w", libver=(libver, "latest")) as file:
        file["plain"] = np.arange(6.0)
        file.create_dataset("fixed", (8, 6), "i2", chunks=(4, 3))
        file.create_dataset("growing", (8, 6), "i2", chunks=(4, 3), maxshape=(None, 6))
        file.create_dataset("free", (8, 6), "i2", chunks=(4, 3), maxshape=(None, None), compression="gzip")
        plain = file["plain"].id.get_offset()
    objects = Objects(Space((tmp_path / "a.h5").read_bytes()))
    places = dict(objects.links(objects.read(objects.top())))
    found = {name: objects.read(at).messages for name, at in places.items()}
    layout = layout_of(found[b"plain"][LAYOUT])
    assert (layout.class_, layout.at, layout.size) == (CONTIGUOUS, plain, 48)
    layouts = [layout_of(found[name][LAYOUT]) for name in (b"fixed", b"growing", b"free")]
    assert [(one.class_, one.chunk) for one in layouts] == [(CHUNKED, (4, 3, 2))] * 3
    assert [one.kind for one in layouts] == ([0, 0, 0] if libver == "earliest" else [3, 4, 5])
    assert list(filters_of(found[b"free"][FILTERS])) == [(1, (4,))]


def test_layouts_of_other_versions_and_virtual_ones_are_unusual() -> None:
    for data in (b"\2\1" + bytes(40), b"\6\1" + bytes(40), b"\4\3" + bytes(40)):
        with pytest.raises(UnusualError):
            layout_of(data)


def test_attributes_with_shared_shapes_or_of_unknown_versions_are_not_proven() -> None:
    sound = Sound(bytes(99))
    assert sound._attribute(attribute(flags=2)) == (b"name", False)
    for version in (0, 4):
        with pytest.raises(UnusualError):
            sound._attribute(attribute(version))


def test_the_type_of_an_attribute_may_have_a_name() -> None:
    shared = b"\3\2" + struct.pack("<Q", 0)
    data = attribute(flags=1, kind=shared)
    assert Sound(header(message(TYPE, INT)) + bytes(64))._attribute(data) == (b"name", True)
    with pytest.raises(UnusualError):
        Sound(header(message(SPACE, b"")) + bytes(64))._attribute(data)


def test_links_stand_in_old_headers_and_symbol_tables_too(monkeypatch: pytest.MonkeyPatch) -> None:
    assert Objects(Space(old_header((LINK, link("a", 5))))).read(0).links == [link("a", 5)]
    table = Object()
    table.messages[SYMBOLS] = struct.pack("<QQ", 100, 0)
    made = symbol_table([(0, 11, 0), (2, 12, 1)], b"a\0b\0")
    assert Objects(Space(made)).links(table) == [(b"a", 11), (b"b", 12)]
    monkeypatch.setattr(objects, "MOST", 1)
    with pytest.raises(TooManyError):
        Objects(Space(made)).links(table)


def test_old_structures_that_lead_in_circles_end() -> None:
    made = bytearray(symbol_table([(0, 11, 0), (2, 12, 1)], b"a\0b\0"))
    made[124:156] = struct.pack("<4Q", 0, 100, 0, 100)
    with pytest.raises(OverlapError):
        list(old.symbols(Space(bytes(made)), struct.pack("<QQ", 100, 0)))
    # A long block that goes on with itself.
    block = struct.pack("<HHB3xQQHHB3x", CONTINUED, 16, 0, 16, 2**15, NIL, 2**15 - 32, 0)
    circle = struct.pack("<BxHII4x", 1, 2**16 - 1, 1, 2**15) + block + bytes(2**15)
    with pytest.raises(OverlapError):
        list(old.messages(Space(circle), 0))


def test_names_and_nodes_of_old_groups_are_not_read_over_and_over() -> None:
    names = b"a\0b\0" + bytes(2**19)
    made = bytearray(symbol_table([(0, 11, 0), (2, 12, 1)], b"a\0b\0") + bytes(2**19))
    made[8:16] = struct.pack("<Q", len(names))
    space = Space(bytes(made))
    assert len([list(old.symbols(space, struct.pack("<QQ", 100, 0))) for _ in range(4)]) == 4
    with pytest.raises(OverlapError):
        list(old.symbols(space, struct.pack("<QQ", 100, 0)))
    # Many keys that all lead to one node.
    count, members = 2**11, 500
    made = bytearray(400 + 16 * count + 8 + 40 * members)
    made[0:34] = struct.pack("<4s4xQQQ2s", b"HEAP", 2, 0, 32, b"a\0")
    made[100:124] = struct.pack("<4sBBH16x", b"TREE", 0, 0, count)
    node = 124 + 16 * count
    made[124:node] = struct.pack("<QQ", 0, node) * count
    made[node : node + 8] = struct.pack("<4sHH", b"SNOD", 1, members)
    with pytest.raises(OverlapError):
        list(old.symbols(Space(bytes(made)), struct.pack("<QQ", 100, 0)))


def file_of(*messages: bytes) -> bytes:
    """A file whose root group has these messages."""
    return superblock(2, root=200, end=200) + header(*messages) + bytes(400)


def sized(kind: bytes, size: int) -> bytes:
    return kind[:4] + struct.pack("<I", size) + kind[8:]


#: In memory it is a pointer, in files 16 bytes.
TEXT = sized(h5t.py_create(h5py.string_dtype(), logical=True).encode()[2:], 16)
REGION = h5t.py_create(h5py.regionref_dtype, logical=True).encode()[2:]


@pytest.mark.parametrize(
    "damaged",
    [
        superblock()[:50],
        superblock(2, extension=200) + header(message(CONTINUED, b"short")),
        file_of(message(UNKNOWN, b"")),
        file_of(message(LINK, b"\1")),
        file_of(message(ATTRIBUTE, attribute(cut=9))),
        file_of(message(LINKS, b"\0\2" + struct.pack("<QQQ", 300, 0, 300)), message(LINK, link("a", 200))),
        file_of(message(TYPE, TEXT), message(FILL, struct.pack("<BBiIQI", 3, 32, 16, 3, 2**40, 1))),
        file_of(message(TYPE, TEXT), message(FILL, struct.pack("<BBi", 3, 32, 4) + bytes(4))),
        file_of(message(TYPE, TEXT), message(OLD_FILL, struct.pack("<iIQI", 16, 3, 2**40, 1))),
        file_of(message(TYPE, sized(TEXT, 8)), message(FILL, struct.pack("<BBi", 3, 32, 8) + bytes(8))),
        file_of(message(TYPE, sized(REGION, 4)), message(FILL, struct.pack("<BBi", 3, 32, 4) + b"abcd")),
    ],
    ids=[
        "no end of the beginning", "a short extension", "an unknown message", "a short link", "a short attribute",
        "a tree of orders that is none", "a fill value nowhere", "a fill value of another size", "an old fill value",
        "texts of eight bytes", "regions of four bytes",
    ],
)  # fmt: skip
def test_files_of_damaged_objects_are_broken(damaged: bytes) -> None:
    with pytest.raises(BrokenError):
        Sound(damaged).check()


def test_objects_that_only_shared_messages_explain_are_left_to_the_library() -> None:
    unknown = header(message(UNKNOWN, b""))
    for kind, sound in ((15, True), (20, False)):
        made = superblock(2, root=200, extension=200 + len(unknown)) + unknown + header(message(kind, b"")) + bytes(64)
        if sound:
            Sound(made).check()
        else:
            with pytest.raises(BrokenError):
                Sound(made).check()


def test_the_checksum_of_the_beginning_is_compared_with_the_others() -> None:
    space = Space(superblock(2))
    Objects(space).top()
    assert space.checked == [(0, 48, 44)]


def heap_of(*values: bytes) -> bytes:
    """A global heap collection at 64 whose objects are numbered from 1."""
    held = b"".join(struct.pack("<HHIQ", k + 1, 1, 0, len(v)) + v + bytes(-len(v) % 8) for k, v in enumerate(values))
    size = 16 + len(held) + 16
    return bytes(64) + b"GCOL\1\0\0\0" + struct.pack("<Q", size) + held + struct.pack("<HHIQ", 0, 0, 0, 16) + bytes(64)


def refer(length: int, index: int, heap: int = 64) -> bytes:
    return struct.pack("<IQI", length, heap, index)


def test_values_within_values_exist_or_not() -> None:
    texts = (Slot(0, 1),)
    nested = (Slot(0, 16, texts),)
    data = heap_of(b"abc", refer(3, 1) + refer(0, 0, 0), refer(4, 1), b"")
    sound = Sound(data)
    assert sound.exist(refer(3, 1) + refer(0, 0, 0) + refer(0, 0, UNDEFINED), 16, texts)
    assert sound.exist(refer(2, 2), 16, nested)
    assert sound.exist(refer(0, 4), 16, nested)
    # The inner text has a byte less than is said of it.
    assert not sound.exist(refer(1, 3), 16, nested)
    for wrong in (refer(2, 1), refer(3, 5), refer(3, 1, 72), refer(3, 1, 2**40)):
        assert not sound.exist(refer(0, 0, 0) + wrong, 16, texts)


def test_values_within_values_have_a_deepest() -> None:
    data = heap_of(b"abc", refer(3, 1), *(refer(1, k) for k in range(2, 20)))
    for deep, exists in ((9, True), (10, False)):
        slots: tuple[Slot, ...] = (Slot(0, 1),)
        for _ in range(deep):
            slots = (Slot(0, 16, slots),)
        assert Sound(data).exist(refer(1, deep + 1), 16, slots) is exists


def test_regions_exist_or_not() -> None:
    slots = (Slot(0, 0),)
    sound = Sound(heap_of(b"8 bytes.", b"seven b"))
    assert sound.exist(
        struct.pack("<QI", 64, 1) + struct.pack("<QI", 0, 0) + struct.pack("<QI", UNDEFINED, 5), 12, slots
    )
    for wrong in (struct.pack("<QI", 64, 2), struct.pack("<QI", 64, 3), struct.pack("<QI", 72, 1)):
        assert not sound.exist(wrong, 12, slots)


def compound(size: int, *members: tuple[int, bytes], version: int = 3, rank: int = 0) -> bytes:
    made = struct.pack("<BHxI", version << 4 | 6, len(members), size)
    for offset, kind in members:
        if version == 3:
            made += b"a\0" + bytes([offset]) + kind
        else:
            sizes = struct.pack("<B3x4x4x4I", rank, 2, 1, 1, 1) if version == 1 else b""
            made += b"a" + bytes(7) + struct.pack("<I", offset) + sizes + kind
    return made


def array(size: int, *shape: int, of: bytes, version: int = 3) -> bytes:
    permuted = bytes(4 * len(shape)) if version == 2 else b""
    head = struct.pack("<B3xIB", version << 4 | 10, size, len(shape)) + (bytes(3) if version == 2 else b"")
    return head + struct.pack(f"<{len(shape)}I", *shape) + permuted + of


def enumeration(size: int, base: bytes) -> bytes:
    return struct.pack("<BHxI", 0x38, 2, size) + base + b"no\0yes\0" + bytes(2 * size)


OPAQUE = struct.pack("<B3xI8s", 0x15, 7, b"tag").replace(b"\x15\0", b"\x15\x08")


@pytest.mark.parametrize(
    ("kind", "size", "slots"),
    [
        (INT, 4, ()), (TEXT, 16, (Slot(0, 1),)), (REGION, 12, (Slot(0, 0),)),
        (compound(24, (0, INT), (8, TEXT)), 24, (Slot(8, 1),)),
        (compound(40, (0, enumeration(4, INT)), (8, TEXT), (24, TEXT)), 40, (Slot(8, 1), Slot(24, 1))),
        (compound(40, (0, OPAQUE), (8, TEXT), version=2), 40, (Slot(8, 1),)),
        (compound(40, (8, TEXT), version=1, rank=1), 40, (Slot(8, 1), Slot(24, 1))),
        (array(48, 3, of=TEXT), 48, (Slot(0, 1), Slot(16, 1), Slot(32, 1))),
        (array(48, 2, 1, of=compound(24, (8, TEXT)), version=2), 48, (Slot(8, 1), Slot(32, 1))),
        (array(2**31, 2**29, of=INT), 2**31, ()),
    ],
)  # fmt: skip
def test_slots_are_where_elements_refer_to_heaps(kind: bytes, size: int, slots: tuple[Slot, ...]) -> None:
    assert slots_of(kind) == (size, slots)


def nested(depth: int) -> bytes:
    kind = INT
    for _ in range(depth):
        kind = array(4, 1, of=kind)
    return kind


@pytest.mark.parametrize(
    ("kind", "error"),
    [
        (sized(INT, 0), BrokenError), (sized(TEXT, 8), BrokenError), (sized(REGION, 16), BrokenError),
        (compound(20, (8, TEXT)), BrokenError), (compound(39, (8, TEXT), version=1, rank=1), BrokenError),
        (compound(40, (8, TEXT), version=1, rank=5), BrokenError),
        (compound(24, (8, TEXT))[:9], BrokenError), (compound(24, (8, TEXT))[:12], BrokenError),
        (array(48, 4, of=TEXT), BrokenError), (array(16, 2, of=TEXT), BrokenError),
        (enumeration(2, INT), BrokenError), (enumeration(16, TEXT), BrokenError),
        (enumeration(4, INT)[:26], BrokenError), (b"\x47" + REGION[1:], UnusualError),
        (REGION[:1] + b"\2" + REGION[2:], UnusualError), (b"\x3b" + INT[1:], UnusualError),
        (array(16 * 5000, 5000, of=TEXT), UnusualError), (nested(32), None), (nested(33), UnusualError),
    ],
)  # fmt: skip
def test_types_that_contradict_themselves_or_are_not_known_have_no_slots(kind: bytes, error: type | None) -> None:
    if error is None:
        assert slots_of(kind)[1] == ()
        return
    with pytest.raises(UnusualError) as caught:
        slots_of(kind)
    assert caught.type is error


@pytest.mark.parametrize(("size", "precision"), [(0, 0), (2, 16), (16, 128)])
def test_reals_of_other_sizes_than_four_and_eight_bytes_are_not_read_here(size, precision):
    data = struct.pack("<BBBBIHHBBBBI", 0x11, 0x20, 0, 0, size, 0, precision, 0, 0, 0, 0, 0)
    with pytest.raises(UnusualError):
        type_of(data)
