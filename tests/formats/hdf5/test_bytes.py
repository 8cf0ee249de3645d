"""The bytes of files: those of a file that is cut while it is read are missing, and do no harm."""

from __future__ import annotations

import os
from pathlib import Path

from cfagg.formats.hdf5.bytes import bytes_of
from cfagg.storage.files import open_regular


def test_a_file_that_is_truncated_while_it_is_read_has_fewer_bytes(tmp_path: Path) -> None:
    raw = os.urandom(200_000)
    (tmp_path / "a").write_bytes(raw)
    with open_regular(str(tmp_path / "a")) as handle:
        data = bytes_of(handle)
        assert (len(data), data[10:20], data[199_990:300_000]) == (200_000, raw[10:20], raw[-10:])
        assert data[65_530:65_550] == raw[65_530:65_550]
        assert data[200_000:200_010] == b""
        os.truncate(tmp_path / "a", 100_000)
        assert data[99_990:100_010] == raw[99_990:100_000]
        assert data[150_000:150_010] == b""
