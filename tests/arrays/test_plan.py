"""Plans of every kind of selection against NumPy indexing of the whole array, by NumPy and by kernels."""

import pickle
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import cfagg.arrays.plan
from cfagg.arrays.plan import Plan, plan
from cfagg.errors import LimitError, SelectionError
from cfagg.kernels import projection  # the kernels are used only where Numba is loaded
from cfagg.model import Grid, Regular
from tests import oracles, strategies
from tests.effort import examples

MANY = settings(
    max_examples=examples(200), suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture]
)


@pytest.fixture(params=["numpy", "kernels"])
def way(request, monkeypatch):
    """Plan by NumPy alone, or by kernels from the first row on."""
    assert projection
    monkeypatch.setattr(cfagg.arrays.plan, "KERNEL_ROWS", 0 if request.param == "kernels" else 2**62)
    return request.param


def execute(p: Plan, array: np.ndarray) -> np.ndarray:
    """Carry out a plan, cell by cell; what is written twice or never shows in the result."""
    out = np.full(p.shape, -1)
    for k, (cell, rows) in enumerate(p):
        assert cell == p.cell[k]
        index = [int(i) for i in np.unravel_index(cell, p.grid.matrix_shape)] if array.ndim else []
        block = array[tuple(slice(*e) for e in p.grid.extent(index))]
        for d, (axis, row) in enumerate(zip(p.axes, rows, strict=True)):
            source = axis.source(row)
            if isinstance(source, slice):
                assert source.step > 0
                assert source.stop <= block.shape[d]
            else:
                assert (np.diff(source) >= 0).all()
            block = block[(slice(None),) * d + (source,)]
        place = np.ix_(*(np.arange(n)[t] for n, t in zip(p.shape, p.target(k), strict=True))) if array.ndim else ()
        assert block.shape == out[place].shape
        assert block.size
        assert (out[place] == -1).all()
        out[place] = block
    return out


@pytest.mark.few(1)
@MANY
@given(case=strategies.selected_grids())
def test_a_plan_of_0_to_4_dimensions_carried_out_equals_numpy_indexing(way, case):
    grid, selection = case
    array = np.arange(np.prod(grid.shape, dtype=int)).reshape(grid.shape)
    p = plan(grid, selection)
    expected = oracles.select(array, selection)
    assert p.shape == expected.shape
    assert np.array_equal(execute(p, array), expected)
    assert p.dropped == tuple(d for d, s in enumerate(selection) if isinstance(s, int))


@MANY
@given(case=strategies.selected_grids(max_dims=2))
def test_a_plan_touches_exactly_the_cells_that_hold_selected_elements_in_c_order(way, case):
    grid, selection = case
    edges = [np.minimum(e, n) for e, n in zip(grid.edges, grid.shape, strict=True)]
    touched = [
        [c for c in range(len(e) - 1) if any(e[c] <= i < e[c + 1] for i in np.atleast_1d(np.arange(n)[s]))]
        for e, n, s in zip(edges, grid.shape, selection, strict=True)
    ]
    expected = np.arange(grid.size).reshape(grid.matrix_shape)[np.ix_(*touched)] if touched else np.zeros(1, int)
    assert plan(grid, selection).cell.tolist() == expected.ravel().tolist()


@MANY
@given(data=st.data())
def test_all_columns_are_int64_and_numpy_and_kernels_agree_on_them(data):
    grid, selection = data.draw(strategies.selected_grids(max_dims=2))
    plans = []
    before = cfagg.arrays.plan.KERNEL_ROWS
    try:
        for rows in (0, 2**62):
            cfagg.arrays.plan.KERNEL_ROWS = rows
            plans.append(plan(grid, selection))
    finally:
        cfagg.arrays.plan.KERNEL_ROWS = before
    for a, b in zip(plans[0].axes, plans[1].axes, strict=True):
        for name in ("cell", "start", "count", "out", "index", "position"):
            x, y = getattr(a, name), getattr(b, name)
            assert (x is None) == (y is None)
            if x is not None:
                assert x.dtype == y.dtype == np.int64
                assert x.tolist() == y.tolist()


def test_a_strided_read_of_an_overhanging_last_chunk_is_clipped(way):
    array = np.arange(36).reshape(4, 9)
    p = plan(Grid.regular((4, 9), (4, 8)), [slice(None), slice(None, None, 4)])
    assert execute(p, array).tolist() == array[:, ::4].tolist()


def test_an_index_array_that_is_a_progression_is_read_by_slices(way):
    p = plan(Grid([[0, 5, 9, 20]]), [np.arange(18, 2, -3)])
    assert p.axes[0].index is None
    assert [p.source(k) for k in range(len(p))] == [(slice(3, 4, 3),), (slice(1, 2, 3),), (slice(0, 10, 3),)]


def test_a_piece_of_a_mask_that_is_contiguous_within_a_cell_is_read_by_a_slice(way):
    p = plan(Grid.regular((12,), (6,)), [np.isin(np.arange(12), [1, 2, 3, 8, 11])])
    assert [(p.source(k), p.target(k)) for k in range(2)] == [
        ((slice(1, 4, 1),), (slice(0, 3, 1),)),
        ((slice(2, 6, 3),), (slice(3, 5, 1),)),
    ]


