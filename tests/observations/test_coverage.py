"""How rows are spread over time and over the Earth."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cfagg.observations import describe
from cfagg.observations.describe import map_coverage, time_coverage
from cfagg.observations.store import open_store
from tests.effort import examples
from tests.observations.small_stores import NEW_YEAR, epochs_of, hourly, table, write


class Times:
    """An index of dates."""

    def __init__(self, epochs):
        self.epochs = np.sort(np.asarray(epochs, np.int64))
        self.first, self.last = (int(self.epochs[0]), int(self.epochs[-1])) if len(epochs) else (None, None)

    def find_many(self, lo, hi):
        return np.stack([np.searchsorted(self.epochs, lo), np.searchsorted(self.epochs, hi)], axis=1)


@settings(max_examples=examples(50))
@given(st.lists(st.integers(-(10**10), 10**10), max_size=30), st.integers(1, 300))
def test_bins_of_time_hold_all_rows(epochs, bins):
    found = time_coverage(Times(epochs), bins)
    assert len(found.starts) <= max(bins, 2)
    assert found.counts.sum() == len(epochs)
    for start, count in zip(found.starts.tolist(), found.counts.tolist(), strict=True):
        assert start % found.step == 0
        assert count == sum(start <= e < start + found.step for e in epochs)


def test_bins_are_as_short_as_fits_and_round():
    steps = [time_coverage(Times([0, span - 1]), 200).step for span in (100, 86400, 400 * 86400, 40 * 365 * 86400)]
    assert steps == [1, 600, 2 * 86400, 100 * 86400]


def test_rows_are_counted_where_they_are(tmp_path):
    path, rows = hourly(tmp_path / "a.zarr")
    counts, looked_at = map_coverage(open_store(path))
    assert looked_at == counts.sum() == len(rows)
    expected = np.zeros((720, 1440), int)
    for latitude, longitude in rows[:, 2:4].tolist():
        expected[min(int((latitude + 90) * 4), 719), int(longitude * 4)] += 1
    np.testing.assert_array_equal(counts, expected)


def test_rows_without_a_place_are_left_out(tmp_path):
    rows = table(NEW_YEAR + np.arange(4))
    rows[1, 2], rows[2, 3], rows[3, 2:4] = np.nan, np.nan, (90, 359.9999)
    counts, looked_at = map_coverage(open_store(write(tmp_path / "a.zarr", rows)))
    assert (int(counts.sum()), looked_at) == (2, 4)
    assert counts[719, 1439] == 1


def test_of_a_large_store_so_many_rows_are_counted(tmp_path, monkeypatch):
    monkeypatch.setattr(describe, "_MOST_ROWS", 256)
    path, rows = hourly(tmp_path / "a.zarr")
    counts, looked_at = map_coverage(open_store(path))
    assert looked_at == counts.sum() == 256 < len(rows)


@pytest.mark.parametrize("bins", [2, 50])
def test_a_store_is_asked_through_its_index(tmp_path, bins):
    path, rows = hourly(tmp_path / "a.zarr")
    found = time_coverage(open_store(path).index(), bins)
    edges = np.append(found.starts, found.starts[-1] + found.step)
    np.testing.assert_array_equal(found.counts, np.histogram(epochs_of(rows), edges)[0])
