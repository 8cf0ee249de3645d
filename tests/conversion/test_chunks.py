"""Automatic chunks: near 4 MiB, along the source's units, and even."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cfagg.conversion.chunks import TARGET, auto_chunks, choose_chunks
from cfagg.model import Grid


@pytest.mark.parametrize(
    ("sizes", "storage", "itemsize", "chunks"),
    [
        # 256 planes of 16 KiB are 4 MiB.
        ([[360], [64], [64]], (1, 64, 64), 4, (180, 64, 64)),
        ([[1] * 360, [64], [64]], None, 4, (180, 64, 64)),
        ([[1] * 365, [180], [360]], None, 2, (31, 180, 360)),
        ([[360] * 10, [180], [360]], None, 4, (15, 180, 360)),
        # No divisor of 1,009 is near: three even parts instead of two long ones and a rest.
        ([[1009], [4096]], None, 4, (253, 4096)),
        ([[10], [64], [64]], (1, 64, 64), 4, (10, 64, 64)),
        # The source's own chunks are followed, even or not: each is then read once.
        ([[360], [4096]], (256, 4096), 4, (256, 4096)),
    ],
)
def test_a_long_dimension_is_cut_evenly(sizes, storage, itemsize, chunks):
    assert auto_chunks(Grid.from_sizes(sizes), storage, itemsize) == chunks


@given(length=st.integers(1, 100_000), width=st.integers(1, 4096), itemsize=st.sampled_from([1, 2, 4, 8]))
def test_no_fewer_chunks_would_do_and_the_last_is_like_the_others(length, width, itemsize):
    chunk, _ = auto_chunks(Grid.from_sizes([[length], [width]]), (1, width), itemsize)
    most = max(1, TARGET // (width * itemsize))
    parts = math.ceil(length / chunk)
    assert parts == math.ceil(length / most)
    # Of each part at most one element is missing to equal ones.
    assert 0 <= chunk * parts - length < parts


@pytest.mark.parametrize(("sizes", "unequal"), [([3, 3, 2], False), ([3, 5], True), ([3, 2, 3], True), ([4], False)])
def test_partitions_are_regular_chunks_where_only_the_last_is_shorter(sizes, unequal):
    grid, rectilinear = choose_chunks("v", ("x",), Grid.from_sizes([sizes]), None, 4, "partitions", 3)
    assert (grid.sizes, rectilinear) == ((tuple(sizes),), unequal)