def test_repeated_unsorted_indices_are_read_once_per_cell_and_ascending(way):
    p = plan(Grid.regular((12,), (6,)), [np.array([7, 2, 7, 0, -1, 2])])
    assert p.cell.tolist() == [0, 1]
    assert p.axes[0].source(0).tolist() == [0, 2, 2]
    assert p.axes[0].target(0).tolist() == [3, 1, 5]
    assert p.axes[0].source(1).tolist() == [1, 1, 5]
    assert p.axes[0].target(1) == slice(0, 5, 2)


@pytest.mark.parametrize("scalar", [3, np.int16(3), np.uint64(3), np.array(3), -7])
def test_every_kind_of_integer_keeps_its_dimension_with_size_1_and_lists_it_as_dropped(scalar):
    p = plan(Grid.regular((10, 4), (4, 4)), [scalar, slice(None)])
    assert (p.shape, p.dropped, p.cell.tolist()) == ((1, 4), (0,), [0])
    assert p.axes[0].source(0) == slice(3, 4, 1)


@pytest.mark.parametrize("empty", [[], np.zeros(10, bool), slice(5, 5), slice(2, 8, -1), np.array([], np.int32)])
def test_an_empty_selection_touches_no_cell(empty):
    p = plan(Grid.regular((10, 4), (4, 4)), [empty, slice(None)])
    assert (p.shape, len(p), p.cell.tolist()) == ((0, 4), 0, [])


def test_a_scalar_array_has_one_cell():
    p = plan(Grid([]), [])
    assert (p.shape, len(p), p.cell.tolist(), p.rows(0), p.source(0), p.target(0)) == ((), 1, [0], (), (), ())


def test_a_dimension_of_length_zero_has_no_cell():
    p = plan(Grid.regular((0, 4), (3, 4)), [slice(None, None, -2), slice(None)])
    assert (p.shape, len(p)) == ((0, 4), 0)


def test_the_cost_depends_on_the_cells_touched_and_not_on_the_grid():
    p = plan(Grid([Regular(10**15, 1)]), [slice(7, None, 10**14)])
    assert len(p) == 10
    assert p.cell[-1] == 9 * 10**14 + 7


@pytest.mark.parametrize(
    ("selection", "message"),
    [
        ([10], "dimension 0: index 10 is outside size 10"),
        ([-11], "dimension 0: index -11 is outside size 10"),
        ([np.array([0, 12])], "index 12 is outside size 10"),
        ([np.array([2**64 - 1], np.uint64)], "index 18446744073709551615 is outside size 10"),
        ([np.ones(9, bool)], r"a mask needs the dimension's shape \(10,\); found \(9,\)"),
        ([True], r"a mask needs the dimension's shape \(10,\); found \(\)"),
        ([1.0], "dimension 0: expected a slice, an integer"),
        ([np.array([1.5])], "of type float64"),
        ([np.array([[1]])], r"shape \(1, 1\)"),
        ([[[1], [2, 3]]], "dimension 0"),
        ([None], "found NoneType"),
        (["3"], "found str"),
        ([Ellipsis], "found ellipsis"),
        ([slice(0, 5, 0)], "not a slice of integers"),
        ([slice(0.0, 5)], "not a slice of integers"),
        ([], "0 selections for 1 dimensions"),
        ([1, 1], "2 selections for 1 dimensions"),
    ],
)
def test_a_selection_that_the_array_does_not_have_is_refused(selection, message):
    with pytest.raises(SelectionError, match=message):
        plan(Grid.regular((10,), (4,)), selection)


def test_an_index_into_a_dimension_of_length_zero_is_refused():
    with pytest.raises(SelectionError, match="index 0 is outside size 0"):
        plan(Grid.regular((0,), (4,)), [0])


def test_a_plan_that_would_not_fit_in_memory_is_refused_before_it_is_made():
    with pytest.raises(LimitError, match="touches 1000000000000 cells"):
        plan(Grid.regular((10**12,), (1,)), [slice(None)])
    with pytest.raises(LimitError, match="touches 100000000000000 cells"):
        plan(Grid.regular((10**5,) * 3, (1,) * 3), [slice(None), slice(None), slice(10**4)])


def test_flat_cell_indices_beyond_64_bits_are_refused_instead_of_wrapped():
    p = plan(Grid.regular((10**10, 10**10), (1, 1)), [10**9, 10**9])
    assert p.rows(0) == (0, 0)
    with pytest.raises(LimitError, match="64-bit"):
        _ = p.cell


def test_rows_outside_a_plan_are_refused():
    p = plan(Grid.regular((10,), (4,)), [slice(None)])
    for k in (-1, 3):
        with pytest.raises(IndexError, match="plan of 3 cells"):
            p.rows(k)


def test_a_plan_survives_pickling():
    grid = Grid([[0, 3, 10], [0, 7]])
    p = plan(grid, [np.array([9, 0, 0]), slice(None, None, -2)])
    array = np.arange(70).reshape(10, 7)
    assert np.array_equal(execute(pickle.loads(pickle.dumps(p)), array), execute(p, array))


def test_plans_of_a_million_rows_and_less_do_not_load_numba():
    code = (
        "import sys, numpy as np\n"
        "from cfagg.model import Grid\n"
        "from cfagg.arrays.plan import plan\n"
        "grid = Grid.regular((10**6, 50), (1, 7))\n"
        "assert len(plan(grid, [slice(None, None, -1), slice(None)])) == 8 * 10**6\n"
        "assert len(plan(grid, [np.array([5, 2, 9] * 9), 3])) == 3\n"
        "print('numba' in sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
