"""A store with an accumulation is a store like any other: zarr-python, xarray and the text's own schemas take it."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest
import xarray as xr
import zarr
from jsonschema import Draft7Validator

import cfagg
from cfagg.errors import StaleError

from .reference import chunk_edges, write_source

DIMS = ("time", "latitude", "longitude")
CHUNKS = (4, 3, 5)
COMBINATIONS = [("time",), ("latitude",), ("longitude",), ("latitude", "longitude")]
ROOT = Path(__file__).parents[2]
GROUP = "tas_accumulation_group"

formats = pytest.mark.parametrize("zarr_format", [2, 3])


@pytest.fixture
def raw() -> np.ndarray:
    """Return values of which some are missing."""
    values = np.random.default_rng(5).normal(280, 9, (11, 7, 12)).astype("f4")
    values[2:5, 1, 3:6] = np.nan
    return values


def accumulated(store: Path, raw: np.ndarray, zarr_format: int, **options: object) -> Path:
    """Write a store with coordinates and build its accumulation."""
    attributes = {"units": "K", "standard_name": "air_temperature"}
    write_source(store, "tas", raw, DIMS, CHUNKS, zarr_format=zarr_format, attributes=attributes)
    cfagg.accumulate(store, "tas", COMBINATIONS, **options)
    return store


def running(values: np.ndarray, axes: tuple[int, ...]) -> np.ndarray:
    """Return inclusive sums over the named axes at the ends of the chunks."""
    for axis in axes:
        ends = chunk_edges(values.shape[axis], CHUNKS[axis])[1:] - 1
        values = values.cumsum(axis=axis).take(ends, axis=axis)
    return values


@formats
def test_zarr_python_reads_the_sums_as_ordinary_arrays(tmp_path, raw, zarr_format):
    group = zarr.open_group(accumulated(tmp_path / "s.zarr", raw, zarr_format), mode="r")[GROUP]
    assert group.metadata.zarr_format == zarr_format
    data, counts = np.where(np.isnan(raw), 0, raw).astype("f8"), (~np.isnan(raw)).astype("i8")
    tree = group.attrs["_ACCUMULATION_GROUP"]
    for dims in COMBINATIONS:
        names = tree
        for d in dims:
            names = names[d]
        axes = tuple(DIMS.index(d) for d in dims)
        np.testing.assert_allclose(group[names["_DATA_UNWEIGHTED"]][:], running(data, axes), rtol=1e-12)
        np.testing.assert_array_equal(group[names["_WEIGHTS"]][:], running(counts, axes))


@formats
def test_every_array_of_the_group_opens_and_is_wholly_stored(tmp_path, raw, zarr_format):
    group = zarr.open_group(accumulated(tmp_path / "s.zarr", raw, zarr_format), mode="r")[GROUP]
    arrays = dict(group.arrays())
    assert len(arrays) >= 2 * len(COMBINATIONS)
    for name, array in arrays.items():
        assert array.nchunks_initialized == array.nchunks, name
        assert array[...].shape == array.shape


@formats
def test_attributes_satisfy_the_schemas_as_the_text_prints_them(tmp_path, raw, zarr_format):
    group = zarr.open_group(accumulated(tmp_path / "s.zarr", raw, zarr_format), mode="r")[GROUP]
    schemas = [json.loads(p.read_text()) for p in sorted((ROOT / "conventions/schemas").glob("*.json"))]
    of_group = [s for s in schemas if "_ACCUMULATION_GROUP" in s.get("required", ())]
    of_array = [s for s in schemas if "_ACCUMULATION_STRIDE" in s.get("required", ())]
    assert len(of_group) == len(of_array) == 1
    Draft7Validator(of_group[0]).validate(dict(group.attrs))
    sums = [a for a in dict(group.arrays()).values() if "_ACCUMULATION_STRIDE" in a.attrs]
    assert len(sums) >= 2 * len(COMBINATIONS)
    for array in sums:
        Draft7Validator(of_array[0]).validate(dict(array.attrs))
        assert len(array.attrs["_ACCUMULATION_STRIDE"]) == len(array.attrs["_ARRAY_DIMENSIONS"]) == array.ndim


@pytest.mark.few(1)
@formats
def test_xarray_opens_the_store_as_before(tmp_path, raw, zarr_format):
    write_source(tmp_path / "plain.zarr", "tas", raw, DIMS, CHUNKS, zarr_format=zarr_format)
    accumulated(tmp_path / "s.zarr", raw, zarr_format)
    plain = xr.open_zarr(tmp_path / "plain.zarr", consolidated=False)
    for chunks in (None, {}):
        with xr.open_zarr(tmp_path / "s.zarr", consolidated=False, chunks=chunks) as found:
            assert set(found.variables) == set(plain.variables)
            np.testing.assert_array_equal(found["tas"], plain["tas"])
            if chunks is not None:
                np.testing.assert_allclose(found["tas"].mean().compute(), np.nanmean(raw, dtype="f8"), rtol=1e-6)


@formats
def test_xarray_opens_the_group_of_sums_with_its_dimensions(tmp_path, raw, zarr_format):
    store = accumulated(tmp_path / "s.zarr", raw, zarr_format)
    # Each combination samples other positions: xarray opens the arrays of one at a time.
    group = zarr.open_group(store, mode="r")[GROUP]
    others = [name for name in group.array_keys() if "time" not in name or name.count("_") > 1]
    with xr.open_zarr(store, group=GROUP, consolidated=False, drop_variables=others) as found:
        # Zarr version 2 has no place for other names than those that the convention prescribes.
        time = "time" if zarr_format == 2 else "time_accumulated"
        assert found["acc_time"].dims == (time, *DIMS[1:])
        assert found["acc_time"].sizes == {time: 3, "latitude": 7, "longitude": 12}


def test_consolidated_metadata_list_the_group_in_version_3_alone(tmp_path, raw):
    for zarr_format in (2, 3):
        store = tmp_path / f"v{zarr_format}.zarr"
        write_source(store, "tas", raw, DIMS, CHUNKS, zarr_format=zarr_format)
        zarr.consolidate_metadata(store, zarr_format=zarr_format)
        cfagg.accumulate(store, "tas", COMBINATIONS)
        root = zarr.open_consolidated(store, zarr_format=zarr_format)
        # Those of version 2 leave it out, for xarray opens every group that they list.
        assert (f"{GROUP}/acc_time" in root) == (zarr_format == 3)
        with xr.open_zarr(store, consolidated=True) as found:
            np.testing.assert_array_equal(found["tas"], raw)


def test_a_store_that_had_no_consolidated_metadata_gets_none(tmp_path, raw):
    store = accumulated(tmp_path / "s.zarr", raw, 3)
    assert "consolidated_metadata" not in json.loads((store / "zarr.json").read_text())


def test_nothing_else_of_the_store_is_touched(tmp_path, raw):
    store = tmp_path / "s.zarr"
    write_source(store, "tas", raw, DIMS, CHUNKS)
    before = {p: (p.stat().st_mtime_ns, p.read_bytes()) for p in store.rglob("*") if p.is_file()}
    cfagg.accumulate(store, "tas", COMBINATIONS)
    assert {p: (p.stat().st_mtime_ns, p.read_bytes()) for p in before} == before
    new = {p.relative_to(store).parts[0] for p in store.rglob("*") if p.is_file() and p not in before}
    assert new == {GROUP}
    assert [p.name for p in tmp_path.iterdir()] == ["s.zarr"]


@formats
def test_the_text_of_its_metadata_names_no_place_of_the_machine(tmp_path, raw, zarr_format):
    store = accumulated(tmp_path / "s.zarr", raw, zarr_format)
    for path in (store / GROUP).rglob("*"):
        if path.name in ("zarr.json", ".zattrs", ".zarray", ".zgroup"):
            assert not re.search(re.escape(str(tmp_path)), path.read_text())


@pytest.mark.few(1)
@formats
def test_a_region_written_through_xarray_makes_the_accumulation_refuse(tmp_path, raw, zarr_format):
    store = accumulated(tmp_path / "s.zarr", raw, zarr_format)
    acc = cfagg.open_accumulated(store, "tas")
    new = xr.Dataset({"tas": (DIMS, np.full((4, 7, 12), 250, "f4"))})
    new.to_zarr(store, region={"time": slice(4, 8)}, consolidated=False)
    with pytest.raises(StaleError, match="cfagg accumulate"):
        acc.mean("time")
    cfagg.accumulate(store, "tas", refresh=True)
    found = cfagg.open_accumulated(store, "tas").mean("time")
    raw[4:8] = 250
    np.testing.assert_allclose(found, np.nanmean(raw, axis=0, dtype="f8"), rtol=1e-9)


def test_a_store_that_xarray_wrote_and_extended_is_accumulated_and_extended(tmp_path, raw):
    store = tmp_path / "s.zarr"
    time = xr.date_range("2001-01-01", periods=22, calendar="noleap", use_cftime=True)
    whole = xr.Dataset(
        {"tas": (DIMS, np.concatenate([raw, raw + 1]), {"units": "K"})},
        {"time": time, "latitude": np.linspace(-60, 60, 7), "longitude": np.arange(12) * 30.0},
    )
    first = whole.isel(time=slice(0, 11))
    first.to_zarr(store, encoding={"tas": {"chunks": CHUNKS}})
    cfagg.accumulate(store, "tas", [("time",)])
    whole.isel(time=slice(11, 22)).to_zarr(store, append_dim="time")
    cfagg.accumulate(store, "tas", append=True)
    with xr.open_zarr(store) as found:
        expected = found["tas"].astype("f8").mean("time").compute()
    got = cfagg.open_accumulated(store, "tas").mean("time")
    np.testing.assert_allclose(got, expected, rtol=1e-12)
    np.testing.assert_array_equal(got["latitude"], whole["latitude"])
