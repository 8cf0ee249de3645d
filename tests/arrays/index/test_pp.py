"""Fields of PP files that are read by an index."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cfagg
from cfagg.arrays.index import SUFFIX, open_index
from cfagg.errors import StaleIndexWarning
from tests.arrays.test_fields import SIX, aggregated, values
from tests.formats.pp.making import field

from .test_reading import slow_calls


def indexed(folder: Path, fields: list[bytes], **more: Any) -> Path:
    """Write a PP file, an aggregation of its fields by their addresses, last first, and its index."""
    (folder / "a.pp").write_bytes(b"".join(fields))
    begins = np.cumsum([0, *map(len, fields)])[:-1].tolist()
    path = aggregated(folder, [{"file": "a.pp", "file_offset": at} for at in reversed(begins)], **more)
    cfagg.index(path)
    return path


KINDS: dict[str, dict[str, Any]] = {
    "plain": {},
    "scaled": {"BMKS": 2, "BDATUM": 100},
    "with missing values": {"BMDI": 3.0},
}


@pytest.mark.parametrize("size", [4, 8])
@pytest.mark.parametrize("kind", KINDS)
def test_unpacked_fields_are_not_searched_for(
    tmp_path: Path, kind: str, size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = indexed(tmp_path, [field(SIX + 10 * n, size, **KINDS[kind]) for n in range(5)], dtype="f8")
    expected = values(path, index=False)
    opened = slow_calls(monkeypatch)
    assert np.array_equal(values(path), expected, equal_nan=True)
    assert opened == []
    assert np.array_equal(cfagg.read(path).tas[2:, 1, 0], expected[2:, 1, 0], equal_nan=True)


def test_few_fields_are_read_by_the_index_too(tmp_path: Path) -> None:
    path = indexed(tmp_path, [field(SIX + 10 * n) for n in range(2)])
    assert values(path).tolist() == [(SIX + 10).tolist(), SIX.tolist()]


def test_what_the_user_says_of_addresses_counts_before_the_index(tmp_path: Path) -> None:
    (tmp_path / "a.pp").write_bytes(b"".join(field(SIX + 10 * n) for n in range(4)))
    path = aggregated(tmp_path, [{"file": "a.pp", "file_offset": 74}] * 5)
    cfagg.index(path)
    assert values(path)[0, 0, 0] == 10
    assert values(path, word_size=8)[0, 0, 0] == 20


def test_packed_fields_have_no_row(tmp_path: Path) -> None:
    runs = field(np.array([-9.0, 6.0]), LBPACK=4, BMDI=-9.0, LBROW=2, LBNPT=3)
    path = indexed(tmp_path, [runs, field(SIX)])
    assert len(open_index(f"{path}{SUFFIX}").address) == 1
    assert np.array_equal(values(path), values(path, index=False), equal_nan=True)


def test_a_pp_file_that_changed_is_searched_again(tmp_path: Path) -> None:
    path = indexed(tmp_path, [field(SIX + 10 * n) for n in range(5)])
    (tmp_path / "a.pp").write_bytes(b"".join(field(SIX - n) for n in range(5)))
    with pytest.warns(StaleIndexWarning):
        assert values(path)[:, 0, 1].tolist() == [-3.0, -2.0, -1.0, 0.0, 1.0]
