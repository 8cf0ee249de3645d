"""The checksum of many pieces at once is that of each."""

from __future__ import annotations

import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numcodecs.jenkins import jenkins_lookup3

from cfagg.formats.hdf5 import lookup3 as sums
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


@pytest.fixture(params=["NumPy", "compiled"])
def summed_by(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Compare checksums by NumPy, as in the first files of a process, or by compiled code."""
    monkeypatch.setattr(sums._Seen, "count", 0 if request.param == "NumPy" else sums._WORTH)
    monkeypatch.delitem(sys.modules, "numcodecs.jenkins")


@pytest.mark.usefixtures("summed_by")
def test_a_structure_that_is_too_short_for_a_checksum_is_damage() -> None:
    assert damaged(bytes(8), [(0, 0, -4)])
    assert damaged(bytes(8), [(0, 3, -1)])
    assert damaged(bytes(8), [(0, 4, 0)])
    assert not damaged(0xDEADBEEF.to_bytes(4, "little"), [(0, 4, 0)])


@pytest.mark.usefixtures("summed_by")
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
