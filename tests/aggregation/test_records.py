"""Descriptions of scanned files as bytes: lossless, small, the same for the same files, and never believed."""

from __future__ import annotations

import random
import struct
import tracemalloc
from dataclasses import fields, is_dataclass, replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hn

from cfagg.aggregation import record_book
from cfagg.aggregation.record_nodes import SUM, checksum
from cfagg.aggregation.records import decode, encode, extend
from cfagg.aggregation.scanning import FileState, Scanned
from cfagg.cf.joining import Companion, Coordinate, Described, Stated
from cfagg.errors import CfaggError, ConventionError
from cfagg.formats.metadata.foreign import Foreign


def same(a: object, b: object) -> bool:
    """Whether two values are of one type and equal to the bit, and so is all in them."""
    if type(a) is not type(b):
        return False
    if is_dataclass(a) and not isinstance(a, type):
        return all(same(getattr(a, f.name), getattr(b, f.name)) for f in fields(a))
    if isinstance(a, np.ndarray):
        if not same(a.dtype, b.dtype) or a.shape != b.shape:
            return False
        if a.dtype.hasobject:
            return all(map(same, a.ravel().tolist(), b.ravel().tolist()))
        return a.tobytes() == b.tobytes()
    if isinstance(a, np.dtype):
        inner = all(same(a[n], b[n]) for n in a.names or ())
        return a == b and a.str == b.str and inner and same(dict(a.metadata or {}), dict(b.metadata or {}))
    if isinstance(a, np.generic):
        return a.dtype == b.dtype and a.tobytes() == b.tobytes()
    if isinstance(a, float):
        return struct.pack("<d", a) == struct.pack("<d", b)
    if isinstance(a, dict):
        return list(a) == list(b) and all(same(a[k], b[k]) for k in a)
    if isinstance(a, list | tuple):
        return len(a) == len(b) and all(map(same, a, b))
    return a == b


TEXTS = st.text(st.characters(), max_size=8)  # lone surrogates too
INTEGERS = st.sampled_from([0, -1, 2**63 - 1, -(2**63), 2**64, 127, 128, -128, -129]) | st.integers()
PLAIN = st.one_of(
    hn.boolean_dtypes(),
    hn.integer_dtypes(endianness="<") | hn.integer_dtypes(endianness=">"),
    hn.unsigned_integer_dtypes(endianness=">"),
    hn.floating_dtypes(endianness=">", sizes=(16, 32, 64)) | hn.floating_dtypes(endianness="<", sizes=(32, 64)),
    hn.complex_number_dtypes(endianness="<", sizes=(64, 128)),
    hn.datetime64_dtypes(),
    hn.timedelta64_dtypes(endianness=">"),
    hn.byte_string_dtypes(max_len=5),
    hn.unicode_string_dtypes(max_len=5),
)
ARRAYS = hn.arrays(PLAIN | hn.array_dtypes(PLAIN, max_size=3) | hn.nested_dtypes(PLAIN, max_leaves=4),
                   hn.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=3))  # fmt: skip
