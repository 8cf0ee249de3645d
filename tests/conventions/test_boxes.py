"""Virtual partitions from boxes."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cfagg.conventions import boxes, limits, nca, nca_write, part
from cfagg.errors import ConventionError, LimitError
from cfagg.model import Layout
from tests.conventions.test_nca import FIGURE_1, assemble


@st.composite
def tilings(draw):
    """A shape and boxes that fill it: one box, cut again and again."""
    shape = draw(st.lists(st.integers(1, 6), max_size=3))
    done = [[(0, n) for n in shape]]
    for _ in range(draw(st.integers(0, 6)) if shape else 0):
        box = done.pop(draw(st.integers(0, len(done) - 1)))
        d = draw(st.integers(0, len(shape) - 1))
        start, stop = box[d]
        if stop - start > 1:
            cut = draw(st.integers(start + 1, stop - 1))
            done += [[*box[:d], (start, cut), *box[d + 1 :]], [*box[:d], (cut, stop), *box[d + 1 :]]]
        else:
            done.append(box)
    return tuple(shape), draw(st.permutations(done))


def test_figure_1_has_the_edges_and_owners_of_the_text():
    grid, owner, parts = boxes.from_boxes((8, 7), [b.location for b in FIGURE_1])
    assert [e.tolist() for e in grid.edges] == [[0, 2, 3, 7, 8], [0, 1, 3, 4, 5, 6, 7]]
    assert owner.reshape(4, 6).tolist() == [
        [0, 1, 1, 2, 2, 2],
        [3, 3, 3, 3, 3, 4],
        [5, 5, 6, 6, 6, 4],
        [7, 7, 7, 8, 9, 9],
    ]
    assert parts[0] is None
    assert parts[1] == "[(0, 2, 1), (0, 2, 1)]"
    assert parts[11] == "[(0, 1, 1), (0, 1, 1)]"
    assert parts[17] == "[(1, 5, 1), (0, 1, 1)]"


@given(tilings(), st.data())
def test_any_tiling_puts_every_value_in_its_place(tiling, data):
    shape, locations = tiling
    dims = tuple("xyz"[: len(shape)])
    master = np.arange(int(np.prod(shape, dtype=int))).reshape(shape)
    arrays, made = {}, []
    for k, location in enumerate(locations):
        order = data.draw(st.permutations([*dims, *data.draw(st.sampled_from([[], ["extra"]]))]))
        flips = tuple(d in dims and data.draw(st.booleans()) for d in order)
        block = master[tuple(slice(*r) for r in location)]
        block = block.reshape(block.shape + (1,) * ("extra" in order)).transpose(
            [[*dims, "extra"].index(d) for d in order]
        )
        arrays[f"{k}.nc", "v"] = np.flip(block, [a for a, f in enumerate(flips) if f])
        made.append(boxes.Box(location, Layout(tuple(order), flips), f"{k}.nc", "v"))
    whole = boxes.aggregate("v", dims, shape, "i8", made)
    np.testing.assert_array_equal(assemble(whole, arrays), master)
    sizes = {**dict(zip(dims, shape, strict=True)), "extra": 1}
    assert nca.parse("v", nca_write.write(whole), "i8", sizes) == whole


@given(tilings().filter(lambda t: len(t[1]) > 1), st.data())
def test_a_tiling_without_one_box_has_a_gap_in_its_first_cell(tiling, data):
    shape, locations = tiling
    lost = locations.pop(data.draw(st.integers(0, len(locations) - 1)))
    covered = np.zeros(shape, bool)
    for location in locations:
        covered[tuple(slice(*r) for r in location)] = True
    first = np.argwhere(~covered)[0]
    with pytest.raises(ConventionError, match="no box fills cell") as caught:
        boxes.from_boxes(shape, locations)
    assert all(f"[{i}, " in str(caught.value) for i in first)
    assert all(a <= i < b for i, (a, b) in zip(first, lost, strict=True))


def test_overlapping_boxes_name_each_other_and_the_first_cell():
    with pytest.raises(
        ConventionError,
        match=r"boxes\[1\] \[2, 4\] x \[0, 2\] overlaps boxes\[0\] \[0, 3\] x \[0, 2\], first in cell \(1, 0\) of the "
        r"matrix, indices \[2, 3\] x \[0, 2\]",
    ):
        boxes.from_boxes((4, 2), [[(0, 3), (0, 2)], [(2, 4), (0, 2)]])


@pytest.mark.parametrize("box", [[(0, 5)], [(-1, 4)], [(2, 2)], [(3, 1)], [(0, 4), (0, 1)], [(0, 1, 2)], []])
def test_what_is_no_box_is_an_error(box):
    with pytest.raises(ConventionError, match=r"boxes\[0\]"):
        boxes.from_boxes((4,), [box])


def test_a_layout_that_lacks_a_spanned_dimension_is_an_error():
    with pytest.raises(ConventionError, match="spans 4 of 'x'"):
        boxes.aggregate("v", ("x",), (4,), "f4", [boxes.Box([(0, 4)], Layout(()), "a.nc", "v")])


def test_too_many_cells_are_a_limit(monkeypatch):
    monkeypatch.setattr(limits, "MAX_PARTITIONS", 3)
    with pytest.raises(LimitError, match="2 x 2 partitions; at most 3"):
        boxes.from_boxes((2, 2), [[(i, i + 1), (j, j + 1)] for i in range(2) for j in range(2)])


def test_a_reversed_sub_array_takes_its_part_before_the_reversal():
    _, _, parts = boxes.from_boxes(
        (6, 2), [[(0, 6), (0, 1)], [(0, 2), (1, 2)], [(2, 6), (1, 2)]], [(0, 1)] * 3, [(True, False)] * 3
    )
    assert parts[0] == "[(4, 6, 1), (0, 1, 1)]"
    assert part.parse(parts[2], (6, 1))[0] == range(4)
