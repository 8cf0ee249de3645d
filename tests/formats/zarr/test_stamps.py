"""Stamps: size, times and inode of every stored object."""

from __future__ import annotations

import os
import sys
import time
import zlib
from pathlib import Path

import google_crc32c
import numpy as np
import pytest
import zarr

from cfagg.errors import FragmentReadError, SourceError
from cfagg.formats.zarr import checksum, compare, object_checksum, open_array, stamps
from cfagg.formats.zarr.stamps import ABSENT
from tests.formats.zarr.stores import create


def expected(array):
    """Return the stamps one path after the other."""
    out = []
    for index in np.ndindex(array.objects.matrix_shape):
        path = Path(array.folder) / array.key(index)
        status = path.stat() if path.exists() else None
        out.append((status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino) if status else ABSENT)
    return np.array(out, np.int64).reshape(-1, 4)


@pytest.mark.parametrize("zarr_format", [2, 3])
@pytest.mark.parametrize("separator", [".", "/"])
@pytest.mark.parametrize("shape", [(), (9,), (9, 5), (3, 4, 5), (0, 3)])
def test_stamps_are_size_times_and_inode_in_c_order(tmp_path, zarr_format, separator, shape):
    encoding = {"name": "v2" if zarr_format == 2 else "default", "separator": separator}
    made = create(
        tmp_path, "x", shape, (2,) * len(shape), dtype="i4", chunk_key_encoding=encoding, zarr_format=zarr_format
    )
    made[tuple(slice(0, 3) for _ in shape)] = 1
    array = open_array(tmp_path, "x")
    found = stamps(array)
    assert found.dtype == np.int64
    np.testing.assert_array_equal(found, expected(array))
    np.testing.assert_array_equal(stamps(array), found)


def test_stamps_are_those_of_shards(tmp_path):
    create(tmp_path, "x", (10, 4), (1, 2), shards=(4, 4), dtype="i4")[:5] = 1
    found = stamps(open_array(tmp_path, "x"))
    assert (found[:, 0] > 0).tolist() == [True, True, False]


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_a_single_value_written_by_zarr_python_changes_one_stamp(tmp_path, zarr_format):
    peer = create(tmp_path, "x", (8, 6), (2, 3), dtype="i4", zarr_format=zarr_format, compressors=None)
    peer[...] = 1
    array = open_array(tmp_path, "x")
    before = stamps(array)
    time.sleep(0.02)
    zarr.open_array(tmp_path / "x", mode="r+")[5, 4] = 2
    after = stamps(array)
    assert compare(before, after) == [5]


def test_removed_and_made_objects_are_changes(tmp_path):
    peer = create(tmp_path, "x", (8,), (2,), dtype="i4", fill_value=0)
    peer[:4] = 1
    array = open_array(tmp_path, "x")
    before = stamps(array)
    peer[0:2] = 0
    peer[6:8] = 5
    assert compare(before, stamps(array)) == [0, 3]
    assert stamps(array)[0].tolist() == list(ABSENT)


def test_nothing_changed_is_an_empty_list():
    one = np.array([[1, 2], [3, 4]])
    assert compare(one, one.copy()) == []


def test_the_names_of_very_many_objects_are_not_kept(tmp_path, monkeypatch):
    monkeypatch.setattr(sys.modules["cfagg.formats.zarr.stamps"], "_KEPT", 3)
    create(tmp_path, "x", (8,), (1,), dtype="i4")[...] = 1
    array = open_array(tmp_path, "x")
    np.testing.assert_array_equal(stamps(array), expected(array))
    assert not any(isinstance(value, list) for value in vars(array).values())


def test_stamps_of_some_objects_are_those_rows(tmp_path, monkeypatch):
    create(tmp_path, "x", (9, 5), (2, 2), dtype="i4")[3:] = 1
    array = open_array(tmp_path, "x")
    which = np.array([14, 0, 7, 7])
    np.testing.assert_array_equal(stamps(array, which), expected(array)[which])
    monkeypatch.setattr(sys.modules["cfagg.formats.zarr.stamps"], "_KEPT", 3)
    np.testing.assert_array_equal(stamps(open_array(tmp_path, "x"), which), expected(array)[which])


def test_the_checksum_of_an_object_is_that_of_its_bytes_by_two_libraries(tmp_path):
    create(tmp_path, "x", (9, 5), (9, 5), dtype="i4", compressors=None)[...] = 7
    array = open_array(tmp_path, "x")
    data = (tmp_path / "x/c/0/0").read_bytes()
    value = zlib.crc32(data) << 32 | google_crc32c.value(data)
    assert object_checksum(array, (0, 0)) == (len(data), value - 2**64 if value >= 2**63 else value)
    assert checksum(np.frombuffer(data, "i4").reshape(9, 5)) == checksum(data) == object_checksum(array, (0, 0))[1]


def test_an_object_that_is_not_stored_has_no_checksum_and_a_fifo_is_no_object(tmp_path):
    create(tmp_path, "x", (4,), (2,), dtype="i4")[:2] = 1
    array = open_array(tmp_path, "x")
    assert object_checksum(array, (1,)) is None
    os.mkfifo(tmp_path / "x/c/1")
    with pytest.raises(SourceError, match="it is a FIFO, and only regular files are read"):
        object_checksum(array, (1,))


def test_an_array_that_is_gone_is_an_error(tmp_path):
    create(tmp_path, "x", (8,), (1,), dtype="i4")
    array = open_array(tmp_path, "x")
    (tmp_path / "x").rename(tmp_path / "y")
    with pytest.raises(FragmentReadError, match="x cannot be read"):
        stamps(array)


def test_a_file_in_the_place_of_a_folder_of_chunks_means_absent(tmp_path):
    create(tmp_path, "x", (4, 2), (2, 2), dtype="i4")[2:] = 1
    (tmp_path / "x/c/0").write_text("")
    assert stamps(open_array(tmp_path, "x"))[:, 0].min() == -1


def test_an_object_that_cannot_be_looked_at_is_an_error(tmp_path):
    create(tmp_path, "x", (4,), (2,), dtype="i4")[:] = 1
    (tmp_path / "x/c/1").unlink()
    (tmp_path / "x/c/1").symlink_to("1")
    with pytest.raises(FragmentReadError, match=r"x: .*symbolic links.*\(c/1\)"):
        stamps(open_array(tmp_path, "x"))


def test_looking_at_stamps_leaves_no_file_open(tmp_path):
    create(tmp_path, "x", (4,), (2,), dtype="i4")[:] = 1
    array = open_array(tmp_path, "x")

    def lowest_free():
        number = os.open(tmp_path, os.O_RDONLY)
        os.close(number)
        return number

    before = lowest_free()
    stamps(array)
    assert lowest_free() == before
