"""The procedures of the original text, corrected, against NumPy indexing of the whole array."""

import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cfagg.kernels import hyperslab as module
from cfagg.kernels import projection
from cfagg.kernels.hyperslab import (
    apply_chunk_indices,
    compute_all_slice_projections,
    compute_perslice_projections,
    get_data,
)
from tests import oracles
from tests.effort import EFFORT

# It takes seconds to compile: every day only what it calls is compiled.
evaluate = module.evaluate_slices if EFFORT >= 1 else getattr(module.evaluate_slices, "py_func", module.evaluate_slices)


@st.composite
def dimensions(draw, longest=12):
    """Length, chunk length, and a slice (start, stop, stride) of a dimension; the stop may lie beyond it."""
    n = draw(st.integers(0, longest))
    return (
        n,
        draw(st.integers(1, longest + 2)),
        draw(st.integers(0, n + 2)),
        draw(st.integers(0, n + 3)),
        draw(st.integers(1, 15)),
    )


def hyperslab(dims, array):
    """Extract the hyperslab through the chunks of the array."""
    lengths, chunks = (np.array([d[k] for d in dims], np.int64) for k in (0, 1))
    slices = np.array([d[2:] for d in dims], np.int64).reshape(-1, 3)
    counts = compute_all_slice_projections(lengths, chunks, slices).count
    output = np.full(int(np.prod(counts)), -2, array.dtype)
    evaluate(slices, lengths, chunks, oracles.chunk_store(array, chunks.tolist()), output)
    return output.reshape(counts)


@given(st.lists(dimensions(longest=9), max_size=4))
def test_a_whole_hyperslab_of_0_to_4_dimensions_equals_numpy(dims):
    shape = [d[0] for d in dims]
    array = np.arange(np.prod(shape, dtype=int)).reshape(shape)
    expected = array[tuple(slice(*d[2:]) for d in dims)]
    got = hyperslab(dims, array)
    assert got.shape == expected.shape
    assert np.array_equal(got, expected)


@given(dimensions(longest=40))
def test_a_slice_projects_on_the_chunks_that_it_touches(dim):
    n, chunk, start, stop, stride = dim
    p = compute_perslice_projections(*dim)
    chosen = range(start, min(stop, n), stride)
    assert p.count == len(chosen)
    assert p.nchunks == len(p.chunkindex)
    assert p.offset.tolist() == [c * chunk for c in p.chunkindex]
    assert p.limit.tolist() == [min(n, (c + 1) * chunk) for c in p.chunkindex]
    got = [
        (c, ([*range(a, b, stride)], [*range(o, o + len(range(a, b, stride)))]))
        for c, a, b, o in zip(*(x.tolist() for x in (p.chunkindex, p.start, p.stop, p.outpos)), strict=True)
    ]
    assert got == oracles.cells_of(range(0, n + chunk, chunk), chosen)


def test_a_strided_read_of_an_overhanging_last_chunk_is_clipped_to_the_dimension():
    array = np.arange(36).reshape(4, 9)
    got = hyperslab([(4, 4, 0, 4, 1), (9, 8, 0, 9, 4)], array)
    assert np.array_equal(got, array[:, ::4])


def test_the_worked_example_of_the_documentation():
    p = compute_perslice_projections(20, 4, 3, 20, 6)
    assert (p.chunk0, p.nchunks, p.count) == (0, 3, 3)
    assert p.chunkindex.tolist() == [0, 2, 3]
    assert p.start.tolist() == [3, 1, 3]
    assert p.outpos.tolist() == [0, 1, 2]


def test_more_projections_than_the_table_starts_with_are_all_kept():
    lengths = np.array([1000, 900])
    p = compute_all_slice_projections(lengths, np.array([1, 1]), np.array([[0, 1000, 1], [0, 900, 2]]))
    assert p.begin.tolist() == [0, 1000, 1450]
    assert p.chunkindex.tolist() == [*range(1000), *range(0, 900, 2)]


def test_one_combination_of_projections_fills_only_its_own_place():
    array = np.arange(20).reshape(4, 5)
    lengths, chunks = np.array([4, 5]), np.array([2, 3])
    slices = np.array([[0, 4, 1], [0, 5, 1]])
    output = np.full(20, -1)
    apply_chunk_indices(
        np.array([1, 1]),
        compute_all_slice_projections(lengths, chunks, slices),
        np.array([2, 2]),
        chunks,
        oracles.chunk_store(array, [2, 3]),
        output,
    )
    expected = np.full((4, 5), -1)
    expected[2:, 3:] = array[2:, 3:]
    assert output.reshape(4, 5).tolist() == expected.tolist()


def test_get_data_copies_a_strided_piece_of_a_chunk_to_its_place():
    chunk = np.arange(12)
    output = np.zeros(6 * 6, int)
    get_data(np.array([[0, 3, 2], [1, 4, 2]]), np.array([3, 4]), chunk, 6 * 2 + 3, np.array([6, 6]), output)
    expected = np.zeros((6, 6))
    expected[2:4, 3:5] = chunk.reshape(3, 4)[::2, 1::2]
    assert np.array_equal(output.reshape(6, 6), expected)


