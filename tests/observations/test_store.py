"""Opening stores: those of the published software unchanged, cfagg's own layout, and what is none."""

from __future__ import annotations

import json
import multiprocessing
import pickle
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import zarr

from cfagg.errors import ConventionError, FragmentMismatchError, LimitError, SourceError, UnsupportedError
from cfagg.observations.store import open_store
from tests.observations.small_stores import NEW_YEAR, hourly, table
from tests.observations.written import values, write_array, write_rows

PUBLISHED = Path(__file__).parent / "published" / "bisect.zarr"
ROWS, WIDTH = json.loads((PUBLISHED / "data" / ".zarray").read_text())["shape"]
VARIABLES = tuple(json.loads((PUBLISHED / ".zattrs").read_text())["variables"])


@pytest.fixture
def copied(tmp_path):
    return Path(shutil.copytree(PUBLISHED, tmp_path / "a.zarr"))


def change(path: Path, **values) -> None:
    document = json.loads(path.read_text())
    path.write_text(json.dumps(document | values))


def test_a_store_of_the_published_software_opens_unchanged():
    store = open_store(PUBLISHED)
    assert (store.rows, store.variables, store.zarr_format) == (ROWS, VARIABLES, 2)
    expected = zarr.open_array(PUBLISHED / "data", mode="r")[:]
    assert np.array_equal(store.data.read(0, ROWS), expected, equal_nan=True)
    first, last = (int(expected[i, 0]) * 86400 + int(expected[i, 1]) for i in (0, -1))
    assert (store.start, store.end) == (first, last)


def test_statistics_are_those_that_are_stored():
    found = open_store(PUBLISHED).statistics
    assert sorted(found) == ["maximum", "mean", "minimum", "stdev"]
    assert np.array_equal(found["mean"], zarr.open_array(PUBLISHED / "mean", mode="r")[:])
    assert not found["mean"].flags.writeable
    with pytest.raises(TypeError):
        found["mean"] = 1


def test_the_own_layout_opens_as_well(tmp_path):
    rows = values(1000)
    rows[:, 1] = 0
    write_array(tmp_path / "s", "shards", rows)
    change(tmp_path / "s" / "zarr.json", attributes={"layout": "tabular", "variables": ["a", "b", "c"]})
    store = open_store(tmp_path / "s")
    assert (store.rows, store.zarr_format, dict(store.statistics)) == (1000, 3, {})
    assert np.array_equal(store.data.read(0, 1000), rows, equal_nan=True)


@pytest.mark.parametrize("layout", ["zarr2", "cfagg"])
def test_rows_written_are_the_rows_read(tmp_path, layout):
    random = np.random.default_rng(0)
    rows = table(NEW_YEAR + random.integers(0, 86400, 5000), variables=9)
    rows[random.random(rows.shape) < 0.1 * (np.arange(13) > 3)] = np.nan
    rows = rows[np.lexsort(rows.T[::-1])]
    write_rows(tmp_path / "s.zarr", [f"v{i}" for i in range(9)], rows, format=layout, rows_per_chunk=1024)
    store = open_store(tmp_path / "s.zarr")
    assert np.array_equal(store.data.read(0, 5000).view("u4"), rows.view("u4"))
    for start, stop in ((0, 1), (1000, 1100), (1023, 1025), (4999, 5000), (2040, 4100)):
        assert np.array_equal(store.data.read(start, stop).view("u4"), rows[start:stop].view("u4"))
    assert np.array_equal(zarr.open_array(tmp_path / "s.zarr" / "data", mode="r")[:].view("u4"), rows.view("u4"))


def test_a_store_of_no_rows_opens(tmp_path):
    path, _ = hourly(tmp_path / "s", days=0)
    store = open_store(path)
    assert (store.rows, store.start, store.end) == (0, None, None)
    assert len(store.identity) == 32


def test_the_identity_is_that_of_a_copy(copied):
    assert open_store(copied).identity == open_store(PUBLISHED).identity


@pytest.mark.parametrize("what", ["chunk", "cut", "variables", "uuid", "gone", "metadata"])
def test_the_identity_changes_with_the_store(copied, what):
    before = open_store(copied).identity
    chunk = copied / "data" / "1.0"
    stored = bytearray(chunk.read_bytes())
    if what == "chunk":
        stored[-1] ^= 1
        chunk.write_bytes(stored)
    elif what == "cut":
        chunk.write_bytes(stored[:-1])
    elif what == "gone":
        chunk.unlink()
    elif what == "metadata":
        change(copied / "data" / ".zarray", fill_value=1.0)
    else:
        change(copied / ".zattrs", **{what: [f"v{i}" for i in range(WIDTH - 4)] if what == "variables" else "other"})
    assert open_store(copied).identity != before


def test_a_store_pickles_also_after_use():
    store = open_store(PUBLISHED)
    before = (store.identity, store.span, store.statistics["mean"].tolist())
    again = pickle.loads(pickle.dumps(store))
    assert (again.identity, again.span, again.statistics["mean"].tolist()) == before
    assert np.array_equal(again.data.read(5, 50), store.data.read(5, 50), equal_nan=True)


