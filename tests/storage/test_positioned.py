"""Bytes by position are read in pieces that every system gives."""

from __future__ import annotations

import errno
import os

import numpy as np
import pytest

from cfagg.storage import positioned
from cfagg.storage.files import open_regular
from cfagg.storage.positioned import fill_at, read_at


@pytest.fixture
def file(tmp_path, monkeypatch):
    """Return a file on a system that refuses to read more than 4 bytes at once, as macOS refuses 2 GiB."""

    def refusing(call, size):
        def read(fd, what, offset):
            if size(what) > 4:
                raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
            return call(fd, what, offset)

        return read

    monkeypatch.setattr(positioned, "MOST", 4)
    monkeypatch.setattr("cfagg.storage.files.MOST", 4)
    monkeypatch.setattr(os, "pread", refusing(os.pread, int))
    monkeypatch.setattr(os, "preadv", refusing(os.preadv, lambda parts: sum(len(p) for p in parts)))
    path = tmp_path / "a"
    path.write_bytes(bytes(range(10)))
    return path


def test_more_bytes_are_read_than_the_system_gives_at_once(file):
    with open_regular(str(file)) as handle:
        assert read_at(handle.fd, 9, 1) == bytes(range(1, 10))
        assert handle.exactly(9, 1) == bytes(range(1, 10))
        memory = np.zeros(9, np.uint8)
        assert fill_at(handle.fd, memory, 1) == 9
        assert memory.tolist() == list(range(1, 10))
        memory[:] = 0
        handle.fill(memory, 1)
        assert memory.tolist() == list(range(1, 10))


def test_fewer_bytes_are_returned_at_the_end_of_the_file(file):
    with open_regular(str(file)) as handle:
        assert read_at(handle.fd, 9, 4) == bytes(range(4, 10))
        assert fill_at(handle.fd, np.zeros(9, np.uint8), 4) == 6
        assert fill_at(handle.fd, np.zeros(0, np.uint8), 4) == 0
