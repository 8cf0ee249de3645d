"""How chunks of rows become bytes, as numcodecs and zarr read them."""

from __future__ import annotations

import json

import numcodecs
import numpy as np
import pytest
import zarr
from numcodecs import Blosc

from cfagg.errors import ConventionError, LimitError, TargetError
from cfagg.observations.layouts import (
    INNER_ROWS,
    SHARD_ROWS,
    DataLayout,
    array_files,
    write_bytes,
    write_document,
)
from tests.poison import POISONS, poisoned


@pytest.mark.parametrize("poison", POISONS)
@pytest.mark.parametrize("count", [1, 4, 5])
def test_a_chunk_is_filled_up_with_zeros(poison, count):
    layout = DataLayout("zarr2", 7, 3, 5, 5)
    rows = np.arange(1, 3 * count + 1, dtype="f4").reshape(count, 3)
    with poisoned(poison):
        stored = layout.encode(rows)
    found = np.frombuffer(Blosc().decode(stored), "f4").reshape(5, 3)
    np.testing.assert_array_equal(found, np.pad(rows, ((0, 5 - count), (0, 0))))


@pytest.mark.parametrize("poison", POISONS)
@pytest.mark.parametrize("count", [1, 4, 5, 8])
def test_the_last_chunk_of_a_shard_is_filled_up_with_zeros_and_those_behind_it_are_absent(poison, count):
    layout = DataLayout("cfagg", 9, 3, 8, 4)
    rows = np.arange(1, 3 * count + 1, dtype="f4").reshape(count, 3)
    with poisoned(poison):
        stored = layout.encode(rows)
    index = np.frombuffer(stored[-4 - 32 : -4], "<u8").reshape(2, 2)
    used = -(-count // 4)
    assert (index[used:] == 2**64 - 1).all()
    found = np.concatenate([np.frombuffer(Blosc().decode(stored[a : a + n]), "f4") for a, n in index[:used].tolist()])
    np.testing.assert_array_equal(found.reshape(-1, 3), np.pad(rows, ((0, 4 * used - count), (0, 0))))
    assert sum(n for _, n in index[:used].tolist()) + 36 == len(stored)


@pytest.mark.parametrize(
    ("form", "given", "chunk", "inner"),
    [
        ("zarr2", None, 900, 900), ("zarr2", 5, 5, 5), ("zarr2", 901, 900, 900),
        ("cfagg", None, SHARD_ROWS, INNER_ROWS),
        ("cfagg", 5, 5, 5), ("cfagg", INNER_ROWS, INNER_ROWS, INNER_ROWS),
        ("cfagg", INNER_ROWS + 1, 2 * INNER_ROWS, INNER_ROWS), ("cfagg", 2 * INNER_ROWS, 2 * INNER_ROWS, INNER_ROWS),
    ],
)  # fmt: skip
def test_rows_of_a_chunk_and_of_a_shard(form, given, chunk, inner):
    layout = DataLayout.choose(form, 900, 6, given)
    assert (layout.chunk, layout.inner) == (chunk, inner)


def test_chunks_have_64_mib_where_nothing_is_asked_for():
    assert DataLayout.choose("zarr2", 10**9, 6).chunk == round(2**26 / 24)
    assert DataLayout.choose("zarr2", 0, 6).chunk == 1
    assert DataLayout.choose("zarr2", 10**9, 2**25).chunk == 1


def test_what_blosc_cannot_pack_is_refused():
    assert DataLayout.choose("zarr2", 10**9, 1, (2**31 - 17) // 4).chunk == (2**31 - 17) // 4
    with pytest.raises(LimitError, match="more than the 2,147,483,631 that Blosc packs"):
        DataLayout.choose("zarr2", 10**9, 1, (2**31 - 17) // 4 + 1)
    with pytest.raises(ConventionError, match="not a layout of a store; choose one of zarr2, cfagg"):
        DataLayout.choose("zarr", 1, 1)
    with pytest.raises(ConventionError, match="rows_per_chunk is 0"):
        DataLayout.choose("zarr2", 1, 1, 0)


@pytest.mark.parametrize(("columns", "item"), [(1, 4), (6, 24), (63, 252), (64, 128), (65, 52), (67, 4), (128, 128)])
def test_blosc_takes_a_row_or_an_equal_part_of_it_as_one_element(columns, item):
    assert DataLayout("cfagg", 9, columns, 8, 4).item == item


def test_stored_objects_cover_the_rows():
    layout = DataLayout("cfagg", 19, 3, 8, 4)
    assert layout.count == 3
    assert [layout.extent(k) for k in range(3)] == [(0, 8), (8, 16), (16, 19)]
    assert DataLayout("cfagg", 16, 3, 8, 4).count == 2


@pytest.mark.parametrize("form", ["zarr2", "cfagg"])
@pytest.mark.parametrize("values", [np.arange(3) - 1, np.array([0.5, -1e300]), np.array([], "f8")], ids=str)
def test_small_arrays_are_as_zarr_reads_them(tmp_path, form, values):
    for name, data in array_files(form, values).items():
        write_bytes(tmp_path / "x" / name, data)
    found = zarr.open_array(tmp_path / "x", mode="r")
    assert found.dtype == values.dtype
    assert found.fill_value == 0
    np.testing.assert_array_equal(found[:], values)
    assert [path.name for path in tmp_path.iterdir()] == ["x"]


@pytest.mark.parametrize("kind", ["f8", "i8"])
def test_a_small_array_is_packed_by_the_compressor_that_its_metadata_name(kind):
    values = np.arange(500).astype(kind)
    files = array_files("zarr2", values)
    document = json.loads(files[".zarray"])
    assert document["compressor"] == {"id": "blosc", "cname": "lz4", "clevel": 5, "shuffle": 1, "blocksize": 0}
    assert isinstance(document["fill_value"], int if kind == "i8" else float)
    assert files["0"] == numcodecs.get_codec(document["compressor"]).encode(values)


def test_a_chunk_of_rows_is_packed_by_the_compressor_that_its_metadata_name(tmp_path):
    layout = DataLayout("zarr2", 700, 3, 500, 500)
    rows = np.arange(1500, dtype="f4").reshape(500, 3)
    for name, document in layout.documents().items():
        write_document(tmp_path / name, document)
    array = zarr.open_array(tmp_path, mode="r")
    assert (array.shape, array.chunks, array.dtype, array.fill_value) == ((700, 3), (500, 3), np.float32, 0)
    (compressor,) = array.compressors
    assert compressor.get_config() == {"id": "blosc", "cname": "zstd", "clevel": 3, "shuffle": 2, "blocksize": 0}
    assert layout.encode(rows) == compressor.encode(rows)


def test_a_document_is_there_whole_or_not_at_all(tmp_path):
    write_document(tmp_path / "new" / "zarr.json", {"b": 1, "a": [2.5]})
    assert json.loads((tmp_path / "new" / "zarr.json").read_text()) == {"a": [2.5], "b": 1}
    (tmp_path / "taken" / "below").mkdir(parents=True)
    with pytest.raises(TargetError, match="taken cannot be written"):
        write_document(tmp_path / "taken", {})
    assert sorted(p.name for p in tmp_path.iterdir()) == ["new", "taken"]
    with pytest.raises(ValueError, match="JSON"):
        write_document(tmp_path / "c", {"c": float("nan")})
    assert not (tmp_path / "c").exists()
