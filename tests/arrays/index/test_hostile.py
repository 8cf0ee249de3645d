"""An index that somebody wrote to do harm: nothing but errors of cfagg, and no more memory than files justify."""

from __future__ import annotations

import dataclasses
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from cfagg.arrays.index import Index, build_index, open_index
from cfagg.arrays.index.headers import read_header
from cfagg.arrays.index.parquet import _encoded, _sealed, index_bytes
from cfagg.arrays.index.rows import Ragged
from cfagg.errors import CfaggError, SourceError, StaleIndexWarning
from cfagg.model import Aggregation

from .test_reading import MIXED, make, reader_of

Case = tuple[Path, Aggregation, npt.NDArray[Any], Index]


@pytest.fixture(scope="module")
def case(tmp_path_factory: pytest.TempPathFactory) -> Case:
    folder = tmp_path_factory.mktemp("hostile")
    made, values, places = make(folder, MIXED)
    return folder, made, values, build_index(places)


def read_by(case: Case, index: Index, number: int = 0) -> None:
    """Read by an index from its file, if it is taken; only errors of cfagg come."""
    folder, made, _, _ = case
    try:
        (folder / f"h{number}").write_bytes(index_bytes(index, str(folder)))
        found = open_index(folder / f"h{number}")
    except SourceError:
        return
    finally:
        (folder / f"h{number}").unlink(missing_ok=True)
    reader = reader_of(folder, made, found)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", StaleIndexWarning)
        for selection in ([slice(None), 2, 4], [slice(None)] * 3, [3, slice(None, None, 2), slice(1, 3)]):
            try:
                assert reader.read(selection).dtype == made.dtype
            except CfaggError:
                continue


def changed(column: Any, at: int, value: int) -> Any:
    """Return a column with another value at a place."""
    if isinstance(column, Ragged):
        values = column.values.copy()
        values[at % max(values.size, 1) : at % max(values.size, 1) + 1] = value
        return Ragged(values, column.bounds)
    values = np.array(column)
    values[at % values.size] = value
    return values


NUMBERS = ("size", "mtime_ns", "inode", "record", "header")
LISTS = ("ranges", "shape", "chunks", "cell", "offset", "length", "mask")
HUGE = [-1, -(2**63), 0, 1, 2**31, 2**40, 2**61, 2**62, 2**63 - 1]


@pytest.mark.few(4)
@pytest.mark.parametrize("name", [*NUMBERS[:4], *LISTS])
def test_odd_numbers_are_refused_or_do_no_harm(case: Case, name: str) -> None:
    for at, value in enumerate(HUGE):
        read_by(case, dataclasses.replace(case[3], **{name: changed(getattr(case[3], name), at, value), "_parsed": {}}))


def test_offsets_that_overlap_are_read_as_they_are(case: Case) -> None:
    offset = case[3].offset
    read_by(case, dataclasses.replace(case[3], offset=Ragged(np.full_like(offset.values, 16), offset.bounds)))


@pytest.mark.parametrize(
    "header",
    [
        "",
        "[]",
        "{}",
        "[" * 100_000,
        '{"path":"tas","dims":["time"],"dtype":"O","codecs":[],"attributes":{}}',
        '{"path":"tas","dims":["time","lat","lon"],"dtype":"<f4","codecs":[[99,[1]]],"attributes":{}}',
        '{"path":"tas","dims":["time","lat","lon"],"dtype":"<f4","codecs":[],"attributes":{"a":{"type":"|O","bytes":""}}}',
        '{"path":"tas","dims":["time","lat","lon"],"dtype":"<f4","codecs":[],"attributes":{"scale_factor":[]}}',
        '{"path":"tas","dims":["time","lat","lon"],"dtype":"<f4","codecs":[],"attributes":{"units":{"type":"<U1","bytes":"ffffffff"}}}',
        '{"path":"tas","dims":["time","lat","lon"],"dtype":"<f4","codecs":[[2,[1e999]]],"attributes":{}}',
        '{"path":"tas","dims":["time","lat","lon"],"dtype":"<f4","codecs":[[1,[]]],"attributes":{},"fill":"00"}',
        '{"path":"tas","dims":["time","lat","lon"],"dtype":"<f4","codecs":[[2,[-4]],[1,[]]],"attributes":{}}',
        '{"path":"tas","dims":["time","lat","lon"],"dtype":"<f4","codecs":[[2,[1000000000000]],[1,[]]],"attributes":{}}',
    ],
    ids=range(13),
)
def test_odd_headers_are_refused_or_do_no_harm(case: Case, header: str) -> None:
    found = read_header(header)
    assert found is None or found.path == "tas"
    read_by(case, dataclasses.replace(case[3], headers=[header] * len(case[3].headers), _parsed={}))


@pytest.mark.parametrize("seed", [pytest.param(n, marks=[pytest.mark.soak] if n else []) for n in range(9)])
def test_numbers_at_random_places_do_no_harm(case: Case, seed: int) -> None:
    rng = np.random.default_rng(seed)
    for number in range(100 if seed else 5):
        index = case[3]
        for _ in range(rng.integers(1, 4)):
            name = str(rng.choice([*NUMBERS[:4], *LISTS]))
            value = int(rng.choice([*HUGE, *rng.integers(0, 5000, 12)]))
            index = dataclasses.replace(index, **{name: changed(getattr(index, name), int(rng.integers(99)), value)})
        read_by(case, dataclasses.replace(index, _parsed={}), number)


def alike(index: Index, count: int) -> Index:
    """Return an index whose last variable has so many chunks, all of them at the same place."""
    found = {}
    for name in ("offset", "length", "cell", "mask"):
        old = getattr(index, name)
        values = np.concatenate([old.values[: old.bounds[-2]], np.zeros(count, np.int64)])
        found[name] = Ragged(values, np.append(old.bounds[:-1], len(values)))
    return dataclasses.replace(index, **found)


def test_an_index_that_says_more_than_its_bytes_can_is_refused_before_it_is_unpacked(
    case: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = _sealed(_encoded(alike(case[3], 2**20), str(case[0])))
    (case[0] / "forged").write_bytes(data)
    assert len(data) < 2**16
    monkeypatch.setattr("pyarrow.parquet.ParquetFile", None)
    with pytest.raises(SourceError, match="too many"):
        open_index(case[0] / "forged")


def test_an_index_of_many_equal_values_is_written_so_that_it_is_taken(
    case: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cfagg.arrays.index.parquet._FEW_VALUES", 1000)
    many = alike(case[3], 2**18)
    (case[0] / "equal").write_bytes(_sealed(_encoded(many, str(case[0]))))
    with pytest.raises(SourceError, match="too many"):
        open_index(case[0] / "equal")
    (case[0] / "equal").write_bytes(index_bytes(many, str(case[0])))
    assert open_index(case[0] / "equal").offset.counts[-1] == 2**18
