"""What an unfinished accumulation keeps of chunks that are done."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from cfagg.accumulation import scratch
from cfagg.accumulation.scratch import Journal


def test_a_record_whose_checksum_is_zero_counts_as_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scratch, "crc32", lambda _: 0)
    dtype = np.dtype([("number", "<i8"), ("check", "<u4")])
    journal = Journal(tmp_path, 3, dtype)
    record = np.zeros(1, dtype)
    record["number"] = 1
    journal.add(record)
    _, whole = journal.read()
    journal.close()
    assert whole.tolist() == [False, True, False]
