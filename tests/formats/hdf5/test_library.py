"""Opening files in the HDF5 library beside others that have them open."""

from __future__ import annotations

import fcntl

import h5py
import pytest

from cfagg.formats.hdf5.library import open_file
from cfagg.storage.files import open_regular


@pytest.fixture
def path(tmp_path):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["x"] = 1
    return tmp_path / "a.h5"


@pytest.mark.parametrize("strong", [False, True])
def test_a_file_that_the_process_has_open_is_opened_again_whatever_closing_it_means(path, strong):
    access = h5py.h5p.create(h5py.h5p.FILE_ACCESS)
    access.set_fclose_degree(h5py.h5f.CLOSE_STRONG if strong else h5py.h5f.CLOSE_WEAK)
    theirs = h5py.h5f.open(str(path).encode(), h5py.h5f.ACC_RDONLY, access)
    try:
        found = open_file(open_regular(str(path)))
        assert h5py.h5o.exists_by_name(found, b"x")
        found.close()
    finally:
        theirs.close()


def test_a_file_that_another_program_has_locked_is_opened_without_a_lock(path):
    with path.open("rb") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        found = open_file(open_regular(str(path)))
        assert h5py.h5o.exists_by_name(found, b"x")
        found.close()


def test_a_file_is_only_read(path):
    found = open_file(open_regular(str(path)))
    with pytest.raises((OSError, RuntimeError, ValueError)):
        h5py.h5g.create(found, b"g")
    found.close()


def test_what_is_no_hdf5_raises_what_the_library_says(tmp_path):
    (tmp_path / "a.h5").write_bytes(b"text")
    with pytest.raises(OSError, match="file signature not found"):
        open_file(open_regular(str(tmp_path / "a.h5")))
