"""Fields of PP files that are read by an index."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cfagg
from cfagg.arrays.index import SUFFIX, open_index
from cfagg.errors import FragmentReadError, StaleIndexWarning
from tests import nca_files
from tests.arrays.test_fields import PP, SIX, aggregated, values
from tests.formats.pp.making import field
from tests.systems import needs_proc

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


@needs_proc
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


RUNS = field(np.array([-9.0, 2.0, 7.5, -9.0, 3.0]), LBPACK=4, BMDI=-9.0, LBROW=2, LBNPT=3)


@needs_proc
@pytest.mark.parametrize("size", [4, 8])
@pytest.mark.parametrize("order", "<>")
def test_fields_packed_by_run_length_are_not_searched_for(
    tmp_path: Path, size: int, order: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = {"LBPACK": 4, "BMDI": -9.0, "LBROW": 2, "LBNPT": 3}
    stored = [np.array([-9.0, 2.0, n, -9.0, 3.0]) for n in range(6)]
    path = indexed(tmp_path, [field(one, size, order, **runs) for one in stored], dtype="f8")
    opened = slow_calls(monkeypatch)
    missing = [np.nan] * 3
    assert np.array_equal(values(path)[::-1, 0], [[np.nan, np.nan, n] for n in range(6)], equal_nan=True)
    assert np.array_equal(values(path)[:, 1], [missing] * 6, equal_nan=True)
    assert opened == []


@needs_proc
def test_fields_in_wgdos_packing_are_not_searched_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = (PP / "wgdos_73x96_le.pp").read_bytes()
    for n in range(5):
        (tmp_path / f"{n}.pp").write_bytes(data)
    edges = [list(range(6)), [0, 73], [0, 96]]
    said = {"dimensions": ["y", "x"], "format": "PP"}
    content = nca_files.array(
        ["t", "y", "x"], edges,
        lambda i, _: {**said, "data": {"shape": [73, 96], "file": f"{i[0]}.pp", "file_offset": 0}},
    )  # fmt: skip
    path = nca_files.aggregation(tmp_path / "agg.nca", "tas", "f4", {"t": 5, "y": 73, "x": 96}, content)
    assert cfagg.index(path).left_out == ()
    opened = slow_calls(monkeypatch)
    found = values(path)
    assert opened == []
    assert np.array_equal(found, values(path, index=False), equal_nan=True)
    assert np.array_equal(cfagg.read(path).tas[:, ::-7, 4].values, found[:, ::-7, 4], equal_nan=True)


def test_few_packed_fields_are_read_by_the_index_too(tmp_path: Path) -> None:
    path = indexed(tmp_path, [RUNS, field(SIX)])
    assert len(open_index(f"{path}{SUFFIX}").address) == 2
    assert np.array_equal(values(path), values(path, index=False), equal_nan=True)


def test_packed_bytes_that_are_damaged_are_the_same_error_as_without_the_index(tmp_path: Path) -> None:
    wrong = field(np.array([-9.0, 2.0, 7.5, -9.0, 99.0]), LBPACK=4, BMDI=-9.0, LBROW=2, LBNPT=3)
    path = indexed(tmp_path, [RUNS, wrong, RUNS, RUNS, RUNS])
    with pytest.raises(FragmentReadError, match="runs of missing values") as slow:
        values(path, index=False)
    with pytest.raises(FragmentReadError) as fast:
        values(path)
    assert str(fast.value) == str(slow.value)


def test_fields_of_land_points_have_no_row(tmp_path: Path) -> None:
    path = indexed(tmp_path, [field(SIX[0], LBPACK=120, LBROW=2, LBNPT=3)])
    assert len(open_index(f"{path}{SUFFIX}").address) == 0


@pytest.mark.parametrize("changed", [{"fill": "ff"}, {"packing": 2}, {"dtype": "<i4"}, {"codecs": [[-1, [1]]]}])
def test_a_row_that_cannot_be_of_a_packed_field_is_not_believed(tmp_path: Path, changed: dict[str, Any]) -> None:
    path = indexed(tmp_path, [RUNS] * 5)
    index = open_index(f"{path}{SUFFIX}")
    headers = [json.dumps(json.loads(one) | changed) for one in index.headers]
    hostile = replace(index, headers=headers, _parsed={})
    assert np.array_equal(values(path, index=hostile), values(path, index=False), equal_nan=True)


def test_a_pp_file_that_changed_is_searched_again(tmp_path: Path) -> None:
    path = indexed(tmp_path, [field(SIX + 10 * n) for n in range(5)])
    (tmp_path / "a.pp").write_bytes(b"".join(field(SIX - n) for n in range(5)))
    with pytest.warns(StaleIndexWarning):
        assert values(path)[:, 0, 1].tolist() == [-3.0, -2.0, -1.0, 0.0, 1.0]
