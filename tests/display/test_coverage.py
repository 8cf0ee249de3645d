"""Pictures of where and when there are rows."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cfagg.display.coverage import TimeCoverage, frame, save, span_text
from cfagg.errors import UnsupportedError
from tests.effort import examples

places = st.lists(st.tuples(st.integers(0, 89), st.integers(0, 179)), max_size=12)


def counts_of(at):
    counts = np.zeros((90, 180), np.int64)
    for row, column in at:
        counts[row, column] += 1
    return counts


@settings(max_examples=examples(50))
@given(places)
def test_every_row_is_drawn_where_it_is(at):
    counts = counts_of(at)
    part = frame(counts, most=(30, 50))
    assert part.counts.sum() == counts.sum()
    assert part.counts.shape[0] <= 30
    assert part.counts.shape[1] <= 50
    assert part.south >= -90
    assert part.east - part.west <= 360 + part.size
    expected = np.zeros_like(part.counts)
    for row, column in at:
        i = (row * 2 - 90 + 1 - part.south) // part.size
        j = ((column * 2 + 1 - part.west) % 360) // part.size
        expected[int(i), int(j)] += 1
    np.testing.assert_array_equal(part.counts, expected)


def test_rows_around_greenwich_are_drawn_in_one_piece():
    part = frame(counts_of([(70, 178), (71, 2)]))
    assert part.west < -4
    assert part.east > 4
    assert part.east - part.west < 120


def test_rows_all_around_are_drawn_from_180_west():
    part = frame(counts_of([(40, c) for c in range(0, 180, 30)]))
    assert (part.west, part.east) == (-180, 180)


def test_maps_are_neither_tall_nor_flat():
    for at in ([(10, 90), (80, 90)], [(45, 60), (45, 120)], [(3, 3)]):
        part = frame(counts_of(at))
        shape = (part.north - part.south) / ((part.east - part.west) * part.squeeze)
        assert 0.3 < shape < 0.8


@pytest.mark.few(1)
@pytest.mark.parametrize("at", [[], [(45, 10)], [(r, c) for r in range(0, 90, 5) for c in range(0, 180, 5)]])
@pytest.mark.parametrize("n", [0, 1, 150])
def test_pictures_are_drawn_of_anything(tmp_path, at, n):
    starts = np.arange(n, dtype=np.int64) * 3600 + 1577836800
    time = TimeCoverage(3600, starts, np.arange(n, dtype=np.int64) % 7)
    save(time, counts_of(at), tmp_path / "a.png", title="a $1$ store", subtitle="b\x1b", share=0.3)
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")


def test_other_kinds_of_pictures_are_refused(tmp_path):
    with pytest.raises(UnsupportedError, match="gif"):
        save(TimeCoverage(1, np.empty(0, "i8"), np.empty(0, "i8")), counts_of([]), tmp_path / "a.gif", title="")


@pytest.mark.parametrize(
    ("seconds", "text"), [(1, "second"), (90, "90 seconds"), (120, "2 minutes"), (864000, "10 days")]
)
def test_lengths_of_time_are_words(seconds, text):
    assert span_text(seconds) == text
