"""Streams of szip bit by bit, and whatever else stands in their place."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cfagg.kernels.unpacking import unpack_szip
from tests.effort import examples


@pytest.mark.parametrize(
    ("stream", "bits", "steps", "size", "expected"),
    [
        ("000 1" + "0" * 90 + "1", 8, False, 2, [0, 12]),
        ("000 1" + "0" * 91 + "1", 8, False, 2, None),  # no pair has this code
        ("010" + "0" * 127 + "1" + "1" + "1" + "0", 8, False, 2, [255, 0]),
        ("010" + "0" * 128 + "1" + "1" + "1" + "0", 8, False, 2, None),  # more than eight bits hold
        ("000 1 011" + "0" * 90 + "1", 3, True, 2, None),  # a step out of the range
        ("111 00000001 10000", 8, False, 2, None),  # plain numbers, of which the last lacks three bits
        ("111 1 0 000", 1, False, 4, None),  # a second block whose coding lacks a bit
        ("000 0 1 000 0 1", 8, False, 4, [0, 0, 0, 0]),
    ],
)
def test_streams_are_followed_bit_by_bit_and_no_further(stream, bits, steps, size, expected):
    digits = stream.replace(" ", "")
    raw = int(digits.ljust(-(-len(digits) // 8) * 8, "0"), 2).to_bytes(-(-len(digits) // 8))
    out = np.full(size, 77, np.uint8)
    found = unpack_szip(np.array(np.frombuffer(raw, np.uint8)), out, bits, 2, 4, False, steps)
    assert found < out.size if expected is None else out.tolist() == expected


@settings(max_examples=examples(200))
@given(
    st.binary(max_size=120), st.integers(0, 200), st.integers(1, 24), st.sampled_from([2, 8, 32]), st.integers(1, 70),
    st.booleans(), st.booleans(),
)  # fmt: skip
def test_any_bytes_are_a_stream_or_refused(raw, size, bits, block, line, big, steps):
    out = np.full(size + 32, 77, np.uint8)
    found = unpack_szip(np.array(np.frombuffer(raw, np.uint8)), out[:size], bits, block, line, big, steps)
    assert 0 <= found <= size
    assert (out[size:] == 77).all()


@pytest.mark.parametrize(("bits", "block", "line"), [(0, 2, 4), (25, 2, 4), (8, 0, 4), (8, 3, 4), (8, 2, 0)])
def test_samples_that_cannot_be_are_refused(bits, block, line):
    with pytest.raises(ValueError, match="1 to 24 bits"):
        unpack_szip(np.zeros(9, "u1"), np.zeros(4, "u1"), bits, block, line, False, False)