BITS = st.binary(min_size=8, max_size=24).map(lambda b: np.frombuffer(b[: len(b) // 8 * 8], "<f8"))  # any NaN


@st.composite
def objects(draw) -> np.ndarray:
    """Arrays of texts of any length, of bytes or of arrays."""
    values = draw(st.lists(TEXTS | st.binary(max_size=4) | st.none() | BITS, max_size=4))
    found = np.empty(len(values), np.dtype("O", metadata={"element_type": str}))
    for place, value in enumerate(values):
        found[place] = value
    return found.reshape(1, -1) if draw(st.booleans()) else found


LEAVES = st.one_of(
    st.none(), st.booleans(), INTEGERS, st.floats(), st.sampled_from([-0.0, 0.0]), TEXTS,
    st.binary(max_size=6), ARRAYS, BITS, objects(), TEXTS.map(Foreign), st.sampled_from([np.float32(-0.0), np.int8(3)]),
)  # fmt: skip
VALUES = st.recursive(
    LEAVES,
    lambda x: st.lists(x, max_size=3) | st.lists(x, max_size=3).map(tuple) | st.dictionaries(TEXTS, x, max_size=2),
)
HASHABLE = st.recursive(
    st.none() | st.booleans() | INTEGERS | st.floats() | TEXTS | st.binary(max_size=3),
    lambda x: st.lists(x, max_size=3).map(tuple),
)
KINDS = st.sampled_from(["char", "string", "integer", "float", "other"])
ATTRIBUTES = st.dictionaries(TEXTS, VALUES, max_size=3)


@st.composite
def stated(draw, dims: tuple[str, ...]) -> Stated:
    dtype = draw(PLAIN | st.sampled_from([
        np.dtype("O", metadata={"element_type": str}), np.dtype("O", metadata={"vlen": np.dtype("f4")}),
        np.dtype("i1", metadata={"enum": {"low": 0, "high": 1}, "enum_name": "cloud"}), np.dtypes.StringDType(),
    ]))  # fmt: skip
    return Stated(draw(TEXTS), dims, dtype, draw(KINDS), draw(ATTRIBUTES))


@st.composite
def described(draw) -> Described:
    dims = tuple(draw(st.lists(TEXTS, max_size=3, unique=True)))
    values = hn.arrays(PLAIN, st.integers(0, 4))
    axes = {
        d: Coordinate(d, draw(stated((d,))), draw(values), draw(st.none() | ARRAYS), draw(st.none() | stated((d, "b"))))
        for d in dims
    }
    shape = tuple(axes[d].values.size for d in dims)
    parts = {
        name: Companion(draw(stated(dims)), shape, dims, draw(st.none() | hn.arrays(PLAIN, shape)), "area")
        for name in draw(st.lists(TEXTS, max_size=2, unique=True))
    }
    return Described(
        draw(stated(dims)),
        shape,
        draw(st.dictionaries(TEXTS, HASHABLE, max_size=3)),
        axes,
        {d: d for d in dims},
        parts,
        {name: draw(stated(())) for name in draw(st.lists(TEXTS, max_size=1))},
        draw(ATTRIBUTES),
        draw(st.none() | TEXTS),
    )


@st.composite
def scanned(draw) -> Scanned:
    state = FileState(draw(st.integers(0, 2**63 - 1)), draw(INTEGERS), 0, draw(INTEGERS), draw(st.none() | TEXTS))
    several = tuple(draw(st.lists(described(), max_size=2)))
    return Scanned(draw(TEXTS), draw(st.none() | st.just(state)), draw(TEXTS), several, draw(st.none() | TEXTS))


@given(st.lists(scanned(), max_size=3))
def test_what_is_known_of_files_comes_back_to_the_bit(files):
    assert same(decode(*encode(files)), files)
    twice = [*files, *files]
    assert same(decode(*encode(twice)), twice)


@given(st.lists(scanned(), min_size=1, max_size=3))
def test_equal_files_give_equal_bytes_whether_or_not_they_are_the_same_objects(files):
    both = [*files, *files]
    bytes_of_same = encode(both)
    assert encode([*files, *decode(*encode(files))]) == bytes_of_same
    assert encode(decode(*bytes_of_same)) == bytes_of_same


def extended(old: list[Scanned], new: list[Scanned]) -> tuple[list[bytes], bytes] | None:
    """Return records to which those of new files were added."""
    parts: set[int] = set()
    own, shared = encode(old)
    assert same(decode(own, shared, parts), old)
    return extend(own, shared, parts, new)


@given(st.lists(scanned(), min_size=1, max_size=4), st.lists(scanned(), max_size=2), st.randoms(use_true_random=False))
def test_records_that_were_extended_are_those_of_all_files(files, others, chance):
    states = [FileState(chance.randrange(12), 10**9 + k, 0, 7, None) for k in range(8)]
    files = [replace(chance.choice(files), state=state) for state in states]
    cut = chance.randrange(9)
    new = files[cut:] + others
    assert extended(files[:cut], new) in (None, encode(files[:cut] + new))


@pytest.mark.parametrize(("size", "copies"), [(40, True), (11, False), (13, False)])
def test_records_are_extended_unless_a_new_file_has_something_of_a_single_one(size, copies):
    # Sizes: 10 is that of several files, 11 to 14 those of one file each.
    old = [Scanned(f"{k}.nc", FileState(max(10, k), 100 + k, 0, 5), "netCDF", (), None) for k in range(15)]
    new = [Scanned("new.nc", FileState(size, 99, 0, 5), "netCDF", (), None)]
    found = extended(old, new)
    assert found == (encode(old + new) if copies else None)
    assert extended(old, [new[0], replace(new[0], place="newer.nc")]) is None


@given(st.lists(scanned(), min_size=1, max_size=3), st.randoms(use_true_random=False), st.integers(1, 4))
def test_the_bytes_do_not_tell_how_many_files_were_looked_at_together(files, chance, together):
    several = [chance.choice(files) for _ in range(8)]
    wanted = encode(several)
    copies = [chance.choice(pair) for pair in zip(several, decode(*wanted), strict=True)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(record_book, "_TOGETHER", together)
        assert encode(several) == encode(copies) == wanted


def a_file(number: int, attributes: dict[str, object] | None = None) -> Scanned:
    """A file of 31 days of two variables on a grid, whose metadata but the times are those of all others."""

    def variable(name: str, dims: tuple[str, ...], **more: object) -> Stated:
        return Stated(name, dims, np.dtype("f4"), "float", {"units": "K", "valid_range": np.array([0, 400.0]), **more})

    days = 31.0 * number + np.arange(31)
    time = Coordinate(
        "time", variable("time", ("time",)), days, np.stack([days, days + 1], 1), variable("b", ("time",))
    )
    lat = Coordinate("latitude", variable("lat", ("lat",)), np.linspace(-90, 90, 500))
    area = Companion(variable("area", ("lat",)), (500,), ("latitude",), np.linspace(0, 1, 500), "cell_measures")
    return Scanned(
        f"/data/model/day_{number:05}.nc",
        FileState(1000 + number, 10**18 + number, 10**18 + number, 10**6 + number),
        "netcdf",
        tuple(
            Described(
                variable(name, ("time", "lat"), long_name=name * 9), (31, 500), {"identity": name, "units": ("K", 1)},
                {"time": time, "latitude": lat}, {"time": "time", "lat": "latitude"}, {"cell_area": area}, {},
                {"title": "A run of a model", "history": "made once"} | (attributes or {}),
            )
            for name in ("tas", "tasmax")
        ),
    )  # fmt: skip


def test_what_files_share_stands_once():
    one, many = encode([a_file(0), a_file(1)]), encode([a_file(n) for n in range(60)])
    assert len(many[1]) == len(one[1]) < 12_000
    own = 31 * 3 * 8  # times and bounds
    assert max(map(len, many[0])) < own + 250


def test_what_was_set_aside_comes_again_several_times(monkeypatch):
    same = a_file(0)  # the very same objects in several files, equal to those of the first
    files = [a_file(0), a_file(1), *(replace(same, place=str(n)) for n in range(5)), a_file(2)]
    wanted = encode(files)
    monkeypatch.setattr(record_book, "_TOGETHER", 2)
    assert encode(files) == wanted


def test_memory_for_many_files_is_little_more_than_their_records(monkeypatch):
    monkeypatch.setattr(record_book, "_TOGETHER", 16)
    monkeypatch.setattr(record_book, "_REMEMBERED", 500)
    files = [a_file(n) for n in range(300)]
    tracemalloc.start()
    try:
        own, _ = encode(files)
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most < 5 * sum(map(len, own))  # as objects, ten times


def test_equal_parts_of_several_files_are_the_same_objects_when_read():
    a, b = decode(*encode([a_file(0), a_file(1)]))
    assert a.described[0].axes["latitude"] is b.described[1].axes["latitude"]
    assert a.described[0].axes["time"] is a.described[1].axes["time"]
    assert not a.described[0].axes["latitude"].values.flags.writeable


def test_a_file_with_what_cannot_be_recorded_has_an_empty_record_and_others_do_not_suffer():
    class Unknown:
        pass

    files = [a_file(0, {"x": Unknown()}), a_file(1), a_file(2)]
    records, shared = encode(files)
    assert records[0] == b""
    found = decode(records, shared)
    assert found[0] is None
    assert same(found[1:], files[1:])


@pytest.mark.parametrize("deep", [50, 70, 5000])
def test_values_nested_too_deep_are_not_recorded(deep):
    value: list[object] = []
    for _ in range(deep):
        value = [value]
    records, shared = encode([a_file(0, {"x": value})])
    assert bool(records[0]) == (deep < 64)
    assert decode(records, shared)[0] is None or deep < 64


def test_what_was_recorded_of_other_files_is_refused():
    (records, _), (_, other) = encode([a_file(0), a_file(1)]), encode([a_file(2), a_file(2)])
    with pytest.raises(ConventionError, match=r"record 0: .* checksum"):
        decode(records, other)


@pytest.mark.parametrize("shared", [b"", b"cfaggRC8", b"x" * 40, b"cfaggRC7" + b"x" * 40])
def test_other_bytes_are_refused(shared):
    with pytest.raises(ConventionError, match="record of scanned files"):
        decode([], shared)


@pytest.mark.parametrize("seed", range(3))
def test_a_changed_or_missing_byte_is_noticed(seed):
    records, shared = encode([a_file(0), a_file(1)])
    chance = random.Random(seed)
    for _ in range(40):
        which = chance.choice([0, 1, 2])
        blocks = [bytearray(b) for b in (*records, shared)]
        place = chance.randrange(len(blocks[which]))
        if chance.random() < 0.7:
            blocks[which][place] ^= 1 << chance.randrange(8)
        else:
            del blocks[which][place : place + chance.choice([1, 8, 1000])]
        if not blocks[which]:
            continue
        with pytest.raises(ConventionError, match="record of scanned files"):
            decode([bytes(b) for b in blocks[:2]], bytes(blocks[2]))


def forged(data: bytes, key: bytes = b"") -> bytes:
    """Bytes with a checksum that is right."""
    return data + checksum(data, key)


def attacked(chance: random.Random, records: list[bytes], shared: bytes) -> tuple[list[bytes], bytes]:
    """Change bytes, and make all checksums right again."""
    bodies = [bytearray(b[:-SUM]) for b in (shared, *records)]
    for _ in range(chance.choice([1, 1, 2, 5])):
        body = chance.choice(bodies)
        first = 16 if body is bodies[0] else 0
        place = chance.randrange(first, len(body))
        match chance.randrange(4):
            case 0:
                body[place] = chance.choice([0, 1, 2, 127, 128, 255, *range(20)])
            case 1:
                body[place] ^= 1 << chance.randrange(8)
            case 2:
                body[place:place] = chance.randbytes(chance.choice([1, 2, 9]))
            case 3:
                del body[place : place + chance.choice([1, 2, 9])]
    whole = forged(bytes(bodies[0]))
    return [forged(bytes(b), whole[-SUM:]) for b in bodies[1:]], whole


def attack(seed: int, wanted: tuple[list[bytes], bytes]) -> bool:
    """Change bytes, and tell whether they are still read; only our own error comes out, and what is read is sound."""
    chance = random.Random(seed)
    records, shared = attacked(chance, *wanted)
    try:
        found = decode(records, shared)
    except CfaggError:
        return False
    assert encode(found)[1]
    for one in found:
        repr(one)
        [hash(tuple(d.signature.items())) for d in (one.described if one else ())]
    return True


ODD = {
    "x": np.zeros(2, np.dtype({"names": ["a", "b"], "formats": ["i2", "f8"], "offsets": [0, 8], "itemsize": 24})),
    "y": np.array(["ä", "b"], object), "z": np.array(["ab", "c"]), "n": np.float32(1),
    "j": [None, {"a": True}, 1.5], "s": np.array([True, False]), "t": np.array(["2000-01-01"], "M8[ns]"),
    "d": np.dtype("O", metadata={"element_type": str}), "v": np.array(["a", "b"], np.dtypes.StringDType()),
}  # fmt: skip


def test_hostile_bytes_give_our_own_error_or_something_sound():
    wanted = encode([a_file(0, ODD), a_file(1, ODD)])
    tracemalloc.start()
    read = [attack(seed, wanted) for seed in range(12)]
    assert tracemalloc.get_traced_memory()[1] < 2**24
    tracemalloc.stop()
    assert 0 < sum(read) < 12


@pytest.mark.soak
def test_hostile_bytes_give_our_own_error_or_something_sound_at_length():
    wanted = encode([a_file(0, ODD), a_file(1, ODD)])
    for seed in range(1000, 21_000):
        attack(seed, wanted)


def test_references_that_would_multiply_are_refused():
    """Forty tuples, each of the one before and again of it, would take 2^40 steps to look at."""
    _, shared = encode([a_file(0)])
    nodes = b"\x00" + b"".join(bytes([10, 2, n, n]) for n in range(40))
    whole = forged(shared[:16] + bytes([41]) + nodes)
    with pytest.raises(ConventionError, match="more than files can"):
        decode([], whole)


def test_a_signature_that_nothing_can_be_compared_with_is_refused():
    own = Described(a_file(0).described[0].stated, (31, 500), {"x": [1]}, {}, {})
    records, shared = encode([replace(a_file(0), described=(own,))])
    with pytest.raises(ConventionError, match="signature of Described"):
        decode(records, shared)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda own, area: replace(own, shape=(31, 499)), "another size than an axis"),
        (lambda own, area: replace(own, parts={"a": replace(area, shape=(499,), values=None)}), "another size"),
        (lambda own, area: replace(own, parts={"a": replace(area, values=area.values[1:])}), "no such shape"),
        (lambda own, area: replace(own, parts={"a": replace(area, axes=())}), "no such shape"),
    ],
)
def test_descriptions_whose_sizes_contradict_each_other_are_refused(change, why):
    own = a_file(0).described[0]
    records, shared = encode([replace(a_file(0), described=(change(own, own.parts["cell_area"]),))])
    with pytest.raises(ConventionError, match=why):
        decode(records, shared)


@pytest.mark.parametrize("node", [
    bytes([3, 255, 255, 255, 255, 255, 255, 255, 255, 127]),  # a number of 2^62 bytes
    bytes([10, 255, 255, 255, 255, 127]),  # so many values
    bytes([8, 12]) + b"|S9999999999",
    bytes([8, 3]) + b"|X1",
    bytes([7, 4]) + b"eval",
    bytes([200]),
    bytes([4, 1, 0]),  # a real of one byte
    bytes([19, 0, 1, 1]),  # no fields
])  # fmt: skip
def test_nodes_that_cannot_be_are_refused(node):
    with pytest.raises(ConventionError, match="record of scanned files"):
        decode([], forged(encode([])[1][:16] + b"\x01" + node))
