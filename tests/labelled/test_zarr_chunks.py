"""Chunks that Dask makes of Zarr stores: those that are stored, also of unequal lengths, and how they are written."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import dask.array as da
import numpy as np
import pytest
import xarray as xr
import zarr

import cfagg
from cfagg.errors import LimitError
from cfagg.formats.zarr import grids
from cfagg.writing.zarr.blocks import Blocks, write_blocks
from tests.observations.servers import served

OPENERS: dict[str, Callable[[Path], Any]] = {
    "engine": lambda store: xr.open_dataset(store, engine="cfagg", chunks={}),
    "read": lambda store: cfagg.read(store, chunks={}),
}


@pytest.fixture
def store(tmp_path: Path) -> Path:
    times = da.arange(12, chunks=4)
    kept = times[times % 3 > 0]
    tas = da.from_array(np.arange(60.0).reshape(12, 5), chunks=(4, 3))[times % 3 > 0]
    write_blocks({"time": Blocks(kept, ("time",)), "tas": Blocks(tas, ("time", "x"))}, tmp_path / "a.zarr")
    return tmp_path / "a.zarr"


@pytest.mark.parametrize("opener", OPENERS)
def test_dask_has_the_edges_that_are_stored(opener, store):
    ds = OPENERS[opener](store)
    assert ds.tas.chunks == ((2, 3, 3), (3, 2))
    np.testing.assert_array_equal(ds.tas.values, np.arange(60.0).reshape(12, 5)[np.arange(12) % 3 > 0])


@pytest.mark.parametrize("opener", OPENERS)
def test_edges_of_what_was_opened_are_kept_where_cfagg_writes_it(opener, store, tmp_path):
    ds = OPENERS[opener](store)
    write_blocks({"tas": Blocks(ds.tas.data * 2, ("time", "x"))}, tmp_path / "b.zarr")
    assert cfagg.open_array(tmp_path / "b.zarr", "tas").chunks == ds.tas.chunks
    np.testing.assert_array_equal(cfagg.open_array(tmp_path / "b.zarr", "tas")[...], ds.tas.values * 2)


def test_cfagg_writes_the_edges_of_a_dataset_back_and_xarray_refuses_them(store, tmp_path):
    ds = xr.open_dataset(store, engine="cfagg", chunks={})
    cfagg.write(ds, tmp_path / "b.zarr")
    again = xr.open_dataset(tmp_path / "b.zarr", engine="cfagg", chunks={})
    assert again.tas.chunks == ds.tas.chunks
    xr.testing.assert_equal(again.load(), ds.load())
    with pytest.raises(ValueError, match="Zarr requires uniform chunk sizes"):
        xr.open_dataset(store, engine="cfagg", chunks={}).to_zarr(tmp_path / "c.zarr")


@pytest.mark.few(4)
@pytest.mark.parametrize("opener", OPENERS)
@pytest.mark.parametrize(("size", "chunks"), [(10, (2, 6, 2)), (8, (2, 6)), (5, (2, 3)), (2, (2,)), (1, (1,))])
def test_a_last_chunk_that_is_longer_than_what_is_left_is_cut_for_dask(opener, size, chunks, tmp_path):
    """The extension allows edges beyond the end of the array, as those of an array that was made shorter."""
    store = tmp_path / "a.zarr"
    cfagg.write(xr.Dataset({"x": ("n", da.arange(12, chunks=((2, 6, 4),)))}), store)
    (store / "zarr.json").write_text('{"zarr_format": 3, "node_type": "group"}')
    document = json.loads((store / "x/zarr.json").read_text())
    (store / "x/zarr.json").write_text(json.dumps(document | {"shape": [size]}))
    ds = OPENERS[opener](store)
    assert ds.x.chunks == cfagg.open_array(store, "x").to_dask().chunks == (chunks,)
    assert ds.x.values.tolist() == list(range(size))
    cfagg.write(ds, tmp_path / "b.zarr")
    assert cfagg.open_array(tmp_path / "b.zarr", "x").chunks == (chunks,)


def test_the_edges_of_a_regular_grid_are_told_by_their_length(tmp_path):
    store = str(tmp_path / "c.zarr")
    zarr.create_array(store, name="x", shape=(10**12,), chunks=(4,), dtype="i1", dimension_names=["n"])
    ds = xr.open_dataset(store, engine="cfagg")
    assert ds.x.encoding["preferred_chunks"] == {"n": 4}


@pytest.mark.parametrize("consolidated", [False, True])
def test_one_array_of_very_many_unequal_chunks_does_not_hide_the_others(consolidated, tmp_path, monkeypatch):
    lengths = [3, 1, 2, 1, 1, 3, 1]
    written = {"few": ("x", np.arange(5)), "many": ("n", da.arange(12, chunks=(lengths,)), {"units": "m"})}
    cfagg.write(xr.Dataset(written), tmp_path / "a.zarr")
    zarr.create_array(tmp_path / "a.zarr/text", shape=(12,), chunks=(4,), dtype=str, dimension_names=["n"])[:] = "a"
    document = json.loads((tmp_path / "a.zarr/text/zarr.json").read_text())
    grid = json.loads((tmp_path / "a.zarr/many/zarr.json").read_text())["chunk_grid"]
    (tmp_path / "a.zarr/text/zarr.json").write_text(json.dumps(document | {"chunk_grid": grid}))
    if consolidated:
        with zarr.config.set({"array.rectilinear_chunks": True}):
            zarr.consolidate_metadata(tmp_path / "a.zarr")
    else:
        (tmp_path / "a.zarr/zarr.json").write_text('{"zarr_format": 3, "node_type": "group"}')
    monkeypatch.setattr(grids, "_LISTED", 5)
    monkeypatch.setattr(grids, "_COARSE", 3)
    for ds in (cfagg.read(tmp_path / "a.zarr"), cfagg.read(tmp_path / "a.zarr", chunks={})):
        assert ds.few.values.tolist() == list(range(5))
        assert ds.many.values.tolist() == list(range(12))
        assert ds.many[3:9:2].values.tolist() == [3, 5, 7]
        assert ds.many.attrs == {"units": "m"}
        with pytest.raises(LimitError, match=r"array 'text' .* is decoded by zarr-python and has more chunks"):
            _ = ds.text.values
    assert ds.many.chunks == ((4, 4, 4),)
    assert cfagg.open_array(tmp_path / "a.zarr", "many").chunks == (tuple(lengths),)


@pytest.mark.parametrize(
    ("others", "told"), [([[50, 2]], (50, 50)), ([70, 30], (50, 50)), ([100], (100,)), (50, (50, 50))]
)
def test_dimensions_of_few_chunks_are_not_cut_beside_one_of_very_many(others, told, tmp_path, monkeypatch):
    lengths = [3, 1, 2, 1, 1, 3, 1]
    zarr.create_group(tmp_path / "a.zarr").create_array(
        "v", shape=(12, 100), chunks=(1, 50), dtype="i4", fill_value=6, dimension_names=["n", "m"]
    )
    document = json.loads((tmp_path / "a.zarr/v/zarr.json").read_text())
    grid = {"name": "rectilinear", "configuration": {"kind": "inline", "chunk_shapes": [lengths, others]}}
    (tmp_path / "a.zarr/v/zarr.json").write_text(json.dumps(document | {"chunk_grid": grid}))
    monkeypatch.setattr(grids, "_LISTED", 5)
    monkeypatch.setattr(grids, "_COARSE", 3)
    ds = cfagg.read(tmp_path / "a.zarr", chunks={})
    assert ds.v.chunks == ((4, 4, 4), told)
    assert (ds.v.values == 6).all()


@pytest.mark.parametrize("shards", [None, ([4, 4, 8, 4, 4],)])
def test_very_many_unequal_chunks_are_read_in_shards_in_zip_files_and_from_web_servers(shards, tmp_path, monkeypatch):
    folder = tmp_path / "web" / "a.zarr"
    with zarr.config.set({"array.rectilinear_chunks": True}):
        group = zarr.create_group(folder)
        made = group.create_array(
            "v", shape=(24,), chunks=(2,) if shards else ([4, 4, 8, 4, 4],), shards=shards, dtype="i4",
            dimension_names=["n"],
        )  # fmt: skip
        made[:] = np.arange(24)
        zarr.consolidate_metadata(folder)
    with zipfile.ZipFile(tmp_path / "a.zarr.zip", "w") as packed:
        for path in folder.rglob("*"):
            packed.write(path, path.relative_to(folder))
    monkeypatch.setattr(grids, "_LISTED", 2)
    # Fifths of the array are not whole chunks of a shard.
    monkeypatch.setattr(grids, "_COARSE", 5)
    with served(tmp_path / "web") as server:
        for place in (folder, tmp_path / "a.zarr.zip", f"{server.url}/a.zarr"):
            ds = cfagg.read(place, chunks={})
            assert ds.v[3:].values.tolist() == list(range(3, 24))
            assert max(ds.v.chunks[0]) <= 8
            assert ds.v.attrs == {}
            assert cfagg.open_array(place, "v")[::3].tolist() == list(range(0, 24, 3))