def _rows(store):
    return store.data.read(100, 120)


@pytest.mark.parametrize("method", ["fork", pytest.param("spawn", marks=pytest.mark.full)])
def test_a_store_is_read_in_worker_processes(method):
    store = open_store(PUBLISHED)
    with multiprocessing.get_context(method).Pool(1) as pool:
        assert np.array_equal(pool.apply(_rows, (store,)), _rows(store), equal_nan=True)


def test_opening_and_reading_load_nothing_heavy():
    code = (
        "import sys; from cfagg.observations.store import open_store; "
        f"s = open_store({str(PUBLISHED)!r}); s.data.read(0, s.rows); s.statistics, s.identity; "
        "print([m for m in ('numba', 'zarr', 'xarray', 'pandas', 'dask', 'pyarrow') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


# ---- what is not a store -------------------------------------------------------------------------------------------


def test_a_directory_that_is_no_store_is_told(tmp_path):
    with pytest.raises(SourceError, match=r"neither \.zgroup nor zarr\.json"):
        open_store(tmp_path)


def test_a_store_of_fields_is_told(tmp_path):
    zarr.create_group(tmp_path / "s", zarr_format=2, attributes={"layout": "gridded"})
    with pytest.raises(ConventionError, match=r"not an observation store.*'gridded'"):
        open_store(tmp_path / "s")


def test_a_store_without_rows_in_it_is_told(copied):
    shutil.rmtree(copied / "data")
    with pytest.raises(SourceError, match="no array 'data': the store is incomplete"):
        open_store(copied)


@pytest.mark.parametrize(
    "change_to", [{"shape": [60, 3], "chunks": [9, 3]}, {"dtype": "<f8"}, {"shape": [60], "chunks": [9]}]
)
def test_data_of_another_shape_or_type_are_told(copied, change_to):
    change(copied / "data" / ".zarray", **change_to)
    with pytest.raises(ConventionError, match=f"expected float32 with {WIDTH} columns"):
        open_store(copied)


@pytest.mark.parametrize(
    ("change_to", "error", "message"),
    [
        ({"shape": [-1, 7]}, SourceError, "expected a list of sizes"),
        ({"shape": "x", "chunks": 3, "fill_value": "y"}, SourceError, "violate the Zarr specification"),
        ({"chunks": [0, 7]}, SourceError, "chunk lengths of at least 1"),
        ({"dtype": "<c8"}, UnsupportedError, "data type"),
        ({"dimension_separator": "-"}, SourceError, "expected . or /"),
        ({"zarr_format": 5}, SourceError, "expected 2, found 5"),
        ({"order": "X"}, SourceError, "expected C or F"),
        ({"filters": 3}, SourceError, "expected a list"),
        ({"compressor": "blosc"}, SourceError, "expected an object"),
    ],
)
def test_metadata_that_break_the_specification_are_told(copied, change_to, error, message):
    change(copied / "data" / ".zarray", **change_to)
    with pytest.raises(error, match=message):
        open_store(copied)


@pytest.mark.parametrize("text", ["{", "[]", "[" * 100_000, '{"a": "\udcff"}'])
def test_a_document_that_is_no_json_object_is_told(copied, text):
    (copied / ".zattrs").write_bytes(text.encode("utf-8", "surrogateescape"))
    with pytest.raises((SourceError, LimitError), match=r"\.zattrs"):
        open_store(copied)


def test_a_root_that_is_an_array_is_told(tmp_path):
    zarr.create_array(tmp_path / "s", shape=(3,), dtype="f4", zarr_format=3)
    with pytest.raises(SourceError, match="does not describe a group"):
        open_store(tmp_path / "s")


def test_statistics_of_another_size_are_told(copied):
    change(copied / "mean" / ".zarray", shape=[2])
    with pytest.raises(FragmentMismatchError, match=r"'mean' has the shape \(2,\)"):
        _ = open_store(copied).statistics


def test_more_chunks_than_a_directory_holds_are_not_listed(copied, monkeypatch):
    array = open_store(copied).data.array
    chunks = -(-ROWS // array.held[0]) * -(-array.shape[1] // array.held[1])
    monkeypatch.setattr("cfagg.observations.store._MOST", chunks)
    assert len(open_store(copied).objects()) == chunks
    monkeypatch.setattr("cfagg.observations.store._MOST", chunks - 1)
    with pytest.raises(UnsupportedError, match=f"{chunks:,} chunks, more than"):
        open_store(copied).objects()


def test_a_first_row_of_no_date_is_told(tmp_path):
    rows = values(10)
    rows[0, 1] = np.nan
    write_array(tmp_path / "s", "shards", rows)
    change(tmp_path / "s" / "zarr.json", attributes={"layout": "tabular", "variables": ["a", "b", "c"]})
    with pytest.raises(ConventionError, match="row 0 has the day"):
        _ = open_store(tmp_path / "s").start
