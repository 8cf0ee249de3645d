"""The checksum of many pieces at once is that of each."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from numcodecs.jenkins import jenkins_lookup3

from cfagg.formats.hdf5.lookup3 import damaged, lookup3
from tests.effort import examples


@settings(max_examples=examples(60), deadline=None)
@given(st.lists(st.integers(0, 130), max_size=40), st.integers(0, 255))
def test_sums_are_those_of_the_pieces_one_by_one(lengths: list[int], seed: int) -> None:
    parts = [bytes((seed * 7 + i * k) % 251 for k in range(n)) for i, n in enumerate(sorted(lengths, reverse=True))]
    assert lookup3(parts) == [int(jenkins_lookup3(p, 0)) for p in parts]


def test_a_long_piece_among_many_short_ones_takes_no_room_for_all() -> None:
    parts = [bytes(300_000), *(bytes([i]) * 50 for i in range(200))]
    assert lookup3(parts) == [int(jenkins_lookup3(p, 0)) for p in parts]


def test_a_changed_byte_is_damage_wherever_the_checksum_stands() -> None:
    body = b"OHDR" + bytes(range(60))
    at_end = body + int(jenkins_lookup3(body, 0)).to_bytes(4, "little")
    zeroed = body[:10] + bytes(4) + body[10:]
    within = body[:10] + int(jenkins_lookup3(zeroed, 0)).to_bytes(4, "little") + body[10:]
    data = at_end + within
    places = [(0, 68, 64), (68, 68, 10)]
    assert not damaged(data, places)
    for at in (0, 30, 66, 70, 80, 100):
        assert damaged(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :], places)
