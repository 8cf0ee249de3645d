"""Stamps: size and time of every stored object."""

from __future__ import annotations

import hashlib
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import zarr

from cfagg.errors import FragmentReadError
from cfagg.zarrs import compare, digest, open_array, stamps
from cfagg.zarrs.statx import usable
from tests.zarrs.stores import create


def expected(array):
    """Return the stamps one path after the other."""
    out = []
    for index in np.ndindex(array.objects.matrix_shape):
        path = Path(array.folder) / array.key(index)
        status = path.stat() if path.exists() else None
        out.append((status.st_size, status.st_mtime_ns) if status else (-1, 0))
    return np.array(out, np.int64).reshape(-1, 2)


@pytest.mark.parametrize("zarr_format", [2, 3])
@pytest.mark.parametrize("separator", [".", "/"])
@pytest.mark.parametrize("shape", [(), (9,), (9, 5), (3, 4, 5), (0, 3)])
def test_stamps_are_size_and_time_in_c_order(tmp_path, zarr_format, separator, shape):
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
    assert digest(before) != digest(after)


def test_removed_and_made_objects_are_changes(tmp_path):
    peer = create(tmp_path, "x", (8,), (2,), dtype="i4", fill_value=0)
    peer[:4] = 1
    array = open_array(tmp_path, "x")
    before = stamps(array)
    peer[0:2] = 0
    peer[6:8] = 5
    assert compare(before, stamps(array)) == [0, 3]
    assert stamps(array)[0].tolist() == [-1, 0]


def test_the_digest_is_that_of_little_endian_bytes():
    found = np.array([[12, 34], [-1, 0]], ">i8")
    assert digest(found) == hashlib.blake2b(found.astype("<i8").tobytes(), digest_size=16).hexdigest()


def test_nothing_changed_is_an_empty_list():
    one = np.array([[1, 2], [3, 4]])
    assert compare(one, one.copy()) == []


def test_the_names_of_very_many_objects_are_not_kept(tmp_path, monkeypatch):
    monkeypatch.setattr(sys.modules["cfagg.zarrs.stamps"], "_KEPT", 3)
    create(tmp_path, "x", (8,), (1,), dtype="i4")[...] = 1
    array = open_array(tmp_path, "x")
    np.testing.assert_array_equal(stamps(array), expected(array))
    assert not any(isinstance(value, list) for value in vars(array).values())


@pytest.mark.parametrize("separator", [".", "/"])
@pytest.mark.parametrize("shape", [(), (1,), (9, 5), (3, 4, 5)])
def test_the_compiled_loop_gives_the_same_stamps(tmp_path, monkeypatch, separator, shape):
    module = sys.modules["cfagg.zarrs.stamps"]
    monkeypatch.setattr(module, "_MANY", 0)
    import numba  # noqa: F401  (the loop is taken where it is loaded)

    encoding = {"name": "default", "separator": separator}
    made = create(tmp_path, "x", shape, (2,) * len(shape), dtype="i4", chunk_key_encoding=encoding)
    made[tuple(slice(0, 3) for _ in shape)] = 1
    array = open_array(tmp_path, "x")
    assert module._compiled(array.objects.size) == usable()
    for _ in range(2):
        np.testing.assert_array_equal(stamps(array), expected(array))


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
