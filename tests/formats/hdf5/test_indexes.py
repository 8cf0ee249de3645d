"""Tables of chunks that are read without the HDF5 library: only what the format says is taken from them."""

from __future__ import annotations

import struct

import h5py
import numpy as np
import pytest

from cfagg.formats.hdf5.head import Head
from cfagg.formats.hdf5.indexes import positions as positions_of
from cfagg.storage.files import open_regular

UNDEFINED = 2**64 - 1


@pytest.fixture
def positions():
    """Return a function that looks for chunks of (2, 3) values in a table of rows."""

    def find(rows, indices, *, mark=b"TREE\1\0", count=None, last=(500, 0, 0)):
        table = struct.pack("<6sHQQ", mark, len(rows) if count is None else count, UNDEFINED, UNDEFINED)
        body = b"".join(struct.pack("<IIQQQQ", *row) for row in rows) + struct.pack("<IIQQQ", 0, 0, *last)
        return positions_of(table + body, 0, (2, 3), indices, 8)

    return find


ROWS = [(24, 0, 0, 0, 0, 4096), (20, 1, 0, 3, 0, 5000), (24, 0, 2, 0, 0, 6000)]


def test_chunks_are_found_by_their_first_element(positions):
    assert positions(ROWS, [(1, 0), (0, 1)]) == [(0, 6000, 24), (1, 5000, 20)]


def test_a_table_that_ends_before_its_last_chunk_is_left_to_the_library(positions):
    """The library finds no chunk that does not begin before the key behind the last one."""
    assert positions(ROWS, [(0, 0)], last=(2, 0, 0)) is None
    assert positions(ROWS, [(0, 0)], last=(2, 0, 8)) is not None


def test_chunks_are_where_the_hdf5_library_says(tmp_path):
    with h5py.File(tmp_path / "a.h5", "w", libver="earliest") as file:
        data = file.create_dataset("v", data=np.arange(35.0).reshape(5, 7), chunks=(2, 3), compression="gzip")
        said = [data.id.get_chunk_info(k) for k in range(data.id.get_num_chunks())]
    raw = (tmp_path / "a.h5").read_bytes()
    tree = raw.index(b"TREE\1\0")
    indices = [(a.chunk_offset[0] // 2, a.chunk_offset[1] // 3) for a in said]
    with open_regular(str(tmp_path / "a.h5")) as handle:
        found = positions_of(Head(handle), tree, (2, 3), indices, 8)
    assert found == [(a.filter_mask, a.byte_offset, a.size) for a in said]


def test_a_chunk_that_begins_within_an_element_is_left_to_the_library(positions):
    """The format wants an offset of 0 within the element."""
    assert positions([(24, 0, 0, 0, 4, 4096)], [(0, 0)]) is None


def test_a_chunk_that_the_table_lacks_is_left_to_the_library(positions):
    assert positions(ROWS, [(0, 0), (1, 1)]) is None


@pytest.mark.parametrize("row", [(0, 0, 0, 0, 0, 4096), (24, 0, 0, 0, 0, UNDEFINED)], ids=["no bytes", "no address"])
def test_a_chunk_without_bytes_or_address_is_left_to_the_library(positions, row):
    assert positions([row], [(0, 0)]) is None


def test_a_table_of_one_chunk_is_read(positions):
    assert positions(ROWS[:1], [(0, 0)]) == [(0, 4096, 24)]


@pytest.mark.parametrize(
    "rows", [ROWS[::-1], [ROWS[0], ROWS[0]], [ROWS[0], ROWS[2], ROWS[1]]], ids=["falling", "twice", "partly"]
)
def test_a_table_out_of_order_is_left_to_the_library(positions, rows):
    assert positions(rows, [(0, 0)]) is None


@pytest.mark.parametrize("given", [{"mark": b"TREE\1\1"}, {"mark": b"TREE\0\0"}, {"count": 0}, {"count": 4}], ids=str)
def test_what_is_no_whole_table_of_one_node_is_left_to_the_library(positions, given):
    assert positions(ROWS, [(0, 0)], **given) is None


@pytest.mark.parametrize(("count", "read"), [(64, True), (65, False)])
def test_a_node_of_up_to_64_chunks_is_read(positions, count, read):
    rows = [(24, 0, 2 * k, 0, 0, 4096 + 24 * k) for k in range(count)]
    assert positions(rows, [(7, 0)]) == ([(0, 4096 + 24 * 7, 24)] if read else None)


@pytest.mark.parametrize("tree", [0, 4, 2**63, UNDEFINED])
def test_without_a_table_the_library_has_to_look(tree):
    assert positions_of(b"TREE", tree, (2, 3), [(0, 0)]) is None
