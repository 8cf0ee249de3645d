"""Where chunks stand, from the tables of the HDF5 library."""

from __future__ import annotations

import itertools
import math

import h5py
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import cfagg
from cfagg.formats import values
from cfagg.formats.hdf5 import chunks as hdf5_chunks
from cfagg.formats.hdf5 import listing as hdf5_listing
from cfagg.formats.hdf5.chunks import _boxes, _looked_up, _Rows
from cfagg.formats.values import find
from cfagg.storage.files import CONTEXT_SOURCE
from tests.effort import examples
from tests.fuzzing.checksums import put_right

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
        found = _looked_up(asked, starts, True)
        assert asked.asked == 1
        assert found == [one for start in starts for one in _looked_up(asked, [start], False)]
    assert {offset is None for _, offset, _ in found} == {True, False}


@pytest.mark.parametrize("table", TABLES)
def test_values_of_many_chunks_are_those_of_the_library(tmp_path, table):
    values = written(tmp_path / "a.h5", table)
    with cfagg.read(tmp_path / "a.h5", mask_and_scale=False) as opened:
        np.testing.assert_array_equal(opened["v"].values, values)
        np.testing.assert_array_equal(opened["v"][5:9, ::5].values, values[5:9, ::5])


@st.composite
def selections(draw):
    """Draw a shape, chunks, the chunks that are written, and slices that take something."""
    rank = draw(st.integers(1, 3))
    shape = draw(st.lists(st.integers(1, 24), min_size=rank, max_size=rank))
    chunks = [draw(st.integers(1, n)) for n in shape]
    counts = [-(-n // c) for n, c in zip(shape, chunks, strict=True)]
    some = st.tuples(*(st.integers(0, n - 1) for n in counts))
    slices = []
    for n in shape:
        start = draw(st.integers(0, n - 1))
        slices.append(slice(start, draw(st.integers(start + 1, n)), draw(st.integers(1, n + 1))))
    return shape, chunks, draw(st.lists(some, max_size=12)), slices


@given(selection=selections(), batch=st.integers(1, 300), held=st.sampled_from([0, 5, 10**6]), data=st.data())
@settings(max_examples=examples(300), deadline=None)
def test_arrays_of_which_little_was_written_read_as_by_the_library(tmp_path_factory, selection, batch, held, data):
    shape, chunks, stored, slices = selection
    path = tmp_path_factory.mktemp("sparse") / "a.h5"
    most = [data.draw(st.sampled_from([None, n, n + 1, 3 * n + 2])) for n in shape]
    with h5py.File(path, "w", libver="latest") as file:
        made = file.create_dataset("v", shape, "i4", chunks=tuple(chunks), maxshape=most, fillvalue=-7)
        for n, index in enumerate(stored):
            made[tuple(slice(i * c, (i + 1) * c) for i, c in zip(index, chunks, strict=True))] = n
        expected = made[:][tuple(slices)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(hdf5_chunks, "_BATCH", batch)
        patch.setattr(hdf5_chunks, "_HELD", held)
        found = values.read(values.locate(str(path), "/v", CONTEXT_SOURCE), slices, CONTEXT_SOURCE)
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("steps", [400_000, pytest.param(3_000_000, marks=pytest.mark.full)])
def test_millions_of_neighbours_that_were_never_written_come_as_few(tmp_path, steps):
    with h5py.File(tmp_path / "a.h5", "w", libver="latest") as file:
        made = file.create_dataset("v", (steps, 6), "i2", chunks=(2, 3), fillvalue=-7)
        made[steps // 3 * 2] = 5
    located = values.locate(str(tmp_path / "a.h5"), "/v", CONTEXT_SOURCE)
    checked = find.check(located, CONTEXT_SOURCE)
    slices = [slice(0, steps, 1), slice(0, 6, 1)]
    count = written = 0
    for place, block in hdf5_chunks.scan(checked, located.storage, slices, CONTEXT_SOURCE):
        count += 1
        written += int((block == 5).sum())
        assert block.shape == tuple(p.stop - p.start for p in place)
    assert written == 6
    assert count < 20_000


@given(selection=selections(), most=st.integers(1, 300))
@settings(max_examples=examples(200), deadline=None)
def test_boxes_hold_each_touched_chunk_once_in_order_and_no_more_than_asked_for(selection, most):
    shape, chunks, _, slices = selection
    axes = [_Rows(c, range(s.start, s.stop, s.step)) for c, s in zip(chunks, slices, strict=True)]
    boxes = list(_boxes(axes, most))
    made = [[list(rows.touched()) for rows in box] for box in boxes]
    indices = [[[index for index, _, _ in rows] for rows in box] for box in made]
    assert indices == [[r.indices for r in box] for box in boxes]
    assert [math.prod(map(len, box)) for box in made] == [math.prod(r.size for r in b) for b in boxes]
    assert max(math.prod(map(len, box)) for box in made) <= most
    assert sum(math.prod(map(len, box)) for box in made) == math.prod(rows.size for rows in axes)
    places = np.zeros([len(range(*s.indices(n))) for s, n in zip(slices, shape, strict=True)], int)
    for chosen in itertools.chain(*(itertools.product(*box) for box in made)):
        index, place, within = zip(*chosen, strict=True)
        grid = np.ix_(*(range(i * c, (i + 1) * c)[w] for i, c, w in zip(index, chunks, within, strict=True)))
        taken = np.ix_(*(range(s.start, s.stop, s.step)[p] for s, p in zip(slices, place, strict=True)))
        assert all(np.array_equal(a, b) for a, b in zip(grid, taken, strict=True))
        places[place] += 1
    assert (places == 1).all()


@pytest.mark.parametrize("axis", [1, 2])
@pytest.mark.parametrize("written", ["all", "some"])
def test_chunks_whose_unlimited_dimension_is_not_the_first_stand_where_they_were_written(tmp_path, axis, written):
    shape, chunks, most = (5, 7, 9), (2, 3, 2), [8, 10, 30]
    most[axis] = None
    expected = np.full(shape, -1)
    if written == "all":
        expected[...] = np.arange(5 * 7 * 9).reshape(shape)
    else:
        expected[2:4, 3:6, 4:6] = 5
    with h5py.File(tmp_path / "a.h5", "w", libver="latest") as file:
        made = file.create_dataset("v", shape, "i4", chunks=chunks, maxshape=most, fillvalue=-1)
        made[2:4, 3:6, 4:6] = expected[2:4, 3:6, 4:6]
        if written == "all":
            made[...] = expected
    with cfagg.read(tmp_path / "a.h5", mask_and_scale=False) as opened:
        np.testing.assert_array_equal(opened["v"].values, expected)
        np.testing.assert_array_equal(opened["v"][3, 4, 5].values, expected[3, 4, 5])


def test_an_hdf5_library_that_lists_chunks_rightly_is_believed(tmp_path, monkeypatch):
    with h5py.File(tmp_path / "a.h5", "w", libver="latest") as file:
        made = file.create_dataset("v", (4, 6), "i4", chunks=(2, 2), maxshape=(4, None))
        assert hdf5_listing.listing(made.id, 3, (2, 2)) is None
        monkeypatch.setattr(hdf5_listing, "_listed_wrongly", lambda: False)
        assert hdf5_listing.listing(made.id, 4, (2, 2)) is None


@given(counts=st.lists(st.integers(1, 6), min_size=2, max_size=4), data=st.data())
def test_an_index_and_how_it_is_listed_lead_to_each_other(counts, data):
    axis = data.draw(st.integers(1, len(counts) - 1))
    index = tuple(data.draw(st.integers(0, 99 if d == axis else n - 1)) for d, n in enumerate(counts))
    one = hdf5_listing.Listing(counts, axis)
    assert one.actual(one.listed(index)) == index


@pytest.mark.parametrize("most", [(None, 6), (None, None), (5, None), None], ids=str)
@pytest.mark.parametrize("chunks", [(2, 3), (5, 6)], ids=str)
def test_newer_indexes_of_chunks_are_read_without_the_library(tmp_path, monkeypatch, most, chunks):
    stored = np.arange(30.0).reshape(5, 6)
    with h5py.File(tmp_path / "a.nc", "w", libver="latest") as file:
        made = file.create_dataset("v", data=stored, chunks=chunks, maxshape=most, compression="gzip")
        for axis, name in enumerate("yx"):
            file.create_dataset(name, data=np.arange(stored.shape[axis]), maxshape=most and most[axis : axis + 1])
            file[name].make_scale(name)
            made.dims[axis].attach_scale(file[name])
    monkeypatch.setattr(hdf5_chunks._Table, "_ask", None)
    found = values.locate(str(tmp_path / "a.nc"), "/v", CONTEXT_SOURCE)
    for slices in ([slice(0, 5, 1), slice(0, 6, 1)], [slice(3, 4, 1), slice(1, 2, 1)]):
        np.testing.assert_array_equal(values.read(found, slices, CONTEXT_SOURCE), stored[tuple(slices)])


@pytest.mark.parametrize("rows", [6, 90])
@pytest.mark.parametrize("most", [(None, 6), (None, None), None], ids=["extensible", "tree", "fixed"])
@pytest.mark.parametrize("options", [{"compression": "gzip"}, {"shuffle": True}], ids=["deflate", "shuffle"])
def test_chunks_across_the_end_that_are_stored_without_filters_are_read(tmp_path, rows, most, options):
    path, stored = tmp_path / "a.nc", np.arange(rows * 6.0).reshape(rows, 6)
    with h5py.File(path, "w", libver=("v110", "v110")) as file:
        made = file.create_dataset("v", (rows, 6), "f8", chunks=(4, 4), maxshape=most, **options)
        made[...] = stored
        for row, column in np.ndindex(-(-rows // 4), 2):
            if column or row >= rows // 4:
                block = np.zeros((4, 4))
                part = stored[4 * row : 4 * row + 4, 4 * column : 4 * column + 4]
                block[: part.shape[0], : part.shape[1]] = part
                made.id.write_direct_chunk((4 * row, 4 * column), block.tobytes())
    raw = path.read_bytes()
    # The layout: version 4, chunks, its flags, three sizes of a byte each.
    plain = raw.replace(b"\4\2\0\3\1\4\4\x08", b"\4\2\1\3\1\4\4\x08")
    assert plain != raw
    path.write_bytes(put_right(plain, [raw]))
    with h5py.File(path) as file:
        np.testing.assert_array_equal(file["v"][...], stored)
    located = find.locate(str(path), "v", CONTEXT_SOURCE)
    slices = (slice(1, rows, 2), slice(0, 6, 1))
    np.testing.assert_array_equal(find.read(located, slices, CONTEXT_SOURCE), stored[slices])
