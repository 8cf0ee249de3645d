"""Where chunks stand, from the tables of the HDF5 library."""

from __future__ import annotations

import h5py
import numpy as np
import pytest

import cfagg
from cfagg.formats.values.hdf5_chunks import _looked_up

#: What the library makes of it: an extensible array, a fixed one, a tree of either version, no table.
TABLES = {
    "extensible": ("latest", (None, 40), {}),
    "fixed": ("latest", (30, 40), {}),
    "tree": ("latest", (None, None), {}),
    "old tree": ("earliest", (None, 40), {}),
    "filtered": ("latest", (None, 40), {"compression": "gzip"}),
}


def written(path, table):
    """Write 1,200 chunks but for every seventh row of them, and return the values."""
    libver, most, options = TABLES[table]
    values = np.arange(1200.0).reshape(30, 40)
    values[::7] = -1
    with h5py.File(path, "w", libver=libver) as file:
        made = file.create_dataset("v", (30, 40), "f8", chunks=(1, 1), maxshape=most, fillvalue=-1, **options)
        for row in range(30):
            if row % 7:
                made[row] = values[row]
    return values


class Recorded:
    """A dataset that notes how often it is asked."""

    def __init__(self, dataset):
        self.dataset, self.asked = dataset, 0

    def __getattr__(self, name):
        self.asked += 1
        return getattr(self.dataset, name)


@pytest.mark.parametrize("table", TABLES)
def test_many_chunks_are_looked_up_at_once_as_they_are_one_by_one(tmp_path, table):
    written(tmp_path / "a.h5", table)
    starts = [(row, column) for row in range(29, -1, -1) for column in range(0, 40, 3)]
    with h5py.File(tmp_path / "a.h5") as file:
        asked = Recorded(file["v"].id)
        found = _looked_up(asked, starts)
        assert asked.asked == 1
        assert found == [one for start in starts for one in _looked_up(asked, [start])]
    assert {offset is None for _, offset, _ in found} == {True, False}


@pytest.mark.parametrize("table", TABLES)
def test_values_of_many_chunks_are_those_of_the_library(tmp_path, table):
    values = written(tmp_path / "a.h5", table)
    with cfagg.read(tmp_path / "a.h5", mask_and_scale=False) as opened:
        np.testing.assert_array_equal(opened["v"].values, values)
        np.testing.assert_array_equal(opened["v"][5:9, ::5].values, values[5:9, ::5])