@pytest.mark.parametrize(
    "bad", [(-1, 4, 0, 4, 1), (9, 0, 0, 9, 1), (9, 4, -1, 9, 1), (9, 4, 0, 9, 0), (9, 4, 0, 9, -1)]
)
def test_lengths_and_slices_that_cannot_be_are_refused(bad):
    with pytest.raises(ValueError, match=r"length >= 0|stride >= 1"):
        compute_perslice_projections(*bad)


def test_lengths_of_up_to_63_bits_do_not_wrap_around():
    most = 2**63 - 1
    found = compute_perslice_projections(most, 2**62, 2**62 - 2, 2**62 + 5, 3)
    assert (found.count, found.chunkindex.tolist(), found.outpos.tolist()) == (3, [0, 1], [0, 1])
    assert (found.start.tolist(), found.stop.tolist()) == ([2**62 - 2, 1], [2**62, 5])
    assert found.limit.tolist() == [2**62, most]
    assert compute_perslice_projections(10, most, 0, 10, 1).stop.tolist() == [10]
    assert compute_perslice_projections(10, 4, 9, -most, most).count == 0
    with pytest.raises(ValueError, match="number of chunks, chunk size"):
        evaluate(np.array([[0, 1, 1]] * 2), np.array([2**32] * 2), np.array([1, 1]), np.zeros((0, 1), int), np.zeros(1))


@pytest.mark.parametrize(
    ("slices", "start", "count", "size"),
    [
        ([[0, 5, 1], [0, 2, 1]], 0, [6, 6], 36),
        ([[-1, 3, 1], [0, 2, 1]], 0, [6, 6], 36),
        ([[0, 3, 1], [0, 2, 1]], 0, [6, 1], 36),
        ([[0, 3, 1], [0, 2, 1]], -1, [6, 6], 36),
        ([[0, 3, 1], [0, 2, 1]], 23, [6, 6], 36),
        ([[0, 3, 1], [0, 2, 1]], 0, [2**63 - 1, 2**63 - 1], 36),
        ([[0, 3, 1], [0, 2, 1]], 0, [6, 6], 12),
        ([[0, 3, 1]], 0, [6, 6], 36),
        ([[0, 3, 1], [0, 2, 1]], 0, [6], 36),
    ],
)
def test_get_data_reads_and_writes_nothing_outside_its_arrays(slices, start, count, size):
    with pytest.raises(ValueError, match=r"exceed the chunk or the output|per dimension"):
        get_data(np.array(slices), np.array([3, 4]), np.arange(12), start, np.array(count), np.zeros(size, int))


@pytest.mark.parametrize(("chosen", "grid"), [([2, 0], [2, 2]), ([0, -1], [2, 2]), ([1, 1], [3, 5]), ([1], [2])])
def test_there_is_no_other_combination_of_projections(chosen, grid):
    lengths, chunks = np.array([4, 6]), np.array([2, 3])
    projections = compute_all_slice_projections(lengths, chunks, np.array([[0, 4, 1], [0, 6, 1]]))
    store, output = oracles.chunk_store(np.zeros((4, 6), int), [2, 3]), np.zeros(24, int)
    with pytest.raises(ValueError, match=r"projection|fewer chunks"):
        apply_chunk_indices(np.array(chosen), projections, np.array(grid), chunks, store, output)


def test_arrays_of_the_wrong_size_are_refused_before_anything_is_written():
    slices, lengths, chunks = np.array([[0, 9, 1]]), np.array([9]), np.array([4])
    with pytest.raises(ValueError, match="number of chunks, chunk size"):
        evaluate(slices, lengths, chunks, np.zeros((2, 4), int), np.zeros(9, int))
    with pytest.raises(ValueError, match="size of the hyperslab"):
        evaluate(slices, lengths, chunks, np.zeros((3, 4), int), np.zeros(8, int))
    with pytest.raises(ValueError, match="one slice are needed per dimension"):
        evaluate(np.array([[0, 9, 1]] * 2), lengths, chunks, np.zeros((3, 4), int), np.zeros(9, int))


def test_the_page_names_a_kernel_for_each_procedure_of_the_text():
    page = (Path(__file__).parents[2] / "docs/projection.md").read_text(encoding="utf-8")
    table = page.partition("| in the text |")[2].partition("\n\n")[0]
    rows = [re.findall(r"`([\w.]+)`", line) for line in table.splitlines() if line.startswith("| `")]
    procedures = ["EvaluateSlices", "ApplyChunkIndices", "GetData", "computelinearoffset", "Odometer.new"]
    assert {*procedures, "compute_all_slice_projections", "compute_perslice_projections"} <= {row[0] for row in rows}
    named = {name for row in rows for name in row if name.islower() and "_" in name}
    assert len(named) == 10
    for name in named:
        kernel = getattr(projection, name)
        assert len(kernel.__doc__.splitlines()) > 1, name
