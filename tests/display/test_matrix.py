import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cfagg.display.drawing import DISTINCT, colours, fitted, shaded, text_width
from cfagg.display.matrix import draw
from cfagg.model import Aggregation, Grid, Layout, Partitions
from tests.display import arrays
from tests.effort import examples


def area(patch):
    x, y = np.array(patch.points).T
    return abs(np.dot(x, np.roll(y, 1)) - np.dot(y, np.roll(x, 1))) / 2


def texts(drawing):
    return [t.text for t in drawing.texts]


def cells(drawing):
    return [p for p in drawing.patches if p.title]


def test_cells_are_scaled_by_size():
    grid = Grid([[0, 12, 48]])
    partitions = Partitions.build(2, file=[0, 1], files=["a.nc", "b.nc"], layouts=[Layout(("time",))])
    first, second = cells(draw(Aggregation("tas", ("time",), (48,), "f4", grid, partitions)))
    assert area(second) == pytest.approx(3 * area(first))


def test_two_dimensions_have_one_cell_a_partition_and_a_colour_a_sub_array():
    found = cells(draw(arrays.boxes()))
    assert len(found) == 24
    assert len({p.fill for p in found}) == 10
    by_box = {p.title.split(" · ")[1]: p.fill for p in found}
    assert all(p.fill == by_box[p.title.split(" · ")[1]] for p in found)


def test_first_row_and_column_stand_above_and_to_the_left():
    found = {p.title.split(" · ")[0]: np.array(p.points) for p in cells(draw(arrays.boxes()))}
    assert found["y 0:2, x 0:1"][:, 1].max() < found["y 7:8, x 0:1"][:, 1].max()
    assert found["y 0:2, x 0:1"][:, 0].max() < found["y 0:2, x 6:7"][:, 0].max()


def test_sizes_files_and_dimensions_are_written():
    found = texts(draw(arrays.series(3)))
    assert {"time: 36", "lat: 64", "lon: 128", "tas_1950.nc", "data/tas_1950.nc", "12"} <= set(found)
    assert "tas: air_temperature [K]" in found
    assert "36 × 64 × 128, float32, 3 partitions in 3 files" in found


def test_three_dimensions_show_three_faces_of_a_box():
    found = cells(draw(arrays.cube(5, 6, 9)))
    assert len(found) == 9 * 6 + 9 * 5 + 6 * 5


def test_hidden_layers_of_a_box_are_drawn_one_by_one():
    found = {p.title.split(" · ")[1] for p in cells(draw(arrays.cube(4, 3, 2)))}
    assert found == {f"part{i}.nc" for i in range(24)}


def test_more_than_three_dimensions_name_what_is_not_drawn():
    assert "Not drawn: level (20, 2 partitions, of which the first is drawn)" in texts(draw(arrays.cube(2, 2, 3, 2)))


def test_missing_partitions_have_no_colour_and_are_counted():
    drawing = draw(arrays.cube(4, present=[True, False, True, True]))
    assert [p.fill is None for p in cells(drawing)] == [False, True, False, False]
    assert "declared missing: 1" in texts(drawing)


@pytest.mark.full
@pytest.mark.parametrize("matrix", [(1_000_000,), (1000, 1000), (100, 100, 100), (1, 1_000_000, 1)])
def test_a_million_partitions_make_a_small_picture_that_says_it_is_binned(matrix):
    drawing = draw(arrays.of_a_million(*matrix))
    assert len(drawing.patches) + len(drawing.texts) + len(drawing.lines) < 2500
    assert any("Each cell represents about" in t for t in texts(drawing))


def test_without_dimensions_there_is_one_cell():
    assert [p.title for p in cells(draw(arrays.scalar()))] == ["one.nc"]


def test_an_empty_array_is_drawn_as_one_empty_cell():
    empty = Aggregation("e", ("t",), (0,), "f4", Grid([[0]]), Partitions.build(0, layouts=[Layout(("t",))]))
    assert [(p.fill, p.title) for p in draw(empty).patches] == [(None, "no partition")]


@settings(max_examples=examples(60))
@given(st.lists(st.lists(st.integers(1, 10**6), min_size=1, max_size=70), max_size=5), st.data())
def test_any_grid_is_drawn_within_its_picture(sizes, data):
    while np.prod([len(s) for s in sizes], dtype=float) > 20_000:
        sizes = [s[: max(1, len(s) // 2)] for s in sizes]
    grid = Grid.from_sizes(sizes)
    files = data.draw(st.integers(1, 30))
    dims = tuple(f"d{i}" for i in range(grid.ndim))
    partitions = Partitions.build(
        grid.size,
        file=np.arange(grid.size) % files,
        files=[f"{i}.nc" for i in range(files)],
        layouts=[Layout(dims)],
    )
    drawing = draw(Aggregation("v", dims, grid.shape, "f4", grid, partitions))
    points = np.array([p for patch in drawing.patches for p in patch.points])
    assert (points >= 0).all()
    assert (points <= [drawing.width, drawing.height]).all()
    assert all(0 <= t.x <= drawing.width and 0 <= t.y <= drawing.height for t in drawing.texts)


@pytest.mark.parametrize("count", [1, len(DISTINCT), len(DISTINCT) + 1, 100])
def test_colours_differ(count):
    assert len(set(colours(count))) == count


@given(st.text(max_size=80), st.floats(1, 300))
def test_a_fitted_text_fits(text, room):
    found = fitted(text, 11, room)
    assert text_width(found, 11) <= room or found == ""
    assert found in {"", text} or "…" in found


def test_shades_are_lighter_and_darker():
    assert shaded("#336699", 0.5) > "#336699" > shaded("#336699", -0.5)
