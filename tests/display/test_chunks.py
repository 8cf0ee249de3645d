"""Lazy arrays and rows in notebooks: complete, small, never markup of a file's own, and nothing is read for them."""

from __future__ import annotations

import math

import numpy as np
import pytest
import zarr
from hypothesis import given
from hypothesis import strategies as st

import cfagg
from cfagg.display.chunks import array_html, draw_chunks, rows_html
from cfagg.model import Grid
from tests.display.test_facts import check
from tests.display.test_html import EVIL

F4 = np.dtype("f4")


def test_an_array_shows_what_is_known_of_it_and_reads_nothing(tmp_path):
    array = zarr.create_array(
        str(tmp_path), name="tas", shape=(20, 4), chunks=(5, 4), dtype="f4", dimension_names=["time", "x"],
        attributes={"units": "K"},
    )  # fmt: skip
    array[:] = 1
    for chunk in (tmp_path / "tas" / "c").rglob("0"):
        if chunk.is_file():
            chunk.write_bytes(b"damaged")
    page = cfagg.open_array(tmp_path, "tas")._repr_html_()
    text = check(page)
    for part in ("LazyArray tas", "time: 20, x: 4", "float32", "80 values, 320 bytes", "units = 'K'"):
        assert part in text
    assert "4: 4 chunks of 5 × 1 chunk of 4" in text
    assert "5 × 4, 80 bytes" in text
    assert page.count("<polygon") == 4


@pytest.mark.parametrize(
    ("edges", "text"),
    [
        ([0, 5, 9, 20], "3 chunks of unequal lengths"),
        ([0, 5, 10, 12], "3 chunks of 5"),
        ([0, 5], "1 chunk of 5"),
        ([0], "0 chunks"),
    ],
)
def test_chunks_are_told_by_their_lengths(edges, text):
    assert f">{text}</td>" in array_html(None, ("time",), Grid([edges]), F4, {})


def test_names_of_a_file_are_escaped():
    assert "<script>alert(1)</script>" in check(array_html(EVIL, (EVIL,), Grid.regular((3,), (1,)), F4, {EVIL: EVIL}))
    check(rows_html(np.array([1]), 1, F4, 1, [(EVIL, EVIL)]))


@given(st.lists(st.tuples(st.integers(0, 3000), st.integers(1, 400)), max_size=5))
def test_a_picture_of_any_grid_is_small_and_within_its_frame(sizes):
    grid = Grid.regular([n for n, _ in sizes], [c for _, c in sizes])
    drawing = draw_chunks([f"d{k}" for k in range(len(sizes))], grid)
    assert len(drawing.patches) <= 2500
    assert bool(drawing.patches) == (0 not in grid.matrix_shape)
    for patch in drawing.patches:
        for x, y in patch.points:
            assert 0 <= x <= drawing.width
            assert 0 <= y <= drawing.height
            assert math.isfinite(x + y)


def test_a_grid_of_very_many_chunks_is_told_without_listing_them():
    page = array_html("a", ("x", "y"), Grid.regular((10**15, 3), (1, 3)), F4, {})
    assert "<svg" not in page
    assert "1,000,000,000,000,000: 1,000,000,000,000,000 chunks of 1 × 1 chunk of 3" in check(page)


def test_what_a_picture_leaves_out_is_said():
    drawing = draw_chunks(tuple("tzyx"), Grid.regular((3650, 10, 180, 360), (1, 1, 90, 90)))
    said = [text.text for text in drawing.texts]
    assert "not drawn: y: 180" in said
    assert "each cell represents about 61 chunks" in said


def test_rows_show_how_long_they_are_and_their_labels(tmp_path):
    rows = (np.arange(5.0), np.array([0, 2, 1, 0, 2]), np.array([0, 2, 2, 5]))
    cfagg.write_rows(rows, tmp_path / "a.zarr", columns=3, labels={"kind": [1, 2, 3]})
    text = check(cfagg.open_rows(tmp_path / "a.zarr")._repr_html_())
    assert "0 to 3, 1.7 on average" in text
    assert "kind (int64)" in text
    check(rows_html(np.array([], "i8"), None, F4, 0, []))
