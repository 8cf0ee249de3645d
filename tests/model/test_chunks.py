"""Chunk tables: columns that are checked when they are made."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cfagg.errors import ModelError
from cfagg.model import Grid
from cfagg.model.chunks import ChunkTable, Encoding
from tests import strategies

GRID = Grid.regular((10,), (2,))
ENCODING = Encoding(np.dtype("<f4"))


def table(**columns):
    return ChunkTable(GRID, ENCODING, **({"cell": [0, 3], "offset": [8, 90], "length": 8} | columns))


@pytest.mark.parametrize(
    ("columns", "told"),
    [
        ({"cell": [3, 0]}, "increase strictly"),
        ({"cell": [3, 3]}, "increase strictly"),
        ({"cell": [0, 2**63 - 1, -(2**63), -5], "offset": 8}, "increase strictly"),
        ({"cell": [-1, 3]}, "below 5"),
        ({"cell": [0, 5]}, "below 5"),
        ({"cell": 0}, "below 5"),
        ({"offset": [8]}, "one for each of 2 cells"),
        ({"offset": [8, -1]}, "from 0 to"),
        ({"offset": np.array([8, 2**63], np.uint64)}, "from 0 to"),
        ({"length": [1.5, 2]}, "integers; found float64"),
        ({"mask": 2**32}, "from 0 to 4,294,967,295"),
        ({"key": 1}, "from 0 to 0"),
    ],
)
def test_a_table_that_cannot_be_is_refused(columns, told):
    with pytest.raises(ModelError, match=told):
        table(**columns)


def test_every_problem_of_a_table_is_reported():
    with pytest.raises(ModelError) as caught:
        table(offset=-1, length=-1, key=7)
    assert [p.where for p in caught.value.problems] == ["offset", "length", "key"]


def test_columns_cannot_be_changed_and_one_value_for_all_is_stored_once():
    found = table()
    assert found.length.tolist() == [8, 8]
    assert found.length.strides == (0,)
    with pytest.raises(ValueError, match="read-only"):
        found.offset[0] = 1


@given(st.sets(st.integers(0, 4)), st.lists(st.integers(0, 4)))
def test_the_row_of_a_cell_is_its_place_in_the_column(cells, asked):
    cells = sorted(cells)
    found = ChunkTable(GRID, ENCODING, cells, np.zeros(len(cells), int), 8)
    assert found.rows(asked).tolist() == [cells.index(c) if c in cells else -1 for c in asked]


@given(st.data(), st.lists(strategies.edges(), max_size=3))
def test_the_parts_of_touched_cells_are_what_a_hyperslab_takes(data, axes):
    grid = Grid(axes)
    slices = []
    for n in grid.shape:
        start = data.draw(st.integers(0, n))
        slices.append(slice(start, data.draw(st.integers(start, n)), data.draw(st.integers(1, 7))))
    values = np.arange(np.prod(grid.shape, dtype=int)).reshape(grid.shape)
    expected = values[tuple(slices)]
    found = np.full(expected.shape, -1)
    for index, place, within in grid.touched(slices):
        found[place] = values[tuple(slice(a, b) for a, b in grid.extent(index))][within]
    np.testing.assert_array_equal(found, expected)
