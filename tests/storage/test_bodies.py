"""Bodies of requests: what is sent of a file is all of it, however many bytes the system returns at once."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from cfagg.storage.bodies import bytes_of, pieces


def test_a_piece_of_a_file_is_whole_where_the_system_returns_it_bit_by_bit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    raw = os.urandom(1000)
    (tmp_path / "a").write_bytes(raw)
    read = os.pread
    monkeypatch.setattr(os, "pread", lambda file, count, at: read(file, min(count, 300), at))
    with bytes_of(tmp_path / "a") as body:
        assert body[100:900] == raw[100:900]
        assert [(at, bytes(piece)) for at, piece in pieces(body)] == [(0, raw)]
