"""The canonical projection kernels against a search by hand, over grids and selections of every kind."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cfagg.kernels import projection
from tests import oracles, strategies

#: The first example of a kernel pays for its compilation.


@st.composite
def progressions(draw):
    """A regular chunk length, edges that cover the same length, and a range of either sign within it."""
    length = draw(st.integers(1, 60))
    e = [0]
    while e[-1] < length:
        e.append(e[-1] + draw(st.integers(1, 9)))
    chosen = range(*draw(strategies.slices(length)).indices(length))
    return draw(st.integers(1, length + 3)), np.array(e), chosen


def arguments(chosen):
    return (chosen.start, len(chosen), chosen.step)


def rows(table, step):
    """Spell the columns out: per cell its elements and their output positions, ascending."""
    sign = 1 if step > 0 else -1
    return [
        (c, ([a + j * abs(step) for j in range(n)], [o + sign * j for j in range(n)]))
        for c, a, n, o in table.T.tolist()
    ]


@given(progressions())
def test_a_slice_of_either_sign_projects_on_regular_chunks_as_by_hand(case):
    chunk, _, chosen = case
    edges = range(0, 70 + chunk, chunk)
    got = projection.project_slice_regular(*arguments(chosen), chunk)
    assert rows(got, chosen.step) == oracles.cells_of(edges, chosen)


@given(progressions())
def test_a_slice_of_either_sign_projects_on_cells_of_any_lengths_as_by_hand(case):
    _, edges, chosen = case
    got = projection.project_slice_edges(*arguments(chosen), edges)
    assert rows(got, chosen.step) == oracles.cells_of(edges, chosen)


def test_regular_chunks_and_the_same_edges_give_the_same_columns_far_beyond_32_bits():
    chunk = 10**12 + 7
    edges = np.arange(0, 50 * chunk, chunk)
    for step in (3, 10**11 + 1, chunk, 3 * chunk + 5, -(10**11) - 9):
        count = 40 * chunk // abs(step) if abs(step) > 10**10 else 1000
        first = 12345 if step > 0 else 41 * chunk
        regular = projection.project_slice_regular(first, count, step, chunk)
        assert np.array_equal(regular, projection.project_slice_edges(first, count, step, edges))
        assert regular[2].sum() == count


@pytest.mark.parametrize("first", [0, 10, 19])
@pytest.mark.parametrize("step", [1, 15, -15])
def test_no_element_touches_no_cell(first, step):
    assert projection.project_slice_regular(first, 0, step, 10).shape == (4, 0)
    assert projection.project_slice_edges(first, 0, step, np.array([0, 10, 20])).shape == (4, 0)


def test_a_stride_longer_than_the_cells_visits_only_touched_cells():
    regular = projection.project_slice_regular(0, 5, 10**15, 7)
    assert regular.shape == (4, 5)
    edges = np.arange(10**5)
    table = projection.project_slice_edges(0, 3, 40_000, edges)
    assert table[0].tolist() == [0, 40_000, 80_000]


def test_projections_are_int64_columns_that_are_contiguous_each():
    for table in (
        projection.project_slice_regular(0, 100, 1, 3),
        projection.project_slice_edges(0, 100, 1, np.arange(0, 200, 3)),
        projection.project_index_regular(np.arange(50), 3)[0],
    ):
        assert table.dtype == np.int64
        assert all(column.flags.c_contiguous for column in table)


@given(st.data())
def test_ascending_indices_with_repeats_project_as_by_hand(data):
    chunk, edges, _ = data.draw(progressions())
    length = int(edges[-1])
    index = np.array(sorted(data.draw(st.lists(st.integers(0, length - 1), max_size=20))), np.int64)
    for (columns, within), cells in (
        (projection.project_index_regular(index, chunk), range(0, length + chunk, chunk)),
        (projection.project_index_edges(index, edges), edges),
    ):
        got = [(c, (within[b : b + n].tolist(), list(range(b, b + n)))) for c, b, n in columns.T.tolist()]
        assert got == oracles.cells_of(cells, index.tolist())


@given(st.lists(st.integers(0, 20) | st.integers(0, 2**63 - 1), max_size=40))
def test_stable_order_is_the_stable_sort(values):
    index = np.array(values, np.int64)
    assert projection.stable_order(index).tolist() == np.argsort(index, kind="stable").tolist()


@pytest.mark.parametrize("step", [1, 2**11, 2**22])
def test_every_bit_of_a_digit_counts_in_the_order(step):
    index = np.repeat(np.arange(2100)[::-1], 2) * step
    assert projection.stable_order(index).tolist() == np.argsort(index, kind="stable").tolist()


@pytest.mark.parametrize(
    "name",
    [
        "compute_perslice_projections",
        "compute_all_slice_projections",
        "evaluate_slices",
        "apply_chunk_indices",
        "get_data",
        "compute_linear_offset",
        "odometer_new",
        "odometer_more",
        "odometer_next",
        "odometer_indices",
    ],
)
def test_a_reader_of_the_original_text_finds_the_procedure_documented(name):
    procedure = getattr(projection, name)
    assert name in projection.__all__
    assert "Parameters" in getattr(procedure, "py_func", procedure).__doc__


@pytest.mark.parametrize(
    ("kernel", "arguments"),
    [
        ("project_slice_regular", (-1, 3, 1, 4)),
        ("project_slice_regular", (2, 3, -2, 4)),
        ("project_slice_regular", (0, 3, 0, 4)),
        ("project_slice_regular", (0, 3, 1, 0)),
        ("project_slice_edges", (0, 11, 1, [0, 4, 10])),
        ("project_slice_edges", (0, 2**63 - 1, 3, [0, 4, 10])),
        ("project_slice_edges", (0, 3, 1, [0])),
        ("project_slice_edges", (-2, 3, 1, [0, 4, 10])),
        ("project_index_regular", ([-3, 1], 4)),
        ("project_index_regular", ([1, 9, 1, 9, 1, 2], 4)),
        ("project_index_regular", ([5, 1, 6], 4)),
        ("project_index_regular", ([1, -5, 3], 4)),
        ("project_index_regular", ([1, 2], 0)),
        ("project_index_regular", (np.array([1.5, 2]), 4)),
        ("project_index_edges", ([5, 1, 6], [0, 4, 10])),
        ("project_index_edges", (np.array([1.5, 2]), [0, 4, 10])),
        ("stable_order", ([3, -1, 2],)),
        ("project_index_edges", ([1, 10], [0, 4, 10])),
        ("project_index_edges", ([-1, 3], [0, 4, 10])),
        ("project_index_edges", ([1, 9, 1, 9, 1, 2], [0, 4, 10])),
    ],
)
def test_what_does_not_fit_is_refused_and_nothing_is_written_beyond_the_columns(kernel, arguments):
    with pytest.raises(ValueError, match="element"):
        getattr(projection, kernel)(*(np.array(a, np.int64) if isinstance(a, list) else a for a in arguments))
