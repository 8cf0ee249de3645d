"""Heaps and trees of HDF5, made here byte by byte: what is in them is found, and what contradicts itself is refused."""

from __future__ import annotations

import struct
from collections.abc import Callable

import pytest

from cfagg.formats.hdf5 import space as module
from cfagg.formats.hdf5.heaps import Heap
from cfagg.formats.hdf5.space import UNDEFINED, BrokenError, OverlapError, Space, TooManyError, UnusualError
from cfagg.formats.hdf5.trees import records

SUM = b"sums"


@pytest.fixture(autouse=True)
def small_heaps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Heaps of any length, so that those made here need not be filled up."""
    monkeypatch.setattr(module, "_SMALLEST", 0)


def raises(error: type[Exception], asks: Callable[[], object]) -> None:
    with pytest.raises(error) as caught:
        asks()
    assert caught.type is error


def test_bytes_behind_the_end_and_long_structures_are_not_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    space = Space(bytes(range(100)))
    assert space.take(90, 10) == bytes(range(90, 100))
    raises(BrokenError, lambda: space.take(90, 11))
    raises(BrokenError, lambda: space.take(2**64 - 1, 2))
    monkeypatch.setattr(module, "_LONGEST", 10)
    assert len(space.take(0, 10)) == 10
    raises(TooManyError, lambda: space.take(0, 11))


def test_a_structure_is_not_read_over_and_over_until_all_is_counted_anew() -> None:
    space = Space(bytes(2**19))
    for _ in range(2):
        for _ in range(4):
            space.structure(8, 2**19 - 8)
        assert set(space.checked) == {(8, 2**19 - 8, 2**19 - 12)}
        raises(OverlapError, lambda: space.structure(8, 2**19 - 8))
        space.renew()


def collection(*values: bytes, mark: bytes = b"GCOL\1\0\0\0", more: int = 0) -> bytes:
    held = b"".join(struct.pack("<HHIQ", k + 1, 1, 0, len(v)) + v + bytes(-len(v) % 8) for k, v in enumerate(values))
    return mark + struct.pack("<Q", 16 + len(held) + more) + held


def test_a_heap_is_at_least_as_long_as_the_library_demands(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    for length, is_whole in ((4096, True), (4088, False)):
        space = Space(bytes(64) + collection(bytes(length - 32)))
        if is_whole:
            assert space.long_size(64, 1) == length - 32
        else:
            raises(BrokenError, lambda space=space: space.long_size(64, 1))


def test_long_values_are_found_by_their_numbers() -> None:
    space = Space(bytes(64) + collection(b"one", b"", b"three...") + bytes(64))
    assert [space.long_size(64, k) for k in range(5)] == [-1, 3, 0, 8, -1]
    assert space.long_value(3, 64, 1) == b"one"
    assert space.long_value(2, 64, 1) == b"on"
    assert space.long_value(0, 64, 9) == space.long_value(5, 0, 1) == space.long_value(5, UNDEFINED, 1) == b""
    for length, number in ((4, 1), (1, 2), (1, 4), (2**31, 3)):
        raises(BrokenError, lambda length=length, number=number: space.long_value(length, 64, number))


def test_values_of_several_heaps_are_found_in_any_order() -> None:
    heaps = [collection(b"first", b"second"), collection(b"third"), collection(b"fourth", b"fifth")]
    starts = [64, 64 + len(heaps[0]), 72 + len(heaps[0]) + len(heaps[1])]
    space = Space(bytes(64) + heaps[0] + heaps[1] + bytes(8) + heaps[2])
    values = {(0, 1): b"first", (1, 1): b"third", (0, 2): b"second", (2, 2): b"fifth", (2, 1): b"fourth"}
    for (heap, number), value in [*values.items(), *reversed(values.items())]:
        assert space.long_value(len(value), starts[heap], number) == value


@pytest.mark.parametrize("lengths", [[5] * 40, [1, 8, 3] * 20, [9] * 30 + [0, 300] + [10] * 30, [0] * 20, [17] * 3])
def test_many_values_of_one_length_are_found_as_others_are(lengths: list[int]) -> None:
    values = [bytes([k + 1]) * n for k, n in enumerate(lengths)]
    space = Space(bytes(64) + collection(*values) + bytes(64))
    numbers = list(range(len(values) + 2))
    assert space.long_sizes(64, numbers) == [-1, *lengths, -1] == [space.long_size(64, k) for k in numbers]
    assert [space.long_value(n, 64, k + 1) for k, n in enumerate(lengths)] == values


class Slices(bytes):
    """Bytes that remember the longest slice of them that was read."""

    longest = 0

    def __getitem__(self, where):
        found = super().__getitem__(where)
        self.longest = max(self.longest, len(found))
        return found


@pytest.mark.parametrize("longest", [32, 100, 333])
@pytest.mark.parametrize("lengths", [[5] * 40, [1, 8, 3] * 20, [300] + [9] * 30, [16] * 20 + [200]])
def test_of_a_long_heap_only_headers_and_single_values_are_read(
    lengths: list[int], longest: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_LONGEST", longest)
    values = [bytes([k + 1]) * n for k, n in enumerate(lengths)]
    data = Slices(bytes(64) + collection(*values) + bytes(64))
    space = Space(data)
    assert space.long_sizes(64, list(range(1, len(values) + 1))) == lengths
    assert data.longest <= longest
    assert [space.long_value(n, 64, k + 1) for k, n in enumerate(lengths)] == values


@pytest.mark.parametrize(("place", "length"), [(20, 2**63), (20, 2**64 - 1), (39, 10**6), (0, 2**64 - 8)])
def test_among_many_values_of_one_length_one_that_leaves_its_heap_is_found(place: int, length: int) -> None:
    heap = bytearray(collection(*[b"12345"] * 40))
    struct.pack_into("<Q", heap, 16 + 24 * place + 8, length)
    space = Space(bytes(64) + bytes(heap) + bytes(64))
    raises(BrokenError, lambda: space.long_sizes(64, [1]))


@pytest.mark.parametrize(
    "damaged",
    [
        collection(b"one", mark=b"GCOX\1\0\0\0"), collection(b"one", mark=b"GCOL\2\0\0\0"), collection(b"one", more=4),
        collection(b"one", more=128), collection(b"one").replace(b"\3\0\0\0\0\0\0\0", b"\x09\0\0\0\0\0\0\0"),
        collection(b"one", struct.pack("<QQ", 0, 8)).replace(b"\2\0\1\0", bytes(4)),
    ],
    ids=["mark", "version", "odd size", "behind the end", "an object behind the end", "free space of fewer bytes"],
)  # fmt: skip
def test_a_damaged_heap_of_long_values_is_refused(damaged: bytes) -> None:
    raises(BrokenError, lambda: Space(bytes(64) + damaged + bytes(8)).long_size(64, 1))


def free(size: int) -> bytes:
    return struct.pack("<HHIQ", 0, 0, 0, size) + bytes(size - 16)


@pytest.mark.parametrize(
    "objects",
    [
        collection(b"one")[16:] * 2,
        b"".join(collection(b"12345")[16:] for _ in range(40)),
        free(16) + free(24),
        free(24) + bytes(8),
    ],
    ids=["a number", "a number among many", "free room", "free room in the last bytes"],
)
def test_a_heap_of_long_values_with_something_twice_is_refused(objects: bytes) -> None:
    heap = b"GCOL\1\0\0\0" + struct.pack("<Q", 16 + len(objects)) + objects
    raises(BrokenError, lambda: Space(bytes(64) + heap + bytes(8)).long_size(64, 1))


def test_a_heap_of_long_values_may_end_in_fewer_bytes_than_a_number_takes() -> None:
    heap = b"GCOL\1\0\0\0" + struct.pack("<Q", 48) + collection(b"one")[16:] + bytes(8)
    assert Space(bytes(64) + heap + bytes(8)).long_size(64, 1) == 3


@pytest.mark.parametrize("heaps", [True, False])
def test_of_several_heaps_of_long_values_the_last_or_all_are_remembered(heaps: bool) -> None:
    data = bytes(64) + collection(b"1", bytes(2**19)) + collection(b"12", bytes(2**19))
    space, second = Space(data, heaps=heaps), data.rindex(b"GCOL")

    def turn() -> None:
        assert (space.long_size(64, 1), space.long_size(second, 1)) == (1, 2)

    for _ in range(3):
        turn()
    assert len(space._global) == (2 if heaps else 1)
    if heaps:
        turn()
    else:
        raises(OverlapError, turn)


def test_a_long_value_is_not_read_over_and_over() -> None:
    space = Space(bytes(64) + collection(bytes(2**19)))
    for _ in range(3):
        space.long_value(2**19, 64, 1)
    raises(OverlapError, lambda: space.long_value(2**19, 64, 1))


#: Nodes of 46 bytes have nine records of four bytes, and inner ones at most two.
NODE, KIND = 46, 7


def tree(*, depth: int, root: int, count: int, total: int, **changes: int) -> bytes:
    said = {"version": 0, "kind": KIND, "node": NODE, "each": 4, "split": 98, "merge": 40, **changes}
    first = struct.pack(
        "<BBIHHBB", *(said[k] for k in ("version", "kind", "node", "each")), depth, said["split"], said["merge"]
    )
    return b"BTHD" + first + struct.pack("<QHQ", root, count, total) + SUM


def leaf(*numbers: int, mark: bytes = b"BTLF\0\7") -> bytes:
    return mark + b"".join(struct.pack("<I", n) for n in numbers) + SUM


def inner(numbers: list[int], children: list[tuple[int, int]], wide: int = 0, mark: bytes = b"BTIN\0\7") -> bytes:
    made = mark + b"".join(struct.pack("<I", n) for n in numbers)
    return made + b"".join(struct.pack("<QB", place, n) + bytes(wide) for place, n in children) + SUM


def numbers_of(data: bytes, kind: int = KIND, size: int = 4) -> list[int]:
    return [int.from_bytes(r, "little") for r in records(Space(data + bytes(64)), 0, kind, size)]


def forest(*, leaves: bytes = b"BTLF\0\7", nodes: bytes = b"BTIN\0\7", total: int = 9) -> bytes:
    """A tree of three levels with the numbers from 0 to 8."""
    made, places = bytearray(38), []
    for piece in (leaf(0, 1, mark=leaves), leaf(3, mark=leaves), leaf(5, mark=leaves), leaf(7, 8, mark=leaves)):
        places.append((len(made), (len(piece) - 10) // 4))
        made += piece
    for number, below in ((2, places[:2]), (6, places[2:4])):
        places.append((len(made), 1))
        made += inner([number], below, mark=nodes)
    root = len(made)
    made += inner([4], places[4:], wide=1, mark=nodes)
    made[:38] = tree(depth=2, root=root, count=1, total=total)
    return bytes(made)


def test_records_come_in_their_order_from_trees_of_any_height() -> None:
    assert numbers_of(tree(depth=0, root=38, count=3, total=3) + leaf(5, 6, 7)) == [5, 6, 7]
    assert numbers_of(forest()) == list(range(9))
    for empty in (tree(depth=0, root=UNDEFINED, count=0, total=0), tree(depth=3, root=38, count=0, total=0)):
        assert numbers_of(empty) == []


@pytest.mark.parametrize(
    ("damaged", "error"),
    [
        (b"BTHX" + tree(depth=0, root=38, count=1, total=1)[4:] + leaf(5), BrokenError),
        (tree(depth=0, root=38, count=1, total=1, kind=8) + leaf(5), BrokenError),
        (tree(depth=0, root=38, count=1, total=1, each=5) + leaf(5), BrokenError),
        (tree(depth=0, root=38, count=1, total=2**40) + leaf(5), BrokenError),
        (tree(depth=0, root=38, count=1, total=1, split=0) + leaf(5), BrokenError),
        (tree(depth=0, root=38, count=1, total=1, split=101) + leaf(5), BrokenError),
        (tree(depth=0, root=38, count=1, total=1, merge=0) + leaf(5), BrokenError),
        (tree(depth=0, root=38, count=1, total=1, merge=101) + leaf(5), BrokenError),
        (tree(depth=0, root=38, count=1, total=1, version=1) + leaf(5), UnusualError),
        (tree(depth=17, root=38, count=1, total=1) + leaf(5), UnusualError),
        (tree(depth=0, root=UNDEFINED, count=0, total=1), BrokenError),
        (tree(depth=0, root=38, count=0, total=1), BrokenError),
        (tree(depth=0, root=38, count=2, total=3) + leaf(5, 6), BrokenError),
        (tree(depth=0, root=38, count=2, total=1) + leaf(5, 6), BrokenError),
        (tree(depth=0, root=38, count=2, total=2) + leaf(5, 6, mark=b"BTLX\0\7"), BrokenError),
        (tree(depth=0, root=38, count=2, total=2) + leaf(5, 6, mark=b"BTLF\0\6"), BrokenError),
        (tree(depth=0, root=38, count=10, total=10) + leaf(*range(10)), BrokenError),
        (tree(depth=1, root=38, count=3, total=3) + inner([1, 2, 3], [(200, 0)] * 4), BrokenError),
        (forest(leaves=b"BTLF\1\7"), BrokenError), (forest(nodes=b"BTIN\0\6"), BrokenError),
        (forest(nodes=b"BTIX\0\7"), BrokenError), (forest(total=8), BrokenError),
    ],
)  # fmt: skip
def test_a_damaged_tree_is_refused(damaged: bytes, error: type[Exception]) -> None:
    raises(error, lambda: numbers_of(damaged))


def heap(**changes: int) -> bytes:
    """The header of a heap of blocks of 64 bytes, two a row, the largest of 128."""
    said = {
        "version": 0, "id_size": 8, "filters": 0, "flags": 0, "largest": 100, "huge": UNDEFINED, "width": 2,
        "start": 64, "direct": 128, "bits": 16, "root": 146, "rows": 0, **changes,
    }  # fmt: skip
    first = struct.pack("<BHHBI", *(said[k] for k in ("version", "id_size", "filters", "flags", "largest")))
    middle = struct.pack("<12Q", 0, said["huge"], *[0] * 10)
    last = struct.pack(
        "<HQQHHQH", *(said[k] for k in ("width", "start", "direct", "bits")), 0, said["root"], said["rows"]
    )
    return b"FRHP" + first + middle + last + SUM


def block(text: bytes, size: int = 64, mark: bytes = b"FHDB\0") -> bytes:
    """A block of values with a text at its byte 20."""
    return (mark + bytes(15) + text).ljust(size, b".")


def table(*places: int, mark: bytes = b"FHIB\0") -> bytes:
    return mark + bytes(10) + struct.pack(f"<{len(places)}Q", *places) + SUM


def managed(offset: int, length: int) -> bytes:
    return b"\0" + struct.pack("<HB", offset, length) + bytes(4)


def of(data: bytes) -> Heap:
    return Heap(Space(data + bytes(200)), 0)


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"start": 0}, BrokenError), ({"width": 0}, BrokenError), ({"bits": 65}, BrokenError),
        ({"rows": 65}, BrokenError), ({"start": 65}, BrokenError), ({"direct": 130}, BrokenError),
        ({"width": 3}, BrokenError),
        ({"version": 1}, UnusualError), ({"filters": 4}, UnusualError), ({"id_size": 3}, UnusualError),
    ],
)  # fmt: skip
def test_a_heap_that_cannot_be_or_is_filtered_is_refused(changes: dict[str, int], error: type[Exception]) -> None:
    raises(error, lambda: of(heap(**changes)))


def test_a_heap_has_its_mark() -> None:
    raises(BrokenError, lambda: of(b"FRHX" + heap()[4:]))


@pytest.mark.parametrize("flags", [0, 2])
def test_values_of_one_block_are_found_alone_and_together(flags: int) -> None:
    found = of(heap(flags=flags) + block(b"one two"))
    wanted = [managed(20, 3), b"\x22abc" + bytes(4), managed(24, 3), managed(57, 7)]
    expected = [b"one", b"abc", b"two", b"." * 7]
    assert [found.get(identifier) for identifier in wanted] == found.messages(wanted) == expected
    assert found.messages([]) == []
    # Once, however often it is read.
    assert [entry for entry in found.space.checked if entry[0]] == ([(146, 64, 15)] if flags else [])
    for _ in range(30_000):
        found.get(wanted[0])


@pytest.mark.parametrize(
    "data",
    [
        heap() + block(b"one", mark=b"FHDX\0"),
        heap() + block(b"one", mark=b"FHDB\1"),
        heap(root=UNDEFINED) + block(b"one"),
    ],
)
def test_a_block_of_values_that_is_none_is_refused(data: bytes) -> None:
    for asks in (lambda: of(data).get(managed(20, 3)), lambda: of(data).messages([managed(20, 3)])):
        raises(BrokenError, asks)


@pytest.mark.parametrize("identifier", [managed(58, 7), managed(64, 1), managed(2**16 - 1, 1)])
def test_values_that_reach_out_of_their_block_are_refused(identifier: bytes) -> None:
    found = of(heap() + block(b"one"))
    raises(BrokenError, lambda: found.get(identifier))
    raises(BrokenError, lambda: found.messages([managed(20, 3), identifier]))


def branched(**marks: bytes) -> bytes:
    """A heap of four rows: the last has heaps of two rows below it."""
    made, places = bytearray(heap(rows=4)), {}
    made += table(*[0] * 8)
    for name, size in (("r0c1", 64), ("r1c0", 64), ("r2c1", 128), ("below", 64)):
        places[name] = len(made)
        made += block(name.encode(), size, marks.get("block", b"FHDB\0"))
    child = len(made)
    made += table(UNDEFINED, UNDEFINED, places["below"], UNDEFINED, mark=marks.get("child", b"FHIB\0"))
    rows = (UNDEFINED, places["r0c1"], places["r1c0"], UNDEFINED, UNDEFINED, places["r2c1"], UNDEFINED, child)
    made[146 : 146 + 15 + 64 + 4] = table(*rows, mark=marks.get("root", b"FHIB\0"))
    return bytes(made)


#: Where in the heap the block begins: rows begin at 0, 128, 256 and 512, and the second child of the last at 768.
BLOCKS = {b"r0c1": 64, b"r1c0": 128, b"r2c1": 384, b"below": 768 + 128}


def test_values_are_found_in_every_row_of_a_heap() -> None:
    found = of(branched())
    wanted = [managed(begin + 20, len(text)) for text, begin in BLOCKS.items()]
    assert [found.get(identifier) for identifier in wanted] == found.messages(wanted) == list(BLOCKS)
    before = len(found.space.checked)
    for _ in range(10_000):
        found.get(wanted[3])
    assert len(found.space.checked) == before == 3


@pytest.mark.parametrize("offset", [20, 200, 276, 532, 2**10, 2**15, 64 + 62, 384 + 126])
def test_values_where_a_heap_has_no_block_are_refused(offset: int) -> None:
    found = of(branched())
    raises(BrokenError, lambda: found.get(managed(offset, 3)))


@pytest.mark.parametrize("marks", [{"root": b"FHIX\0"}, {"child": b"FHIB\1"}, {"block": b"FHDX\0"}])
def test_tables_and_blocks_have_their_marks(marks: dict[str, bytes]) -> None:
    found = of(branched(**marks))
    raises(BrokenError, lambda: found.get(managed(BLOCKS[b"below"] + 20, 5)))


def test_values_outside_of_blocks_are_found_by_their_numbers() -> None:
    leaves = b"BTLF\0\1" + struct.pack("<QQQ", 20, 5, 1) + struct.pack("<QQQ", 20, 2**40, 2) + SUM
    said = tree(depth=0, root=184, count=2, total=2, kind=1, each=24, node=512)
    found = of(heap(huge=146) + said + leaves)

    def number(n: int) -> bytes:
        return b"\x10" + struct.pack("<Q", n)

    assert found.get(number(1)) == found.space.data[20:25]
    for n in (2, 3):
        raises(BrokenError, lambda n=n: found.get(number(n)))
    large = b"BTLF\0\1" + struct.pack("<QQQ", 20, 2**19, 1) + SUM
    found = of(
        heap(huge=146) + tree(depth=0, root=184, count=1, total=1, kind=1, each=24, node=512) + large + bytes(2**19)
    )
    for _ in range(3):
        found.get(number(1))
    raises(OverlapError, lambda: [found.get(number(1)) for _ in range(3)])


def test_identifiers_of_other_kinds_are_unusual() -> None:
    raises(UnusualError, lambda: of(heap()).get(b"\x30" + bytes(7)))
    assert of(heap(id_size=18)).get(b"\x21ab") == b"ab"
    raises(UnusualError, lambda: of(heap(id_size=19)).get(b"\x21ab"))


def test_structures_without_checksums_share_no_byte() -> None:
    space = Space(bytes(100), checksum=len)
    assert all(space.unsealed(at, 20) for at in (0, 40, 20, 40))
    for at, size in ((0, 10), (19, 1), (59, 2), (90, 11)):
        with pytest.raises(UnusualError):
            space.unsealed(at, size)
